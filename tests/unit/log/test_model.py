"""The log against a model of it: a list of batches and a handful of rules."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.conftest import examples
from tests.unit.log.log_samples import (
    NOW,
    WALL_MS,
    append,
    batches_of,
    built,
    open_log,
    produced,
    read_all,
    reopen,
    valid,
)

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.config import LogConfig
from tidelog.log.log import Appended
from tidelog.log.retention import delete_old_segments
from tidelog.wire.batch import assign_offset
from tidelog.wire.batch_reader import read_records

CONFIGS = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from([600, 1000, 5000]),
    index_interval_bytes=st.sampled_from([0, 150, 4096]),
    segment_ms=st.sampled_from([20, 10**9]),
    segment_index_bytes=st.sampled_from([40, 10**6]),
    cleanup_policy=st.sampled_from([frozenset({"compact"}), frozenset({"delete"})]),
)


class Model:
    """What a log is: batches in order, and three offsets."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, int, tuple[int, ...]]] = []
        """Base offset, last offset, epoch, timestamps of the records."""
        self.start = self.end = 0
        self.epochs: list[tuple[int, int]] = []
        self.sequences: dict[int, list[tuple[int, int, int]]] = {}
        """Producer -> base sequence, count and base offset of its batches."""

    def add(self, epoch: int, stamps: tuple[int, ...], base_offset: int | None = None) -> None:
        base = self.end if base_offset is None else base_offset
        self.batches.append((base, base + len(stamps) - 1, epoch, stamps))
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs = [*(entry for entry in self.epochs if entry[1] < base), (epoch, base)]
        self.end = base + len(stamps)

    def truncate(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch[1] < offset]
        self.end = offset
        self.start = min(self.start, offset)
        self.epochs = [entry for entry in self.epochs if entry[1] < offset]
        for producer, sent in self.sequences.items():
            self.sequences[producer] = [b for b in sent if b[2] + b[1] <= offset]

    def forget_below(self, offset: int) -> None:
        self.start = offset
        old = [entry for entry in self.epochs if entry[1] <= offset]
        if old:
            self.epochs = [(old[-1][0], offset), *self.epochs[len(old) :]]

    def readable(self) -> list[tuple[int, int, int, tuple[int, ...]]]:
        return [batch for batch in self.batches if batch[1] >= self.start]

    def find(self, timestamp: int) -> tuple[int, int] | None:
        for base, _, _, stamps in self.readable():
            for i, stamp in enumerate(stamps):
                if stamp >= timestamp and base + i >= self.start:
                    return stamp, base + i
        return None


class LogMachine(RuleBasedStateMachine):
    @initialize(config=CONFIGS)
    def begin(self, config):
        self.log = open_log(config=config)
        self.model = Model()
        self.epoch = 0
        self.clock = WALL_MS

    @rule(count=st.integers(1, 5), size=st.integers(0, 80), step=st.integers(-20, 20))
    def append_as_leader(self, count, size, step):
        self.clock += step
        stamps = tuple(self.clock + i for i in range(count))
        appended = append(self.log, built(timestamps=stamps, value=b"v" * size), epoch=self.epoch)
        assert appended.base_offset == self.model.end
        self.model.add(self.epoch, stamps)

    @rule(count=st.integers(1, 3), gap=st.integers(0, 10), batches=st.integers(1, 6))
    def append_as_follower(self, count, gap, batches):
        chunk = b""
        for _ in range(batches):
            # Where nothing is compacted a gap between segments is a loss, and the log ends there.
            base = self.model.end + (gap if self.log.config.is_compacted else 0)
            batch = built(timestamps=(self.clock,) * count)
            assign_offset(batch, 0, base, self.epoch)
            self.model.add(self.epoch, (self.clock,) * count, base)
            chunk += batch
        assert self.log.append_as_follower(memoryview(chunk), NOW) == self.model.end - 1

    @rule(producer=st.integers(1, 2), count=st.integers(1, 3))
    def append_in_sequence(self, producer, count):
        sent = self.model.sequences.setdefault(producer, [])
        sequence = sent[-1][0] + sent[-1][1] if sent else 0
        appended = append(self.log, produced(count, producer, sequence), epoch=self.epoch)
        assert not appended.is_duplicate
        sent.append((sequence, count, self.model.end))
        self.model.add(self.epoch, (WALL_MS,) * count)

    @precondition(lambda self: any(self.model.sequences.values()))
    @rule(back=st.integers(1, 7), producer=st.integers(1, 2))
    def retry(self, back, producer):
        sent = self.model.sequences.get(producer, [])
        if back > len(sent):
            return
        sequence, count, base = sent[-back]
        batch = valid(produced(count, producer, sequence))
        answer = self.log.append_as_leader(batch, self.epoch, NOW)
        if isinstance(answer, Appended) and not answer.is_duplicate:
            # What is deleted from the log is forgotten, at the latest by a restart.
            assert sent[-1][2] < self.model.start
            self.model.sequences[producer] = [(sequence, count, self.model.end)]
            self.model.add(self.epoch, (WALL_MS,) * count)
        elif back <= 5 and base >= self.model.start:
            assert isinstance(answer, Appended)
            assert (answer.base_offset, answer.is_duplicate) == (base, True)
        elif back > 5:
            assert answer is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule()
    def elect(self):
        self.epoch += 1
        self.log.leader_epochs.assign(self.epoch, self.log.log_end_offset)
        self.model.epochs = [e for e in self.model.epochs if e[1] < self.model.end]
        self.model.epochs.append((self.epoch, self.model.end))

    @rule(data=st.data())
    def truncate(self, data):
        # Between batches, as leader epochs are; inside of one a restart would find less.
        ends = [self.model.end, *(batch[1] + 1 for batch in self.model.readable())]
        offset = data.draw(st.sampled_from(ends))
        self.log.truncate_to(offset)
        self.model.truncate(offset)

    @rule(data=st.data())
    def advance_log_start(self, data):
        offset = data.draw(st.integers(self.model.start, self.model.end))
        if self.log.advance_log_start_offset(offset):
            self.model.forget_below(offset)

    @rule()
    def delete_old(self):
        delete_old_segments(self.log, self.model.end, Now(0, 0))

    @rule()
    def flush(self):
        self.log.flush(NOW)
        assert self.log.recovery_point == self.log.log_end_offset

    @rule()
    def stop_and_start(self):
        self.log = reopen(self.log, is_clean=True)

    @rule()
    def be_killed_and_start(self):
        self.log = reopen(self.log, is_clean=False, disk=self.log.disk.copy())
        # Of an election that was not flushed its batches tell; without batches it is forgotten.
        epochs = self.log.leader_epochs
        for base, last, epoch, _ in self.model.readable():
            assert epochs.epoch_for_offset(max(base, self.model.start)) == epoch
            assert epochs.epoch_for_offset(last) == epoch
        self.model.epochs = epochs.entries()

    @invariant()
    def offsets_agree(self):
        assert (self.log.log_start_offset, self.log.log_end_offset) == (
            self.model.start,
            self.model.end,
        )
        assert self.log.leader_epochs.entries() == self.model.epochs

    @invariant()
    def batches_agree(self):
        stored = read_all(self.log)
        found = [
            (b.base_offset, b.last_offset, b.partition_leader_epoch, tuple(r.timestamp for r in rs))
            for b, rs in ((b, read_records(b)) for b in stored)
        ]
        assert found == self.model.readable()

    @rule(data=st.data())
    def read(self, data):
        if self.model.start == self.model.end:
            return
        offset = data.draw(st.integers(self.model.start, self.model.end - 1))
        end = data.draw(st.integers(offset, self.model.end))
        bytes_max = data.draw(st.sampled_from([1, 100, 300, 10**6]))
        piece = self.log.read(offset, end, bytes_max)
        wanted = [batch for batch in self.model.batches if batch[1] >= offset and batch[1] < end]
        if not wanted:
            assert piece is None
            return
        if piece is not None:
            got = batches_of(piece.read())
            pairs = [(b.base_offset, b.last_offset) for b in got]
            assert pairs == [batch[:2] for batch in wanted[: len(got)]]
            assert len(got) == 1 or piece.size <= bytes_max

    @rule(delta=st.integers(-50, 150))
    def find_by_time(self, delta):
        found = self.log.offset_for_timestamp(self.clock + delta, self.model.end)
        expected = self.model.find(self.clock + delta)
        assert (found and found[:2]) == expected


TestLog = LogMachine.TestCase
TestLog.settings = settings(parent=examples(40), stateful_step_count=30)
