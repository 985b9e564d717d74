"""What becomes of a change of the ISR that a leader asks of the controller.

As long as nobody knows whether the controller did it, the high watermark waits for the members of
both: of the committed ISR, and of the one that was asked for.
"""

from __future__ import annotations

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.replica.isr import IsrChange
from tidelog.replica.partition import Partition

NOT_APPLIED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
"""Answers after which the controller has surely not done what was asked."""
OVERTAKEN = (
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
)
"""Answers after which only the metadata can tell what holds now."""


def maybe_shrink_isr(partition: Partition, now: Now) -> IsrChange | None:
    """What is to be asked of the controller if members of the ISR lag."""
    if partition.followers is None:
        return None
    isr = partition.followers.shrunk(partition.log.log_end_offset, now.monotonic_ms)
    return None if isr is None else partition.propose(isr)


def is_under_way(partition: Partition, change: IsrChange) -> bool:
    """Or the metadata has overtaken it: then its answer tells nothing."""
    return partition.followers is not None and partition.followers.pending is change


def isr_changed(
    partition: Partition, leader_epoch: int, partition_epoch: int, isr: tuple[int, ...], now: Now
) -> None:
    """The controller did what it was asked, or had done it before."""
    assert partition.followers is not None
    if leader_epoch != partition.leader_epoch or partition_epoch < partition.partition_epoch:
        return  # of another time: the metadata will tell
    partition.partition_epoch = partition_epoch
    partition.followers.commit(isr)
    partition.maybe_advance_high_watermark(now)
    partition.changed()


def isr_change_refused(partition: Partition, error: ErrorCode) -> bool:
    """The controller did not; whether to ask again."""
    assert partition.followers is not None
    if error in NOT_APPLIED:
        partition.followers.commit(partition.followers.committed)
        partition.changed()
        return False
    return error not in OVERTAKEN
