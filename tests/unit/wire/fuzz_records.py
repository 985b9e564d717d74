"""Feeds the compiled module what strangers might send; run by test_records_sanitized.

A program of its own, without pytest, as it runs under a sanitizer: any bad read ends it.
It prints how many inputs it tried, and the module that took them.
"""

from __future__ import annotations

import contextlib
import random
import sys
from array import array

from tests.unit.wire.record_samples import block_of, java_batches, java_samples

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire import codec, records, records_twin
from tidelog.wire.api import APIS
from tidelog.wire.batch import RecordBatch
from tidelog.wire.batch_builder import assemble_batch
from tidelog.wire.headers import RequestHeader
from tidelog.wire.messages import produce
from tidelog.wire.records_batches_types import RunState
from tidelog.wire.records_types import (
    BinaryColumn,
    Columns,
    CorruptRecords,
    HeadersColumn,
    IntColumn,
    Placement,
    RecordsModule,
)

HOSTILE = [b"", b"\x80", b"\xff" * 5, b"\xff" * 10, b"\xff\xff\xff\xff\x0f"]
COUNTS = [-1, 0, 1, 2**31 - 1]


def inputs(rng: random.Random, rounds: int) -> list[tuple[bytes, int]]:
    blocks = [block_of(java_samples(count)) for count in (1, 4, 60)]
    blocks += [bytes(batch[61:]) for batch in java_batches().values()]
    found = [(block, len(block) // 9) for block in blocks]
    for block in blocks[:2]:  # cut everywhere
        found += [(block[:end], 4) for end in range(len(block))]
    for _ in range(rounds):
        changed = bytearray(rng.choice(blocks))
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(changed) + 1)
            match rng.randrange(4):
                case 0:
                    changed[at : at + 1] = rng.choice(HOSTILE)
                case 1:
                    changed[at : at + 1] = rng.randbytes(1)
                case 2:
                    del changed[at:]
                case 3:
                    changed[at:at] = rng.randbytes(rng.randrange(8))
        found.append((bytes(changed), rng.choice([*COUNTS, 4, 60])))
    return found


def exact(block: bytes | bytearray) -> array[int]:
    """A copy whose memory ends where the block does (bytes have a zero behind their end), so
    that reading one byte too many is noticed."""
    return array("B", block)


def feed(module: RecordsModule, block: bytes, count: int, rng: random.Random) -> None:
    module.crc32c(exact(block))
    module.validate_records(exact(block), count, 0, -5, 5, True)
    batch = assemble_batch(block, count, base_timestamp=0, max_timestamp=0)
    for whole in (batch, batch[: rng.randrange(len(batch))], block):
        module.accept_batch(exact(whole), 1 << 20, -5, 5, True)
    with contextlib.suppress(CorruptRecords):
        module.walk_records(exact(block), count)
    rows_max, bytes_max = rng.choice([1, 3, 100]), rng.choice([1, 50, 10_000])
    decoder = module.ColumnDecoder(rng.randrange(32), rows_max, bytes_max)
    for _ in range(2):
        decoder.feed(exact(block), count, 0, 0, rng.choice([None, 5]), 0, 1000)
        with contextlib.suppress(CorruptRecords):
            while not decoder.fill():
                encode(module, decoder.take())
    encode(module, decoder.take())
    log = batch + batch[: rng.randrange(len(batch))]
    decoder.feed_plain(exact(log), 0, 0, 0, 1000, 0, rng.random() < 0.5)
    module.skip_batches(exact(log), 0, 0, 0, False)
    at = rng.randrange(len(log))
    log[at : at + 8] = rng.randbytes(8)
    decoder.feed_plain(exact(log), rng.choice([0, 3, len(log) + 1]), 0, 0, 1000, 0, False)
    module.skip_batches(exact(log), 0, 0, 0, False)
    module.read_batches(RecordBatch, memoryview(exact(log)), 0, 0, False, 9)
    for part in (batch, batch + batch[: rng.randrange(len(batch))], log):
        state, kept_max = RunState(0, -1, 0, -1), (rng.randrange(3), rng.randrange(3))
        view = memoryview(exact(part))
        module.sum_up_batches(RecordBatch, view, 0, -1, 1000, 0, 50, state, kept_max)
    encode(module, decoder.take())


def encode(module: RecordsModule, columns: Columns) -> None:
    if columns.rows:
        module.encode_records(columns, columns.rows // 2, 60, 7)


def contradict(module: RecordsModule, rng: random.Random) -> None:
    def buffer() -> bytearray:
        numbers = (rng.choice([-1, 0, 1, 2, 3, 9, 2**31 - 1]) for _ in range(rng.randrange(6)))
        return bytearray(b"".join(n.to_bytes(4, "little", signed=True) for n in numbers))

    def column() -> BinaryColumn:
        validity = rng.choice([None, bytearray(rng.randbytes(rng.randrange(3)))])
        return BinaryColumn(buffer(), bytearray(rng.randrange(9)), validity, 0, rng.randrange(12))

    headers = HeadersColumn(buffer(), rng.randrange(-1, 5), column(), column())
    times = rng.choice([None, buffer()])
    columns = Columns(3, None, times, column(), column(), rng.choice([None, headers]))
    with contextlib.suppress(ValueError):
        module.encode_records(columns, 0, rng.randrange(100), 5)
    with contextlib.suppress(ValueError, AssertionError):
        module.encode_records(columns, 0, rng.randrange(100), 5, exact(buffer()), 61)
    placements = [
        Placement(rng.randrange(4), exact(buffer()), rng.randrange(9), rng.randrange(3))
        for _ in range(rng.randrange(3))
    ]
    validity = rng.choice([None, exact(rng.randbytes(rng.randrange(3)))])
    picks = rng.choice([None, IntColumn(exact(buffer()), validity, rng.randrange(12))])
    with contextlib.suppress(ValueError):
        module.assign_rows(columns, picks, rng.choice([None, exact(buffer())]), placements)


def produce_frame(rng: random.Random, block: bytes) -> bytearray:
    """A Produce request of one partition, without its length."""
    version = rng.randrange(3, 14)
    batch = assemble_batch(block, 1, base_timestamp=0, max_timestamp=0)
    data = produce.PartitionProduceData(index=0, records=bytes(batch))
    topic = produce.TopicProduceData(
        name="" if version >= 13 else rng.choice(["t", "", "x" * 249]),
        topic_id=Uuid(rng.randbytes(16)) if version >= 13 else ZERO_UUID,
        partition_data=(data,),
    )
    request = produce.ProduceRequest(acks=1, timeout_ms=5, topic_data=(topic,))
    header = RequestHeader(
        request_api_key=0, request_api_version=version, correlation_id=7, client_id="fuzz"
    )
    header_version = APIS[0].request_header_version(version)
    return bytearray(codec.encode(header, header_version) + codec.encode(request, version))


def feed_produce(rng: random.Random, block: bytes) -> bool:
    """Whether it was taken for a request of one partition."""
    frame = produce_frame(rng, block)
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        at = rng.randrange(min(len(frame), 90) + 1)
        match rng.randrange(3):
            case 0:
                frame[at : at + 1] = rng.choice([*HOSTILE, rng.randbytes(1)])
            case 1:
                del frame[rng.randrange(len(frame) + 1) :]
            case _:
                frame[at:at] = rng.randbytes(rng.randrange(8))
    one = records.parse_produce(memoryview(exact(frame)))
    if one is None:
        return False
    one.accept(1 << 20, 1_700_000_000_000, 1 << 62, (1 << 63) - 1, rng.random() < 0.5)
    answer = one.answer(5, -1, 0)
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    return True


def main(rounds: int) -> None:
    assert records.implementation is not records_twin
    rng = random.Random(20)
    tried = inputs(rng, rounds)
    for block, count in tried:
        feed(records.implementation, block, count, rng)
        contradict(records.implementation, rng)
    taken = sum(feed_produce(rng, rng.choice(tried)[0]) for _ in range(rounds))
    assert rounds // 10 < taken < rounds, taken
    print(len(tried), vars(records.implementation)["__file__"])


if __name__ == "__main__":
    main(int(sys.argv[1]))
