"""Ranges and limits: the numbers that Spark's own Kafka source gives."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client import TopicPartition
from tidelog.spark.planner import (
    OffsetRange,
    gather_ranges,
    limit_bytes,
    limit_offsets,
    new_records,
    plan_ranges,
    split_ranges,
)

T1, T2, T3 = (TopicPartition("t", n) for n in (1, 2, 3))


def ranges(*sizes: tuple[TopicPartition, int, int]) -> list[OffsetRange]:
    return [OffsetRange(*item) for item in sizes]


def triples(found: list[OffsetRange]) -> list[tuple[TopicPartition, int, int]]:
    return [tuple(item) for item in found]


def test_without_limits_a_partition_is_a_task():
    assert split_ranges(ranges((T1, 1, 5), (T2, 2, 2), (T3, 3, 2)), None, None) == [(T1, 1, 5)]


def cuts(*places: int) -> list[tuple[int, int]]:
    return list(pairwise(places))


SPARKS_SPLITS = [
    # minPartitions, maxRecordsPerPartition, ranges, pieces: of KafkaOffsetRangeCalculatorSuite
    (3, None, [(1, 2)] * 3, [[(1, 2)]] * 3),
    (4, None, [(1, 5)], [cuts(1, 2, 3, 4, 5)]),
    (4, None, [(1, 5), (1, 21)], [[(1, 5)], cuts(1, 7, 14, 21)]),
    (4, None, [(1, 1), (1, 21)], [[], cuts(1, 6, 11, 16, 21)]),
    (4, None, [(1, 2), (1, 1001)], [[(1, 2)], cuts(1, 334, 667, 1001)]),
    (1, None, [(1, 5), (1, 21)], [[(1, 5)], [(1, 21)]]),
    (3, None, [(1, 11)], [cuts(1, 4, 7, 11)]),
    (6, None, [(0, 10), (0, 10), (0, 1)], [cuts(0, 3, 6, 10)] * 2 + [[(0, 1)]]),
    (
        9,
        None,
        [(0, 10_000), (0, 15_000), (0, 20_000)],
        [cuts(*range(0, end + 1, 5000)) for end in (10_000, 15_000, 20_000)],
    ),
    (
        6,
        None,
        [(0, 500), (0, 12_000), (0, 15_001)],
        [[(0, 500)], cuts(0, 6000, 12_000), cuts(0, 5000, 10_000, 15_001)],
    ),
    (None, 4, [(1, 5)], [[(1, 5)]]),
    (None, 4, [(1, 6)], [cuts(1, 3, 6)]),
    (None, 20, [(1, 40), (1, 50)], [cuts(1, 20, 40), cuts(1, 17, 33, 50)]),
    (1, 20, [(1, 40)], [cuts(1, 20, 40)]),
    (4, 20, [(1, 40)], [cuts(1, 10, 20, 30, 40)]),
]


@pytest.mark.parametrize(("min_partitions", "max_records", "whole", "pieces"), SPARKS_SPLITS)
def test_splits_are_those_of_sparks_own_tests(min_partitions, max_records, whole, pieces):
    partitions = (T1, T2, T3)
    wanted = [OffsetRange(p, *span) for p, span in zip(partitions, whole, strict=False)]
    expected = [(p, *s) for p, spans in zip(partitions, pieces, strict=False) for s in spans]
    assert triples(split_ranges(wanted, min_partitions, max_records)) == expected


SIZES = st.lists(st.integers(0, 5000), min_size=1, max_size=6)


@given(SIZES, st.none() | st.integers(1, 40), st.none() | st.integers(1, 3000))
def test_pieces_cover_every_offset_once(sizes, min_partitions, max_records):
    whole = [OffsetRange(TopicPartition("t", n), 7, 7 + size) for n, size in enumerate(sizes)]
    pieces = split_ranges(whole, min_partitions, max_records)
    for found in whole:
        mine = [piece for piece in pieces if piece.partition == found.partition]
        position = found.start_offset
        for piece in mine:
            assert piece.start_offset == position < piece.end_offset
            position = piece.end_offset
        assert position == found.end_offset
    if max_records is not None:
        assert all(piece.size <= max_records for piece in pieces)


def test_small_ranges_share_a_task():
    ranges = [
        OffsetRange(TopicPartition("t", n), 5, 5 + size)
        for n, size in enumerate((400, 500, 100, 2000, 999, 1, 3))
    ]
    tasks = gather_ranges(ranges, 1000)
    assert [[found.size for found in task] for task in tasks] == [
        [400, 500, 100],
        [2000],
        [999, 1],
        [3],
    ]
    assert [found for task in tasks for found in task] == ranges
    assert gather_ranges([], 1000) == []


def test_offsets_are_shared_out_in_proportion():
    start, end = {T1: 0, T2: 0, T3: 0}, {T1: 1000, T2: 100, T3: 1}
    assert limit_offsets(100, start, end) == {T1: 90, T2: 9, T3: 1}, "the smallest is not starved"
    assert limit_offsets(10_000, start, end) == end
    assert limit_offsets(5, end, end) == end, "nothing to read"


def test_a_partition_that_went_back_is_left_to_the_alarm():
    assert limit_offsets(5, {T1: 100, T2: 0}, {T1: 50, T2: 100}) == {T1: 50, T2: 5}


@given(
    st.dictionaries(
        st.sampled_from([T1, T2, T3]), st.tuples(st.integers(0, 99), st.integers(0, 10**6))
    ),
    st.integers(1, 10**7),
)
def test_limited_offsets_stay_between_start_and_end(spans, limit):
    start = {p: first for p, (first, _) in spans.items()}
    end = {p: first + size for p, (first, size) in spans.items()}
    limited = limit_offsets(limit, start, end)
    assert all(start[p] <= limited[p] <= end[p] for p in end)
    read = sum(limited[p] - start[p] for p in end)
    assert read <= limit + len(end)
    if any(size for _, size in spans.values()):
        assert read > 0, "a stream goes on"


def test_bytes_are_shared_out_in_proportion():
    start, end = {T1: 0, T2: 0}, {T1: 1000, T2: 1000}
    density = {T1: 100.0, T2: 10.0}
    limited = limit_bytes(55_000, start, end, lambda places: density)
    assert limited == {T1: 500, T2: 500}
    assert sum(limited[p] * density[p] for p in end) == 55_000
    assert limit_bytes(110_000, start, end, lambda places: density) == end
    assert limit_bytes(1, start, end, lambda places: density) == {T1: 1, T2: 1}, "a stream goes on"
    assert limit_bytes(1, start, end, lambda places: {}) == end, "nothing is known"


def test_records_that_grow_are_not_all_taken_at_once():
    asked = []

    def density(places):
        asked.append(places)
        return {T1: 1.0 if places[T1] < 900 else 1000.0}

    assert limit_bytes(500, {T1: 0}, {T1: 1000}, density) == {T1: 500}
    assert asked == [{T1: 0}, {T1: 499}]
    assert limit_bytes(2000, {T1: 0}, {T1: 1000}, density) == {T1: 875}
    assert limit_bytes(2000, {T1: 900}, {T1: 1000, T2: 7}, density) == {T1: 902, T2: 7}
    assert limit_bytes(2000, {T1: 899}, {T1: 1_000_000}, density)[T1] < 1000


def test_what_is_new_what_is_gone_and_what_went_back():
    plan = plan_ranges({T1: 5, T2: 5}, {T1: 9, T3: 4}, {T3: 0})
    assert triples(plan.ranges) == [(T1, 5, 9), (T3, 0, 4)]
    assert [loss.kind for loss in plan.losses] == ["PARTITIONS_DELETED"]
    assert "Partitions t-2 have been deleted" in str(plan.losses[0])
    assert "set the source option failOnDataLoss to false" in str(plan.losses[0])

    late = plan_ranges({}, {T3: 4}, {T3: 2})
    assert triples(late.ranges) == [(T3, 2, 4)]
    assert [loss.kind for loss in late.losses] == [
        "ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO"
    ]
    unknown = plan_ranges({}, {T3: 4}, {})
    assert unknown.ranges == []
    assert [loss.kind for loss in unknown.losses] == ["INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS"]
    back = plan_ranges({T1: 5}, {T1: 4}, {})
    assert back.ranges == []
    assert [loss.kind for loss in back.losses] == ["PARTITION_OFFSET_CHANGED"]


def test_new_partitions_count_from_zero():
    assert new_records({T1: 5}, {T1: 7, T2: 3}) == 5
    assert math.isclose(new_records({}, {}), 0)
