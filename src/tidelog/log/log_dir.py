"""A log directory: the partitions on one disk, and the checkpoints that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import NamedTuple

from tidelog.env import Disk, Now
from tidelog.log.checkpoint import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    MetaProperties,
    TopicPartition,
    format_clean_shutdown,
    format_meta_properties,
    format_offsets,
    format_partition_metadata,
    parse_clean_shutdown,
    parse_meta_properties,
    parse_offsets,
)
from tidelog.log.config import LogConfig
from tidelog.log.log import Log
from tidelog.log.names import (
    PARTITION_METADATA,
    directory_name,
    moved_directory_name,
    parse_directory_name,
)
from tidelog.log.recovery import Progress, load
from tidelog.log.results import DamagedSegment
from tidelog.types import METADATA_TOPIC_ID, ZERO_UUID, Offset, Uuid

LOCK = ".lock"
METADATA_TOPIC = "__cluster_metadata"
FOREIGN_ALLOWED = frozenset({"lost+found"})
"""Directories that are no partition's and no mistake either."""


class UnknownDirectory(Exception):
    """Something lies in the log directory that is no partition: better to ask than to guess."""


class Checkpoint(NamedTuple):
    """A small file to replace, as an effect for the shell or by write. There may be so many
    offsets that they are asked for a few at a time."""

    path: str
    offsets: Iterable[tuple[TopicPartition, Offset]]


class LogDir:
    """The logs of one directory. Call open, then load_all; at the end close."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk = disk
        self.path = path
        self.directory_id = ZERO_UUID
        """From meta.properties, set by who has read that."""
        self.logs: dict[TopicPartition, Log] = {}
        self.damaged: dict[TopicPartition, DamagedSegment] = {}
        """Partitions that stay offline, and why; their files are as they were found."""
        self.to_remove: list[str] = []
        """Directories of deleted topics, from before the start; RemoveTree is for them."""
        self.stray: list[str] = []
        """Directories that the metadata had not placed here; a person may want them."""
        self.high_watermarks: dict[TopicPartition, Offset] = {}
        """As the last process knew them; each counts once its log is loaded."""
        self.cleaner_offsets: dict[TopicPartition, Offset] = {}
        """Up to which compaction has seen each log. It is not done here, but by whoever had the
        directory before, and may have it again: what is gone by then must not count as seen."""
        self.was_compacted = False
        self.was_clean = False
        self.last_broker_epoch = -1
        """From before the last clean stop; -1 after any other."""
        self.outdated: dict[TopicPartition, int] = {}
        """Partitions that are gone, though a checkpoint may still tell of them; by the number of
        the deletion. After a crash one that was made under such a name would be taken for it."""
        self._moves = 0
        self._recovery_points: dict[TopicPartition, Offset] = {}
        self._log_starts: dict[TopicPartition, Offset] = {}

    def open(self) -> None:
        """Lock it and read the checkpoints. Raises AlreadyLocked, MalformedFile. The marker of
        a clean stop goes before anything is loaded: a crash while loading is no clean stop."""
        self.disk.make_directory(self.path)
        self.disk.lock(f"{self.path}/{LOCK}")
        marker = self.disk.read_file(f"{self.path}/{CLEAN_SHUTDOWN}")
        self.was_clean = marker is not None
        if marker is not None:
            self.last_broker_epoch = parse_clean_shutdown(marker)
        self._recovery_points = self._read_offsets(RECOVERY_POINT_CHECKPOINT)
        self._log_starts = self._read_offsets(LOG_START_CHECKPOINT)
        self.high_watermarks = self._read_offsets(REPLICATION_CHECKPOINT)
        self.cleaner_offsets = self._read_offsets(CLEANER_CHECKPOINT)
        self.was_compacted = bool(self.cleaner_offsets)
        self.disk.remove(f"{self.path}/{CLEAN_SHUTDOWN}")
        self.disk.flush_directory(self.path)

    def _read_offsets(self, name: str) -> dict[TopicPartition, Offset]:
        path = f"{self.path}/{name}"
        return parse_offsets(path, self.disk.read_file(path))

    def read_meta_properties(self) -> MetaProperties | None:
        """Whose directory it is; None if it is not formatted. Raises MalformedFile."""
        path = f"{self.path}/{META_PROPERTIES}"
        content = self.disk.read_file(path)
        return None if content is None else parse_meta_properties(path, content)

    def write_meta_properties(self, properties: MetaProperties) -> None:
        """Format it."""
        self.disk.make_directory(self.path)
        content = format_meta_properties(properties)
        self.disk.replace(f"{self.path}/{META_PROPERTIES}", content)

    def load_all(
        self,
        config_of: Callable[[str], LogConfig],
        now: Now,
        progress: Callable[[str, int, int], None] = lambda name, done, total: None,
    ) -> None:
        """Every partition but the metadata log; config_of is asked with a topic's name. Progress
        is told a partition's name, bytes read and bytes to read. Raises UnknownDirectory."""
        found = []
        for name in self.disk.names(self.path):
            path = f"{self.path}/{name}"
            if not self.disk.is_directory(path) or name in FOREIGN_ALLOWED:
                continue
            parsed = parse_directory_name(name)
            if parsed is None:
                raise UnknownDirectory(f"{path} is no partition's directory: move it elsewhere")
            if parsed.state == "delete":
                self.to_remove.append(path)
            elif parsed.state:
                self.stray.append(path)
            elif parsed.topic != METADATA_TOPIC:
                found.append((parsed.topic, parsed.partition))
        for topic, partition in found:
            name = directory_name(topic, partition)
            self._load(
                (topic, partition),
                config_of(topic),
                now,
                partial(progress, name),
            )
        for offsets in self._known_offsets():
            gone = [key for key in offsets if key not in self.logs and key not in self.damaged]
            for key in gone:
                if key[0] != METADATA_TOPIC:
                    del offsets[key]
                    self.outdated[key] = 0

    def _known_offsets(self) -> tuple[dict[TopicPartition, Offset], ...]:
        """What the checkpoints said."""
        return (
            self._recovery_points,
            self._log_starts,
            self.high_watermarks,
            self.cleaner_offsets,
        )

    def _load(self, key: TopicPartition, config: LogConfig, now: Now, progress: Progress) -> None:
        path, recovery_point = (
            f"{self.path}/{directory_name(*key)}",
            self._recovery_points.get(key, 0),
        )
        try:
            log = self.logs[key] = load(
                self.disk,
                path,
                config,
                is_clean=self.was_clean,
                recovery_point=recovery_point,
                log_start_offset=self._log_starts.get(key, 0),
                now=now,
                progress=progress,
            )
        except DamagedSegment as damage:
            self.damaged[key] = damage
            return
        if not recovery_point and log.topic_id != ZERO_UUID:
            # The process before may have been killed with all of it in the page cache alone.
            metadata = self.disk.open(f"{path}/{PARTITION_METADATA}")
            log.durability.created(metadata, self.path)

    def load_metadata_log(self, config: LogConfig, now: Now) -> Log:
        """`__cluster_metadata-0`, made if there is none and always recovered from its start: a
        node must not act on metadata that it has not checked. Raises DamagedSegment."""
        path = f"{self.path}/{METADATA_TOPIC}-0"
        if not self.disk.exists(f"{path}/{PARTITION_METADATA}"):
            self._begin(path, METADATA_TOPIC_ID)
        start = self._log_starts.get((METADATA_TOPIC, 0), 0)
        return load(
            self.disk,
            path,
            config,
            is_clean=False,
            recovery_point=0,
            log_start_offset=start,
            now=now,
        )

    def create(
        self, topic: str, partition: int, topic_id: Uuid, config: LogConfig, now: Now
    ) -> Log:
        """An empty log. Nothing is flushed here: the log's first flush makes its directory and
        the topic's id durable with the first records."""
        key = topic, partition
        assert key not in self.logs
        path = f"{self.path}/{directory_name(topic, partition)}"
        self.disk.make_directory(path)
        file = self.disk.open(f"{path}/{PARTITION_METADATA}")
        file.truncate(0)
        file.append(format_partition_metadata(topic_id))
        log = load(
            self.disk, path, config, is_clean=False, recovery_point=0, log_start_offset=0, now=now
        )
        log.durability.created(file, self.path)
        self.logs[key] = log
        return log

    def _begin(self, path: str, topic_id: Uuid) -> None:
        self.disk.make_directory(path)
        self.disk.replace(f"{path}/{PARTITION_METADATA}", format_partition_metadata(topic_id))
        self.disk.flush_directory(self.path)

    def give_up(self, key: TopicPartition, damage: DamagedSegment, high_watermark: Offset) -> None:
        """A partition's files are not what they should be: it is offline, they stay."""
        log = self.logs.pop(key)
        self.damaged[key] = damage
        self._recovery_points[key], self.high_watermarks[key] = log.recovery_point, high_watermark
        if log.log_start_offset > log.segments[0].base_offset:
            self._log_starts[key] = log.log_start_offset

    def delete(self, topic: str, partition: int, unique: bytes) -> str:
        """Rename the directory, so that the topic may come again at once; returns where its
        files wait to be removed. unique is 16 random bytes."""
        return self._move(topic, partition, unique, "delete")

    def set_aside(self, topic: str, partition: int, unique: bytes) -> str:
        """What the metadata did not place here is kept under another name."""
        return self._move(topic, partition, unique, "stray")

    def _move(self, topic: str, partition: int, unique: bytes, state: str) -> str:
        key = topic, partition
        path = f"{self.path}/{moved_directory_name(topic, partition, unique, state)}"
        log = self.logs.pop(key, None)
        if log is not None:
            log.rename(path)
        else:
            del self.damaged[key]
            self.disk.rename(f"{self.path}/{directory_name(topic, partition)}", path)
        for offsets in self._known_offsets():
            offsets.pop(key, None)
        if log is None or log.log_end_offset:
            self._moves += 1
            self.outdated[key] = self._moves
        return path

    def written(self, outdated: Mapping[TopicPartition, int]) -> None:
        """All checkpoints are durable, made when these were outdated."""
        for key, move in outdated.items():
            if self.outdated.get(key) == move:
                del self.outdated[key]

    def recovery_point_checkpoint(self) -> Checkpoint:
        """To be written every 60 s, after truncations, and on a clean stop."""
        offsets = ((key, log.recovery_point) for key, log in list(self.logs.items()))
        kept = [(key, self._recovery_points.get(key, 0)) for key in self.damaged]
        return self._checkpoint(RECOVERY_POINT_CHECKPOINT, offsets, kept)

    def log_start_checkpoint(self) -> Checkpoint:
        """To be written every 60 s, after DeleteRecords, and on a clean stop."""
        offsets = (
            (key, log.log_start_offset)
            for key, log in list(self.logs.items())
            if log.log_start_offset > log.segments[0].base_offset
        )
        kept = [(key, self._log_starts[key]) for key in self.damaged if key in self._log_starts]
        return self._checkpoint(LOG_START_CHECKPOINT, offsets, kept)

    def high_watermark_checkpoint(
        self, high_watermarks: Iterable[tuple[TopicPartition, Offset]]
    ) -> Checkpoint:
        """To be written every 5 s, and on a clean stop."""
        kept = [(k, self.high_watermarks[k]) for k in self.damaged if k in self.high_watermarks]
        return self._checkpoint(REPLICATION_CHECKPOINT, high_watermarks, kept)

    def cleaner_checkpoint(self) -> Checkpoint:
        """To be written after truncations and deletions, if the directory had one."""
        offsets = (
            (key, min(offset, self.logs[key].segments.active.base_offset))
            for key, offset in list(self.cleaner_offsets.items())
            if key in self.logs
        )
        kept = [(k, self.cleaner_offsets[k]) for k in self.damaged if k in self.cleaner_offsets]
        return self._checkpoint(CLEANER_CHECKPOINT, offsets, kept)

    def _checkpoint(
        self,
        name: str,
        offsets: Iterable[tuple[TopicPartition, Offset]],
        kept: list[tuple[TopicPartition, Offset]],
    ) -> Checkpoint:
        return Checkpoint(f"{self.path}/{name}", chain(offsets, kept))

    def write(self, checkpoint: Checkpoint) -> None:
        """Blocks until it is durable."""
        self.disk.replace(checkpoint.path, format_offsets(checkpoint.offsets))

    def close(
        self, now: Now, high_watermarks: Mapping[TopicPartition, Offset], broker_epoch: int = -1
    ) -> None:
        """A clean stop: flush and close all logs, write the checkpoints and, if every log was
        loaded and closed well, the marker. Blocks."""
        for log in self.logs.values():
            log.close(now)
        self.write(self.recovery_point_checkpoint())
        self.write(self.log_start_checkpoint())
        self.write(self.high_watermark_checkpoint(high_watermarks.items()))
        if self.was_compacted:
            self.write(self.cleaner_checkpoint())
        if not self.damaged:
            marker = f"{self.path}/{CLEAN_SHUTDOWN}"
            self.disk.replace(marker, format_clean_shutdown(broker_epoch))
        self.abandon()

    def abandon(self) -> None:
        """Let go of the lock, as after a failure: nothing else is written."""
        self.disk.unlock(f"{self.path}/{LOCK}")
