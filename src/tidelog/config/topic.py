"""The configs of a topic. A broker's key, the synonym, gives most of them their default."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.config.definition import (
    LONG_MAX,
    ConfigKey,
    ConfigType,
    InvalidConfig,
    Synonym,
)
from tidelog.config.nearest import allowed_names
from tidelog.config.valid import AtLeast, Between, Items, OneOf, ThrottledReplicas, Valid, Value

BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
VALUE_LENGTH_MAX = 32767
"""A config's value travels in records whose strings are no longer."""


def _key(
    name: str,
    kind: ConfigType,
    default: Value,
    synonyms: str | tuple[Synonym, ...],
    documentation: str,
    valid: Valid | None = None,
) -> ConfigKey:
    named = (Synonym(synonyms),) if isinstance(synonyms, str) else synonyms
    return ConfigKey(name, kind, default, documentation, valid, synonyms=named)


_KEYS = (
    _key(
        "cleanup.policy",
        LIST,
        ("delete",),
        "log.cleanup.policy",
        "What happens to old records: delete drops whole segments by age or size, compact keeps"
        " the last record of each key, both do both. Empty: only DeleteRecords removes any.",
        Items(("compact", "delete")),
    ),
    _key(
        "compression.gzip.level",
        INT,
        -1,
        "compression.gzip.level",
        "How hard gzip tries, if compression.type is gzip; -1 is the codec's own default.",
        Between(1, 9, exception=-1),
    ),
    _key(
        "compression.lz4.level",
        INT,
        9,
        "compression.lz4.level",
        "How hard lz4 tries, if compression.type is lz4.",
        Between(1, 17),
    ),
    _key(
        "compression.type",
        STRING,
        "producer",
        "compression.type",
        "The codec that batches are stored in; producer keeps whatever the producer chose.",
        OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
    ),
    _key(
        "compression.zstd.level",
        INT,
        3,
        "compression.zstd.level",
        "How hard zstd tries, if compression.type is zstd.",
        Between(-131072, 22),
    ),
    _key(
        "delete.retention.ms",
        LONG,
        86_400_000,
        "log.cleaner.delete.retention.ms",
        "How long compaction keeps tombstones, so that a reader that began before them still"
        " sees them.",
        AtLeast(0),
    ),
    _key(
        "file.delete.delay.ms",
        LONG,
        60_000,
        "log.segment.delete.delay.ms",
        "How long a removed file stays on disk under another name.",
        AtLeast(0),
    ),
    _key(
        "flush.messages",
        LONG,
        LONG_MAX,
        "log.flush.interval.messages",
        "After how many records the log is flushed to disk. Replication, not flushing, is what"
        " keeps records safe by default.",
        AtLeast(1),
    ),
    _key(
        "flush.ms",
        LONG,
        LONG_MAX,
        (Synonym("log.flush.interval.ms"), Synonym("log.flush.scheduler.interval.ms")),
        "After how long the log is flushed to disk.",
        AtLeast(0),
    ),
    _key(
        "follower.replication.throttled.replicas",
        LIST,
        (),
        (),
        "The replicas whose fetching is throttled: partition:broker items, or * for all.",
        ThrottledReplicas(),
    ),
    _key(
        "index.interval.bytes",
        INT,
        4096,
        "log.index.interval.bytes",
        "How many bytes of records lie between two entries of the offset index.",
        AtLeast(0),
    ),
    _key(
        "leader.replication.throttled.replicas",
        LIST,
        (),
        (),
        "The replicas whose serving is throttled: partition:broker items, or * for all.",
        ThrottledReplicas(),
    ),
    _key(
        "local.retention.bytes",
        LONG,
        -2,
        "log.local.retention.bytes",
        "With remote storage: how many bytes a partition keeps on local disk; -2 stands for"
        " retention.bytes.",
        AtLeast(-2),
    ),
    _key(
        "local.retention.ms",
        LONG,
        -2,
        "log.local.retention.ms",
        "With remote storage: how long segments stay on local disk; -2 stands for retention.ms.",
        AtLeast(-2),
    ),
    _key(
        "max.compaction.lag.ms",
        LONG,
        LONG_MAX,
        "log.cleaner.max.compaction.lag.ms",
        "After how long a record may no longer evade compaction.",
        AtLeast(1),
    ),
    _key(
        "max.message.bytes",
        INT,
        1_048_588,
        "message.max.bytes",
        "The size of the largest batch that is accepted, after compression.",
        AtLeast(0),
    ),
    _key(
        "message.timestamp.after.max.ms",
        LONG,
        HOUR_MS,
        "log.message.timestamp.after.max.ms",
        "How far a record's timestamp may lie ahead of the broker's clock. Not looked at with"
        " LogAppendTime.",
        AtLeast(0),
    ),
    _key(
        "message.timestamp.before.max.ms",
        LONG,
        LONG_MAX,
        "log.message.timestamp.before.max.ms",
        "How far a record's timestamp may lie behind the broker's clock. Not looked at with"
        " LogAppendTime.",
        AtLeast(0),
    ),
    _key(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "log.message.timestamp.type",
        "Whose clock stamps a record: the producer's (CreateTime) or the broker's (LogAppendTime).",
        OneOf(("CreateTime", "LogAppendTime")),
    ),
    _key(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        0.5,
        "log.cleaner.min.cleanable.ratio",
        "Which part of a log must be dirty before it is compacted.",
        Between(0, 1),
    ),
    _key(
        "min.compaction.lag.ms",
        LONG,
        0,
        "log.cleaner.min.compaction.lag.ms",
        "For how long a record is safe from compaction.",
        AtLeast(0),
    ),
    _key(
        "min.insync.replicas",
        INT,
        1,
        "min.insync.replicas",
        "How many replicas must be in sync for acks=all to be answered with success; below it"
        " the high watermark stands still.",
        AtLeast(1),
    ),
    _key(
        "preallocate",
        BOOLEAN,
        False,
        "log.preallocate",
        "Whether a new segment's file is made at its full size.",
    ),
    _key(
        "remote.log.copy.disable",
        BOOLEAN,
        False,
        (),
        "With remote storage: no more segments are copied there.",
    ),
    _key(
        "remote.log.delete.on.disable",
        BOOLEAN,
        False,
        (),
        "With remote storage: what was copied is removed when it is turned off.",
    ),
    _key(
        "remote.storage.enable", BOOLEAN, False, (), "Whether segments are moved to remote storage."
    ),
    _key(
        "retention.bytes",
        LONG,
        -1,
        "log.retention.bytes",
        "How many bytes a partition keeps under the delete policy; -1 is no limit.",
    ),
    _key(
        "retention.ms",
        LONG,
        604_800_000,
        (
            Synonym("log.retention.ms"),
            Synonym("log.retention.minutes", MINUTE_MS),
            Synonym("log.retention.hours", HOUR_MS),
        ),
        "How long records are kept under the delete policy; -1 is for ever.",
        AtLeast(-1),
    ),
    _key(
        "segment.bytes",
        INT,
        1 << 30,
        "log.segment.bytes",
        "At which size a segment is closed and the next one begun.",
        AtLeast(1 << 20),
    ),
    _key(
        "segment.index.bytes",
        INT,
        10 << 20,
        "log.index.size.max.bytes",
        "The largest size of a segment's index; a full one closes the segment.",
        AtLeast(4),
    ),
    _key(
        "segment.jitter.ms",
        LONG,
        0,
        (Synonym("log.roll.jitter.ms"), Synonym("log.roll.jitter.hours", HOUR_MS)),
        "At most how much earlier than segment.ms a segment is closed, drawn by chance, so that"
        " not all logs roll at once.",
        AtLeast(0),
    ),
    _key(
        "segment.ms",
        LONG,
        604_800_000,
        (Synonym("log.roll.ms"), Synonym("log.roll.hours", HOUR_MS)),
        "At which age a segment is closed even if it is small, so that retention can take it.",
        AtLeast(1),
    ),
    _key(
        "unclean.leader.election.enable",
        BOOLEAN,
        False,
        "unclean.leader.election.enable",
        "Whether a replica that lags may lead when no other is left, at the price of records"
        " that were acknowledged.",
    ),
    ConfigKey(
        "internal.segment.bytes",
        INT,
        None,
        "A segment size below the allowed one, for tests.",
        is_internal=True,
    ),
)

TOPIC_KEYS: Mapping[str, ConfigKey] = {key.name: key for key in _KEYS}
_OF_BROKER = {synonym.name: key.name for key in _KEYS for synonym in key.synonyms}


def allowed_topic_names(name: str) -> str:
    """For whoever wrote one that topics do not have; that of the broker's key, perhaps."""
    return allowed_names(_OF_BROKER.get(name, name), (k.name for k in _KEYS if not k.is_internal))


def parse_topic_configs(overrides: Mapping[str, str]) -> dict[str, Value]:
    """The typed values of a topic's own configs; InvalidConfig names the first that is wrong."""
    values = {}
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            raise InvalidConfig(f"Unknown topic config name: {name}{allowed_topic_names(name)}")
        if len(text) > VALUE_LENGTH_MAX:
            raise InvalidConfig(
                f"The configuration value for {name} is longer than {VALUE_LENGTH_MAX} characters"
            )
        values[name] = key.parse(text)
    return values


def validate_topic_configs(overrides: Mapping[str, str], defaults: Mapping[str, Value]) -> None:
    """All that a topic's configs must fulfil together; `defaults` is what the broker gives
    where the topic is silent. InvalidConfig says what is wrong."""
    values = {**defaults, **parse_topic_configs(overrides)}

    def value(name: str) -> Value:
        return values.get(name, TOPIC_KEYS[name].default)

    minimum, maximum = value("min.compaction.lag.ms"), value("max.compaction.lag.ms")
    assert isinstance(minimum, int)
    assert isinstance(maximum, int)
    if minimum > maximum:
        raise InvalidConfig(
            "conflict topic config setting min.compaction.lag.ms"
            f" ({minimum}) > max.compaction.lag.ms ({maximum})"
        )
    if value("remote.storage.enable"):
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker."
            " Topic cannot be configured with remote log storage."
        )
