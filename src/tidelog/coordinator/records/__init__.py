"""Records of `__consumer_offsets` and `__transaction_state`.

A key opens with a number (int16) that says what it is, and so what its value is; a value opens
with the version that it is written in. A record without a value deletes.
"""

from __future__ import annotations

from struct import Struct as Packing

from tidelog.coordinator.records import (
    classic_groups,
    consumer_groups,
    offsets,
    share_groups,
    streams_groups,
    transactions,
)
from tidelog.wire.codec import decode
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError

Kinds = dict[int, tuple[type[Message], type[Message]]]

GROUP_KINDS: Kinds = {
    0: (offsets.LegacyOffsetCommitKey, offsets.LegacyOffsetCommitValue),
    1: (offsets.OffsetCommitKey, offsets.OffsetCommitValue),
    2: (classic_groups.GroupMetadataKey, classic_groups.GroupMetadataValue),
    3: (consumer_groups.ConsumerGroupMetadataKey, consumer_groups.ConsumerGroupMetadataValue),
    4: (
        consumer_groups.ConsumerGroupPartitionMetadataKey,
        consumer_groups.ConsumerGroupPartitionMetadataValue,
    ),
    5: (
        consumer_groups.ConsumerGroupMemberMetadataKey,
        consumer_groups.ConsumerGroupMemberMetadataValue,
    ),
    6: (
        consumer_groups.ConsumerGroupTargetAssignmentMetadataKey,
        consumer_groups.ConsumerGroupTargetAssignmentMetadataValue,
    ),
    7: (
        consumer_groups.ConsumerGroupTargetAssignmentMemberKey,
        consumer_groups.ConsumerGroupTargetAssignmentMemberValue,
    ),
    8: (
        consumer_groups.ConsumerGroupCurrentMemberAssignmentKey,
        consumer_groups.ConsumerGroupCurrentMemberAssignmentValue,
    ),
    10: (share_groups.ShareGroupMemberMetadataKey, share_groups.ShareGroupMemberMetadataValue),
    11: (share_groups.ShareGroupMetadataKey, share_groups.ShareGroupMetadataValue),
    12: (
        share_groups.ShareGroupTargetAssignmentMetadataKey,
        share_groups.ShareGroupTargetAssignmentMetadataValue,
    ),
    13: (
        share_groups.ShareGroupTargetAssignmentMemberKey,
        share_groups.ShareGroupTargetAssignmentMemberValue,
    ),
    14: (
        share_groups.ShareGroupCurrentMemberAssignmentKey,
        share_groups.ShareGroupCurrentMemberAssignmentValue,
    ),
    15: (
        share_groups.ShareGroupStatePartitionMetadataKey,
        share_groups.ShareGroupStatePartitionMetadataValue,
    ),
    16: (
        consumer_groups.ConsumerGroupRegularExpressionKey,
        consumer_groups.ConsumerGroupRegularExpressionValue,
    ),
    17: (streams_groups.StreamsGroupMetadataKey, streams_groups.StreamsGroupMetadataValue),
    19: (
        streams_groups.StreamsGroupMemberMetadataKey,
        streams_groups.StreamsGroupMemberMetadataValue,
    ),
    20: (
        streams_groups.StreamsGroupTargetAssignmentMetadataKey,
        streams_groups.StreamsGroupTargetAssignmentMetadataValue,
    ),
    21: (
        streams_groups.StreamsGroupTargetAssignmentMemberKey,
        streams_groups.StreamsGroupTargetAssignmentMemberValue,
    ),
    22: (
        streams_groups.StreamsGroupCurrentMemberAssignmentKey,
        streams_groups.StreamsGroupCurrentMemberAssignmentValue,
    ),
    23: (streams_groups.StreamsGroupTopologyKey, streams_groups.StreamsGroupTopologyValue),
}
TRANSACTION_KINDS: Kinds = {0: (transactions.TransactionLogKey, transactions.TransactionLogValue)}

_NUMBER = Packing(">h")


def decode_key(content: bytes, kinds: Kinds) -> tuple[int, Message]:
    """What the record is about. DecodeError if nobody knows it."""
    number = _number(content)
    if number not in kinds:
        raise DecodeError(f"no record has the key type {number}")
    return number, decode(kinds[number][0], 0, content[_NUMBER.size :])


def decode_value(content: bytes, key_number: int, kinds: Kinds) -> tuple[int, Message]:
    """What it says, and in which version."""
    version, cls = _number(content), kinds[key_number][1]
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise DecodeError(f"{cls.__name__} v{version} is not known, only v{first} to v{last}")
    return version, decode(cls, version, content[_NUMBER.size :])


def _number(content: bytes) -> int:
    if len(content) < _NUMBER.size:
        raise DecodeError(f"a record of {len(content)} bytes")
    number: int = _NUMBER.unpack_from(content)[0]
    return number
