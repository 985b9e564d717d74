"""Apache's own MemoryRecords as the oracle, in both directions."""

from __future__ import annotations

import pytest

from tests.interop.jvm import run_program
from tests.unit.wire.record_samples import JAVA_BATCHES, java_samples
from tidelog.wire.batch import CONTROL, TRANSACTIONAL, RecordBatch, read_batch, renew_crc
from tidelog.wire.batch_builder import BatchBuilder, recompress
from tidelog.wire.batch_reader import Record, read_records
from tidelog.wire.compression import LEVELS, Compression, compress

pytestmark = pytest.mark.interop

ORACLE = "RecordsOracle"


def batch_of(data: bytes | bytearray) -> RecordBatch:
    batch = read_batch(memoryview(data), 0, len(data))
    assert isinstance(batch, RecordBatch)
    return batch


def test_we_read_what_java_writes() -> None:
    lines = run_program(ORACLE, "write").decode().splitlines()
    written = {name: bytes.fromhex(batch) for name, batch in map(str.split, lines)}
    for name, data in written.items():
        batch = batch_of(data)
        assert batch.crc_is_right(), name
        assert batch.size == len(data), name
        if batch.is_control:
            continue
        appended = "append-time" in name
        expected = [
            sample._replace(
                offset=sample.offset + batch.base_offset,
                timestamp=batch.max_timestamp if appended else sample.timestamp,
            )
            for sample in java_samples(batch.record_count)
        ]
        assert read_records(batch) == expected, name
    # The committed copies, which unit tests read without Java, are still what Java writes.
    committed = JAVA_BATCHES.read_text().split()
    for name, text in zip(committed[::2], committed[1::2], strict=True):
        assert written[name].hex() == text, name


def our_batches() -> list[bytearray]:
    batches = []
    for count in (1, 3, 3000):
        builder = BatchBuilder()
        for record in java_samples(count):
            builder.append(
                record.key, record.value, timestamp=record.timestamp, headers=record.headers
            )
        for codec in Compression:
            levels = [LEVELS[codec][0], LEVELS[codec][-1]] if codec in LEVELS else []
            for level in [None, *levels]:
                batches.append(
                    builder.build(
                        base_offset=1000,
                        partition_leader_epoch=5,
                        attributes=TRANSACTIONAL,
                        compression=codec,
                        compression_level=level,
                        producer_id=77,
                        producer_epoch=2,
                        base_sequence=9,
                    )
                )
    batches += [recompress(batch_of(batches[-1]), codec) for codec in Compression]
    builder = BatchBuilder()
    builder.append(b"\0\0\0\1", b"\0\0\0\0\0\7", timestamp=5)
    batches.append(builder.build(attributes=TRANSACTIONAL | CONTROL, producer_id=1))
    return batches


def shown(batch: RecordBatch) -> list[str]:
    """As RecordsOracle prints it."""
    fields = (
        "batch",
        batch.base_offset,
        batch.last_offset,
        batch.partition_leader_epoch,
        batch.codec,
        int(batch.timestamp_type),
        str(batch.is_transactional).lower(),
        str(batch.is_control).lower(),
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.record_count,
        "true",
    )
    return [" ".join(map(str, fields)), *map(shown_record, read_records(batch))]


def shown_record(record: Record) -> str:
    def text(field: bytes | None) -> str:
        return "null" if field is None else "x" + field.hex()

    fields = [str(record.offset), str(record.timestamp), text(record.key), text(record.value)]
    headers = [f"{key.hex()}={text(value)}" for key, value in record.headers]
    return " ".join(["record", *fields, *headers])


def ask_java(batches: list[bytearray]) -> list[list[str]]:
    stdin = "".join(batch.hex() + "\n" for batch in batches).encode()
    answers: list[list[str]] = [[]]
    for line in run_program(ORACLE, "read", stdin=stdin).decode().splitlines():
        if line == ".":
            answers.append([])
        else:
            answers[-1].append(line)
    assert answers.pop() == []
    return answers


def test_java_reads_what_we_write() -> None:
    batches = our_batches()
    answers = ask_java(batches)
    assert len(answers) == len(batches)
    for batch, answer in zip(batches, answers, strict=True):
        assert answer == shown(batch_of(batch))


def test_java_refuses_what_we_refuse_to_write() -> None:
    """The reasons that compression.py gives for building lz4 frames itself still hold."""
    from cramjam import lz4

    builder = BatchBuilder()
    builder.append(b"key", b"value" * 50_000, timestamp=1)
    plain = builder.build()
    dependent = plain[:61] + bytes(lz4.compress(plain[61:]))
    wrong_header_checksum = plain[:61] + compress(Compression.LZ4, plain[61:])
    wrong_header_checksum[61 + 6] ^= 1
    batches = []
    for batch in (dependent, wrong_header_checksum):
        batch[22] |= Compression.LZ4
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        renew_crc(batch, 0)
        batches.append(batch)
    for answer in ask_java(batches):
        assert answer[-1].startswith("refused"), answer
