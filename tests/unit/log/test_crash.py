"""The power fails at every call of a workload, and of what was not flushed any part is lost."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.unit.log.log_samples import (
    NOW,
    append,
    bases,
    built,
    marker,
    produced,
    read_all,
)

from tidelog.log.config import LogConfig
from tidelog.log.index import OffsetIndex, TimeIndex
from tidelog.log.log import Log
from tidelog.log.log_dir import LogDir
from tidelog.sim.disk import Crashed, SimulatedDisk
from tidelog.types import Uuid
from tidelog.wire.batch import TRANSACTIONAL

CONFIG = LogConfig(segment_bytes=1400, index_interval_bytes=300)
TOPIC_ID = Uuid(b"0123456789abcdef")
KEY = ("tides", 0)
MODES = ("plain", "truncates", "flushes")
"""Flushed twice; the same with a truncation; flushed after every batch."""


class Witness:
    """What the workload was told: the batches in the log, and how many records are durable."""

    def __init__(self) -> None:
        self.histories: list[list[bytes]] = [[]]
        """A truncation begins a new one; until it is durable the old one may come back."""
        self.durable: list[int] = [0]
        """For each history, the offset below which it may not be lost."""

    def appended(self, log: Log, base_offset: int) -> None:
        piece = log.read(base_offset, log.log_end_offset, 1)
        assert piece is not None
        self.histories[-1].append(piece.read())

    def flushed(self, log: Log) -> None:
        self.histories, self.durable = self.histories[-1:], [log.recovery_point]

    def truncate(self, log: Log, offset: int) -> None:
        """What lies above is given up from now on."""
        kept = [bytes(b.to_view()) for b in read_all(log) if b.base_offset < offset]
        self.histories.append(kept)
        self.durable = [min(d, offset) for d in [*self.durable, offset]]


def workload(disk: SimulatedDisk, witness: Witness, *, mode: str) -> None:
    directory = LogDir(disk, "data")
    directory.open()
    log = directory.create(*KEY, TOPIC_ID, CONFIG, NOW)

    def next_sequence(producer_id: int) -> int:
        producer = log.producers.get(producer_id)
        return producer.last_sequence + 1 if producer else 0

    def put(batch: bytearray, epoch: int) -> None:
        base_offset = log.log_end_offset
        append(log, batch, epoch=epoch)
        witness.appended(log, base_offset)
        if mode == "flushes":
            flush()

    def flush() -> None:
        log.flush(NOW)
        witness.flushed(log)
        directory.write(directory.recovery_point_checkpoint())

    for round_ in range(3):
        for i in range(4):
            put(built(1 + i % 3, value=b"w" * 150), epoch=round_)
            put(produced(2, 7, next_sequence(7)), epoch=round_)
        put(produced(1, 9, next_sequence(9), attributes=TRANSACTIONAL), epoch=round_)
        base_offset = log.log_end_offset
        log.append_built(marker(9, commit=bool(round_ % 2)), round_, NOW)
        witness.appended(log, base_offset)
        if round_ == 1:
            flush()
        if mode == "truncates" and round_ == 1:
            offset = read_all(log)[-6].base_offset
            witness.truncate(log, offset)
            log.truncate_to(offset)
            directory.write(directory.recovery_point_checkpoint())
    flush()
    put(built(2), epoch=5)
    directory.close(NOW, {KEY: log.log_end_offset}, broker_epoch=3)


def check_indexes(log: Log) -> None:
    """They say what reading the batches says."""
    for segment in log.segments:
        offsets, times = OffsetIndex(10**6), TimeIndex(10**6)
        counted, greatest, reached = 0, -1, 0
        for position, header in segment.headers():
            if header.max_timestamp > greatest:
                greatest, reached = header.max_timestamp, header.last_offset - segment.base_offset
            if counted > CONFIG.index_interval_bytes:
                offsets.append(header.last_offset - segment.base_offset, position)
                times.maybe_append(greatest, reached)
                counted = 0
            counted += header.size
        if segment is not log.segments.active or len(segment.time_index) > len(times):
            times.maybe_append(greatest, reached)
        assert segment.offset_index.to_bytes() == offsets.to_bytes()
        assert segment.time_index.to_bytes() == times.to_bytes()


def recover(disk: SimulatedDisk) -> tuple[LogDir, Log]:
    directory = LogDir(disk, "data")
    directory.open()
    directory.load_all(lambda topic: CONFIG, NOW)
    assert directory.damaged == {}
    log = directory.logs.get(KEY)
    return directory, log or directory.create(*KEY, TOPIC_ID, CONFIG, NOW)


def check(survivor: SimulatedDisk, witness: Witness) -> None:
    check_what_is_flushed_then(survivor.copy())
    directory, log = recover(survivor)
    stored = [bytes(batch.to_view()) for batch in read_all(log)]
    fitting = [
        durable
        for history, durable in zip(witness.histories, witness.durable, strict=True)
        # One batch may be there whose append was cut short after its last byte.
        if stored[: len(history)] == history[: len(stored)] and len(stored) <= len(history) + 1
    ]
    assert fitting
    assert log.log_end_offset >= min(fitting)
    next_offset = 0
    for batch in read_all(log):
        assert batch.base_offset == next_offset
        assert log.leader_epochs.epoch_for_offset(next_offset) == batch.partition_leader_epoch
        next_offset = batch.next_offset
    assert log.log_end_offset == next_offset
    assert log.recovery_point <= next_offset
    check_indexes(log)
    # It goes on as if nothing had happened, and two more crashes change nothing.
    producer = log.producers.get(7)
    append(log, produced(2, 7, producer.last_sequence + 1 if producer else 0), epoch=8)
    expected = [bytes(batch.to_view()) for batch in read_all(log)]
    _, again = recover(survivor.copy())
    assert [bytes(batch.to_view()) for batch in read_all(again)] == expected
    directory.close(NOW, {})
    _, clean = recover(survivor.copy())
    assert [bytes(batch.to_view()) for batch in read_all(clean)] == expected
    check_indexes(clean)
    assert {p.producer_id: p.batches for p in clean.producers.active()} == {
        p.producer_id: p.batches for p in again.producers.active()
    }


def check_what_is_flushed_then(survivor: SimulatedDisk) -> None:
    """What was derived from the batches while they were recovered is durable with them."""
    directory, log = recover(survivor)
    log.flush(NOW)
    directory.write(directory.recovery_point_checkpoint())
    _, flushed = recover(survivor.crash())
    assert flushed.log_end_offset == log.log_end_offset
    check_indexes(flushed)


def crash_at(operation: int, torn_bytes: int, *, mode: str) -> tuple[SimulatedDisk, Witness]:
    disk, witness = SimulatedDisk(), Witness()
    disk.crash_at, disk.torn_bytes = operation, torn_bytes
    with pytest.raises(Crashed):
        workload(disk, witness, mode=mode)
    return disk, witness


def count_operations(*, mode: str) -> int:
    disk = SimulatedDisk()
    workload(disk, Witness(), mode=mode)
    return disk.operations


def everything(path: str, unsynced: int) -> int:
    return unsynced


Policy = Callable[[SimulatedDisk, random.Random], SimulatedDisk]

POLICIES: dict[str, Policy] = {
    "nothing unsynced": lambda disk, rng: disk.crash(),
    "the process alone died": lambda disk, rng: disk.copy(),
    "all names, no bytes": lambda disk, rng: disk.crash(keep_names=lambda changes: changes),
    "all bytes, no names": lambda disk, rng: disk.crash(everything),
    "zeros": lambda disk, rng: disk.crash(
        keep_names=lambda changes: changes, zeros=lambda path, lost: lost, keep_cuts=True
    ),
    "any part": lambda disk, rng: disk.crash(
        lambda path, unsynced: rng.randint(0, unsynced),
        lambda changes: rng.randint(0, changes),
        lambda path, lost: rng.choice([0, 0, lost, rng.randint(0, lost)]),
        keep_cuts=rng.random() < 0.5,
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("stride", [29, pytest.param(1, marks=pytest.mark.slow)])
def test_a_crash_at_every_call(policy, mode, stride):
    for operation in range(0, count_operations(mode=mode), stride):
        rng = random.Random(operation)
        for torn_bytes in (0, rng.randrange(1, 120)):
            disk, witness = crash_at(operation, torn_bytes, mode=mode)
            try:
                check(POLICIES[policy](disk, rng), witness)
            except BaseException as error:
                error.add_note(f"operation {operation}, torn after {torn_bytes} bytes")
                raise


@pytest.mark.slow
def test_a_write_that_is_cut_short_after_any_of_its_bytes():
    """By a kill: what the process wrote before is there, all of it."""
    torn = 0
    for operation in range(count_operations(mode="plain")):
        written: int | None = None
        for torn_bytes in range(10**6):
            disk, witness = crash_at(operation, torn_bytes, mode="plain")
            before, written = written, -disk.free_bytes
            if written == before:
                break  # it was whole, or is no write
            check(disk.copy(), witness)
            torn += 1
    assert torn > 5_000


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_crash_that_keeps_any_number_of_unsynced_bytes(mode):
    """Each byte that can be the last one of a file, where the workload has the most unsynced."""
    operations = count_operations(mode=mode)
    for operation in range(operations // 8, operations, operations // 8):
        disk, witness = crash_at(operation, 0, mode=mode)
        for kept in range(max(unsynced_bytes(disk).values(), default=0) + 1):
            check(disk.crash(lambda path, n, kept=kept: min(kept, n), lambda n: n), witness)


def unsynced_bytes(disk: SimulatedDisk) -> dict[str, int]:
    """How many each file has."""
    found: dict[str, int] = {}

    def look(path: str, unsynced: int) -> int:
        found[path] = unsynced
        return unsynced

    disk.crash(look, lambda n: n)
    return found


@pytest.mark.slow
def test_a_crash_that_loses_any_number_of_bytes_of_any_segment():
    """One file is torn at every byte, all others are whole: segments behind a torn one go."""
    crashes = [crash_at(n, 0, mode="plain") for n in range(count_operations(mode="plain"))]
    disk, witness = max(crashes, key=lambda crash: sum(unsynced_bytes(crash[0]).values()))
    logs = {path: n for path, n in unsynced_bytes(disk).items() if path.endswith(".log")}
    assert len(logs) > 2
    assert min(logs.values()) > 500
    for torn, unsynced in logs.items():
        for lost in range(1, unsynced + 1):
            survivor = disk.crash(
                lambda path, n, torn=torn, lost=lost: n - lost if path == torn else n,
                lambda n: n,
            )
            check(survivor, witness)


def test_the_workload_has_what_it_claims():
    disk, witness = SimulatedDisk(), Witness()
    workload(disk, witness, mode="truncates")
    directory, log = recover(disk)
    assert directory.was_clean
    assert directory.last_broker_epoch == 3
    assert len(bases(log)) > 3
    assert [segment.aborted for segment in log.segments if segment.aborted]
    assert directory.high_watermarks == {KEY: log.log_end_offset}
