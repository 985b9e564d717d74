"""Apache Kafka's own log classes on the same batches and the same directories as ours."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from tests.interop.jvm import run_program
from tests.unit.log.log_samples import built, marker, produced
from tidelog.disk import RealDisk
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.checkpoint import format_partition_metadata
from tidelog.log.config import LogConfig
from tidelog.log.log import Appended, Log
from tidelog.log.recovery import load
from tidelog.types import Uuid, format_uuid
from tidelog.wire.batch import TRANSACTIONAL
from tidelog.wire.batch_validation import ProduceRules, ValidBatch, validate_produced
from tidelog.wire.compression import Compression

pytestmark = pytest.mark.interop

TOPIC_ID = Uuid(bytes(range(16)))
WALL_MS = int(time.time() * 1000) // 1000 * 1000
NOW = Now(0, WALL_MS)

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=300, segment_ms=1000)
CONFIGS = (
    *("internal.segment.bytes=3000", "index.interval.bytes=300", "segment.ms=1000"),
    "message.timestamp.after.max.ms=1000000000000",
)

ERRORS = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.INVALID_PRODUCER_EPOCH: "InvalidProducerEpochException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.INVALID_TXN_STATE: "InvalidTxnStateException",
}


def oracle(
    directory: Path,
    commands: list[str],
    *,
    is_clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    configs: tuple[str, ...] = CONFIGS,
) -> list[str]:
    """What Apache's log on that directory answers."""
    arguments = (str(directory), str(is_clean).lower(), str(recovery_point), str(log_start_offset))
    printed = run_program(
        "LogOracle",
        *arguments,
        format_uuid(TOPIC_ID),
        *configs,
        stdin="".join(f"{command}\n" for command in commands).encode(),
    )
    answers = printed.decode().splitlines()
    assert len(answers) == len(commands), answers[-5:]
    return answers


class Ours:
    """Our log, asked the same questions in the same words."""

    def __init__(
        self,
        directory: Path,
        *,
        is_clean: bool = False,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        config: LogConfig = CONFIG,
    ) -> None:
        disk = RealDisk()
        disk.make_directory(str(directory))
        if not (directory / "partition.metadata").exists():
            path = f"{directory}/partition.metadata"
            disk.replace(path, format_partition_metadata(TOPIC_ID))
        self.high_watermark = 0
        self.log: Log = load(
            disk,
            str(directory),
            config,
            is_clean=is_clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            now=NOW,
        )

    def answer(self, command: str) -> str:
        name, *words = command.split(" ")
        answered = getattr(self, f"do_{name}")(*words)
        assert isinstance(answered, str)
        return answered

    def do_leader(self, epoch: str, data: str) -> str:
        valid = validate_produced(
            bytearray.fromhex(data),
            ProduceRules(timestamp_after_max_ms=10**12),
            produce_version=11,
            now_ms=WALL_MS,
        )
        assert isinstance(valid, ValidBatch), valid
        return self.told(self.log.append_as_leader(valid, int(epoch), NOW))

    def do_coordinator(self, epoch: str, data: str) -> str:
        return self.told(self.log.append_built(bytearray.fromhex(data), int(epoch), NOW))

    def told(self, answer: Appended | ErrorCode) -> str:
        if isinstance(answer, ErrorCode):
            return ERRORS[answer]
        return f"{answer.base_offset} {answer.last_offset}"

    def do_follower(self, epoch: str, data: str) -> str:
        return str(self.log.append_as_follower(memoryview(bytearray.fromhex(data)), NOW))

    def do_truncate(self, offset: str) -> str:
        return str(self.log.truncate_to(int(offset))).lower()

    def do_timestamp(self, timestamp: str) -> str:
        if timestamp == "-3":
            found = self.log.offset_of_max_timestamp(self.log.log_end_offset)
        else:
            found = self.log.offset_for_timestamp(int(timestamp), self.log.log_end_offset)
        return "none" if found is None else " ".join(map(str, found))

    def do_epoch(self, epoch: str) -> str:
        found = self.log.end_offset_for_epoch(int(epoch))
        return "none" if found == (-1, -1) else f"{found[0]} {found[1]}"

    def do_log_start(self, offset: str) -> str:
        return str(self.log.advance_log_start_offset(int(offset))).lower()

    def do_high_watermark(self, offset: str) -> str:
        return offset

    def do_state(self) -> str:
        log = self.log
        epochs = ", ".join(f"{epoch}@{start}" for epoch, start in log.leader_epochs.entries())
        producers = ", ".join(
            f"{p.producer_id}={p.producer_epoch}/{p.last_sequence}/"
            f"{-1 if p.current_txn_first_offset is None else p.current_txn_first_offset}"
            for p in sorted(log.producers.active(), key=lambda p: p.producer_id)
        )
        return f"{log.log_start_offset} {log.log_end_offset} [{epochs}] {{{producers}}}"

    def do_close(self) -> str:
        self.log.close(NOW)
        return "closed"


def workload(seed: int) -> list[str]:
    """Batches of all kinds, in an order that a seed decides."""
    rng = random.Random(seed)
    commands, sequences, clock, offset = [], {1: 0, 2: 0}, WALL_MS - 100_000, 0
    in_transaction = False
    for i in range(120):
        clock += rng.randrange(-30, 60)
        epoch, count = i // 40, rng.randrange(1, 6)
        fields: dict[str, int] = {}
        if rng.random() < 0.4:
            producer = rng.choice((1, 2))
            fields = {"producer_id": producer, "producer_epoch": 0}
            fields["base_sequence"] = sequences[producer]
            if producer == 2:
                fields["attributes"] = TRANSACTIONAL
                in_transaction = True
            sequences[producer] += count
        stamps = tuple(clock + rng.randrange(50) for _ in range(count))
        value = b"v" * rng.randrange(120)
        codec = rng.choice(list(Compression))
        batch = built(timestamps=stamps, value=value, compression=codec, **fields)
        commands.append(f"leader {epoch} {batch.hex()}")
        offset += count
        if in_transaction and rng.random() < 0.3:
            end = marker(2, commit=rng.random() < 0.5, timestamp=clock)
            commands.append(f"coordinator {epoch} {end.hex()}")
            in_transaction, offset = False, offset + 1
    for timestamp in range(WALL_MS - 100_100, clock + 200, 100):
        commands.append(f"timestamp {timestamp}")
    return [*commands, "timestamp -3", *(f"epoch {epoch}" for epoch in range(-1, 5)), "state"]


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def pairs(commands: list[str], ours: list[str], theirs: list[str]) -> None:
    for command, mine, other in zip(commands, ours, theirs, strict=True):
        assert mine == other, command[:80]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_batches_give_the_same_files(tmp_path, seed):
    """Byte for byte: segments, both indexes, transaction index, snapshots, epochs, metadata."""
    commands = [*workload(seed), "close"]
    ours = Ours(tmp_path / "ours-0")
    answers = [ours.answer(command) for command in commands]
    pairs(commands, answers, oracle(tmp_path / "theirs-0", commands))
    mine, other = files(tmp_path / "ours-0"), files(tmp_path / "theirs-0")
    assert len([name for name in mine if name.endswith(".log")]) > 5
    assert any(name.endswith(".txnindex") for name in mine)
    assert sorted(mine) == sorted(other)
    for name in mine:
        if name.endswith(".snapshot"):
            assert entries(mine[name]) == entries(other[name]), name
        else:
            assert mine[name] == other[name], name


def entries(snapshot: bytes) -> tuple[bytes, list[bytes]]:
    """Kafka's order is that of a hash map."""
    found = [snapshot[at : at + 46] for at in range(10, len(snapshot), 46)]
    return snapshot[:2] + snapshot[6:10], sorted(found)


@pytest.mark.parametrize("is_clean", [True, False])
def test_each_opens_the_others_directory(tmp_path, is_clean):
    """After a clean stop with its indexes and snapshots believed, and after a crash."""
    commands = workload(3)
    ours = Ours(tmp_path / "ours-0")
    answers = [ours.answer(command) for command in commands]
    if is_clean:
        ours.answer("close")
    else:
        ours.log.flush(NOW)
        # A crash: what a node would have written on a clean stop is not there.
    end = ours.log.log_end_offset if is_clean else 0
    state = ours.answer("state")
    questions = [c for c in commands if c.startswith(("timestamp", "epoch", "state"))]
    reads = [f"read {offset} {10**6}" for offset in range(0, ours.log.log_end_offset, 7)]
    asked = [*questions, *reads]
    shutil.copytree(tmp_path / "ours-0", tmp_path / "copy-0")
    theirs = oracle(tmp_path / "copy-0", [*asked, "close"], is_clean=is_clean, recovery_point=end)
    pairs(questions, answers[-len(questions) :], theirs[: len(questions)])
    again = Ours(tmp_path / "copy-0", is_clean=True, recovery_point=end)
    assert again.answer("state") == state
    for command, got in zip(reads, theirs[len(questions) :], strict=False):
        offset = int(command.split(" ")[1])
        piece = again.log.read(offset, again.log.log_end_offset, 10**6)
        assert piece is not None
        assert piece.read().hex() == got, command


def test_the_same_truncations(tmp_path):
    commands = workload(4)
    end = int(commands and "300")
    for offset in (end, 250, 133, 57):
        batch = built(3, timestamp=WALL_MS)
        commands += [f"truncate {offset}", "state", f"leader 7 {batch.hex()}", "state"]
    commands += ["truncate 0", "state", "close"]
    ours = Ours(tmp_path / "ours-0")
    answers = [ours.answer(command) for command in commands]
    theirs = oracle(tmp_path / "theirs-0", commands)
    # Kafka forgets all but the last batch of a producer when it truncates, we do not; what both
    # print here is the last one.
    pairs(commands, answers, theirs)


def test_the_same_refusals(tmp_path):
    def batch(sequence: int, *, epoch: int = 1, count: int = 2, producer: int = 5) -> str:
        return f"leader 0 {produced(count, producer, sequence, epoch=epoch).hex()}"

    commands = [batch(10)]
    commands += [batch(sequence) for sequence in (12, 12, 10, 15, 13, 11)]
    commands += [batch(14 + 2 * i) for i in range(6)]
    commands += [batch(sequence) for sequence in (10, 12, 14, 16, 24)]
    commands += [batch(24, count=1), batch(0, epoch=0), batch(5, epoch=2), batch(0, epoch=2)]
    commands += [batch(2**31 - 2, producer=6), batch(0, producer=6), batch(2**31 - 2, producer=6)]
    big = built(1, value=b"b" * 4000)
    commands += [f"leader 0 {big.hex()}", "state"]
    ours = Ours(tmp_path / "ours-0")
    answers = [ours.answer(command) for command in commands]
    pairs(commands, answers, oracle(tmp_path / "theirs-0", commands))


def test_the_same_log_start(tmp_path):
    commands = [*workload(5), "high_watermark 200"]
    commands += [c for o in (0, 7, 7, 150, 199) for c in (f"log_start {o}", "state")]
    commands += [*(f"epoch {epoch}" for epoch in range(4)), "close"]
    ours = Ours(tmp_path / "ours-0")
    answers = [ours.answer(command) for command in commands]
    pairs(commands, answers, oracle(tmp_path / "theirs-0", commands))
    for directory in ("ours-0", "theirs-0"):
        asked = ["state"]
        end = ours.log.log_end_offset
        again = {"is_clean": True, "recovery_point": end, "log_start_offset": 199}
        theirs = oracle(tmp_path / directory, asked, **again)
        assert [Ours(tmp_path / directory, **again).answer("state")] == theirs
