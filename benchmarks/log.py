"""What the log costs beside the system calls: append of a small batch, lookup of a read."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence

from tidelog.disk import RealDisk
from tidelog.env import File, Now
from tidelog.log.config import LogConfig
from tidelog.log.log import Appended, Log
from tidelog.log.recovery import load
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_validation import ProduceRules, ValidBatch, validate_produced

NOW = Now(0, 1_800_000_000_000)
CALLS = 20_000
ROUNDS = 5


class NoFile:
    """A file whose system calls cost nothing."""

    def __init__(self, size: int) -> None:
        self.size = size

    def append(self, parts: Sequence[bytes]) -> None:
        self.size += len(parts[0])


def batch_of(records: int, producer_id: int = -1, sequence: int = -1) -> ValidBatch:
    builder = BatchBuilder()
    for _ in range(records):
        builder.append(None, b"x" * 100, timestamp=NOW.wall_ms)
    data = builder.build(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    valid = validate_produced(data, ProduceRules(), produce_version=11, now_ms=NOW.wall_ms)
    assert isinstance(valid, ValidBatch)
    return valid


def best(measured: Callable[[], object]) -> float:
    """Microseconds a call, the best of some rounds: the machine is shared."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            measured()
        times.append(time.perf_counter() - start)
    return min(times) / CALLS * 1e6


def append_one(log: Log, batch: ValidBatch) -> Callable[[], object]:
    def call() -> object:
        appended = log.append_as_leader(batch, 0, NOW)
        assert isinstance(appended, Appended)
        return appended

    return call


def append_idempotent(log: Log) -> Callable[[], object]:
    template = batch_of(1, 7, 0)
    sequence = 0

    def call() -> object:
        nonlocal sequence
        batch = template._replace(batch=template.batch._replace(base_sequence=sequence))
        sequence += 1
        return log.append_as_leader(batch, 0, NOW)

    return call


def without_calls(log: Log) -> Log:
    segment = log.segments.active
    file: File = NoFile(segment.size)  # type: ignore[assignment]
    segment._file = file
    return log


def open_log(folder: str) -> Log:
    return load(
        RealDisk(),
        f"{folder}/tides-0",
        LogConfig(segment_bytes=(1 << 31) - 1),
        is_clean=False,
        recovery_point=0,
        log_start_offset=0,
        now=NOW,
    )


def main() -> None:
    small, large = batch_of(1), batch_of(140)
    with tempfile.TemporaryDirectory() as folder:
        log = open_log(folder)
        write = best(lambda: log.segments.active.file.append((small.batch.buffer,)))
        log = open_log(folder + "/a")
        print(f"append 1 x 100 B           {best(append_one(log, small)):6.2f} us")
        print(f"  of which system call     {write:6.2f} us")
        for offset in (1, 5, 200, 10_000):
            start, end = log.log_end_offset - offset, log.log_end_offset
            cost = best(lambda start=start, end=end: log.read(start, end, 1 << 20))  # type: ignore[misc]
            print(f"read {offset:6} batches back  {cost:6.2f} us")
        limited = best(lambda: log.read(log.log_end_offset - 200, log.log_end_offset, 1000))
        print(f"read, cut at 1000 bytes    {limited:6.2f} us")
        log = without_calls(open_log(folder + "/b"))
        print(f"append without system call {best(append_one(log, small)):6.2f} us")
        log = without_calls(open_log(folder + "/c"))
        print(f"  16 KB batch              {best(append_one(log, large)):6.2f} us")
        log = without_calls(open_log(folder + "/d"))
        print(f"  idempotent, with 1 us of test {best(append_idempotent(log)):6.2f} us")


if __name__ == "__main__":
    main()
