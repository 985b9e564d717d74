"""A node's configuration, read from properties."""

from __future__ import annotations

import typing

import pytest

from tidelog.config.broker import BROKER_KEYS, BrokerConfig, attribute
from tidelog.config.definition import ConfigType, InvalidConfig
from tidelog.config.listeners import Endpoint, Voter

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.voters": "1@localhost:9093",
    "log.dirs": "/data/a, /data/b",
}
PYTHON_TYPES = {
    ConfigType.BOOLEAN: bool,
    ConfigType.STRING: str,
    ConfigType.INT: int,
    ConfigType.SHORT: int,
    ConfigType.LONG: int,
    ConfigType.DOUBLE: float,
    ConfigType.LIST: tuple[str, ...],
}


def config(**changes: str | None) -> BrokerConfig:
    given = {**COMBINED, **{name.replace("_", "."): text for name, text in changes.items()}}
    return BrokerConfig.from_properties({k: v for k, v in given.items() if v is not None})


def test_the_fields_have_the_types_that_the_keys_declare():
    hints = typing.get_type_hints(BrokerConfig)
    for key in BROKER_KEYS.values():
        expected = PYTHON_TYPES[key.type]
        hint = hints[attribute(key.name)]
        nullable = key.default is None and not key.is_required
        assert hint == (expected | None if nullable else expected), key.name


def test_every_key_says_what_it_is_for():
    assert all(key.documentation.endswith(".") for key in BROKER_KEYS.values())


def test_values_are_typed_and_the_rest_are_defaults():
    node = config(log_segment_bytes="2097152", auto_create_topics_enable="false")
    assert node.log_segment_bytes == 2097152
    assert node.auto_create_topics_enable is False
    assert node.num_partitions == 1
    assert node.data_dirs == ("/data/a", "/data/b")
    assert node.metadata_dir == "/data/a"
    assert node.is_broker
    assert node.is_controller
    assert node.voters == (Voter(1, "localhost", 9093),)


def test_endpoints():
    node = config(advertised_listeners="PLAINTEXT://example.com:19092")
    assert node.bound_endpoints == (
        Endpoint("PLAINTEXT", "", 9092),
        Endpoint("CONTROLLER", "", 9093),
    )
    assert node.advertised_endpoints == (Endpoint("PLAINTEXT", "example.com", 19092),)
    assert node.controller_endpoints == (Endpoint("CONTROLLER", "localhost", 9093),)
    assert config().advertised_endpoints == (Endpoint("PLAINTEXT", "localhost", 9092),)
    node = config(listeners="PLAINTEXT://[::1]:9092,CONTROLLER://:0")
    assert node.bound_endpoints[0].host == "::1"


def test_a_controllers_listener_may_be_advertised_elsewhere_too():
    both = "PLAINTEXT://a:1,CONTROLLER://b:2"
    assert config(advertised_listeners=both).controller_endpoints == (
        Endpoint("CONTROLLER", "b", 2),
    )
    assert config(advertised_listeners=both).advertised_endpoints == (
        Endpoint("PLAINTEXT", "a", 1),
    )


def test_without_listeners_nobody_outside_gets_in():
    node = BrokerConfig.from_properties(
        {
            "process.roles": "broker",
            "node.id": "2",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
        }
    )
    assert node.bound_endpoints == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)


def test_broker_id_is_the_old_name_of_node_id():
    assert config(node_id=None, broker_id="7", controller_quorum_voters="7@a:1").node_id == 7


def test_keys_of_kafka_without_meaning_are_named_and_others_refused():
    node = config(num_io_threads="8", metric_reporters="")
    assert node.unused == ("metric.reporters", "num.io.threads")
    with pytest.raises(InvalidConfig) as refused:
        config(log_segment_byte="1")
    assert str(refused.value).startswith(
        "Unknown configuration log.segment.byte (allowed: what docs/configuration.md lists;"
        " nearest: log.segment.bytes, "
    )
    with pytest.raises(InvalidConfig, match=r"nearest: num\.io\.threads"):
        config(num_io_thread="1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_id": None}, 'Missing required configuration "node.id"'),
        ({"process_roles": "broker,zookeeper"}, "must be one of: broker, controller"),
        ({"controller_quorum_voters": None}, "must name the controllers"),
        ({"controller_quorum_voters": "2@a:1"}, "node.id 1 is not among the ids [2]"),
        ({"controller_quorum_voters": "1@a:1,1@b:2"}, "different id"),
        ({"process_roles": "broker"}, "take CONTROLLER out of listeners"),
        (
            {"process_roles": "broker", "listeners": "PLAINTEXT://:1"},
            "only a broker cannot be a voter",
        ),
        ({"listeners": "PLAINTEXT://:1"}, "A controller must listen"),
        ({"listeners": "PLAINTEXT://a"}, "want name://host:port"),
        ({"listeners": "PLAINTEXT://:1,CONTROLLER://:1"}, "different port"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "different name"),
        ({"listeners": "SSL://:1,CONTROLLER://:2"}, "only PLAINTEXT is there so far"),
        ({"listeners": "ODD://:1,CONTROLLER://:2"}, "add ODD:PLAINTEXT"),
        ({"listener_security_protocol_map": "A:B"}, "want name:protocol"),
        ({"inter_broker_listener_name": "CONTROLLER"}, "must not be a controller listener"),
        ({"inter_broker_listener_name": "OTHER"}, "not among the advertised listeners"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1,CONTROLLER://:2"}, "cannot use 0.0.0.0"),
        (
            {"log.dirs": "a,b", "cordoned.log.dirs": "b,c"},
            "must be present in log.dirs or log.dir. Missing entries : c (allowed: a, b or *)",
        ),
        ({"log.dirs": "a", "cordoned.log.dirs": "*,a"}, "it must not contain other values"),
        ({"log_segment_bytes": "5"}, "Value must be at least 1048576"),
    ],
)
def test_what_does_not_make_a_node_is_refused_in_one_line(changes, message):
    with pytest.raises(InvalidConfig) as refused:
        config(**changes)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_dynamic_values_override_the_file_and_the_broker_overrides_the_cluster():
    node = config(message_max_bytes="1000", num_partitions="3")
    changed = node.with_dynamic(
        {"message.max.bytes": "2000", "log.retention.ms": "5", "num.partitions": "9"},
        {"log.retention.ms": "6", "log.segment.bytes": "rubbish", "no.such.key": "1"},
    )
    assert (changed.message_max_bytes, changed.log_retention_ms) == (2000, 6)
    assert changed.num_partitions == 3, "read-only"
    assert changed.log_segment_bytes == node.log_segment_bytes
    assert node.with_dynamic({}) is node


def test_topic_defaults_follow_the_synonyms_in_order():
    assert config().topic_defaults()["retention.ms"] == 604_800_000
    assert config(log_retention_hours="-1").topic_defaults()["retention.ms"] == -1
    assert config(log_retention_minutes="2").topic_defaults()["retention.ms"] == 120_000
    both = config(log_retention_minutes="2", log_retention_ms="7").topic_defaults()
    assert both["retention.ms"] == 7
    assert config(log_flush_scheduler_interval_ms="9").topic_defaults()["flush.ms"] == 9
    assert config().topic_defaults()["follower.replication.throttled.replicas"] == ()
