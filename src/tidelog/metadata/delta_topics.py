"""Replay of the records about topics and partitions, with the indexes that follow them."""

from __future__ import annotations

from typing import Any

from tidelog.metadata.image import (
    MIGRATING_DIRECTORY,
    NO_LEADER,
    TOPIC_RESOURCE,
    MetadataImage,
    PartitionState,
    Topic,
    TopicPartition,
)
from tidelog.metadata.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.metadata.sorted_map import SortedMap
from tidelog.types import Uuid

Changes = dict[str, Any]
PARTITIONS_END = 1 << 31
"""Above every partition's number."""
UNCHANGED_LEADER = -2
UNCHANGED_RECOVERY_STATE = -1


class UnreplayableRecord(ValueError):
    """A record that cannot follow what the log said before: the log is damaged, or not ours."""


def topic(image: MetadataImage, record: TopicRecord) -> Changes:
    if record.name in image.topics or record.topic_id in image.topic_names:
        raise UnreplayableRecord(f"topic {record.name} is there already")
    made = Topic(record.name, record.topic_id, SortedMap())
    return {
        "topics": image.topics.set(record.name, made),
        "topic_names": image.topic_names.set(record.topic_id, record.name),
    }


def remove_topic(image: MetadataImage, record: RemoveTopicRecord) -> Changes:
    removed = _topic(image, record.topic_id)
    # All of a topic's places lie together: to take them out one by one would take a while.
    first = TopicPartition(record.topic_id, 0)
    end = TopicPartition(record.topic_id, PARTITIONS_END)
    by_broker = image.partitions_by_broker
    for broker_id in sorted({r for s in removed.partitions.values() for r in s.replicas}):
        left = by_broker[broker_id].remove_between(first, end)
        by_broker = by_broker.set(broker_id, left) if left else by_broker.remove(broker_id)
    return {
        "topics": image.topics.remove(removed.name),
        "topic_names": image.topic_names.remove(record.topic_id),
        "partitions_by_broker": by_broker,
        "leaderless": image.leaderless.remove_between(first, end),
        "configs": image.configs.discard((TOPIC_RESOURCE, removed.name)),
    }


def partition(image: MetadataImage, record: PartitionRecord) -> Changes:
    state = PartitionState(
        replicas=record.replicas,
        isr=record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=record.directories or (MIGRATING_DIRECTORY,) * len(record.replicas),
        removing_replicas=record.removing_replicas,
        adding_replicas=record.adding_replicas,
        eligible_leader_replicas=record.eligible_leader_replicas or (),
        last_known_elr=record.last_known_elr or (),
        leader_recovery_state=record.leader_recovery_state,
    )
    return _put(image, _topic(image, record.topic_id), record.partition_id, state)


def partition_change(image: MetadataImage, record: PartitionChangeRecord) -> Changes:
    changed = _topic(image, record.topic_id)
    state = changed.partitions.get(record.partition_id)
    if state is None:
        raise UnreplayableRecord(f"topic {changed.name} has no partition {record.partition_id}")
    return _put(image, changed, record.partition_id, merge(state, record))


def merge(state: PartitionState, record: PartitionChangeRecord) -> PartitionState:
    """The partition after a change: the partition epoch always rises, the leader epoch if a
    leader is named, be it the same one or none."""
    changes: Changes = {"partition_epoch": state.partition_epoch + 1}
    for name in MERGED:
        value = getattr(record, name)
        if value is not None:
            changes[name] = value
    if record.leader != UNCHANGED_LEADER:
        changes["leader"] = record.leader
        changes["leader_epoch"] = state.leader_epoch + 1
    if record.leader_recovery_state != UNCHANGED_RECOVERY_STATE:
        changes["leader_recovery_state"] = record.leader_recovery_state
    return state._replace(**changes)


MERGED = (
    "isr",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)


def clear_elr(image: MetadataImage, record: ClearElrRecord) -> Changes:
    """Of one topic, or of all. Every partition that had an ELR counts as changed."""
    if record.topic_name:
        named = image.topics.get(record.topic_name)
        if named is None:
            raise UnreplayableRecord(f"there is no topic {record.topic_name}")
        cleared = [named]
    else:
        cleared = list(image.topics.values())
    topics = image.topics
    for one in cleared:
        partitions = one.partitions
        for number, state in one.partitions.items():
            if state.eligible_leader_replicas or state.last_known_elr:
                change = PartitionChangeRecord(
                    topic_id=one.topic_id, eligible_leader_replicas=(), last_known_elr=()
                )
                partitions = partitions.set(number, merge(state, change))
        if partitions is not one.partitions:
            topics = topics.set(one.name, one._replace(partitions=partitions))
    return {"topics": topics}


def _topic(image: MetadataImage, topic_id: Uuid) -> Topic:
    found = image.topic_by_id(topic_id)
    if found is None:
        raise UnreplayableRecord(f"there is no topic with the id {topic_id.hex()}")
    return found


def _put(image: MetadataImage, owner: Topic, number: int, state: PartitionState) -> Changes:
    """The partition in its topic, and in the indexes where these change."""
    place = TopicPartition(owner.topic_id, number)
    before = owner.partitions.get(number)
    changes: Changes = {
        "topics": image.topics.set(
            owner.name, owner._replace(partitions=owner.partitions.set(number, state))
        )
    }
    held = () if before is None else before.replicas
    if held != state.replicas:
        changes["partitions_by_broker"] = _moved(
            image.partitions_by_broker, place, held, state.replicas
        )
    had_no_leader = before is not None and before.leader == NO_LEADER
    if state.leader == NO_LEADER:
        changes["leaderless"] = image.leaderless.set(place, None)
    elif had_no_leader:
        changes["leaderless"] = image.leaderless.discard(place)
    return changes


def _moved(
    by_broker: SortedMap[int, SortedMap[TopicPartition, None]],
    place: TopicPartition,
    before: tuple[int, ...],
    after: tuple[int, ...],
) -> SortedMap[int, SortedMap[TopicPartition, None]]:
    for broker_id in before:
        if broker_id not in after:
            left = by_broker[broker_id].remove(place)
            by_broker = by_broker.set(broker_id, left) if left else by_broker.remove(broker_id)
    for broker_id in after:
        if broker_id not in before:
            held: SortedMap[TopicPartition, None] = by_broker.get(broker_id) or SortedMap()
            by_broker = by_broker.set(broker_id, held.set(place, None))
    return by_broker
