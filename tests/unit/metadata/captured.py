"""What a live cluster of Apache Kafka 4.3.1 left on its disks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tidelog.types import Uuid, format_uuid
from tidelog.wire.batch import BatchWalk
from tidelog.wire.declare import Message, Struct
from tidelog.wire.schema import fields_of

DISK = Path(__file__).parents[2] / "data" / "disk"
LIFE = "static-quorum-life.00000000000000000000.log"
FILES = sorted(path.name for path in DISK.iterdir() if path.suffix in (".log", ".checkpoint"))


def life_records() -> list[dict[str, Any]]:
    """The records of the log LIFE but for its NoOps, as another reader decoded them."""
    lines = (DISK / "static-quorum-life.records.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def shown(struct: Struct, version: int) -> dict[str, Any]:
    """A message in the form of that file: no underscores, no capitals, defaulted tags absent."""
    found = {}
    for field in fields_of(type(struct)):
        value = getattr(struct, field.name)
        if not field.is_in(version):
            continue
        if field.is_tagged(version) and value == field.default:
            continue
        mark = "~" if field.is_tagged(version) else ""
        found[mark + field.name.replace("_", "")] = shown_value(value, version, field.name)
    return found


def shown_value(value: Any, version: int, name: str) -> Any:
    if isinstance(value, Struct):
        return shown(value, version)
    if isinstance(value, tuple):
        return [shown_value(item, version, name) for item in value]
    if isinstance(value, bytes):
        is_uuid = len(value) == 16 and ("id" in name.split("_") or "dir" in name)
        return format_uuid(Uuid(value)) if is_uuid else {"hex": value.hex()}
    return value


def lowered(data: Any) -> Any:
    """Field names without capitals."""
    if isinstance(data, dict):
        return {name.lower(): lowered(value) for name, value in data.items()}
    return [lowered(item) for item in data] if isinstance(data, list) else data


def type_name(record: Message) -> str:
    """How the file calls a record."""
    controls = {
        "LeaderChangeMessage": "LEADER_CHANGE",
        "SnapshotHeaderRecord": "SNAPSHOT_HEADER",
    }
    return controls.get(type(record).__name__, type(record).__name__)


def without_times(content: bytes) -> list[tuple[int, int, int, bytes]]:
    """Batches without timestamps, and so without checksums."""
    return [
        (batch.base_offset, batch.partition_leader_epoch, batch.attributes, bytes(batch.payload()))
        for batch in BatchWalk(content)
    ]
