"""A batch may not overtake one that was refused before it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.test_replication import begin_to_produce, lose, produced
from tests.unit.broker.wired import TOPIC_ID, Wired, values_of

from tidelog.broker.refused_batches import ENTRIES_MAX, KEPT_MS, RefusedBatches
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.wire.batch import read_batch
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.compression import Compression

FEW = ErrorCode.NOT_ENOUGH_REPLICAS
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
FOREIGN = ErrorCode.NOT_LEADER_OR_FOLLOWER
TOPIC_IDS_SINCE = 13
ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.fixture
def wired() -> Wired:
    wired = Wired()
    wired.create_topic(min_insync_replicas="2")
    wired.advance(50)
    return wired


def write(wired: Wired, sequence: int, *, epoch: int = 0, leader: int = 1, count: int = 1) -> Any:
    """One batch of an idempotent producer; its error."""
    values = [b"%d" % (sequence + i) for i in range(count)]
    fields = {"producer_id": 7, "producer_epoch": epoch, "base_sequence": sequence}
    connection = begin_to_produce(wired, leader, *values, **fields)
    wired.advance(50)
    return produced(wired, leader, connection).error_code


def batch_of(producer_id: int, sequence: int) -> Any:
    builder = BatchBuilder()
    builder.append(b"key", b"x", timestamp=0)
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
    data = bytes(builder.build(compression=Compression.NONE, **fields))
    return read_batch(memoryview(data), 0, len(data))


def become_few(wired: Wired) -> None:
    lose(wired, 2, 3)
    wired.change(1, isr=(1,))


def become_enough(wired: Wired) -> None:
    wired.down.clear()
    wired.fence(2, -1)
    wired.advance(1500)
    assert wired.state(1).isr == (1, 2)


def test_of_a_producer_that_nobody_knows_the_first_batch_comes_first(wired: Wired) -> None:
    become_few(wired)
    assert write(wired, 0, count=3) == FEW
    become_enough(wired)
    assert write(wired, 3) == FEW, "it was on its way when the one before it was refused"
    assert write(wired, 4) == FEW
    assert [write(wired, 0, count=3), write(wired, 3), write(wired, 4)] == [0, 0, 0]
    assert values_of(wired.fetch_at(1, 0)) == [b"0", b"1", b"2", b"3", b"4"]
    assert not wired[1].broker.refused_batches.partitions, "and is forgotten"


def test_of_a_known_producer_too(wired: Wired) -> None:
    assert write(wired, 0) == 0
    become_few(wired)
    assert [write(wired, 1), write(wired, 2)] == [FEW, FEW]
    become_enough(wired)
    assert write(wired, 2) == FEW
    assert write(wired, 0) == 0, "a retry of what is there is answered"
    assert [write(wired, 1), write(wired, 2)] == [0, 0]
    assert write(wired, 4) == ORDER, "a gap that no refusal explains is one"


def test_a_refused_retry_of_what_is_written_changes_nothing(wired: Wired) -> None:
    assert write(wired, 0) == 0
    become_few(wired)
    assert [write(wired, 1), write(wired, 0)] == [FEW, FEW]
    become_enough(wired)
    assert write(wired, 2) == FEW
    assert [write(wired, 1), write(wired, 2)] == [0, 0]


def test_who_is_elected_remembers_what_it_refused_before(wired: Wired) -> None:
    assert write(wired, 0, leader=2) == FOREIGN
    wired.change(leader=2, isr=(1, 2, 3))
    assert write(wired, 1, leader=2) == FOREIGN
    assert [write(wired, 0, leader=2), write(wired, 1, leader=2)] == [0, 0]


def test_what_another_leader_has_taken_is_not_waited_for(wired: Wired) -> None:
    assert write(wired, 0, leader=2) == FOREIGN
    assert [write(wired, 0), write(wired, 1)] == [0, 0]
    wired.change(leader=2, isr=(1, 2, 3))
    assert write(wired, 2, leader=2) == 0


@pytest.mark.parametrize("version", [12, 13])
def test_a_partition_that_nobody_told_of_yet_remembers_too(version: int) -> None:
    """A client hears of a new topic from one broker, and sends at once to another."""
    wired = Wired()

    def write(sequence: int) -> Any:
        node = wired[1]
        fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        request = node.produce_request("t", node.batch(b"%d" % sequence, **fields), acks=1)
        (topic,) = request.topic_data
        if version >= TOPIC_IDS_SINCE:
            topic = topic.replace(topic_id=TOPIC_ID)
        answer = node.ask(request.replace(topic_data=(topic,)), version)
        return answer.responses[0].partition_responses[0].error_code

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version >= TOPIC_IDS_SINCE:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert write(0) == unknown
    wired.create_topic()
    assert write(1) == unknown, "it does not overtake"
    assert write(2) == unknown
    assert [write(0), write(1), write(2)] == [0, 0, 0]
    assert not wired[1].broker.refused_batches.partitions


def test_what_became_known_late_is_not_kept_longer(wired: Wired) -> None:
    refused, partition = RefusedBatches(), wired.partition(1)
    refused.refuse(("t", 0), batch_of(7, 0).to_view(), FOREIGN, Now(0, 0))
    refused.refuse(partition, batch_of(8, 0).to_view(), FOREIGN, Now(10, 0))
    refused.opened(partition)
    assert len(refused.partitions[partition]) == 2
    assert refused.error(partition, batch_of(7, 1), Now(KEPT_MS - 1, 0)) is FOREIGN
    assert refused.error(partition, batch_of(7, 1), Now(KEPT_MS, 0)) is None
    assert refused.error(partition, batch_of(8, 1), Now(KEPT_MS, 0)) is FOREIGN


def test_what_is_not_hosted_any_more_is_forgotten(wired: Wired) -> None:
    become_few(wired)
    assert write(wired, 0) == FEW
    refused = wired[1].broker.refused_batches
    assert list(refused.partitions) == [wired.partition(1)]
    wired.delete_topic()
    assert refused.partitions == {}


def test_a_new_epoch_begins_anew(wired: Wired) -> None:
    assert write(wired, 0) == 0
    become_few(wired)
    assert write(wired, 1) == FEW
    become_enough(wired)
    assert [write(wired, 0, epoch=1), write(wired, 1, epoch=1)] == [0, 0]


def test_a_new_epoch_does_not_wait_for_an_old_one(wired: Wired) -> None:
    become_few(wired)
    assert write(wired, 0) == FEW
    become_enough(wired)
    assert write(wired, 5, epoch=1) == 0


def test_it_is_remembered_for_a_while(wired: Wired) -> None:
    assert write(wired, 0) == 0
    become_few(wired)
    assert write(wired, 1) == FEW
    become_enough(wired)
    wired.advance(KEPT_MS)
    assert write(wired, 2) == ORDER, "the one before does not come any more"


def test_there_is_a_limit(wired: Wired) -> None:
    refused, partition = RefusedBatches(), wired.partition(1)
    batch = batch_of
    now = Now(0, 0)
    for producer_id in range(ENTRIES_MAX + 1):
        refused.refuse(partition, batch(producer_id, 0).to_view(), FEW, now)
    assert len(refused.partitions[partition]) == ENTRIES_MAX
    assert refused.error(partition, batch(0, 1), now) is None
    assert refused.error(partition, batch(1, 1), now) is FEW
    refused.refuse(("no such topic", 0), batch(1, 0).to_view(), UNKNOWN, now)
    assert refused.error(partition, batch(1, 1), now) is FEW, "strangers push out nobody"
    assert list(refused.partitions) == [partition]
    refused.refuse(partition, b"no batch", FEW, now)
    refused.refuse(partition, None, FEW, now)
    assert refused.error(partition, batch(1, 1), Now(KEPT_MS, 0)) is None
    assert refused.partitions == {}
