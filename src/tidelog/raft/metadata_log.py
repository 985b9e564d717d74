"""`__cluster_metadata` as its leader writes it: decide, append, flush, and only then believe it.

Two images: the latest has what was appended, for the next decision; the committed one has what
a majority of voters holds durably, and is all that the broker goes by. A quorum of one commits
with its own flush.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.metadata.batches import LoggedRecord, control_batch, read_metadata
from tidelog.metadata.delta import replay
from tidelog.metadata.frame import METADATA_VERSION_LATEST, at_level, encode_record
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.snapshot import Snapshot
from tidelog.slices import Slices, finish
from tidelog.types import Offset
from tidelog.wire.batch import BatchWalk
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.declare import Message
from tidelog.wire.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeVoter,
    Voter,
    VotersRecord,
)

READ_BYTES_MAX = 8 << 20
RECORD_COST = 50
"""Microseconds to encode a record and to replay it."""

Committed = Callable[[Now], None]


class Pending(NamedTuple):
    """A batch that is appended but not committed."""

    end_offset: Offset
    image: MetadataImage
    records: Sequence[Message] = ()
    then: Committed | None = None


class MetadataLog:
    """Invariant: committed_offset ≤ log end offset; the committed image is of that offset."""

    def __init__(
        self, log: Log, node_id: int, leader_epoch: int, snapshot: Snapshot | None = None
    ) -> None:
        self.log = log
        self.node_id = node_id
        self.leader_epoch = max(log.leader_epochs.latest, leader_epoch)
        self.kraft_version = 0
        self.voters: tuple[Voter, ...] = ()
        """Of a dynamic quorum (KIP-853); a static one has its voters from the configuration."""
        image, start_offset = MetadataImage.empty(), log.log_start_offset
        if snapshot is not None:
            start_offset = snapshot.id.end_offset
            self.leader_epoch = max(self.leader_epoch, snapshot.id.epoch)
            self._note_quorum(snapshot.quorum_records)
            for record in snapshot.records:
                image = replay(image, record, start_offset - 1, snapshot.id.epoch)
        for logged in self.records(start_offset):
            image = replay(image, logged.record, logged.offset, logged.epoch)
            self._note_quorum((logged.record,))
        self.latest = self.committed = image
        self.committed_offset = log.log_end_offset
        self._pending: deque[Pending] = deque()

    def _note_quorum(self, records: Sequence[Message]) -> None:
        for record in records:
            if isinstance(record, KRaftVersionRecord):
                self.kraft_version = record.kraft_version
            elif isinstance(record, VotersRecord):
                self.voters = record.voters

    def records(self, offset: Offset) -> Iterator[LoggedRecord]:
        """All that the log holds from an offset on, in order."""
        while offset < self.log.log_end_offset:
            found = self.log.read(offset, self.log.log_end_offset, READ_BYTES_MAX)
            assert found is not None
            for batch in BatchWalk(found.read(), check_crc=False):
                yield from (one for one in read_metadata(batch) if one.offset >= offset)
                offset = batch.next_offset

    def become_leader(self, now: Now, quorum_records: Sequence[Message] = ()) -> None:
        """Begin an epoch: its first record says who leads. Behind it the quorum's version and
        voters, where a new log has them only from its format."""
        self.leader_epoch += 1
        me = LeaderChangeVoter(voter_id=self.node_id)
        message = LeaderChangeMessage(
            version=0, leader_id=self.node_id, voters=(me,), granting_voters=(me,)
        )
        batch = control_batch(
            [message, *quorum_records],
            base_offset=self.log.log_end_offset,
            leader_epoch=self.leader_epoch,
            timestamp_ms=now.wall_ms,
        )
        appended = self.log.append_built(batch, self.leader_epoch, now)
        assert not isinstance(appended, ErrorCode), "no room for the first record of an epoch"
        self._note_quorum(quorum_records)
        self._pending.append(Pending(self.log.log_end_offset, self.latest))

    def append(
        self, records: Sequence[Message], now: Now, then: Committed | None = None
    ) -> ErrorCode:
        """Append records as one batch, all or nothing; `then` is called once it is committed."""
        return finish(self.append_in_slices(records, now, then))

    def append_in_slices(
        self, records: Sequence[Message], now: Now, then: Committed | None = None
    ) -> Slices[ErrorCode]:
        """The same in pieces. Nothing else may be appended before the last of them."""
        if not records:
            # Nothing to wait for, except for what was decided before.
            if then is not None:
                self._pending.append(Pending(self.log.log_end_offset, self.latest, (), then))
            return ErrorCode.NONE
        # Before the first record there is no level yet, and none of the first ones needs one.
        level = self.latest.metadata_version or METADATA_VERSION_LATEST
        base_offset, image = self.log.log_end_offset, self.latest
        written: list[Message] = []
        builder = BatchBuilder()
        for offset, record in enumerate(records, base_offset):
            record = at_level(record, level)
            image = replay(image, record, offset, self.leader_epoch)
            builder.append(None, encode_record(record, level), timestamp=now.wall_ms)
            written.append(record)
            yield RECORD_COST
        assert base_offset == self.log.log_end_offset, "one decision at a time"
        batch = builder.build(base_offset=base_offset, partition_leader_epoch=self.leader_epoch)
        appended = self.log.append_built(batch, self.leader_epoch, now)
        if isinstance(appended, ErrorCode):
            return appended
        self.latest = image
        self._pending.append(Pending(self.log.log_end_offset, image, written, then))
        return ErrorCode.NONE

    def flushed(self, end_offset: Offset) -> tuple[list[Message], list[Committed]]:
        """All below is durable here, which for a quorum of one is committed.

        Returns the records that now count, and what to call once they were acted upon.
        """
        self.log.flushed(end_offset)
        records: list[Message] = []
        called: list[Committed] = []
        while self._pending and self._pending[0].end_offset <= end_offset:
            done = self._pending.popleft()
            self.committed, self.committed_offset = done.image, done.end_offset
            records += done.records
            if done.then is not None:
                called.append(done.then)
        return records, called

    @property
    def has_pending(self) -> bool:
        return bool(self._pending)
