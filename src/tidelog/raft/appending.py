"""A follower's log grows by what the leader sent, in pieces: an answer may have very many batches,
and a step does not take that long."""

from __future__ import annotations

import logging

from tidelog.env import DiskFull, Now
from tidelog.log.results import CorruptBatch
from tidelog.metadata.batches import LoggedRecord, read_metadata
from tidelog.raft.gate import DISK_FULL_RETRY_MS
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Role
from tidelog.raft.types import NEVER
from tidelog.types import Offset
from tidelog.wire.batch import BatchWalk
from tidelog.wire.decoder import DecodeError
from tidelog.wire.records_types import CorruptRecords

log = logging.getLogger("tidelog.raft")

BATCHES_A_STEP_MAX = 64
BYTES_A_STEP_MAX = 256 << 10


class Unsound(Exception):
    """The leader sent what must not be stored."""


class Appending:
    """A part of raft. While it is busy nothing is fetched, and the flush waits for the rest."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._records = b""
        self._position = 0
        self._high_watermark: Offset = 0
        self._role: Role | None = None
        """The follower that it came to: what another leader sent is dropped."""
        self._turn_ms = NEVER
        self.pause_until_ms = 0
        """After a failure: until then the leader need not be asked again."""

    @property
    def is_busy(self) -> bool:
        return self._position < len(self._records)

    @property
    def next_deadline_ms(self) -> int:
        return self._turn_ms if self.is_busy else NEVER

    def begin(self, records: memoryview, high_watermark: Offset, now: Now) -> None:
        """The first piece at once, which most often is all of it."""
        assert not self.is_busy
        self._records, self._position = bytes(records), 0
        self._high_watermark, self._role = high_watermark, self._quorum.role
        self._step(now)

    def tick(self, now: Now) -> None:
        """One more piece, where a step has none of its own yet."""
        if self.is_busy and now.monotonic_ms >= self._turn_ms:
            self._step(now)

    def work(self, now: Now) -> bool:
        """Give up where another leader has come. The pieces are `tick`'s: one a step."""
        if self.is_busy and self._role is not self._quorum.role:
            self._end()
            return True
        return False

    def _step(self, now: Now) -> None:
        quorum = self._quorum
        try:
            self._append(now)
        except (CorruptBatch, Unsound) as error:
            log.error("the leader sent what cannot be stored: %s", error)
            self._fail(now)
        except DiskFull as error:
            log.error("the metadata log cannot grow: %s; make room", error)
            self._fail(now)
        quorum.raise_high_watermark(min(self._high_watermark, quorum.log.log_end_offset))
        self._turn_ms = now.monotonic_ms
        quorum.holds_flush = self.is_busy

    def _append(self, now: Now) -> None:
        quorum = self._quorum
        view = memoryview(self._records)
        walk = BatchWalk(view, self._position, check_crc=False)
        start = self._position
        control: list[LoggedRecord] = []
        for count, batch in enumerate(walk, 1):
            if batch.partition_leader_epoch > quorum.epoch:
                raise Unsound(f"records of epoch {batch.partition_leader_epoch}")
            if batch.is_control:
                try:
                    control += read_metadata(batch)
                except (DecodeError, CorruptRecords) as error:
                    raise Unsound(str(error)) from error
            if count == BATCHES_A_STEP_MAX or walk.position - start >= BYTES_A_STEP_MAX:
                break
        if walk.position == start:
            self._end()  # an incomplete batch, which the next fetch brings whole
            return
        try:
            quorum.log.append_as_follower(view[start : walk.position], now)
        finally:
            for logged in control:
                if logged.offset < quorum.log.log_end_offset:
                    quorum.history.note(logged.offset, logged.record)
        self._position = walk.position
        if not self.is_busy:
            self._end()

    def _fail(self, now: Now) -> None:
        self._end()
        self.pause_until_ms = now.monotonic_ms + DISK_FULL_RETRY_MS

    def _end(self) -> None:
        self._records, self._position = b"", 0
        self._quorum.holds_flush = False
