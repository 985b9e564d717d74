"""Batches walked and decoded all at once: up to one that needs a closer look, and not beyond."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import examples
from tests.unit.wire.record_samples import IMPLEMENTATIONS, block_of, hostile_blocks, java_samples
from tests.unit.wire.test_records_columns import FAR, rows_of

from tidelog.wire.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    RecordBatch,
    read_batch,
    renew_crc,
)
from tidelog.wire.batch_builder import assemble_batch
from tidelog.wire.batch_reader import Record
from tidelog.wire.compression import Compression
from tidelog.wire.records_batches_types import BatchRun, RunState
from tidelog.wire.records_types import Column, ColumnDecoder, RecordsModule

APPENDED_MS = 77


@pytest.fixture(params=IMPLEMENTATIONS)
def module(request: pytest.FixtureRequest) -> RecordsModule:
    return IMPLEMENTATIONS[request.param]


def batch(base_offset: int, samples: list[Record], **more: Any) -> bytearray:
    return assemble_batch(
        block_of(samples),
        len(samples),
        base_timestamp=0,
        max_timestamp=APPENDED_MS,
        base_offset=base_offset,
        **more,
    )


def feed(decoder: ColumnDecoder, log: bytes | bytearray, **more: Any) -> tuple[int, int]:
    given = {
        "position": 0,
        "next_offset": 0,
        "start_offset": 0,
        "end_offset": FAR,
        "attributes": 0,
        "check_crc": True,
        **more,
    }
    return decoder.feed_plain(log, **given)


def decoder_of(module: RecordsModule, rows_max: int = 100, bytes_max: int = 1 << 20) -> Any:
    return module.ColumnDecoder(Column.ALL, rows_max, bytes_max)


TEN = java_samples(10)


def at(base_offset: int, samples: list[Record] = TEN) -> list[Record]:
    return [sample._replace(offset=base_offset + sample.offset) for sample in samples]


def test_all_that_is_plain_is_decoded(module: RecordsModule) -> None:
    log = batch(0, TEN) + batch(10, TEN) + batch(25, TEN)
    decoder = decoder_of(module)
    assert feed(decoder, log) == (len(log), 35)
    assert rows_of(decoder.take()) == at(0) + at(10) + at(25)
    position = len(batch(0, TEN))
    assert feed(decoder, log, position=position, next_offset=10) == (len(log), 35)
    assert rows_of(decoder.take()) == at(10) + at(25)


def test_only_records_that_are_asked_for_become_rows(module: RecordsModule) -> None:
    first = batch(0, TEN)
    log = first + batch(10, TEN) + batch(20, TEN)
    decoder = decoder_of(module)
    assert feed(decoder, log, start_offset=12, end_offset=15) == (2 * len(first), 20)
    assert rows_of(decoder.take()) == at(10)[2:5]


@pytest.mark.parametrize(
    "attributes", [Compression.LZ4, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON]
)
def test_what_has_other_attributes_is_left(module: RecordsModule, attributes: int) -> None:
    first = batch(0, TEN)
    other = batch(10, TEN)
    struct.pack_into(">h", other, 21, attributes)
    renew_crc(other, 0)
    log = first + other + batch(20, TEN)
    decoder = decoder_of(module)
    assert feed(decoder, log) == (len(first), 10)
    assert rows_of(decoder.take()) == at(0)
    assert module.skip_batches(log, 0, 0, attributes, True) == (len(first), 10)
    assert module.skip_batches(log, 0, 0, 0, True) == (len(log), 30)


def test_batches_are_read_up_to_the_first_that_is_not_sound(module: RecordsModule) -> None:
    parts = [
        batch(0, TEN, partition_leader_epoch=3),
        batch(12, TEN, producer_id=1 << 40, producer_epoch=5, base_sequence=7),
        batch(30, TEN, attributes=CONTROL | TRANSACTIONAL),
    ]
    log = memoryview(b"".join(parts))
    positions = [0, len(parts[0]), len(parts[0]) + len(parts[1])]
    expected = [read_batch(log, position, len(log)) for position in positions]
    assert module.read_batches(RecordBatch, log, 0, 0, True, 9) == expected
    assert module.read_batches(RecordBatch, log, 0, 0, True, 2) == expected[:2]
    assert module.read_batches(RecordBatch, log, positions[1], 13, True, 9) == []
    assert len(module.read_batches(RecordBatch, log[:-1], 0, 0, True, 9)) == 2
    bad = bytearray(log)
    bad[positions[1] + HEADER.size] ^= 1
    assert len(module.read_batches(RecordBatch, memoryview(bad), 0, 0, True, 9)) == 1
    assert len(module.read_batches(RecordBatch, memoryview(bad), 0, 0, False, 9)) == 3


def test_append_time_is_the_time_of_all(module: RecordsModule) -> None:
    log = batch(0, TEN, attributes=LOG_APPEND_TIME)
    decoder = decoder_of(module)
    assert feed(decoder, log, attributes=LOG_APPEND_TIME) == (len(log), 10)
    assert {row.timestamp for row in rows_of(decoder.take())} == {APPENDED_MS}


def damaged(how: str) -> bytearray:
    """A batch for offset 10 with one thing wrong, which its checksum covers unless that is it."""
    bad = batch(10, TEN)
    match how:
        case "cut":
            return bad[:-1]
        case "cut in the header":
            return bad[:30]
        case "crc":
            bad[-1] ^= 1
            return bad
        case "magic":
            bad[16] = 1
        case "short":
            struct.pack_into(">i", bad, 8, HEADER.size - 13)
        case "negative":
            struct.pack_into(">i", bad, 8, -1)
        case "falling":
            struct.pack_into(">q", bad, 0, 9)
        case "delta":
            struct.pack_into(">i", bad, 23, -1)
        case "far":
            struct.pack_into(">q", bad, 0, (1 << 63) - 5)
    if how in ("delta", "magic"):
        renew_crc(bad, 0)
    return bad


DAMAGE = [
    "cut",
    "cut in the header",
    "crc",
    "magic",
    "short",
    "negative",
    "falling",
    "delta",
    "far",
]


@pytest.mark.parametrize("how", DAMAGE)
def test_what_is_not_sound_is_left(module: RecordsModule, how: str) -> None:
    first = batch(0, TEN)
    log = first + damaged(how)
    decoder = decoder_of(module)
    assert feed(decoder, log) == (len(first), 10)
    assert rows_of(decoder.take()) == at(0)
    assert module.skip_batches(log, 0, 0, 0, True) == (len(first), 10)
    everything = (len(log), 20) if how == "crc" else (len(first), 10)
    assert module.skip_batches(log, 0, 0, 0, False) == everything


def test_a_batch_whose_records_are_flawed_leaves_no_trace(module: RecordsModule) -> None:
    first, bad = batch(0, TEN), batch(10, TEN)
    bad[-1] = 0x7F  # the last record's header count
    renew_crc(bad, 0)
    decoder = decoder_of(module)
    assert feed(decoder, first + bad) == (len(first), 10)
    good = [Record(n, 0, b"k", b"v", ((b"h", b""),)) for n in range(10)]
    assert feed(decoder, batch(10, good), next_offset=10)[1] == 20
    assert rows_of(decoder.take()) == at(0) + at(10, good)


@pytest.mark.parametrize("limits", [(15, 1 << 20), (100, 900), (100, 1)], ids=str)
def test_what_there_is_no_room_for_is_left(module: RecordsModule, limits: tuple[int, int]) -> None:
    first = batch(0, TEN)
    log = first + batch(10, TEN)
    decoder = decoder_of(module, *limits)
    position, next_offset = feed(decoder, log)
    assert (position, next_offset) == ((0, 0) if limits[1] == 1 else (len(first), 10))
    assert rows_of(decoder.take()) == at(0)[:next_offset]


def test_headers_that_need_more_room_than_bytes_are_left(module: RecordsModule) -> None:
    many = [Record(n, 0, None, None, ((b"", None),) * 5) for n in range(9)]
    log = batch(0, many)
    decoder = decoder_of(module, bytes_max=len(log))
    assert feed(decoder, log) == (0, 0)
    assert decoder.rows == 0


def test_columns_stay_what_they_were_while_others_are_decoded(module: RecordsModule) -> None:
    decoder = decoder_of(module)
    kept = []
    for number in range(6):
        assert feed(decoder, batch(number * 10, TEN))[1] == number * 10 + 10
        kept.append(decoder.take())
        if number == 3:
            del kept[1]  # its memory serves again
    assert [rows_of(columns) for columns in kept] == [at(n * 10) for n in (0, 2, 3, 4, 5)]


def sum_up(
    module: RecordsModule,
    log: bytes | bytearray,
    *,
    next_offset_max: int = FAR,
    attributes: int = 0,
) -> tuple[BatchRun, list[RecordBatch]]:
    state = RunState(unindexed_bytes=0, max_timestamp=-1, max_timestamp_offset=0, leader_epoch=-1)
    return module.sum_up_batches(
        RecordBatch, memoryview(log), 0, 0, next_offset_max, attributes, 150, state, (3, 2)
    )


def many(*producers: tuple[int, int], **more: int) -> bytearray:
    """A batch of one record by each of these ids and epochs."""
    log = bytearray()
    for number, (producer_id, epoch) in enumerate(producers):
        log += batch(
            number,
            [Record(0, 0, None, b"v" * 20, ())],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=number,
            partition_leader_epoch=number // 4,
            **more,
        )
    return log


def test_batches_are_summed_up(module: RecordsModule) -> None:
    log = many(*[(7, 0)] * 10)
    size = len(log) // 10
    run, kept = sum_up(module, log)
    assert (run.end_position, run.next_offset) == (len(log), 10)
    assert run.epochs == [(0, 0), (1, 4), (2, 8)]
    assert run.recent == [(index, index * size) for index in (7, 8, 9)]
    # After 150 bytes: with the third batch behind an entry, of 90 bytes each.
    assert [(one.last_offset, one.position) for one in run.entries] == [
        (index, index * size) for index in (2, 4, 6, 8)
    ]
    assert run.entries[0][2:] == (APPENDED_MS, 0)
    assert run.state == (2 * size, APPENDED_MS, 0, 2)
    assert [one.base_sequence for one in kept] == [8, 9]
    assert kept[1].to_view() == log[-size:]


def test_of_every_producer_the_last_batches_are_kept(module: RecordsModule) -> None:
    log = many((7, 0), (7, 0), (8, 0), (7, 0), (-1, -1), (8, 0), (7, 0), (9, 5))
    assert [one.base_sequence for one in sum_up(module, log)[1]] == [2, 3, 5, 6, 7]
    # Of another epoch one: what lies before it is forgotten with it.
    log = many((7, 0), (7, 0), (7, 1), (8, 3), (7, 2), (8, 2))
    assert [one.base_sequence for one in sum_up(module, log)[1]] == [2, 3, 4, 5]


def test_a_sum_ends_where_something_is_unusual(module: RecordsModule) -> None:
    first, second = many((7, 0), (7, 0)), many((7, 0))
    damaged = bytearray(first)
    damaged[-1] ^= 1
    size = len(second)
    assert sum_up(module, damaged)[0].end_position == size
    assert sum_up(module, first[:-1])[0].end_position == size
    assert sum_up(module, first + second)[0].next_offset == 2, "offsets rise"
    assert sum_up(module, first, next_offset_max=0)[0].next_offset == 1
    transactional = many((7, 0), attributes=TRANSACTIONAL)
    assert sum_up(module, transactional)[0].next_offset == 1
    run, kept = sum_up(module, transactional, attributes=TRANSACTIONAL | CONTROL)
    assert (run.end_position, run.entries, run.recent, kept) == (0, [], [], [])


@examples(300)
@given(
    st.lists(hostile_blocks(), max_size=3),
    st.sampled_from([0, LOG_APPEND_TIME]),
    st.tuples(st.integers(0, 31), st.integers(1, 20), st.integers(1, 600)),
    st.tuples(st.integers(-3, 20), st.integers(0, 40), st.booleans()),
    st.integers(0, 80),
)
def test_both_implementations_agree(
    blocks: list[tuple[bytes, int]],
    attributes: int,
    limits: tuple[int, int, int],
    bounds: tuple[int, int, bool],
    cut: int,
) -> None:
    log = bytearray()
    for number, (block, count) in enumerate(blocks):
        made = assemble_batch(block, 1, base_timestamp=0, max_timestamp=5, base_offset=number * 10)
        struct.pack_into(">i", made, HEADER.size - 4, count)
        struct.pack_into(">h", made, 21, attributes)
        renew_crc(made, 0)
        log += made
    log = log[: len(log) - cut]
    start_offset, end_offset, check_crc = bounds
    said = []
    for module in IMPLEMENTATIONS.values():
        decoder = module.ColumnDecoder(*limits)
        position, next_offset = 0, 0
        answers: list[Any] = []
        for _ in range(3):
            position, next_offset = decoder.feed_plain(
                log, position, next_offset, start_offset, end_offset, attributes, check_crc
            )
            answers.append((position, next_offset, decoder.rows, decoder.take()))
        answers.append(module.skip_batches(log, 0, 0, attributes, check_crc))
        answers.append(module.read_batches(RecordBatch, memoryview(log), 0, 0, check_crc, 3))
        answers.append(sum_up(module, log, next_offset_max=end_offset, attributes=attributes))
        said.append(answers)
    assert said[0] == said[1]
