from collections.abc import Sequence

from typing_extensions import Buffer

from tidelog.wire.records_batches_types import Batch, BatchRun, RunState
from tidelog.wire.records_types import (
    AssignedRows,
    Columns,
    EncodedRecords,
    IntColumn,
    Placement,
    RecordsCheck,
    RecordSpan,
    SingleProduce,
)

def crc32c(data: Buffer, value: int = 0, /) -> int: ...
def crc32c_without_hardware(data: Buffer, value: int = 0, /) -> int: ...
def validate_records(
    data: Buffer,
    count: int,
    base_timestamp: int,
    timestamp_min: int,
    timestamp_max: int,
    key_required: bool,
    /,
) -> RecordsCheck: ...
def accept_batch(
    data: Buffer,
    size_max: int,
    timestamp_min: int,
    timestamp_max: int,
    key_required: bool,
    /,
) -> tuple[int, int] | None: ...
def parse_produce(frame: memoryview, /) -> SingleProduce | None: ...
def walk_records(data: Buffer, count: int, /) -> list[RecordSpan]: ...
def encode_records(
    columns: Columns,
    start_row: int,
    bytes_max: int,
    timestamp: int,
    order: Buffer | None = None,
    room: int = 0,
    /,
) -> EncodedRecords: ...
def assign_rows(
    columns: Columns,
    chosen: IntColumn | None,
    topics: Buffer | None,
    placements: Sequence[Placement],
    /,
) -> AssignedRows: ...
def skip_batches(
    batches: Buffer, position: int, next_offset: int, attributes: int, check_crc: bool, /
) -> tuple[int, int]: ...
def read_batches(
    kind: type[Batch],
    batches: memoryview,
    position: int,
    next_offset: int,
    check_crc: bool,
    count_max: int,
    /,
) -> list[Batch]: ...
def sum_up_batches(
    kind: type[Batch],
    batches: memoryview,
    position: int,
    next_offset: int,
    last_offset_max: int,
    attributes: int,
    interval_bytes: int,
    state: RunState,
    kept_max: tuple[int, int],
    /,
) -> tuple[BatchRun, list[Batch]]: ...

class ColumnDecoder:
    def __init__(self, wanted: int, rows_max: int, bytes_max: int, /) -> None: ...
    @property
    def rows(self) -> int: ...
    def feed(
        self,
        records: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_timestamp: int | None,
        start_offset: int,
        end_offset: int,
    ) -> None: ...
    def fill(self) -> bool: ...
    def feed_plain(
        self,
        batches: Buffer,
        position: int,
        next_offset: int,
        start_offset: int,
        end_offset: int,
        attributes: int,
        check_crc: bool,
    ) -> tuple[int, int]: ...
    def take(self) -> Columns: ...
