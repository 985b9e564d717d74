"""Our replay against Apache's own image: the same records, and every image on the way is equal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.interop.jvm import run_program
from tests.unit.metadata.captured import DISK, LIFE
from tests.unit.metadata.lives import every_kind_of_record
from tidelog.metadata.batches import walk_metadata
from tidelog.metadata.delta import replay
from tidelog.metadata.frame import RECORD_TYPES, decode_record, encode_record
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.snapshot import records_of
from tidelog.wire.declare import Message

pytestmark = pytest.mark.interop


@dataclass
class Replayed:
    """What both sides made of the same records, after each group of them."""

    ours: list[list[Message]]
    theirs: list[list[Message]]


def replay_on_both_sides(groups: list[list[Message]]) -> Replayed:
    lines, ours, image, offset = [], [], MetadataImage.empty(), 0
    for group in groups:
        for record in group:
            image = replay(image, record, offset, 1)
            offset += 1
            lines.append(encode_record(record).hex())
        ours.append(list(records_of(image)))
        lines.append("image")
    printed = run_program("MetadataReplay", stdin="\n".join(lines).encode())
    theirs: list[list[Message]] = [[]]
    for line in printed.decode().split():
        if line == "end":
            theirs.append([])
        else:
            theirs[-1].append(decode_record(bytes.fromhex(line)))
    return Replayed(ours, theirs[:-1])


def unordered(records: list[Message]) -> list[Any]:
    """Kafka's maps are hashed: order within a kind means nothing, nor that of features."""
    return sorted(repr(sort_features(record)) for record in records)


def sort_features(record: Message) -> Any:
    values = {name: getattr(record, name) for name in type(record).FIELDS}
    if "features" in values:
        values["features"] = sorted(values["features"], key=lambda feature: feature.name)
    return (type(record).__name__, values)


def kinds(records: list[Message]) -> list[str]:
    """The kinds in their order, topics and partitions as one."""
    names = [type(record).__name__.replace("PartitionRecord", "TopicRecord") for record in records]
    return list(dict.fromkeys(names))


def compare(groups: list[list[Message]]) -> None:
    replayed = replay_on_both_sides(groups)
    assert len(replayed.ours) == len(replayed.theirs) == len(groups)
    for ours, theirs in zip(replayed.ours, replayed.theirs, strict=True):
        assert unordered(ours) == unordered(theirs)
        assert kinds(ours) == kinds(theirs)


def test_a_captured_life() -> None:
    records = [
        logged.record
        for logged in walk_metadata((DISK / LIFE).read_bytes())
        if type(logged.record) in RECORD_TYPES.values()
    ]
    compare([records[start : start + 10] for start in range(0, len(records), 10)])


def test_every_kind_of_record() -> None:
    compare(every_kind_of_record())
