"""From configs as people write them to what a log works with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.config.broker import BrokerConfig
from tidelog.config.definition import InvalidConfig
from tidelog.config.topic import TOPIC_KEYS
from tidelog.config.valid import Value
from tidelog.log.config import LogConfig
from tidelog.wire.batch import TimestampType

TIMESTAMP_TYPES = {
    "CreateTime": TimestampType.CREATE_TIME,
    "LogAppendTime": TimestampType.LOG_APPEND_TIME,
}


def log_config(overrides: Mapping[str, str], broker: BrokerConfig) -> LogConfig:
    """A topic's own configs over what the broker gives.

    What does not parse is passed over: the controller refuses it, but the metadata log may come
    from elsewhere, and a partition must not fail because of it.
    """
    values: dict[str, Value] = broker.topic_defaults()
    for name, text in overrides.items():
        key = TOPIC_KEYS.get(name)
        if key is None:
            continue
        try:
            values[name] = key.parse(text)
        except InvalidConfig:
            continue
    segment_bytes = values.pop("internal.segment.bytes")
    if segment_bytes is not None:
        values["segment.bytes"] = segment_bytes
    fields: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
    fields["cleanup_policy"] = frozenset(fields["cleanup_policy"])
    fields["message_timestamp_type"] = TIMESTAMP_TYPES[fields["message_timestamp_type"]]
    return LogConfig(producer_id_expiration_ms=broker.producer_id_expiration_ms, **fields)
