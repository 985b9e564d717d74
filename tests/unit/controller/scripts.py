"""Requests in their order, and a model of a controller that answers them by the decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.unit.metadata.lives import broker, config, features

from tidelog.config.broker import BROKER_KEYS, BrokerConfig
from tidelog.config.topic import TOPIC_KEYS
from tidelog.controller.brokers import unregister_broker
from tidelog.controller.config_changes import alter_configs, alter_configs_incrementally
from tidelog.controller.describe_configs import describe_configs, list_config_resources
from tidelog.controller.elections import elect_leaders
from tidelog.controller.features import update_features
from tidelog.controller.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from tidelog.controller.topic_changes import create_partitions, delete_topics
from tidelog.controller.topics import create_topics
from tidelog.metadata.delta import replay_all
from tidelog.metadata.features import FEATURES
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.brokers import BrokerFeature
from tidelog.slices import finish
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.codec import decode, encode
from tidelog.wire.declare import Message
from tidelog.wire.messages import alter_configs as replacing
from tidelog.wire.messages import alter_partition_reassignments as reassigning
from tidelog.wire.messages import elect_leaders as electing
from tidelog.wire.messages import incremental_alter_configs as incremental
from tidelog.wire.messages import list_partition_reassignments as listing
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest
from tidelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = 2, 4


class Model:
    """One node, whose every decision is replayed at once."""

    def __init__(self, config_of_node: BrokerConfig, rng: Any) -> None:
        self.config = config_of_node
        self.rng = rng
        self.records: list[Message] = []
        self.image = MetadataImage.empty()
        known = tuple(
            BrokerFeature(
                name=name,
                min_supported_version=feature.level_min,
                max_supported_version=feature.level_max,
            )
            for name, feature in FEATURES.items()
        )
        default = config(4, "", "min.insync.replicas", "1")
        self.write([*features(), broker(1, features=known), default])

    def write(self, records: list[Message]) -> None:
        self.records += records
        self.image = replay_all(self.image, records, self.image.offset + 1, 1)

    def known_keys(self) -> set[str]:
        return set(BROKER_KEYS) | set(TOPIC_KEYS)

    def ask(self, request: Any) -> Any:
        image, node = self.image, self.config
        match request:
            case CreateTopicsRequest():
                decision: Any = finish(create_topics(image, request, node, self.rng))
            case DeleteTopicsRequest():
                decision = finish(delete_topics(image, request, node))
            case CreatePartitionsRequest():
                decision = finish(create_partitions(image, request, self.rng))
            case incremental.IncrementalAlterConfigsRequest():
                decision = finish(alter_configs_incrementally(image, request, node, node_id=1))
            case replacing.AlterConfigsRequest():
                decision = finish(alter_configs(image, request, node, node_id=1))
            case DescribeConfigsRequest():
                return finish(describe_configs(image, request, node))
            case UpdateFeaturesRequest():
                decision = update_features(image, request, node)
            case electing.ElectLeadersRequest():
                decision = finish(elect_leaders(image, request, node))
            case reassigning.AlterPartitionReassignmentsRequest():
                decision = finish(alter_partition_reassignments(image, request, node))
            case listing.ListPartitionReassignmentsRequest():
                return finish(list_partition_reassignments(image, request))
            case UnregisterBrokerRequest():
                decision = finish(unregister_broker(image, request.broker_id, node))
            case ListConfigResourcesRequest():
                return finish(list_config_resources(image, request.resource_types))
            case _:
                raise AssertionError(request)
        self.write(list(decision.records))
        return decision.response


def topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignments: dict[int, tuple[int, ...]] | list[tuple[int, tuple[int, ...]]] = {},  # noqa: B006
    **configs: str | None,
) -> CreatableTopic:
    pairs = assignments.items() if isinstance(assignments, dict) else assignments
    return CreatableTopic(
        name=name,
        num_partitions=-1 if assignments and partitions == 1 else partitions,
        replication_factor=-1 if assignments and factor == 1 else factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=number, broker_ids=brokers)
            for number, brokers in pairs
        ),
        configs=tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
    )


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=topics, timeout_ms=30_000, validate_only=validate_only)


def delete(*names: str | None, topic_id: Uuid = ZERO_UUID) -> DeleteTopicsRequest:
    states = tuple(DeleteTopicState(name=name, topic_id=topic_id) for name in names)
    return DeleteTopicsRequest(topics=states, timeout_ms=30_000)


def grow(
    name: str, count: int, assignments: list[tuple[int, ...]] | None = None, **options: bool
) -> CreatePartitionsRequest:
    given = (
        None
        if assignments is None
        else tuple(CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments)
    )
    return CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name=name, count=count, assignments=given),),
        timeout_ms=30_000,
        validate_only=options.get("validate_only", False),
    )


def change(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> incremental.IncrementalAlterConfigsRequest:
    configs = tuple(
        incremental.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in changes
    )
    resource = incremental.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    return incremental.IncrementalAlterConfigsRequest(
        resources=(resource,), validate_only=validate_only
    )


def replace(kind: int, name: str, **configs: str | None) -> replacing.AlterConfigsRequest:
    resource = replacing.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=tuple(
            replacing.AlterableConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
    )
    return replacing.AlterConfigsRequest(resources=(resource,), validate_only=False)


def describe(kind: int, name: str, *keys: str, synonyms: bool = True) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys or None
    )
    return DescribeConfigsRequest(
        resources=(resource,), include_synonyms=synonyms, include_documentation=True
    )


def topics_script(p: str) -> list[Message]:
    """Topics of its own, whose names begin with p."""
    return [
        create(topic(f"{p}-a"), topic(f"{p}-b", 3)),
        create(topic(f"{p}-a")),
        create(topic(f"{p}-default", -1, -1)),
        create(topic(f"{p}-v", 2, validate_only := 1), validate_only=bool(validate_only)),
        create(topic(f"{p}-v")),
        create(topic("")),
        create(topic(".")),
        create(topic("..")),
        create(topic("x" * 249 + "y")),
        create(topic(f"{p} space")),
        create(topic(f"{p}-ü")),
        create(topic(f"{p}.c_d")),
        create(topic(f"{p}_c.d")),
        create(topic(f"{p}.c_d")),
        create(topic("__cluster_metadata")),
        create(topic(f"{p}-dup"), topic(f"{p}-dup", 2)),
        create(topic(f"{p}-rf", 1, 2)),
        create(topic(f"{p}-rf", 1, 0)),
        create(topic(f"{p}-rf", 1, -2)),
        create(topic(f"{p}-n", 0)),
        create(topic(f"{p}-n", -2)),
        create(topic(f"{p}-many", 10_001)),
        create(topic(f"{p}-many", 9_000), topic(f"{p}-more", 9_000)),
        create(topic(f"{p}-m1", assignments={0: (1,), 1: (1,)})),
        create(topic(f"{p}-m2", assignments={0: (1,), 2: (1,)})),
        create(topic(f"{p}-m3", assignments={0: (1, 1)})),
        create(topic(f"{p}-m4", assignments={0: (7,)})),
        create(topic(f"{p}-m5", assignments={0: ()})),
        create(topic(f"{p}-m6", assignments=[(0, (1,)), (0, (1,))])),
        create(topic(f"{p}-m7", 4, assignments={0: (1,)})),
        create(topic(f"{p}-m8", 1, 3, assignments={0: (1,)})),
        create(topic(f"{p}-m9", assignments={0: (1,), 1: (1, 7)})),
        create(topic(f"{p}-c1", retention_ms="5", cleanup_policy="compact")),
        create(topic(f"{p}-c2", retention_ms="soon")),
        create(topic(f"{p}-c3", no_such="1")),
        create(topic(f"{p}-c4", segment_bytes="5")),
        create(topic(f"{p}-c5", retention_ms=None)),
        create(topic(f"{p}-c6", min_insync_replicas="2")),
        create(topic(f"{p}-c7", min_compaction_lag_ms="5", max_compaction_lag_ms="4")),
        create(topic(f"{p}-c8", compression_type="zip")),
        create(topic(f"{p}-c9", remote_storage_enable="true")),
        grow(f"{p}-a", 3),
        grow(f"{p}-a", 3),
        grow(f"{p}-a", 2),
        grow(f"{p}-a", 0),
        grow(f"{p}-gone", 2),
        grow(f"{p}-a", 4, [(1,)]),
        grow(f"{p}-a", 6, [(1,)]),
        grow(f"{p}-a", 5, [(7,)]),
        grow(f"{p}-a", 5, [(1, 7)]),
        grow(f"{p}-a", 5, [()]),
        grow(f"{p}-a", 9, validate_only=True),
        grow(f"{p}-a", 5),
        CreatePartitionsRequest(
            topics=(
                CreatePartitionsTopic(name=f"{p}-a", count=9, assignments=None),
                CreatePartitionsTopic(name=f"{p}-a", count=9, assignments=None),
            ),
            timeout_ms=30_000,
            validate_only=False,
        ),
        delete(f"{p}-gone"),
        delete(f"{p}-a", f"{p}-a"),
        delete(f"{p}-a", f"{p}-b", f"{p}-gone"),
        delete(f"{p}-a"),
        delete(None),
        delete(None, topic_id=Uuid(b"\x55" * 16)),
        delete(f"{p}-default", topic_id=Uuid(b"\x55" * 16)),
        create(topic(f"{p}-a")),
    ]


def configs_script(p: str) -> list[Message]:
    return [
        create(topic(f"{p}-t", retention_ms="77")),
        describe(TOPIC, f"{p}-t"),
        describe(TOPIC, f"{p}-t", synonyms=False),
        describe(TOPIC, f"{p}-t", "retention.ms", "segment.ms", "no.such"),
        describe(TOPIC, f"{p}-gone"),
        describe(TOPIC, "bad name"),
        describe(BROKER, "1"),
        describe(BROKER, ""),
        describe(BROKER, "2"),
        describe(BROKER, "x"),
        change(TOPIC, f"{p}-t", ("retention.ms", SET, "5"), ("segment.ms", SET, "1000")),
        change(TOPIC, f"{p}-t", ("retention.ms", DELETE, None)),
        change(TOPIC, f"{p}-t", ("cleanup.policy", APPEND, "compact")),
        describe(TOPIC, f"{p}-t", "cleanup.policy", "retention.ms", "segment.ms"),
        change(TOPIC, f"{p}-t", ("cleanup.policy", SUBTRACT, "delete")),
        change(TOPIC, f"{p}-t", ("cleanup.policy", SUBTRACT, "compact")),
        change(TOPIC, f"{p}-t", ("cleanup.policy", APPEND, "delete,delete")),
        describe(TOPIC, f"{p}-t", "cleanup.policy"),
        change(TOPIC, f"{p}-t", ("retention.ms", APPEND, "5")),
        change(TOPIC, f"{p}-t", ("retention.ms", SUBTRACT, "5")),
        change(TOPIC, f"{p}-t", ("no.such", SET, "5")),
        change(TOPIC, f"{p}-t", ("no.such", APPEND, "5")),
        change(TOPIC, f"{p}-t", ("retention.ms", SET, "-5")),
        change(TOPIC, f"{p}-t", ("retention.ms", SET, None)),
        change(TOPIC, f"{p}-t", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        change(TOPIC, f"{p}-gone", ("retention.ms", SET, "1")),
        change(TOPIC, "", ("retention.ms", SET, "1")),
        change(TOPIC, "bad name", ("retention.ms", SET, "1")),
        change(TOPIC, f"{p}-t", ("flush.ms", SET, "9"), validate_only=True),
        describe(TOPIC, f"{p}-t", "flush.ms"),
        change(TOPIC, f"{p}-t", ("min.insync.replicas", SET, "2")),
        describe(TOPIC, f"{p}-t", "min.insync.replicas"),
        replace(TOPIC, f"{p}-t", flush_ms="7"),
        describe(TOPIC, f"{p}-t"),
        replace(TOPIC, f"{p}-t", flush_ms=None),
        replace(TOPIC, f"{p}-t", flush_ms="-1"),
        replace(TOPIC, f"{p}-gone", flush_ms="7"),
        change(BROKER, "", ("log.retention.ms", SET, "123456")),
        describe(TOPIC, f"{p}-t", "retention.ms"),
        describe(BROKER, "1", "log.retention.ms", "num.partitions"),
        change(BROKER, "1", ("log.retention.ms", SET, "654321")),
        describe(TOPIC, f"{p}-t", "retention.ms"),
        describe(BROKER, "1", "log.retention.ms", "message.max.bytes"),
        describe(BROKER, ""),
        change(BROKER, "1", ("num.partitions", SET, "3")),
        change(BROKER, "", ("num.partitions", SET, "3")),
        change(BROKER, "", ("listeners", SET, "PLAINTEXT://:1")),
        change(BROKER, "7", ("log.retention.ms", SET, "1")),
        change(BROKER, "x", ("log.retention.ms", SET, "1")),
        change(BROKER, "1", ("min.insync.replicas", SET, "2")),
        change(BROKER, "", ("min.insync.replicas", DELETE, None)),
        change(BROKER, "", ("min.insync.replicas", SET, "2")),
        describe(TOPIC, f"{p}-t", "min.insync.replicas"),
        change(BROKER, "", ("min.insync.replicas", SET, "1")),
        change(BROKER, "", ("log.retention.ms", DELETE, None)),
        change(BROKER, "1", ("log.retention.ms", DELETE, None)),
        replace(BROKER, "1", log_retention_ms="5"),
        describe(BROKER, "1", "log.retention.ms"),
        replace(BROKER, "1"),
        change(99, "x", ("a", SET, "1")),
        ListConfigResourcesRequest(resource_types=(99,)),
        ListConfigResourcesRequest(resource_types=(BROKER,)),
    ]


def features_script(p: str) -> list[Message]:
    def update(
        *updates: tuple[str, int, int], validate_only: bool = False
    ) -> UpdateFeaturesRequest:
        keys = tuple(
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in updates
        )
        return UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)

    return [
        update(("no.such.version", 1, 1)),
        update(("metadata.version", 31, 1)),
        update(("metadata.version", 6, 3)),
        update(("metadata.version", 30, 1)),
        update(("metadata.version", 29, 1)),
        update(("group.version", 1, 1)),
        update(("group.version", 2, 1)),
        update(("group.version", -1, 3)),
        update(("group.version", 0, 1)),
        update(("group.version", 1, 2)),
        update(("group.version", 1, 0)),
        update(("group.version", 1, 9)),
        update(("transaction.version", 1, 2), validate_only=True),
        update(("transaction.version", 0, 3), validate_only=True),
        update(("metadata.version", 29, 2), validate_only=True),
        update(("metadata.version", 29, 3), validate_only=True),
        update(("metadata.version", 25, 2), validate_only=True),
        update(("metadata.version", 20, 3), validate_only=True),
        update(("group.version", 1, 1), ("group.version", 1, 1), validate_only=True),
        update(("eligible.leader.replicas.version", 0, 2), validate_only=True),
        update(("kraft.version", 0, 1), validate_only=True),
        update(("kraft.version", 1, 1), validate_only=True),
        update(("transaction.version", 2, 1), ("no.such.version", 1, 1)),
        update(),
    ]


def elections_script(p: str) -> list[Message]:
    """With one broker nothing can move, but much can be refused."""

    def elect(kind: int, *wanted: tuple[str, tuple[int, ...]]) -> electing.ElectLeadersRequest:
        topics = tuple(electing.TopicPartitions(topic=name, partitions=n) for name, n in wanted)
        return electing.ElectLeadersRequest(election_type=kind, topic_partitions=topics)

    def move(
        name: str, number: int, replicas: tuple[int, ...] | None, may_change_factor: bool = True
    ) -> reassigning.AlterPartitionReassignmentsRequest:
        wanted = reassigning.ReassignablePartition(partition_index=number, replicas=replicas)
        return reassigning.AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=may_change_factor,
            topics=(reassigning.ReassignableTopic(name=name, partitions=(wanted,)),),
        )

    asked = listing.ListPartitionReassignmentsTopics(name=f"{p}-t", partition_indexes=(0, 9))
    gone = listing.ListPartitionReassignmentsTopics(name=f"{p}-gone", partition_indexes=(0,))
    return [
        create(topic(f"{p}-t", 2)),
        elect(0, (f"{p}-t", (0, 1, 9))),
        elect(1, (f"{p}-t", (0, 9)), (f"{p}-gone", (0,))),
        elect(7, (f"{p}-t", (0,))),
        elect(0),
        electing.ElectLeadersRequest(election_type=0, topic_partitions=None),
        electing.ElectLeadersRequest(election_type=1, topic_partitions=None),
        move(f"{p}-t", 0, (1,)),
        move(f"{p}-t", 0, (1,), may_change_factor=False),
        move(f"{p}-t", 0, ()),
        move(f"{p}-t", 0, (1, 1)),
        move(f"{p}-t", 0, (7,)),
        move(f"{p}-t", 0, (7,), may_change_factor=False),
        move(f"{p}-t", 0, (-1,)),
        move(f"{p}-t", 9, (1,)),
        move(f"{p}-gone", 0, (1,)),
        move(f"{p}-t", 0, None),
        move(f"{p}-gone", 0, None),
        reassigning.AlterPartitionReassignmentsRequest(topics=()),
        listing.ListPartitionReassignmentsRequest(topics=None),
        listing.ListPartitionReassignmentsRequest(topics=()),
        listing.ListPartitionReassignmentsRequest(topics=(asked, gone)),
        UnregisterBrokerRequest(broker_id=7),
    ]


SCRIPTS: dict[str, Callable[[str], list[Message]]] = {
    "topics": topics_script,
    "configs": configs_script,
    "features": features_script,
    "elections": elections_script,
}


def transcript(request: Any, answer: Any) -> list[str]:
    """An answer in lines to read: who, the code, the message, and what there is now. By name:
    Kafka promises no order, and shuffles some."""
    version = type(answer).VERSIONS[1]
    answer = decode(type(answer), version, encode(answer, version))
    groups = [
        [f"  {topic}-{number}: {int(one.error_code)} {one.error_message or '-'}"]
        for topic, number, one in partition_results(answer)
    ]
    for field in ("topics", "results", "responses"):
        for result in getattr(answer, field, ()):
            if not hasattr(result, "error_code"):
                continue  # its partitions have
            name = getattr(result, "name", None) or getattr(result, "resource_name", "")
            size = f" {result.num_partitions}x" if getattr(result, "num_partitions", 0) > 0 else ""
            factor = result.replication_factor if size else ""
            said = f"{int(result.error_code)} {result.error_message or '-'}"
            group = [f"  {name}: {said}{size}{factor}"]
            if isinstance(request, DescribeConfigsRequest) and len(result.configs) < 5:
                group += sorted(described(one) for one in result.configs)
            groups.append(group)
    top = getattr(answer, "error_message", None)
    said = f" {int(answer.error_code)} {top or '-'}" if hasattr(answer, "error_code") else ""
    return [type(request).__name__ + said, *(line for group in sorted(groups) for line in group)]


def partition_results(answer: Any) -> Iterator[tuple[str, int, Any]]:
    """The results of partitions that an answer has, if it has such."""
    for topic in getattr(answer, "replica_election_results", ()):
        yield from ((topic.topic, one.partition_id, one) for one in topic.partition_result)
    for topic in getattr(answer, "responses", ()):
        for one in getattr(topic, "partitions", ()):
            yield topic.name, one.partition_index, one


def described(one: Any) -> str:
    synonyms = " ".join(f"{s.name}={s.value}@{int(s.source)}" for s in one.synonyms)
    return f"    {one.name}={one.value}@{int(one.config_source)} [{synonyms}]"
