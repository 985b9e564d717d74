"""What a replica does with what its leader answers: append it as it is, cut off what diverges."""

from __future__ import annotations

import logging

from tidelog.env import Now
from tidelog.replica.partition import NO_EPOCH, Partition
from tidelog.types import Offset
from tidelog.wire.batch import RecordBatch, read_batch

log = logging.getLogger("tidelog.replica")


def append_as_follower(partition: Partition, records: memoryview, now: Now) -> None:
    """What the leader's log holds from our end on. Raises CorruptBatch, DiskFull."""
    assert not partition.is_leader
    own = partition.log
    if own.log_start_offset == own.log_end_offset:
        first = read_batch(records, 0, len(records))
        if isinstance(first, RecordBatch) and first.base_offset < own.log_end_offset:
            _begin_inside(partition, first)
    own.append_as_follower(records, now, leader_epoch_max=partition.leader_epoch)


def _begin_inside(partition: Partition, first: RecordBatch) -> None:
    """The leader's log starts inside a batch, and so does ours: with all of that batch."""
    if partition.log.log_start_offset <= first.last_offset:
        partition.log.truncate_fully_and_start_at(first.base_offset)
        partition.truncated()


def leader_told(partition: Partition, high_watermark: Offset, log_start_offset: Offset) -> None:
    """With records or without: how far the leader's log is committed, and where it starts. Our
    high watermark never falls by it: that of a new leader may be behind."""
    own = partition.log
    start = min(log_start_offset, own.log_end_offset)
    high_watermark = max(min(high_watermark, own.log_end_offset), start)
    if high_watermark > partition.high_watermark:
        partition.set_high_watermark(high_watermark)
    if start > own.log_start_offset:
        partition.advance_log_start_offset(start)


def truncate_to_epoch_end(partition: Partition, epoch: int, end_offset: Offset) -> None:
    """The leader's last epoch that is not above ours, and where that ends for it: cut off what
    cannot be in its log. The next fetch may diverge again, by an older epoch."""
    own_epoch, own_end = partition.log.end_offset_for_epoch(epoch)
    if own_epoch == NO_EPOCH:
        target = end_offset
    elif own_epoch != epoch:
        target = own_end
    else:
        target = min(own_end, end_offset)
    truncate_to(partition, target)


def truncate_to(partition: Partition, offset: Offset) -> None:
    """Give up what lies at offset and above."""
    assert not partition.is_leader
    end_offset = partition.log.log_end_offset
    if offset < min(partition.high_watermark, end_offset):
        log.warning(
            "%s gives up the committed records %d to %d: broker %d leads without having them",
            partition,
            offset,
            partition.high_watermark - 1,
            partition.leader_id,
        )
    elif offset < end_offset:
        # After a restart a replica may not know which of them were committed.
        log.info(
            "%s gives up the records %d to %d: broker %d leads without having them",
            partition,
            offset,
            end_offset - 1,
            partition.leader_id,
        )
    partition.log.truncate_to(offset)
    partition.truncated()


def truncate_fully_and_start_at(partition: Partition, offset: Offset) -> None:
    """The leader's log starts beyond our end: nothing of ours is of use."""
    assert not partition.is_leader
    log.info("%s starts anew at %d, where its leader's log starts", partition, offset)
    partition.log.truncate_fully_and_start_at(offset)
    partition.truncated()
