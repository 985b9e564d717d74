"""Small text files: the offset checkpoints, leader-epoch-checkpoint, partition.metadata,
meta.properties and the marker of a clean shutdown. Each is replaced whole."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.types import Offset, Uuid, format_uuid, parse_uuid

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
REPLICATION_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

TopicPartition = tuple[str, int]


class MalformedFile(Exception):
    """A small file does not say what it should; a person has to look at it."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why


def format_lines(entries: Iterable[str]) -> bytes:
    """Version, count, entries."""
    lines = list(entries)
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def parse_lines(name: str, content: bytes | None) -> list[str]:
    """The entries; a missing or empty file has none. Raises MalformedFile."""
    if not content:
        return []
    try:
        version, count, *lines = content.decode().splitlines()
        if int(version) != 0:
            raise MalformedFile(name, f"version {version}, want 0")
        if int(count) != len(lines):
            raise MalformedFile(name, f"{count} entries announced, {len(lines)} there")
    except ValueError as error:
        raise MalformedFile(name, "want lines: version, count, entries") from error
    return lines


def format_offsets(offsets: Iterable[tuple[TopicPartition, Offset]]) -> bytes:
    """One of the four offset checkpoints."""
    return format_lines(map(format_offset, offsets))


def format_offset(entry: tuple[TopicPartition, Offset]) -> str:
    (topic, index), offset = entry
    return f"{topic} {index} {offset}"


def parse_offsets(name: str, content: bytes | None) -> dict[TopicPartition, Offset]:
    """The inverse; raises MalformedFile."""
    offsets: dict[TopicPartition, Offset] = {}
    for line in parse_lines(name, content):
        try:
            topic, partition, offset = line.split(" ")
            offsets[topic, int(partition)] = int(offset)
        except ValueError as error:
            raise MalformedFile(name, f"{line!r}: want topic, partition, offset") from error
    return offsets


def format_partition_metadata(topic_id: Uuid) -> bytes:
    """Without a final newline, as Kafka writes it."""
    return f"version: 0\ntopic_id: {format_uuid(topic_id)}".encode()


def parse_partition_metadata(name: str, content: bytes) -> Uuid:
    """The topic's id; raises MalformedFile."""
    try:
        fields = dict(line.split(": ") for line in content.decode().splitlines())
        if fields["version"] != "0":
            raise MalformedFile(name, f"version {fields['version']}, want 0")
        return parse_uuid(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise MalformedFile(name, "want the lines version and topic_id") from error


class MetaProperties(NamedTuple):
    """Whose a log directory is."""

    cluster_id: str
    node_id: int
    directory_id: Uuid


def format_meta_properties(properties: MetaProperties) -> bytes:
    """Java properties, the keys in order."""
    return (
        f"cluster.id={properties.cluster_id}\n"
        f"directory.id={format_uuid(properties.directory_id)}\n"
        f"node.id={properties.node_id}\n"
        "version=1\n"
    ).encode()


def parse_meta_properties(name: str, content: bytes) -> MetaProperties:
    """Raises MalformedFile."""
    lines = [line.strip() for line in content.decode(errors="replace").splitlines()]
    pairs = [line.partition("=") for line in lines if not line.startswith(("#", "!"))]
    fields = {key.strip(): value.strip() for key, _, value in pairs}
    if fields.get("version") != "1":
        raise MalformedFile(name, f"version {fields.get('version')}, want 1")
    try:
        return MetaProperties(
            fields["cluster.id"], int(fields["node.id"]), parse_uuid(fields["directory.id"])
        )
    except KeyError as error:
        raise MalformedFile(name, f"{error.args[0]} is missing") from error
    except ValueError as error:
        raise MalformedFile(name, str(error)) from error


def format_clean_shutdown(broker_epoch: int) -> bytes:
    """What the last act of a clean stop writes."""
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def parse_clean_shutdown(content: bytes) -> int:
    """The broker's epoch; -1 if it is not said, for the file's existence alone counts."""
    try:
        epoch = json.loads(content)["brokerEpoch"]
    except (ValueError, TypeError, KeyError):
        return -1
    return epoch if isinstance(epoch, int) else -1
