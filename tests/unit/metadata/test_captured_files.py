"""Apache's metadata log and snapshots, decoded to the fields that it wrote and encoded back."""

from __future__ import annotations

import pytest
from tests.unit.metadata.captured import DISK, FILES, LIFE, life_records, lowered, shown, type_name

from tidelog.metadata.batches import (
    control_batch,
    data_batch,
    encode_control,
    read_metadata,
    walk_metadata,
)
from tidelog.metadata.frame import decode_record_version, encode_record, encode_record_as
from tidelog.metadata.records.cluster import NoOpRecord
from tidelog.wire.batch import BatchWalk
from tidelog.wire.batch_reader import read_records


def test_the_log_decodes_to_the_fields_that_were_written():
    decoded = [
        logged
        for logged in walk_metadata((DISK / LIFE).read_bytes())
        if not isinstance(logged.record, NoOpRecord)
    ]
    expected = life_records()
    assert len(decoded) == len(expected) == 141
    for logged, line in zip(decoded, expected, strict=True):
        assert (logged.offset, logged.epoch) == (line["offset"], line["epoch"])
        assert type_name(logged.record) == line["type"]
        assert shown(logged.record, line["version"]) == lowered(line["data"])


@pytest.mark.parametrize("name", FILES)
def test_every_value_encodes_back_to_its_bytes_in_the_version_that_kafka_chose(name):
    seen = 0
    for batch in BatchWalk((DISK / name).read_bytes()):
        for record in read_records(batch):
            seen += 1
            if batch.is_control:
                (logged,) = [r for r in read_metadata(batch) if r.offset == record.offset]
                assert encode_control(logged.record) == (record.key, record.value)
            else:
                message, version = decode_record_version(record.value)
                assert encode_record(message) == record.value
                assert encode_record_as(message, version) == record.value
    assert seen > 2


@pytest.mark.parametrize("name", FILES)
def test_every_batch_is_built_again_byte_for_byte(name):
    content = (DISK / name).read_bytes()
    built = bytearray()
    for batch in BatchWalk(content):
        build = control_batch if batch.is_control else data_batch
        built += build(
            [logged.record for logged in read_metadata(batch)],
            base_offset=batch.base_offset,
            leader_epoch=batch.partition_leader_epoch,
            timestamp_ms=batch.base_timestamp,
        )
    assert built == content
