"""A broker's keys, second part: its logs, and the replication of partitions. Most keys of the
log are the defaults of a topic's configs."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.config.declare import (
    BROKER,
    CLUSTER,
    boolean,
    double,
    integer,
    items,
    long,
    text,
)
from tidelog.config.definition import LONG_MAX
from tidelog.config.valid import AtLeast, Between, Items, OneOf


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class LogSettings:
    """Directories, segments, flushing, retention."""

    log_dir: tuple[str, ...] = items(
        ("/tmp/kafka-logs",),
        "The data directory, if log.dirs does not name any.",
        Items(may_be_empty=False),
    )
    log_dirs: tuple[str, ...] | None = items(
        None, "The data directories.", Items(may_be_empty=False)
    )
    cordoned_log_dirs: tuple[str, ...] = items(
        (), "Data directories that get no new replicas.", Items(), mode=BROKER
    )
    num_recovery_threads_per_data_dir: int = integer(
        2, "How many threads load the logs of a directory.", AtLeast(1), mode=CLUSTER
    )
    log_dir_failure_timeout_ms: int = long(
        30_000, "How long a broker tries to report a failed directory before it stops.", AtLeast(1)
    )
    log_segment_bytes: int = integer(
        1 << 30, "At which size a segment is closed.", AtLeast(1 << 20), mode=CLUSTER
    )
    log_roll_ms: int | None = long(
        None, "At which age a segment is closed; else log.roll.hours.", mode=CLUSTER
    )
    log_roll_hours: int = integer(168, "At which age a segment is closed.", AtLeast(1))
    log_roll_jitter_ms: int | None = long(
        None,
        "At most how much earlier a segment is closed; else log.roll.jitter.hours.",
        mode=CLUSTER,
    )
    log_roll_jitter_hours: int = integer(
        0, "At most how much earlier a segment is closed.", AtLeast(0)
    )
    log_index_interval_bytes: int = integer(
        4096, "How many bytes lie between two entries of an index.", AtLeast(0), mode=CLUSTER
    )
    log_index_size_max_bytes: int = integer(
        10 << 20, "The largest size of an index.", AtLeast(4), mode=CLUSTER
    )
    log_preallocate: bool = boolean(
        False, "Whether a segment's file is made at its full size.", mode=CLUSTER
    )
    message_max_bytes: int = integer(
        1_048_588, "The size of the largest batch.", AtLeast(0), mode=CLUSTER
    )
    compression_type: str = text(
        "producer",
        "The codec that batches are stored in.",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        mode=CLUSTER,
    )
    compression_gzip_level: int = integer(
        -1, "How hard gzip tries.", Between(1, 9, exception=-1), mode=CLUSTER
    )
    compression_lz4_level: int = integer(9, "How hard lz4 tries.", Between(1, 17), mode=CLUSTER)
    compression_zstd_level: int = integer(
        3, "How hard zstd tries.", Between(-131072, 22), mode=CLUSTER
    )
    log_message_timestamp_type: str = text(
        "CreateTime",
        "Whose clock stamps a record.",
        OneOf(("CreateTime", "LogAppendTime")),
        mode=CLUSTER,
    )
    log_message_timestamp_before_max_ms: int = long(
        LONG_MAX, "How far a timestamp may lie behind the broker's clock.", AtLeast(0), mode=CLUSTER
    )
    log_message_timestamp_after_max_ms: int = long(
        3_600_000,
        "How far a timestamp may lie ahead of the broker's clock.",
        AtLeast(0),
        mode=CLUSTER,
    )
    log_initial_task_delay_ms: int = long(
        30_000,
        "How long after the start the log's periodic work begins.",
        AtLeast(0),
        is_internal=True,
    )
    log_flush_interval_messages: int = long(
        LONG_MAX, "After how many records a log is flushed.", AtLeast(1), mode=CLUSTER
    )
    log_flush_interval_ms: int | None = long(
        None, "After how long a log is flushed; else log.flush.scheduler.interval.ms.", mode=CLUSTER
    )
    log_flush_scheduler_interval_ms: int = long(
        LONG_MAX, "How often it is looked whether a log is to be flushed."
    )
    log_flush_offset_checkpoint_interval_ms: int = integer(
        60_000, "How often recovery points are written down.", AtLeast(0)
    )
    log_flush_start_offset_checkpoint_interval_ms: int = integer(
        60_000, "How often log start offsets are written down.", AtLeast(0)
    )
    log_cleanup_policy: tuple[str, ...] = items(
        ("delete",), "What happens to old records.", Items(("compact", "delete")), mode=CLUSTER
    )
    log_retention_ms: int | None = long(
        None, "How long records are kept; else log.retention.minutes.", mode=CLUSTER
    )
    log_retention_minutes: int | None = integer(
        None, "How long records are kept; else log.retention.hours."
    )
    log_retention_hours: int = integer(168, "How long records are kept; -1 is for ever.")
    log_retention_bytes: int = long(
        -1, "How many bytes a partition keeps; -1 is no limit.", mode=CLUSTER
    )
    log_retention_check_interval_ms: int = long(
        300_000, "How often old segments are looked for.", AtLeast(1)
    )
    log_segment_delete_delay_ms: int = long(
        60_000, "How long a removed file stays under another name.", AtLeast(0), mode=CLUSTER
    )
    log_local_retention_bytes: int = long(
        -2, "With remote storage: how much stays on local disk.", AtLeast(-2), mode=CLUSTER
    )
    log_local_retention_ms: int = long(
        -2, "With remote storage: how long segments stay on local disk.", AtLeast(-2), mode=CLUSTER
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class CleanerSettings:
    """Compaction."""

    log_cleaner_enable: bool = boolean(True, "Whether logs are compacted.")
    log_cleaner_threads: int = integer(
        1, "How many logs are compacted at a time.", AtLeast(0), mode=CLUSTER
    )
    log_cleaner_dedupe_buffer_size: int = long(
        134_217_728, "The memory for the keys of a log that is compacted.", mode=CLUSTER
    )
    log_cleaner_io_buffer_size: int = integer(
        524_288, "The memory for reading and writing.", AtLeast(0), mode=CLUSTER
    )
    log_cleaner_io_buffer_load_factor: float = double(
        0.9, "How full the table of keys may get.", mode=CLUSTER
    )
    log_cleaner_io_max_bytes_per_second: float = double(
        1.7976931348623157e308, "How much compaction reads and writes a second.", mode=CLUSTER
    )
    log_cleaner_backoff_ms: int = long(
        15_000, "How long to wait when no log is dirty.", AtLeast(0), mode=CLUSTER
    )
    log_cleaner_min_cleanable_ratio: float = double(
        0.5, "Which part of a log must be dirty.", Between(0, 1), mode=CLUSTER
    )
    log_cleaner_delete_retention_ms: int = long(
        86_400_000, "How long tombstones are kept.", AtLeast(0), mode=CLUSTER
    )
    log_cleaner_min_compaction_lag_ms: int = long(
        0, "For how long a record is safe from compaction.", AtLeast(0), mode=CLUSTER
    )
    log_cleaner_max_compaction_lag_ms: int = long(
        LONG_MAX,
        "After how long a record may no longer evade compaction.",
        AtLeast(1),
        mode=CLUSTER,
    )


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class ReplicationSettings:
    """Topics by default, replicas, fetches, leaders."""

    num_partitions: int = integer(
        1, "The number of partitions of a topic made without one.", AtLeast(1)
    )
    default_replication_factor: int = integer(
        1, "The replication factor of a topic made without one."
    )
    min_insync_replicas: int = integer(
        1, "How many replicas must be in sync for acks=all.", AtLeast(1), mode=CLUSTER
    )
    auto_create_topics_enable: bool = boolean(
        True, "Whether asking for a topic that does not exist makes it."
    )
    delete_topic_enable: bool = boolean(True, "Whether topics may be deleted.")
    unclean_leader_election_enable: bool = boolean(
        False, "Whether a replica that lags may lead when no other is left.", mode=CLUSTER
    )
    unclean_leader_election_interval_ms: int = long(
        300_000,
        "How often leaderless partitions are looked for that may elect so.",
        AtLeast(1),
        is_internal=True,
    )
    auto_leader_rebalance_enable: bool = boolean(
        True, "Whether leadership goes back to the preferred replica by itself."
    )
    leader_imbalance_check_interval_seconds: int = long(
        300, "How often that is looked at.", AtLeast(1)
    )
    leader_imbalance_per_broker_percentage: int = integer(
        0,
        "Of the partitions that a broker should lead others may lead this percentage, as in Kafka"
        " before 4.0; with 0 all go back, as since then.",
    )
    replica_high_watermark_checkpoint_interval_ms: int = long(
        5000, "How often high watermarks are written down."
    )
    replica_lag_time_max_ms: int = long(
        30_000, "After how long a replica that lags leaves the ISR."
    )
    num_replica_fetchers: int = integer(
        1, "How many fetches to one leader run at a time.", AtLeast(1), mode=CLUSTER
    )
    replica_fetch_max_bytes: int = integer(
        1 << 20, "How many bytes of a partition a follower asks for.", AtLeast(0)
    )
    replica_fetch_min_bytes: int = integer(1, "For how many bytes a follower waits.")
    replica_fetch_response_max_bytes: int = integer(
        10 << 20, "The size of the largest answer to a follower.", AtLeast(0)
    )
    replica_fetch_wait_max_ms: int = integer(500, "How long a follower waits for records.")
    replica_fetch_backoff_ms: int = integer(
        1000,
        "How long a partition is left alone after an error, at most: at first 20 ms.",
        AtLeast(0),
    )
    replica_socket_timeout_ms: int = integer(30_000, "How long a follower waits for an answer.")
    replica_selector_class: str | None = text(
        None, "Who chooses the replica that a consumer reads from."
    )
    fetch_max_bytes: int = integer(
        57_671_680, "The size of the largest answer to a Fetch.", AtLeast(1024)
    )
    max_incremental_fetch_session_cache_slots: int = integer(
        1000, "How many fetch sessions are kept.", AtLeast(0)
    )
