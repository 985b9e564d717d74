"""The configs of one topic, as its logs see them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.env import Rng
from tidelog.wire.batch import TimestampType
from tidelog.wire.batch_validation import INT64_MAX

COMPACT = "compact"
DELETE = "delete"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic configs by their names, `.` written as `_`, with Kafka's defaults."""

    cleanup_policy: frozenset[str] = frozenset({DELETE})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = INT64_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    """Accepted and without effect: our appends never depend on a file's end being there."""
    remote_storage_enable: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    """Or internal.segment.bytes, where that is set."""
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False
    producer_id_expiration_ms: int = 86_400_000
    """Not a topic's but the broker's."""
    segment_age_ms_max: int = field(init=False)
    """A compacted log rolls early enough for the cleaner to keep max.compaction.lag.ms."""

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner may leave gaps between offsets."""
        return COMPACT in self.cleanup_policy

    @property
    def is_deleted_from(self) -> bool:
        """Whether retention.bytes and retention.ms count."""
        return DELETE in self.cleanup_policy

    @property
    def flushes_by_count(self) -> bool:
        """Whether flush.messages is set at all."""
        return self.flush_messages < INT64_MAX

    def roll_jitter_ms(self, rng: Rng | None) -> int:
        """How much earlier than its age asks a segment is closed, drawn once for each."""
        jitter_ms = min(self.segment_jitter_ms, self.segment_ms)
        return rng.randrange(jitter_ms) if rng is not None and jitter_ms > 0 else 0

    def __post_init__(self) -> None:
        age = min(self.segment_ms, self.max_compaction_lag_ms) if self.is_compacted else None
        object.__setattr__(self, "segment_age_ms_max", self.segment_ms if age is None else age)
