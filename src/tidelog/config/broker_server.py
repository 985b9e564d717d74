"""A broker's keys, first part: who the node is, where it listens, and the metadata quorum."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.config.declare import (
    BROKER,
    CLUSTER,
    REQUIRED,
    boolean,
    integer,
    items,
    long,
    short,
    text,
)
from tidelog.config.definition import INT_MAX
from tidelog.config.valid import AtLeast, Items, Servers, Voters


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ServerSettings:
    """Identity, listeners, connections, requests."""

    process_roles: tuple[str, ...] = items(
        REQUIRED,
        "What this node is: broker, controller, or both.",
        Items(("broker", "controller"), may_be_empty=False),
    )
    node_id: int = integer(REQUIRED, "The node's number, its own in the cluster.", AtLeast(0))
    broker_rack: str | None = text(
        None, "Where the node stands; replicas are spread over the racks."
    )
    listeners: tuple[str, ...] = items(
        ("PLAINTEXT://127.0.0.1:9092",),
        "Where the node listens: name://host:port items. An empty host is every interface; there"
        " is no authentication, so the default is this machine only.",
        Items(may_be_empty=False),
        mode=BROKER,
    )
    advertised_listeners: tuple[str, ...] | None = items(
        None,
        "Where clients are told to find the node, if not at its listeners.",
        Items(may_be_empty=False),
    )
    listener_security_protocol_map: str = text(
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which protocol a listener of this name speaks: name:protocol items. PLAINTEXT is the"
        " only protocol so far.",
        mode=BROKER,
    )
    inter_broker_listener_name: str | None = text(
        None, "The listener by which brokers reach each other."
    )
    controller_listener_names: tuple[str, ...] = items(
        REQUIRED,
        "The listeners of controllers. Clients are not served there.",
        Items(may_be_empty=False),
    )
    connections_max_idle_ms: int = long(600_000, "After how long a silent connection is closed.")
    max_connections: int = integer(
        INT_MAX, "How many connections the node accepts at a time.", AtLeast(0), mode=CLUSTER
    )
    max_connections_per_ip: int = integer(
        INT_MAX, "How many connections one address may hold.", AtLeast(0), mode=CLUSTER
    )
    socket_request_max_bytes: int = integer(
        104_857_600, "The size of the largest request.", AtLeast(1)
    )
    socket_listen_backlog_size: int = integer(
        50, "How many connections may wait to be accepted.", AtLeast(1)
    )
    socket_send_buffer_bytes: int = integer(
        102_400, "The size of a socket's send buffer; -1 is the system's own."
    )
    socket_receive_buffer_bytes: int = integer(
        102_400, "The size of a socket's receive buffer; -1 is the system's own."
    )
    request_timeout_ms: int = integer(
        30_000, "How long the node waits for the answer to a request of its own."
    )
    max_request_partition_size_limit: int = integer(
        2000, "How many partitions one answer to DescribeTopicPartitions lists.", AtLeast(1)
    )
    controlled_shutdown_enable: bool = boolean(
        True, "Whether a node that stops hands its leaderships over first."
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class QuorumSettings:
    """The metadata quorum and its log."""

    controller_quorum_voters: tuple[str, ...] = items(
        (), "The voters of a static quorum: id@host:port items.", Voters()
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = items(
        (), "Where to ask for a dynamic quorum: host:port items.", Servers()
    )
    controller_quorum_election_timeout_ms: int = integer(
        1000, "How long a voter without a leader waits before it asks for votes.", AtLeast(0)
    )
    controller_quorum_election_backoff_max_ms: int = integer(
        1000, "The longest pause after a lost election.", AtLeast(0)
    )
    controller_quorum_fetch_timeout_ms: int = integer(
        2000, "How long a voter fetches in vain before it asks for votes.", AtLeast(0)
    )
    controller_quorum_request_timeout_ms: int = integer(
        2000, "How long a node of the quorum waits for an answer.", AtLeast(0)
    )
    controller_quorum_retry_backoff_ms: int = integer(
        20, "The pause before a failed request of the quorum is sent again.", AtLeast(0)
    )
    controller_quorum_append_linger_ms: int = integer(
        25, "How long the leader gathers records before it writes them.", AtLeast(0)
    )
    controller_quorum_auto_join_enable: bool = boolean(
        False, "Whether a controller makes itself a voter."
    )
    controller_quorum_fetch_max_bytes: int = integer(
        1 << 20, "The size of the largest answer to a Fetch of the metadata log.", AtLeast(1)
    )
    controller_quorum_fetch_snapshot_max_bytes: int = integer(
        1 << 20, "The size of the largest piece of a snapshot.", AtLeast(1)
    )
    broker_heartbeat_interval_ms: int = integer(
        2000, "How often a broker tells the controller that it lives."
    )
    broker_session_timeout_ms: int = integer(9000, "After how long a silent broker is fenced.")
    initial_broker_registration_timeout_ms: int = integer(
        60_000, "How long a broker that starts tries to register."
    )
    metadata_log_dir: str | None = text(
        None, "Where the metadata log lies, if not in the first of log.dirs."
    )
    metadata_log_max_record_bytes_between_snapshots: int = long(
        20_971_520, "After how many bytes of metadata a snapshot is taken.", AtLeast(1)
    )
    metadata_log_max_snapshot_interval_ms: int = long(
        3_600_000, "After how long a snapshot is taken; 0 is never by time.", AtLeast(0)
    )
    metadata_log_segment_bytes: int = integer(
        1 << 30, "The size of the metadata log's segments.", AtLeast(8 << 20)
    )
    metadata_log_segment_ms: int = long(
        604_800_000, "The age at which a segment of the metadata log is closed."
    )
    metadata_max_idle_interval_ms: int = integer(
        500,
        "How often an idle controller writes a record that says nothing; 0 is never.",
        AtLeast(0),
    )
    metadata_max_retention_bytes: int = long(
        104_857_600, "How much metadata is kept, log and snapshots together."
    )
    metadata_max_retention_ms: int = long(
        604_800_000, "How long metadata is kept that a newer snapshot covers."
    )
    internal_metadata_log_segment_bytes: int | None = integer(
        None,
        "A segment size of the metadata log below the allowed one, for tests.",
        is_internal=True,
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class CoordinatorSettings:
    """The internal topics of groups and transactions, and how long these remember."""

    offsets_topic_num_partitions: int = integer(
        50, "The number of partitions of __consumer_offsets.", AtLeast(1)
    )
    offsets_topic_replication_factor: int = short(
        3, "The replication factor of __consumer_offsets.", AtLeast(1)
    )
    offsets_topic_segment_bytes: int = integer(
        104_857_600, "The segment size of __consumer_offsets.", AtLeast(1)
    )
    offsets_topic_compression_codec: int = integer(
        0, "The codec of __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."
    )
    offsets_retention_minutes: int = integer(
        10_080, "How long the offsets of an empty group are kept.", AtLeast(1)
    )
    offset_metadata_max_bytes: int = integer(
        4096, "How many bytes of text a committed offset may carry."
    )
    transaction_state_log_num_partitions: int = integer(
        50, "The number of partitions of __transaction_state.", AtLeast(1)
    )
    transaction_state_log_replication_factor: int = short(
        3, "The replication factor of __transaction_state.", AtLeast(1)
    )
    transaction_state_log_min_isr: int = integer(
        2, "The min.insync.replicas of __transaction_state.", AtLeast(1)
    )
    transaction_state_log_segment_bytes: int = integer(
        104_857_600, "The segment size of __transaction_state.", AtLeast(1)
    )
    transaction_max_timeout_ms: int = integer(
        900_000, "The longest timeout that a transaction may ask for.", AtLeast(1)
    )
    transactional_id_expiration_ms: int = integer(
        604_800_000, "How long an unused transactional id is remembered.", AtLeast(1)
    )
    producer_id_expiration_ms: int = integer(
        86_400_000, "How long a partition remembers an idle producer.", AtLeast(1), mode=CLUSTER
    )
