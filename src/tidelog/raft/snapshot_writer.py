"""Takes snapshots of the committed metadata, so that the log before them can go.

A snapshot follows from its id: nodes that take one at the same offset write the same bytes, with
the time of the last record in it and not that of the writing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.env import DiskFull, Now
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.snapshot import SnapshotId, records_of, write_snapshot
from tidelog.raft.raft import Raft
from tidelog.raft.snapshots import Part
from tidelog.raft.types import Flush
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.control_records import KRaftVersionRecord

log = logging.getLogger("tidelog.raft")

Run = Callable[[Slices[None], Now], object]
"""Does the pieces in this and later steps."""


class SnapshotWriter:
    """One at a time, of the image as it was when it became due."""

    def __init__(self, raft: Raft, flush: Flush, run: Run) -> None:
        self._raft = raft
        self._flush = flush
        self._run = run
        self._bytes = 0
        """Replayed since the last one."""
        self._last_ms: int | None = None
        self._is_writing = False

    def applied(self, image: MetadataImage, size_bytes: int, timestamp_ms: int, now: Now) -> None:
        """A batch was committed and replayed: the image after it, how many bytes it had, and the
        time of its last record."""
        self._bytes += size_bytes
        if self._last_ms is None:
            self._last_ms = now.monotonic_ms
        config = self._raft.config
        is_late = 0 < config.snapshot_interval_ms <= now.monotonic_ms - self._last_ms
        is_due = self._bytes >= config.snapshot_bytes_between or is_late
        if not is_due or self._is_writing or image.before_transaction is not None:
            return
        self._bytes, self._last_ms = 0, now.monotonic_ms
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        latest = self._raft.snapshots.latest
        if latest is None or latest.end_offset < snapshot_id.end_offset:
            self._is_writing = True
            self._run(self._write(snapshot_id, image, timestamp_ms), now)

    def loaded(self, now: Now) -> None:
        """The image is a snapshot's."""
        self._bytes, self._last_ms = 0, now.monotonic_ms

    def _write(self, snapshot_id: SnapshotId, image: MetadataImage, time_ms: int) -> Slices[None]:
        part: Part | None = None
        try:
            part = self._raft.snapshots.begin(snapshot_id)
            yield from write_snapshot(
                records_of(image),
                part.append,
                epoch=snapshot_id.epoch,
                last_timestamp_ms=time_ms,
                written_at_ms=time_ms,
                quorum_records=self._quorum_records(snapshot_id),
                metadata_version=image.metadata_version,
            )
        except DiskFull as error:
            self._give_up(part, error)
        else:
            self._finish(part)

    def _quorum_records(self, snapshot_id: SnapshotId) -> list[Message]:
        found = self._raft.voters_at(snapshot_id.end_offset)
        if found.kraft_version == 0:
            return []
        version = KRaftVersionRecord(version=0, kraft_version=found.kraft_version)
        return [version, found.voters.to_record()]

    def _finish(self, part: Part) -> None:
        def done(error: OSError | DiskFull | None, now: Now) -> None:
            if error is not None:
                self._give_up(part, error)
                return
            self._is_writing = False
            if part.id.end_offset < self._raft.log.log_start_offset:
                # The leader's, fetched meanwhile, is newer.
                self._flush((self._raft.snapshots.discard(part),), lambda error, now: None)
                return
            self._raft.snapshots.add(part.id)
            log.info("snapshot %d-%d taken, %d bytes", *part.id, part.size)

        self._flush((part.finish(),), done)

    def _give_up(self, part: Part | None, error: OSError | DiskFull) -> None:
        """The log is kept instead, and the next one is tried when it is due."""
        self._is_writing = False
        log.error("no snapshot of the metadata can be taken: %s", error)
        if part is not None and isinstance(error, DiskFull):
            part.abandon()
