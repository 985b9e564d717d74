"""Formats a node's directories: by itself when it starts alone, by command for larger clusters.

meta.properties is written last: a directory that has it has all the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.env import AlreadyLocked, Disk, Now, Rng
from tidelog.log.checkpoint import MalformedFile, MetaProperties
from tidelog.log.log_dir import LOCK, LogDir
from tidelog.metadata.format import METADATA_DIRECTORY, formatted_directory, random_uuid, voter
from tidelog.types import Uuid, parse_uuid
from tidelog.wire.messages.control_records import Voter

INITIAL_CONTROLLER = re.compile(r"(\d+)@(?:\[([0-9a-fA-F:%.]+)\]|([^\[\]:/@]+)):(\d+):([\w-]+)")


class CannotFormat(Exception):
    """One line that says why, and what to do."""


class Formatted(NamedTuple):
    """A directory that was made one of the cluster's."""

    path: str
    is_metadata: bool
    has_voters: bool
    is_voter: bool


def own_voter(config: BrokerConfig, directory_id: Uuid) -> Voter:
    first = config.controller_endpoints[0]
    return voter(config.node_id, directory_id, first.name, first.host, first.port)


def parse_initial_controllers(text: str, config: BrokerConfig) -> tuple[Voter, ...]:
    """`id@host:port:directory,...`, the voters that a new quorum begins with."""
    listener = next(iter(config.controller_listener_names), "CONTROLLER").upper()
    voters: dict[int, Voter] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        found = INITIAL_CONTROLLER.fullmatch(item)
        try:
            if found is None or not 0 < int(found[4]) <= 65535:
                raise ValueError("want ID@HOST:PORT:DIRECTORY")
            node_id, host, directory_id = int(found[1]), found[2] or found[3], parse_uuid(found[5])
        except ValueError as error:
            raise CannotFormat(f"initial controller {item!r}: {error}") from None
        if node_id in voters:
            raise CannotFormat(f"node {node_id} is twice among the initial controllers")
        voters[node_id] = voter(node_id, directory_id, listener, host, int(found[4]))
    if not voters:
        raise CannotFormat("there are no initial controllers: want ID@HOST:PORT:DIRECTORY,...")
    return tuple(voters[node_id] for node_id in sorted(voters))


def format_node(
    config: BrokerConfig,
    disk: Disk,
    rng: Rng,
    now: Now,
    cluster_id: str,
    voters: Sequence[Voter] = (),
    *,
    ignore_formatted: bool = False,
) -> list[Formatted]:
    """Every directory of a node that does not run. `voters` are those that a dynamic quorum begins
    with; this node, if it is one of them, has its metadata in the directory named there."""
    paths = sorted({config.metadata_dir, *config.data_dirs})
    with _locked(disk, paths):
        new = [path for path in paths if _is_new(disk, path, config, cluster_id)]
        if len(new) < len(paths) and not ignore_formatted:
            path = min(set(paths) - set(new))
            raise CannotFormat(
                f"Log directory {path} is already formatted. Use --ignore-formatted to ignore this"
                " directory and format the others."
            )
        done = []
        for path in new:
            is_metadata = path == config.metadata_dir
            named = next((v for v in voters if v.voter_id == config.node_id), None)
            is_voter = is_metadata and named is not None
            directory_id = named.voter_directory_id if named and is_voter else random_uuid(rng)
            format_log_dir(
                LogDir(disk, path),
                MetaProperties(cluster_id, config.node_id, directory_id),
                voters if is_metadata else (),
                now,
            )
            done.append(Formatted(path, is_metadata, is_metadata and bool(voters), is_voter))
    return done


@contextmanager
def _locked(disk: Disk, paths: list[str]) -> Iterator[None]:
    held = []
    try:
        for path in paths:
            try:
                disk.make_directory(path)
                disk.lock(f"{path}/{LOCK}")
            except AlreadyLocked:
                raise CannotFormat(
                    f"{path} is in use by another process; stop that one first"
                ) from None
            except OSError as error:
                raise CannotFormat(f"{path}: {error.strerror or error}") from None
            held.append(path)
        yield
    finally:
        for path in held:
            disk.unlock(f"{path}/{LOCK}")


def _is_new(disk: Disk, path: str, config: BrokerConfig, cluster_id: str) -> bool:
    try:
        known = LogDir(disk, path).read_meta_properties()
    except MalformedFile as error:
        raise CannotFormat(f"{error}; correct or remove it") from None
    if known is None:
        return True
    if known.node_id != config.node_id:
        raise CannotFormat(
            f"{path} belongs to node {known.node_id}, not to node {config.node_id}:"
            " correct node.id or log.dirs, or remove what is in it"
        )
    if known.cluster_id != cluster_id:
        raise CannotFormat(
            f"{path} belongs to cluster {known.cluster_id}, not to {cluster_id}:"
            " correct --cluster-id or log.dirs, or remove what is in it"
        )
    return False


def format_log_dir(
    log_dir: LogDir, properties: MetaProperties, voters: Sequence[Voter], now: Now
) -> None:
    """One directory; `voters` are for that with the metadata, of a dynamic quorum."""
    files = formatted_directory(
        properties.cluster_id,
        properties.node_id,
        properties.directory_id,
        now.wall_ms,
        initial_voters=voters,
    )
    if voters:
        log_dir.disk.make_directory(f"{log_dir.path}/{METADATA_DIRECTORY}")
    for name, content in files.items():
        log_dir.disk.replace(f"{log_dir.path}/{name}", content)
