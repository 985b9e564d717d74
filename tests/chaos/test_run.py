"""A short run of what `make chaos` does for longer; and what it looks for is found."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos import __main__ as chaos
from tests.chaos import load as chaos_load
from tests.chaos.load import LOST, Reader, read
from tests.chaos.nemesis import Nemesis
from tests.chaos.replicas import differences, out_of_turn
from tests.chaos.run import ALL_SECONDS, KINDS, Run
from tests.chaos.sequences import Sequences
from tidelog.sim.history import History, Place
from tidelog.testing import Cluster
from tidelog.types import Uuid
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


@pytest.mark.slow
def test_a_reader_that_does_not_live_through_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(self: Reader) -> None:
        once = iter([False, True])
        read(self.name, self._load, self._positions, lambda: next(once))

    monkeypatch.setattr(Reader, "run", run)
    monkeypatch.setattr(Nemesis, "strike", Nemesis.cut)
    said: list[str] = []
    found = Run(tmp_path, seed=1, say=said.append).go(3)
    assert found, said
    assert all(" reader got partition " in line for line in found), (found, said)


@pytest.fixture
def follow(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[str], History]]:
    """What a reader of two partitions complains of that is to get to offset 2 of each."""

    def following(*polls: list[tuple[int, int]], seconds_max: float) -> tuple[list[str], History]:
        """Each poll has partitions and offsets; behind the last there is nothing."""
        answers: Iterator[list[tuple[int, int]]] = iter(polls)
        consumer = SimpleNamespace(
            assign=lambda places: None,
            consume=lambda count, seconds: [message(*one) for one in next(answers, [])],
        )
        monkeypatch.setattr(chaos_load, "Consumer", lambda settings: consumer)
        complaints: list[str] = []
        load: Any = SimpleNamespace(
            servers="",
            topic="t",
            partitions=2,
            history=History(),
            place=lambda partition: Place(Uuid(bytes(16)), partition),
            complain=complaints.append,
        )
        reader = Reader("reader", load)
        reader.start()
        reader.finish({0: 2, 1: 2}, seconds_max)
        assert not reader.is_alive()
        return complaints, load.history

    def message(partition: int, offset: int) -> object:
        error = None
        if offset == LOST:
            code = chaos_load.KafkaError._AUTO_OFFSET_RESET
            error = SimpleNamespace(code=lambda: code, str=lambda: "out of range")
        return SimpleNamespace(
            error=lambda: error,
            partition=lambda: partition,
            offset=lambda: offset,
            value=lambda: b"x",
        )

    return following


def test_a_reader_has_to_get_to_the_end(
    follow: Callable[..., tuple[list[str], History]],
) -> None:
    complaints, history = follow([(0, 0), (1, 0)], [], [(0, 1), (1, 1)], seconds_max=60)
    assert complaints == []
    assert len(history.seen) == 4
    complaints, _ = follow([], seconds_max=0)
    assert complaints[1] == "reader got partition 1 up to 0, not 2"


def test_a_reader_whose_offset_is_gone_is_not_waited_for(
    follow: Callable[..., tuple[list[str], History]],
) -> None:
    complaints, _ = follow([(0, 0), (1, LOST)], [(0, 1)], seconds_max=60)
    assert complaints == ["reader: out of range"]


def test_a_run_in_which_nothing_happened_proves_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path, seed=1, say=str)
    assert run.missing(1) == ["no record was acknowledged"]
    run.records = 1
    assert run.missing(ALL_SECONDS - 1) == []
    assert len(run.missing(ALL_SECONDS)) == len(KINDS)
    run.rounds = {"kill_two": 1, "pause": 1, "roll": 2, "flap": 1, "cut": 0}
    assert run.missing(ALL_SECONDS) == ["there was no round of cut"]
    run.rounds["cut"] = 1
    assert run.missing(ALL_SECONDS) == []
    del run.rounds["roll"]
    assert run.missing(ALL_SECONDS) == ["there was no round of stop or roll"]


def test_so_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Run, "go", lambda self, seconds: [])
    monkeypatch.setattr(sys, "argv", ["chaos", "--data", str(tmp_path)])
    assert chaos.main() == 1
    assert "no record was acknowledged\n" in capsys.readouterr().err


def test_replicas_are_compared_byte_by_byte(tmp_path: Path) -> None:
    replicas = [tmp_path / f"node-{node}" for node in (1, 2)]
    for directory in replicas:
        (directory / "t-0").mkdir(parents=True)
    (replicas[0] / "t-0" / "0.log").write_bytes(b"abcdef")
    (replicas[1] / "t-0" / "0.log").write_bytes(b"abc")
    assert differences(replicas, "t", 1, 0)[0].endswith("(3 bytes) differ at 3")
    (replicas[1] / "t-0" / "3.log").write_bytes(b"dex")
    assert differences(replicas, "t", 1, 0)[0].endswith("(6 bytes) differ at 5")
    (replicas[1] / "t-0" / "3.log").write_bytes(b"def")
    assert differences(replicas, "t", 1, 0) == [], "a segment may end anywhere"
    with pytest.raises(FileNotFoundError, match="node-1/t-1"):
        differences(replicas, "t", 2, 0)


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
        return out_of_turn(tmp_path, "t", 1)

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
