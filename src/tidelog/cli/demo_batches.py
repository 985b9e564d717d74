"""The record batches that `tidelog demo` builds, checks and reads back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.wire import records, records_twin
from tidelog.wire.batch import BatchWalk, renew_crc
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import read_columns, read_records
from tidelog.wire.batch_validation import ProduceRules, Refusal, ValidBatch, validate_produced
from tidelog.wire.compression import Compression

RECORDS = 10_000
NOW_MS = 1_700_000_000_000
PRODUCE_VERSION = 13
PORTS = ("Brest", "Saint-Malo", "Bristol", "Burntcoat Head")


class Reading(NamedTuple):
    """What the demo's topic holds: the height of a tide."""

    timestamp: int
    key: bytes | None
    value: bytes


class BatchTrip(NamedTuple):
    """One batch: built, checked as a broker does, decoded as Spark does, and compared."""

    compression: str
    records_size: int
    size: int
    build_ms: float
    validate_ms: float
    decode_ms: float
    is_same: bool


class Attempt(NamedTuple):
    """A bad batch, and what a producer would be told."""

    what: str
    error_code: str
    error_message: str


def is_compiled() -> bool:
    """Whether records are walked by the compiled module."""
    return records.implementation is not records_twin


def readings(count: int) -> list[Reading]:
    """The same every time, and about as compressible as such data are."""
    return [
        Reading(
            timestamp=NOW_MS + number,
            key=PORTS[number % len(PORTS)].encode(),
            value=f'{{"height_m": {number * 7919 % 1600 / 100}, "gauge": {number % 97}}}'.encode(),
        )
        for number in range(count)
    ]


def builder_of(rows: list[Reading]) -> BatchBuilder:
    builder = BatchBuilder()
    for row in rows:
        builder.append(row.key, row.value, timestamp=row.timestamp)
    return builder


def sample_batch() -> bytes:
    """A small batch, as a producer that lingers a few milliseconds sends it."""
    return bytes(builder_of(readings(20)).build())


def batch_trips() -> Iterator[BatchTrip]:
    """The same readings in every compression."""
    rows = readings(RECORDS)
    for compression in Compression:
        began = time.perf_counter()
        builder = builder_of(rows)
        data = builder.build(compression=compression)
        built = time.perf_counter()
        verdict = validate_produced(
            data, ProduceRules(), produce_version=PRODUCE_VERSION, now_ms=NOW_MS
        )
        validated = time.perf_counter()
        batches = list(BatchWalk(data))
        decoded_rows = sum(columns.rows for columns in read_columns(batches, 0, RECORDS))
        decoded = time.perf_counter()
        back = [Reading(r.timestamp, r.key, r.value or b"") for r in read_records(batches[0])]
        yield BatchTrip(
            compression=compression.name.lower(),
            records_size=builder.records_size,
            size=len(data),
            build_ms=(built - began) * 1e3,
            validate_ms=(validated - built) * 1e3,
            decode_ms=(decoded - validated) * 1e3,
            is_same=isinstance(verdict, ValidBatch) and decoded_rows == RECORDS and back == rows,
        )


def attempts() -> Iterator[Attempt]:
    """Batches that a broker must not take."""
    rows = readings(3)
    good = builder_of(rows).build()
    damaged = bytearray(good)
    damaged[-2] ^= 1
    miscounted = bytearray(good)
    miscounted[60] = 2
    renew_crc(miscounted, 0)
    keyless = builder_of([*rows, Reading(NOW_MS, None, b"whose tide?")]).build()
    early = builder_of([Reading(NOW_MS + 7_200_000, b"Brest", b"4.62")]).build()
    bomb = builder_of([Reading(NOW_MS, b"Brest", bytes(8 << 20))]).build(
        compression=Compression.ZSTD
    )
    for what, data, rules in (
        ("one bit flipped on the way", damaged, ProduceRules()),
        ("three records, the header counts two", miscounted, ProduceRules()),
        ("two batches for one partition", good + good, ProduceRules()),
        ("no key, on a compacted topic", keyless, ProduceRules(compacted=True)),
        ("dated two hours ahead", early, ProduceRules()),
        (
            f"{len(bomb):,} bytes that decompress to 8 MiB",
            bomb,
            ProduceRules(decompressed_bytes_max=1 << 20),
        ),
    ):
        verdict = validate_produced(data, rules, produce_version=PRODUCE_VERSION, now_ms=NOW_MS)
        if isinstance(verdict, Refusal):
            reasons = [error.batch_index_error_message for error in verdict.record_errors]
            text = "; ".join([verdict.error_message, *reasons])
            yield Attempt(what, verdict.error_code.name, text)
        else:
            yield Attempt(what, "", "taken, which is wrong")
