"""Batches and logs that several tests use."""

from __future__ import annotations

import struct

from tidelog.env import Disk, Now
from tidelog.log.config import LogConfig
from tidelog.log.log import Appended, Log
from tidelog.log.recovery import load
from tidelog.sim.disk import SimulatedDisk
from tidelog.wire.batch import CONTROL, TRANSACTIONAL, RecordBatch, TimestampType, read_batch
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_validation import ProduceRules, ValidBatch, validate_produced
from tidelog.wire.compression import Compression

PATH = "data/tides-0"
WALL_MS = 1_800_000_000_000
NOW = Now(1000, WALL_MS)


def built(
    count: int = 1,
    *,
    value: bytes = b"v",
    key: bytes | None = b"k",
    timestamp: int = WALL_MS,
    step_ms: int = 0,
    timestamps: tuple[int, ...] = (),
    compression: Compression = Compression.NONE,
    **fields: int,
) -> bytearray:
    """A batch as a producer sends it."""
    builder = BatchBuilder()
    for i, at in enumerate(timestamps or [timestamp + i * step_ms for i in range(count)]):
        builder.append(key, value + b"%d" % i, timestamp=at)
    return builder.build(compression=compression, **fields)


def sized(size: int, count: int = 1, timestamp: int = WALL_MS) -> bytearray:
    """A batch of exactly so many bytes."""
    for padding in range(size):
        batch = built(count, value=b"x" * padding, timestamp=timestamp)
        if len(batch) == size:
            return batch
    raise AssertionError(size)


def produced(size: int, producer_id: int, sequence: int, *, epoch: int = 0, attributes: int = 0):
    """A batch of so many records of an idempotent producer."""
    return built(
        size,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=attributes,
    )


def marker(producer_id: int, *, commit: bool, epoch: int = 0, timestamp: int = WALL_MS):
    """The end of a transaction."""
    builder = BatchBuilder()
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 0)
    builder.append(key, value, timestamp=timestamp)
    return builder.build(
        attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id, producer_epoch=epoch
    )


def valid(batch: bytearray, *, rules: ProduceRules | None = None) -> ValidBatch:
    found = validate_produced(
        batch, rules or ProduceRules(), produce_version=11, now_ms=NOW.wall_ms
    )
    assert isinstance(found, ValidBatch), found
    return found


APPEND_TIME = ProduceRules(timestamp_type=TimestampType.LOG_APPEND_TIME)


def append(log: Log, batch: bytearray, *, epoch: int = 0, now: Now = NOW, rules=None) -> Appended:
    appended = log.append_as_leader(valid(batch, rules=rules), epoch, now)
    assert isinstance(appended, Appended), appended
    return appended


def open_log(
    disk: Disk | None = None,
    config: LogConfig | None = None,
    *,
    is_clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    now: Now = NOW,
    path: str = PATH,
) -> Log:
    return load(
        disk or SimulatedDisk(),
        path,
        config or LogConfig(),
        is_clean=is_clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        now=now,
    )


def reopen(log: Log, *, is_clean: bool, disk: Disk | None = None) -> Log:
    """As the next process finds it."""
    if is_clean:
        log.close(NOW)
    return open_log(
        disk or log.disk,
        log.config,
        is_clean=is_clean,
        recovery_point=log.recovery_point,
        log_start_offset=log.log_start_offset,
        path=log.path,
    )


def batches_of(data: bytes) -> list[RecordBatch]:
    found, position, view = [], 0, memoryview(data)
    while position < len(data):
        batch = read_batch(view, position, len(data))
        assert isinstance(batch, RecordBatch), batch
        found.append(batch)
        position = batch.end_position
    return found


def read_all(log: Log) -> list[RecordBatch]:
    """Every batch, as a consumer reads it."""
    found: list[RecordBatch] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, log.log_end_offset, 1 << 20)
        if piece is None:
            break
        got = batches_of(piece.read())
        assert all(batch.crc_is_right() for batch in got)
        found += got
        offset = got[-1].next_offset
    return found


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]
