"""Which partitions live on this broker: makes, leads, configures and drops them as the
committed metadata says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog.config.log import log_config
from tidelog.env import DiskFull, Now
from tidelog.errors import ErrorCode
from tidelog.events import RemoveTree, StopProcess
from tidelog.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, Topic
from tidelog.metadata.records.cluster import ConfigRecord
from tidelog.metadata.records.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from tidelog.replica.partition import Partition
from tidelog.types import Uuid
from tidelog.wire.declare import Message

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

log = logging.getLogger("tidelog.partitions")

OPENED_A_STEP_MAX = 10
"""Making a partition's files takes some 0.2 ms: so many at once keep a step short."""
RETRY_MS = 1000


class Hosting:
    """Invariant: what is in by_name is in by_id, and the metadata places it here."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.by_name: dict[tuple[str, int], Partition] = {}
        self.by_id: dict[tuple[Uuid, int], Partition] = {}
        self._changed: dict[tuple[Uuid, int], None] = {}
        """Partitions whose state in the metadata has not been acted upon."""
        self._without_room = self._is_scheduled = False
        self._damaged: dict[tuple[Uuid, int], tuple[str, int]] = {}
        """Partitions that stay offline, by id: a deletion does not name the topic."""
        self.flushing: dict[Partition, None] = {}
        """Those with flush.messages: their producers wait for the disk."""

    def find_by_id(self, topic_id: Uuid, index: int, now: Now) -> Partition | ErrorCode:
        topic = self.broker.image.topic_by_id(topic_id)
        return ErrorCode.UNKNOWN_TOPIC_ID if topic is None else self._find(topic, index, now)

    def find_by_name(self, name: str, index: int, now: Now) -> Partition | ErrorCode:
        topic = self.broker.image.topic(name)
        if topic is None:
            # Without a name it was an id that was asked for, and that was all zeros.
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if name else ErrorCode.UNKNOWN_TOPIC_ID
        return self._find(topic, index, now)

    def _find(self, topic: Topic, index: int, now: Now) -> Partition | ErrorCode:
        """The slow way: the partition may be known but not opened, damaged, or elsewhere."""
        if index not in topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if (topic.topic_id, index) in self._changed:
            self._follow(topic.topic_id, index, now)
        found = self.by_name.get((topic.name, index))
        if found is not None:
            return found
        if self.broker.node_id in topic.partitions[index].replicas:
            return ErrorCode.KAFKA_STORAGE_ERROR  # damaged, or there was no room to make it
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def apply(self, records: Sequence[Message], now: Now) -> None:
        """Do what newly committed records mean for this broker."""
        for record in records:
            if isinstance(record, PartitionRecord | PartitionChangeRecord):
                self._changed[record.topic_id, record.partition_id] = None
            elif isinstance(record, RemoveTopicRecord):
                self._remove_topic(record.topic_id, now)
            elif isinstance(record, ConfigRecord):
                self._reconfigure(record)
        self._follow_some(now)

    def adopt(self, now: Now) -> None:
        """At the start: everything that the metadata places here."""
        for place, _ in self.broker.image.partitions_of(self.broker.node_id):
            self._follow(place.topic_id, place.partition, now)

    def _follow_some(self, now: Now) -> None:
        """The rest has its turn at once; what there was no room for, after a while."""
        self._without_room = False
        for place in list(self._changed)[:OPENED_A_STEP_MAX]:
            self._follow(*place, now)
        if self._changed and not self._is_scheduled:
            delay_ms = RETRY_MS if self._without_room else 0
            self._is_scheduled = True
            self.broker.schedule.at(now.monotonic_ms + delay_ms, self._go_on)

    def _go_on(self, now: Now) -> None:
        self._is_scheduled = False
        self._follow_some(now)

    def _follow(self, topic_id: Uuid, index: int, now: Now) -> None:
        """Bring one partition to where the metadata has it."""
        self._changed.pop((topic_id, index), None)
        topic = self.broker.image.topic_by_id(topic_id)
        state = None if topic is None else topic.partitions.get(index)
        if topic is None or state is None or self.broker.node_id not in state.replicas:
            return
        partition = self.by_id.get((topic_id, index)) or self._open(topic, index, now)
        if partition is not None and state.leader == self.broker.node_id:
            partition.become_leader(
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                replicas=state.replicas,
                isr=state.isr,
            )

    def _open(self, topic: Topic, index: int, now: Now) -> Partition | None:
        """The partition with its log, which is made if there is none yet."""
        broker, key = self.broker, (topic.name, index)
        log_dir = broker.log_dir
        if key in log_dir.damaged:
            self._damaged[topic.topic_id, index] = key
            return None
        config = log_config(broker.image.topic_configs(topic.name), broker.config)
        try:
            opened = log_dir.logs.get(key) or log_dir.create(
                topic.name, index, topic.topic_id, config, now
            )
        except DiskFull:
            # Tried again by and by, and when somebody asks for it: there may be room by then.
            self._changed[topic.topic_id, index] = None
            self._without_room = True
            return None
        except OSError as error:
            self.fail(f"cannot make {topic.name}-{index}: {error}")
            return None
        partition = Partition(
            topic.name,
            topic.topic_id,
            index,
            opened,
            node_id=broker.node_id,
            high_watermark=log_dir.high_watermarks.get(key, 0),
        )
        self.by_name[key] = self.by_id[topic.topic_id, index] = partition
        self._note_flushing(partition)
        return partition

    def _note_flushing(self, partition: Partition) -> None:
        if partition.flushes:
            self.flushing[partition] = None
        else:
            self.flushing.pop(partition, None)

    def _remove_topic(self, topic_id: Uuid, now: Now) -> None:
        """Renamed at once, deleted when nobody can be reading any more."""
        for key in [key for key in self._changed if key[0] == topic_id]:
            del self._changed[key]
        removed = [p for p in self.by_id.values() if p.topic_id == topic_id]
        for partition in removed:
            del self.by_id[topic_id, partition.index]
            del self.by_name[partition.topic, partition.index]
            self.flushing.pop(partition, None)
            delay_ms = partition.log.config.file_delete_delay_ms
            self._remove_files((partition.topic, partition.index), delay_ms, now)
            partition.changed()
        for place in [place for place in self._damaged if place[0] == topic_id]:
            delay_ms = self.broker.config.log_segment_delete_delay_ms
            self._remove_files(self._damaged.pop(place), delay_ms, now)
        if removed:
            log.info("deleted topic %s with %d partitions", removed[0].topic, len(removed))

    def _remove_files(self, key: tuple[str, int], delay_ms: int, now: Now) -> None:
        path = self.broker.log_dir.delete(*key, self.broker.rng.randbytes(16))
        self.broker.schedule.at(now.monotonic_ms + delay_ms, self._remover(path))

    def _remover(self, path: str) -> Callable[[Now], None]:
        return lambda now: self.broker.effects.append(RemoveTree(path))

    def _reconfigure(self, record: ConfigRecord) -> None:
        broker = self.broker
        if record.resource_type == BROKER_RESOURCE:
            image = broker.image
            broker.config = broker.static_config.with_dynamic(
                image.cluster_configs(), image.broker_configs(broker.node_id)
            )
            partitions = list(self.by_name.values())
        elif record.resource_type == TOPIC_RESOURCE:
            partitions = [p for p in self.by_name.values() if p.topic == record.resource_name]
        else:
            return
        for partition in partitions:
            configs = broker.image.topic_configs(partition.topic)
            partition.reconfigure(log_config(configs, broker.config))
            self._note_flushing(partition)

    def fail(self, reason: str) -> None:
        """The disk erred. A node with one log directory has nothing left to serve from."""
        self.broker.effects.append(
            StopProcess(f"log directory {self.broker.log_dir.path} is offline: {reason}")
        )
