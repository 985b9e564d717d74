"""A topic's configs over the broker's, as a log sees them."""

from __future__ import annotations

from tests.unit.config.test_broker import config

from tidelog.config.log import log_config
from tidelog.log.config import LogConfig
from tidelog.wire.batch import TimestampType


def test_defaults_are_those_of_the_log():
    assert log_config({}, config()) == LogConfig()


def test_a_topic_overrides_its_broker():
    broker = config(log_retention_hours="1", log_cleanup_policy="compact", message_max_bytes="9")
    made = log_config({"retention.ms": "5", "message.timestamp.type": "LogAppendTime"}, broker)
    assert made.retention_ms == 5
    assert made.cleanup_policy == frozenset({"compact"})
    assert made.max_message_bytes == 9
    assert made.message_timestamp_type is TimestampType.LOG_APPEND_TIME


def test_the_internal_segment_size_wins():
    overrides = {"segment.bytes": "1048576", "internal.segment.bytes": "100"}
    assert log_config(overrides, config()).segment_bytes == 100


def test_what_the_controller_would_refuse_is_passed_over():
    overrides = {"segment.bytes": "1", "retention.ms": "soon", "no.such": "1"}
    assert log_config(overrides, config()) == LogConfig()
