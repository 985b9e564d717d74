"""What is said of replicas when a step changed several things, or not everybody knows all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.unit.replica.replicas import LAG_MS, TOPIC_ID, Replicas

from tidelog.metadata.image import PartitionState
from tidelog.replica.isr import IsrChange
from tidelog.sim.counters import Counters
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.history import Place
from tidelog.sim.plan import host
from tidelog.sim.replicas import ReplicaInvariants
from tidelog.sim.violation import Violation
from tidelog.wire.batch import BatchWalk

PLACE = Place(TOPIC_ID, 0)


class Watched(Replicas):
    """Brokers 1, 2 and 3, of which 1 leads; all have one record, and the invariants look on."""

    def __init__(self) -> None:
        super().__init__()
        self.invariants = ReplicaInvariants(Counters())
        for broker_id in self.ids:
            self.invariants.started(host(broker_id), self.disk(broker_id), ())
        self.look()
        self.append()
        self.replicate()

    def fetch(
        self, follower_id: int, *, offset: int | None = None, broker_epoch: int | None = None
    ) -> IsrChange | None:
        """The leader's step is first, and sees what the follower had before the answer."""
        change = super().fetch(follower_id, offset=offset, broker_epoch=broker_epoch)
        self.look()
        return change

    def disk(self, broker_id: int) -> SimulatedDisk:
        disk = self.partitions[broker_id].log.disk
        assert isinstance(disk, SimulatedDisk)
        return disk

    def look(self) -> None:
        """A step of everybody ends."""
        for broker_id, partition in self.partitions.items():
            self.invariants.stepped(host(broker_id), self.disk(broker_id), (partition,))

    def lose_power(self, broker_id: int) -> None:
        self.invariants.lost(host(broker_id), self.disk(broker_id).crash(), "power")


@pytest.fixture
def watched() -> Watched:
    return Watched()


@contextmanager
def violation(what: str) -> Iterator[None]:
    with pytest.raises(Violation, match=what):
        yield


def fetched_by_two_alone(watched: Watched) -> None:
    """The leader knows that 2 has the second record, and waits for 3."""
    watched.append()
    watched.fetch(2)
    watched.fetch(2)
    assert watched.leader.high_watermark == 1


def test_a_leader_need_not_know_that_a_member_lost_records(watched: Watched) -> None:
    fetched_by_two_alone(watched)
    watched.lose_power(2)
    watched.invariants.registered("node2", 70)
    watched.fetch(3)
    watched.fetch(3)
    assert watched.leader.high_watermark == 2


def test_a_leader_knows_it_by_a_fetch_of_the_process_that_came_after(watched: Watched) -> None:
    fetched_by_two_alone(watched)
    watched.lose_power(2)
    watched.invariants.registered("node2", 70)
    watched.fetch(2, offset=2, broker_epoch=70)  # it lies: it has nothing
    watched.fetch(3)
    with violation("the ISR has what is committed"):
        watched.fetch(3)


def test_a_member_that_lost_nothing_has_what_is_committed(watched: Watched) -> None:
    watched.append()
    watched.fetch(2, offset=2)
    with violation("the ISR has what is committed"):
        watched.replicate(3)


def test_the_isr_may_shrink_after_the_watermark_moved(watched: Watched) -> None:
    """In one step: 3 is no longer waited for, which a look at the configs finds; then the ISR is
    another."""
    watched.change((1, 2))
    watched.look()
    fetched_by_two_alone(watched)
    watched.advance(LAG_MS + 1)
    watched.leader.reconfigure(watched.config, watched.now)
    assert watched.leader.high_watermark == 2
    watched.change((1,))
    watched.look()


def test_the_watermark_waits_for_enough_replicas(watched: Watched) -> None:
    watched.change((1,))
    watched.look()
    watched.append()
    watched.look()
    watched.change((1,))
    watched.leader.set_high_watermark(2)
    with violation("waits for enough replicas"):
        watched.look()


def committed_without_three(watched: Watched) -> None:
    """1 and 2 have a second record."""
    watched.change((1, 2))
    watched.append()
    watched.advance(LAG_MS + 1)
    watched.replicate(2)
    assert watched.leader.high_watermark == 2


def test_the_heir_of_who_was_elected_uncleanly_may_lack_records(watched: Watched) -> None:
    committed_without_three(watched)
    watched.leader_epoch += 1  # 3 is elected uncleanly, and gone before it learns that
    watched.partition_epoch += 1
    watched.invariants.elected_unclean(PLACE, watched.leader_epoch)
    watched.elect(3, isr=(3,), only=(3,))
    watched.look()
    excused = watched.invariants.ledgers[PLACE].excused.values()
    assert [one.reason for one in excused] == ["an unclean election"]


def test_who_is_elected_cleanly_lacks_nothing(watched: Watched) -> None:
    committed_without_three(watched)
    watched.elect(3, isr=(3,), only=(3,))
    with violation("leader completeness"):
        watched.look()


def test_a_follower_deletes_what_a_leader_has(watched: Watched) -> None:
    watched.append()
    watched.replicate()
    watched.leader.advance_log_start_offset(1)
    watched.replicate(2)
    assert watched[2].log.log_start_offset == 1
    watched[3].advance_log_start_offset(2)
    with violation("no follower deletes more than a leader did"):
        watched.look()


def counted(watched: Watched) -> PartitionState:
    """All three, by the controller's word."""
    return PartitionState((1, 2, 3), (1, 2, 3), 1, watched.leader_epoch, 9)


def test_a_leader_has_asked_for_all_that_the_controller_counts(watched: Watched) -> None:
    watched.invariants.decided(PLACE, counted(watched))
    watched.change((1, 3))
    watched.look()
    with violation("a leader waits for all that may be elected"):
        watched.invariants.decided(PLACE, counted(watched))


def test_a_leader_waits_for_all_that_the_controller_counts(watched: Watched) -> None:
    """It forgets that it asked for 2."""
    watched.invariants.decided(PLACE, counted(watched))
    watched.change((1, 3))
    watched.append()
    watched.advance(LAG_MS + 1)
    watched.fetch(3)
    with violation("a leader waits for all that may be elected"):
        watched.fetch(3)


def test_what_was_decided_for_another_epoch_says_nothing(watched: Watched) -> None:
    watched.change((1, 3))
    watched.look()
    watched.invariants.decided(PLACE, PartitionState((1, 2, 3), (1, 2, 3), 1, 7, 9))
    watched.append()
    watched.advance(LAG_MS + 1)
    watched.replicate(3)
    assert watched.leader.high_watermark == 2


def test_no_replica_shows_more_than_its_high_watermark(watched: Watched) -> None:
    found = watched.leader.log.read(0, 1, 1 << 20)
    assert found is not None
    (batch,) = BatchWalk(found.read())
    watched.invariants.read("consumer", PLACE, batch, 1)
    with violation("no replica shows more than its high watermark"):
        watched.invariants.read("consumer", PLACE, batch, 0)


def test_who_follows_a_leader_that_was_overtaken_need_not_know_it(watched: Watched) -> None:
    """Somebody else was elected uncleanly: neither 1 nor its followers have heard of that."""
    watched.append()
    watched.invariants.elected_unclean(PLACE, watched.leader_epoch + 1)
    watched.replicate()
    watched.replicate()
    assert watched[2].high_watermark == 2
    ledger = watched.invariants.ledgers[PLACE]
    assert ledger.high_watermark == 1
    assert [one.reason for one in ledger.excused.values()] == ["an unclean election"]


def test_nor_need_that_leader_know_what_others_have_committed_since(watched: Watched) -> None:
    """A leader of two epochs ago hears of its own and of the end of it late, one by one."""
    watched.append()
    watched.invariants.elected_unclean(PLACE, watched.leader_epoch + 1)
    watched.elect(3, isr=(3, 2), only=(3, 2))
    watched.append()
    watched.advance(LAG_MS + 1)
    watched.replicate(2)
    ledger = watched.invariants.ledgers[PLACE]
    assert watched[3].high_watermark == ledger.high_watermark == 2
    watched[1].set_high_watermark(2)
    watched.look()
    assert [one.reason for one in ledger.excused.values()] == ["an unclean election"]


def test_nobody_else_is_ahead_of_every_leader(watched: Watched) -> None:
    watched.append()
    watched.fetch(2)
    watched[2].set_high_watermark(2)
    with violation("no follower is ahead of every leader"):
        watched.look()
