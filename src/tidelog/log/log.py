"""The log of one partition: append, read, roll, truncate. One class for data,
`__cluster_metadata`, `__consumer_offsets` and `__transaction_state`."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tidelog.env import Disk, DiskFull, FileSlice, Now, Rng
from tidelog.errors import ErrorCode
from tidelog.log.config import LogConfig
from tidelog.log.durability import Durability
from tidelog.log.leader_epochs import LeaderEpochs
from tidelog.log.names import SNAPSHOT, file_name
from tidelog.log.producer_replay import (
    delete_snapshots,
    load_snapshot,
    recall_batches,
    replay,
    replay_batch,
)
from tidelog.log.producer_state import KnownBatch, ProducerStates, SequencedBatch
from tidelog.log.results import Appended, CorruptBatch, OffsetOutOfRange, Unflushed
from tidelog.log.segment import Segment
from tidelog.log.segments import Segments
from tidelog.log.timestamps import find_max_timestamp, find_timestamp
from tidelog.log.txn_index import AbortedTransaction
from tidelog.log.walk import fit_together, sound_batches
from tidelog.types import ZERO_UUID, Offset, Uuid
from tidelog.wire.batch import (
    LENGTH_END,
    NO_TIMESTAMP,
    RecordBatch,
    TimestampType,
    assign_offset,
    read_batch,
)
from tidelog.wire.batch_validation import ValidBatch

__all__ = ["Appended", "CorruptBatch", "Log", "OffsetOutOfRange", "Unflushed"]

LEADER_EPOCH_MAX = (1 << 31) - 1
_new = tuple.__new__
_PLACE = struct.Struct(">qii")
"""Base offset, length, leader epoch: a leader writes the outer two into a header."""


class Log:
    """Invariants: log_start_offset ≤ log_end_offset, recovery_point ≤ log_end_offset. The high
    watermark is the replica's.

    An OSError from any method takes the log directory offline. DiskFull leaves the log as it was.
    """

    __slots__ = (
        "_config",
        "disk",
        "durability",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "path",
        "producers",
        "rng",
        "segments",
        "topic_id",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        config: LogConfig,
        segments: list[Segment],
        *,
        log_start_offset: Offset,
        log_end_offset: Offset,
        recovery_point: Offset,
        leader_epochs: LeaderEpochs,
        producers: ProducerStates,
        topic_id: Uuid = ZERO_UUID,
    ) -> None:
        self.disk = disk
        self.path = path
        self.topic_id = topic_id
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.leader_epochs = leader_epochs
        self.producers = producers
        self.segments = Segments(segments)
        assert self.segments.active.file.size == self.segments.active.size
        self.durability = Durability(disk, path, recovery_point)
        self.rng: Rng | None = None
        """Where segment.jitter.ms gets its chance from; without it there is no jitter."""
        self.config = config

    def __repr__(self) -> str:
        return f"Log({self.path!r}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def config(self) -> LogConfig:
        """A new one counts from the next append on."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        for segment in self.segments:
            segment.config = config

    @property
    def size_bytes(self) -> int:
        """Of all batches."""
        return sum(segment.size for segment in self.segments)

    def append_as_leader(
        self, valid: ValidBatch, leader_epoch: int, now: Now
    ) -> Appended | ErrorCode:
        """A client's batch, which gets the next offsets; its buffer is written to."""
        valid = valid.rewritten()
        view, times = valid.batch.to_view(), (valid.max_timestamp, valid.append_time)
        return self.append_checked(valid.batch, view, *times, leader_epoch, now)

    def append_checked(
        self,
        batch: SequencedBatch,
        view: memoryview,
        max_timestamp: int,
        append_time: int,
        leader_epoch: int,
        now: Now,
    ) -> Appended | ErrorCode:
        """The same with a batch whose header says already what it must."""
        if batch.producer_id >= 0:
            known = self.producers.check(batch)
            if known is not None:
                return known if isinstance(known, ErrorCode) else self._known(known)
        size = len(view)
        if size > self._config.segment_bytes:
            return ErrorCode.RECORD_LIST_TOO_LARGE
        base_offset = self.log_end_offset
        last_offset = base_offset + batch.last_offset_delta
        _PLACE.pack_into(view, 0, base_offset, size - LENGTH_END, leader_epoch)
        try:
            segment = self.segments.active
            if not segment.has_room(size, last_offset, max_timestamp, now.wall_ms):
                self.roll(base_offset, now)
                segment = self.segments.active
            segment.append(view, size, last_offset, max_timestamp)
        except DiskFull:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if leader_epoch != self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, base_offset)
        if batch.producer_id >= 0:
            self.producers.update(batch, base_offset, max_timestamp)
        self.log_end_offset = last_offset + 1
        # Without the named tuple's own constructor, which takes as long as the checks above.
        return _new(Appended, (base_offset, last_offset, append_time, self.log_start_offset, False))

    def _known(self, known: KnownBatch) -> Appended:
        appended = self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
        append_time = known.timestamp if appended else NO_TIMESTAMP
        offsets = known.base_offset, known.last_offset
        return Appended(*offsets, append_time, self.log_start_offset, is_duplicate=True)

    def append_built(self, data: bytearray, leader_epoch: int, now: Now) -> Appended | ErrorCode:
        """One batch that this node made itself, control batches too: it gets the next offsets
        and is not checked."""
        view = memoryview(data)
        assign_offset(view, 0, self.log_end_offset, leader_epoch)
        batch = read_batch(view, 0, len(view))
        assert isinstance(batch, RecordBatch)
        assert batch.end_position == len(view)
        base_offset = self.log_end_offset
        try:
            self._append_sound(view, [batch], now)
        except DiskFull:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return Appended(base_offset, batch.last_offset, NO_TIMESTAMP, self.log_start_offset)

    def append_as_follower(
        self, batches: memoryview, now: Now, *, leader_epoch_max: int = LEADER_EPOCH_MAX
    ) -> Offset:
        """What a leader's log holds, gaps and all; left out is an incomplete batch at the end,
        and from the first batch of a later epoch on everything: who wrote that is not our leader
        yet. Returns the new last offset. Raises CorruptBatch, DiskFull."""
        whole = sound_batches(batches, self.log_end_offset, leader_epoch_max)
        if whole and fit_together(self.segments.active, whole, now.wall_ms):
            self._append_sound(batches[: whole[-1].end_position], whole, now)
            return self.log_end_offset - 1
        start = 0
        chunk: list[RecordBatch] = []
        for batch in whole:
            size, last = batch.end_position - start, batch.last_offset
            if chunk and not self.segments.active.has_room_behind(
                len(chunk), size, last, batch.max_timestamp, now.wall_ms
            ):
                self._append_sound(batches[start : batch.position], chunk, now)
                start, chunk = batch.position, []
            chunk.append(batch)
        if chunk:
            self._append_sound(batches[start : chunk[-1].end_position], chunk, now)
        return self.log_end_offset - 1

    def _append_sound(self, data: memoryview, batches: list[RecordBatch], now: Now) -> None:
        first, last = batches[0], batches[-1]
        assert first.base_offset >= self.log_end_offset
        max_timestamp = first.max_timestamp
        if last is not first:
            max_timestamp = max([batch.max_timestamp for batch in batches])
        segment = self.segments.active
        if not segment.has_room(len(data), last.last_offset, max_timestamp, now.wall_ms):
            self.roll(first.base_offset, now)
            segment = self.segments.active
        segment.append_chunk(data, batches)
        for batch in batches:
            if batch.partition_leader_epoch > self.leader_epochs.latest:
                self.leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            if batch.producer_id >= 0:
                replay_batch(batch, self.producers, segment)
        self.log_end_offset = last.next_offset

    def roll(self, base_offset: Offset, now: Now) -> None:
        """Begin a new segment. DiskFull leaves everything as it was."""
        assert base_offset >= self.log_end_offset
        assert base_offset > self.segments.active.base_offset
        self.durability.write_snapshot(base_offset, self.producers)
        segment = Segment(self.disk, self.path, base_offset, self.config)
        segment.start(now.wall_ms, self.config.roll_jitter_ms(self.rng))
        self.segments.active.index_time()
        self.segments.append(segment)
        self.durability.names_changed = self.durability.has_sealed = True

    def read(
        self,
        start_offset: Offset,
        end_offset_max: Offset,
        bytes_max: int,
        *,
        at_least_one: bool = True,
    ) -> FileSlice | None:
        """Whole batches of one segment, from the one that holds start_offset, all below
        end_offset_max. Up to bytes_max, but with at_least_one the first whatever its size."""
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"{start_offset} is not in {self!r}")
        if start_offset >= end_offset_max:
            return None
        return self.segments.read(
            start_offset, end_offset_max, self.log_end_offset, bytes_max, at_least_one
        )

    def offset_for_timestamp(
        self, timestamp: int, end_offset: Offset
    ) -> tuple[int, Offset, int] | None:
        """Timestamp, offset and leader epoch of the first record that is not older."""
        found = find_timestamp(self.segments, timestamp, self.log_start_offset)
        return None if found is None or found[1] >= end_offset else found

    def offset_of_max_timestamp(self, end_offset: Offset) -> tuple[int, Offset, int] | None:
        """Of the first record with the greatest timestamp."""
        found = find_max_timestamp(self.segments)
        return None if found is None or found[1] >= end_offset else found

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, Offset]:
        """The greatest known epoch not above, and where it ends; (-1, -1) if undefined."""
        return self.leader_epochs.end_offset_for(epoch, self.log_end_offset)

    @property
    def first_unstable_offset(self) -> Offset | None:
        """Of the first transaction whose outcome may still change; None if there is none."""
        first = self.producers.first_unstable_offset
        return None if first is None else max(first, self.log_start_offset)

    def aborted_transactions(self, start: Offset, end: Offset) -> Iterator[AbortedTransaction]:
        """Those with records in [start, end)."""
        for segment in self.segments.from_offset(start):
            for entry in segment.aborted:
                if entry.last_offset >= start and entry.first_offset < end:
                    yield entry
                if entry.last_stable_offset >= end:
                    return

    def truncate_to(self, offset: Offset) -> bool:
        """Give up what lies at offset and above; whether that was anything. The recovery point
        goes down with it, and must be checkpointed before the next append counts."""
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return False
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self.segments.delete_from(offset + 1)
        self.segments.active.truncate(offset)
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.leader_epochs.truncate_from_end(offset)
        self.durability.truncated(offset)
        self._rebuild_producers()
        return True

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Give up everything; the next batch gets this offset."""
        created_ms = self.segments.active.created_ms
        self.segments.delete_all()
        segment = Segment(self.disk, self.path, offset, self.config)
        segment.start(created_ms, 0)
        self.segments.append(segment)
        self.log_start_offset = self.log_end_offset = offset
        self.leader_epochs.clear()
        self.producers.clear()
        delete_snapshots(self.disk, self.path, above=-1)
        self.durability.truncated(offset)

    def _rebuild_producers(self) -> None:
        """From snapshots and batches, as on a restart."""
        start, end = self.log_start_offset, self.log_end_offset
        delete_snapshots(self.disk, self.path, above=end)
        self.producers, start = load_snapshot(self.disk, self.path, above=start, up_to=end)
        recall_batches(self.producers, self.segments, start)
        replay(self.producers, self.segments, start, end)
        self.durability.write_snapshot(end, self.producers)

    def advance_log_start_offset(self, offset: Offset) -> bool:
        """Give up what lies below; whether that is news. Files go with the next retention."""
        if offset <= self.log_start_offset:
            return False
        assert offset <= self.log_end_offset
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        return True

    def delete_oldest_segments(self, count: int) -> None:
        """Retention: the log then starts no earlier than the first segment left."""
        bases = self.segments.delete_oldest(count)
        self.advance_log_start_offset(self.segments[0].base_offset)
        for base_offset in bases:
            self.disk.remove(f"{self.path}/{file_name(base_offset, SNAPSHOT)}")
        self.durability.names_changed = True

    def take_deleted(self) -> list[str]:
        """Files to remove after file.delete.delay.ms; unlinking a large one takes time. What
        is forgotten is removed by the next load."""
        return self.segments.take_deleted()

    @property
    def recovery_point(self) -> Offset:
        """Everything below is durable."""
        return self.durability.recovery_point

    def must_flush(self, now: Now) -> bool:
        """By flush.messages or flush.ms, or because a segment was sealed or an epoch began."""
        return self.durability.must_flush(self, now)

    def unflushed(self, now: Now) -> Unflushed | None:
        """What a flush has to cover; None if that is nothing, or while one is under way.
        Answer with flushed or flush_failed."""
        return self.durability.unflushed(self, now)

    def flushed(self, end_offset: Offset) -> None:
        """What unflushed returned is durable. Sealed segments then live on disk alone."""
        sealed = self.segments.from_offset(self.recovery_point - 1)[:-1]
        self.durability.flushed(end_offset)
        for segment in sealed:
            if segment.is_written and segment is not self.segments.active:
                segment.let_go()

    def flush_failed(self) -> None:
        """The disk was full; try again later."""
        self.durability.failed(self)

    def flush(self, now: Now) -> None:
        """Blocks. For the metadata log, tools and tests."""
        work = self.unflushed(now)
        if work is not None:
            work.flush(self.disk)
            self.flushed(work.end_offset)

    def seal(self, now: Now) -> Unflushed:
        """A clean stop: as after it nothing is appended, all files get their final form."""
        self.segments.active.index_time()
        return self.durability.sealed(self, now)

    def close(self, now: Now, *, is_clean: bool = True) -> None:
        """Flush all, unless the process has no right to claim a clean stop; free descriptors."""
        if is_clean:
            work = self.seal(now)
            work.flush(self.disk)
            self.flushed(work.end_offset)
        for segment in self.segments:
            segment.close()

    def rename(self, path: str) -> None:
        """Move the directory: a topic's deletion, or a replica that changes its disk."""
        self.disk.rename(self.path, path)
        self.path = path
        self.durability.directory = path
        for segment in self.segments:
            segment.directory = path
