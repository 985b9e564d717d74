"""Requests that no good client sends: Apache Kafka's answers are ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.interop.apache import ApacheNode
from tests.interop.exchange import Closed, Exchange, comparable
from tests.interop.suite import TIMESTAMP_MS
from tests.interop.test_every_version import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    batch,
    created,
    is_produced,
    production,
)
from tidelog.types import ZERO_UUID
from tidelog.wire.batch import TRANSACTIONAL
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.declare import Message
from tidelog.wire.messages import (
    delete_records,
    incremental_alter_configs,
    list_offsets,
    produce,
    update_features,
)

pytestmark = pytest.mark.interop
Answers = list[Any]


@pytest.fixture(scope="module")
def apache() -> Iterator[str]:
    with ApacheNode() as node:
        yield node.bootstrap_servers


def transactional(records: int) -> bytes:
    builder = BatchBuilder()
    for i in range(records):
        builder.append(b"%d" % i, b"value", timestamp=TIMESTAMP_MS + i)
    fields = {"producer_id": 4711, "producer_epoch": 0, "base_sequence": 0}
    return bytes(builder.build(attributes=TRANSACTIONAL, **fields))


def to_topics(*topics: tuple[str, bytes, tuple[tuple[int, bytes], ...]], **fields: Any) -> Message:
    """A Produce with everything where it is said to be, twice too."""
    data = tuple(
        produce.TopicProduceData(
            name=name,
            topic_id=topic_id,
            partition_data=tuple(
                produce.PartitionProduceData(index=index, records=records)
                for index, records in partitions
            ),
        )
        for name, topic_id, partitions in topics
    )
    return produce.ProduceRequest(timeout_ms=10_000, topic_data=data, **{"acks": -1, **fields})


def ready(exchange: Exchange, topic: str) -> bytes:
    """The id of a topic of two partitions that takes records."""
    topic_id = created(exchange, topic, partitions=2)
    for index in (0, 1):
        request = to_topics((topic, ZERO_UUID, ((index, batch(1)),)))
        exchange.ask_until(request, 9, is_produced)
    return topic_id


def ends(exchange: Exchange, topic: str) -> Answers:
    return [offset_of(exchange, topic, -1, partition) for partition in (0, 1)]


def offset_of(exchange: Exchange, topic: str, timestamp: int, partition: int = 0) -> Message:
    place = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    there = list_offsets.ListOffsetsTopic(name=topic, partitions=(place,))
    return exchange.ask(list_offsets.ListOffsetsRequest(replica_id=-1, topics=(there,)), 8)


def producing_twice(exchange: Exchange, topic: str, version: int, *, apart: bool) -> Answers:
    topic_id = ready(exchange, topic)
    first, second = (0, batch(2)), (0, batch(3))
    if apart:
        request = to_topics((topic, topic_id, (first,)), (topic, topic_id, (second,)))
    else:
        request = to_topics((topic, topic_id, (first, (1, batch(4)), second)))
    return [in_order(exchange.ask(request, version)), *ends(exchange, topic)]


def producing_mixed(exchange: Exchange, topic: str, transactional_id: str | None) -> Answers:
    ready(exchange, topic)
    both = ((0, transactional(2)), (1, batch(3)))
    request = to_topics((topic, ZERO_UUID, both), transactional_id=transactional_id)
    return [in_order(exchange.ask(request, 9)), *ends(exchange, topic)]


def in_order(answer: Any) -> Message:
    """A refusal of Apache's has the order of a hash table."""
    topics = tuple(
        topic.replace(
            partition_responses=tuple(sorted(topic.partition_responses, key=lambda p: p.index))
        )
        for topic in answer.responses
    )
    changed: Message = answer.replace(responses=topics)
    return changed


def producing_plain_with_an_id(exchange: Exchange, topic: str) -> Answers:
    ready(exchange, topic)
    request = to_topics((topic, ZERO_UUID, ((0, batch(2)),)), transactional_id="some-id")
    return [exchange.ask(request, 9), *ends(exchange, topic)]


def finding_the_greatest_time(exchange: Exchange, topic: str) -> Answers:
    """While less and less is left; the greatest time is first in one batch, last in another."""
    created(exchange, topic)
    found = []
    for stamps in ((5, 9, 1), (2, 3), (7, 7, 4), (0,)):
        builder = BatchBuilder()
        for stamp in stamps:
            builder.append(b"k", b"v", timestamp=TIMESTAMP_MS + stamp)
        request = production(topic, ZERO_UUID, bytes(builder.build()))
        exchange.ask_until(request, 9, is_produced)
    for offset in range(10):
        place = delete_records.DeleteRecordsPartition(partition_index=0, offset=offset)
        there = delete_records.DeleteRecordsTopic(name=topic, partitions=(place,))
        exchange.ask(delete_records.DeleteRecordsRequest(topics=(there,), timeout_ms=10_000), 2)
        found += [offset_of(exchange, topic, time) for time in (-3, TIMESTAMP_MS + 4)]
    return found


def altering_in_an_unknown_way(exchange: Exchange, topic: str, kind: int, version: int) -> Answers:
    created(exchange, topic)
    name = topic if kind == TOPIC_RESOURCE else "1"
    key = "retention.ms" if kind == TOPIC_RESOURCE else "log.cleaner.threads"
    entry = incremental_alter_configs.AlterableConfig(name=key, config_operation=9, value="1")
    good = entry.replace(config_operation=0)
    answers = []
    for entries in ((entry,), (good, entry)):
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=entries
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=(resource,), validate_only=False
        )
        answers.append(exchange.ask(request, version))
    return answers


def updating_features(exchange: Exchange, topic: str, version: int) -> Answers:
    def update(name: str, level: int) -> Message:
        one = update_features.FeatureUpdateKey(feature=name, max_version_level=level)
        return update_features.UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=(one,))

    asked = [("metadata.version", 30), ("metadata.version", 99), ("no.such.feature", 1)]
    asked += [("group.version", 1), ("group.version", 0)]
    answers: Answers = [exchange.ask(update(*one), version) for one in asked]
    # Whether there is a text matters to clients, its words do not.
    return [
        (
            answer,
            answer.error_message is None,
            answer.error_message == "NONE",
            [(r.error_message is None, r.error_message == "NONE") for r in answer.results],
        )
        for answer in answers
    ]


ODD: dict[str, Callable[[Exchange, str], Answers]] = {
    "twice in a topic, by name": lambda e, t: producing_twice(e, t, 9, apart=False),
    "twice in a topic, by id": lambda e, t: producing_twice(e, t, 13, apart=False),
    "a topic twice, by name": lambda e, t: producing_twice(e, t, 9, apart=True),
    "a topic twice, by id": lambda e, t: producing_twice(e, t, 13, apart=True),
    "transactional beside others, without an id": lambda e, t: producing_mixed(e, t, None),
    "a transactional id, and no transaction": producing_plain_with_an_id,
    "the greatest time of what is left": finding_the_greatest_time,
    **{
        f"an unknown operation, {kind}, version {version}": lambda e, t, k=kind, v=version: (
            altering_in_an_unknown_way(e, t, k, v)
        )
        for kind in (TOPIC_RESOURCE, BROKER_RESOURCE)
        for version in (0, 1)
    },
    **{
        f"features, version {version}": lambda e, t, v=version: updating_features(e, t, v)
        for version in (0, 1, 2)
    },
}


@pytest.mark.parametrize("kind", ODD)
def test_the_same_answers(bootstrap_servers: str, apache: str, kind: str) -> None:
    topic = f"odd-{list(ODD).index(kind)}"
    said = []
    for server in (bootstrap_servers, apache):
        with Exchange(server) as exchange:
            try:
                said.append([comparable(answer) for answer in ODD[kind](exchange, topic)])
            except Closed:
                said.append(["the connection was closed"])
    assert said[0] == said[1]
