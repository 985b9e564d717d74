"""What a topic's configs ask of the batches that are appended."""

from __future__ import annotations

from tidelog.log.config import LogConfig
from tidelog.wire.batch import TimestampType
from tidelog.wire.batch_validation import ProduceRules


def is_plain(config: LogConfig) -> bool:
    """Whether a batch that is accepted is appended as it is, and then done with."""
    return (
        config.compression_type == "producer"
        and config.message_timestamp_type is TimestampType.CREATE_TIME
        and not config.flushes_by_count
    )


def produce_rules(config: LogConfig) -> ProduceRules:
    """Which batches are accepted."""
    return ProduceRules(
        timestamp_type=config.message_timestamp_type,
        timestamp_before_max_ms=config.message_timestamp_before_max_ms,
        timestamp_after_max_ms=config.message_timestamp_after_max_ms,
        compacted=config.is_compacted,
        max_message_bytes=config.max_message_bytes,
    )
