"""Configs: changes take effect, survive a restart, and are refused with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node_client import BROKER, DELETE, SET, TOPIC, Cluster

from tidelog.errors import ErrorCode
from tidelog.wire.messages import alter_configs, describe_configs, list_config_resources

APPEND = 2


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create_topic("t")
    return cluster


def describe(cluster: Cluster, kind: int, name: str, *keys: str, **fields: Any) -> Any:
    version = fields.pop("version", None)
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys or None
    )
    request = describe_configs.DescribeConfigsRequest(resources=(resource,), **fields)
    (result,) = cluster.ask(request, version).results
    return result


def value(cluster: Cluster, kind: int, name: str, key: str) -> tuple[str | None, int]:
    (config,) = describe(cluster, kind, name, key).configs
    return config.value, config.config_source


def alter(cluster: Cluster, kind: int, name: str, version: int = 2, **configs: str) -> Any:
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            alter_configs.AlterableConfig(name=key.replace("_", "."), value=text)
            for key, text in configs.items()
        ),
    )
    request = alter_configs.AlterConfigsRequest(resources=(resource,), validate_only=False)
    (result,) = cluster.ask(request, version).responses
    return result


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes(cluster: Cluster, version: int) -> None:
    result = describe(cluster, TOPIC, "t", "retention.ms", version=version)
    assert (result.error_code, result.resource_type, result.resource_name) == (0, TOPIC, "t")
    (config,) = result.configs
    assert (config.name, config.value, config.read_only) == ("retention.ms", "604800000", False)
    whole = describe(cluster, TOPIC, "t", version=version)
    assert len(whole.configs) > 30


def test_synonyms_and_documentation_come_if_asked_for(cluster: Cluster) -> None:
    (plain,) = describe(cluster, TOPIC, "t", "retention.ms").configs
    assert (plain.synonyms, plain.documentation) == ((), None)
    (full,) = describe(
        cluster, TOPIC, "t", "max.message.bytes", include_synonyms=True, include_documentation=True
    ).configs
    assert full.documentation
    assert "message.max.bytes" in {synonym.name for synonym in full.synonyms}


def test_describing_what_is_not_there(cluster: Cluster) -> None:
    unknown = describe(cluster, TOPIC, "u")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(cluster, BROKER, "7").error_code == ErrorCode.INVALID_REQUEST
    assert describe(cluster, 99, "t").error_code == ErrorCode.INVALID_REQUEST


def test_max_message_bytes_takes_effect_and_survives(cluster: Cluster) -> None:
    assert cluster.configure(TOPIC, "t", max_message_bytes="100").error_code == 0
    assert cluster.produce("t", bytes(100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    cluster.restart()
    assert value(cluster, TOPIC, "t", "max.message.bytes") == ("100", 1)
    assert cluster.produce("t", bytes(100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert cluster.configure(TOPIC, "t", DELETE, max_message_bytes=None).error_code == 0
    assert value(cluster, TOPIC, "t", "max.message.bytes") == ("1048588", 5)
    assert cluster.produce("t", bytes(100)).error_code == 0


def test_the_timestamp_type_takes_effect(cluster: Cluster) -> None:
    assert cluster.produce("t", b"a").log_append_time_ms == -1
    cluster.configure(TOPIC, "t", message_timestamp_type="LogAppendTime")
    assert cluster.produce("t", b"a").log_append_time_ms == cluster.shell.now.wall_ms


def test_a_smaller_segment_rolls_at_the_next_append(cluster: Cluster) -> None:
    log = cluster.partition("t").log
    for _ in range(3):
        cluster.produce("t", bytes(500_000))
    assert len(log.segments) == 1
    cluster.configure(TOPIC, "t", segment_bytes=str(1 << 20))
    cluster.produce("t", b"a")
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    assert cluster.values("t") == [bytes(500_000)] * 3 + [b"a"]


def test_a_shorter_segment_time_rolls_by_the_records_times(cluster: Cluster) -> None:
    log = cluster.partition("t").log
    cluster.produce("t", b"a")
    cluster.configure(TOPIC, "t", segment_ms="1000")
    cluster.shell.advance(1001)
    cluster.produce("t", b"b")
    assert len(log.segments) == 2


@pytest.mark.parametrize("resource", ["1", ""])
def test_a_brokers_configs_reach_topics_that_have_none_of_their_own(
    cluster: Cluster, resource: str
) -> None:
    cluster.create_topic("own", max_message_bytes="1000")
    assert cluster.configure(BROKER, resource, message_max_bytes="200").error_code == 0
    source = 2 if resource else 3
    assert value(cluster, BROKER, "1", "message.max.bytes") == ("200", source)
    for _ in range(2):
        assert cluster.produce("t", bytes(200)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert cluster.produce("own", bytes(200)).error_code == 0
        cluster.restart()
    cluster.configure(BROKER, resource, DELETE, message_max_bytes=None)
    assert cluster.produce("t", bytes(200)).error_code == 0


def test_the_nearer_broker_config_wins(cluster: Cluster) -> None:
    cluster.configure(BROKER, "", message_max_bytes="200")
    cluster.configure(BROKER, "1", message_max_bytes="300")
    assert value(cluster, BROKER, "1", "message.max.bytes") == ("300", 2)
    assert cluster.partition("t").log.config.max_message_bytes == 300


@pytest.mark.parametrize(
    ("kind", "resource", "name", "text"),
    [
        (TOPIC, "t", "max_message_bytes", "-1"),
        (TOPIC, "t", "max_message_bytes", "many"),
        (TOPIC, "t", "cleanup_policy", "shred"),
        (TOPIC, "t", "message_timestamp_type", "Whenever"),
        (TOPIC, "t", "no_such_config", "1"),
        (BROKER, "1", "message_max_bytes", "x"),
    ],
)
def test_values_that_are_not_allowed(
    cluster: Cluster, kind: int, resource: str, name: str, text: str
) -> None:
    before = cluster.broker.metadata.log.log_end_offset
    for result in (
        cluster.configure(kind, resource, SET, **{name: text}),
        alter(cluster, kind, resource, 2, **{name: text}),
    ):
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert name.replace("_", ".") in result.error_message
    assert cluster.broker.metadata.log.log_end_offset == before


def test_changing_what_is_not_there_or_not_changeable(cluster: Cluster) -> None:
    unknown = cluster.configure(TOPIC, "u", retention_ms="1")
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    read_only = cluster.configure(BROKER, "1", log_dirs="elsewhere")
    assert read_only.error_code == ErrorCode.INVALID_REQUEST
    other_broker = cluster.configure(BROKER, "2", message_max_bytes="1")
    assert other_broker.error_code != 0


def test_a_list_can_be_appended_to(cluster: Cluster) -> None:
    cluster.configure(TOPIC, "t", APPEND, cleanup_policy="compact")
    assert value(cluster, TOPIC, "t", "cleanup.policy") == ("delete,compact", 1)
    assert cluster.partition("t").log.config.is_compacted
    assert cluster.produce("t", b"a", key=None).error_code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("version", range(3))
def test_alter_configs_replaces_all(cluster: Cluster, version: int) -> None:
    cluster.configure(TOPIC, "t", max_message_bytes="100", segment_ms="1000")
    assert alter(cluster, TOPIC, "t", version, segment_ms="2000").error_code == 0
    config = cluster.partition("t").log.config
    assert (config.max_message_bytes, config.segment_ms) == (1_048_588, 2000)


def test_a_topics_configs_go_with_it(cluster: Cluster) -> None:
    cluster.configure(TOPIC, "t", max_message_bytes="100")
    cluster.delete_topic("t")
    cluster.create_topic("t")
    assert cluster.produce("t", bytes(200)).error_code == 0


def test_resources_with_configs_are_listed(cluster: Cluster) -> None:
    def listed(version: int, *types: int) -> list[tuple[int, str]]:
        fields: Any = {"resource_types": types} if version else {}
        request = list_config_resources.ListConfigResourcesRequest(**fields)
        response = cluster.ask(request, version)
        assert response.error_code == 0
        return [(one.resource_type, one.resource_name) for one in response.config_resources]

    assert listed(0) == []
    assert set(listed(1)) == {(2, "t"), (4, "1"), (8, "1")}
    assert listed(1, TOPIC) == [(2, "t")]
    refused = cluster.ask(list_config_resources.ListConfigResourcesRequest(resource_types=(99,)))
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
