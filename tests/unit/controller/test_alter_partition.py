"""AlterPartition and all its refusals."""

from __future__ import annotations

import pytest
from tests.unit.config.test_broker import config
from tests.unit.metadata.lives import broker, change, features, partition, uuid

from tidelog.controller.alter_partition import alter_partition
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.brokers import (
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
)
from tidelog.metadata.records.topics import TopicRecord
from tidelog.slices import finish
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)


def cluster(*more):
    """Partition 0 of topic 1, led by 1 in its first epoch, with 4 out of sync."""
    records = [
        *features(),
        *(broker(number) for number in (1, 2, 3, 4)),
        TopicRecord(name="a", topic_id=uuid(1)),
        partition(1, 0, (1, 2, 3, 4), isr=(1, 2, 3), leader_epoch=5, partition_epoch=7),
        *more,
    ]
    return replay_all(MetadataImage.empty(), records, 0, 1)


def propose(image, isr, *, broker_id=1, topic=1, number=0, broker_epoch=None, **changes):
    members = isr.items() if isinstance(isr, dict) else [(node, node * 10) for node in isr]
    wanted = PartitionData(
        partition_index=number,
        leader_epoch=changes.get("leader_epoch", 5),
        new_isr=changes.get("new_isr", ()),
        new_isr_with_epochs=tuple(
            BrokerState(broker_id=node, broker_epoch=epoch) for node, epoch in members
        ),
        leader_recovery_state=changes.get("recovery", 0),
        partition_epoch=changes.get("partition_epoch", 7),
    )
    request = AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=broker_id * 10 if broker_epoch is None else broker_epoch,
        topics=(TopicData(topic_id=uuid(topic), partitions=(wanted,)),),
    )
    return finish(alter_partition(image, request, config()))


def answer(decision):
    (topic,) = decision.response.topics
    (found,) = topic.partitions
    return found


def test_an_isr_that_grows_and_shrinks():
    grown = propose(cluster(), (1, 2, 3, 4))
    assert grown.records == [change(1, 0, isr=(1, 2, 3, 4))]
    assert (answer(grown).partition_epoch, answer(grown).leader_epoch) == (8, 5)
    assert answer(grown).isr == (1, 2, 3, 4)
    shrunk = propose(cluster(), (1,))
    assert shrunk.records == [change(1, 0, isr=(1,))]


def test_no_change_is_no_record():
    decision = propose(cluster(), (1, 2, 3))
    assert list(decision.records) == []
    assert (answer(decision).error_code, answer(decision).partition_epoch) == (0, 7)


def test_version_2_has_no_epochs():
    decision = propose(cluster(), {}, new_isr=(1, 2))
    assert decision.records == [change(1, 0, isr=(1, 2))]


@pytest.mark.parametrize(
    ("isr", "changes", "code"),
    [
        ((1,), {"topic": 9}, ErrorCode.UNKNOWN_TOPIC_ID),
        ((1,), {"number": 9}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1,), {"leader_epoch": 6}, ErrorCode.NOT_CONTROLLER),
        ((1,), {"partition_epoch": 8}, ErrorCode.NOT_CONTROLLER),
        ((1,), {"leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        ((2,), {"broker_id": 2}, ErrorCode.INVALID_REQUEST),
        ((1,), {"partition_epoch": 6}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 9), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2, 2), {}, ErrorCode.INVALID_REQUEST),
        ((1,), {"recovery": 7}, ErrorCode.INVALID_REQUEST),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ((1,), {"recovery": 1}, ErrorCode.INVALID_REQUEST),
        ({1: 10, 4: 39}, {}, ErrorCode.INELIGIBLE_REPLICA),
        ({1: 10, 4: -1}, {}, ErrorCode.NONE),
    ],
)
def test_refusals(isr, changes, code):
    decision = propose(cluster(), isr, **changes)
    assert answer(decision).error_code == code
    assert bool(decision.records) == (code is ErrorCode.NONE)


def test_a_stale_leader_is_refused_as_a_whole():
    decision = propose(cluster(), (1,), broker_epoch=11)
    assert decision.response.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert decision.response.topics == ()


def test_who_is_not_registered_is_stale_whatever_it_says():
    gone = UnregisterBrokerRecord(broker_id=1, broker_epoch=10)
    for epoch in (-1, 10):
        decision = propose(cluster(gone), (1,), broker_epoch=epoch)
        assert decision.response.error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.parametrize("state", [{"fenced": 1}, {"in_controlled_shutdown": 1}])
def test_who_is_fenced_or_stops_does_not_join(state):
    image = cluster(BrokerRegistrationChangeRecord(broker_id=4, broker_epoch=40, **state))
    assert answer(propose(image, (1, 2, 3, 4))).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_reassignment_ends_and_another_leads():
    moving = change(
        1,
        0,
        replicas=(4, 2, 3, 1),
        adding_replicas=(4,),
        removing_replicas=(1,),
        directories=tuple(uuid(2000 + node) for node in (4, 2, 3, 1)),
    )
    decision = propose(cluster(moving), (1, 2, 3, 4), partition_epoch=8)
    assert answer(decision).error_code == ErrorCode.NEW_LEADER_ELECTED
    (record,) = decision.records
    assert (record.isr, record.leader, record.replicas) == ((2, 3, 4), 4, (4, 2, 3))


def test_a_recovering_leader_recovers():
    image = cluster(change(1, 0, isr=(1,), leader_recovery_state=1))
    decision = propose(image, (1,), partition_epoch=8)
    assert decision.records == [change(1, 0, leader_recovery_state=0)]
    assert answer(decision).leader_recovery_state == 0
