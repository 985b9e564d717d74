"""Records of groups and transactions: keys say what they are, values in which version."""

from __future__ import annotations

import json
import struct

import pytest

from tidelog.cli.dump_decoders import decode_offsets, decode_transactions
from tidelog.coordinator.records import GROUP_KINDS, TRANSACTION_KINDS, Kinds, decode_key
from tidelog.coordinator.records.offsets import OffsetCommitKey, OffsetCommitValue
from tidelog.coordinator.records.transactions import TransactionLogKey, TransactionLogValue
from tidelog.types import Uuid
from tidelog.wire.codec import encode
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError

TOPIC_ID = Uuid(bytes(range(16)))


def numbered(number: int, message: Message, version: int) -> bytes:
    return struct.pack(">h", number) + encode(message, version)


@pytest.mark.parametrize("version", range(5))
def test_a_committed_offset_is_shown_in_every_version(version: int) -> None:
    key = numbered(1, OffsetCommitKey(group="g", topic="t", partition=3), 0)
    value = OffsetCommitValue(
        offset=7,
        metadata="m",
        commit_timestamp=9,
        leader_epoch=2 if version >= 3 else -1,
        topic_id=TOPIC_ID if version == 4 else Uuid(bytes(16)),
    )
    about, said = map(json.loads, decode_offsets(key, numbered(version, value, version)))
    assert about == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 3}}
    assert said["version"] == str(version)
    shown = said["data"]
    assert (shown["offset"], shown["metadata"], shown["commitTimestamp"]) == (7, "m", 9)
    assert shown["leaderEpoch"] == (2 if version >= 3 else -1)
    assert shown["topicId"] == ("AAECAwQFBgcICQoLDA0ODw" if version == 4 else "A" * 22)


def test_a_record_without_a_value_deletes() -> None:
    key = numbered(0, TransactionLogKey(transactional_id="x"), 0)
    assert decode_transactions(key, None) == (
        '{"type":"0","data":{"transactionalId":"x"}}',
        "null",
    )


def test_a_transaction_is_shown_with_its_partitions() -> None:
    value = TransactionLogValue(
        producer_id=1,
        producer_epoch=2,
        transaction_timeout_ms=3,
        transaction_status=4,
        transaction_partitions=None,
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=6,
    )
    key = numbered(0, TransactionLogKey(transactional_id="x"), 0)
    _, said = decode_transactions(key, numbered(1, value, 1))
    assert json.loads(said)["data"]["transactionPartitions"] is None


@pytest.mark.parametrize(
    ("key", "value", "kinds", "reason"),
    [
        (b"\x00\x09", None, GROUP_KINDS, "no record has the key type 9"),
        (b"\x00", None, GROUP_KINDS, "a record of 1 bytes"),
        (b"\x00\x01\x00", None, GROUP_KINDS, "OffsetCommitKey v0"),
        (b"\x00\x00\x00\x01x", b"\x00\x02", TRANSACTION_KINDS, "v2 is not known, only v0 to v1"),
    ],
)
def test_what_is_none_is_refused(
    key: bytes, value: bytes | None, kinds: Kinds, reason: str
) -> None:
    decode = decode_offsets if kinds is GROUP_KINDS else decode_transactions
    with pytest.raises(DecodeError, match=reason):
        decode(key, value)


@pytest.mark.parametrize("kinds", [GROUP_KINDS, TRANSACTION_KINDS])
def test_a_key_never_fails_otherwise(kinds: Kinds) -> None:
    for number in range(-2, 40):
        for size in range(12):
            try:
                decode_key(struct.pack(">h", number) + bytes(size), kinds)
            except DecodeError:
                continue
