"""What a reader of committed records may see of fetched batches: no marker, nothing aborted."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.client.fetch import Fetched
from tidelog.wire.batch import RecordBatch
from tidelog.wire.batch_reader import read_records

ABORT = b"\x00\x00"
"""The type in a control record's key, behind its version."""


class Visibility:
    """Judges the batches of one answer, in their order. Those of no transaction it need not
    see."""

    def __init__(self, fetched: Fetched) -> None:
        self._upcoming = sorted(
            fetched.aborted_transactions, key=lambda aborted: aborted.first_offset, reverse=True
        )
        """The broker lists them for READ_COMMITTED alone."""
        self._aborting: set[int] = set()

    def admits(self, batch: RecordBatch) -> bool:
        """Whether it holds data that is not aborted."""
        upcoming = self._upcoming
        while upcoming and upcoming[-1].first_offset <= batch.last_offset:
            self._aborting.add(upcoming.pop().producer_id)
        if batch.is_control:
            if _is_abort(batch):
                self._aborting.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._aborting)


def visible_batches(fetched: Fetched, *, check_crc: bool = True) -> Iterator[RecordBatch]:
    """The data batches, without those of aborted transactions. Raises CorruptBatch."""
    visibility = Visibility(fetched)
    return (batch for batch in fetched.batches(check_crc=check_crc) if visibility.admits(batch))


def _is_abort(batch: RecordBatch) -> bool:
    key = read_records(batch)[0].key if batch.record_count else None
    return key is not None and key[2:4] == ABORT
