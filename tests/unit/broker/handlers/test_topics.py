"""CreateTopics, DeleteTopics and CreatePartitions, and what becomes of the files."""

from __future__ import annotations

from itertools import pairwise
from math import ceil
from typing import Any

import pytest
from tests.unit.node_client import Cluster, create_topic_request, parse_response

from tidelog.broker.hosting import OPEN_COST
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.events import Effect, Event, Flush, Flushed, RemoveTree, Ticked
from tidelog.runtime.jobs import STEP_COST_MAX
from tidelog.types import ZERO_UUID
from tidelog.wire.messages import create_partitions, create_topics, delete_topics

CREATE_TOPICS = 19


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def directories(cluster: Cluster) -> list[str]:
    disk = cluster.shell.disk
    return [name for name in disk.names("data") if disk.is_directory(f"data/{name}")][1:]


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates(cluster: Cluster, version: int) -> None:
    (result,) = cluster.ask(create_topic_request("t", 2, retention_ms="5"), version).topics
    assert (result.error_code, result.name) == (0, "t")
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (2, 1)
        configs = {config.name: config.value for config in result.configs}
        assert configs["retention.ms"] == "5"
    if version >= 7:
        assert result.topic_id == cluster.topic_id("t")
    assert directories(cluster) == ["t-0", "t-1"]
    for index in (0, 1):
        assert cluster.produce("t", b"a", partition=index).base_offset == 0


def test_creation_is_answered_when_it_is_durable(cluster: Cluster) -> None:
    cluster.shell.flush_ms = (7, 7)
    cluster.send(create_topic_request("t"))
    cluster.shell.advance(6)
    assert cluster.frames() == []
    assert "t" not in cluster.broker.image.topics
    cluster.shell.advance(1)
    assert len(cluster.take(CREATE_TOPICS)) == 1
    cluster.crash()
    assert cluster.metadata("t").topics[0].error_code == 0


def test_what_is_decided_at_once_shares_a_flush(cluster: Cluster) -> None:
    cluster.shell.flush_ms = (5, 5)
    sent = [cluster.send(create_topic_request(name)) for name in "abc"]
    again = cluster.send(create_topic_request("a"))
    cluster.shell.advance(5)
    frames = cluster.frames()
    assert [parse_response(CREATE_TOPICS, None, frame)[0] for frame in frames] == sent[:1]
    cluster.shell.advance(5)
    answers = [parse_response(CREATE_TOPICS, None, frame) for frame in cluster.frames()]
    assert [correlation for correlation, _ in answers] == [*sent[1:], again]
    assert answers[-1][1].topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_creation_that_takes_too_long_times_out(cluster: Cluster) -> None:
    cluster.shell.flush_ms = (500, 500)
    request = create_topic_request("t").replace(timeout_ms=100)
    cluster.send(request)
    cluster.shell.advance(100)
    (answer,) = cluster.take(CREATE_TOPICS)
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    cluster.shell.advance(500)
    assert "t" in cluster.broker.image.topics


def test_refusals_do_not_stop_the_others(cluster: Cluster) -> None:
    cluster.create_topic("old")
    good = create_topic_request("good").topics
    bad = [
        create_topic_request("old").topics[0],
        create_topic_request("a b").topics[0],
        create_topic_request("config", retention_ms="x").topics[0],
        create_topic_request("unknown", no_such="1").topics[0],
    ]
    more = [
        bad[0].replace(name="rf", replication_factor=2),
        bad[0].replace(name="none", num_partitions=0),
    ]
    request = create_topics.CreateTopicsRequest(topics=(*good, *bad, *more))
    answers = {result.name: result for result in cluster.ask(request).topics}
    assert {name: ErrorCode(result.error_code).name for name, result in answers.items()} == {
        "good": "NONE",
        "old": "TOPIC_ALREADY_EXISTS",
        "a b": "INVALID_TOPIC_EXCEPTION",
        "config": "INVALID_CONFIG",
        "unknown": "INVALID_CONFIG",
        "rf": "INVALID_REPLICATION_FACTOR",
        "none": "INVALID_PARTITIONS",
    }
    assert sorted(cluster.broker.image.topics) == ["good", "old"]


def test_validate_only_changes_nothing(cluster: Cluster) -> None:
    end = cluster.broker.metadata.log.log_end_offset
    request = create_topic_request("t", 4).replace(validate_only=True)
    (result,) = cluster.ask(request).topics
    assert (result.error_code, result.num_partitions) == (0, 4)
    assert cluster.broker.metadata.log.log_end_offset == end
    assert directories(cluster) == []


OPENED_A_STEP = ceil(STEP_COST_MAX / (OPEN_COST + 1))


def test_many_partitions_are_made_a_few_a_step(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.send(create_topic_request("t", 3 * OPENED_A_STEP))
    node = cluster.shell.node
    assert node is not None
    made: list[int] = []
    step = node.step

    def counted(event: Event, now: Now) -> list[Effect]:
        effects = step(event, now)
        made.append(len(cluster.broker.hosting.by_name))
        return effects

    monkeypatch.setattr(node, "step", counted)
    cluster.shell.advance(10)
    grown = [after - before for before, after in pairwise([0, *made]) if after > before]
    assert grown == [OPENED_A_STEP] * 3


def test_a_partition_is_there_for_who_asks_before_its_turn(cluster: Cluster) -> None:
    count = 3 * OPENED_A_STEP
    cluster.send(create_topic_request("t", count))
    node = cluster.shell.node
    assert node is not None
    effects = list(cluster.shell.effects)
    for _ in range(10):  # the decision may take some steps
        effects += node.step(Ticked(), cluster.shell.now)
    flush = [effect for effect in effects if isinstance(effect, Flush)][-1]
    node.step(Flushed(flush.token), cluster.shell.now)
    assert len(cluster.broker.hosting.by_name) == OPENED_A_STEP
    request = cluster.produce_request("t", cluster.batch(b"a"), partition=count - 1)
    other = cluster.shell.connect()  # the first one still waits
    (last,) = cluster.ask(request, 9, connection=other).responses[0].partition_responses
    assert (last.error_code, last.base_offset) == (0, 0)
    assert len(cluster.broker.hosting.by_name) == OPENED_A_STEP + 1


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes(cluster: Cluster, version: int) -> None:
    cluster.create_topic("t")
    state = delete_topics.DeleteTopicState(name="t", topic_id=ZERO_UUID)
    fields: Any = {"topics": (state,)} if version >= 6 else {"topic_names": ("t",)}
    request = delete_topics.DeleteTopicsRequest(timeout_ms=1000, **fields)
    (result,) = cluster.ask(request, version).responses
    assert (result.error_code, result.name) == (0, "t")
    assert cluster.metadata("t", allow_auto_topic_creation=False).topics[0].error_code == 3
    assert cluster.fetch("t", 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deletion_by_id_and_its_refusals(cluster: Cluster) -> None:
    cluster.create_topic("t")
    states = (
        delete_topics.DeleteTopicState(name=None, topic_id=cluster.topic_id("t")),
        delete_topics.DeleteTopicState(name=None, topic_id=b"x" * 16),  # type: ignore[arg-type]
        delete_topics.DeleteTopicState(name="u", topic_id=ZERO_UUID),
    )
    answers = cluster.ask(delete_topics.DeleteTopicsRequest(topics=states, timeout_ms=99)).responses
    assert sorted(ErrorCode(answer.error_code).name for answer in answers) == [
        "NONE",
        "UNKNOWN_TOPIC_ID",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]
    strict = Cluster(delete_topic_enable="false")
    strict.create_topic("t")
    assert strict.delete_topic("t").error_code == ErrorCode.TOPIC_DELETION_DISABLED


def test_files_are_renamed_at_once_and_removed_later(cluster: Cluster) -> None:
    cluster.create_topic("t", 2, file_delete_delay_ms="5000")
    cluster.produce("t", b"a")
    cluster.delete_topic("t")
    names = directories(cluster)
    assert [name[:4] for name in names] == ["t-0.", "t-1."]
    assert all(name.endswith("-delete") for name in names)
    cluster.shell.advance(5000 - 1001)
    assert directories(cluster) == names
    cluster.shell.advance(2000)
    assert directories(cluster) == []
    removed = [effect for effect in cluster.shell.effects if isinstance(effect, RemoveTree)]
    assert len(removed) == 2


def test_a_topic_comes_again_empty(cluster: Cluster) -> None:
    cluster.create_topic("t")
    first = cluster.topic_id("t")
    cluster.produce("t", b"old")
    cluster.delete_topic("t")
    cluster.create_topic("t")
    assert cluster.topic_id("t") != first
    assert cluster.produce("t", b"new").base_offset == 0
    cluster.shell.advance(120_000)
    assert directories(cluster) == ["t-0"]
    cluster.restart()
    assert cluster.values("t") == [b"new"]


def test_what_was_deleted_stays_deleted_after_a_kill(cluster: Cluster) -> None:
    cluster.create_topic("t")
    cluster.create_topic("u")
    cluster.produce("t", b"old")
    cluster.delete_topic("t")
    cluster.kill()
    assert sorted(cluster.broker.image.topics) == ["u"]
    assert directories(cluster) == ["u-0"]
    cluster.create_topic("t")
    assert cluster.values("t") == []


def test_a_flush_under_way_does_not_trip_over_a_deletion(cluster: Cluster) -> None:
    cluster.create_topic("t", flush_messages="1")
    cluster.shell.advance(5000)
    cluster.shell.flush_ms = (20, 20)
    cluster.send(cluster.produce_request("t", cluster.batch(b"a")), 9)
    cluster.shell.flush_ms = (1, 1)
    connection = cluster.shell.connect()
    state = delete_topics.DeleteTopicState(name="t", topic_id=ZERO_UUID)
    request = delete_topics.DeleteTopicsRequest(topics=(state,), timeout_ms=1000)
    assert cluster.ask(request, connection=connection).responses[0].error_code == 0
    cluster.shell.advance(5000)
    assert cluster.shell.stopped is None
    assert len(cluster.frames()) == 1


def grow(cluster: Cluster, name: str, count: int, version: int | None = None, **v: Any) -> Any:
    topic = create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = create_partitions.CreatePartitionsRequest(
        topics=(topic,), timeout_ms=1000, validate_only=v.get("validate_only", False)
    )
    (result,) = cluster.ask(request, version).results
    return ErrorCode(result.error_code)


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added(cluster: Cluster, version: int) -> None:
    cluster.create_topic("t")
    cluster.produce("t", b"a")
    assert grow(cluster, "t", 3, version, validate_only=True) == 0
    assert len(cluster.metadata("t").topics[0].partitions) == 1
    assert grow(cluster, "t", 3, version) == 0
    assert cluster.produce("t", b"b", partition=2).base_offset == 0
    assert grow(cluster, "t", 3, version) == ErrorCode.INVALID_PARTITIONS
    assert grow(cluster, "u", 3, version) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cluster.restart()
    assert cluster.values("t") == [b"a"]
    assert cluster.values("t", partition=2) == [b"b"]
