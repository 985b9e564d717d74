"""What the ledger of a log calls a violation, and what it excuses."""

from __future__ import annotations

import pytest

from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.disk_logs import surviving
from tidelog.sim.ledger import Entry, Ledger, ReplicaLog
from tidelog.sim.violation import Violation
from tidelog.wire.batch_builder import BatchBuilder


def batch(offset: int, epoch: int, crc: int = 0, count: int = 1) -> Entry:
    return Entry(offset, offset + count, epoch, crc, 0, offset, offset + 1)


@pytest.fixture
def ledger() -> Ledger:
    """Both have 0 and 1 of epoch 1, which are committed; the leader has 2 as well."""
    ledger = Ledger("t-0")
    for machine, count in (("leader", 3), ("follower", 2)):
        for offset in range(count):
            ledger.appended(machine, batch(offset, 1))
    assert [one.base_offset for one in ledger.commit("leader", 2)] == [0, 1]
    return ledger


def test_the_same_offset_and_epoch_is_the_same_batch(ledger: Ledger) -> None:
    with pytest.raises(Violation, match="log matching"):
        ledger.appended("follower", batch(2, 1, crc=7))


def test_the_same_batch_has_the_same_before_it(ledger: Ledger) -> None:
    ledger.appended("other", batch(0, 1))
    ledger.appended("other", batch(1, 2))
    with pytest.raises(Violation, match="before the batch"):
        ledger.appended("other", batch(2, 1))


@pytest.mark.parametrize(
    ("producer", "is_sound"),
    [
        ((7, 0, 4), True),
        ((7, 0, 5), False),
        ((7, 0, 2), False),
        ((7, 1, 0), True),
        ((7, 1, 4), False),
        ((8, 0, 9), True),
        ((-1, -1, -1), True),
    ],
)
def test_a_producers_sequences_follow_each_other(
    ledger: Ledger, producer: tuple[int, int, int], *, is_sound: bool
) -> None:
    """Behind a batch of sequences 2 and 3, and another producer's."""
    ledger.appended("leader", batch(3, 1, count=2)._replace(producer=(7, 0, 2)))
    ledger.appended("leader", batch(5, 1)._replace(producer=(9, 0, 0)))
    added = batch(6, 1)._replace(producer=producer)
    if is_sound:
        ledger.appended("leader", added)
    else:
        with pytest.raises(Violation, match="sequences have no gap"):
            ledger.appended("leader", added)


def test_what_leaders_deleted_need_not_match(ledger: Ledger) -> None:
    """A crash may bring back what an unclean leader had otherwise, and deleted."""
    ledger.deleted(2)
    for offset, epoch in ((0, 1), (1, 2), (2, 1)):
        ledger.appended("other", batch(offset, epoch))
    with pytest.raises(Violation, match="differ"):
        ledger.appended("follower", batch(2, 1, crc=7))


def test_a_log_may_begin_later(ledger: Ledger) -> None:
    ledger.appended("other", batch(1, 1))
    ledger.appended("other", batch(2, 1))


def test_what_is_committed_is_not_truncated(ledger: Ledger) -> None:
    ledger.truncated("leader", 2)
    with pytest.raises(Violation, match="committed records stay"):
        ledger.truncated("follower", 1)


def test_a_later_leader_binds_nobody_who_has_not_heard_of_it(ledger: Ledger) -> None:
    """It has records of epoch 1 that the leader of epoch 2 has not, and commits them in epoch 3,
    while somebody else gives them up because the leader of epoch 2 does not have them."""
    ledger.appended("follower", batch(2, 1))
    for offset in range(3):
        ledger.appended("other", batch(offset, 1))
    ledger.appended("member", batch(2, 1))
    ledger.commit("leader", 3, leader_epoch=3)
    ledger.counts("member", 3)
    ledger.truncated("follower", 2, leader_epoch=2)
    with pytest.raises(Violation, match="committed records stay"):
        ledger.truncated("member", 2, leader_epoch=2)
    with pytest.raises(Violation, match="committed records stay"):
        ledger.truncated("follower", 1, leader_epoch=2)
    with pytest.raises(Violation, match="committed records stay"):
        ledger.truncated("other", 2, leader_epoch=3)


def test_what_was_deleted_may_be_truncated(ledger: Ledger) -> None:
    ledger.start_offset = 2
    ledger.truncated("follower", 0)


def test_a_leader_has_what_is_committed(ledger: Ledger) -> None:
    assert ledger.lead("follower", is_unclean=False) == []
    with pytest.raises(Violation, match="leader completeness"):
        ledger.lead("nobody", is_unclean=False)


def test_an_unclean_election_costs_what_the_leader_lacks(ledger: Ledger) -> None:
    ledger.appended("late", batch(0, 1))
    assert [one.base_offset for one in ledger.lead("late", is_unclean=True)] == [1]
    assert ledger.high_watermark == 1
    assert ledger.excused[1, 1].reason == "an unclean election"
    ledger.truncated("follower", 1)
    ledger.appended("late", batch(1, 2))
    ledger.commit("late", 2)
    with pytest.raises(Violation, match="committed records stay"):
        ledger.truncated("late", 1)


def test_a_loss_is_excused_once_nobody_holds_it(ledger: Ledger) -> None:
    left = ReplicaLog()
    left.append(batch(0, 1))
    assert ledger.lost("follower", left, "power") == []
    with pytest.raises(Violation, match="leader completeness"):
        ledger.lead("follower", is_unclean=False)
    gone = ledger.lost("leader", left, "power")
    assert [one.base_offset for one in gone] == [1]
    ledger.lead("follower", is_unclean=False)


def test_what_was_not_committed_needs_no_excuse(ledger: Ledger) -> None:
    left = ReplicaLog()
    left.append(batch(0, 1))
    left.append(batch(1, 1))
    assert ledger.lost("leader", left, "power") == []
    assert ledger.excused == {}


def test_replicas_agree_below_the_high_watermark(ledger: Ledger) -> None:
    ledger.check_below("follower", 2, "agree")
    ledger.appended("other", batch(0, 1))
    ledger.appended("other", batch(1, 2))
    with pytest.raises(Violation, match="agree"):
        ledger.check_below("other", 2, "agree")
    with pytest.raises(Violation, match="agree"):
        ledger.check_below("empty", 1, "agree")


def test_what_a_replica_has_deleted_it_need_not_show(ledger: Ledger) -> None:
    """An unclean leader that has not heard of the deletion shows it again, and who has heard of it
    follows that one."""
    ledger.replica("follower").forget_below(2)
    ledger.check_below("follower", 2, "agree")
    ledger.replica("follower").start_offset = 1
    with pytest.raises(Violation, match="agree"):
        ledger.check_below("follower", 2, "agree")


def test_what_survives_is_read_up_to_the_first_flaw() -> None:
    disk = SimulatedDisk()
    disk.make_directory("d")
    offset = 0
    for name in ("d/00000000000000000000.log", "d/00000000000000000002.log"):
        file = disk.open(name)
        for _ in range(2):
            builder = BatchBuilder()
            builder.append(b"k", b"v")
            file.append(builder.build(base_offset=offset, partition_leader_epoch=3))
            offset += 1
    assert [one.base_offset for one in surviving(disk, "d").entries] == [0, 1, 2, 3]
    file = disk.open("d/00000000000000000002.log")
    file.truncate(file.size - 1)
    left = surviving(disk, "d")
    assert [one.base_offset for one in left.entries] == [0, 1, 2]
    assert left.end_offset == 3
    assert surviving(disk, "nowhere").entries == []
