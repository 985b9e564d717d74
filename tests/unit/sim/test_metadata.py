"""What is said of registrations after a crash, and of partitions that only an operator saves."""

from __future__ import annotations

import pytest
from tests.unit.metadata.lives import broker, change, config, features, partition, uuid

from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.cluster import FeatureLevelRecord
from tidelog.metadata.records.topics import TopicRecord
from tidelog.sim.counters import Counters
from tidelog.sim.isr_changes import IsrChangeInvariants
from tidelog.sim.metadata import MetadataInvariants
from tidelog.sim.replicas import ReplicaInvariants
from tidelog.sim.timeline import Timeline
from tidelog.sim.trace import Trace
from tidelog.sim.violation import Violation
from tidelog.wire.declare import Message

INCARNATION, NEXT = uuid(1002), uuid(1102)
"""Of broker 2: the one that was there, and the one after it."""
ELR = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)


class Watched:
    """Brokers 1 and 2 are in the ISR of one partition, which 1 leads."""

    def __init__(self) -> None:
        self.replicas = ReplicaInvariants(Counters())
        self.invariants = MetadataInvariants(
            self.replicas, IsrChangeInvariants(Counters()), Counters(), Trace(Timeline())
        )
        self.image = MetadataImage.empty()
        self.invariants.started("node2", INCARNATION)
        settings = *features(), ELR, config(4, "", "min.insync.replicas", "2")
        topic = TopicRecord(name="t", topic_id=uuid(1))
        self.commit(*settings, broker(1), broker(2), topic, partition(1, 0, (1, 2)))

    def commit(self, *records: Message) -> None:
        """Node 1 shows them as committed."""
        self.image = replay_all(self.image, records, self.image.offset + 1, 1)
        self.invariants.stepped("node1", self.image)

    def restart(self, *, is_clean: bool = False) -> None:
        self.invariants.ended("node2", is_clean=is_clean)
        self.invariants.started("node2", NEXT)

    def register(self, *before: Message, fenced: bool = True) -> None:
        """By one batch, as the controller does."""
        self.commit(*before, broker(2, epoch=99, incarnation_id=NEXT, fenced=fenced))

    def lose_all(self, *, last: int) -> None:
        """Nobody is left whom the controller would elect by itself."""
        gone = change(1, 0, isr=(), leader=-1, eligible_leader_replicas=(), last_known_elr=(last,))
        self.commit(gone)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_who_stopped_uncleanly_may_not_stay_in_the_isr(watched: Watched) -> None:
    watched.restart()
    with pytest.raises(Violation, match="who stopped uncleanly is in no ISR or ELR"):
        watched.register()


def test_nor_in_the_elr(watched: Watched) -> None:
    watched.restart()
    with pytest.raises(Violation, match="who stopped uncleanly is in no ISR or ELR"):
        watched.register(change(1, 0, isr=(1,), eligible_leader_replicas=(2,)))


def test_it_may_come_back_without_them(watched: Watched) -> None:
    watched.restart()
    watched.register(change(1, 0, isr=(1,)))
    # And join again: it has caught up meanwhile.
    watched.commit(broker(2, epoch=99, incarnation_id=NEXT), change(1, 0, isr=(1, 2)))


def test_who_stopped_cleanly_is_still_eligible(watched: Watched) -> None:
    watched.restart(is_clean=True)
    watched.register(change(1, 0, isr=(1,), eligible_leader_replicas=(2,)))


def test_the_registration_of_the_process_before_says_nothing(watched: Watched) -> None:
    """It may be shown by a node that is behind."""
    watched.restart()
    watched.commit(broker(2, epoch=20))


@pytest.mark.parametrize("is_stopping", [False, True])
def test_nobody_fenced_or_stopping_is_in_an_isr(watched: Watched, is_stopping: bool) -> None:
    states = {"fenced": not is_stopping, "in_controlled_shutdown": is_stopping}
    with pytest.raises(Violation, match="no fenced or stopping broker is in an ISR"):
        watched.commit(broker(2, epoch=20, **states))


def test_a_partition_whose_last_leader_has_a_new_disk_is_hopeless(watched: Watched) -> None:
    watched.invariants.got_new_disk("node2")
    watched.lose_all(last=2)
    assert watched.invariants.hopeless() == [("t", 0)]
    # Then an operator may have whoever is there elected, which nothing else allows.
    watched.commit(change(1, 0, isr=(1,), leader=1, leader_recovery_state=1))


def test_one_whose_last_leader_has_its_disk_is_not(watched: Watched) -> None:
    watched.invariants.got_new_disk("node1")
    watched.lose_all(last=2)
    assert watched.invariants.hopeless() == []
    with pytest.raises(Violation, match="leaders come from ISR and ELR"):
        watched.commit(change(1, 0, isr=(1,), leader=1, leader_recovery_state=1))


def test_nor_is_one_that_somebody_can_lead(watched: Watched) -> None:
    watched.invariants.got_new_disk("node2")
    offline = change(1, 0, isr=(), leader=-1, eligible_leader_replicas=(1,), last_known_elr=(2,))
    watched.commit(offline)
    assert watched.invariants.hopeless() == []


def test_a_broker_epoch_is_one_brokers(watched: Watched) -> None:
    with pytest.raises(Violation, match="a broker epoch is of one incarnation"):
        watched.commit(broker(3, epoch=20))


def test_broker_epochs_rise(watched: Watched) -> None:
    watched.commit(broker(3, epoch=50))
    with pytest.raises(Violation, match="broker epochs rise"):
        watched.commit(broker(3, epoch=49, incarnation_id=uuid(1103)))
