"""One node in virtual time and memory, asked with real frames."""

from __future__ import annotations

from tests.unit.node_client import Cluster

from tidelog.errors import ErrorCode
from tidelog.wire.messages import api_versions, metadata


def test_api_versions_lists_what_is_served() -> None:
    cluster = Cluster()
    request = api_versions.ApiVersionsRequest(
        client_software_name="test", client_software_version="1"
    )
    response = cluster.ask(request)
    assert response.error_code == ErrorCode.NONE
    keys = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert keys[0] == (0, 13)
    assert keys[22] == (0, 5)
    assert 11 not in keys


def test_produce_and_fetch() -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    produced = cluster.produce("t", b"a", b"b")
    assert (produced.error_code, produced.base_offset) == (0, 0)
    fetched = cluster.fetch("t", 0)
    assert (fetched.error_code, fetched.high_watermark) == (0, 2)


def test_metadata_names_the_broker_and_the_leader() -> None:
    cluster = Cluster()
    cluster.create_topic("t", 3)
    response = cluster.ask(metadata.MetadataRequest(topics=None))
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "127.0.0.1", 9092)]
    (topic,) = response.topics
    assert [p.leader_id for p in topic.partitions] == [1, 1, 1]
