"""What the functions that walk records promise, one by one, for both implementations."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import pytest
from tests.unit.wire.record_samples import IMPLEMENTATIONS, block_of, java_samples

from tidelog.wire import records, records_twin
from tidelog.wire.batch_reader import Record
from tidelog.wire.records_twin_parse import varint, write_record
from tidelog.wire.records_types import (
    RECORD_ERRORS_MAX,
    BadRecord,
    CorruptRecords,
    Flaw,
    RecordsModule,
)

INT64_MAX = (1 << 63) - 1


@pytest.fixture(params=IMPLEMENTATIONS, autouse=True)
def module(request: pytest.FixtureRequest) -> RecordsModule:
    return IMPLEMENTATIONS[request.param]


def test_the_compiled_module_is_in_use() -> None:
    """Else the differential tests compare the twin with itself."""
    assert records.implementation is not records_twin


@pytest.mark.parametrize("value", ["1", "0"])
def test_the_twin_can_be_forced_without_a_warning(value: str) -> None:
    program = "from tidelog.wire import records; print(records.implementation.__name__)"
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        env={"TIDELOG_PURE": value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.strip().endswith("records_twin" if value == "1" else "_records")


def test_a_missing_module_warns_once() -> None:
    program = (
        "import sys; sys.modules['tidelog.wire._records'] = None\n"
        "import tidelog.wire.records, tidelog.wire.batch, tidelog.wire.batch_validation\n"
        "print(tidelog.wire.records.implementation.__name__)"
    )
    shown = subprocess.run(
        [sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "tidelog.wire.records_twin"
    assert shown.stderr.count("RuntimeWarning") == 1
    assert "gcc or clang" in shown.stderr


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        # RFC 3720, appendix B.4.
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
def test_crc32c_of_known_vectors(module: RecordsModule, data: bytes, crc: int) -> None:
    assert module.crc32c(data) == crc
    assert module.crc32c(data[3:], module.crc32c(data[:3])) == crc


def test_crc32c_at_every_size_and_alignment() -> None:
    """The hardware takes three stretches at a time, by two sizes, and then the rest."""
    data = bytes(i * 7919 >> 3 & 255 for i in range(8000))
    without_hardware = getattr(records.implementation, "crc32c_without_hardware", records.crc32c)
    for size in [*range(0, 1200, 7), *range(3060, 3090), *range(6130, 6160), 7991]:
        for start in (0, 1, 5):
            part = memoryview(data)[start : start + size]
            expected = records_twin.crc32c(part)
            assert records.crc32c(part) == expected
            assert without_hardware(part) == expected


FINE = write_record(5, 0, b"k", b"v", ((b"h", b"x"), (b"i", None)))
FLAWED = {
    "too few": (FINE, 2, Flaw.TOO_FEW_RECORDS),
    "nothing at all": (b"", 1, Flaw.TOO_FEW_RECORDS),
    "too many": (FINE + b"\0", 1, Flaw.TRAILING_BYTES),
    "cut": (FINE[:-1], 1, Flaw.TRUNCATED),
    "length cut": (b"\x80", 1, Flaw.TRUNCATED),
    "length negative": (varint(-1) + FINE, 1, Flaw.BAD_LENGTH),
    "length of 0": (varint(0), 1, Flaw.OVERRUN),
    "length of 1": (varint(1) + b"\0", 1, Flaw.OVERRUN),
    "length huge": (varint(2**31 - 1) + bytes(20), 1, Flaw.TRUNCATED),
    "length of six bytes": (b"\x80\x80\x80\x80\x80\0", 1, Flaw.BAD_VARINT),
    "length beyond 32 bits": (b"\x80\x80\x80\x80\x10" + bytes(9), 1, Flaw.BAD_VARINT),
    "timestamp of eleven bytes": (
        varint(16) + b"\0" + b"\x80" * 10 + bytes(5),
        1,
        Flaw.BAD_VARINT,
    ),
    "timestamp beyond 64 bits": (
        varint(16) + b"\0" + b"\xff" * 9 + b"\x02" + bytes(5),
        1,
        Flaw.BAD_VARINT,
    ),
    "key of -2": (varint(6) + b"\0\0\0" + varint(-2) + b"\1\0", 1, Flaw.BAD_LENGTH),
    "key too long": (varint(6) + b"\0\0\0" + varint(3) + b"\1\0", 1, Flaw.OVERRUN),
    "value of -2": (varint(6) + b"\0\0\0\1" + varint(-2) + b"\0", 1, Flaw.BAD_LENGTH),
    "value too long": (varint(6) + b"\0\0\0\1" + varint(2) + b"\0", 1, Flaw.OVERRUN),
    "header count missing": (varint(5) + b"\0\0\0\1\1", 1, Flaw.OVERRUN),
    "header count of -1": (varint(6) + b"\0\0\0\1\1" + varint(-1), 1, Flaw.BAD_HEADER_COUNT),
    "headers missing": (varint(10) + b"\0\0\0\1\1" + varint(2**31 - 1), 1, Flaw.OVERRUN),
    "header key null": (varint(8) + b"\0\0\0\1\1\2\1\1", 1, Flaw.NULL_HEADER_KEY),
    "header key of -2": (varint(8) + b"\0\0\0\1\1\2\3\1", 1, Flaw.NULL_HEADER_KEY),
    "header value of -2": (varint(8) + b"\0\0\0\1\1\2\0\3", 1, Flaw.BAD_LENGTH),
    "header value too long by one": (varint(8) + b"\0\0\0\1\1\2\0\2", 1, Flaw.OVERRUN),
    "stray byte": (varint(7) + b"\0\0\0\1\1\0\0", 1, Flaw.TRAILING_IN_RECORD),
    "offset delta of 1": (write_record(0, 1, None, None, ()), 1, Flaw.OFFSET_DELTA),
    "offset delta of -1": (write_record(0, -1, None, None, ()), 1, Flaw.OFFSET_DELTA),
}


@pytest.mark.parametrize("name", FLAWED)
def test_flaws_are_named(module: RecordsModule, name: str) -> None:
    block, count, flaw = FLAWED[name]
    check = module.validate_records(block, count, 0, 0, INT64_MAX, False)
    assert Flaw(check.flaw) is flaw
    if flaw is not Flaw.OFFSET_DELTA:  # compaction leaves gaps, so readers take any
        with pytest.raises(CorruptRecords) as raised:
            module.walk_records(block, count)
        assert raised.value.flaw is flaw
        assert raised.value.index == check.record_index
        assert raised.value.position == check.position


def test_a_flaw_says_where(module: RecordsModule) -> None:
    first = write_record(0, 0, None, b"value", ())
    check = module.validate_records(first + b"\1", 2, 0, 0, INT64_MAX, False)
    assert (check.record_index, check.position) == (1, len(first))


def test_the_greatest_timestamp_and_its_first_record(module: RecordsModule) -> None:
    times = [100, 300, 200, 300]
    block = block_of([Record(0, time, None, None, ()) for time in times])
    check = module.validate_records(block, 4, 0, 0, INT64_MAX, False)
    assert (check.flaw, check.max_timestamp, check.max_timestamp_offset_delta) == (0, 300, 1)


def test_records_without_a_timestamp_pass(module: RecordsModule) -> None:
    block = block_of([Record(0, -1, b"k", None, ())])
    check = module.validate_records(block, 1, 0, 50, 60, True)
    assert check == (0, 0, 0, -1, -1, [])


def test_bad_records_are_listed(module: RecordsModule) -> None:
    samples = [(b"k", 55), (None, 55), (b"k", 61), (b"k", 49), (None, 1), (b"k", 50), (b"k", 60)]
    block = block_of([Record(0, time, key, b"v", ()) for key, time in samples])
    check = module.validate_records(block, len(samples), 0, 50, 60, True)
    assert check.bad_records == [
        BadRecord(1, True, 55),
        BadRecord(2, False, 61),
        BadRecord(3, False, 49),
        BadRecord(4, True, 1),
    ]


def test_the_list_of_bad_records_ends(module: RecordsModule) -> None:
    count = RECORD_ERRORS_MAX + 10
    block = block_of([Record(0, 0, None, None, ())] * count)
    check = module.validate_records(block, count, 0, 0, 0, True)
    assert len(check.bad_records) == RECORD_ERRORS_MAX


def test_sums_wrap_as_java_does(module: RecordsModule) -> None:
    block = write_record(1, 0, None, None, ())
    check = module.validate_records(block, 1, INT64_MAX, -INT64_MAX - 1, INT64_MAX, False)
    assert check.max_timestamp == -1  # the sum is the least of all, below "no timestamp"
    decoder = module.ColumnDecoder(2, 1, 1)
    decoder.feed(block, 1, 0, INT64_MAX, None, 0, 1)
    assert decoder.fill()
    assert decoder.take().timestamps == (1 << 63).to_bytes(8, sys.byteorder)


def test_spans_rebuild_the_block(module: RecordsModule) -> None:
    samples = java_samples(40)
    base = samples[0].timestamp
    block = block_of(samples, base)
    spans = module.walk_records(block, len(samples))
    assert b"".join(block[span.start : span.end] for span in spans) == block
    for sample, span in zip(samples, spans, strict=True):
        assert span.key == sample.key
        assert span.timestamp_delta == sample.timestamp - base
        value = None if span.value_start < 0 else block[span.value_start : span.value_end]
        assert value == sample.value
        # What compaction does under a new base timestamp: a new head before the same tail.
        head = b"\0" + varint(span.timestamp_delta - 5)
        tail = block[span.tail_start : span.end]
        moved = write_record(sample.timestamp - base - 5, sample.offset, *sample[2:])
        assert varint(len(head) + len(tail)) + head + tail == moved


@pytest.mark.parametrize("count", [2**31 - 1, 10**6])
def test_memory_does_not_follow_a_claimed_count(module: RecordsModule, count: int) -> None:
    blocks = [bytes(1000), FINE * 20, FLAWED["headers missing"][0], varint(2**31 - 1) + bytes(50)]
    tracemalloc.start()
    for block in blocks:
        assert module.validate_records(block, count, 0, 0, INT64_MAX, False).flaw
        with pytest.raises(CorruptRecords):
            module.walk_records(block, count)
        decoder = module.ColumnDecoder(31, 2**31 - 1, 1 << 30)
        decoder.feed(block, count, 0, 0, None, 0, INT64_MAX)
        with pytest.raises(CorruptRecords):
            decoder.fill()
        decoder.take()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200_000
