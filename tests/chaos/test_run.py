"""A short run of what `make chaos` does for longer; and what it looks for is found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.chaos.nemesis import Nemesis
from tests.chaos.replicas import differences, out_of_turn
from tests.chaos.run import Run
from tests.chaos.sequences import Sequences
from tidelog.testing import Cluster
from tidelog.wire.batch_builder import BatchBuilder

SECONDS = 12


@pytest.mark.slow
def test_a_cluster_survives_what_happens_to_it(tmp_path: Path) -> None:
    said: list[str] = []
    run = Run(tmp_path, seed=1, say=said.append)
    assert run.go(SECONDS) == [], said
    assert run.records > 0
    assert sum(run.rounds.values()) > 2


class Forgetful(Cluster):
    """With disks that keep half of what a node wrote, when it is killed."""

    def kill(self, node: int) -> None:
        super().kill(node)
        for path in self.directory.glob(f"node-{node}/chaos*/*.log"):
            os.truncate(path, path.stat().st_size // 2)


@pytest.mark.slow
def test_records_that_are_lost_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def strike(self: Nemesis) -> None:
        self.cut()  # which takes a while, and harms nobody
        self.kill_all()

    monkeypatch.setattr(Nemesis, "strike", strike)
    said: list[str] = []
    run = Run(tmp_path, seed=1, say=said.append, kind=Forgetful)
    found = run.go(3)
    assert any("what was acknowledged is not lost" in line for line in found), (found, said)
    assert any("gives up" in line for line in found), (found, said)


def test_replicas_are_compared_byte_by_byte(tmp_path: Path) -> None:
    replicas = [tmp_path / f"node-{node}" for node in (1, 2)]
    for directory in replicas:
        (directory / "t-0").mkdir(parents=True)
    (replicas[0] / "t-0" / "0.log").write_bytes(b"abcdef")
    (replicas[1] / "t-0" / "0.log").write_bytes(b"abc")
    assert differences(replicas, "t", 0)[0].endswith("(3 bytes) differ at 3")
    (replicas[1] / "t-0" / "3.log").write_bytes(b"dex")
    assert differences(replicas, "t", 0)[0].endswith("(6 bytes) differ at 5")
    (replicas[1] / "t-0" / "3.log").write_bytes(b"def")
    assert differences(replicas, "t", 0) == [], "a segment may end anywhere"


def test_a_batch_out_of_turn_is_found(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()

    def write(*sequences: tuple[int, int]) -> list[str]:
        """Batches of two records each: the producer's epoch and the first sequence."""
        log = bytearray()
        for index, (epoch, sequence) in enumerate(sequences):
            builder = BatchBuilder()
            for _ in range(2):
                builder.append(None, b"x", timestamp=1)
            log += builder.build(
                base_offset=index * 2,
                producer_id=7,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        (folder / "0.log").write_bytes(log)
        return out_of_turn(tmp_path, "t")

    assert write((0, 0), (0, 2), (1, 0)) == []
    assert write((0, 0), (0, 0)) == ["t-0: at 2 producer 7, epoch 0, has sequence 0, not 2"]
    assert len(write((0, 0), (0, 4))) == 1
    assert len(write((0, 2))) == 1


def test_a_raised_epoch_is_told() -> None:
    sequences = Sequences("producer1")
    for kind, text in (
        ("IDEMPSTATE", "Idempotent producer state change"),
        ("ERRSEQ", "failed due to skipped sequence numbers"),
        ("DRAIN", "t [0] beginning partition drain"),
        ("DRAIN", "All partitions drained, bumped epoch to PID{Id:7,Epoch:1}"),
    ):
        sequences.logger.debug("%s [%s] %s", kind, "rdkafka#producer-1", text)
    assert [line.split()[0] for line in sequences.raised] == ["failed", "All"]
