"""What a broker checks about a produced batch before its log sees it. A pure function: large
batches are checked in a thread.

Order and codes are Kafka's, but for three points where Kafka stores what readers choke on:
offset deltas that are not 0, 1, 2 and so on are refused in uncompressed batches too; so is a
delete horizon, which only compaction may set; and a batch may not decompress without bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import ErrorCode
from tidelog.wire import records
from tidelog.wire.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchFlaw,
    FlawKind,
    RecordBatch,
    TimestampType,
    read_batch,
    rewrite_timestamps,
)
from tidelog.wire.compression import (
    DECOMPRESSED_BYTES_MAX,
    Compression,
    DecompressedTooLarge,
    UndecodableData,
)
from tidelog.wire.records_types import FLAW_TEXT, BadRecord, Flaw, RecordsCheck

if TYPE_CHECKING:
    from typing_extensions import Buffer

ZSTD_PRODUCE_VERSION_MIN = 7
"""Older clients do not know zstd, so an older request cannot mean it."""

INT64_MAX = (1 << 63) - 1

_ZSTD = int(Compression.ZSTD)
"""An enum's member is slow to look up, and this is asked about every compressed batch."""


@dataclass(frozen=True, slots=True)
class ProduceRules:
    """The topic's configs that decide whether a batch is taken; Kafka's defaults."""

    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False
    max_message_bytes: int = 1_048_588
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX

    def timestamp_range(self, now_ms: int) -> tuple[int, int]:
        """The least and the greatest that a record may have now."""
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return -INT64_MAX - 1, INT64_MAX
        return (
            max(-INT64_MAX - 1, now_ms - self.timestamp_before_max_ms),
            min(INT64_MAX, now_ms + self.timestamp_after_max_ms),
        )


class RecordError(NamedTuple):
    """One bad record, as the response lists it."""

    batch_index: int
    batch_index_error_message: str


class Refusal(NamedTuple):
    """The whole batch is refused: Kafka takes no part of one."""

    error_code: ErrorCode
    error_message: str
    record_errors: tuple[RecordError, ...] = ()


class ValidBatch(NamedTuple):
    """A batch to append, and what its header must say by then."""

    batch: RecordBatch
    attributes: int
    max_timestamp: int
    max_timestamp_offset_delta: int
    """Of the first record with the greatest timestamp; -1 if no record has one."""

    @property
    def must_be_rewritten(self) -> bool:
        """Whether the client's header differs, and the checksum has to be renewed."""
        batch = self.batch
        return self.attributes != batch.attributes or self.max_timestamp != batch.max_timestamp

    @property
    def append_time(self) -> int:
        """That the log gives all of its records, or -1."""
        return self.max_timestamp if self.attributes & LOG_APPEND_TIME else NO_TIMESTAMP

    def rewritten(self) -> ValidBatch:
        """With a header that says it: in place, but for a buffer that is read-only."""
        valid = self
        if self.batch.buffer.readonly:
            buffer = memoryview(bytearray(self.batch.to_view()))
            valid = self._replace(batch=self.batch._replace(buffer=buffer, position=0))
        if self.must_be_rewritten:
            batch = valid.batch
            rewrite_timestamps(batch.buffer, batch.position, self.attributes, self.max_timestamp)
        return valid


def validate_produced(
    data: Buffer, rules: ProduceRules, *, produce_version: int, now_ms: int
) -> ValidBatch | Refusal:
    """The one batch of a partition's data in a Produce request."""
    view = memoryview(data)
    timestamp_min, timestamp_max = rules.timestamp_range(now_ms)
    # Nearly every batch passes here; what does not is looked at again, to say why.
    accepted = records.accept_batch(
        view, rules.max_message_bytes, timestamp_min, timestamp_max, rules.compacted
    )
    if accepted is not None:
        batch = RecordBatch(view, 0, *HEADER.unpack_from(view))
        return _valid(batch, rules, *accepted, now_ms)
    return validate_closely(view, rules, produce_version=produce_version, now_ms=now_ms)


def validate_closely(
    view: memoryview, rules: ProduceRules, *, produce_version: int, now_ms: int
) -> ValidBatch | Refusal:
    """The same, rule by rule."""
    batch = _only_batch(view, produce_version)
    if isinstance(batch, Refusal):
        return batch
    refusal = _check_header(batch, rules)
    if refusal is not None:
        return refusal
    check = _check_records(batch, rules, now_ms)
    if isinstance(check, Refusal):
        return check
    return _valid(batch, rules, check.max_timestamp, check.max_timestamp_offset_delta, now_ms)


def _valid(
    batch: RecordBatch, rules: ProduceRules, max_timestamp: int, offset_delta: int, now_ms: int
) -> ValidBatch:
    attributes = batch.attributes & ~LOG_APPEND_TIME
    if rules.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return ValidBatch(batch, attributes | LOG_APPEND_TIME, now_ms, 0)
    return ValidBatch(batch, attributes, max_timestamp, offset_delta)


def _only_batch(data: memoryview, produce_version: int) -> RecordBatch | Refusal:
    batch = read_batch(data, 0, len(data))
    if isinstance(batch, BatchFlaw):
        return _refuse_flaw(batch)
    if batch.codec == _ZSTD and produce_version < ZSTD_PRODUCE_VERSION_MIN:
        text = f"zstd needs Produce version {ZSTD_PRODUCE_VERSION_MIN} or later"
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, text)
    if batch.end_position == len(data):
        return batch
    second = read_batch(data, batch.end_position, len(data))
    if isinstance(second, RecordBatch):
        return _invalid("a partition's data is exactly one batch")
    # Stray bytes too few for a batch are ignored, as Kafka does: they are not appended.
    if second.kind is not FlawKind.INCOMPLETE:
        return _refuse_flaw(second)
    return batch


def _refuse_flaw(flaw: BatchFlaw) -> Refusal:
    if flaw.kind in (FlawKind.INCOMPLETE, FlawKind.OLD_MAGIC):
        return _invalid(flaw.kind.value)
    return Refusal(ErrorCode.CORRUPT_MESSAGE, flaw.kind.value)


def _check_header(batch: RecordBatch, rules: ProduceRules) -> Refusal | None:
    if batch.base_offset != 0:
        return _invalid(f"the base offset is {batch.base_offset}, want 0")
    if batch.size > rules.max_message_bytes:
        text = f"the batch has {batch.size} bytes, at most {rules.max_message_bytes} are allowed"
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, text)
    if not batch.crc_is_right():
        return Refusal(ErrorCode.CORRUPT_MESSAGE, FlawKind.BAD_CRC.value)
    if batch.codec > _ZSTD:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no codec {batch.codec}")
    if batch.record_count <= 0:
        return _invalid(f"the batch counts {batch.record_count} records")
    if batch.last_offset_delta != batch.record_count - 1:
        count, delta = batch.record_count, batch.last_offset_delta
        return _invalid(f"{count} records do not end at offset delta {delta}")
    if batch.attributes & CONTROL:
        return _invalid("clients may not write control records")
    if batch.attributes & DELETE_HORIZON:
        # Its base timestamp would mean something else than the client meant.
        return _invalid("clients may not set a delete horizon")
    if batch.producer_id >= 0 > batch.base_sequence:
        return _invalid(f"producer {batch.producer_id} sent sequence {batch.base_sequence}")
    return None


def _check_records(batch: RecordBatch, rules: ProduceRules, now_ms: int) -> RecordsCheck | Refusal:
    try:
        block = batch.decompressed(rules.decompressed_bytes_max)
    except UndecodableData as error:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"the records do not decompress: {error}")
    except DecompressedTooLarge:
        # The code on which Java's producer splits its batch, which is what helps here.
        text = f"the records have more than {rules.decompressed_bytes_max} bytes"
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, text)
    timestamp_min, timestamp_max = rules.timestamp_range(now_ms)
    check = records.validate_records(
        block,
        batch.record_count,
        batch.base_timestamp,
        timestamp_min,
        timestamp_max,
        rules.compacted,
    )
    if check.flaw:
        text = FLAW_TEXT[Flaw(check.flaw)]
        return _invalid(f"record {check.record_index} at byte {check.position}: {text}")
    if check.bad_records:
        return _refuse_records(check.bad_records, timestamp_min, timestamp_max)
    return check


def _refuse_records(bad: list[BadRecord], timestamp_min: int, timestamp_max: int) -> Refusal:
    errors = []
    for record in bad:
        text = "a compacted topic takes no record without a key"
        if not record.key_missing:
            text = (
                f"timestamp {record.timestamp} is out of range, "
                f"want {timestamp_min} to {timestamp_max}"
            )
        errors.append(RecordError(record.batch_index, text))
    if all(record.key_missing for record in bad):
        code, text = ErrorCode.INVALID_RECORD, "records without a key"
    else:
        code, text = ErrorCode.INVALID_TIMESTAMP, "records with a timestamp out of range"
    return Refusal(code, text, tuple(errors))


def _invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD, text)
