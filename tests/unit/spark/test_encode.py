"""Arrow columns become batches of the right partitions."""

from __future__ import annotations

import random
from array import array
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import examples
from tests.unit.wire.record_samples import batch_of

from tidelog.client import TopicPartition
from tidelog.client.partitioner import partition_of_key
from tidelog.client.produce import ProducerIdentity, stamp
from tidelog.spark.encode import (
    BatchEncoder,
    NoSuchPartition,
    RecordTooLarge,
    UnwritableRow,
    topics_of,
)
from tidelog.wire.batch_reader import Record, read_records
from tidelog.wire.compression import Compression
from tidelog.wire.records_types import Placement

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "topic": pa.string(),
    "partition": pa.int32(),
}
NOW_MS = 1_700_000_000_000


def rows_of(**columns: Any) -> pa.RecordBatch:
    arrays = [pa.array(values, TYPES[name]) for name, values in columns.items()]
    return pa.record_batch(arrays, names=list(columns))


def place(partitions: int = 3, turn_bytes: int = 1000) -> Placement:
    return Placement(partitions, array("i", range(partitions)), turn_bytes)


def encode(
    rows: pa.RecordBatch,
    topic: str | None = "t",
    places: dict[str, Placement] | None = None,
    batch_bytes: int = 10_000,
    **options: Any,
) -> dict[TopicPartition, list[list[Record]]]:
    """Of each partition, the records of its batches."""
    options.setdefault("request_bytes_max", 1 << 20)
    encoder = BatchEncoder(batch_bytes=batch_bytes, **options)
    found = defaultdict(list)
    given = topics_of(rows, topic)
    for partition, batch, count in encoder.encode(given, places or {"t": place()}, NOW_MS):
        header = batch_of(batch)
        assert header.crc_is_right()
        assert header.codec == encoder.compression
        assert header.record_count == count == header.last_offset_delta + 1
        found[partition].append(read_records(header))
    return found


def one_partition(found: dict[TopicPartition, list[list[Record]]]) -> list[Record]:
    ((batch,),) = found.values()
    return batch


def test_keys_decide_and_keep_their_order():
    keys = [b"a", b"b", b"c", b"a", b"d", b"b"]
    found = encode(rows_of(key=keys, value=[b"%d" % n for n in range(6)]))
    assert {(p.partition, r.key) for p, batches in found.items() for b in batches for r in b} == {
        (partition_of_key(key, 3), key) for key in keys
    }
    for batches in found.values():
        values = [record.value for batch in batches for record in batch]
        assert values == sorted(values)


def test_a_record_has_the_time_of_its_writing_and_what_its_row_has():
    headers = [[("a", b"1"), ("b", None)], None, []]
    rows = rows_of(
        key=[b"k", None, b""], value=[None, b"v", b""], headers=headers, partition=[1, 1, 1]
    )
    assert one_partition(encode(rows)) == [
        Record(0, NOW_MS, b"k", None, ((b"a", b"1"), (b"b", None))),
        Record(1, NOW_MS, None, b"v", ()),
        Record(2, NOW_MS, b"", b"", ()),
    ]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.large_binary()])
def test_text_is_written_as_utf8(kind):
    rows = pa.record_batch(
        [pa.array(["ä", None], kind), pa.array(["", "ß"], kind)], names=["key", "value"]
    )
    found = encode(rows, places={"t": place(1)})
    assert [(r.key, r.value) for r in one_partition(found)] == [
        ("ä".encode(), b""),
        (None, "ß".encode()),
    ]


def test_only_a_value_is_needed_and_rows_without_a_key_fill_batch_after_batch():
    rows = rows_of(value=[b"x" * 100] * 30)
    found = encode(rows, batch_bytes=1100)
    assert [len(b) for b in found[TopicPartition("t", 0)]] == [10]
    assert sorted(sum(map(len, batches)) for batches in found.values()) == [10, 10, 10]


def test_keys_may_be_ignored():
    found = encode(rows_of(key=[b"a"] * 30, value=[b"x" * 100] * 30), ignore_keys=True)
    assert len(found) == 3
    assert all(record.key == b"a" for (batch,) in found.values() for record in batch)


def test_topics_come_from_their_column():
    rows = rows_of(value=[b"1", b"2", b"3"], topic=["u", "t", "u"], key=[b"k"] * 3)
    found = encode(rows, None, {"t": place(1), "u": place(5)})
    assert {p: [r.value for r in b] for p, (b,) in found.items()} == {
        TopicPartition("t", 0): [b"2"],
        TopicPartition("u", partition_of_key(b"k", 5)): [b"1", b"3"],
    }


def test_the_option_stands_over_the_column():
    rows = rows_of(value=[b"1", b"2"], topic=["u", None])
    assert {partition.topic for partition in encode(rows)} == {"t"}


def test_a_row_without_a_topic_is_refused():
    with pytest.raises(UnwritableRow, match="null topic present in the data"):
        encode(rows_of(value=[b"1", b"2"], topic=["u", None]), None, {"u": place()})


@pytest.mark.parametrize("partition", [3, -1])
def test_a_partition_that_the_topic_lacks_is_named(partition):
    rows = rows_of(value=[b"1", b"2"], topic=["t", "u"], partition=[4, partition])
    with pytest.raises(NoSuchPartition, match=f"row has partition {partition}, but topic u has"):
        encode(rows, None, {"t": place(5), "u": place(3)})


def test_a_header_without_a_key_is_refused():
    rows = rows_of(value=[b"1"], headers=[[(None, b"x")]])
    with pytest.raises(UnwritableRow, match="topic t: row 0 has a header without a key"):
        encode(rows)
    structs = pa.array([[None]], HEADERS)
    rows = pa.record_batch([pa.array([b"1"]), structs], names=["value", "headers"])
    with pytest.raises(UnwritableRow, match="header without a key"):
        encode(rows)


def test_a_record_that_no_request_can_hold_is_refused():
    rows = rows_of(value=[b"x", b"x" * 5000], partition=[0, 2])
    with pytest.raises(RecordTooLarge, match=r"for t-2 takes 50\d\d bytes, .* which is 2000"):
        encode(rows, request_bytes_max=2000)


def test_batches_stay_below_a_request_and_below_what_their_topic_takes():
    rows = rows_of(value=[b"x" * 100] * 50, partition=[0] * 50)
    found = encode(rows, request_bytes_max=1000)
    assert [len(batch) for batch in found[TopicPartition("t", 0)]] == [8] * 6 + [2]
    encoder = BatchEncoder(batch_bytes=10_000, request_bytes_max=1 << 20)
    given = topics_of(rows, "t")
    counts = [
        encoded.record_count for encoded in encoder.encode(given, {"t": place()}, 0, {"t": 500}.get)
    ]
    assert counts == [4] * 12 + [2]


def test_a_batch_of_no_bytes_is_one_record():
    found = encode(rows_of(value=[b"1", b"2"], partition=[0, 0]), batch_bytes=0)
    assert [len(batch) for batch in found[TopicPartition("t", 0)]] == [1, 1]


@pytest.mark.parametrize("codec", list(Compression))
def test_batches_are_compressed(codec):
    rows = rows_of(value=[b"x" * 100] * 20, partition=[0] * 20)
    found = encode(rows, compression=codec)
    assert [r.value for r in one_partition(found)] == [b"x" * 100] * 20


def test_the_checksum_may_be_left_to_the_producer():
    rows = rows_of(value=[b"x"] * 3, partition=[0] * 3)
    encoder = BatchEncoder(batch_bytes=1000, request_bytes_max=2000, is_stamped_later=True)
    ((_, batch, _),) = encoder.encode(topics_of(rows, "t"), {"t": place()}, NOW_MS)
    assert not batch_of(batch).crc_is_right()
    stamp(batch, ProducerIdentity(1, 2), 3)
    assert batch_of(batch).crc_is_right()


def test_no_rows_are_no_batches():
    assert encode(rows_of(value=[], key=[], headers=[], partition=[])) == {}
    assert encode(rows_of(value=[], topic=[]), None, {}) == {}


def test_what_lies_under_a_null_list_is_no_header():
    pairs = pa.StructArray.from_arrays(
        [pa.array(["a", "b", "c"]), pa.array([b"1", b"2", b"3"])], fields=list(HEADERS.value_type)
    )
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3], pa.int32()), pairs, mask=pa.array([False, True, False])
    )
    rows = pa.record_batch([pa.array([b"x"] * 3), lists], names=["value", "headers"])
    records = one_partition(encode(rows, places={"t": place(1)}))
    assert [record.headers for record in records] == [((b"a", b"1"),), (), ((b"c", b"3"),)]


FIELD = st.none() | st.binary(max_size=8)
HEADER = st.tuples(st.text(max_size=3), FIELD)
ROW = st.tuples(
    FIELD,
    FIELD,
    st.none() | st.lists(HEADER, max_size=2),
    st.sampled_from(["t", "u"]),
    st.none() | st.integers(0, 1),
)


@examples(200)
@given(st.lists(ROW, max_size=20), st.integers(0, 5), st.integers(1, 200))
def test_every_row_becomes_one_record_whatever_slice_it_comes_in(rows, start, batch_bytes):
    columns = list(zip(*rows, strict=True)) or [[]] * 5
    whole = rows_of(**dict(zip(TYPES, columns, strict=True)))
    places = {"t": place(2, 10), "u": place(3, 10)}
    found = encode(whole.slice(start), None, places, batch_bytes)
    written = []
    for partition, batches in found.items():
        for record in (record for batch in batches for record in batch):
            written.append((record.key, record.value, record.headers, partition.topic))
    expected = [
        (key, value, tuple((k.encode(), v) for k, v in headers or ()), topic)
        for key, value, headers, topic, _ in rows[start:]
    ]
    assert sorted(written, key=repr) == sorted(expected, key=repr)


def test_keys_of_many_rows_go_where_the_twin_puts_them():
    rng = random.Random(3)
    keys = [rng.randbytes(rng.randrange(20)) if rng.random() < 0.9 else None for _ in range(5000)]
    found = encode(rows_of(key=keys, value=keys), batch_bytes=3000)
    for partition, batches in found.items():
        for record in (record for batch in batches for record in batch):
            if record.key is not None:
                assert partition.partition == partition_of_key(record.key, 3)
    assert sum(len(batch) for batches in found.values() for batch in batches) == 5000
