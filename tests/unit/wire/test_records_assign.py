"""Rows find their partitions: the chosen one, their key's as Java hashes it, or one in turn."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import examples
from tests.unit.wire.record_samples import IMPLEMENTATIONS, RECORDS, batch_of, block_of

from tidelog.wire import records, records_twin
from tidelog.wire.batch import HEADER
from tidelog.wire.batch_builder import finish_batch
from tidelog.wire.batch_reader import Record, read_records
from tidelog.wire.records_twin_assign import partition_of_key
from tidelog.wire.records_types import (
    AssignedRows,
    BinaryColumn,
    Columns,
    IntColumn,
    Placement,
    RecordsModule,
    RowGroup,
)

chosen = records.implementation
twin: RecordsModule = records_twin


@pytest.fixture(params=IMPLEMENTATIONS)
def module(request: pytest.FixtureRequest) -> RecordsModule:
    return IMPLEMENTATIONS[request.param]


def ints(*numbers: int) -> bytes:
    return array("i", numbers).tobytes()


def binary(fields: list[bytes | None]) -> BinaryColumn:
    offsets, data, validity = [0], b"", bytearray(len(fields) // 8 + 1)
    for row, field in enumerate(fields):
        data += field or b""
        offsets.append(len(data))
        if field is not None:
            validity[row >> 3] |= 1 << (row & 7)
    return BinaryColumn(ints(*offsets), data, bytes(validity), fields.count(None))


def columns_of(
    keys: list[bytes | None] | None = None, values: list[bytes | None] | None = None
) -> Columns:
    rows = len(keys if keys is not None else values or [])
    return Columns(
        rows,
        None,
        None,
        None if keys is None else binary(keys),
        None if values is None else binary(values),
        None,
    )


def topic_of(partition_count: int, turn_bytes: int = 100) -> Placement:
    return Placement(partition_count, ints(*range(partition_count)), turn_bytes)


def partitions(assigned: AssignedRows) -> dict[int, tuple[int, int]]:
    """Of each row, its topic and partition."""
    order = memoryview(assigned.order).cast("i")
    found = {}
    for topic, partition, start, end in assigned.groups:
        rows = list(order[start:end])
        assert rows == sorted(rows)
        found.update(dict.fromkeys(rows, (topic, partition)))
    return found


def test_a_key_goes_where_java_puts_it(module):
    # Of Kafka's own UtilsTest.testMurmur2.
    hashes = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
        b"": 275646681,
    }
    keys = list(hashes)
    found = partitions(module.assign_rows(columns_of(list(keys)), None, None, [topic_of(1009)]))
    for row, key in enumerate(keys):
        assert found[row] == (0, (hashes[key] & 0x7FFFFFFF) % 1009)


def test_rows_without_a_key_fill_one_partition_after_the_other(module):
    topic = Placement(7, ints(1, 4, 6), 100)
    columns = columns_of(values=[b"x" * 30] * 10)
    found = partitions(module.assign_rows(columns, None, None, [topic]))
    assert [found[row][1] for row in range(10)] == [1, 1, 1, 1, 4, 4, 4, 4, 6, 6]
    assert (topic.turn, topic.taken_bytes) == (2, 60)
    found = partitions(module.assign_rows(columns, None, None, [topic]))
    assert [found[row][1] for row in range(4)] == [6, 6, 1, 1]


def test_a_chosen_partition_stands_over_the_key(module):
    validity = bytes([0b0000_1010])
    picks = IntColumn(ints(9, 2, 9, 0), validity)
    columns = columns_of([b"a", b"a", b"a", None])
    found = partitions(module.assign_rows(columns, picks, None, [topic_of(3)]))
    by_key = partition_of_key(b"a", 3)
    assert [found[row][1] for row in range(4)] == [by_key, 2, by_key, 0]


@pytest.mark.parametrize("bad", [-1, 3, -(2**31), 2**31 - 1])
def test_the_first_row_with_a_bad_choice_is_named(module, bad):
    topic = topic_of(3, 1)
    columns = columns_of(values=[b"a"] * 4)
    validity = bytes([0b1100])
    assigned = module.assign_rows(columns, IntColumn(ints(0, 0, bad, bad), validity), None, [topic])
    assert assigned == AssignedRows(b"", [], 2)
    assert (topic.turn, topic.taken_bytes) == (0, 0)


def test_topics_are_told_apart(module):
    columns = columns_of([b"a", b"b", b"a", b"b"])
    topics = [topic_of(1), topic_of(5)]
    assigned = module.assign_rows(columns, None, ints(0, 1, 1, 0), topics)
    found = partitions(assigned)
    assert found[0] == found[3] == (0, 0)
    assert found[1] == (1, partition_of_key(b"b", 5))
    assert found[2] == (1, partition_of_key(b"a", 5))
    assert assigned.groups[0] == RowGroup(0, 0, 0, 2)


def test_no_rows_are_no_groups(module):
    assert module.assign_rows(columns_of([]), None, None, [topic_of(3)]).groups == []


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except ValueError as error:
        return str(error)


FIELD = st.none() | st.binary(max_size=20)
ROWS = st.lists(st.tuples(FIELD, FIELD), max_size=12)
PLACEMENT = st.builds(
    lambda count, available, turn_bytes, turn: (count, ints(*available), turn_bytes, turn),
    st.integers(0, 5),
    st.lists(st.integers(-1, 5), max_size=4),
    st.integers(0, 50),
    st.integers(-1, 4),
)


@examples(500)
@given(
    ROWS,
    st.none() | st.tuples(st.binary(max_size=60), st.none() | st.binary(max_size=3)),
    st.none() | st.lists(st.integers(-1, 3), max_size=12),
    st.lists(PLACEMENT, max_size=3),
)
def test_the_twin_does_the_same(rows, picks, topics, placements):
    columns = columns_of([key for key, _ in rows], [value for _, value in rows])
    column = None if picks is None else IntColumn(*picks, 1)
    numbers = None if topics is None else ints(*topics)
    states = []
    for module in (chosen, twin):
        topic_states = [Placement(*placement) for placement in placements]
        states.append(outcome(module.assign_rows, columns, column, numbers, topic_states))
        states.append([(state.turn, state.taken_bytes) for state in topic_states])
    assert states[:2] == states[2:]


@examples(200)
@given(RECORDS, st.lists(st.integers(-1, 12), min_size=1), st.integers(0, 500), st.integers(0, 70))
def test_rows_are_encoded_in_any_order(samples, order, bytes_max, room):
    decoder = twin.ColumnDecoder(31, 100, 1 << 20)
    decoder.feed(block_of(samples), len(samples), 0, 0, None, 0, 100)
    assert decoder.fill()
    columns = decoder.take()
    args = (columns, len(order) // 2, bytes_max, 5, ints(*order), room)
    found = outcome(chosen.encode_records, *args)
    assert found == outcome(twin.encode_records, *args)
    if not isinstance(found, str):
        assert found.records[:room] == bytes(room)


def test_a_batch_is_made_around_records_in_place(module):
    columns = columns_of([b"a", b"b", None], [b"1", None, b"3"])
    encoded = module.encode_records(columns, 0, 1000, 77, ints(2, 0), HEADER.size)
    batch = finish_batch(encoded, 2)
    assert batch is encoded.records
    found = batch_of(batch)
    assert found.crc_is_right()
    assert read_records(found) == [Record(0, 77, None, b"3", ()), Record(1, 77, b"a", b"1", ())]


def test_keys_spread_evenly(module):
    keys: list[bytes | None] = [b"key-%d" % number for number in range(2000)]
    assigned = module.assign_rows(columns_of(keys), None, None, [topic_of(4)])
    sizes = Counter({group.partition: group.end - group.start for group in assigned.groups})
    assert min(sizes.values()) > 400
