"""Which partitions live on this broker: makes, leads, configures and drops them as the
committed metadata says."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tidelog.broker.known_brokers import KnownBrokers
from tidelog.broker.removal import remove_later
from tidelog.config.log import log_config
from tidelog.env import DiskFull, Now
from tidelog.errors import ErrorCode
from tidelog.events import StopProcess
from tidelog.log.log_dir import LogDir
from tidelog.log.results import DamagedSegment
from tidelog.metadata.image import (
    BROKER_RESOURCE,
    RESERVED_UUIDS,
    TOPIC_RESOURCE,
    PartitionState,
    Topic,
    TopicPartition,
)
from tidelog.metadata.records.cluster import ConfigRecord
from tidelog.metadata.records.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
)
from tidelog.replica.partition import Partition
from tidelog.slices import Slices
from tidelog.types import Offset, Uuid
from tidelog.wire.declare import Message

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

log = logging.getLogger("tidelog.partitions")

OPEN_COST = 1000
ADOPT_COST = 20
CONFIG_COST = 60
REMOVE_COST = 100
"""Microseconds for a partition (slices.py): making its files takes longest."""
RETRY_MS = 1000


class Hosting:
    """Invariant: what is in by_name is in by_id, and the metadata places it here."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._brokers = KnownBrokers(broker)
        self.is_open = False
        """Whether the metadata knows this process: what it says before is not meant for it."""
        self.by_name: dict[tuple[str, int], Partition] = {}
        self.by_id: dict[tuple[Uuid, int], Partition] = {}
        self._changed: dict[tuple[Uuid, int], None] = {}
        """Partitions whose state in the metadata has not been acted upon."""
        self._indexes: dict[Uuid, dict[int, None]] = {}
        """By topic, those partitions that are in one of the maps here."""
        self._must_wait = self._is_following = False
        self._damaged: dict[tuple[Uuid, int], tuple[str, int]] = {}
        """Partitions that stay offline, by id: a deletion does not name the topic."""
        self.flushing: dict[Partition, None] = {}
        """Those with flush.messages: their producers wait for the disk."""
        self.recompressing: dict[Partition, None] = {}
        """Those with a compression.type of their own: to judge their records takes longer."""

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
        if not self.is_open:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        found = self.by_name.get((topic.name, index))
        if found is None:
            # Known, but its turn has not come yet; or there may be room for it by now.
            self._follow(topic.topic_id, index, now)
            found = self.by_name.get((topic.name, index))
        if found is not None:
            # Or the topic was deleted and made anew, which is still to be acted upon.
            is_same = found.topic_id == topic.topic_id
            return found if is_same else ErrorCode.INCONSISTENT_TOPIC_ID
        if self.broker.node_id in topic.partitions[index].replicas:
            # Damaged, or there was no room to make it, or its directory is offline.
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def apply(self, records: Sequence[Message], now: Now) -> Slices[None]:
        """Do what newly committed records mean for this broker, or begin to."""
        for record in records:
            if isinstance(record, PartitionRecord | PartitionChangeRecord):
                self._changed[record.topic_id, record.partition_id] = None
                self._indexes.setdefault(record.topic_id, {})[record.partition_id] = None
                yield 1
            elif isinstance(record, RemoveTopicRecord):
                yield from self._remove_topic(record.topic_id, now)
            elif isinstance(record, ConfigRecord):
                yield from self._reconfigure(record, now)
        self._begin_to_follow(now)

    def reload(self, now: Now) -> Slices[None]:
        """Bring everything to where the metadata has it, whatever happened before."""
        image = self.broker.image
        for topic_id in list(self._indexes):
            if image.topic_by_id(topic_id) is None:
                yield from self._remove_topic(topic_id, now)
        self._changed.update(dict.fromkeys(self.by_id))
        for place, _ in image.partitions_of(self.broker.node_id):
            self._changed[place.topic_id, place.partition] = None
            self._indexes.setdefault(place.topic_id, {})[place.partition] = None
            yield 1
        while self._changed and not self._must_wait:
            self._follow(*next(iter(self._changed)), now)
            yield ADOPT_COST
        self._begin_to_follow(now)
        yield from self._reconfigure_topics(list(self._indexes), now)

    def look_again(self, partition: Partition, now: Now) -> None:
        """What kept it from where the metadata has it is over."""
        self._changed[partition.topic_id, partition.index] = None
        self._begin_to_follow(now)

    def _begin_to_follow(self, now: Now) -> None:
        if self._changed and not self._is_following:
            self._is_following = True
            self.broker.jobs.start(self._follow_changed(now), now)

    def _follow_changed(self, now: Now) -> Slices[None]:
        """What cannot be made yet has another turn after a while."""
        self._must_wait = False
        try:
            while self._changed and not self._must_wait:
                self._follow(*next(iter(self._changed)), now)
                yield 1
        finally:
            self._is_following = False
        if self._changed:
            retry_ms = self.broker.jobs.fresh(now).monotonic_ms + RETRY_MS
            self.broker.schedule.at(retry_ms, self._begin_to_follow)

    def _follow(self, topic_id: Uuid, index: int, now: Now) -> None:
        """Bring one partition to where the metadata has it."""
        now = self.broker.jobs.fresh(now)
        self._changed.pop((topic_id, index), None)
        topic = self.broker.image.topic_by_id(topic_id)
        state = None if topic is None else topic.partitions.get(index)
        if topic is None or state is None:
            return
        if self.broker.node_id not in state.replicas:
            self._stop_replica(topic, index, now)
            return
        partition = self.by_id.get((topic_id, index)) or self._open(topic, index, state, now)
        if partition is None:
            return
        epochs = {"leader_epoch": state.leader_epoch, "partition_epoch": state.partition_epoch}
        if state.leader == self.broker.node_id:
            self.broker.fetchers.unfollow(partition)
            if partition in self.broker.fetchers.cut:
                return  # leads, and appends, when the disk knows where its log ends
            is_unclean = state.leader_recovery_state and state.leader_epoch > partition.leader_epoch
            if is_unclean and len(state.replicas) > 1:
                log.warning(
                    "%s is led from here by an unclean election: what others have from offset %d on"
                    " is lost",
                    partition,
                    partition.log.log_end_offset,
                )
            partition.become_leader(**epochs, replicas=state.replicas, isr=state.isr, now=now)
        elif partition.become_follower(**epochs, leader_id=state.leader, replicas=state.replicas):
            self.broker.fetchers.follow(partition, now)

    def _stop_replica(self, topic: Topic, index: int, now: Now) -> None:
        """It has been moved to other brokers: what lies here is of no use to anybody."""
        path, _ = self._delete((topic.topic_id, index), now)
        if path is not None:
            log.info("deleted the replica of %s-%d: it is on other brokers now", topic.name, index)
            delay_ms = self.broker.config.log_segment_delete_delay_ms
            remove_later(self.broker.runtime, [path], delay_ms, now)

    def _open(self, topic: Topic, index: int, state: PartitionState, now: Now) -> Partition | None:
        """The partition with its log, which is made if there is none yet."""
        broker, key = self.broker, (topic.name, index)
        log_dir = broker.log_dirs.holding(key) or self._place(state)
        if log_dir is None:
            return None
        self._indexes.setdefault(topic.topic_id, {})[index] = None
        broker.jobs.extra_cost += OPEN_COST
        if key in log_dir.damaged:
            self._damaged[topic.topic_id, index] = key
            return None
        if key in log_dir.outdated and key not in log_dir.logs:
            # Made once no checkpoint tells of another one of its name.
            self._changed[topic.topic_id, index] = None
            self._must_wait = True
            broker.checkpoints.write(log_dir, now, self._begin_to_follow)
            return None
        config = log_config(broker.image.topic_configs(topic.name), broker.config)
        try:
            opened = log_dir.logs.get(key) or log_dir.create(*key, topic.topic_id, config, now)
        except DiskFull:
            # Tried again by and by, and when somebody asks for it: there may be room by then.
            self._changed[topic.topic_id, index] = None
            self._must_wait = True
            return None
        except OSError as error:
            self._changed[topic.topic_id, index] = None  # there may be another directory
            self.fail(log_dir.path, f"cannot make {topic.name}-{index}: {error}", now)
            return None
        opened.config = config  # it was loaded before the topic's configs were known
        opened.rng = broker.rng
        opened.segments.active.roll_jitter_ms = config.roll_jitter_ms(broker.rng)
        partition = Partition(
            topic.name,
            topic.topic_id,
            index,
            opened,
            node_id=broker.node_id,
            high_watermark=log_dir.high_watermarks.get(key, 0),
            brokers=self._brokers,
            lag_time_max_ms=broker.config.replica_lag_time_max_ms,
        )
        self.by_name[key] = self.by_id[topic.topic_id, index] = partition
        self._note_configs(partition)
        broker.refused_batches.opened(partition)
        if state.directory(broker.node_id) != log_dir.directory_id:
            place = TopicPartition(topic.topic_id, index)
            broker.directory_reports.add(place, log_dir.directory_id, now)
        return partition

    def _place(self, state: PartitionState) -> LogDir | None:
        """Where a partition is made of which there are no files: where the metadata has it, else
        where the fewest are. Not at all if it may lie in a directory that is offline."""
        log_dirs = self.broker.log_dirs
        assigned = log_dirs.with_id(state.directory(self.broker.node_id))
        if assigned is not None:
            return assigned
        is_known = int.from_bytes(state.directory(self.broker.node_id), "big") >= RESERVED_UUIDS
        is_new = state.partition_epoch == 0 and not is_known
        may_be_made = is_new or not log_dirs.has_offline
        return log_dirs.emptiest(self.broker.config) if may_be_made else None

    def _note_configs(self, partition: Partition) -> None:
        if partition.flushes:
            self.flushing[partition] = None
        else:
            self.flushing.pop(partition, None)
        if partition.log.config.compression_type != "producer":
            self.recompressing[partition] = None
        else:
            self.recompressing.pop(partition, None)

    def _remove_topic(self, topic_id: Uuid, now: Now) -> Slices[None]:
        """Renamed at once, deleted when nobody can be reading any more."""
        name, paths = None, []
        delay_ms = self.broker.config.log_segment_delete_delay_ms
        for index in self._indexes.pop(topic_id, ()):
            path, partition = self._delete((topic_id, index), now)
            if path is not None:
                paths.append(path)
            if partition is not None:
                name, delay_ms = partition.topic, partition.log.config.file_delete_delay_ms
            yield REMOVE_COST
        if name is not None:
            log.info("deleted topic %s with %d partitions", name, len(paths))
        remove_later(self.broker.runtime, paths, delay_ms, self.broker.jobs.fresh(now))

    def _delete(self, place: tuple[Uuid, int], now: Now) -> tuple[str | None, Partition | None]:
        """A replica is gone; what is left of it on disk has another name."""
        self._changed.pop(place, None)
        key = self._damaged.pop(place, None)
        partition, path = self.by_id.get(place), None
        if partition is not None:
            key = partition.topic, partition.index
            self._forget(partition)
        log_dir = None if key is None else self.broker.log_dirs.holding(key)
        if key is not None and log_dir is not None:
            try:
                path = log_dir.delete(*key, self.broker.rng.randbytes(16))
            except OSError as error:
                if self.broker.log_dirs.is_fatal(log_dir.path):
                    raise
                self.fail(log_dir.path, f"cannot delete {key[0]}-{key[1]}: {error}", now)
        if partition is not None:
            partition.changed()
        return path, partition

    def _reconfigure(self, record: ConfigRecord, now: Now) -> Slices[None]:
        broker, image = self.broker, self.broker.image
        if record.resource_type == BROKER_RESOURCE:
            broker.reconfigure()
            yield from broker.fetchers.share_out(now)
            topics = list(self._indexes)
            broker.lifecycle.beat_soon(now)  # a directory may be cordoned by now
        elif record.resource_type == TOPIC_RESOURCE:
            changed = image.topic(record.resource_name)
            topics = [] if changed is None else [changed.topic_id]
        else:
            return
        yield from self._reconfigure_topics(topics, now)

    def _reconfigure_topics(self, topics: list[Uuid], now: Now) -> Slices[None]:
        broker, image = self.broker, self.broker.image
        for topic_id in topics:
            topic = image.topic_by_id(topic_id)
            if topic is None:
                continue  # its removal is among the records to come
            config = log_config(image.topic_configs(topic.name), broker.config)
            yield CONFIG_COST
            for index in list(self._indexes.get(topic_id, ())):
                partition = self.by_id.get((topic_id, index))
                if partition is not None:
                    partition.reconfigure(config, now)
                    self._note_configs(partition)
                    yield 5

    # Disks.

    def inside(self, log_dir: LogDir) -> Iterator[tuple[tuple[str, int], Partition]]:
        """The partitions of one directory, whatever happens to others meanwhile."""
        for key in list(log_dir.logs):
            partition = self.by_name.get(key)
            if partition is not None:
                yield key, partition

    def high_watermarks(self, log_dir: LogDir) -> Iterator[tuple[tuple[str, int], Offset]]:
        """What its checkpoint is to say."""
        return ((key, partition.high_watermark) for key, partition in self.inside(log_dir))

    def erred(self, partition: Partition, error: OSError | DamagedSegment, now: Now) -> ErrorCode:
        """What clients are told when a log cannot be read or written; damage takes the
        partition offline, any other error of the disk its directory. Raises what ends the
        process: then nobody is told anything."""
        if isinstance(error, DamagedSegment):
            self._give_up(partition, error)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if self.broker.log_dirs.is_fatal(partition.log.path):
            raise error
        self.fail(partition.log.path, f"{partition}: {error}", now)
        return ErrorCode.KAFKA_STORAGE_ERROR

    def _give_up(self, partition: Partition, damage: DamagedSegment) -> None:
        key = partition.topic, partition.index
        log_dir = self.broker.log_dirs.holding(key)
        if self.by_name.get(key) is not partition or log_dir is None:
            return
        log.error("partition %s is offline: %s", partition, damage)
        log_dir.give_up(key, damage, partition.high_watermark)
        self._damaged[partition.topic_id, partition.index] = key
        self._drop(partition)

    def _forget(self, partition: Partition) -> None:
        del self.by_name[partition.topic, partition.index]
        del self.by_id[partition.topic_id, partition.index]
        self.flushing.pop(partition, None)
        self.recompressing.pop(partition, None)
        self.broker.fetchers.forget(partition)
        self.broker.refused_batches.forget(partition)

    def _drop(self, partition: Partition) -> None:
        """No longer served here; whoever waits for it learns so."""
        self._forget(partition)
        self.broker.never_flushed(partition, ErrorCode.KAFKA_STORAGE_ERROR)
        partition.changed()

    def fail(self, path: str | None, reason: str, now: Now) -> None:
        """The disk erred at a path: its log directory is offline. Without the last one, or that
        of the metadata log, a node has nothing left to serve from."""
        log_dirs = self.broker.log_dirs
        failed = log_dirs.at(path)
        if log_dirs.is_fatal(path):
            where = (failed or log_dirs.metadata).path
            reason = f"log directory {where} is offline: {reason}"
            self.broker.effects.append(StopProcess(reason))
        if log_dirs.is_fatal(path) or failed is None:
            return
        log.error("log directory %s is offline: %s", failed.path, reason)
        log_dirs.online.remove(failed)
        for key, opened in failed.logs.items():
            partition = self.by_name.get(key)
            if partition is not None and partition.log is opened:
                self._drop(partition)
        self.broker.lifecycle.directory_failed(failed.directory_id, now)
