"""A metadata record's value: uvarint frame version 1, uvarint type, uvarint version, the body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.metadata.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tidelog.metadata.records.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
    ZkMigrationStateRecord,
)
from tidelog.metadata.records.security import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tidelog.metadata.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.wire.codec import decode, encode
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError
from tidelog.wire.schema import fields_of

if TYPE_CHECKING:
    from typing_extensions import Buffer

FRAME_VERSION = 1
METADATA_VERSION_LATEST = 30
"""4.3-IV0."""

RECORD_TYPES: dict[int, type[Message]] = {
    0: RegisterBrokerRecord,
    1: UnregisterBrokerRecord,
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    7: FenceBrokerRecord,
    8: UnfenceBrokerRecord,
    9: RemoveTopicRecord,
    10: DelegationTokenRecord,
    11: UserScramCredentialRecord,
    12: FeatureLevelRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    17: BrokerRegistrationChangeRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    20: NoOpRecord,
    21: ZkMigrationStateRecord,
    22: RemoveUserScramCredentialRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
    26: RemoveDelegationTokenRecord,
    27: RegisterControllerRecord,
    28: ClearElrRecord,
}
TYPES_OF_RECORDS = {cls: number for number, cls in RECORD_TYPES.items()}

# The metadata.version from which a version of a record may be written, newest first.
VERSIONS_BY_LEVEL: dict[type[Message], tuple[tuple[int, int], ...]] = {
    RegisterBrokerRecord: ((30, 4), (17, 3), (8, 2), (0, 1)),
    PartitionRecord: ((23, 2), (17, 1), (0, 0)),
    PartitionChangeRecord: ((23, 2), (17, 1), (0, 0)),
}


def record_version(record: Message, metadata_version: int = METADATA_VERSION_LATEST) -> int:
    """The version that Kafka writes: so high as the cluster's level allows, except that a change
    of a registration takes the lowest one that can say it."""
    if isinstance(record, BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    for level, version in VERSIONS_BY_LEVEL.get(type(record), ()):
        if metadata_version >= level:
            return version
    return 0


def at_level(record: Message, metadata_version: int) -> Message:
    """The record as a cluster of this level writes it: without what came later."""
    version = record_version(record, metadata_version)
    later = {f.name: f.default for f in fields_of(type(record)) if not f.is_in(version)}
    return record.replace(**later) if later else record


def encode_record(record: Message, metadata_version: int = METADATA_VERSION_LATEST) -> bytes:
    """The value of the record in the log; its key is null."""
    version = record_version(record, metadata_version)
    return encode_record_as(record, version)


def encode_record_as(record: Message, version: int) -> bytes:
    """In a version of the caller's choice."""
    header = bytes((FRAME_VERSION, TYPES_OF_RECORDS[type(record)], version))
    return header + encode(record, version)


def decode_record(value: Buffer) -> Message:
    """The record of a value; DecodeError if it is none that this version knows."""
    record, _ = decode_record_version(value)
    return record


def decode_record_version(value: Buffer) -> tuple[Message, int]:
    """The record, and the version that it was written in."""
    view = memoryview(value)
    # Types and versions are below 128 in every release so far: their uvarints are one byte.
    if len(view) < 3:
        raise DecodeError(f"a metadata record of {len(view)} bytes has no header")
    frame_version, number, version = view[0], view[1], view[2]
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"frame version {frame_version}, want {FRAME_VERSION}")
    cls = RECORD_TYPES.get(number)
    if cls is None:
        raise DecodeError(f"record type {number} is unknown: a newer node wrote it")
    if not cls.VERSIONS[0] <= version <= cls.VERSIONS[1]:
        raise DecodeError(f"{cls.__name__} v{version} is unknown: a newer node wrote it")
    return decode(cls, version, view[3:]), version
