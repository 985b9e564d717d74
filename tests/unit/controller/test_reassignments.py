"""Partitions move: begun, ended, taken back, refused."""

from __future__ import annotations

import pytest
from tests.unit.config.test_broker import config
from tests.unit.metadata.lives import broker, change, features, partition, uuid
from tests.unit.metadata.lives import config as config_record

from tidelog.controller import reassignments
from tidelog.controller.alter_partition import alter_partition
from tidelog.controller.brokers import fence, unfence
from tidelog.controller.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import UNASSIGNED_DIRECTORY, MetadataImage
from tidelog.metadata.records.brokers import BrokerRegistrationChangeRecord
from tidelog.metadata.records.topics import TopicRecord
from tidelog.slices import finish
from tidelog.wire.messages import alter_partition as altering
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


class Moving:
    """Topic a with partition 0 on brokers 1, 2, 3 of six."""

    def __init__(self, *more, replicas=(1, 2, 3), **state):
        records = [
            *features(),
            *(broker(number) for number in range(1, 7)),
            TopicRecord(name="a", topic_id=uuid(1)),
            partition(1, 0, replicas, **state),
            config_record(4, "", "min.insync.replicas", "2"),
            *more,
        ]
        self.image = replay_all(MetadataImage.empty(), records, 0, 1)

    def write(self, records):
        self.image = replay_all(self.image, records, self.image.offset + 1, 1)

    @property
    def state(self):
        return self.image.partition("a", 0)

    def move(self, replicas, *, name="a", number=0, may_change_factor=True):
        """What it is answered; the records are in the image then."""
        wanted = ReassignablePartition(partition_index=number, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=may_change_factor,
            topics=(ReassignableTopic(name=name, partitions=(wanted,)),),
        )
        decision = finish(alter_partition_reassignments(self.image, request, config()))
        self.records = list(decision.records)
        self.write(decision.records)
        assert decision.response.allow_replication_factor_change is may_change_factor
        ((one,),) = [topic.partitions for topic in decision.response.responses]
        return ErrorCode(one.error_code)

    def isr(self, *members):
        """The leader has an ISR taken over; what that is answered."""
        state = self.state
        wanted = altering.PartitionData(
            partition_index=0,
            leader_epoch=state.leader_epoch,
            new_isr_with_epochs=tuple(
                altering.BrokerState(broker_id=one, broker_epoch=one * 10) for one in members
            ),
            partition_epoch=state.partition_epoch,
        )
        request = altering.AlterPartitionRequest(
            broker_id=state.leader,
            broker_epoch=state.leader * 10,
            topics=(altering.TopicData(topic_id=uuid(1), partitions=(wanted,)),),
        )
        decision = finish(alter_partition(self.image, request, config()))
        self.write(decision.records)
        return ErrorCode(decision.response.topics[0].partitions[0].error_code)

    def listed(self, *names):
        topics = tuple(
            ListPartitionReassignmentsTopics(name=name, partition_indexes=(0, 5)) for name in names
        )
        request = ListPartitionReassignmentsRequest(topics=topics or None)
        answer = finish(list_partition_reassignments(self.image, request))
        return [
            (topic.name, one.replicas, one.adding_replicas, one.removing_replicas)
            for topic in answer.topics
            for one in topic.partitions
        ]


def test_a_whole_move():
    cluster = Moving()
    assert cluster.move((4, 5, 6)) is ErrorCode.NONE
    assert cluster.state.replicas == (4, 5, 6, 1, 2, 3)
    moves = [("a", (4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))]
    assert cluster.listed() == cluster.listed("a", "gone") == moves
    assert cluster.isr(1, 2, 3, 4) is ErrorCode.NONE
    assert cluster.isr(1, 2, 3, 4, 5) is ErrorCode.NONE
    assert (cluster.state.leader, cluster.state.leader_epoch) == (1, 0)
    assert cluster.isr(1, 2, 3, 4, 5, 6) is ErrorCode.NEW_LEADER_ELECTED
    state = cluster.state
    assert (state.replicas, state.isr, state.leader) == ((4, 5, 6), (4, 5, 6), 4)
    assert (state.leader_epoch, state.is_reassigning) == (1, False)
    assert state.directories == tuple(uuid(2000 + node) for node in (4, 5, 6))
    assert cluster.listed() == []


def test_the_leader_stays_if_it_is_to_stay():
    cluster = Moving()
    cluster.move((4, 1))
    assert cluster.isr(1, 2, 3, 4) is ErrorCode.NONE
    state = cluster.state
    # Its epoch rises all the same: a removed replica must not count any more.
    assert (state.replicas, state.leader, state.leader_epoch) == ((4, 1), 1, 1)


def test_a_new_order_is_there_at_once():
    cluster = Moving()
    assert cluster.move((3, 2, 1)) is ErrorCode.NONE
    (record,) = cluster.records
    assert record.replicas == (3, 2, 1)
    assert record.directories == tuple(uuid(2000 + node) for node in (3, 2, 1))
    state = cluster.state
    assert (state.leader, state.leader_epoch, state.is_reassigning) == (1, 0, False)


def test_what_is_there_already_is_no_record():
    cluster = Moving()
    assert cluster.move((1, 2, 3)) is ErrorCode.NONE
    assert cluster.records == []


def test_with_a_replica_less_all_that_stay_must_be_in_sync():
    cluster = Moving(isr=(1, 3))
    cluster.move((1, 2))
    assert cluster.state.is_reassigning
    cluster.isr(1, 2, 3)
    assert (cluster.state.replicas, cluster.state.isr) == ((1, 2), (1, 2))


def test_otherwise_those_that_come_suffice():
    """One that stays may be dead: waiting for it would keep the move from ending."""
    cluster = Moving(isr=(1, 3))
    cluster.move((1, 2, 4))
    cluster.isr(1, 3, 4)
    assert (cluster.state.replicas, cluster.state.isr) == ((1, 2, 4), (1, 4))


def test_another_target_while_a_move_runs():
    cluster = Moving()
    cluster.move((4, 5, 6))
    assert cluster.move((4, 2, 3)) is ErrorCode.NONE
    state = cluster.state
    assert state.replicas == (4, 2, 3, 1, 5, 6)
    assert (state.adding_replicas, state.removing_replicas) == ((4, 5, 6), (1, 5, 6))
    assert cluster.move((1, 2, 3)) is ErrorCode.NONE
    assert cluster.state.replicas == (1, 2, 3)
    assert not cluster.state.is_reassigning


def test_a_larger_target_while_a_move_runs():
    cluster = Moving()
    cluster.move((4, 5, 6))
    cluster.move((4, 5, 6, 1, 2, 3))
    assert cluster.state.removing_replicas == ()
    cluster.isr(1, 2, 3, 4, 5, 6)
    assert cluster.state.replicas == (4, 5, 6, 1, 2, 3)
    assert not cluster.state.is_reassigning


def test_a_move_that_was_turned_is_taken_back_to_where_it_began():
    cluster = Moving()
    cluster.move((4, 2, 3))
    cluster.move((5, 2, 3))
    assert cluster.state.adding_replicas == (4, 5)
    assert cluster.move(None) is ErrorCode.NONE
    assert set(cluster.state.replicas) == {1, 2, 3}


def test_taken_back():
    cluster = Moving()
    cluster.move((4, 5, 6))
    cluster.isr(1, 2, 3, 4)
    assert cluster.move(None) is ErrorCode.NONE
    state = cluster.state
    assert (state.replicas, state.isr, state.leader) == ((1, 2, 3), (1, 2, 3), 1)
    assert not state.is_reassigning
    assert cluster.move(None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_taken_back_where_only_newcomers_are_in_sync():
    cluster = Moving()
    cluster.move((4, 5, 6))
    cluster.isr(1, 2, 3, 4)
    for dead in (1, 2, 3):
        cluster.write(finish(fence(cluster.image, dead, config())))
    assert (cluster.state.isr, cluster.state.leader) == ((4,), 4)
    assert cluster.move(None) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    allowed = config_record(2, "a", "unclean.leader.election.enable", "true")
    cluster.write([allowed])
    cluster.write(finish(unfence(cluster.image, 2, config())))
    assert cluster.move(None) is ErrorCode.NONE
    state = cluster.state
    assert (state.replicas, state.isr, state.leader) == ((1, 2, 3), (2,), 2)
    assert state.leader_recovery_state == 1


def test_brokers_with_several_directories_choose_one():
    more = broker(4, log_dirs=(uuid(2004), uuid(2104)))
    cluster = Moving(more)
    cluster.move((4, 1, 2, 3))
    assert cluster.state.directory(4) == UNASSIGNED_DIRECTORY
    assert cluster.state.directory(1) == uuid(2001)


@pytest.mark.parametrize(
    ("replicas", "options", "code"),
    [
        ((1, 2, 3), {"name": "b"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 2, 3), {"number": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, {"number": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, {}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ((), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 7), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((-1,), {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2), {"may_change_factor": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ((1, 2, 3, 4), {"may_change_factor": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ((4, 2, 3), {"may_change_factor": False}, ErrorCode.NONE),
    ],
)
def test_refusals(replicas, options, code):
    cluster = Moving()
    assert cluster.move(replicas, **options) is code
    assert bool(cluster.records) == (code is ErrorCode.NONE)


def test_the_factor_of_a_move_that_runs_is_what_it_leads_to():
    cluster = Moving()
    cluster.move((4, 5))
    assert cluster.move((1, 2, 3), may_change_factor=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    assert cluster.move((5, 6), may_change_factor=False) is ErrorCode.NONE


def test_one_request_has_a_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reassignments, "RECORDS_MAX", 0)
    cluster = Moving()
    assert cluster.move((4, 5, 6)) is ErrorCode.POLICY_VIOLATION


def test_who_was_moved_away_is_not_eligible_when_it_comes_back():
    """It comes with an empty log."""
    cluster = Moving(replicas=(1, 2), isr=(1,), eligible_leader_replicas=(2,))
    cluster.move((1, 3))
    cluster.isr(1, 3)
    assert cluster.state.eligible_leader_replicas == ()
    cluster.write([change(1, 0, isr=(1,), eligible_leader_replicas=(3,))])
    cluster.move((1, 2))
    assert 2 not in cluster.state.eligible_leader_replicas


def test_a_last_leader_that_was_moved_away_does_not_lead():
    cluster = Moving(replicas=(1, 2), isr=(), leader=-1, last_known_elr=(3,))
    cluster.write([BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=30, fenced=1)])
    cluster.write(finish(unfence(cluster.image, 3, config())))
    assert cluster.state.leader == -1
