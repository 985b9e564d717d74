"""Offsets in options and checkpoints: Spark's JSON, its special values, its precedence."""

from __future__ import annotations

import json

import pytest

from tidelog.client import TopicPartition
from tidelog.client.offsets import EARLIEST, LATEST
from tidelog.spark.offsets import (
    AtEnd,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    from_json,
    parse_offsets,
    parse_partitions,
    parse_position,
    to_json,
)
from tidelog.spark.options import OptionError

A0, A1, A10, B0 = (TopicPartition(*p) for p in (("a", 0), ("a", 1), ("a", 10), ("b", 0)))


def test_json_goes_both_ways_and_has_one_order():
    offsets = {B0: 1, A10: 4, A1: 3, A0: 2}
    assert json.dumps(to_json(offsets)) == '{"a": {"0": 2, "1": 3, "10": 4}, "b": {"0": 1}}'
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


def test_earliest_and_latest_have_numbers():
    text = '{"a": {"0": 23, "1": -1}, "b": {"0": -2}}'
    assert parse_offsets("startingOffsets", text) == {A0: 23, A1: LATEST, B0: EARLIEST}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "23",
        "[]",
        "{",
        '{"a": 1}',
        '{"a": [1]}',
        '{"a": {"0": "1"}}',
        '{"a": {"x": 1}}',
        '{"a": {"-1": 1}}',
        '{"a": {"0": -3}}',
        '{"a": {"0": true}}',
        '{"a": {"0": 9223372036854775808}}',
    ],
)
def test_offsets_of_another_form_are_refused_with_an_example(text):
    with pytest.raises(OptionError, match=r'startingOffsets is .*: expected e.g. {"topicA"'):
        parse_offsets("startingOffsets", text)


def test_partitions_to_assign():
    assert parse_partitions("assign", '{"b": [0], "a": [1, 0, 1]}') == (A0, A1, B0)
    for text in ('{"a": 0}', '{"a": ["0"]}', '{"a": [-1]}', "a", '{"a": {"0": 1}}'):
        with pytest.raises(OptionError, match=r'assign is .*: expected e.g. {"topicA": \[0, 1\]'):
            parse_partitions("assign", text)
    with pytest.raises(OptionError, match="No partitions to assign"):
        parse_partitions("assign", "{}")


def test_a_timestamp_goes_before_timestamps_and_they_before_offsets():
    options = {
        "startingTimestamp": "7",
        "startingOffsetsByTimestamp": '{"a": {"0": 8}}',
        "startingOffsets": '{"a": {"0": 9}}',
    }
    assert parse_position(options, "starting", LATEST) == AtTimestamp(7)
    del options["startingTimestamp"]
    assert parse_position(options, "starting", LATEST) == AtTimestamps({A0: 8})
    del options["startingOffsetsByTimestamp"]
    assert parse_position(options, "starting", LATEST) == AtOffsets({A0: 9})
    options["startingOffsets"] = " Earliest "
    assert parse_position(options, "starting", LATEST) == AtEnd(EARLIEST)
    options["startingOffsets"] = "LATEST"
    assert parse_position(options, "starting", EARLIEST) == AtEnd(LATEST)
    assert parse_position({}, "starting", EARLIEST) == AtEnd(EARLIEST)


@pytest.mark.parametrize("time", [-1, -2, -3, -1_000_000])
@pytest.mark.parametrize("which", ["starting", "ending"])
def test_times_that_brokers_take_for_signs_are_refused(which, time):
    words = f"is {time}, a time before 1970.*use {which}Offsets"
    with pytest.raises(OptionError, match=f"{which}Timestamp {words}"):
        parse_position({f"{which}Timestamp": str(time)}, which, LATEST)
    many = {f"{which}OffsetsByTimestamp": f'{{"a": {{"0": 5, "1": {time}}}}}'}
    with pytest.raises(OptionError, match=f"{which}OffsetsByTimestamp of a-1 {words}"):
        parse_position(many, which, LATEST)


def test_a_position_that_is_none_is_refused():
    with pytest.raises(OptionError, match="endingTimestamp is 'now': want one number"):
        parse_position({"endingTimestamp": "now"}, "ending", LATEST)
    with pytest.raises(OptionError, match="startingTimestamp is '9223372036854775808': want one"):
        parse_position({"startingTimestamp": str(1 << 63)}, "starting", LATEST)
    with pytest.raises(OptionError, match=r"expected e.g. earliest, latest or"):
        parse_position({"endingOffsets": ""}, "ending", LATEST)
    with pytest.raises(OptionError, match=r"startingOffsets is 'newest': expected e.g."):
        parse_position({"startingOffsets": "newest"}, "starting", LATEST)
