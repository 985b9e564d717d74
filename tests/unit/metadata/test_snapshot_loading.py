"""A snapshot's file becomes the image that it was made of, in pieces, or is refused."""

from __future__ import annotations

import pytest
from tests.unit.metadata.captured import DISK
from tests.unit.metadata.lives import config

from tidelog.metadata.batches import each_metadata, read_metadata
from tidelog.metadata.delta import replay
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.snapshot import (
    BATCH_RECORDS_MAX,
    SnapshotId,
    read_snapshot,
    records_of,
    snapshot_content,
)
from tidelog.metadata.snapshot_loading import load_image
from tidelog.slices import finish
from tidelog.wire.batch import BatchWalk
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import AT_ONCE_MAX, each_record, read_records
from tidelog.wire.decoder import DecodeError
from tidelog.wire.records_types import CorruptRecords

CAPTURED = (DISK / "dynamic-quorum.00000000000000000302-0000000001.checkpoint").read_bytes()
ID = SnapshotId(302, 1)


def loaded(content: bytes, snapshot_id: SnapshotId = ID) -> MetadataImage:
    return finish(load_image(lambda at, size: content[at : at + size], snapshot_id))


def test_an_image_is_that_of_the_records():
    image = loaded(CAPTURED)
    expected = MetadataImage.empty()
    for record in read_snapshot(CAPTURED, ID).records:
        expected = replay(expected, record, 301, 1)
    assert list(records_of(image)) == list(records_of(expected))
    assert (image.offset, image.epoch) == (301, 1)
    assert len(list(records_of(image))) > 5


def test_an_image_without_records_has_an_offset():
    content = snapshot_content([], epoch=2, last_timestamp_ms=0, written_at_ms=0)
    image = loaded(content, SnapshotId(7, 2))
    assert (image.offset, image.epoch) == (6, 2)


def test_large_ones_come_in_small_pieces():
    count = 2 * BATCH_RECORDS_MAX + 1
    records = [config(2, "a", f"name-{number}", "1") for number in range(count)]
    content = snapshot_content(records, epoch=3, last_timestamp_ms=5, written_at_ms=6)
    pieces = list(load_image(lambda at, size: content[at : at + size], SnapshotId(9000, 3)))
    assert len(pieces) == count + 2
    assert len(loaded(content, SnapshotId(9000, 3)).topic_configs("a")) == count


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(CAPTURED[:-1], id="cut inside the footer"),
        pytest.param(CAPTURED[:5], id="cut inside a length"),
        pytest.param(b"", id="empty"),
        pytest.param(CAPTURED[:300] + b"?" + CAPTURED[301:], id="a byte changed"),
        pytest.param(b"\0" * 8 + (-12).to_bytes(4, "big", signed=True) + b"\0" * 90, id="length"),
    ],
)
def test_a_damaged_one_is_refused(content: bytes):
    with pytest.raises(DecodeError):
        loaded(content)


def test_one_without_a_footer_is_refused():
    batches = [bytes(batch.to_view()) for batch in BatchWalk(CAPTURED)]
    with pytest.raises(DecodeError, match="footer"):
        loaded(b"".join(batches[:-1]))


def large_batch(count: int) -> bytearray:
    builder = BatchBuilder()
    for number in range(count):
        key = None if number % 3 else b"k%d" % number
        headers = ((b"h", b"v"),) if number % 5 == 0 else ()
        builder.append(key, b"value %d" % number, timestamp=1000 - number, headers=headers)
    return builder.build(base_offset=70)


@pytest.mark.parametrize("count", [AT_ONCE_MAX, AT_ONCE_MAX + 1, 3000])
def test_records_are_the_same_one_by_one(count: int):
    batch = next(iter(BatchWalk(large_batch(count))))
    assert list(each_record(batch)) == read_records(batch)
    assert batch.record_count == count


@pytest.mark.parametrize("change", [-1, 1])
def test_a_wrong_count_is_found_one_by_one(change: int):
    batch = next(iter(BatchWalk(large_batch(500))))
    with pytest.raises(CorruptRecords):
        list(each_record(batch._replace(record_count=500 + change)))


def test_metadata_is_the_same_one_by_one():
    for batch in BatchWalk(CAPTURED):
        assert list(each_metadata(batch)) == read_metadata(batch)
