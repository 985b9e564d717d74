"""The compiled module against its pure twin, on uncompressed records of 100 B with 8 B keys.

The twin's CRC-32C is the crc32c package's.
Each row interleaves both and keeps each one's best. Exits 1 if a target is missed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from tidelog.wire import _records, records_twin
from tidelog.wire.batch import HEADER
from tidelog.wire.batch_builder import BatchBuilder, assemble_batch
from tidelog.wire.batch_validation import ProduceRules, validate_produced
from tidelog.wire.records_twin_parse import write_record
from tidelog.wire.records_types import Column, RecordsModule

ROUNDS = 9
COMPILED_SECONDS_A_ROUND = 0.05
RECORDS = 1_000
"""In a batch, which then has some 113 KB."""
NOW_MS = 1_700_000_000_000
RATIO_MIN = 25
RECORDS_A_SECOND_MIN = 10e6
CRC_BYTES_A_SECOND_MIN = 8e9

BLOCK = b"".join(
    write_record(index // 7, index, b"key-%04d" % index, b"v" * 100, ()) for index in range(RECORDS)
)


class Row(NamedTuple):
    name: str
    run: Callable[[RecordsModule], object]
    amount: int
    """Of units that one run does."""
    unit: str
    rate_min: float = 0
    ratio_min: float = 0


def validate(module: RecordsModule) -> object:
    return module.validate_records(BLOCK, RECORDS, NOW_MS, 0, NOW_MS * 2, False)


def decode(wanted: Column) -> Callable[[RecordsModule], object]:
    """Ten batches at a time; a decoder lives as long as the read that it serves."""
    modules: list[RecordsModule] = [_records, records_twin]
    decoders = {m: m.ColumnDecoder(wanted, 10 * RECORDS, 1 << 30) for m in modules}

    def run(module: RecordsModule) -> object:
        decoder = decoders[module]
        for batch in range(10):
            decoder.feed(BLOCK, RECORDS, batch * RECORDS, NOW_MS, None, 0, 1 << 62)
            assert decoder.fill()
        return decoder.take()

    return run


def walk(module: RecordsModule) -> object:
    return module.walk_records(BLOCK, RECORDS)


def encoding() -> Callable[[RecordsModule], object]:
    decoder = _records.ColumnDecoder(Column.ALL, RECORDS, 1 << 30)
    decoder.feed(BLOCK, RECORDS, 0, NOW_MS, None, 0, 1 << 62)
    assert decoder.fill()
    columns = decoder.take()
    return lambda module: module.encode_records(columns, 0, 1 << 30, NOW_MS)


def checksum(size: int) -> Row:
    data = BLOCK[:size]

    def run(module: RecordsModule) -> None:
        for _ in range(64):
            module.crc32c(data)

    rate_min = CRC_BYTES_A_SECOND_MIN if size == 16 << 10 else 0
    return Row(f"CRC-32C of {size} B", run, 64 * size, "B/s", rate_min)


def rows() -> list[Row]:
    target = (RECORDS_A_SECOND_MIN, RATIO_MIN)
    return [
        Row("validate", validate, RECORDS, "records/s", *target),
        Row("decode: all columns", decode(Column.ALL), 10 * RECORDS, "records/s", *target),
        Row(
            "decode: key, value",
            decode(Column.KEY | Column.VALUE),
            10 * RECORDS,
            "records/s",
            *target,
        ),
        Row("walk, for compaction", walk, RECORDS, "records/s"),
        Row("encode columns", encoding(), RECORDS, "records/s"),
        checksum(100),
        checksum(1 << 10),
        checksum(16 << 10),
        checksum(len(BLOCK)),
    ]


def seconds_each(
    run: Callable[[RecordsModule], object], module: RecordsModule, seconds: float
) -> float:
    """One run's time; a slow one is run once."""
    count, started = 0, time.perf_counter()
    while True:
        run(module)
        count += 1
        elapsed = time.perf_counter() - started
        if elapsed >= seconds:
            return elapsed / count


def scaled(rate: float) -> str:
    return f"{rate / 1e9:.1f} G" if rate >= 1e9 else f"{rate / 1e6:.2f} M"


def measure(table: Table) -> bool:
    missed = False
    for row in rows():
        compiled = pure = float("inf")
        for _ in range(ROUNDS):
            compiled = min(compiled, seconds_each(row.run, _records, COMPILED_SECONDS_A_ROUND))
            pure = min(pure, seconds_each(row.run, records_twin, 0))
        rate, ratio = row.amount / compiled, pure / compiled
        is_met = rate >= row.rate_min and ratio >= row.ratio_min
        missed |= not is_met
        targets = [f"{scaled(row.rate_min)}"] * bool(row.rate_min)
        targets += [f"{row.ratio_min:.0f} x"] * bool(row.ratio_min)
        table.add_row(
            row.name,
            f"{scaled(rate)} {row.unit}",
            f"{scaled(row.amount / pure)} {row.unit}",
            f"{ratio:.1f}",
            (" and ".join(targets) or "-") + ("" if is_met else " MISSED"),
        )
    return missed


def validate_one_record(table: Table) -> None:
    """The whole of a small request's check: what a broker adds to each of them."""
    builder = BatchBuilder()
    builder.append(b"key-0000", b"v" * 100, timestamp=NOW_MS)
    small = builder.build()
    large = assemble_batch(
        BLOCK, RECORDS, base_timestamp=NOW_MS, max_timestamp=NOW_MS + (RECORDS - 1) // 7
    )
    assert len(large) == HEADER.size + len(BLOCK)
    rules = ProduceRules()
    for name, data in (("one record", small), (f"{RECORDS} records", large)):

        def run(_: RecordsModule, data: bytearray = data) -> object:
            return validate_produced(data, rules, produce_version=9, now_ms=NOW_MS)

        best = min(seconds_each(run, _records, COMPILED_SECONDS_A_ROUND) for _ in range(ROUNDS))
        table.add_row(f"validate_produced, {name}", f"{best * 1e6:.2f} us", "", "", "-")


def main() -> int:
    table = Table("loop", "compiled", "pure twin", "twin / compiled", "target", title="Records")
    missed = measure(table)
    validate_one_record(table)
    Console(width=120).print(table)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
