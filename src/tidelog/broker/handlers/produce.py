"""Produce and InitProducerId: validate, append, answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidelog.broker.delayed_produce import (
    DelayedSingle,
    Place,
    Wait,
    wait_for_all,
    wait_for_single,
)
from tidelog.broker.handlers.produce_request import (
    ATTRIBUTES_LOW_BYTE,
    has_transactional,
    named_once,
    names_several,
)
from tidelog.broker.leaders import Leaders
from tidelog.broker.refused_batches import Target
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.results import Appended, DamagedSegment
from tidelog.replica.compression import recompressed
from tidelog.replica.partition import Partition
from tidelog.runtime.answers import Disconnect
from tidelog.runtime.purgatory import Delayed
from tidelog.slices import Slices
from tidelog.types import ZERO_UUID
from tidelog.wire.batch import COMPRESSION_MASK, HEADER, TRANSACTIONAL
from tidelog.wire.batch_validation import Refusal, ValidBatch, validate_produced
from tidelog.wire.declare import Message
from tidelog.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tidelog.wire.records_types import SingleProduce
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

ACKS_ALL, ACKS_NONE, ACKS_LEADER = -1, 0, 1
HEAVY_BYTES_MIN = 4 << 20
"""Records of this size take up to 5 ms to judge: they are then judged in a thread."""
WEIGHTS = (1, 400, 150, 50, 150, 1, 1, 1)
"""How much longer compressed ones take, by codec: measured with content that becomes very small,
for snappy with very small chunks."""
RECOMPRESSED_WEIGHT = 400
"""And those that are to be compressed anew."""
PARTITION_COST = 25
BYTES_A_MICROSECOND = HEAVY_BYTES_MIN // 5000
"""For a partition without its records, and for records of weight 1 (slices.py)."""
BASE_OFFSET_END = 8
LEADERS_SINCE = 10
"""Since then an answer says who leads instead."""


def produce(request: Request, broker: Broker, now: Now) -> Message | Delayed | Disconnect | None:
    message = _checked(request.message)
    if not isinstance(message, ProduceRequest):
        return message
    appending = Appending(request, message, broker)
    for topic in message.topic_data:
        appending.begin(topic)
        for data in topic.partition_data:
            appending.append(topic, data, now)
    return appending.acknowledged(now)


def produce_in_slices(
    request: Request, broker: Broker, now: Now
) -> Slices[Message | Delayed | Disconnect | None]:
    """The same for a request to very many partitions."""
    message = _checked(request.message)
    if not isinstance(message, ProduceRequest):
        return message
    appending = Appending(request, message, broker)
    for topic in message.topic_data:
        appending.begin(topic)
        for data in topic.partition_data:
            appending.append(topic, data, now)
            yield PARTITION_COST + _weight(data.records) // BYTES_A_MICROSECOND
    return appending.acknowledged(now)


class Appending:
    """One request: what each of its partitions answers, and what that has to wait for."""

    def __init__(self, request: Request, message: ProduceRequest, broker: Broker) -> None:
        self.request = request
        self.message = message
        self.broker = broker
        self.topics: list[tuple[TopicProduceData, list[PartitionProduceResponse]]] = []
        self.waits: list[Wait] = []
        self.leaders = Leaders(broker) if request.version >= LEADERS_SINCE else None

    def begin(self, topic: TopicProduceData) -> None:
        self.topics.append((topic, []))

    def append(self, topic: TopicProduceData, data: PartitionProduceData, now: Now) -> None:
        """To one partition of the topic that was begun."""
        answers = self.topics[-1][1]
        place = len(self.topics) - 1, len(answers)
        partition = self.broker.hosted(topic.name, topic.topic_id, data.index, now)
        target: Target = topic.name or topic.topic_id, data.index
        if isinstance(partition, Partition) and not partition.is_leader:
            target, partition = partition, ErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(partition, ErrorCode):
            self.broker.refused_batches.refuse(target, data.records, partition, now)
            answers.append(self._refused(topic, data.index, partition))
        else:
            answers.append(self._append_to(partition, data, place, now))

    def _refused(
        self, topic: TopicProduceData, index: int, error: ErrorCode
    ) -> PartitionProduceResponse:
        answer = PartitionProduceResponse(index=index, error_code=error, base_offset=-1)
        if error is not ErrorCode.NOT_LEADER_OR_FOLLOWER or self.leaders is None:
            return answer
        leader = self.leaders.find(topic.name, topic.topic_id, index)
        return answer.replace(
            current_leader=LeaderIdAndEpoch(
                leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
            )
        )

    def _append_to(
        self, partition: Partition, data: PartitionProduceData, place: Place, now: Now
    ) -> PartitionProduceResponse:
        waits = self.message.acks == ACKS_ALL and partition.followers is not None
        if waits and partition.is_under_min_isr:
            error = ErrorCode.NOT_ENOUGH_REPLICAS
            self.broker.refused_batches.refuse(partition, data.records, error, now)
            return PartitionProduceResponse(index=data.index, error_code=error, base_offset=-1)
        judged: Any = data.records
        if not isinstance(judged, ValidBatch | Refusal):
            judged = _judge(partition, data, self.request, now)
        if isinstance(judged, Refusal):
            return _refused(data.index, judged)
        appended: Appended | ErrorCode | None = None
        if partition in self.broker.refused_batches.partitions:
            appended = self.broker.refused_batches.error(partition, judged.batch, now)
        if appended is None:
            appended = _append(partition, judged, self.broker, now)
        if isinstance(appended, ErrorCode):
            return PartitionProduceResponse(index=data.index, error_code=appended, base_offset=-1)
        if waits:
            # Also for one that was there before: its first try may not have been acknowledged.
            self.waits.append(Wait(place, partition, appended.last_offset + 1))
        return PartitionProduceResponse(
            index=data.index,
            error_code=ErrorCode.NONE,
            base_offset=appended.base_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.log_start_offset,
        )

    def acknowledged(self, now: Now) -> Message | Delayed | Disconnect | None:
        """The answer, at the time and in the way that the client wants it."""
        response = ProduceResponse(
            responses=tuple(
                TopicProduceResponse(
                    name=topic.name, topic_id=topic.topic_id, partition_responses=tuple(answers)
                )
                for topic, answers in self.topics
            ),
            node_endpoints=() if self.leaders is None else self.leaders.endpoints(NodeEndpoint),
        )
        timeout_ms = self.message.timeout_ms
        answer = wait_for_all(self.broker, response, self.waits, timeout_ms, now)
        if self.message.acks == ACKS_NONE:
            return _disconnect_on_error(response)
        return answer


def _checked(message: Message) -> ProduceRequest | ProduceResponse | Disconnect | None:
    """The request, if it may be taken; else its answer."""
    assert isinstance(message, ProduceRequest)
    if message.acks not in (ACKS_ALL, ACKS_NONE, ACKS_LEADER):
        return _refuse_all(message, ErrorCode.INVALID_REQUIRED_ACKS)
    if names_several(message):
        message = named_once(message)
        if message.transactional_id is None and has_transactional(message):
            refused = _refuse_all(message, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return refused if message.acks else _disconnect_on_error(refused)
    return message


def produce_single(one: SingleProduce, broker: Broker, now: Now) -> bytes | DelayedSingle | None:
    """The answer's frame, empty if none is wanted, or what will have it when the replicas do.
    None: nothing was done, and what is unusual about the request is for `produce` to say."""
    if one.topic:
        partition = broker.hosting.by_name.get((one.topic, one.index))
    else:
        partition = broker.hosting.by_id.get((one.topic_id, one.index))
    if partition is None or not partition.takes_singles or not ACKS_ALL <= one.acks <= ACKS_LEADER:
        return None
    if partition.followers is not None and one.acks == ACKS_ALL and partition.is_under_min_isr:
        return None
    if partition in broker.refused_batches.partitions:
        return None
    rules = partition.produce_rules
    if not one.accept(
        rules.max_message_bytes,
        now.wall_ms,
        rules.timestamp_before_max_ms,
        rules.timestamp_after_max_ms,
        rules.compacted,
    ):
        return None
    try:
        if partition.followers is None:
            appended = partition.append_single(one, now)
        else:
            appended = partition.append_replicated(one, now)
    except (OSError, DamagedSegment) as error:
        appended = broker.hosting.erred(partition, error, now)
    if not isinstance(appended, Appended):
        one.records[:BASE_OFFSET_END] = bytes(BASE_OFFSET_END)  # as the client sent it
        return None
    if one.acks == ACKS_NONE:
        return b""
    frame = one.answer(appended.base_offset, appended.log_append_time_ms, appended.log_start_offset)
    if partition.followers is not None and one.acks == ACKS_ALL:
        return wait_for_single(broker, one, partition, appended.last_offset + 1, frame, now)
    return frame


def _judge(
    partition: Partition, data: PartitionProduceData, request: Request, now: Now
) -> ValidBatch | Refusal:
    """What is to be appended, or why nothing is."""
    batch = validate_produced(
        b"" if data.records is None else data.records,
        partition.produce_rules,
        produce_version=request.version,
        now_ms=now.wall_ms,
    )
    if isinstance(batch, Refusal):
        return batch
    if batch.attributes & TRANSACTIONAL:
        return _refuse_transaction(request)
    if partition.log.config.compression_type != "producer":
        return recompressed(batch, partition.log.config)
    return batch


def is_recompressed(one: SingleProduce, broker: Broker) -> bool:
    """Whether its partition has another codec: then it is no short way's business, and may be
    heavy."""
    recompressing = broker.hosting.recompressing
    if not recompressing:
        return False
    if one.topic:
        return broker.hosting.by_name.get((one.topic, one.index)) in recompressing
    return broker.hosting.by_id.get((one.topic_id, one.index)) in recompressing


def is_heavy(request: Request, broker: Broker) -> bool:
    """Whether judging its records may take longer than a step should."""
    message = request.message
    if not isinstance(message, ProduceRequest):
        return False  # it is decoded in pieces, and then judged so
    size = 0
    for topic in message.topic_data:
        for data in topic.partition_data:
            weight = _weight(data.records)
            if broker.hosting.recompressing and _hosted(topic, data, broker) in (
                broker.hosting.recompressing
            ):
                weight *= RECOMPRESSED_WEIGHT
            size += weight
    return size > HEAVY_BYTES_MIN


def _weight(records: Any) -> int:
    if records is None or len(records) <= HEADER.size:
        return 0
    size: int = len(records)
    return size * WEIGHTS[records[ATTRIBUTES_LOW_BYTE] & COMPRESSION_MASK]


def _hosted(
    topic: TopicProduceData, data: PartitionProduceData, broker: Broker
) -> Partition | None:
    if topic.topic_id == ZERO_UUID:
        return broker.hosting.by_name.get((topic.name, data.index))
    return broker.hosting.by_id.get((topic.topic_id, data.index))


def judge_all(request: Request, broker: Broker, now: Now) -> Request:
    """The same request, its records judged: called in a thread, so it changes nothing."""
    message = request.message
    assert isinstance(message, ProduceRequest)
    topics = []
    for topic in message.topic_data:
        partitions = []
        for data in topic.partition_data:
            partition = _hosted(topic, data, broker)
            if partition is not None:
                data = data.replace(records=_judge(partition, data, request, now))
            partitions.append(data)
        topics.append(topic.replace(partition_data=tuple(partitions)))
    return request._replace(message=message.replace(topic_data=tuple(topics)))


def _refuse_transaction(request: Request) -> Refusal:
    """Without a coordinator no transaction ends: its first record would stop all who read
    committed records, for ever."""
    message = request.message
    assert isinstance(message, ProduceRequest)
    if message.transactional_id is None:
        text = "a transactional batch needs a transactional id"
        return Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, text)
    return Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "transactions are not there yet")


def _append(
    partition: Partition, batch: ValidBatch, broker: Broker, now: Now
) -> Appended | ErrorCode:
    try:
        return partition.append(batch, now)
    except (OSError, DamagedSegment) as error:
        return broker.hosting.erred(partition, error, now)


def _refused(index: int, refusal: Refusal) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=refusal.error_code,
        base_offset=-1,
        record_errors=tuple(
            BatchIndexAndErrorMessage(
                batch_index=error.batch_index,
                batch_index_error_message=error.batch_index_error_message,
            )
            for error in refusal.record_errors
        ),
        error_message=refusal.error_message,
    )


def _refuse_all(message: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=tuple(
                    PartitionProduceResponse(index=data.index, error_code=code, base_offset=-1)
                    for data in topic.partition_data
                ),
            )
            for topic in message.topic_data
        )
    )


def _disconnect_on_error(response: ProduceResponse) -> Disconnect | None:
    for topic in response.responses:
        for partition in topic.partition_responses:
            if partition.error_code:
                name = ErrorCode(partition.error_code).name
                return Disconnect(f"Produce with acks=0 to {topic.name}-{partition.index}: {name}")
    return None
