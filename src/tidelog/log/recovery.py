"""Loads a log from its directory, and recovers it if the last stop was not clean.

A crash tears the end of what was not flushed: that is cut off, as Apache Kafka does. But where
sound batches follow a bad one, no crash of ours explains it. Kafka cuts there too and deletes all
that follows; here the partition stays offline with its files as they are until somebody decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.env import Disk, Now
from tidelog.log.checkpoint import MalformedFile, parse_partition_metadata
from tidelog.log.config import LogConfig
from tidelog.log.leader_epochs import LeaderEpochs, parse_leader_epochs
from tidelog.log.leftovers import clear_leftovers
from tidelog.log.log import Log
from tidelog.log.names import (
    INDEXES,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    file_name,
    parse_file_name,
)
from tidelog.log.producer_replay import (
    delete_snapshots,
    load_snapshot,
    recall_batches,
    replay,
    replay_batch,
    snapshot_offsets,
    store_snapshot,
)
from tidelog.log.producer_state import BATCHES_MAX, ProducerStates
from tidelog.log.results import DamagedSegment
from tidelog.log.segment import RECENT_BATCHES_MAX, RELATIVE_OFFSET_MAX, Segment
from tidelog.log.segments import Segments
from tidelog.log.txn_index import read_entries
from tidelog.log.walk import SegmentWalk, add_run, find_sound_batch, is_lost_tail, run_state
from tidelog.types import ZERO_UUID, Offset, Uuid
from tidelog.wire import records
from tidelog.wire.batch import CONTROL, TRANSACTIONAL, RecordBatch

log = logging.getLogger("tidelog.start")

Progress = Callable[[int, int], None]
"""Called with the bytes that have been read, and all there are to read."""


def load(
    disk: Disk,
    path: str,
    config: LogConfig,
    *,
    is_clean: bool,
    recovery_point: Offset,
    log_start_offset: Offset,
    now: Now,
    progress: Progress = lambda done, total: None,
    cut_damage: bool = False,
) -> Log:
    """The log of a partition's directory, which is made if there is none. Raises DamagedSegment
    where a person has to decide; with cut_damage that has been decided."""
    disk.make_directory(path)
    clear_leftovers(disk, path)
    loader = _Loader(disk, path, config, now, log_start_offset, progress, cut_damage)
    return loader.load(is_clean, recovery_point)


class _Loader:
    def __init__(
        self,
        disk: Disk,
        path: str,
        config: LogConfig,
        now: Now,
        log_start_offset: Offset,
        progress: Progress,
        cut_damage: bool,
    ) -> None:
        self.disk, self.path, self.config, self.now = disk, path, config, now
        self.log_start_offset = log_start_offset
        self.progress, self.cut_damage = progress, cut_damage
        self.segments: list[Segment] = []
        self.epochs = LeaderEpochs()
        self.producers = ProducerStates()
        self.log_end_offset: Offset = 0
        self.done_bytes = self.all_bytes = 0

    def load(self, is_clean: bool, recovery_point: Offset) -> Log:
        to_rebuild = self._find_segments()
        if not self.segments:
            self._start_empty(self.log_start_offset)
        self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        epochs_known = self._load_epochs()
        if is_clean and epochs_known and self._load_active():
            for segment in to_rebuild:
                self._rebuild_indexes(segment)
            self._load_producers()
        else:
            self._recover(recovery_point if epochs_known else 0)
            is_clean = False
        if self.log_end_offset < self.log_start_offset:
            self._start_over()
        self._complete_epochs()
        self._tidy(is_clean)
        return Log(
            self.disk,
            self.path,
            self.config,
            self.segments,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            recovery_point=min(recovery_point, self.log_end_offset),
            leader_epochs=self.epochs,
            producers=self.producers,
            topic_id=self._topic_id(recovery_point),
        )

    def _topic_id(self, recovery_point: Offset) -> Uuid:
        """Zero if it never became durable, and then nothing else here did."""
        name = f"{self.path}/{PARTITION_METADATA}"
        content = self.disk.read_file(name)
        try:
            return parse_partition_metadata(name, content) if content else ZERO_UUID
        except MalformedFile:
            if recovery_point:
                raise
            self.disk.remove(name)
            return ZERO_UUID

    def _find_segments(self) -> list[Segment]:
        """Returns those whose indexes are missing or senseless; removes indexes without a log."""
        names = self.disk.names(self.path)
        present = set(names)
        to_rebuild = []
        for name in names:
            file = parse_file_name(name)
            if file is None or file.state:
                continue
            if file.kind == LOG:
                segment = Segment(self.disk, self.path, file.offset, self.config)
                segment.created_ms = self.now.wall_ms
                self.segments.append(segment)
                if not self._has_indexes(segment, present):
                    to_rebuild.append(segment)
            elif file.kind in INDEXES and file_name(file.offset, LOG) not in present:
                self.disk.remove(f"{self.path}/{name}")
        return to_rebuild

    def _has_indexes(self, segment: Segment, present: set[str]) -> bool:
        base_offset = segment.base_offset
        for kind in (OFFSET_INDEX, TIME_INDEX):
            if file_name(base_offset, kind) not in present:
                return False
        if file_name(base_offset, TXN_INDEX) in present:
            content = self.disk.read_file(segment.path(TXN_INDEX)) or b""
            return read_entries(content, base_offset) is not None
        return True

    def _load_epochs(self) -> bool:
        """Whether the file can be believed; else the epochs are in the batches."""
        name = f"{self.path}/{LEADER_EPOCH_CHECKPOINT}"
        content = self.disk.read_file(name)
        try:
            self.epochs = parse_leader_epochs(name, content)
        except MalformedFile:
            return False
        return bool(content) or all(segment.size == 0 for segment in self.segments)

    def _load_active(self) -> bool:
        """Finds the log's end by the last index entry. False if what is there is no batch."""
        active = self.segments[-1]
        positions = active.offset_index.positions
        if positions and positions[-1] >= active.size:
            return False
        try:
            self.log_end_offset = active.load_tail()
        except DamagedSegment:
            return False
        return True

    def _rebuild_indexes(self, segment: Segment) -> None:
        """Of a segment that is sound as far as anybody knows."""
        producers, start = load_snapshot(
            self.disk, self.path, above=self.log_start_offset, up_to=segment.base_offset
        )
        replay(producers, Segments(list(self.segments)), start, segment.base_offset)
        segment.reset_indexes()
        for position, header in segment.headers():
            segment.add(position, header.size, header.last_offset, header.max_timestamp)
            if header.is_control and header.producer_id >= 0:
                replay_batch(segment.batch_at(position), producers, segment)
            elif header.producer_id >= 0:
                replay_batch(header, producers, None)
        if segment is not self.segments[-1]:
            segment.index_time()
        self._flush_indexes(segment)

    def _flush_indexes(self, segment: Segment) -> None:
        """At once: the segment may lie below the recovery point, or be let go of, and then no flush
        covers them."""
        for file in segment.write_indexes():
            file.flush()

    def _load_producers(self) -> None:
        end = self.log_end_offset
        start = self._restore_producers(end)
        replay(self.producers, Segments(list(self.segments)), start, end)

    def _restore_producers(self, up_to: Offset) -> Offset:
        self.producers, start = load_snapshot(
            self.disk,
            self.path,
            above=self.log_start_offset,
            up_to=up_to,
            wall_ms=self.now.wall_ms,
            expiration_ms=self.config.producer_id_expiration_ms,
        )
        # Not from segments above: recovery has not checked them yet.
        recall_batches(self.producers, Segments(list(self.segments)), min(start, up_to))
        return start

    def _recover(self, recovery_point: Offset) -> None:
        segments = self.segments
        # Not the one that begins there: see Durability.
        first = max(
            (i for i, s in enumerate(segments) if s.base_offset < recovery_point), default=0
        )
        base_offset = self.log_end_offset = segments[first].base_offset
        self.all_bytes = sum(segment.size for segment in segments[first:])
        start = self._restore_producers(base_offset)
        replay(self.producers, Segments(segments[: first + 1]), start, base_offset)
        elected = self.epochs.entries()
        self.epochs.truncate_from_end(base_offset)  # from here on the batches tell
        self._recover_from(first, recovery_point)
        for epoch, start_offset in elected:
            if start_offset == self.log_end_offset and epoch > self.epochs.latest:
                self.epochs.assign(epoch, start_offset)

    def _recover_from(self, first: int, recovery_point: Offset) -> None:
        segments = self.segments
        for index in range(first, len(segments)):
            segment = segments[index]
            has_gap = segment.base_offset > self.log_end_offset >= recovery_point
            if index > first and has_gap and not self.config.is_compacted:
                # The end of the segment before did not reach the disk; nothing may follow it.
                self._drop_from(index)
                return
            if index > first:
                # One that was there may be from before a truncation.
                store_snapshot(self.disk, self.path, segment.base_offset, self.producers)
            if not self._recover_segment(segment, index, recovery_point):
                self._drop_from(index + 1)
                return

    def _recover_segment(self, segment: Segment, index: int, recovery_point: Offset) -> bool:
        """Check every batch and index it anew; False if the log ends in this segment."""
        segment.reset_indexes()
        walk = SegmentWalk(segment, self.log_end_offset)
        done = self.done_bytes
        for position, batch in walk:
            if batch.partition_leader_epoch > self.epochs.latest:
                self.epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            segment.add(position, batch.size, batch.last_offset, batch.max_timestamp)
            if batch.producer_id >= 0:
                replay_batch(batch, self.producers, segment)
            self._sum_up(segment, walk, position, batch)
            self.done_bytes = done + walk.position
            self.progress(self.done_bytes, self.all_bytes)
        self.log_end_offset = walk.next_offset
        if walk.flaw is None and segment is not self.segments[-1]:
            segment.index_time()
            self._flush_indexes(segment)
            segment.let_go()
            return True
        if walk.flaw is not None:
            if not self.cut_damage:
                self._require_torn_tail(segment, index, walk, recovery_point)
                lost, path = segment.size - walk.position, segment.path(LOG)
                log.warning("%s: cut %d bytes off at %d: a torn tail", path, lost, walk.position)
            segment.file.truncate(walk.position)
            segment.size = walk.position
        segment.write_indexes()
        return walk.flaw is None

    def _sum_up(
        self, segment: Segment, walk: SegmentWalk, position: int, batch: RecordBatch
    ) -> None:
        """Take the batches behind this one all at once, as far as they are nobody's transaction:
        there may be a hundred thousand of them."""
        run, batches = records.sum_up_batches(
            RecordBatch,
            batch.buffer,
            batch.end_position,
            batch.next_offset,
            segment.base_offset + RELATIVE_OFFSET_MAX,
            TRANSACTIONAL | CONTROL,
            self.config.index_interval_bytes,
            run_state(segment, self.epochs.latest),
            (RECENT_BATCHES_MAX, BATCHES_MAX),
        )
        if run.end_position == batch.end_position:
            return
        for epoch, start_offset in run.epochs:
            self.epochs.assign(epoch, start_offset)
        add_run(segment, run, position - batch.position)
        for one in batches:
            replay_batch(one, self.producers, segment)
        walk.skip(run.end_position, run.next_offset)

    def _require_torn_tail(
        self, segment: Segment, index: int, walk: SegmentWalk, recovery_point: Offset
    ) -> None:
        """Raises DamagedSegment if something sound follows that a crash cannot have orphaned."""
        flaw = walk.flaw
        assert flaw is not None
        sound = find_sound_batch(segment, flaw.position, walk.next_offset)
        if sound is not None:
            why = f"{flaw.kind.value}, and a sound batch follows at position {sound}"
            raise DamagedSegment(segment.path(LOG), flaw.position, why)
        following = next((s for s in self.segments[index + 1 :] if s.size), None)
        was_flushed = walk.next_offset < recovery_point
        if following is not None and (was_flushed or not is_lost_tail(segment, flaw)):
            why = f"{flaw.kind.value}, and {following.path(LOG)} follows"
            raise DamagedSegment(segment.path(LOG), flaw.position, why)

    def _drop_from(self, index: int) -> None:
        """Remove segments behind the end of the log, the last one first."""
        while len(self.segments) > index:
            segment = self.segments.pop()
            if segment.size and not self.cut_damage:
                path = segment.path(LOG)
                log.warning("%s: removed, the log ends at offset %d", path, self.log_end_offset)
            for kind in (*INDEXES, LOG):
                self.disk.remove(segment.path(kind))
        delete_snapshots(self.disk, self.path, above=self.log_end_offset)

    def _start_empty(self, offset: Offset) -> None:
        segment = Segment(self.disk, self.path, offset, self.config)
        segment.start(self.now.wall_ms, 0)
        self.segments = [segment]
        self.log_end_offset = offset

    def _start_over(self) -> None:
        """The checkpoint knows of deleted records that the files no longer reach up to."""
        self._drop_from(0)
        self.epochs.clear()
        self.producers.clear()
        delete_snapshots(self.disk, self.path, above=-1)
        self._start_empty(self.log_start_offset)

    def _complete_epochs(self) -> None:
        """Tell those of records that were deleted but are here again: a crash may lose where the
        log started, which is written by and by, and keep the file of epochs, which was flushed."""
        known = self.epochs.entries()
        known_from = known[0][1] if known else self.log_end_offset
        if known_from <= self.log_start_offset:
            return
        self.epochs.clear()
        for segment in Segments(list(self.segments)).from_offset(self.log_start_offset):
            if segment.base_offset >= known_from:
                break
            for _, header in segment.headers():
                if header.base_offset >= known_from:
                    break
                if header.partition_leader_epoch > self.epochs.latest:
                    self.epochs.assign(header.partition_leader_epoch, header.base_offset)
            if segment is not self.segments[-1]:
                segment.let_go()  # there may be thousands
        for epoch, start_offset in known:
            self.epochs.assign(epoch, start_offset)

    def _tidy(self, is_clean: bool) -> None:
        """Remove epochs and snapshots that belong to nothing."""
        # An epoch that begins at the end stays: it was elected and has written nothing so far.
        self.epochs.truncate_from_end(self.log_end_offset + 1)
        self.epochs.truncate_from_start(self.log_start_offset)
        delete_snapshots(self.disk, self.path, above=self.log_end_offset)
        offsets = snapshot_offsets(self.disk, self.path)
        kept = {segment.base_offset for segment in self.segments}
        if is_clean:
            kept.update(offsets[-1:])
        for offset in offsets:
            if offset not in kept:
                self.disk.remove(f"{self.path}/{file_name(offset, SNAPSHOT)}")
