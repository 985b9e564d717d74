"""What the compiled module and its twin both speak: flaws, spans, columns.

The two have one interface, written down as `RecordsModule`; `records.py` chooses between them.
They work on the records of one batch, decompressed, and know little of batch headers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tidelog.wire.records_batches_types import BatchesModule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from tidelog.types import Uuid

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, two null lengths, no headers: a byte each. It bounds how many
records a block can hold whatever its batch claims."""

RECORD_ERRORS_MAX = 1000
"""How many bad records of one batch are listed: an answer must not outgrow its request."""

COLUMN_BYTES_MAX = 1 << 30
"""Arrow's binary type has 32-bit offsets; a decoder's bytes_max stays well below them."""


class Flaw(IntEnum):
    """Why records do not parse. The compiled module repeats these numbers."""

    NONE = 0
    TRUNCATED = 1
    OVERRUN = 2
    BAD_VARINT = 3
    BAD_LENGTH = 4
    BAD_HEADER_COUNT = 5
    NULL_HEADER_KEY = 6
    TRAILING_IN_RECORD = 7
    TOO_FEW_RECORDS = 8
    TRAILING_BYTES = 9
    OFFSET_DELTA = 10


FLAW_TEXT = {
    Flaw.NONE: "sound",
    Flaw.TRUNCATED: "a record reaches past the end of the batch",
    Flaw.OVERRUN: "a field reaches past the end of its record",
    Flaw.BAD_VARINT: "a variable-length integer does not fit its type",
    Flaw.BAD_LENGTH: "a length is negative",
    Flaw.BAD_HEADER_COUNT: "a header count is negative",
    Flaw.NULL_HEADER_KEY: "a header has no key",
    Flaw.TRAILING_IN_RECORD: "bytes are left over inside a record",
    Flaw.TOO_FEW_RECORDS: "the batch holds fewer records than it counts",
    Flaw.TRAILING_BYTES: "bytes are left over after the last record",
    Flaw.OFFSET_DELTA: "offset deltas are not 0, 1, 2 and so on",
}


class CorruptRecords(ValueError):
    """Records read back from a log do not parse; nothing of the batch can be trusted."""

    def __init__(self, flaw: int, index: int, position: int) -> None:
        super().__init__(f"record {index} at byte {position}: {FLAW_TEXT[Flaw(flaw)]}")
        self.flaw = Flaw(flaw)
        self.index = index
        self.position = position


class BadRecord(NamedTuple):
    """A record that parses but that the topic's rules refuse."""

    batch_index: int
    key_missing: bool
    """Else its timestamp is out of range."""
    timestamp: int


class RecordsCheck(NamedTuple):
    """What validate_records found. With a flaw, record_index and position (of the record's
    start) say where, and the rest means nothing."""

    flaw: int
    record_index: int
    position: int
    max_timestamp: int
    """The records' greatest, or -1 if none is greater."""
    max_timestamp_offset_delta: int
    """Of the first record with max_timestamp; -1 if there is none."""
    bad_records: list[BadRecord]
    """The first RECORD_ERRORS_MAX of them."""


class RecordSpan(NamedTuple):
    """One record and where its parts lie in the block."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value_start: int
    """-1: the value is null, a tombstone."""
    value_end: int
    headers_start: int
    """Where the header count is."""
    start: int
    """Where the record's length is."""
    tail_start: int
    """After the timestamp delta: from here on a record may be copied under another base."""
    end: int


class Column(IntFlag):
    """Which columns to decode; what is not wanted is not copied."""

    OFFSET = 1
    TIMESTAMP = 2
    KEY = 4
    VALUE = 8
    HEADERS = 16
    ALL = 31


class BinaryColumn(NamedTuple):
    """Arrow's binary layout: row i is data[offsets[i]:offsets[i + 1]], offsets native int32."""

    offsets: Buffer
    data: Buffer
    validity: Buffer | None
    """One bit a row, lowest first; None: no nulls."""
    null_count: int
    validity_start: int = 0
    """The bit of row 0: a slice of an Arrow array need not start at a byte."""


class HeadersColumn(NamedTuple):
    """Arrow's list<struct<key: string, value: binary>>."""

    offsets: Buffer
    """Native int32: row i has the headers offsets[i] to offsets[i + 1]."""
    header_count: int
    keys: BinaryColumn
    """UTF-8 by the protocol; nobody has checked it."""
    values: BinaryColumn


class Columns(NamedTuple):
    """Rows as column buffers. Decoded, an unwanted column is None; to be encoded, a column that
    is None is null in every row."""

    rows: int
    offsets: Buffer | None
    """Native int64, like the timestamps."""
    timestamps: Buffer | None
    keys: BinaryColumn | None
    values: BinaryColumn | None
    headers: HeadersColumn | None


class EncodedRecords(NamedTuple):
    """The rows [start_row, end_row) as the records of one batch, not yet compressed."""

    records: bytearray
    """Behind as many free bytes as were asked for."""
    end_row: int
    base_timestamp: int
    max_timestamp: int


class IntColumn(NamedTuple):
    """Arrow's int32 layout."""

    values: Buffer
    validity: Buffer | None
    validity_start: int = 0


@dataclass(slots=True)
class Placement:
    """Where a topic's rows may go. Rows without a key stick to one partition until they have
    filled a batch there, then the next has its turn."""

    partition_count: int
    available: Buffer
    """Native int32: the partitions that rows without a key may go to."""
    turn_bytes: int
    """Of keys and values, after which the next has its turn."""
    turn: int = 0
    """An index of available."""
    taken_bytes: int = 0
    """In this turn."""


class RowGroup(NamedTuple):
    """The rows order[start:end] belong to this partition, and are in their first order."""

    topic: int
    """An index of the placements."""
    partition: int
    start: int
    end: int


class AssignedRows(NamedTuple):
    """All rows, grouped by the partition they belong to."""

    order: bytes
    """Native int32: row numbers."""
    groups: list[RowGroup]
    bad_row: int
    """-1, or the first row that chose a partition which its topic does not have; then there is
    no order, no group, and no turn has passed."""


class ColumnDecoder(Protocol):
    """Decodes the records of batch after batch into columns, at most rows_max rows and, unless
    one row alone is larger, bytes_max bytes of keys, values and headers at a time.

        decoder.feed(records, ...)
        while not decoder.fill():       # full before the batch's end
            yield decoder.take()
    """

    @property
    def rows(self) -> int:
        """Rows decoded and not taken yet."""

    def feed(
        self,
        records: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_timestamp: int | None,
        start_offset: int,
        end_offset: int,
    ) -> None:
        """Begin a batch; only records of [start_offset, end_offset) become rows. With
        append_timestamp (LogAppendTime) every record has that time."""

    def fill(self) -> bool:
        """Decode on. True: the batch is done; False: full, take the columns and go on.
        Raises CorruptRecords, after which the batch is forgotten and its rows so far remain."""

    def feed_plain(
        self,
        batches: Buffer,
        position: int,
        next_offset: int,
        start_offset: int,
        end_offset: int,
        attributes: int,
        check_crc: bool,
    ) -> tuple[int, int]:
        """Decode whole batches, with their headers, from position on: those that are sound, that
        have exactly these attributes (0, or LogAppendTime's bit) and that there is room for.
        Returns where it stopped, and which offset comes next. What lies there has to be looked
        at more closely, and may be the end."""

    def take(self) -> Columns:
        """The columns, in memory of their own; the decoder starts anew."""


class SingleProduce(Protocol):
    """A Produce request of one partition and no transaction, which nearly all are.

    It stands for a `ProduceRequest`; what follows `records` is known once it is accepted.
    """

    version: int
    correlation_id: int
    acks: int
    timeout_ms: int
    topic: str
    topic_id: Uuid
    index: int
    frame: memoryview
    records: memoryview
    last_offset_delta: int
    attributes: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int

    def accept(
        self,
        size_max: int,
        now_ms: int,
        before_max_ms: int,
        after_max_ms: int,
        key_required: bool,
        /,
    ) -> bool:
        """As accept_batch, of timestamps so near to now. A transactional batch is not accepted,
        nor one whose header has to be rewritten."""
        ...

    def answer(self, base_offset: int, append_time: int, log_start_offset: int, /) -> bytes:
        """The frame of the answer: the records were appended."""
        ...


class RecordsModule(BatchesModule, Protocol):
    """The interface of the compiled module and of the twin."""

    def crc32c(self, data: Buffer, value: int = 0, /) -> int:
        """CRC-32C of data, going on from value."""

    def validate_records(
        self,
        data: Buffer,
        count: int,
        base_timestamp: int,
        timestamp_min: int,
        timestamp_max: int,
        key_required: bool,
        /,
    ) -> RecordsCheck:
        """Check everything about a produced batch's records."""

    def accept_batch(
        self,
        data: Buffer,
        size_max: int,
        timestamp_min: int,
        timestamp_max: int,
        key_required: bool,
        /,
    ) -> tuple[int, int] | None:
        """For the usual produced batch, uncompressed and without a flaw: the greatest timestamp
        and the offset delta of the first record that has it. None says nothing but that it has
        to be looked at more closely."""

    def parse_produce(self, frame: memoryview, /) -> SingleProduce | None:
        """None says nothing but that the general decoder has to read this request."""

    def walk_records(self, data: Buffer, count: int, /) -> list[RecordSpan]:
        """All records, for those who need their keys. Raises CorruptRecords."""

    def encode_records(
        self,
        columns: Columns,
        start_row: int,
        bytes_max: int,
        timestamp: int,
        order: Buffer | None = None,
        room: int = 0,
        /,
    ) -> EncodedRecords:
        """As many rows from start_row on as fit into bytes_max, at least one; timestamp is for
        all rows if columns has none. With order (native int32 row numbers) it is that which is
        counted in. ValueError if the columns contradict themselves."""

    def assign_rows(
        self,
        columns: Columns,
        chosen: IntColumn | None,
        topics: Buffer | None,
        placements: Sequence[Placement],
        /,
    ) -> AssignedRows:
        """Give each row its partition: the chosen one, or its key's, or the one whose turn it
        is. topics holds indexes of placements (native int32), and may be left out if there is
        but one. ValueError if the columns contradict themselves."""

    def ColumnDecoder(self, wanted: int, rows_max: int, bytes_max: int, /) -> ColumnDecoder: ...
