"""What a reader of committed records may see of fetched batches: no marker, nothing aborted."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.client.fetch import Fetched
from tidelog.wire.batch import RecordBatch
from tidelog.wire.batch_reader import read_records

ABORT = b"\x00\x00"
"""The type in a control record's key, behind its version."""


def visible_batches(fetched: Fetched, *, check_crc: bool = True) -> Iterator[RecordBatch]:
    """The data batches, without those of the aborted transactions that the broker listed: it
    lists them for READ_COMMITTED alone. Raises CorruptBatch."""
    upcoming = sorted(
        fetched.aborted_transactions, key=lambda aborted: aborted.first_offset, reverse=True
    )
    aborting: set[int] = set()
    for batch in fetched.batches(check_crc=check_crc):
        while upcoming and upcoming[-1].first_offset <= batch.last_offset:
            aborting.add(upcoming.pop().producer_id)
        if batch.is_control:
            if _is_abort(batch):
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            yield batch


def _is_abort(batch: RecordBatch) -> bool:
    key = read_records(batch)[0].key if batch.record_count else None
    return key is not None and key[2:4] == ABORT
