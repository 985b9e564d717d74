"""The log directories of a node: whose they are, which work, where a partition lies.

One that fails takes its partitions with it and no others; the process ends with the last one, or
with the one that has the metadata log.
"""

from __future__ import annotations

import logging

from tidelog.broker.formatting import format_log_dir, own_voter
from tidelog.config.broker import BrokerConfig
from tidelog.env import AlreadyLocked, Disk, DiskFull, Now, Rng
from tidelog.log.checkpoint import MetaProperties, TopicPartition
from tidelog.log.log_dir import LogDir
from tidelog.metadata.format import random_uuid
from tidelog.types import Uuid, format_uuid

log = logging.getLogger("tidelog.start")


ALL = ("*",)
"""As a value of cordoned.log.dirs."""


class CannotLoad(Exception):
    """One line that says why the node does not start, and what to do."""


class LogDirs:
    """Invariant: a directory of `online` has not failed yet; at least one is left."""

    def __init__(self, paths: tuple[str, ...], online: list[LogDir], metadata: LogDir) -> None:
        self.paths = paths
        """All that hold partitions, in the order of the configuration."""
        self.online = online
        self.metadata = metadata
        """That with the metadata log; most often one of the others."""
        self.cluster_id = ""

    @property
    def ids(self) -> tuple[Uuid, ...]:
        """What a broker registers: the directories that work."""
        return tuple(sorted(log_dir.directory_id for log_dir in self.online))

    @property
    def has_offline(self) -> bool:
        return len(self.online) < len(self.paths)

    @property
    def last_broker_epoch(self) -> int:
        """From before the last stop, if that was a clean one of every directory."""
        epochs = {log_dir.last_broker_epoch for log_dir in self.online}
        return -1 if self.has_offline or len(epochs) != 1 else epochs.pop()

    def holding(self, key: TopicPartition) -> LogDir | None:
        """The one that has the partition's files."""
        for log_dir in self.online:
            if key in log_dir.logs or key in log_dir.damaged:
                return log_dir
        return None

    def with_id(self, directory_id: Uuid) -> LogDir | None:
        return next((one for one in self.online if one.directory_id == directory_id), None)

    def emptiest(self, config: BrokerConfig) -> LogDir:
        """Where a new partition goes: the first with the fewest, of those not cordoned. The
        controller places none where all are; what it has placed before must go somewhere."""
        open_ones = [one for one in self.online if not is_cordoned(one.path, config)]
        return min(open_ones or self.online, key=lambda one: len(one.logs) + len(one.damaged))

    def cordoned_ids(self, config: BrokerConfig) -> tuple[Uuid, ...]:
        cordoned = (one for one in self.online if is_cordoned(one.path, config))
        return tuple(sorted(one.directory_id for one in cordoned))

    def at(self, path: str | None) -> LogDir | None:
        """The one that a file lies in."""
        for log_dir in (*self.online, self.metadata):
            if path is not None and f"{path}/".startswith(f"{log_dir.path}/"):
                return log_dir
        return None

    def is_needed(self, log_dir: LogDir | None) -> bool:
        """Whether the node cannot go on without it."""
        return log_dir is self.metadata or self.online == [log_dir]

    def is_fatal(self, path: str | None) -> bool:
        """Whether the node cannot go on after an error there."""
        failed = self.at(path)
        return not self.is_offline(path) if failed is None else self.is_needed(failed)

    def is_offline(self, path: str | None) -> bool:
        """Whether a file lies in a directory that is known to have failed."""
        is_ours = path is not None and any(f"{path}/".startswith(f"{p}/") for p in self.paths)
        return is_ours and self.at(path) is None


def is_cordoned(path: str, config: BrokerConfig) -> bool:
    """Whether a directory is to get no new replicas."""
    return path in config.cordoned_log_dirs or config.cordoned_log_dirs == ALL


def open_log_dirs(
    config: BrokerConfig, disk: Disk, rng: Rng, now: Now, cluster_id: str | None = None
) -> LogDirs:
    """Locked, and ours: empty ones are formatted. Raises CannotLoad, MalformedFile."""
    paths = tuple(dict.fromkeys(config.data_dirs))
    found = {path: LogDir(disk, path) for path in dict.fromkeys((config.metadata_dir, *paths))}
    known: dict[str, MetaProperties | None] = {}
    for path, log_dir in found.items():
        try:
            log_dir.open()
            known[path] = log_dir.read_meta_properties()
        except AlreadyLocked:
            raise CannotLoad(f"{path} is in use by another process; stop that one first") from None
        except DiskFull as error:
            raise CannotLoad(f"{path}: {error}; make room and start again") from error
        except OSError as error:
            if path == config.metadata_dir:
                raise CannotLoad(f"{path}: {error}") from error
            log.error("log directory %s is offline: %s", path, error)
    cluster_id = _cluster_id(config, known) or cluster_id or _new_cluster_id(config, rng)
    for path, properties in known.items():
        if properties is None:
            properties = _format(found[path], config, cluster_id, rng, now)
        found[path].directory_id = properties.directory_id
    ids = {found[path].directory_id for path in known}
    if len(ids) < len(known):
        raise CannotLoad(f"two of {', '.join(known)} have the same directory.id: one is a copy")
    online = [found[path] for path in paths if path in known]
    if not online:
        raise CannotLoad(f"none of {', '.join(paths)} can be used")
    log_dirs = LogDirs(paths, online, found[config.metadata_dir])
    log_dirs.cluster_id = cluster_id
    return log_dirs


def _new_cluster_id(config: BrokerConfig, rng: Rng) -> str:
    """A node that is a cluster alone may choose one; others would choose another."""
    if config.voters:
        is_alone = {voter.node_id for voter in config.voters} == {config.node_id}
    else:
        own = {f"{point.host}:{point.port}" for point in config.controller_endpoints}
        is_alone = own.issuperset(config.controller_quorum_bootstrap_servers)
    if not is_alone or not config.is_controller:
        raise CannotLoad(
            f"{config.metadata_dir} is empty, and other nodes belong to the cluster: format it with"
            " `tidelog format --cluster-id ID FILE`, with the same ID on every node"
        )
    return format_uuid(random_uuid(rng))


def _cluster_id(config: BrokerConfig, known: dict[str, MetaProperties | None]) -> str | None:
    """On which all directories agree; None if none is formatted."""
    cluster_id = None
    for path, properties in known.items():
        if properties is None:
            continue
        if properties.node_id != config.node_id:
            raise CannotLoad(
                f"{path} belongs to node {properties.node_id}, not to node {config.node_id}:"
                " correct node.id or log.dirs"
            )
        if cluster_id not in (None, properties.cluster_id):
            raise CannotLoad(
                f"{path} belongs to cluster {properties.cluster_id}, others to {cluster_id}:"
                " correct log.dirs"
            )
        cluster_id = properties.cluster_id
    if cluster_id is not None and known[config.metadata_dir] is None:
        raise CannotLoad(
            f"{config.metadata_dir} is to have the metadata log and is empty, others of log.dirs"
            " are not: correct metadata.log.dir or log.dirs"
        )
    return cluster_id


def _format(
    log_dir: LogDir, config: BrokerConfig, cluster_id: str, rng: Rng, now: Now
) -> MetaProperties:
    properties = MetaProperties(cluster_id, config.node_id, random_uuid(rng))
    names_voters = log_dir.path == config.metadata_dir and not config.voters
    voters = (own_voter(config, properties.directory_id),) if names_voters else ()
    format_log_dir(log_dir, properties, voters, now)
    log.info("formatted %s for cluster %s", log_dir.path, cluster_id)
    return properties
