"""Batches arrive in order and, with idempotence, once: over lost answers and moved leaders."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.memory import HANG_UP, MemoryBroker, MemoryCluster, MemoryShell, topic_id

from tidelog.client import BrokerError, TimedOut, TopicPartition
from tidelog.client.produce import (
    ACKS_LEADER,
    ACKS_NONE,
    Produced,
    ProducerIdentity,
    init_producer_id,
    produce,
    stamp,
)
from tidelog.client.producer import IN_FLIGHT_MAX, Producer
from tidelog.client.steps import Finish, Start
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.batch import BatchWalk, RecordBatch, read_batch
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.compression import Compression
from tidelog.wire.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from tidelog.wire.messages.init_producer_id import InitProducerIdResponse
from tidelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

ORDERS = [TopicPartition("orders", index) for index in range(3)]


def batch(count: int = 3, size: int = 10, **options: Any) -> bytearray:
    builder = BatchBuilder()
    for _ in range(count):
        builder.append(None, bytes(size), timestamp=1000)
    return builder.build(**options)


class MemoryLogs:
    """Partitions that check sequences as brokers do. `codes` are answered instead of appending;
    HANG_UP among them loses the answer after appending."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster(brokers=2)
        self.cluster.leaders["orders"] = {0: (1, 0), 1: (2, 0), 2: (2, 0)}
        self.appended: dict[int, list[RecordBatch]] = {0: [], 1: [], 2: []}
        self.codes: list[Any] = []
        self.requests: list[list[int]] = []
        self.remembered = 5
        """Batches of a producer. A restarted broker of Apache's remembers one."""
        self.cluster.handle(ApiKey.PRODUCE, self._produce)
        self.cluster.handle(ApiKey.DESCRIBE_PRODUCERS, self._describe_producers)
        answer = InitProducerIdResponse(error_code=0, producer_id=77, producer_epoch=0)
        self.cluster.handle(ApiKey.INIT_PRODUCER_ID, lambda *_: answer)

    def _produce(self, broker: MemoryBroker, request: Any) -> Any:
        outcome = self.codes.pop(0) if self.codes else ErrorCode.NONE
        results = []
        (topic,) = request.topic_data
        assert topic.topic_id == topic_id("orders")
        self.requests.append([data.index for data in topic.partition_data])
        for data in topic.partition_data:
            (found,) = BatchWalk(bytes(data.records))
            code, offset = self._append(data.index, found, outcome)
            results.append(
                PartitionProduceResponse(index=data.index, error_code=code, base_offset=offset)
            )
        if outcome is HANG_UP:
            return HANG_UP
        if request.acks == 0:
            return None
        return ProduceResponse(
            responses=(
                TopicProduceResponse(
                    name="orders", topic_id=topic.topic_id, partition_responses=tuple(results)
                ),
            )
        )

    def _append(self, index: int, found: RecordBatch, outcome: Any) -> tuple[int, int]:
        log = self.appended[index]
        if outcome is not HANG_UP and outcome != ErrorCode.NONE:
            return outcome, -1
        offset = sum(b.record_count for b in log)
        if found.has_producer_id:
            remembered = log[-self.remembered :]
            if any(b.base_sequence == found.base_sequence for b in remembered):
                return ErrorCode.NONE, found.base_sequence
            known = [b for b in log if b.producer_id == found.producer_id]
            following = known and (known[-1].base_sequence + known[-1].record_count) % 2**31
            if known and found.base_sequence != following:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        log.append(found)
        return ErrorCode.NONE, offset

    def _describe_producers(self, broker: MemoryBroker, request: Any) -> DescribeProducersResponse:
        (topic,) = request.topics
        return DescribeProducersResponse(
            topics=(
                TopicResponse(
                    name=topic.name,
                    partitions=tuple(self._described(index) for index in topic.partition_indexes),
                ),
            )
        )

    def _described(self, index: int) -> PartitionResponse:
        last = self.appended[index][-1]
        ends = {76: 0, 77: (last.base_sequence + last.record_count - 1) % 2**31}
        return PartitionResponse(
            partition_index=index,
            error_code=0,
            active_producers=tuple(
                ProducerState(
                    producer_id=producer_id,
                    producer_epoch=0,
                    last_sequence=last_sequence,
                    coordinator_epoch=-1,
                )
                for producer_id, last_sequence in ends.items()
            ),
        )

    def sequences(self, index: int) -> list[int]:
        return [found.base_sequence for found in self.appended[index]]


@pytest.fixture
def logs() -> MemoryLogs:
    return MemoryLogs()


@pytest.fixture
def shell(logs: MemoryLogs) -> MemoryShell:
    return MemoryShell(logs.cluster)


def test_produce_sends_one_batch_to_each_partition(logs, shell):
    found = shell.run(produce, {partition: batch() for partition in ORDERS})
    assert found == dict.fromkeys(ORDERS, Produced(0, -1, -1))
    assert sorted(logs.requests) == [[0], [1, 2]]


def test_produce_without_acks_waits_for_nothing(logs, shell):
    assert shell.run(produce, {ORDERS[0]: batch()}, acks=ACKS_NONE) == {}
    assert len(logs.appended[0]) == 1


def test_refused_records_are_named(logs, shell):
    def refuse(_: MemoryBroker, request: Any) -> ProduceResponse:
        errors = (
            BatchIndexAndErrorMessage(batch_index=2, batch_index_error_message="it has no key"),
        )
        result = PartitionProduceResponse(
            index=0, error_code=87, base_offset=-1, record_errors=errors
        )
        topic = TopicProduceResponse(topic_id=topic_id("orders"), partition_responses=(result,))
        return ProduceResponse(responses=(topic,))

    logs.cluster.handle(ApiKey.PRODUCE, refuse)
    with pytest.raises(BrokerError, match="partition orders-0: record 2: it has no key"):
        shell.run(produce, {ORDERS[0]: batch()})


@pytest.mark.parametrize("compression", list(Compression))
def test_a_stamped_batch_is_sound(compression):
    made = batch(compression=compression)
    stamp(made, ProducerIdentity(2**40, 3), 4711)
    found = read_batch(memoryview(made), 0, len(made))
    assert isinstance(found, RecordBatch)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (2**40, 3, 4711)
    assert found.crc_is_right()
    assert found.record_count == 3


def test_init_producer_id_waits_for_the_coordinator(logs, shell):
    codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    logs.cluster.handle(
        ApiKey.INIT_PRODUCER_ID,
        lambda *_: InitProducerIdResponse(error_code=codes.pop(0), producer_id=5, producer_epoch=1),
    )
    assert shell.run(init_producer_id) == ProducerIdentity(5, 1)


def test_sequences_rise_in_each_partition(logs, shell):
    acknowledged = []
    producer = Producer(on_acknowledged=lambda *what: acknowledged.append(what))
    for number in range(6):
        shell.run(producer.send, ORDERS[number % 2], batch())
    shell.run(producer.flush)
    assert logs.sequences(0) == logs.sequences(1) == [0, 3, 6]
    assert {found.producer_id for found in logs.appended[0]} == {77}
    assert sorted(acknowledged)[:3] == [
        (ORDERS[0], 3, Produced(offset, -1, -1)) for offset in (0, 3, 6)
    ]
    assert producer.unacknowledged_bytes == 0


def test_several_requests_are_on_their_way_and_not_more_than_the_broker_remembers(logs, shell):
    producer = Producer()
    shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    shell.effects.clear()
    for _ in range(IN_FLIGHT_MAX + 3):
        shell.run(producer.send, ORDERS[0], batch())
    kinds = [type(e) for e in shell.effects if isinstance(e, Start | Finish)]
    assert kinds == [Start] * IN_FLIGHT_MAX
    shell.run(producer.flush)
    assert len(logs.appended[0]) == IN_FLIGHT_MAX + 4


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE])
def test_the_first_batch_goes_alone_for_a_broker_takes_any_sequence_of_a_stranger(
    logs, shell, code
):
    producer = Producer()
    logs.codes = [code]
    for _ in range(3):
        shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    assert sum(found.record_count for found in logs.appended[0]) == 9
    sequences = logs.sequences(0)
    assert sequences[0] == 0
    assert sequences == sorted(sequences)


def test_without_idempotence_the_first_batch_need_not_go_alone(logs, shell):
    producer = Producer(acks=ACKS_LEADER, idempotent=False)
    for _ in range(2):
        shell.run(producer.send, ORDERS[0], batch())
    assert len(logs.requests) == 2


def test_what_gathers_while_a_broker_is_busy_goes_in_one_request(logs, shell):
    producer = Producer()
    shell.run(producer.send, ORDERS[1], batch())
    shell.run(producer.flush)
    logs.requests.clear()
    for _ in range(IN_FLIGHT_MAX):
        shell.run(producer.send, ORDERS[1], batch())
    for partition in ORDERS[1:]:
        shell.run(producer.send, partition, batch())
    shell.run(producer.flush)
    assert logs.requests[IN_FLIGHT_MAX:] == [[1, 2]]


def test_the_producer_waits_when_too_much_is_unsent(logs, shell):
    producer = Producer()
    for _ in range(40):
        shell.run(producer.send, ORDERS[0], batch(1, 200_000))
    assert producer.unacknowledged_bytes < 13 * 200_100


@pytest.mark.parametrize("failures", [1, 3])
def test_a_retried_batch_is_followed_by_those_behind_it(logs, shell, failures):
    producer = Producer()
    logs.codes = [ErrorCode.NONE] + [ErrorCode.NOT_ENOUGH_REPLICAS] * failures
    for _ in range(6):
        shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    assert logs.sequences(0) == [0, 3, 6, 9, 12, 15]


def test_what_is_out_of_order_behind_a_refused_batch_is_no_success(logs, shell):
    """A broker that refuses one batch again and again is asked ever more seldom."""
    producer = Producer()
    shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    logs.codes = [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.NONE, ErrorCode.NONE] * 4
    for _ in range(3):
        shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    assert logs.sequences(0) == [0, 3, 6, 9]
    assert shell.pauses == [100, 200, 400, 800]


def test_a_lost_answer_makes_no_duplicate(logs, shell):
    producer = Producer()
    logs.codes = [ErrorCode.NONE, HANG_UP]
    for _ in range(4):
        shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    assert logs.sequences(0) == [0, 3, 6, 9]
    assert len(logs.requests) > 4


def test_a_duplicate_that_the_broker_no_longer_knows_the_place_of_is_a_success(logs, shell):
    acknowledged = []
    producer = Producer(on_acknowledged=lambda *what: acknowledged.append(what))
    logs.codes = [ErrorCode.DUPLICATE_SEQUENCE_NUMBER]
    shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    assert acknowledged == [(ORDERS[0], 3, Produced(-1, -1, -1))]


def test_a_moved_leader_is_followed(logs, shell):
    producer = Producer()
    shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    logs.cluster.alive.discard(1)
    logs.cluster.leaders["orders"][0] = (2, 1)
    shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    assert logs.sequences(0) == [0, 3]


def test_a_sequence_out_of_order_without_a_reason_is_an_error(logs, shell):
    producer = Producer()
    logs.codes = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    shell.run(producer.send, ORDERS[0], batch())
    with pytest.raises(BrokerError) as caught:
        shell.run(producer.flush)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def lose_answers(logs: MemoryLogs, shell: MemoryShell, producer: Producer) -> None:
    """Of two batches each to two partitions of one broker, behind a batch that was answered."""
    for count in (1, 2):
        for partition in ORDERS[1:] * count:
            shell.run(producer.send, partition, batch())
        if count == 1:
            shell.run(producer.flush)
            logs.codes = [HANG_UP] * 4
    assert not logs.codes
    assert logs.sequences(1) == logs.sequences(2) == [0, 3, 6]


@pytest.mark.parametrize("remembered", [1, 2, 5])
def test_what_a_broker_has_but_does_not_remember_is_not_out_of_order(logs, shell, remembered):
    acknowledged: list[Any] = []
    producer = Producer(on_acknowledged=lambda *what: acknowledged.append(what[:2]))
    lose_answers(logs, shell, producer)
    logs.remembered = remembered
    for partition in ORDERS[1:]:
        shell.run(producer.send, partition, batch())
    shell.run(producer.flush)
    assert logs.sequences(1) == logs.sequences(2) == [0, 3, 6, 9]
    assert sorted(acknowledged) == [(partition, 3) for partition in ORDERS[1:] for _ in range(4)]
    assert producer.unacknowledged_bytes == 0


def test_what_a_broker_has_not_is_still_out_of_order(logs, shell):
    producer = Producer()
    lose_answers(logs, shell, producer)
    for index in (1, 2):
        del logs.appended[index][1:]  # as by an unclean election
    logs.codes = [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 4
    with pytest.raises(BrokerError, match=r"partition orders-[12]") as caught:
        shell.run(producer.flush)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("is_served", [False, True])
def test_a_broker_that_does_not_tell_what_it_has_leaves_an_error(logs, shell, is_served):
    def refuse(_: MemoryBroker, request: Any) -> DescribeProducersResponse:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        one = PartitionResponse(partition_index=1, error_code=code, active_producers=())
        two = PartitionResponse(partition_index=2, error_code=code, active_producers=())
        topic = TopicResponse(name="orders", partitions=(one, two))
        return DescribeProducersResponse(topics=(topic,))

    logs.cluster.handle(ApiKey.DESCRIBE_PRODUCERS, refuse)
    if not is_served:
        for broker in logs.cluster.brokers.values():
            del broker.served[ApiKey.DESCRIBE_PRODUCERS]
    producer = Producer()
    lose_answers(logs, shell, producer)
    logs.remembered = 1
    with pytest.raises(BrokerError) as caught:
        shell.run(producer.flush)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_that_started_over_are_known_to_be_written(logs, shell):
    producer = Producer()
    shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    producer._lanes[ORDERS[0]].next_sequence = 2**31 - 4
    del logs.appended[0][:]
    logs.codes = [HANG_UP] * 3
    for _ in range(3):
        shell.run(producer.send, ORDERS[0], batch())
    logs.remembered = 1
    shell.run(producer.flush)
    assert logs.sequences(0) == [2**31 - 4, 2**31 - 1, 2]


def test_what_cannot_be_delivered_in_time_is_an_error(logs, shell):
    producer = Producer(delivery_timeout_ms=5000)
    logs.codes = [ErrorCode.NOT_ENOUGH_REPLICAS] * 1000
    shell.run(producer.send, ORDERS[0], batch())
    with pytest.raises(TimedOut, match="fewer replicas are in sync"):
        shell.run(producer.flush)
    assert shell.time_ms < 7000


def test_without_acks_nothing_is_stamped_and_nothing_waited_for(logs, shell):
    producer = Producer(acks=ACKS_NONE, idempotent=False)
    shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.flush)
    assert not logs.appended[0][0].has_producer_id
    assert logs.cluster.brokers[1].asked(ApiKey.INIT_PRODUCER_ID) == []


def test_a_closed_producer_leaves_no_request_behind(shell):
    producer = Producer()
    for _ in range(IN_FLIGHT_MAX + 1):
        shell.run(producer.send, ORDERS[0], batch())
    shell.run(producer.close)
    assert shell._replies == {}
    assert producer.unacknowledged_bytes == 0


def test_idempotence_needs_acks_of_all():
    with pytest.raises(ValueError, match="needs acks=all"):
        Producer(acks=ACKS_LEADER)


def test_sequences_start_over_after_the_last(logs, shell):
    producer = Producer()
    shell.run(producer.send, ORDERS[0], batch())
    lane = producer._lanes[ORDERS[0]]
    lane.next_sequence = 2**31 - 2
    made = batch(5)
    shell.run(producer.send, ORDERS[0], made)
    assert lane.next_sequence == 3
