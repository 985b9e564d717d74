"""Who is in sync, and what that makes of the high watermark. Numbers in names are scenarios of
the replication reference."""

from __future__ import annotations

import pytest
from tests.unit.replica.replicas import LAG_MS, Replicas

from tidelog.errors import ErrorCode
from tidelog.replica.isr import IsrChange
from tidelog.replica.isr_change import (
    NOT_APPLIED,
    OVERTAKEN,
    is_under_way,
    isr_change_refused,
    isr_changed,
    maybe_shrink_isr,
)


def test_the_high_watermark_is_what_all_in_sync_have_1() -> None:
    replicas = Replicas()
    replicas.append(5)
    replicas.replicate()
    assert replicas.watermarks() == {1: 5, 2: 5, 3: 5}
    replicas.append(3)
    for id_ in (2, 3):
        replicas.fetch(id_)
    # All have it, but the leader knows of none before they ask for what comes next.
    assert replicas.ends() == {1: 8, 2: 8, 3: 8}
    assert replicas.watermarks() == {1: 5, 2: 5, 3: 5}
    replicas.fetch(2)
    assert replicas.leader.high_watermark == 5
    replicas.fetch(3)
    # The answer to that fetch still had the high watermark from before it.
    assert replicas.watermarks() == {1: 8, 2: 5, 3: 5}


def test_a_follower_one_batch_behind_stays_in_sync_2() -> None:
    replicas = Replicas()
    replicas.replicate()
    for _ in range(100):
        replicas.append()
        replicas.advance(LAG_MS // 10)
        for id_ in (2, 3):
            # It asks for what it got last time, while there is more already.
            replicas.append()
            replicas.fetch(id_)
        assert maybe_shrink_isr(replicas.leader, replicas.now) is None


def test_a_follower_that_is_stuck_leaves_unless_it_has_all_3() -> None:
    replicas = Replicas()
    replicas.append()
    replicas.replicate()
    replicas.append()
    replicas.fetch(2)
    replicas.fetch(2)
    replicas.fetch(3, offset=1)
    replicas.advance(LAG_MS)
    replicas.fetch(3, offset=1)
    assert maybe_shrink_isr(replicas.leader, replicas.now) is None
    replicas.advance(1)
    change = maybe_shrink_isr(replicas.leader, replicas.now)
    assert change == IsrChange((1, 2), (-1, 20), 0, 0)
    # One at a time.
    assert maybe_shrink_isr(replicas.leader, replicas.now) is None
    assert is_under_way(replicas.leader, change)


def test_who_never_fetched_has_the_full_time_since_the_election() -> None:
    replicas = Replicas()
    replicas.append()
    replicas.advance(LAG_MS)
    assert maybe_shrink_isr(replicas.leader, replicas.now) is None
    replicas.advance(1)
    change = maybe_shrink_isr(replicas.leader, replicas.now)
    assert change is not None
    assert (change.isr, change.broker_epochs) == ((1,), (-1,))


@pytest.mark.parametrize("why", ["fenced", "stopping", "old epoch"])
def test_who_may_not_join_does_not_and_is_not_waited_for_4(why: str) -> None:
    replicas = Replicas()
    replicas.change((1, 2))
    if why == "old epoch":
        replicas.brokers.epochs[3] = 99
    else:
        getattr(replicas.brokers, why).add(3)
    replicas.append(2)
    replicas.fetch(2)
    epoch = 30 if why == "old epoch" else None
    assert replicas.fetch(3, broker_epoch=epoch) is None
    assert replicas.fetch(3, broker_epoch=epoch) is None
    assert replicas[3].log.log_end_offset == 2
    replicas.append()
    replicas.fetch(2)
    replicas.fetch(2)
    assert replicas.leader.high_watermark == 3


def test_a_change_that_the_controller_refuses_leaves_the_committed_isr_5() -> None:
    replicas = Replicas()
    replicas.change((1, 2))
    change = replicas.fetch(3)
    assert change == IsrChange((1, 2, 3), (-1, -1, 30), 0, 1)
    assert replicas.leader.maximal_isr == (1, 2, 3)
    for error in NOT_APPLIED:
        assert not isr_change_refused(replicas.leader, error)
        assert replicas.leader.maximal_isr == replicas.leader.isr == (1, 2)
        assert not is_under_way(replicas.leader, change)
        change = replicas.fetch(3)
        assert change is not None


def test_an_incarnation_that_is_gone_is_refused_6() -> None:
    replicas = Replicas()
    replicas.fetch(3)
    replicas.brokers.epochs[3] = 50
    check = replicas.leader.check_follower
    assert check(3, 30, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert check(3, 50, 0) is check(3, -1, 0) is ErrorCode.NONE
    assert check(3, 51, 0) is ErrorCode.NONE  # its registration is on its way to us


def test_who_is_no_replica_may_be_one_soon_21() -> None:
    check = Replicas().leader.check_follower
    assert check(4, 40, 0) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert check(4, 40, -1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert check(1, 10, 0) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_who_joins_counts_at_once_and_who_leaves_until_it_is_sure_7() -> None:
    replicas = Replicas()
    replicas.change((1, 2))
    replicas.append(2)
    replicas.replicate(2)
    assert replicas.leader.high_watermark == 2
    replicas.fetch(3)
    assert replicas.fetch(3) is not None
    replicas.advance(LAG_MS * 2)
    replicas.append()
    replicas.replicate(2)
    assert replicas.leader.high_watermark == 2
    replicas.replicate(3)
    assert replicas.leader.high_watermark == 3
    isr_changed(replicas.leader, 0, 2, (1, 2, 3), replicas.now)
    replicas.append()
    replicas.advance(LAG_MS + 1)
    replicas.replicate(2)
    leaving = maybe_shrink_isr(replicas.leader, replicas.now)
    assert leaving is not None
    assert leaving.isr == (1, 2)
    assert replicas.leader.high_watermark == 3
    isr_changed(replicas.leader, 0, 3, (1, 2), replicas.now)
    assert replicas.leader.high_watermark == 4
    assert replicas.leader.partition_epoch == 3


def test_below_min_isr_the_high_watermark_is_frozen_8() -> None:
    replicas = Replicas()
    replicas.append()
    replicas.replicate()
    replicas.change((1,))
    assert replicas.leader.is_under_min_isr
    replicas.append()
    assert replicas.fetch(2) is not None
    assert replicas.fetch(3) is None
    replicas.fetch(2)
    # Not even while the change is under way: the controller may not have done it.
    replicas.fetch(3)
    assert replicas.leader.high_watermark == 1
    isr_changed(replicas.leader, 0, 2, (1, 2), replicas.now)
    assert replicas.leader.high_watermark == 2
    assert not replicas.leader.is_under_min_isr


def test_min_isr_is_no_more_than_there_are_replicas() -> None:
    assert Replicas(1, 2, min_isr=5).leader.min_isr == 2
    alone = Replicas(1, min_isr=5)
    alone.append()
    assert (alone.leader.min_isr, alone.leader.high_watermark) == (1, 1)


def test_a_replica_about_to_join_is_waited_for() -> None:
    """Else a leader in sync with itself alone could outrun it for ever."""
    replicas = Replicas(min_isr=1)
    replicas.change((1,))
    replicas.append(4)
    assert replicas.leader.high_watermark == 4
    replicas.fetch(2)
    replicas.fetch(2)
    replicas.leader.followers.commit((1,))  # as if its change had been refused
    replicas.append()
    assert replicas.leader.high_watermark == 4
    replicas.advance(LAG_MS + 1)
    replicas.append()
    assert replicas.leader.high_watermark == 6


def test_a_new_leader_knows_the_end_when_all_have_fetched_12() -> None:
    replicas = Replicas()
    replicas.append(5)
    replicas.replicate()
    replicas.append(4)
    replicas.fetch(2)
    replicas.fetch(3)
    replicas.elect(2, isr=(1, 2, 3))
    assert (replicas.leader.high_watermark, replicas.leader.epoch_start_offset) == (5, 9)
    assert replicas.leader.is_end_unknown
    assert replicas.fetch(3) is None
    assert replicas.leader.high_watermark == 5
    replicas.fetch(1)
    assert replicas.leader.high_watermark == 9
    assert not replicas.leader.is_end_unknown


def test_who_has_not_reached_the_epochs_start_does_not_join() -> None:
    """The high watermark of a new leader may be behind what was acknowledged before."""
    replicas = Replicas()
    replicas.append(5)
    replicas.fetch(2)
    replicas.elect(2, isr=(1, 2))
    assert (replicas.leader.high_watermark, replicas.leader.epoch_start_offset) == (0, 5)
    assert replicas.fetch(3) is None
    assert replicas.fetch(3) is not None


def test_an_epoch_in_place_keeps_what_is_known() -> None:
    replicas = Replicas()
    replicas.append(5)
    replicas.replicate()
    replicas.advance(LAG_MS * 2)
    replicas.elect(1, isr=(1, 2, 3))
    assert replicas.leader.followers.remote[2].log_end_offset == 5
    assert replicas.leader.log.leader_epochs.entries() == [(0, 0), (1, 5)]
    replicas.append()
    assert maybe_shrink_isr(replicas.leader, replicas.now) is None
    replicas.advance(LAG_MS + 1)
    assert maybe_shrink_isr(replicas.leader, replicas.now) is not None


@pytest.mark.parametrize("error", OVERTAKEN)
def test_a_change_that_was_overtaken_waits_for_the_metadata_35(error: ErrorCode) -> None:
    replicas = Replicas()
    replicas.change((1, 2))
    change = replicas.fetch(3)
    assert change is not None
    assert not isr_change_refused(replicas.leader, error)
    assert is_under_way(replicas.leader, change)
    assert replicas.leader.maximal_isr == (1, 2, 3)
    replicas.change((1, 3))
    assert not is_under_way(replicas.leader, change)
    assert replicas.leader.maximal_isr == (1, 3)


def test_other_errors_are_asked_again() -> None:
    replicas = Replicas()
    replicas.change((1, 2))
    change = replicas.fetch(3)
    assert change is not None
    assert isr_change_refused(replicas.leader, ErrorCode.NOT_CONTROLLER)
    assert is_under_way(replicas.leader, change)


def test_old_news_change_nothing() -> None:
    """What the answer to AlterPartition told comes again with the metadata: meanwhile another
    change may be under way, and the controller may have done that too."""
    replicas = Replicas()
    replicas.change((1, 2))
    assert replicas.fetch(3) is not None
    isr_changed(replicas.leader, 0, 2, (1, 2, 3), replicas.now)
    replicas.append()
    replicas.replicate(3)
    replicas.advance(LAG_MS + 1)
    replicas.fetch(3)
    leaving = maybe_shrink_isr(replicas.leader, replicas.now)
    assert leaving is not None
    assert not replicas.tell(1, (1, 2, 3), partition_epoch=2)
    assert not replicas.tell(1, (1, 2), partition_epoch=1)
    assert is_under_way(replicas.leader, leaving)
    isr_changed(replicas.leader, 0, 1, (1,), replicas.now)
    isr_changed(replicas.leader, 1, 9, (1,), replicas.now)
    assert is_under_way(replicas.leader, leaving)
    assert (replicas.leader.isr, replicas.leader.partition_epoch) == ((1, 2, 3), 2)


def test_a_session_that_names_a_partition_no_more_still_fetches_it() -> None:
    replicas = Replicas()
    replicas.append()
    replicas.replicate()
    replicas.advance(LAG_MS * 3)
    for id_, epoch in ((2, 20), (3, 29)):
        replicas.leader.followers.touched(id_, epoch, replicas.now.monotonic_ms)
    replicas.append()
    change = maybe_shrink_isr(replicas.leader, replicas.now)
    # The touch of 3 was one of an incarnation before.
    assert change is not None
    assert change.isr == (1, 2)


def test_the_low_watermark_is_of_all_that_live_38() -> None:
    replicas = Replicas()
    replicas.append(5)
    assert replicas.leader.low_watermark == -1
    replicas.replicate()
    assert replicas.leader.low_watermark == 0
    replicas.leader.advance_log_start_offset(3)
    called: list[int] = []
    replicas.leader.low_watermark_awaited.add(3, lambda: called.append(1))
    replicas.replicate(2)
    assert (replicas.leader.low_watermark, called) == (0, [])
    replicas.brokers.fenced.add(3)
    assert replicas.leader.low_watermark == 3
    replicas.brokers.fenced.clear()
    replicas.replicate(3)
    assert (replicas.leader.low_watermark, called) == (3, [1])
    assert [replicas[id_].log.log_start_offset for id_ in (1, 2, 3)] == [3, 3, 3]
