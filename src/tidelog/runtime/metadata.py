"""The cluster's metadata on this node: the active controller writes it, all roles act upon it.

Two images: the latest has what the active controller appended, for its next decision; the
committed one is what a majority of voters holds, and all that brokers go by.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.events import StopProcess
from tidelog.log.log import Log
from tidelog.metadata.batches import each_metadata
from tidelog.metadata.delta import replay
from tidelog.metadata.frame import METADATA_VERSION_LATEST, at_level, encode_record
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.snapshot import SnapshotId
from tidelog.metadata.snapshot_loading import load_image
from tidelog.raft.raft import Raft
from tidelog.raft.snapshot_writer import SnapshotWriter
from tidelog.raft.types import Address
from tidelog.runtime.runtime import Runtime
from tidelog.slices import Slices
from tidelog.types import Offset
from tidelog.wire.batch import BatchWalk
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.declare import Message

READ_BYTES_MAX = 256 << 10
BATCH_BYTES_MAX = 8 << 20
"""Kafka's, too. A batch is sent, stored and replayed whole by every node: one that is larger than
the largest frame would be the last that anybody gets."""
RECORD_COST = 50
"""Microseconds to encode or decode a record and to replay it (slices.py)."""
TELL_COST = 10

Committed = Callable[[ErrorCode, Now], None]
"""Told NONE when records are committed and acted upon, else why they never will be."""


class Pending(NamedTuple):
    """A batch of this active controller that is not committed."""

    base_offset: Offset
    end_offset: Offset
    image: MetadataImage
    records: Sequence[Message] = ()
    then: Committed | None = None
    size_bytes: int = 0
    timestamp_ms: int = 0


class MetadataActor(Protocol):
    """A role that goes by the metadata."""

    def apply(self, records: Sequence[Message], now: Now) -> Slices[None]:
        """Do what newly committed records mean; the image has them already."""

    def reload(self, now: Now) -> Slices[None]:
        """The same where the image was replaced by a snapshot's."""

    def caught_up(self, now: Now) -> None:
        """Everything that is known to be committed has been acted upon."""

    def leader_changed(self, now: Now) -> None:
        """Another node leads the quorum, or nobody does, as far as this one knows."""


class Activated(Protocol):
    """The controller of this node."""

    def activate(self, now: Now) -> None:
        """It is the active one, and has read all that those before it wrote."""

    def deactivate(self, now: Now) -> None: ...


class Metadata:
    """Follows the quorum's log (a RaftListener). Invariant: the committed image is that of all
    records below committed_offset ≤ high watermark."""

    raft: Raft
    """Set by whoever makes both."""

    def __init__(self, runtime: Runtime, log: Log) -> None:
        self.log = log
        self.committed = self.latest = MetadataImage.empty()
        self.committed_offset: Offset = 0
        """Below the log's start only before the snapshot is loaded that the log begins with."""
        self.controller: Activated | None = None
        self._runtime = runtime
        self._actors: list[MetadataActor] = []
        self._pending: deque[Pending] = deque()
        self._is_following = False
        self._snapshot: SnapshotId | None = None
        """To be loaded before anything else is read."""
        self._is_elected = False
        self._is_active = False
        self._writer: SnapshotWriter

    @property
    def committed(self) -> MetadataImage:
        """All of it, with what a transaction may still take back."""
        return self._committed

    @committed.setter
    def committed(self, image: MetadataImage) -> None:
        self._committed = image
        self.image = image.shown
        """The committed metadata: all that clients may be told."""

    @property
    def kraft_version(self) -> int:
        return self.raft.kraft_version

    @property
    def leader_id(self) -> int:
        return self.raft.leader_id

    @property
    def leader_epoch(self) -> int:
        return self.raft.epoch

    @property
    def leader_address(self) -> Address | None:
        """Where the active controller is, if it is known."""
        return self.raft.leader_address

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)

    @property
    def is_caught_up(self) -> bool:
        return self.raft.leader_id >= 0 and self.committed_offset >= self.raft.high_watermark > 0

    def begin(self) -> None:
        """With what the newest snapshot has, as soon as raft starts."""
        self._snapshot = self.raft.snapshots.latest
        self._writer = SnapshotWriter(self.raft, self._runtime.flush, self._runtime.jobs.add)

    def acted_upon_by(self, actor: MetadataActor) -> None:
        """Roles act in the order in which they come."""
        self._actors.append(actor)

    # Writing.

    def append(
        self,
        records: Sequence[Message],
        now: Now,
        then: Committed | None = None,
        *,
        is_awaited: bool = True,
    ) -> Slices[ErrorCode]:
        """By the active controller: all of them or none, as one batch. Nothing else may be
        appended before the last piece of this. See Raft.append for what is awaited."""
        if not self._is_active:
            return ErrorCode.NOT_CONTROLLER
        base_offset, image = self.log.log_end_offset, self.latest
        if not records:
            # Nothing to wait for, except for what was decided before.
            if then is not None:
                self._pending.append(Pending(base_offset, base_offset, image, (), then))
            return ErrorCode.NONE
        # Before the first record there is no level yet, and none of the first ones needs one.
        level = image.metadata_version or METADATA_VERSION_LATEST
        epoch = self.raft.epoch
        written: list[Message] = []
        builder = BatchBuilder()
        for offset, record in enumerate(records, base_offset):
            record = at_level(record, level)
            image = replay(image, record, offset, epoch)
            builder.append(None, encode_record(record, level), timestamp=now.wall_ms)
            written.append(record)
            yield RECORD_COST
            if builder.records_size > BATCH_BYTES_MAX:
                return ErrorCode.RECORD_LIST_TOO_LARGE
        if not self._is_active or self.raft.epoch != epoch:
            return ErrorCode.NOT_CONTROLLER
        if base_offset != self.log.log_end_offset:
            # One decision at a time; but the quorum has noted other voters meanwhile.
            return (yield from self.append(records, now, then, is_awaited=is_awaited))
        now = self._runtime.jobs.fresh(now)
        end_offset, batch = base_offset + len(written), builder.build()
        size = len(batch), now.wall_ms
        pending = Pending(base_offset, end_offset, image, written, then, *size)
        return self._append_built(batch, pending, now, is_awaited)

    def _append_built(
        self, batch: bytearray, pending: Pending, now: Now, is_awaited: bool
    ) -> ErrorCode:
        # Noted before it is appended: a quorum of one may commit it in the same call.
        before, self.latest = self.latest, pending.image
        self._pending.append(pending)
        appended = self.raft.append(batch, now, is_awaited=is_awaited)
        if not isinstance(appended, ErrorCode):
            return ErrorCode.NONE
        if pending not in self._pending:
            # The leadership was lost on the way, and whoever waits has been told.
            return appended if pending.then is None else ErrorCode.NONE
        self._pending.remove(pending)
        self.latest = before
        return appended

    # What the quorum tells.

    def leader_changed(self, leader_id: int, epoch: int, now: Now) -> None:
        for actor in self._actors:
            actor.leader_changed(now)

    def became_leader(self, epoch: int, now: Now) -> None:
        self._is_elected = True
        self._follow(now)

    def lost_leadership(self, epoch: int, now: Now) -> None:
        self._is_elected = False
        if self._is_active:
            self._is_active = False
            if self.controller is not None:
                self.controller.deactivate(now)
        self.latest = self.committed
        pending, self._pending = self._pending, deque()
        for one in pending:
            if one.then is not None:
                one.then(ErrorCode.NOT_CONTROLLER, now)

    def high_watermark_moved(self, high_watermark: Offset, now: Now) -> None:
        self._follow(now)

    def snapshot_loaded(self, snapshot_id: SnapshotId, now: Now) -> None:
        self._snapshot = snapshot_id
        self._follow(now)

    def failed(self, reason: str) -> None:
        self._runtime.effects.append(StopProcess(reason))

    # Reading.

    def _follow(self, now: Now) -> None:
        if not self._is_following:
            self._is_following = True
            self._runtime.jobs.start(self._catch_up(now), now)

    def _catch_up(self, now: Now) -> Slices[None]:
        """Act on what is committed, then tell those who waited for it. What is committed
        meanwhile is acted upon after that."""
        try:
            while True:
                now = self._runtime.jobs.fresh(now)
                if self._snapshot is not None:
                    yield from self._load_snapshot(now)
                elif self._pending and self._pending[0].end_offset <= self.raft.high_watermark:
                    if self._pending[0].base_offset > self.committed_offset:
                        yield from self._read(self._pending[0].base_offset, now)
                    elif self._pending:
                        yield from self._commit(self._pending.popleft(), now)
                elif self.committed_offset < self.raft.high_watermark:
                    yield from self._read(self.raft.high_watermark, now)
                else:
                    break
        finally:
            self._is_following = False
        self._caught_up(self._runtime.jobs.fresh(now))

    def _caught_up(self, now: Now) -> None:
        if self._is_elected and not self._is_active and self.raft.is_leader:
            self._is_active = True
            self.latest = self.committed
            if self.controller is not None:
                self.controller.activate(now)
        if self.is_caught_up:
            for actor in self._actors:
                actor.caught_up(now)

    def _commit(self, done: Pending, now: Now) -> Slices[None]:
        self.committed, self.committed_offset = done.image, done.end_offset
        if done.records:
            self._writer.applied(done.image, done.size_bytes, done.timestamp_ms, now)
        yield from self._act(done.records, now)
        if done.then is not None:
            done.then(ErrorCode.NONE, self._runtime.jobs.fresh(now))
            yield TELL_COST

    def _read(self, end_offset: Offset, now: Now) -> Slices[None]:
        """What others wrote, or this node before it was active."""
        found = self.log.read(self.committed_offset, end_offset, READ_BYTES_MAX)
        assert found is not None, f"offset {self.committed_offset} is below the high watermark"
        for batch in BatchWalk(found.read(), check_crc=False):
            if batch.next_offset > end_offset:
                break
            image, records = self.committed, []
            for one in each_metadata(batch):
                if one.offset >= self.committed_offset:
                    image = replay(image, one.record, one.offset, one.epoch)
                    records.append(one.record)
                    yield RECORD_COST
            if self._snapshot is not None:
                return  # the image comes from there
            self.committed, self.committed_offset = image, batch.next_offset
            if not self._is_active:
                self.latest = image
            now = self._runtime.jobs.fresh(now)
            self._writer.applied(image, batch.size, batch.max_timestamp, now)
            yield from self._act(records, now)

    def _load_snapshot(self, now: Now) -> Slices[None]:
        snapshot_id, self._snapshot = self._snapshot, None
        assert snapshot_id is not None
        file = self.raft.snapshots.file(snapshot_id)
        image = yield from load_image(file.read, snapshot_id)
        if self._snapshot is None:
            now = self._runtime.jobs.fresh(now)
            self._writer.loaded(now)
            self.committed = self.latest = image
            self.committed_offset = snapshot_id.end_offset
            for actor in self._actors:
                yield from actor.reload(now)

    def _act(self, records: Sequence[Message], now: Now) -> Slices[None]:
        for actor in self._actors:
            yield from actor.apply(records, now)
