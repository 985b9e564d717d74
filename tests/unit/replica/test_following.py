"""What a follower does with its log; numbers in names are scenarios of the replication
reference."""

from __future__ import annotations

import logging

import pytest
from tests.unit.log.log_samples import built, valid
from tests.unit.replica.replicas import Replicas, content

from tidelog.log.results import CorruptBatch
from tidelog.replica.following import (
    append_as_follower,
    leader_told,
    truncate_fully_and_start_at,
    truncate_to,
    truncate_to_epoch_end,
)
from tidelog.replica.partition import Partition
from tidelog.wire.batch import assign_offset


def records(count: int, offset: int, epoch: int) -> memoryview:
    data = built(count)
    assign_offset(data, 0, offset, epoch)
    return memoryview(data)


def follower(leader_epoch: int = 9) -> tuple[Replicas, Partition]:
    replicas = Replicas(lead=False)
    replicas.leader_epoch = leader_epoch - 1
    replicas.elect(1, isr=(1, 2, 3), only=(2,))
    return replicas, replicas[2]


def fill(replicas: Replicas, partition: Partition, *batches: tuple[int, int, int]) -> None:
    for count, offset, epoch in batches:
        append_as_follower(partition, records(count, offset, epoch), replicas.now)


def test_replicas_are_the_same_bytes() -> None:
    replicas = Replicas()
    for count in (1, 7, 2):
        replicas.append(count)
    replicas.replicate()
    replicas.elect(3, isr=(1, 2, 3))
    replicas.append(4)
    replicas.replicate()
    assert content(replicas[1]) == content(replicas[2]) == content(replicas[3])
    for partition in replicas.partitions.values():
        assert partition.log.leader_epochs.entries() == [(0, 0), (1, 10)]


def test_a_followers_high_watermark_moves_by_its_leaders_word_alone() -> None:
    replicas, partition = follower()
    fill(replicas, partition, (3, 0, 1))
    # As after a flush, which counts for a leader.
    assert not partition.maybe_advance_high_watermark(replicas.now)
    assert partition.high_watermark == 0
    leader_told(partition, high_watermark=2, log_start_offset=0)
    assert partition.high_watermark == 2


def test_batches_that_end_before_the_divergence_stay_13() -> None:
    replicas, partition = follower()
    fill(replicas, partition, (10, 0, 1), (1, 10, 1), (1, 11, 2))
    truncate_to_epoch_end(partition, 1, 10)
    assert partition.log.log_end_offset == 10
    assert partition.log.leader_epochs.entries() == [(1, 0)]


def test_an_epoch_that_only_the_leader_has_is_found_in_two_steps_14() -> None:
    replicas, partition = follower()
    fill(replicas, partition, (10, 0, 1), (10, 10, 3), (5, 20, 5))
    # The leader answers for epoch 5: its epoch 4 ends at 15. Ours below 4 is 3, which ends at 20.
    truncate_to_epoch_end(partition, 4, 15)
    assert partition.log.log_end_offset == 20
    truncate_to_epoch_end(partition, 2, 10)
    assert partition.log.log_end_offset == 10
    assert partition.log.leader_epochs.latest == 1


def test_where_no_epoch_is_known_the_leaders_end_counts() -> None:
    replicas, partition = follower()
    fill(replicas, partition, (10, 0, 5), (10, 10, 5))
    truncate_to_epoch_end(partition, 6, 10)
    assert partition.log.log_end_offset == 10


def test_an_own_epoch_without_records_vanishes_15() -> None:
    replicas = Replicas()
    replicas.append(3)
    replicas.replicate()
    replicas.elect(2, isr=(1, 2, 3))
    assert replicas[2].log.leader_epochs.entries() == [(0, 0), (1, 3)]
    replicas.elect(1, isr=(1, 2, 3))
    truncate_to_epoch_end(replicas[2], 0, 3)
    assert replicas[2].log.leader_epochs.entries() == [(0, 0)]
    assert replicas[2].log.log_end_offset == 3


def test_the_high_watermark_falls_by_truncation_alone(caplog: pytest.LogCaptureFixture) -> None:
    replicas, partition = follower()
    fill(replicas, partition, (4, 0, 1), (4, 4, 1))
    leader_told(partition, 6, 0)
    assert partition.high_watermark == 6
    leader_told(partition, 3, 0)
    assert partition.high_watermark == 6
    leader_told(partition, 99, 0)
    assert partition.high_watermark == 8
    with caplog.at_level(logging.WARNING):
        truncate_to(partition, 4)
    assert (partition.high_watermark, partition.log.log_end_offset) == (4, 4)
    assert "t-0 gives up the committed records 4 to 7: broker 1 leads" in caplog.text


def test_a_log_that_ends_before_the_leaders_starts_begins_anew_17() -> None:
    replicas, partition = follower()
    fill(replicas, partition, (5, 0, 1))
    leader_told(partition, 5, 0)
    truncate_fully_and_start_at(partition, 20)
    log = partition.log
    assert (log.log_start_offset, log.log_end_offset, partition.high_watermark) == (20, 20, 20)
    assert log.leader_epochs.entries() == []
    fill(replicas, partition, (3, 20, 7))
    assert (log.log_end_offset, log.leader_epochs.entries()) == (23, [(7, 20)])


def test_a_log_that_starts_inside_a_batch_has_all_of_it_18() -> None:
    replicas, partition = follower()
    truncate_fully_and_start_at(partition, 20)
    fill(replicas, partition, (11, 15, 2))
    leader_told(partition, 26, 20)
    log = partition.log
    assert (log.log_start_offset, log.log_end_offset, partition.high_watermark) == (20, 26, 26)
    assert log.segments[0].base_offset == 15


def test_a_batch_below_the_end_is_refused_where_the_log_has_records() -> None:
    replicas, partition = follower()
    fill(replicas, partition, (5, 0, 1))
    with pytest.raises(CorruptBatch):
        fill(replicas, partition, (3, 4, 1))
    assert partition.log.log_end_offset == 5
    truncate_fully_and_start_at(partition, 20)
    with pytest.raises(CorruptBatch):
        fill(replicas, partition, (3, 10, 1))


def test_batches_of_a_later_leader_are_left_out_28() -> None:
    replicas, partition = follower(leader_epoch=3)
    both = bytes(records(2, 0, 3)) + bytes(records(2, 2, 4)) + bytes(records(2, 4, 3))
    append_as_follower(partition, memoryview(both), replicas.now)
    assert partition.log.log_end_offset == 2
    fill(replicas, partition, (1, 2, 4))
    assert partition.log.log_end_offset == 2
    assert partition.log.leader_epochs.entries() == [(3, 0)]


def test_a_wrong_checksum_is_not_stored() -> None:
    replicas, partition = follower()
    data = bytearray(records(1, 0, 1))
    data[-1] ^= 1
    with pytest.raises(CorruptBatch):
        append_as_follower(partition, memoryview(data), replicas.now)
    assert partition.log.log_end_offset == 0


def test_a_follower_raises_its_start_with_the_leaders() -> None:
    replicas, partition = follower()
    fill(replicas, partition, (4, 0, 1), (4, 4, 2))
    leader_told(partition, 8, 6)
    assert (partition.log.log_start_offset, partition.log.leader_epochs.entries()) == (6, [(2, 6)])
    leader_told(partition, 8, 99)  # nonsense, but it must not break anything
    assert partition.log.log_start_offset == 8


def test_a_flush_does_not_tell_a_follower_what_is_committed() -> None:
    replicas, partition = follower()
    fill(replicas, partition, (4, 0, 1))
    assert not partition.maybe_advance_high_watermark(replicas.now)
    partition.reconfigure(partition.log.config, replicas.now)
    assert partition.high_watermark == 0


def test_roles_change_only_with_newer_metadata() -> None:
    replicas = Replicas()
    assert replicas[1].isr == (1, 2, 3)
    replicas.append()
    replicas.elect(2, isr=(1, 2, 3))
    assert (replicas[1].is_leader, replicas[1].isr, replicas[1].leader_id) == (False, (), 2)
    assert not replicas.tell(1, (1, 2, 3))
    old = {"leader_epoch": 0, "partition_epoch": 0, "replicas": (1, 2, 3)}
    assert not replicas[1].become_leader(**old, isr=(1, 2, 3), now=replicas.now)
    assert not replicas[1].is_leader
    # The same leader, but another ISR: who follows goes on.
    replicas.partition_epoch += 1
    assert not replicas.tell(1, (1, 2))
    assert replicas[1].partition_epoch == replicas.partition_epoch


def test_who_waits_for_acknowledgements_looks_again_when_leadership_goes() -> None:
    replicas = Replicas()
    replicas.leader.append(valid(built(1)), replicas.now)
    called: list[str] = []
    replicas[1].high_watermark_awaited.add(1, lambda: called.append("a"))
    place = replicas[1].high_watermark_awaited.add(1, lambda: called.append("b"))
    replicas[1].high_watermark_awaited.remove(place)
    replicas[1].high_watermark_awaited.remove(place)
    assert len(replicas[1].high_watermark_awaited) == 1
    replicas.elect(2, isr=(1, 2, 3))
    assert called == ["a"]
    assert len(replicas[1].high_watermark_awaited) == 0
