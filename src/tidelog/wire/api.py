"""Every API of Kafka 4.3: its key, the versions that the wire layer speaks, who serves it.

This table is the only place where versions are written down. The request and the response
of an API share them; their classes live in `messages/<name in snake case>.py` and are
imported when they are first asked for.
"""

from __future__ import annotations

from enum import Flag, IntEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tidelog.wire.declare import Message


class ApiKey(IntEnum):
    """The number that opens every request."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


class Listener(Flag):
    """Which of a node's listeners serves an API in Kafka 4.3."""

    BROKER = 1
    CONTROLLER = 2


class Api(NamedTuple):
    """One row of the protocol."""

    key: ApiKey
    versions: tuple[int, int]
    """First and last version, both included."""
    flexible_from: int | None
    """First version with compact lengths and tag sections; None: no version has them."""
    listeners: Listener
    latest_is_unstable: bool = False
    """Whether Kafka advertises the last version only with unstable versions switched on."""

    @property
    def name(self) -> str:
        """Kafka's name, such as OffsetCommit."""
        return "".join(word.capitalize() for word in self.key.name.split("_"))

    @property
    def module(self) -> str:
        """The module that declares its messages."""
        return f"tidelog.wire.messages.{self.key.name.lower()}"

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        # A client reads the ApiVersions response before it knows whether the
        # broker knows flexible versions, so its header never is one.
        return 1 if self.is_flexible(version) and self.key != ApiKey.API_VERSIONS else 0


BROKER, CONTROLLER = Listener.BROKER, Listener.CONTROLLER
BOTH = BROKER | CONTROLLER

APIS: dict[int, Api] = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, (3, 13), 9, BROKER),
        Api(ApiKey.FETCH, (4, 18), 12, BOTH),
        Api(ApiKey.LIST_OFFSETS, (1, 11), 6, BROKER),
        Api(ApiKey.METADATA, (0, 13), 9, BROKER),
        Api(ApiKey.OFFSET_COMMIT, (2, 10), 8, BROKER),
        Api(ApiKey.OFFSET_FETCH, (1, 10), 6, BROKER),
        Api(ApiKey.FIND_COORDINATOR, (0, 6), 3, BROKER),
        Api(ApiKey.JOIN_GROUP, (0, 9), 6, BROKER),
        Api(ApiKey.HEARTBEAT, (0, 4), 4, BROKER),
        Api(ApiKey.LEAVE_GROUP, (0, 5), 4, BROKER),
        Api(ApiKey.SYNC_GROUP, (0, 5), 4, BROKER),
        Api(ApiKey.DESCRIBE_GROUPS, (0, 6), 5, BROKER),
        Api(ApiKey.LIST_GROUPS, (0, 5), 3, BROKER),
        Api(ApiKey.SASL_HANDSHAKE, (0, 1), None, BOTH),
        Api(ApiKey.API_VERSIONS, (0, 4), 3, BOTH),
        Api(ApiKey.CREATE_TOPICS, (2, 7), 5, BOTH),
        Api(ApiKey.DELETE_TOPICS, (1, 6), 4, BOTH),
        Api(ApiKey.DELETE_RECORDS, (0, 2), 2, BROKER),
        Api(ApiKey.INIT_PRODUCER_ID, (0, 6), 2, BROKER, latest_is_unstable=True),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, (2, 4), 4, BROKER),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, (0, 5), 3, BROKER),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, (0, 4), 3, BROKER),
        Api(ApiKey.END_TXN, (0, 5), 3, BROKER),
        Api(ApiKey.WRITE_TXN_MARKERS, (1, 2), 1, BROKER),
        Api(ApiKey.TXN_OFFSET_COMMIT, (0, 5), 3, BROKER),
        Api(ApiKey.DESCRIBE_ACLS, (1, 3), 2, BOTH),
        Api(ApiKey.CREATE_ACLS, (1, 3), 2, BOTH),
        Api(ApiKey.DELETE_ACLS, (1, 3), 2, BOTH),
        Api(ApiKey.DESCRIBE_CONFIGS, (1, 4), 4, BOTH),
        Api(ApiKey.ALTER_CONFIGS, (0, 2), 2, BOTH),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, (1, 2), 2, BROKER),
        Api(ApiKey.DESCRIBE_LOG_DIRS, (1, 5), 2, BROKER),
        Api(ApiKey.SASL_AUTHENTICATE, (0, 2), 2, BOTH),
        Api(ApiKey.CREATE_PARTITIONS, (0, 3), 2, BOTH),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, (1, 3), 2, BOTH),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, (1, 2), 2, BOTH),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, (1, 2), 2, BOTH),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, (1, 3), 2, BOTH),
        Api(ApiKey.DELETE_GROUPS, (0, 2), 2, BROKER),
        Api(ApiKey.ELECT_LEADERS, (0, 2), 2, BOTH),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, (0, 1), 1, BOTH),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, (0, 1), 0, BOTH),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, (0, 0), 0, BOTH),
        Api(ApiKey.OFFSET_DELETE, (0, 0), None, BROKER),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, (0, 1), 1, BROKER),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, (0, 1), 1, BOTH),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, (0, 0), 0, BOTH),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, (0, 0), 0, BOTH),
        Api(ApiKey.VOTE, (0, 2), 0, CONTROLLER),
        Api(ApiKey.BEGIN_QUORUM_EPOCH, (0, 1), 1, CONTROLLER),
        Api(ApiKey.END_QUORUM_EPOCH, (0, 1), 1, CONTROLLER),
        Api(ApiKey.DESCRIBE_QUORUM, (0, 2), 0, BOTH),
        Api(ApiKey.ALTER_PARTITION, (2, 3), 0, CONTROLLER),
        Api(ApiKey.UPDATE_FEATURES, (0, 2), 0, BOTH),
        Api(ApiKey.ENVELOPE, (0, 0), 0, CONTROLLER),
        Api(ApiKey.FETCH_SNAPSHOT, (0, 1), 0, CONTROLLER),
        Api(ApiKey.DESCRIBE_CLUSTER, (0, 2), 0, BOTH),
        Api(ApiKey.DESCRIBE_PRODUCERS, (0, 0), 0, BROKER),
        Api(ApiKey.BROKER_REGISTRATION, (0, 4), 0, CONTROLLER),
        Api(ApiKey.BROKER_HEARTBEAT, (0, 2), 0, CONTROLLER),
        Api(ApiKey.UNREGISTER_BROKER, (0, 0), 0, BOTH),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, (0, 0), 0, BROKER),
        Api(ApiKey.LIST_TRANSACTIONS, (0, 2), 0, BROKER),
        Api(ApiKey.ALLOCATE_PRODUCER_IDS, (0, 0), 0, CONTROLLER),
        Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, (0, 1), 0, BROKER),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, (0, 1), 0, BROKER),
        Api(ApiKey.CONTROLLER_REGISTRATION, (0, 0), 0, CONTROLLER),
        Api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, (0, 0), 0, BROKER),
        Api(ApiKey.PUSH_TELEMETRY, (0, 0), 0, BROKER),
        Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, (0, 0), 0, CONTROLLER),
        Api(ApiKey.LIST_CONFIG_RESOURCES, (0, 1), 0, BROKER),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, (0, 0), 0, BROKER),
        Api(ApiKey.SHARE_GROUP_HEARTBEAT, (1, 1), 0, BROKER),
        Api(ApiKey.SHARE_GROUP_DESCRIBE, (1, 1), 0, BROKER),
        Api(ApiKey.SHARE_FETCH, (1, 2), 0, BROKER),
        Api(ApiKey.SHARE_ACKNOWLEDGE, (1, 2), 0, BROKER),
        Api(ApiKey.ADD_RAFT_VOTER, (0, 1), 0, BOTH),
        Api(ApiKey.REMOVE_RAFT_VOTER, (0, 0), 0, BOTH),
        Api(ApiKey.UPDATE_RAFT_VOTER, (0, 0), 0, CONTROLLER),
        Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, (0, 0), 0, BROKER),
        Api(ApiKey.READ_SHARE_GROUP_STATE, (0, 0), 0, BROKER),
        Api(ApiKey.WRITE_SHARE_GROUP_STATE, (0, 1), 0, BROKER),
        Api(ApiKey.DELETE_SHARE_GROUP_STATE, (0, 0), 0, BROKER),
        Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, (0, 1), 0, BROKER),
        Api(ApiKey.STREAMS_GROUP_HEARTBEAT, (0, 0), 0, BROKER),
        Api(ApiKey.STREAMS_GROUP_DESCRIBE, (0, 0), 0, BROKER),
        Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, (0, 1), 0, BROKER),
        Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, (0, 0), 0, BROKER),
        Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, (0, 0), 0, BROKER),
    )
}

DATA_MODULES = (
    "tidelog.wire.messages.consumer_protocol",
    "tidelog.wire.messages.control_records",
    "tidelog.wire.messages.default_principal_data",
)
"""Messages of no API: they travel inside the fields of others, or lie in records."""


@cache
def request_class(key: int) -> type[Message]:
    """The class of this API's request; KeyError if there is no such API."""
    return _message_class(APIS[key], "Request")


@cache
def response_class(key: int) -> type[Message]:
    """The class of this API's response; KeyError if there is no such API."""
    return _message_class(APIS[key], "Response")


def _message_class(api: Api, suffix: str) -> type[Message]:
    cls: type[Message] = getattr(import_module(api.module), api.name + suffix)
    return cls
