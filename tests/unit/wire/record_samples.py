"""Records, batches and implementations that several tests use."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st

from tidelog.wire import records, records_twin
from tidelog.wire.batch import RecordBatch, read_batch
from tidelog.wire.batch_reader import Record
from tidelog.wire.records_twin_parse import Header, write_record
from tidelog.wire.records_types import RecordsModule

JAVA_BATCHES = Path(__file__).parents[2] / "data" / "java_record_batches.txt"
"""What Apache Kafka 4.3.1 wrote: name and batch in hex."""

IMPLEMENTATIONS: dict[str, RecordsModule] = {
    "twin": records_twin,
    "chosen": records.implementation,  # the compiled one, where there is one
}


def java_samples(count: int) -> list[Record]:
    """The same records as `samples` in RecordsOracle.java."""
    samples = []
    for i in range(count):
        headers: list[Header] = []
        for h in range(i % 3):
            headers.append((f"hé{h}".encode(), None if h == 1 else bytes((i % 256, 0, 255))))
        key = None if i % 4 == 1 else f"key-{i}".encode()
        value = None if i % 5 == 2 else "välue ".encode() * (i % 50)
        timestamp = 1_700_000_000_000 + (i * 7919) % 1000 - 500
        samples.append(Record(i, timestamp, key, value, tuple(headers)))
    return samples


def java_batches() -> dict[str, bytearray]:
    words = JAVA_BATCHES.read_text().split()
    return dict(zip(words[::2], map(bytearray.fromhex, words[1::2]), strict=True))


def batch_of(data: bytes | bytearray | memoryview) -> RecordBatch:
    batch = read_batch(memoryview(data), 0, len(data))
    assert isinstance(batch, RecordBatch), batch
    return batch


def block_of(samples: list[Record], base_timestamp: int = 0) -> bytes:
    """The records of a batch, uncompressed, with dense offsets."""
    return b"".join(
        write_record(record.timestamp - base_timestamp, index, *record[2:])
        for index, record in enumerate(samples)
    )


SMALL = st.binary(max_size=12)
FIELDS = st.none() | SMALL | st.binary(min_size=60, max_size=70) | st.binary(max_size=300)
TIMESTAMPS = st.integers(-(1 << 40), 1 << 41) | st.sampled_from([-1, 0, 1 << 62, -(1 << 62)])
HEADERS = st.lists(st.tuples(SMALL, st.none() | SMALL), max_size=3).map(tuple)
RECORDS = st.lists(st.builds(Record, st.just(0), TIMESTAMPS, FIELDS, FIELDS, HEADERS), max_size=12)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
COUNTS = st.integers(-2, 14) | st.sampled_from([2**31 - 1, -(2**31)])


@st.composite
def hostile_blocks(draw: st.DrawFn) -> tuple[bytes, int]:
    """A block and the count that its batch claims: sound, damaged, or pure noise."""
    samples = draw(RECORDS)
    block = bytearray(block_of(samples))
    count = draw(st.just(len(samples)) | COUNTS)
    damage = draw(st.sampled_from(["none", "cut", "flip", "splice", "noise", "varint"]))
    if damage == "noise":
        block = bytearray(draw(st.binary(max_size=80)))
    elif block and damage == "cut":
        del block[draw(st.integers(0, len(block) - 1)) :]
    elif block and damage == "flip":
        for _ in range(draw(st.integers(1, 4))):
            block[draw(st.integers(0, len(block) - 1))] ^= 1 << draw(st.integers(0, 7))
    elif damage == "splice":
        at = draw(st.integers(0, len(block)))
        block[at:at] = draw(st.binary(min_size=1, max_size=10))
    elif block and damage == "varint":
        at = draw(st.integers(0, len(block) - 1))
        long = st.integers(0, 11).map(lambda n: b"\xff" * n)
        block[at : at + 1] = draw(long) + draw(st.binary(min_size=1, max_size=1))
    return bytes(block), count
