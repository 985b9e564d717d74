"""Starts a node on its directories and stops it: format, recover, lead the metadata log, register.

All of it happens before the first step or after the last one, so that it may block.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.controller_channel import ControllerChannel
from tidelog.broker.log_dirs import CannotLoad, LogDirs, open_log_dirs, own_voter
from tidelog.broker.registration import broker_request, controller_request
from tidelog.config.broker import BrokerConfig
from tidelog.config.log import log_config
from tidelog.controller import brokers, registration
from tidelog.env import Disk, DiskFull, Now, Rng
from tidelog.errors import ErrorCode
from tidelog.events import RemoveTree
from tidelog.log.checkpoint import MalformedFile
from tidelog.log.config import LogConfig
from tidelog.log.log import Log
from tidelog.log.log_dir import LogDir, UnknownDirectory
from tidelog.log.results import DamagedSegment
from tidelog.metadata.delta_topics import UnreplayableRecord
from tidelog.metadata.format import (
    BOOTSTRAP_CHECKPOINT,
    METADATA_DIRECTORY,
    bootstrap_transaction,
    feature_records,
)
from tidelog.metadata.snapshot import (
    Snapshot,
    SnapshotId,
    parse_snapshot_name,
    read_snapshot,
)
from tidelog.node import Node
from tidelog.quorum_controller.controller import QuorumController
from tidelog.raft.metadata_log import MetadataLog
from tidelog.runtime.metadata import Metadata
from tidelog.runtime.runtime import Runtime
from tidelog.slices import finish
from tidelog.types import ZERO_UUID, format_uuid
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError
from tidelog.wire.messages.control_records import KRaftVersionRecord, VotersRecord

__all__ = ["CannotLoad", "load_node", "stop_node"]

log = logging.getLogger("tidelog.start")

QUORUM_STATE = f"{METADATA_DIRECTORY}/quorum-state"
METADATA_LOG_CONFIG = LogConfig(retention_ms=-1)


def load_node(config: BrokerConfig, disk: Disk, rng: Rng, now: Now) -> Node:
    """A node whose broker is registered and leads what the metadata gives it."""
    if [voter.node_id for voter in config.voters] not in ([], [config.node_id]):
        raise CannotLoad(
            "controller.quorum.voters names other nodes; this version runs a single node"
        )
    try:
        log_dirs = open_log_dirs(config, disk, rng, now)
        return _load(config, log_dirs, rng, now)
    except (MalformedFile, UnknownDirectory) as error:
        raise CannotLoad(str(error)) from error
    except DamagedSegment as error:
        raise CannotLoad(f"the metadata log cannot be trusted: {error}") from error
    except (DecodeError, UnreplayableRecord) as error:
        raise CannotLoad(f"the metadata log cannot be understood: {error}") from error
    except DiskFull as error:
        raise CannotLoad(f"{config.metadata_dir}: {error}; make room and start again") from error
    except OSError as error:
        raise CannotLoad(f"{config.metadata_dir}: {error}") from error


def _load(config: BrokerConfig, log_dirs: LogDirs, rng: Rng, now: Now) -> Node:
    first = log_dirs.metadata
    opened = first.load_metadata_log(METADATA_LOG_CONFIG, now)
    snapshot = _newest_snapshot(first, opened)
    quorum = MetadataLog(opened, config.node_id, _stored_epoch(first), snapshot)
    if [voter.voter_id for voter in quorum.voters] not in ([], [config.node_id]):
        raise CannotLoad("the metadata log names other voters; this version runs a single node")
    runtime = Runtime(rng)
    metadata = Metadata(quorum, runtime)
    controller = QuorumController(config, log_dirs.cluster_id, metadata, runtime)
    controller.is_active = True
    channel = ControllerChannel(config.node_id, runtime, metadata, controller)
    broker = Broker(config, log_dirs, metadata, runtime, channel)
    metadata.acted_upon_by(broker.hosting.apply)
    _lead_metadata(broker, now)
    image = broker.image
    broker.config = config.with_dynamic(
        image.cluster_configs(), image.broker_configs(config.node_id)
    )
    for log_dir in list(log_dirs.online):
        _load_partitions(broker, log_dir, now)
    _register(broker, now)
    broker.hosting.adopt(now)
    broker.start(now)
    for log_dir in log_dirs.online:
        broker.effects += [RemoveTree(path) for path in log_dir.to_remove]
        for key, damage in log_dir.damaged.items():
            log.error("partition %s-%d stays offline: %s", *key, damage)
    return Node(config, runtime, broker, controller)


def _load_partitions(broker: Broker, log_dir: LogDir, now: Now) -> None:
    image, log_dirs = broker.image, broker.log_dirs
    try:
        log_dir.load_all(
            lambda topic: log_config(image.topic_configs(topic), broker.config), now, _progress
        )
        _set_strays_aside(broker, log_dir)
    except OSError as error:
        if log_dirs.is_needed(log_dir):
            raise
        log.error("log directory %s is offline: %s", log_dir.path, error)
        log_dirs.online.remove(log_dir)
        return
    for other in log_dirs.online:
        both = [*log_dir.logs, *log_dir.damaged] if other is not log_dir else []
        for topic, index in both:
            if (topic, index) in other.logs or (topic, index) in other.damaged:
                raise CannotLoad(
                    f"{topic}-{index} is in {other.path} and in {log_dir.path}: remove one"
                )


def _progress(name: str, done: int, total: int) -> None:
    if total and done == total:
        log.debug("loaded %s, %d bytes", name, total)


def _newest_snapshot(log_dir: LogDir, metadata: Log) -> Snapshot | None:
    """From which the metadata log goes on: it may begin there, what lies before is deleted."""
    directory = f"{log_dir.path}/{METADATA_DIRECTORY}"
    for name in reversed(log_dir.disk.names(directory)):
        snapshot_id = parse_snapshot_name(name)
        if snapshot_id is None:
            continue
        try:
            content = log_dir.disk.read_file(f"{directory}/{name}") or b""
            snapshot = read_snapshot(content, snapshot_id)
        except DecodeError as error:
            log.warning("%s/%s is of no use: %s", directory, name, error)
            continue
        end_offset = snapshot_id.end_offset
        if end_offset > metadata.log_end_offset:
            metadata.truncate_fully_and_start_at(end_offset)
        if end_offset >= metadata.log_start_offset:
            return snapshot
    if metadata.log_start_offset > 0:
        raise CannotLoad(
            f"the metadata log begins at offset {metadata.log_start_offset}, and {directory} has no"
            " snapshot of what was before"
        )
    return None


def _bootstrap_records(log_dir: LogDir) -> list[Message]:
    """What the directory was formatted with."""
    content = log_dir.disk.read_file(f"{log_dir.path}/{BOOTSTRAP_CHECKPOINT}")
    return read_snapshot(content, SnapshotId(0, 0)).records if content else feature_records()


def _stored_epoch(log_dir: LogDir) -> int:
    content = log_dir.disk.read_file(f"{log_dir.path}/{QUORUM_STATE}")
    return 0 if content is None else int(json.loads(content)["leaderEpoch"])


def _lead_metadata(broker: Broker, now: Now) -> None:
    """A quorum of one elects itself: the epoch is durable before its first record."""
    metadata, log_dir = broker.metadata.quorum, broker.log_dirs.metadata
    is_new = metadata.log.log_end_offset == 0
    epoch = metadata.leader_epoch + 1
    quorum_records: list[Message] = []
    if is_new and metadata.voters:
        me = own_voter(broker.config, log_dir.directory_id)
        quorum_records = [
            KRaftVersionRecord(version=0, kraft_version=metadata.kraft_version),
            VotersRecord(version=0, voters=(me,)),
        ]
    content = _quorum_state(broker.node_id, epoch, metadata.kraft_version)
    log_dir.disk.replace(f"{log_dir.path}/{QUORUM_STATE}", content)
    metadata.become_leader(now, quorum_records)
    assert metadata.leader_epoch == epoch
    first: list[Message] = []
    if is_new:
        first = bootstrap_transaction(
            _bootstrap_records(log_dir), broker.config.min_insync_replicas
        )
    _commit(broker, first, now)


def _quorum_state(leader_id: int, epoch: int, kraft_version: int) -> bytes:
    """Who leads in which epoch; voters, where the log does not name them."""
    state: dict[str, Any] = {"leaderId": leader_id, "leaderEpoch": epoch, "votedId": -1}
    if kraft_version > 0:
        state |= {"votedDirectoryId": format_uuid(ZERO_UUID), "data_version": 1}
    else:
        voters = [{"voterId": leader_id}]
        rest = {"appliedOffset": 0, "currentVoters": voters, "data_version": 0}
        state = {"clusterId": "", **state, **rest}
    return json.dumps(state, separators=(",", ":")).encode()


def _commit(broker: Broker, records: Sequence[Message], now: Now) -> None:
    """Append, flush and commit at once; only while nothing is served."""
    error = broker.metadata.quorum.append(records, now)
    if error is not ErrorCode.NONE:
        raise CannotLoad(f"the metadata log cannot be written: {error.name}")
    unflushed = broker.metadata.log.unflushed(now)
    if unflushed is not None:
        unflushed.flush(broker.log_dirs.metadata.disk)
    broker.metadata.quorum.flushed(broker.metadata.log.log_end_offset)


def _set_strays_aside(broker: Broker, log_dir: LogDir) -> None:
    """A directory that the metadata does not place here is kept, under another name."""
    image = broker.image
    for topic, index in [*log_dir.logs, *log_dir.damaged]:
        known = image.topic(topic)
        state = None if known is None else known.partitions.get(index)
        is_placed = state is not None and broker.node_id in state.replicas
        opened = log_dir.logs.get((topic, index))
        if known is not None and opened is not None and opened.topic_id != known.topic_id:
            is_placed = False
        if not is_placed:
            path = log_dir.set_aside(topic, index, broker.rng.randbytes(16))
            log.warning("no topic has partition %s-%d: kept as %s", topic, index, path)


def _register(broker: Broker, now: Now) -> None:
    """As a controller, as a broker, and then in service."""
    config, metadata = broker.config, broker.metadata
    registered = registration.register_controller(metadata.latest, controller_request(broker))
    _commit(broker, registered.records, now)
    decision = finish(
        registration.register_broker(
            metadata.latest,
            broker_request(broker, broker.lifecycle.incarnation_id),
            config,
            cluster_id=broker.cluster_id,
            next_offset=metadata.log.log_end_offset,
            has_valid_session=False,
        )
    )
    if decision.response.error_code != ErrorCode.NONE:
        name = ErrorCode(decision.response.error_code).name
        raise CannotLoad(f"the metadata does not let node {config.node_id} register: {name}")
    _commit(broker, decision.records, now)
    _commit(broker, finish(brokers.unfence(metadata.latest, config.node_id, config)), now)
    broker.lifecycle.registered(decision.response.broker_epoch, now)


def stop_node(node: Node, now: Now) -> bool:
    """Everything durable, and the marker that says so. Whether that went well: where it did not,
    the next start recovers."""
    broker = node.broker
    log_dirs, epoch = broker.log_dirs, broker.image.broker_epoch(broker.node_id)
    is_clean = True
    for log_dir in dict.fromkeys((log_dirs.metadata, *log_dirs.online)):
        try:
            if log_dir is log_dirs.metadata:
                broker.metadata.log.close(now)
            if log_dir not in log_dirs.online:
                log_dir.abandon()
                continue
            marks = {key: one.high_watermark for key, one in broker.hosting.inside(log_dir)}
            log_dir.close(now, marks, epoch)
        except (OSError, DiskFull) as error:
            log.error("log directory %s was not closed cleanly: %s", log_dir.path, error)
            log_dir.abandon()
            is_clean = False
    return is_clean
