"""Every rule for produced batches, with the code that Kafka answers."""

from __future__ import annotations

import struct
import zlib

import pytest
from tests.unit.wire.record_samples import batch_of, java_batches

from tidelog.errors import ErrorCode
from tidelog.wire.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    TimestampType,
    renew_crc,
)
from tidelog.wire.batch_builder import BatchBuilder, assemble_batch
from tidelog.wire.batch_reader import read_records
from tidelog.wire.batch_validation import (
    ProduceRules,
    RecordError,
    Refusal,
    ValidBatch,
    validate_produced,
)
from tidelog.wire.compression import Compression, compress
from tidelog.wire.records_twin_parse import varint, write_record

NOW_MS = 1_700_000_000_000
RULES = ProduceRules()


def produced(*timestamps: int, key: bytes | None = b"k", **fields: int) -> bytearray:
    builder = BatchBuilder()
    for timestamp in timestamps or (NOW_MS, NOW_MS + 5, NOW_MS + 2):
        builder.append(key, b"value", timestamp=timestamp)
    return builder.build(**fields)  # type: ignore[arg-type]


def patched(at: int, form: str, value: int, *, renew: bool = True) -> bytearray:
    batch = produced()
    struct.pack_into(form, batch, at, value)
    if renew:
        renew_crc(batch, 0)
    return batch


def batch_around(
    records: bytes, count: int = 1, codec: Compression = Compression.NONE
) -> bytearray:
    return assemble_batch(
        records, count, base_timestamp=NOW_MS, max_timestamp=NOW_MS, compression=codec
    )


def with_payload(codec: int, payload: bytes) -> bytearray:
    """A batch whose payload is already in (what claims to be) a codec."""
    batch = batch_around(payload)
    batch[22] = codec
    renew_crc(batch, 0)
    return batch


def validate(
    data: bytes | bytearray, rules: ProduceRules = RULES, produce_version: int = 9
) -> ValidBatch | Refusal:
    return validate_produced(data, rules, produce_version=produce_version, now_ms=NOW_MS)


def code_of(
    data: bytes | bytearray, rules: ProduceRules = RULES, produce_version: int = 9
) -> ErrorCode:
    answer = validate(data, rules, produce_version)
    assert isinstance(answer, Refusal), answer
    assert answer.error_message
    return answer.error_code


def accepted(data: bytes | bytearray, rules: ProduceRules = RULES) -> ValidBatch:
    answer = validate(data, rules)
    assert isinstance(answer, ValidBatch), answer
    return answer


@pytest.mark.parametrize("codec", Compression)
def test_a_sound_batch_needs_no_rewriting(codec: Compression) -> None:
    data = produced(compression=codec)
    valid = accepted(data)
    assert not valid.must_be_rewritten
    assert (valid.max_timestamp, valid.max_timestamp_offset_delta) == (NOW_MS + 5, 1)
    before = bytes(data)
    valid.rewritten()
    assert data == before


@pytest.mark.parametrize("name", [n for n in java_batches() if "append" not in n])
def test_javas_batches_pass(name: str) -> None:
    data = java_batches()[name]
    if name.startswith("control"):
        assert code_of(data) is ErrorCode.INVALID_RECORD
    else:
        assert not accepted(data).must_be_rewritten


INVALID_RECORD: dict[str, bytes | bytearray] = {
    "empty": b"",
    "incomplete": produced()[:-1],
    "header cut": produced()[:16],
    "magic 0": patched(16, ">b", 0),
    "magic 1": patched(16, ">b", 1),
    "two batches": produced() + produced(),
    "base offset": patched(0, ">q", 1),
    "control": produced(attributes=CONTROL),
    "control, transactional": produced(attributes=CONTROL | TRANSACTIONAL, producer_id=1),
    "delete horizon": produced(attributes=DELETE_HORIZON),
    "count 0": patched(57, ">i", 0),
    "count -1": patched(57, ">i", -1),
    "last offset delta": patched(23, ">i", 3),
    "last offset delta negative": patched(23, ">i", -1),
    "producer without sequence": produced(producer_id=1, base_sequence=-1),
    "fewer records than counted": batch_around(write_record(0, 0, b"k", None, ()), 2),
    "more records than counted": batch_around(write_record(0, 0, b"k", None, ()) * 2, 1),
    "trailing bytes in the block": batch_around(write_record(0, 0, b"k", None, ()) + b"\0"),
    "trailing bytes in a record": batch_around(varint(7) + b"\0\0\0\1\1\0\0"),
    "null header key": batch_around(varint(8) + b"\0\0\0\1\1\2\1\1"),
    "offset delta": batch_around(write_record(0, 1, b"k", None, ())),
    "offset deltas fall": batch_around(
        write_record(0, 1, b"k", None, ()) + write_record(0, 0, b"k", None, ()), 2
    ),
    "offset delta, compressed": batch_around(
        write_record(0, 1, b"k", None, ()), 1, Compression.LZ4
    ),
    "count, compressed": batch_around(write_record(0, 0, b"k", None, ()), 2, Compression.ZSTD),
}


@pytest.mark.parametrize("name", INVALID_RECORD)
def test_invalid_record(name: str) -> None:
    assert code_of(INVALID_RECORD[name]) is ErrorCode.INVALID_RECORD


CORRUPT_MESSAGE = {
    "crc": patched(17, ">I", 1, renew=False),
    "a bit in the records": patched(75, ">b", 1, renew=False),
    "magic 3": patched(16, ">b", 3),
    "magic negative": patched(16, ">b", -1),
    "length 13": patched(8, ">i", 13, renew=False),
    "length negative": patched(8, ">i", -1, renew=False),
    "length 48": patched(8, ">i", 48, renew=False),
}


@pytest.mark.parametrize("name", CORRUPT_MESSAGE)
def test_corrupt_message(name: str) -> None:
    assert code_of(CORRUPT_MESSAGE[name]) is ErrorCode.CORRUPT_MESSAGE


def test_stray_bytes_after_the_batch_are_dropped() -> None:
    data = produced()
    valid = accepted(data + b"stray")
    assert valid.batch.to_view() == data


def test_the_size_is_checked_before_the_checksum() -> None:
    data = produced()
    size = len(data)
    accepted(data, ProduceRules(max_message_bytes=size))
    small = ProduceRules(max_message_bytes=size - 1)
    assert code_of(data, small) is ErrorCode.MESSAGE_TOO_LARGE
    data[70] ^= 1
    assert code_of(data, small) is ErrorCode.MESSAGE_TOO_LARGE
    struct.pack_into(">q", data, 0, 5)
    assert code_of(data, small) is ErrorCode.INVALID_RECORD  # the base offset comes first


def test_the_checksum_is_checked_before_the_fields() -> None:
    assert code_of(patched(57, ">i", 0, renew=False)) is ErrorCode.CORRUPT_MESSAGE


def test_zstd_needs_version_7() -> None:
    data = produced(compression=Compression.ZSTD)
    assert code_of(data, produce_version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert isinstance(validate(data, produce_version=7), ValidBatch)
    assert code_of(data + data, produce_version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist(codec: int) -> None:
    assert code_of(with_payload(codec, b"data")) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("payload", [b"", b"garbage", b"\xff" * 100, zlib.compress(b"zlib")])
def test_undecodable_data(codec: int, payload: bytes) -> None:
    if codec == Compression.SNAPPY and payload == b"":
        return  # an empty raw block is sound: it holds nothing
    assert code_of(with_payload(codec, payload)) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", [c for c in Compression if c])
def test_a_bomb_does_not_go_off(codec: Compression) -> None:
    bomb = with_payload(codec, compress(codec, bytes(40 << 20)))
    rules = ProduceRules(decompressed_bytes_max=1 << 20, max_message_bytes=8 << 20)
    assert code_of(bomb, rules) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_keys_are_required_where_compacted(codec: Compression) -> None:
    builder = BatchBuilder()
    for key in (b"k", None, b"", None):
        builder.append(key, b"v", timestamp=NOW_MS)
    data = builder.build(compression=codec)
    accepted(data)
    answer = validate(data, ProduceRules(compacted=True))
    assert isinstance(answer, Refusal)
    assert answer.error_code is ErrorCode.INVALID_RECORD
    text = "a compacted topic takes no record without a key"
    assert answer.record_errors == (RecordError(1, text), RecordError(3, text))


def test_timestamps_must_be_in_range() -> None:
    rules = ProduceRules(timestamp_before_max_ms=100, timestamp_after_max_ms=10)
    accepted(produced(NOW_MS - 100, NOW_MS + 10, -1), rules)
    answer = validate(produced(NOW_MS, NOW_MS - 101, NOW_MS + 11), rules)
    assert isinstance(answer, Refusal)
    assert answer.error_code is ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in answer.record_errors] == [1, 2]
    assert str(NOW_MS + 11) in answer.record_errors[1].batch_index_error_message


def test_the_default_range_is_an_hour_ahead_and_the_whole_past() -> None:
    accepted(produced(0, 1, NOW_MS + 3_600_000))
    assert code_of(produced(NOW_MS + 3_600_001)) is ErrorCode.INVALID_TIMESTAMP


def test_append_time_checks_no_timestamp() -> None:
    rules = ProduceRules(
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        timestamp_before_max_ms=0,
        timestamp_after_max_ms=0,
    )
    accepted(produced(5, 1 << 60), rules)


def test_a_timestamp_rules_over_a_missing_key() -> None:
    rules = ProduceRules(compacted=True, timestamp_after_max_ms=0)
    answer = validate(produced(NOW_MS, NOW_MS + 1, key=None), rules)
    assert isinstance(answer, Refusal)
    assert answer.error_code is ErrorCode.INVALID_RECORD  # the key comes first
    builder = BatchBuilder()
    builder.append(None, None, timestamp=NOW_MS)
    builder.append(b"k", None, timestamp=NOW_MS + 1)
    answer = validate(builder.build(), rules)
    assert isinstance(answer, Refusal)
    assert answer.error_code is ErrorCode.INVALID_TIMESTAMP
    assert len(answer.record_errors) == 2


@pytest.mark.parametrize("codec", Compression)
def test_a_wrong_max_timestamp_is_corrected(codec: Compression) -> None:
    data = produced(compression=codec)
    struct.pack_into(">q", data, 35, 12345)
    renew_crc(data, 0)
    valid = accepted(data)
    assert valid.must_be_rewritten
    valid.rewritten()
    batch = batch_of(data)
    assert batch.crc_is_right()
    assert batch.max_timestamp == NOW_MS + 5


def test_a_stray_append_time_bit_is_cleared() -> None:
    data = produced(attributes=LOG_APPEND_TIME)
    accepted(data).rewritten()
    batch = batch_of(data)
    assert batch.crc_is_right()
    assert (batch.attributes, batch.max_timestamp) == (0, NOW_MS + 5)


def test_append_time_is_written() -> None:
    data = produced(5, 6, attributes=TRANSACTIONAL)
    rules = ProduceRules(timestamp_type=TimestampType.LOG_APPEND_TIME)
    valid = accepted(data, rules)
    assert valid.max_timestamp_offset_delta == 0
    valid.rewritten()
    batch = batch_of(data)
    assert batch.crc_is_right()
    assert batch.attributes == TRANSACTIONAL | LOG_APPEND_TIME
    assert (batch.base_timestamp, batch.max_timestamp) == (5, NOW_MS)
    assert {record.timestamp for record in read_records(batch)} == {NOW_MS}


def test_records_without_timestamps() -> None:
    valid = accepted(produced(-1, -1))
    assert (valid.max_timestamp, valid.max_timestamp_offset_delta) == (-1, -1)


@pytest.mark.parametrize("codec", Compression)
def test_damage_is_never_an_exception(codec: Compression) -> None:
    """Damage behind a right checksum, as a careless or hostile client sends it."""
    data = produced(compression=codec)
    for at in range(len(data)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[at] = value
            if 0 < struct.unpack_from(">i", damaged, 8)[0] <= len(data) - 12:
                renew_crc(damaged, 0)
            for cut in (damaged, damaged[:at]):
                answer = validate(cut)
                if isinstance(answer, ValidBatch):
                    assert answer.batch.record_count == 3
