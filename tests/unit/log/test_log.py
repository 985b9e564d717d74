"""Append, read, roll, truncate; numbers are of the storage reference's scenarios."""

from __future__ import annotations

import errno
import random

import pytest
from tests.unit.log.log_samples import (
    APPEND_TIME,
    NOW,
    WALL_MS,
    append,
    bases,
    batches_of,
    built,
    marker,
    open_log,
    produced,
    read_all,
    reopen,
    sized,
    valid,
)

from tidelog.env import DiskFull, Now
from tidelog.errors import ErrorCode
from tidelog.log.config import LogConfig
from tidelog.log.log import Appended, CorruptBatch, OffsetOutOfRange
from tidelog.log.retention import delete_old_segments
from tidelog.sim.disk import SimulatedDisk
from tidelog.wire.batch import LOG_APPEND_TIME, TRANSACTIONAL, TimestampType, assign_offset
from tidelog.wire.compression import Compression

MIDDLE = LogConfig(segment_bytes=1000, index_interval_bytes=200)


def files_of(log) -> dict[str, bytes]:
    return {n: log.disk.read_file(f"{log.path}/{n}") for n in log.disk.names(log.path)}


def follow(log, *batches: bytearray) -> int:
    return log.append_as_follower(memoryview(b"".join(batches)), NOW)


def at(base_offset: int, batch: bytearray, epoch: int = 0) -> bytearray:
    assign_offset(batch, 0, base_offset, epoch)
    return batch


class TestAppend:
    def test_offsets_are_dense_and_the_epoch_is_the_leaders(self):
        log = open_log()
        first = append(log, built(3), epoch=7)
        second = append(log, built(2, partition_leader_epoch=9), epoch=7)
        assert first == Appended(0, 2, -1, 0)
        assert second == Appended(3, 4, -1, 0)
        stored = read_all(log)
        assert [(b.base_offset, b.partition_leader_epoch) for b in stored] == [(0, 7), (3, 7)]
        assert log.leader_epochs.entries() == [(7, 0)]

    def test_a_read_only_buffer_is_copied(self):
        log = open_log()
        log.append_as_leader(valid(bytes(built(2))), 3, NOW)
        assert read_all(log)[0].partition_leader_epoch == 3

    def test_log_append_time_scenario_10(self):
        config = LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME)
        log = open_log(config=config)
        appended = append(log, built(2, timestamp=5), rules=APPEND_TIME)
        batch = read_all(log)[0]
        assert appended.log_append_time_ms == batch.max_timestamp == WALL_MS
        assert batch.attributes & LOG_APPEND_TIME
        assert batch.base_timestamp == 5

    def test_what_a_client_may_not_say_is_corrected_scenario_11(self):
        log = open_log()
        batch = built(2, timestamp=WALL_MS, partition_leader_epoch=9, attributes=LOG_APPEND_TIME)
        append(log, batch, epoch=4)
        stored = read_all(log)[0]
        assert stored.attributes == 0
        assert stored.max_timestamp == WALL_MS
        assert stored.partition_leader_epoch == 4

    def test_a_batch_larger_than_a_segment_is_refused(self):
        log = open_log(config=LogConfig(segment_bytes=200))
        answer = log.append_as_leader(valid(sized(201)), 0, NOW)
        assert answer is ErrorCode.RECORD_LIST_TOO_LARGE
        assert log.log_end_offset == 0
        append(log, sized(200))

    def test_a_built_batch_gets_the_next_offset(self):
        log = open_log()
        append(log, built(3))
        answer = log.append_built(marker(5, commit=True), 2, NOW)
        assert answer == Appended(3, 3, -1, 0)
        assert log.leader_epochs.entries() == [(0, 0), (2, 3)]

    def test_a_follower_takes_gaps_and_leaves_a_torn_end_out(self):
        log = open_log()
        chunk = at(2, built(2)) + at(10, built(1), 3) + at(11, built(1))[:-1]
        assert log.append_as_follower(memoryview(chunk), NOW) == 10
        assert [b.base_offset for b in read_all(log)] == [2, 10]
        assert log.leader_epochs.entries() == [(0, 2), (3, 10)]

    @pytest.mark.parametrize("position", [20, 70])
    def test_a_follower_refuses_what_is_not_sound(self, position):
        log = open_log()
        chunk = at(0, built(2)) + at(2, built(2))
        chunk[len(chunk) // 2 + position] ^= 1
        with pytest.raises(CorruptBatch):
            follow(log, chunk)
        assert log.log_end_offset == 0
        with pytest.raises(CorruptBatch):
            follow(log, at(5, built()), at(5, built()))

    def test_a_follower_has_the_same_files_scenario_6(self):
        """Whatever the size of what it fetches, it rolls and indexes where its leader did."""
        config = LogConfig(segment_bytes=2000, index_interval_bytes=300, segment_index_bytes=60)
        leader = open_log(config=config)
        for i in range(100):
            append(leader, built(1 + i % 3, timestamp=WALL_MS + i * 7 % 50), epoch=i // 30)
        stored = b"".join(bytes(b.to_view()) for b in read_all(leader))
        leader.close(NOW)
        for size in (1, 500, 1700, len(stored)):
            follower = open_log(config=config)
            pending = b""
            for start in range(0, len(stored), size):
                pending += stored[start : start + size]
                before = follower.log_end_offset
                follower.append_as_follower(memoryview(pending), NOW)
                taken = [b for b in read_all(follower) if b.base_offset >= before]
                pending = pending[sum(b.size for b in taken) :]
                if size == 1 and start > 3000:
                    break
            if size > 1:
                follower.close(NOW)
                assert files_of(follower) == files_of(leader)

    def test_a_follower_rolls_by_time_where_its_leader_did(self):
        """The newest of what it fetches need not be the last."""
        config = LogConfig(segment_ms=100)
        leader, follower = open_log(config=config), open_log(config=config)
        for timestamp in (0, 10, 500, 20):
            append(leader, built(1, timestamp=WALL_MS + timestamp))
        assert bases(leader) == [0, 2]
        first, *others = [bytes(b.to_view()) for b in read_all(leader)]
        follower.append_as_follower(memoryview(first), NOW)
        follower.append_as_follower(memoryview(b"".join(others)), NOW)
        assert bases(follower) == [0, 2]


class TestSequences:
    def refusal(self, log, batch):
        end = log.log_end_offset
        answer = log.append_as_leader(valid(batch), 0, NOW)
        assert log.log_end_offset == end
        return answer

    def test_in_order_only(self):
        log = open_log()
        append(log, produced(2, 7, 10, epoch=1))
        out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert self.refusal(log, produced(2, 7, 13, epoch=1)) is out_of_order
        assert self.refusal(log, produced(1, 7, 11, epoch=1)) is out_of_order
        assert self.refusal(log, produced(1, 7, 5, epoch=2)) is out_of_order
        stale = self.refusal(log, produced(2, 7, 12, epoch=0))
        assert stale is ErrorCode.INVALID_PRODUCER_EPOCH
        append(log, produced(2, 7, 12, epoch=1))
        append(log, produced(2, 7, 0, epoch=2))
        assert log.producers.get(7).last_sequence == 1

    def test_a_retry_gets_the_old_offsets(self):
        log = open_log()
        for i in range(7):
            append(log, produced(2, 7, 2 * i))
        for i in range(2, 7):
            assert self.refusal(log, produced(2, 7, 2 * i)) == Appended(
                2 * i, 2 * i + 1, -1, 0, is_duplicate=True
            )
        assert self.refusal(log, produced(2, 7, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def test_sequences_wrap(self):
        log = open_log()
        append(log, produced(3, 7, 2**31 - 2))
        assert log.producers.get(7).last_sequence == 0
        append(log, produced(1, 7, 1))


class TestRoll:
    def test_by_size_scenario_1(self):
        log = open_log(config=LogConfig(segment_bytes=2000))
        for size in (1000, 911):
            append(log, sized(size))
        append(log, sized(89))
        assert bases(log) == [0]
        append(log, sized(100))
        assert bases(log) == [0, 3]

    def test_by_record_time_scenario_2(self):
        log = open_log(config=LogConfig(segment_ms=3000))
        for offset_ms in (0, 1000, 3000):
            append(log, built(timestamp=WALL_MS + offset_ms), now=Now(0, WALL_MS + 10**7))
        assert bases(log) == [0]
        append(log, built(timestamp=WALL_MS + 3001))
        assert bases(log) == [0, 3]
        append(log, built(timestamp=WALL_MS + 1))
        assert bases(log) == [0, 3]

    def test_by_record_time_after_a_restart(self):
        log = open_log(config=LogConfig(segment_ms=3000))
        append(log, built(timestamp=WALL_MS))
        append(log, built(timestamp=WALL_MS + 2000))
        log = reopen(log, is_clean=True)
        append(log, built(timestamp=WALL_MS + 3001))
        assert bases(log) == [0, 2]

    def test_without_timestamps_by_the_clock(self):
        log = open_log(config=LogConfig(segment_ms=3000))
        append(log, built(timestamp=-1))
        append(log, built(timestamp=-1), now=Now(0, WALL_MS + 3000))
        assert bases(log) == [0]
        append(log, built(timestamp=-1), now=Now(0, WALL_MS + 3001))
        assert bases(log) == [0, 2]

    def test_compacted_logs_keep_the_compaction_lag(self):
        policy = frozenset({"compact"})
        log = open_log(config=LogConfig(cleanup_policy=policy, max_compaction_lag_ms=500))
        append(log, built(timestamp=WALL_MS))
        append(log, built(timestamp=WALL_MS + 501))
        assert bases(log) == [0, 1]

    def test_jitter_shortens_a_segment(self):
        log = open_log(config=LogConfig(segment_ms=3000, segment_jitter_ms=1000))
        log.rng = random.Random(5)
        append(log, built())
        log.roll(1, NOW)
        jitter_ms = log.segments.active.roll_jitter_ms
        assert 0 < jitter_ms < 1000
        append(log, built(timestamp=WALL_MS))
        append(log, built(timestamp=WALL_MS + 3000 - jitter_ms))
        assert bases(log) == [0, 1]
        append(log, built(timestamp=WALL_MS + 3001 - jitter_ms))
        assert bases(log) == [0, 1, 3]

    def test_jitter_is_drawn_for_each_segment_and_below_its_limits(self):
        rng = random.Random(1)
        for jitter_ms, segment_ms in ((1000, 3000), (3000, 1000)):
            config = LogConfig(segment_ms=segment_ms, segment_jitter_ms=jitter_ms)
            drawn = [config.roll_jitter_ms(rng) for _ in range(1000)]
            assert 0 <= min(drawn) < 50
            assert 950 < max(drawn) < 1000
        assert LogConfig().roll_jitter_ms(rng) == 0
        assert LogConfig(segment_jitter_ms=5).roll_jitter_ms(None) == 0

    def test_by_a_full_index_scenario_3(self):
        log = open_log(config=LogConfig(segment_index_bytes=40, index_interval_bytes=0))
        for i in range(9):
            append(log, built(timestamp=WALL_MS + i))
        assert bases(log) == [0, 3, 6]

    def test_by_offset_distance_scenario_4(self):
        log = open_log()
        follow(log, at(0, built()))
        follow(log, at(2**31 - 1, built()))
        assert bases(log) == [0]
        follow(log, at(2**31 + 5, built(2)))
        assert bases(log) == [0, 2**31 + 5]
        assert [b.base_offset for b in read_all(log)] == [0, 2**31 - 1, 2**31 + 5]


class TestIndexes:
    def test_offset_entries_scenario_5(self):
        log = open_log(config=LogConfig(index_interval_bytes=200))
        for _ in range(7):
            append(log, sized(172))
        index = log.segments.active.offset_index
        assert list(index.last_offsets) == [2, 4, 6]
        assert list(index.positions) == [344, 688, 1032]

    def test_time_entries_scenario_7(self):
        log = open_log(config=LogConfig(index_interval_bytes=0))
        for offset_ms in (50, 40, 30, 60, 55):
            append(log, built(timestamp=WALL_MS + offset_ms))
        index = log.segments.active.time_index
        assert list(zip(index.timestamps, index.offsets, strict=True)) == [
            (WALL_MS + 50, 0),
            (WALL_MS + 60, 3),
        ]
        log.close(NOW)
        assert len(log.disk.read_file(f"{log.path}/{0:020d}.timeindex")) == 24

    def test_the_sealing_entry_scenario_7(self):
        log = open_log()
        append(log, built(timestamp=WALL_MS + 5))
        append(log, built(timestamp=WALL_MS + 3))
        log.roll(2, NOW)
        last = log.segments[0].time_index.last()
        assert last is not None
        assert (last.timestamp, last.relative_offset) == (WALL_MS + 5, 0)


class TestRead:
    @pytest.fixture(params=["warm", "clean", "unclean"])
    def log(self, request):
        log = open_log(config=MIDDLE)
        for i in range(60):
            append(log, built(1 + i % 4, value=b"y" * (i * 7 % 60)))
        return log if request.param == "warm" else reopen(log, is_clean=request.param == "clean")

    def test_every_offset_is_found(self, log):
        assert len(log.segments) > 5
        for offset in range(log.log_end_offset):
            piece = log.read(offset, log.log_end_offset, 1)
            batch = batches_of(piece.read())[0]
            assert batch.base_offset <= offset <= batch.last_offset
            assert len(piece) == batch.size

    def test_whole_batches_up_to_the_limits(self, log):
        for offset in range(0, log.log_end_offset, 3):
            for end in range(offset + 1, log.log_end_offset, 7):
                for bytes_max in (1, 150, 300, 700, 5000):
                    self.check(log, offset, end, bytes_max)

    def check(self, log, offset, end, bytes_max):
        piece = log.read(offset, end, bytes_max, at_least_one=False)
        more = log.read(offset, end, bytes_max)
        if piece is None:
            if more is not None:
                assert len(batches_of(more.read())) == 1
                assert more.size > bytes_max
            return
        assert piece.size <= bytes_max
        assert more.size == piece.size
        got = batches_of(piece.read())
        assert got[0].base_offset <= offset <= got[0].last_offset
        assert got[-1].last_offset < end
        rest = log.read(got[-1].next_offset, end, 1 << 20) if got[-1].next_offset < end else None
        if rest is not None and rest.file.path == piece.file.path:
            assert piece.size + batches_of(rest.read())[0].size > bytes_max

    def test_a_limit_that_fits_exactly(self, log):
        sizes = [batch.size for batch in read_all(log)][:3]
        for count in (1, 2, 3):
            assert log.read(0, log.log_end_offset, sum(sizes[:count])).size == sum(sizes[:count])
            less = log.read(0, log.log_end_offset, sum(sizes[:count]) - 1)
            assert less.size == sum(sizes[: max(1, count - 1)])

    def test_outside(self, log):
        end = log.log_end_offset
        assert log.read(end, end, 100) is None
        assert log.read(5, 5, 100) is None
        for offset in (-1, end + 1):
            with pytest.raises(OffsetOutOfRange):
                log.read(offset, end, 100)
        log.advance_log_start_offset(7)
        with pytest.raises(OffsetOutOfRange):
            log.read(6, end, 100)

    def test_a_slice_outlives_its_segment(self, log):
        piece = log.read(0, log.log_end_offset, 1 << 20)
        expected = piece.read()
        log.truncate_fully_and_start_at(500)
        assert piece.read() == expected

    def test_gaps_are_skipped_across_segments(self):
        log = open_log(config=LogConfig(segment_bytes=100))
        follow(log, at(0, built()), at(50, built()))
        for offset in (1, 30, 50):
            assert batches_of(log.read(offset, 51, 100).read())[0].base_offset == 50


class TestTimestamps:
    def test_across_segments_and_inside_a_batch_scenario_8(self):
        log = open_log(config=LogConfig(segment_bytes=300))
        for epoch, base in ((0, 0), (1, 1000), (1, 500), (2, 2000)):
            stamps = tuple(WALL_MS + base + i * 10 for i in range(4))
            append(log, built(timestamps=stamps, value=b"z" * 30), epoch=epoch)
        assert len(log.segments) == 4

        def find(offset_ms):
            return log.offset_for_timestamp(WALL_MS + offset_ms, log.log_end_offset)

        assert find(-5) == (WALL_MS, 0, 0)
        assert find(11) == (WALL_MS + 20, 2, 0)
        assert find(31) == (WALL_MS + 1000, 4, 1)
        assert find(1030) == (WALL_MS + 1030, 7, 1)
        assert find(1031) == (WALL_MS + 2000, 12, 2)
        assert find(2030) == (WALL_MS + 2030, 15, 2)
        assert find(2031) is None
        assert log.offset_for_timestamp(WALL_MS + 2000, 12) is None

    def test_below_the_log_start_nothing_is_found(self):
        log = open_log()
        append(log, built(5, step_ms=10))
        log.advance_log_start_offset(2)
        assert log.offset_for_timestamp(WALL_MS, 5) == (WALL_MS + 20, 2, 0)

    @pytest.mark.parametrize("codec", list(Compression))
    def test_the_maximum_scenario_9(self, codec):
        log = open_log(config=LogConfig(segment_bytes=250))
        assert log.offset_of_max_timestamp(0) is None
        for stamps in ((1, 9, 3), (9, 9, 2), (4, 5, 6)):
            append(log, built(timestamps=tuple(WALL_MS + s for s in stamps), compression=codec))
        assert log.offset_of_max_timestamp(9) == (WALL_MS + 9, 1, 0)
        assert log.offset_of_max_timestamp(1) is None
        log.advance_log_start_offset(3)
        assert log.offset_of_max_timestamp(9) == (WALL_MS + 9, 1, 0)  # as Kafka has it

    def test_the_maximum_with_log_append_time_scenario_9(self):
        log = open_log(config=LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
        append(log, built(3), rules=APPEND_TIME)
        assert log.offset_of_max_timestamp(3) == (WALL_MS, 0, 0)

    def test_records_without_timestamps(self):
        log = open_log()
        append(log, built(timestamp=-1))
        assert log.offset_of_max_timestamp(1) is None
        assert log.offset_for_timestamp(0, 1) is None


class TestTruncate:
    def tens(self, **config):
        log = open_log(config=LogConfig(segment_bytes=400, **config))
        for _ in range(10):
            append(log, built(5, value=b"q" * 10))
        return log

    def test_inside_a_batch_scenario_24(self):
        log = self.tens()
        assert log.truncate_to(33)
        assert log.log_end_offset == 33
        assert [b.base_offset for b in read_all(log)] == [0, 5, 10, 15, 20, 25]
        assert append(log, built(1)).base_offset == 33

    def test_at_or_above_the_end_scenario_24(self):
        log = self.tens()
        log.leader_epochs.assign(4, 50)
        assert not log.truncate_to(50)
        assert log.leader_epochs.entries() == [(0, 0)]
        assert log.log_end_offset == 50

    def test_below_the_first_base_scenario_24(self):
        log = self.tens()
        log.truncate_fully_and_start_at(100)
        append(log, built(2))
        assert log.truncate_to(90)
        assert (log.log_start_offset, log.log_end_offset, bases(log)) == (90, 90, [90])
        assert log.leader_epochs.entries() == []
        assert read_all(log) == []

    def test_log_start_and_recovery_point_go_down_with_it(self):
        log = self.tens()
        log.flush(NOW)
        log.advance_log_start_offset(40)
        log.truncate_to(12)
        assert (log.log_start_offset, log.recovery_point, log.log_end_offset) == (12, 12, 12)

    def test_a_flush_under_way_does_not_raise_the_recovery_point_above_a_truncation(self):
        log = self.tens()
        work = log.unflushed(NOW)
        log.truncate_to(20)
        for _ in range(4):
            append(log, built(10))
        work.flush(log.disk)
        log.flushed(work.end_offset)
        assert log.recovery_point == 20

    @pytest.mark.parametrize("is_clean", [True, False])
    def test_a_restart_agrees(self, is_clean):
        log = self.tens(index_interval_bytes=100)
        log.truncate_to(33)
        append(log, built(2), epoch=3)
        before = [bytes(b.to_view()) for b in read_all(log)]
        again = reopen(log, is_clean=is_clean)
        assert [bytes(b.to_view()) for b in read_all(again)] == before
        assert again.log_end_offset == 35
        assert again.leader_epochs.entries() == [(0, 0), (3, 33)]
        assert not [n for n in again.disk.names(again.path) if n.endswith(".deleted")]

    def test_index_files_forget_what_was_cut(self):
        log = self.tens(index_interval_bytes=0)
        log = reopen(log, is_clean=False)  # which writes the index files
        log.truncate_to(38)
        for _ in range(3):
            append(log, built(1))
        log.close(NOW)
        written = {n: c for n, c in files_of(log).items() if n.endswith("index")}
        again = open_log(log.disk.copy(), log.config)
        again.close(NOW)
        assert {n: c for n, c in files_of(again).items() if n.endswith("index")} == written

    def test_the_last_segments_go_first(self):
        """A crash in between must not leave a hole."""
        log = self.tens()
        renamed = []

        def note(operation, path):
            if operation == "rename" and path.endswith(".log"):
                renamed.append(path)

        log.disk.fault = note
        log.truncate_to(3)
        assert len(renamed) > 3
        assert renamed == sorted(renamed, reverse=True)

    def test_producers_are_those_of_before(self):
        log = open_log(config=LogConfig(segment_bytes=300))
        for i in range(12):
            append(log, produced(2, 7, 2 * i))
        log.truncate_to(14)
        assert log.append_as_leader(valid(produced(2, 7, 12)), 0, NOW).is_duplicate
        assert log.append_as_leader(valid(produced(2, 7, 4)), 0, NOW).base_offset == 4
        assert append(log, produced(2, 7, 14)).base_offset == 14


class TestFullDisk:
    def test_the_log_stays_as_it_was_and_goes_on_later(self):
        disk = SimulatedDisk()
        log = open_log(disk, LogConfig(segment_bytes=500))
        for _ in range(20):
            append(log, built(3))
        for room in range(0, 400, 20):
            disk.capacity_bytes = (1 << 40) - disk.free_bytes + room
            while True:
                answer = log.append_as_leader(valid(built(2)), 0, NOW)
                if answer is ErrorCode.KAFKA_STORAGE_ERROR:
                    break
            disk.capacity_bytes = 1 << 40
            assert append(log, built(1)).last_offset == log.log_end_offset - 1
        assert [b.next_offset for b in read_all(log)][-1] == log.log_end_offset
        again = reopen(log, is_clean=False)
        assert len(read_all(again)) == len(read_all(log))

    def test_another_error_is_the_directorys(self):
        disk = SimulatedDisk()
        log = open_log(disk)
        disk.fault = lambda operation, path: OSError(errno.EIO, "broken")
        with pytest.raises(OSError, match="broken"):
            log.append_as_leader(valid(built()), 0, NOW)

    def test_a_follower_learns_of_it(self):
        disk = SimulatedDisk()
        log = open_log(disk)
        disk.capacity_bytes = 10
        with pytest.raises(DiskFull):
            follow(log, at(0, built()))
        assert log.log_end_offset == 0


class TestFlush:
    def test_by_messages(self):
        log = open_log(config=LogConfig(flush_messages=3))
        log.flush(NOW)
        append(log, built(2))
        log.leader_epochs.is_dirty = False
        assert not log.must_flush(NOW)
        append(log, built(1))
        assert log.must_flush(NOW)
        log.flush(NOW)
        assert log.recovery_point == 3
        assert not log.must_flush(NOW)

    def test_by_time(self):
        log = open_log(config=LogConfig(flush_ms=100))
        append(log, built())
        log.flush(NOW)
        append(log, built())
        assert not log.must_flush(Now(1099, WALL_MS))
        assert log.must_flush(Now(1100, WALL_MS))

    def test_after_a_roll(self):
        log = open_log()
        append(log, built())
        log.flush(NOW)
        append(log, built())
        assert not log.must_flush(NOW)
        log.roll(2, NOW)
        assert log.must_flush(NOW)
        work = log.unflushed(NOW)
        assert {file.path.rpartition(".")[2] for file in work.files} == {
            "log",
            "index",
            "timeindex",
            "snapshot",
        }
        assert log.unflushed(NOW) is None
        log.flush_failed()
        assert log.unflushed(NOW) is not None

    def test_directories_are_flushed_where_names_have_changed(self):
        """They cost as much as the records, and most flushes follow a record or two."""
        log = open_log()

        def directories() -> tuple[str, ...]:
            work = log.unflushed(NOW)
            work.flush(log.disk)
            log.flushed(work.end_offset)
            return work.directories

        append(log, built())
        assert directories() == (log.path,), "the segment is new"
        append(log, built())
        assert directories() == ()
        log.roll(2, NOW)
        append(log, built())
        assert directories() == (log.path,)
        log.truncate_to(2)
        append(log, built())
        assert directories() == (log.path,)
        append(log, built())
        work = log.unflushed(NOW)
        assert work.directories == ()
        log.flush_failed()
        assert directories() == (log.path,), "nobody knows how far the last flush has come"


class TestTransactions:
    def test_an_abort_over_three_segments_scenario_28(self):
        log = open_log(config=LogConfig(segment_bytes=200))
        for i in range(6):
            append(log, produced(1, 1, i, attributes=TRANSACTIONAL))
        assert log.first_unstable_offset == 0
        append(log, built(1))
        log.append_built(marker(1, commit=False), 0, NOW)
        assert len(log.segments) >= 3
        assert log.first_unstable_offset == 0
        log.producers.high_watermark_advanced(8)
        assert log.first_unstable_offset is None
        for again in (log, reopen(log, is_clean=False), reopen(log, is_clean=True)):
            assert [tuple(e) for e in again.aborted_transactions(0, 8)] == [(1, 0, 7, 8)]
            assert list(again.aborted_transactions(8, 9)) == []
            entries = [len(segment.aborted) for segment in again.segments]
            assert sum(entries) == 1
        names = [n for n in log.disk.names(log.path) if n.endswith(".txnindex")]
        assert len(names) == 1

    def test_the_stable_offset_of_an_entry_is_the_next_open_transaction(self):
        log = open_log()
        append(log, produced(2, 1, 0, attributes=TRANSACTIONAL))
        append(log, produced(2, 2, 0, attributes=TRANSACTIONAL))
        log.append_built(marker(1, commit=False), 0, NOW)
        log.append_built(marker(2, commit=True), 0, NOW)
        assert [tuple(e) for e in log.aborted_transactions(0, 9)] == [(1, 0, 4, 2)]

    def test_a_record_outside_of_the_open_transaction_is_refused(self):
        log = open_log()
        append(log, produced(1, 1, 0, attributes=TRANSACTIONAL))
        assert log.append_as_leader(valid(produced(1, 1, 1)), 0, NOW) is ErrorCode.INVALID_TXN_STATE


class TestRetention:
    def twenty(self, **config):
        log = open_log(config=LogConfig(segment_bytes=300, **config))
        for i in range(20):
            append(log, sized(100, timestamp=WALL_MS - 1000 + i))
        assert bases(log) == [0, 3, 6, 9, 12, 15, 18]
        return log

    def test_by_size_scenario_29(self):
        log = self.twenty(retention_bytes=1000, retention_ms=-1)
        assert delete_old_segments(log, 20, NOW) == 3
        assert log.size_bytes == 1100
        assert (log.log_start_offset, bases(log)[0]) == (9, 9)

    def test_size_zero_scenario_29(self):
        log = self.twenty(retention_bytes=0)
        assert delete_old_segments(log, 0, NOW) == 0
        assert delete_old_segments(log, 20, NOW) == 7
        assert (log.log_start_offset, log.log_end_offset, bases(log)) == (20, 20, [20])
        assert append(log, built()).base_offset == 20

    def test_by_time_scenario_30(self):
        log = self.twenty(retention_ms=989)
        assert delete_old_segments(log, 20, NOW) == 3
        late = self.twenty(retention_ms=0)
        late.segments[0].max_timestamp = WALL_MS + 10**6
        assert delete_old_segments(late, 20, NOW) == 0

    def test_by_log_start_scenario_31(self):
        log = open_log(config=LogConfig(segment_bytes=300, cleanup_policy=frozenset({"compact"})))
        for _ in range(9):
            append(log, sized(100))
        log.advance_log_start_offset(7)
        assert log.leader_epochs.entries() == [(0, 7)]
        assert delete_old_segments(log, 9, NOW) == 2
        assert bases(log) == [6]
        assert log.take_deleted()
        assert reopen(log, is_clean=True).log_start_offset == 7
