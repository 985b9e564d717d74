"""The view over a batch, the walk over many, and what is written in place."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.readers import read_batch as kio_read_batch
from tests.conftest import examples
from tests.unit.wire.record_samples import batch_of, java_batches, java_samples

from tidelog.wire.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    BatchFlaw,
    BatchWalk,
    FlawKind,
    RecordBatch,
    TimestampType,
    assign_offset,
    read_batch,
    renew_crc,
    rewrite_timestamps,
)
from tidelog.wire.batch_builder import BatchBuilder, assemble_batch, recompress
from tidelog.wire.batch_reader import read_records
from tidelog.wire.compression import Compression
from tidelog.wire.records_twin_parse import write_record
from tidelog.wire.records_types import CorruptRecords

GOLDEN = (
    # Two records, written by hand from the format's description.
    "0000000000000064"  # base offset 100
    "00000044"  # length 68
    "00000007"  # partition leader epoch
    "02"  # magic
    "454e4f99"  # CRC-32C of all that follows
    "0010"  # attributes: transactional
    "00000001"  # last offset delta
    "00000000000003e8"  # base timestamp 1000
    "00000000000003ea"  # max timestamp 1002
    "0000000000001267"  # producer id 4711
    "0003"  # producer epoch
    "00000011"  # base sequence 17
    "00000002"  # two records
    # length 8, attributes, timestamp delta, offset delta, key, value, no headers
    "10000000026b027600"
    # length 9, attributes, +2 ms, offset delta 1, null, null, one header: h, null
    "12000402010102026801"
)


def golden_builder() -> BatchBuilder:
    builder = BatchBuilder()
    builder.append(b"k", b"v", timestamp=1000)
    builder.append(None, None, timestamp=1002, headers=((b"h", None),))
    return builder


def golden() -> bytearray:
    return golden_builder().build(
        base_offset=100,
        partition_leader_epoch=7,
        attributes=TRANSACTIONAL,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=17,
    )


def many(*base_offsets: int) -> bytearray:
    joined = bytearray()
    for base_offset in base_offsets:
        joined += golden_builder().build(base_offset=base_offset)
    return joined


def test_golden_bytes() -> None:
    assert golden().hex() == GOLDEN


def test_the_view_reads_every_field() -> None:
    data = b"padding" + bytes.fromhex(GOLDEN) + b"more"
    batch = read_batch(memoryview(data), 7, len(data))
    assert isinstance(batch, RecordBatch)
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (100, 101, 102)
    assert (batch.size, batch.end_position) == (80, 87)
    assert (batch.partition_leader_epoch, batch.magic, batch.codec) == (7, 2, 0)
    assert (batch.base_timestamp, batch.max_timestamp) == (1000, 1002)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (4711, 3, 17)
    assert batch.record_count == 2
    assert batch.crc_is_right()
    assert batch.to_view() == bytes.fromhex(GOLDEN)
    assert batch.payload() == bytes.fromhex(GOLDEN)[61:]
    assert batch.to_view().obj is data  # no copy was made
    assert (batch.is_transactional, batch.is_control, batch.has_producer_id) == (True, False, True)
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert batch.delete_horizon_ms is None
    other = batch._replace(attributes=CONTROL | LOG_APPEND_TIME | DELETE_HORIZON | Compression.LZ4)
    assert (other.is_transactional, other.is_control, other.codec) == (False, True, 3)
    assert other.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert other.delete_horizon_ms == 1000


@pytest.mark.parametrize("name", java_batches())
def test_java_wrote_it(name: str) -> None:
    batch = batch_of(java_batches()[name])
    assert batch.crc_is_right()
    assert batch.is_control == name.startswith("control")
    assert batch.is_transactional == ("transactional" in name or batch.is_control)
    if batch.is_control:
        assert batch.size == 78
        return
    appended = "append-time" in name
    for record, sample in zip(read_records(batch), java_samples(batch.record_count), strict=True):
        assert record.offset == sample.offset + batch.base_offset
        assert record.timestamp == (123456789 if appended else sample.timestamp)
        assert record[2:] == sample[2:]


KIO_READS = ("none-plain", "none-idempotent", "none-transactional", "control-commit")
"""It knows no codecs, and takes an append time for a mistake."""


@pytest.mark.parametrize("name", KIO_READS)
def test_kio_agrees(name: str) -> None:
    data = bytes(java_batches()[name])
    theirs, size = kio_read_batch(data, 0)
    assert size == len(data)
    ours = batch_of(data)
    for field in ("base_offset", "batch_length", "crc", "attributes", "last_offset_delta"):
        assert getattr(ours, field) == getattr(theirs, field)
    for field in ("base_timestamp", "max_timestamp", "producer_id", "base_sequence"):
        assert getattr(ours, field) == getattr(theirs, field)
    assert [(r.key, r.value) for r in theirs.records] == [r[2:4] for r in read_records(ours)]


def test_a_walk_goes_over_all() -> None:
    data = many(0, 2, 10)
    walk = BatchWalk(data)
    assert [batch.base_offset for batch in walk] == [0, 2, 10]
    assert (walk.position, walk.next_offset, walk.flaw) == (len(data), 12, None)
    assert list(BatchWalk(b"")) == []


def test_a_walk_may_start_and_go_on_anywhere() -> None:
    data = many(5, 7, 9)
    size = len(data) // 3
    walk = BatchWalk(data, size, next_offset_min=7)
    assert [batch.base_offset for batch in walk] == [7, 9]
    late = BatchWalk(data, next_offset_min=6)
    assert list(late) == []
    assert late.flaw == BatchFlaw(FlawKind.BAD_OFFSETS, 0)


def test_a_torn_tail_is_reported_at_every_length() -> None:
    data = many(0, 2)
    size = len(data) // 2
    for end in range(len(data)):
        walk = BatchWalk(data[:end])
        assert len(list(walk)) == end // size
        assert walk.position == end // size * size
        torn = BatchFlaw(FlawKind.INCOMPLETE, walk.position)
        assert walk.flaw == (None if end % size == 0 else torn)


def flaw_of(data: bytearray) -> FlawKind:
    walk = BatchWalk(many(0) + data)
    assert [batch.base_offset for batch in walk] == [0]
    assert walk.flaw is not None
    assert walk.flaw.position == walk.position == len(many(0))
    return walk.flaw.kind


@pytest.mark.parametrize(
    ("at", "patch", "kind"),
    [
        (8, struct.pack(">i", 13), FlawKind.BAD_LENGTH),
        (8, struct.pack(">i", -1), FlawKind.BAD_LENGTH),
        (8, struct.pack(">i", 48), FlawKind.BAD_LENGTH),
        (8, struct.pack(">i", 2**31 - 1), FlawKind.INCOMPLETE),
        (16, b"\0", FlawKind.OLD_MAGIC),
        (16, b"\1", FlawKind.OLD_MAGIC),
        (16, b"\3", FlawKind.UNKNOWN_MAGIC),
        (16, b"\xff", FlawKind.UNKNOWN_MAGIC),
        (17, b"\0\0\0\0", FlawKind.BAD_CRC),
        (70, b"\xee", FlawKind.BAD_CRC),
        (0, struct.pack(">q", 1), FlawKind.BAD_OFFSETS),
        (0, struct.pack(">q", -1), FlawKind.BAD_OFFSETS),
    ],
)
def test_a_bad_batch_is_reported(at: int, patch: bytes, kind: FlawKind) -> None:
    data = many(2)
    data[at : at + len(patch)] = patch
    assert flaw_of(data) is kind


def test_a_negative_last_offset_delta_is_reported() -> None:
    data = many(2)
    struct.pack_into(">i", data, 23, -1)
    renew_crc(data, 0)
    assert flaw_of(data) is FlawKind.BAD_OFFSETS


def test_a_walk_without_checksums() -> None:
    data = many(0, 2)
    data[70] ^= 1
    assert len(list(BatchWalk(data))) == 0
    assert len(list(BatchWalk(data, check_crc=False))) == 2


@examples(300)
@given(st.lists(st.tuples(st.integers(0, 239), st.integers(0, 255)), max_size=5), st.data())
def test_a_walk_raises_nothing(changes: list[tuple[int, int]], data: st.DataObject) -> None:
    buffer = many(0, 2, 4)
    for at, value in changes:
        buffer[at] = value
    cut = data.draw(st.integers(0, len(buffer)))
    for check_crc in (True, False):
        walk = BatchWalk(buffer[:cut], check_crc=check_crc)
        for batch in walk:
            assert batch.end_position <= cut
            try:
                read_records(batch)
            except (CorruptRecords, ValueError):
                assert not check_crc or changes
        assert (walk.flaw is None) == (walk.position == cut)


def test_offset_and_epoch_are_outside_of_the_checksum() -> None:
    data = bytearray(b"xx") + golden() + b"xx"
    assign_offset(data, 2, 1 << 40, 99)
    batch = read_batch(memoryview(data), 2, len(data))
    assert isinstance(batch, RecordBatch)
    assert (batch.base_offset, batch.partition_leader_epoch) == (1 << 40, 99)
    assert batch.crc_is_right()
    assert data[:2] == data[-2:] == b"xx"


def test_timestamps_are_rewritten_with_the_checksum() -> None:
    data = bytearray(b"xx") + golden() + b"xx"
    rewrite_timestamps(memoryview(data), 2, LOG_APPEND_TIME | TRANSACTIONAL, 5000)
    batch = read_batch(memoryview(data), 2, len(data))
    assert isinstance(batch, RecordBatch)
    assert batch.crc_is_right()
    assert batch.max_timestamp == 5000
    assert {record.timestamp for record in read_records(batch)} == {5000}


def test_an_empty_batch_of_compaction() -> None:
    data = assemble_batch(
        b"", 0, base_timestamp=-1, max_timestamp=9, base_offset=5, last_offset_delta=3
    )
    assert len(data) == HEADER.size
    (batch,) = BatchWalk(data)
    assert (batch.record_count, batch.next_offset) == (0, 9)
    assert read_records(batch) == []


@pytest.mark.parametrize("source", Compression)
@pytest.mark.parametrize("target", Compression)
def test_recompress(source: Compression, target: Compression) -> None:
    builder = BatchBuilder()
    for sample in java_samples(300):
        builder.append(sample.key, sample.value, timestamp=sample.timestamp, headers=sample.headers)
    before = batch_of(
        builder.build(
            base_offset=8,
            attributes=TRANSACTIONAL,
            producer_id=5,
            base_sequence=6,
            compression=source,
        )
    )
    after = batch_of(recompress(before, target))
    assert after.codec == target
    assert after.crc_is_right()
    assert read_records(after) == read_records(before)
    same = after._replace(buffer=before.buffer, batch_length=before.batch_length, crc=before.crc)
    assert same._replace(attributes=before.attributes) == before
    assert after.attributes & ~7 == TRANSACTIONAL


def test_recompressing_keeps_the_gaps_of_compaction() -> None:
    data = assemble_batch(
        write_record(0, 4, b"k", b"v", ()),
        1,
        base_timestamp=5,
        max_timestamp=9,
        base_offset=10,
        last_offset_delta=7,
        attributes=DELETE_HORIZON,
    )
    after = batch_of(recompress(batch_of(data), Compression.ZSTD))
    assert (after.last_offset, after.delete_horizon_ms, after.max_timestamp) == (17, 5, 9)
    assert [record.offset for record in read_records(after)] == [14]


def test_the_builder_knows_its_size() -> None:
    builder = golden_builder()
    assert builder.record_count == 2
    assert builder.records_size == len(golden()) - HEADER.size
    assert len(builder.build(compression=Compression.NONE)) == HEADER.size + builder.records_size
