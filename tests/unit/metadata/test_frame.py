"""The frame around a record: what is refused, and which version is written at which level."""

from __future__ import annotations

import pytest

from tidelog.metadata.batches import control_batch, data_batch, decode_control, walk_metadata
from tidelog.metadata.frame import (
    RECORD_TYPES,
    decode_record,
    encode_record,
    encode_record_as,
    record_version,
)
from tidelog.metadata.records.brokers import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from tidelog.metadata.records.cluster import NoOpRecord
from tidelog.metadata.records.topics import PartitionChangeRecord
from tidelog.types import ZERO_UUID
from tidelog.wire.decoder import DecodeError
from tidelog.wire.messages.control_records import SnapshotFooterRecord
from tidelog.wire.schema import fields_of

UUID = ZERO_UUID


@pytest.mark.parametrize("number", RECORD_TYPES)
def test_every_record_goes_both_ways_in_every_version(number):
    cls = RECORD_TYPES[number]
    record = cls(**{field.name: field.default for field in fields_of(cls)})
    for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
        assert decode_record(encode_record_as(record, version)) == record


def test_a_noop_is_four_bytes():
    assert encode_record(NoOpRecord()).hex() == "01140000"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (b"", "no header"),
        (b"\x02\x14\x00\x00", "frame version 2"),
        (b"\x01\x7f\x00\x00", "record type 127"),
        (b"\x01\x06\x00\x00", "record type 6"),
        (b"\x01\x14\x01\x00", "NoOpRecord v1"),
        (b"\x01\x14\x00\x00\x00", "1 bytes too many"),
    ],
)
def test_what_is_no_record_is_refused(value, complaint):
    with pytest.raises(DecodeError, match=complaint):
        decode_record(value)


def change(**fields):
    return BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, **fields)


def test_a_registration_change_takes_the_lowest_version_that_says_it():
    assert record_version(change(fenced=1)) == 0
    assert record_version(change(fenced=1, in_controlled_shutdown=1)) == 1
    assert record_version(change(log_dirs=(UUID,))) == 2
    assert record_version(change(cordoned_log_dirs=())) == 3


def test_versions_follow_the_clusters_level():
    partition = PartitionChangeRecord(partition_id=0, topic_id=UUID)
    assert [record_version(partition, level) for level in (7, 16, 17, 22, 23, 30)] == [
        0, 0, 1, 1, 2, 2,
    ]  # fmt: skip
    broker = RegisterBrokerRecord(
        broker_id=1, incarnation_id=UUID, broker_epoch=0, end_points=(), features=(), rack=None
    )
    assert [record_version(broker, level) for level in (7, 8, 16, 17, 29, 30)] == [
        1, 2, 2, 3, 3, 4,
    ]  # fmt: skip


def test_damage_is_found():
    whole = data_batch([NoOpRecord()], base_offset=0, leader_epoch=1, timestamp_ms=5)
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    with pytest.raises(DecodeError, match="BAD_CRC"):
        list(walk_metadata(damaged))
    with pytest.raises(DecodeError, match="position 0"):
        list(walk_metadata(whole[:-1]))


def test_control_records():
    batch = control_batch(
        [SnapshotFooterRecord(version=0)], base_offset=7, leader_epoch=0, timestamp_ms=0
    )
    (logged,) = walk_metadata(batch)
    assert (logged.offset, logged.record) == (7, SnapshotFooterRecord(version=0))
    with pytest.raises(DecodeError, match="type 9"):
        decode_control(b"\0\0\0\x09", b"\0\0\0")
    with pytest.raises(DecodeError, match="without type"):
        decode_control(None, b"\0\0\0")
