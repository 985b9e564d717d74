"""The functions that walk records: the compiled module's, or its pure twin's without it."""

from __future__ import annotations

import os
import warnings

from tidelog.wire.records_types import RecordsModule


def _choose() -> RecordsModule:
    # Tests run the twin on purpose, and need no warning.
    if os.environ.get("TIDELOG_PURE") == "1":
        return _twin()
    try:
        from tidelog.wire import _records
    except ImportError:
        warnings.warn(
            "tidelog runs without its compiled module and walks records far slower; install a "
            "C compiler (gcc or clang) and Python's headers (python3-dev), then tidelog again",
            RuntimeWarning,
            stacklevel=2,
        )
        return _twin()
    return _records


def _twin() -> RecordsModule:
    # Whoever has the compiled module need not wait for its import.
    from tidelog.wire import records_twin

    return records_twin


implementation = _choose()

crc32c = implementation.crc32c
validate_records = implementation.validate_records
accept_batch = implementation.accept_batch
parse_produce = implementation.parse_produce
walk_records = implementation.walk_records
encode_records = implementation.encode_records
assign_rows = implementation.assign_rows
skip_batches = implementation.skip_batches
read_batches = implementation.read_batches
sum_up_batches = implementation.sum_up_batches
ColumnDecoder = implementation.ColumnDecoder
