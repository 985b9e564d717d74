"""Starts a node on its directories and stops it: format, recover, lead the metadata log, register.

All of it happens before the first step or after the last one, so that it may block.
"""

from __future__ import annotations

import logging

from tidelog.broker.broker import Broker
from tidelog.broker.log_dirs import CannotLoad, LogDirs, open_log_dirs
from tidelog.config.broker import BrokerConfig
from tidelog.config.log import log_config
from tidelog.env import Disk, DiskFull, Now, Rng, Work
from tidelog.events import Effect, Lane, RemoveTree, StopProcess, Ticked
from tidelog.log.checkpoint import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    MalformedFile,
)
from tidelog.log.config import LogConfig
from tidelog.log.log_dir import LogDir, UnknownDirectory
from tidelog.log.results import DamagedSegment
from tidelog.metadata.delta_topics import UnreplayableRecord
from tidelog.metadata.format import (
    BOOTSTRAP_CHECKPOINT,
    feature_records,
)
from tidelog.metadata.snapshot import (
    SnapshotId,
    read_snapshot,
)
from tidelog.node import Node
from tidelog.quorum_controller.controller import QuorumController
from tidelog.raft.config import raft_config
from tidelog.raft.election_state import QUORUM_STATE
from tidelog.raft.raft import Raft
from tidelog.runtime.controller_channel import ControllerChannel
from tidelog.runtime.metadata import Metadata
from tidelog.runtime.quorum_channel import QuorumChannel
from tidelog.runtime.runtime import FlushDone, Runtime
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError

__all__ = ["CannotLoad", "load_node", "stop_node"]

log = logging.getLogger("tidelog.start")

TOLD_EVERY_BYTES = 1 << 30
"""Some seconds' work."""


def load_node(
    config: BrokerConfig, disk: Disk, rng: Rng, now: Now, cluster_id: str | None = None
) -> Node:
    """A node whose broker is registered and leads what the metadata gives it."""
    try:
        log_dirs = open_log_dirs(config, disk, rng, now, cluster_id)
        return _load(config, log_dirs, rng, now)
    except MalformedFile as error:
        remedy = REMEDIES.get(error.name.rpartition("/")[2])
        raise CannotLoad(f"{error}; {remedy}" if remedy else str(error)) from error
    except UnknownDirectory as error:
        raise CannotLoad(str(error)) from error
    except DamagedSegment as error:
        raise CannotLoad(f"the metadata log cannot be trusted: {error}") from error
    except (DecodeError, UnreplayableRecord) as error:
        raise CannotLoad(f"the metadata log cannot be understood: {error}") from error
    except DiskFull as error:
        raise CannotLoad(f"{config.metadata_dir}: {error}; make room and start again") from error
    except OSError as error:
        raise CannotLoad(f"{config.metadata_dir}: {error}") from error


REMEDIES = {
    RECOVERY_POINT_CHECKPOINT: "remove it, and the start looks through every segment instead",
    REPLICATION_CHECKPOINT: "remove it, and high watermarks are found again from the logs",
    LOG_START_CHECKPOINT: "remove it, and records deleted by DeleteRecords may be back",
    CLEANER_CHECKPOINT: "remove it, and the cleaner begins at the logs' starts",
    META_PROPERTIES: "correct it, or restore it from a copy",
    QUORUM_STATE: "restore it from a copy: without it this node could vote twice",
}
"""What a person can do about a file that cannot be read."""


def _load(config: BrokerConfig, log_dirs: LogDirs, rng: Rng, now: Now) -> Node:
    runtime = Runtime(rng)
    opened = log_dirs.metadata.load_metadata_log(metadata_log_config(config), now)
    metadata = Metadata(runtime, opened)
    flushes = Flushes(runtime, log_dirs.metadata.disk, now)
    metadata.raft = raft = Raft(
        raft_config(config),
        config.node_id,
        log_dirs.metadata.directory_id,
        log_dirs.cluster_id,
        opened,
        rng,
        QuorumChannel(config.node_id, runtime.peers),
        flushes.flush,
        metadata,
    )
    runtime.timed.append(raft)
    metadata.begin()
    controller = broker = None
    if config.is_controller:
        bootstrap = _bootstrap_records(log_dirs.metadata)
        controller = QuorumController(config, log_dirs.cluster_id, metadata, runtime, bootstrap)
    channel = ControllerChannel(config.node_id, runtime, metadata, controller)
    if controller is not None:
        controller.channel = channel
    if config.is_broker:
        broker = Broker(config, log_dirs, metadata, runtime, channel)
        for log_dir in list(log_dirs.online):
            _load_partitions(broker, log_dir, now)
    node = Node(config, runtime, broker, controller, raft, log_dirs)
    raft.start(now)
    _settle(node, now)
    flushes.loaded()
    for log_dir in log_dirs.online:
        runtime.effects += [RemoveTree(path) for path in log_dir.to_remove]
        for key, damage in log_dir.damaged.items():
            log.error("partition %s-%d stays offline: %s", *key, damage)
    return node


def metadata_log_config(config: BrokerConfig) -> LogConfig:
    """Its segments go with the snapshots, not by age."""
    internal = config.internal_metadata_log_segment_bytes
    return LogConfig(
        retention_ms=-1,
        segment_bytes=config.metadata_log_segment_bytes if internal is None else internal,
        segment_ms=config.metadata_log_segment_ms,
    )


def _settle(node: Node, now: Now) -> None:
    """A quorum of one has elected itself: it does all the rest before anybody can ask. What is to
    be done besides belongs to the first step."""
    runtime = node.runtime
    effects: list[Effect] = []
    while runtime.jobs or runtime.schedule.is_due(now) or runtime.purgatory.completed:
        effects += node.step(Ticked(), now)
    runtime.effects += effects
    for effect in effects:
        if isinstance(effect, StopProcess):
            raise CannotLoad(effect.reason)


class Flushes:
    """While a node is loaded nobody hears of it: what it writes becomes durable all at once, when
    it is loaded, and before it serves."""

    def __init__(self, runtime: Runtime, disk: Disk, now: Now) -> None:
        self._runtime = runtime
        self._disk = disk
        self._now = now
        self._is_loading = True
        self._work: list[Work] = []

    def flush(self, work: tuple[Work, ...], then: FlushDone) -> None:
        if self._is_loading:
            self._work += work
            then(None, self._now)
        else:
            self._runtime.flush(work, then, Lane.QUORUM)

    def loaded(self) -> None:
        """In the order in which it was asked for. Raises DiskFull, OSError."""
        self._is_loading = False
        for work in self._work:
            work.flush(self._disk)
        self._work.clear()


def _load_partitions(broker: Broker, log_dir: LogDir, now: Now) -> None:
    log_dirs, config = broker.log_dirs, log_config({}, broker.config)
    try:
        log_dir.load_all(lambda topic: config, now, Told())
    except OSError as error:
        if log_dirs.is_needed(log_dir):
            raise
        log.error("log directory %s is offline: %s", log_dir.path, error)
        log_dirs.online.remove(log_dir)
        return
    if log_dir.logs and not log_dir.was_clean:
        count = len(log_dir.logs)
        log.info("checked %d partitions of %s: no clean stop was there", count, log_dir.path)
    for other in log_dirs.online:
        both = [*log_dir.logs, *log_dir.damaged] if other is not log_dir else []
        for topic, index in both:
            if (topic, index) in other.logs or (topic, index) in other.damaged:
                raise CannotLoad(
                    f"{topic}-{index} is in {other.path} and in {log_dir.path}: remove one"
                )


class Told:
    """Says how far a long check of a partition is."""

    def __init__(self) -> None:
        self._name = ""
        self._told_bytes = 0

    def __call__(self, name: str, done: int, total: int) -> None:
        if name != self._name:
            self._name, self._told_bytes = name, 0
        if done - self._told_bytes >= TOLD_EVERY_BYTES:
            self._told_bytes = done
            log.info("checking %s: %d of %d MB", name, done // 1_000_000, total // 1_000_000)


def _bootstrap_records(log_dir: LogDir) -> list[Message]:
    """What the directory was formatted with."""
    content = log_dir.disk.read_file(f"{log_dir.path}/{BOOTSTRAP_CHECKPOINT}")
    return read_snapshot(content, SnapshotId(0, 0)).records if content else feature_records()


def stop_node(node: Node, now: Now) -> bool:
    """Everything durable, and the marker that says so. Whether that went well: where it did not,
    the next start recovers."""
    log_dirs, role = node.log_dirs, node.broker if node.config.is_broker else node.controller
    # What the metadata says may be of a process before this one, which may have had more.
    epoch = node.broker.broker_epoch if node.config.is_broker else -1
    is_clean = True
    for log_dir in dict.fromkeys((log_dirs.metadata, *log_dirs.online)):
        try:
            if log_dir is log_dirs.metadata:
                role.metadata.log.close(now)
            if log_dir not in log_dirs.online:
                log_dir.abandon()
                continue
            hosted = node.broker.hosting.inside(log_dir) if node.config.is_broker else ()
            log_dir.close(now, {key: one.high_watermark for key, one in hosted}, epoch)
        except (OSError, DiskFull) as error:
            log.error("log directory %s was not closed cleanly: %s", log_dir.path, error)
            log_dir.abandon()
            is_clean = False
    return is_clean
