"""Apache Kafka takes what we format and what we write for its own."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.interop.apache import CLUSTER_ID, ApacheNode, run_tool
from tests.unit.metadata.captured import DISK, LIFE
from tests.unit.metadata.lives import every_kind_of_record
from tidelog.metadata.batches import walk_metadata
from tidelog.metadata.delta import replay, replay_all
from tidelog.metadata.format import formatted_directory, random_uuid, voter
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.snapshot import records_of, snapshot_content, snapshot_name
from tidelog.types import format_uuid

pytestmark = pytest.mark.interop

WALL_MS = 1_800_000_000_000


def write(directory: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_apache_starts_on_a_directory_that_we_formatted(tmp_path: Path) -> None:
    directory_id = random_uuid(random.Random(4))
    node = ApacheNode(tmp_path)
    write(node.log_dir, formatted_directory(CLUSTER_ID, 1, directory_id, WALL_MS))
    with node:
        metadata = AdminClient({"bootstrap.servers": node.bootstrap_servers}).list_topics()
        assert metadata.cluster_id == CLUSTER_ID
        assert list(metadata.brokers) == [1]
        assert format_uuid(directory_id) in (node.log_dir / "meta.properties").read_text()
    log = (node.log_dir / "__cluster_metadata-0" / f"{0:020}.log").read_bytes()
    features = [one.record for one in walk_metadata(log)][1:9]
    ours = [one.record for one in walk_metadata((DISK / LIFE).read_bytes())][1:9]
    assert features == ours, "the bootstrap records came from our file"


def test_apache_starts_a_dynamic_quorum_that_we_formatted(tmp_path: Path) -> None:
    directory_id = random_uuid(random.Random(5))
    node = ApacheNode(tmp_path)
    controller = node.properties["controller.quorum.voters"].partition("@")[2]
    host, _, port = controller.rpartition(":")
    node.properties = {
        name: value for name, value in node.properties.items() if name != "controller.quorum.voters"
    } | {"controller.quorum.bootstrap.servers": controller}
    voters = [voter(1, directory_id, "CONTROLLER", host, int(port))]
    files = formatted_directory(CLUSTER_ID, 1, directory_id, WALL_MS, initial_voters=voters)
    write(node.log_dir, files)
    with node:
        described = run_tool(
            "MetadataQuorumCommand", "--bootstrap-server", node.bootstrap_servers,
            "describe", "--status",
        )  # fmt: skip
    assert format_uuid(directory_id) in described


@pytest.mark.parametrize("life", ["captured", "every kind"])
def test_apache_dumps_our_snapshots(life: str, tmp_path: Path) -> None:
    image = MetadataImage.empty()
    if life == "captured":
        for logged in walk_metadata((DISK / LIFE).read_bytes()):
            image = replay(image, logged.record, logged.offset, logged.epoch)
    else:
        for group in every_kind_of_record():
            image = replay_all(image, group, image.offset + 1, 1)
    records = list(records_of(image))
    path = tmp_path / snapshot_name(image.offset + 1, image.epoch)
    path.write_bytes(
        snapshot_content(
            records, epoch=image.epoch, last_timestamp_ms=WALL_MS, written_at_ms=WALL_MS
        )
    )
    dumped = run_tool("DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path))
    assert dumped.count('payload: {"type":') == len(records)
    assert "SnapshotHeader" in dumped
    assert "SnapshotFooter" in dumped
    assert "nreadable" not in dumped
    assert "Error" not in dumped
