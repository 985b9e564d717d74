"""Loading a log: clean, after a crash, after damage. Numbers are of the storage reference."""

from __future__ import annotations

import struct

import pytest
from tests.unit.log.log_samples import (
    NOW,
    PATH,
    WALL_MS,
    append,
    bases,
    built,
    marker,
    open_log,
    produced,
    read_all,
    reopen,
    valid,
)

from tidelog.errors import ErrorCode
from tidelog.log.config import LogConfig
from tidelog.log.recovery import load
from tidelog.log.repair import cut, find_damage
from tidelog.log.results import DamagedSegment
from tidelog.sim.disk import SimulatedDisk
from tidelog.wire.batch import TRANSACTIONAL, BatchWalk

OFFSETS = f"{0:020d}.index"
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=150)


def sample(config: LogConfig = SMALL):
    log = open_log(config=config)
    for i in range(40):
        append(log, produced(1 + i % 3, i % 2, 0 if i < 2 else sequences(i)), epoch=i // 15)
    return log


def sequences(i: int) -> int:
    """The next sequence of producer i % 2 after its batches 0 to i - 1 of the sample."""
    return sum(1 + j % 3 for j in range(i) if j % 2 == i % 2)


def contents(log) -> list[bytes]:
    return [bytes(batch.to_view()) for batch in read_all(log)]


def state(log):
    producers = {
        p.producer_id: (p.producer_epoch, tuple(p.batches), p.current_txn_first_offset)
        for p in log.producers.active()
    }
    return contents(log), log.log_end_offset, log.leader_epochs.entries(), producers


def index_files(disk, path=PATH):
    names = [n for n in disk.names(path) if n.endswith(("index",))]
    return {name: disk.read_file(f"{path}/{name}") for name in names}


def damage(disk, name: str, position: int, content: bytes, path: str = PATH) -> None:
    """Overwrite bytes of a file."""
    file = disk.open(f"{path}/{name}")
    rest = file.read(position + len(content), file.size)
    file.truncate(position)
    file.append(content + rest)


def last_log(log) -> str:
    return f"{bases(log)[-1]:020d}.log"


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_restart_finds_the_same_log_scenario_15(is_clean):
    log = sample()
    assert len(log.segments) > 5
    before = state(log)
    again = reopen(log, is_clean=is_clean)
    assert state(again) == before
    assert append(again, produced(1, 0, sequences(40))).base_offset == log.log_end_offset


def test_recovery_makes_the_indexes_that_appending_made_scenario_15():
    log = sample()
    crashed = log.disk.copy()
    log.close(NOW)
    again = open_log(crashed, SMALL)
    again.close(NOW)
    assert index_files(crashed) == index_files(log.disk)


@pytest.mark.parametrize("recovery_point", [0, 5, 30, 79])
def test_from_any_recovery_point_the_state_is_the_same(recovery_point):
    log = sample()
    log.flush(NOW)
    assert log.log_end_offset == 79
    again = open_log(log.disk.copy(), SMALL, recovery_point=recovery_point)
    assert state(again) == state(log)
    assert again.recovery_point == recovery_point


@pytest.mark.parametrize("tail", ["torn", "zeros", "garbage", "header"])
def test_a_torn_tail_is_cut_scenario_16(tail):
    log = sample()
    before = state(log)
    disk = log.disk.copy()
    extra = bytes(built(3))
    piece = {"torn": extra[:-1], "zeros": bytes(300), "garbage": b"\x07" * 90, "header": extra[:30]}
    disk.open(f"{PATH}/{last_log(log)}").append(piece[tail])
    again = open_log(disk, SMALL, recovery_point=log.log_end_offset)
    assert state(again) == before


@pytest.mark.parametrize("tail", [bytes(300), bytes(built(3))[:-1]])
def test_a_torn_tail_under_the_clean_marker_is_cut_too(tail):
    log = sample()
    before = state(log)
    log.close(NOW)
    log.disk.open(f"{PATH}/{last_log(log)}").append(tail)
    again = open_log(log.disk, SMALL, is_clean=True, recovery_point=log.recovery_point)
    assert state(again) == before


def test_a_flipped_byte_before_sound_batches_takes_the_partition_offline_scenario_17():
    log = sample()
    base = bases(log)[2]
    name = f"{base:020d}.log"
    disk = log.disk.copy()
    damage(disk, name, 100, b"\xff\xfe")
    before = {n: disk.read_file(f"{PATH}/{n}") for n in disk.names(PATH) if n.endswith(".log")}
    with pytest.raises(DamagedSegment) as raised:
        open_log(disk, SMALL)
    assert raised.value.path == f"{PATH}/{name}"
    assert raised.value.position <= 100
    after = {n: disk.read_file(f"{PATH}/{n}") for n in disk.names(PATH) if n.endswith(".log")}
    assert after == before


def test_a_flipped_byte_in_a_last_batch_before_another_segment_is_damage_too():
    log = sample()
    segment = log.segments[2]
    disk = log.disk.copy()
    damage(disk, f"{segment.base_offset:020d}.log", segment.size - 2, b"\xff")
    with pytest.raises(DamagedSegment, match="follows"):
        open_log(disk, SMALL)


def test_a_flipped_byte_in_the_very_last_batch_is_a_torn_tail():
    log = sample()
    disk = log.disk.copy()
    damage(disk, last_log(log), log.segments.active.size - 2, b"\xff")
    again = open_log(disk, SMALL)
    assert contents(again) == contents(log)[:-1]


def test_a_flipped_byte_below_the_recovery_point_goes_unseen_scenario_17():
    log = sample()
    log.flush(NOW)
    disk = log.disk.copy()
    damage(disk, f"{0:020d}.log", 100, b"\xff\xfe")
    again = open_log(disk, SMALL, recovery_point=log.log_end_offset)
    assert again.log_end_offset == log.log_end_offset


def test_flushed_bytes_that_are_missing_are_no_torn_tail():
    log = open_log(config=SMALL)
    for _ in range(40):
        append(log, built(2))
    log.flush(NOW)
    disk = log.disk.copy()
    segment, end = log.segments[-2], log.segments[-1].base_offset
    disk.open(segment.path(".log")).truncate(segment.size - 5)
    with pytest.raises(DamagedSegment):
        open_log(disk.copy(), SMALL, recovery_point=end - 1)
    again = open_log(disk.copy(), SMALL, recovery_point=end - 2)
    assert again.log_end_offset == end - 2


def test_a_batch_in_a_value_is_not_taken_for_one_of_the_log():
    """A torn batch whose record holds a sound batch, as when somebody mirrors raw batches."""
    log = open_log()
    append(log, built(5))
    disk = log.disk.copy()
    outer = built(1, value=bytes(built(1)) + b"x" * 50)
    disk.open(f"{PATH}/{0:020d}.log").append(outer[:-20])
    assert open_log(disk).log_end_offset == 5


def test_repair_cuts_on_purpose():
    log = sample()
    base, before = bases(log)[2], contents(log)
    log.close(NOW)
    disk = log.disk
    damage(disk, f"{base:020d}.log", 100, b"\xff\xfe")
    damage_found = find_damage(disk, PATH)
    assert damage_found is not None
    assert damage_found.path == f"{PATH}/{base:020d}.log"
    assert len(index_files(disk)) == 2 * len(log.segments)
    done = cut(disk, PATH, NOW)
    assert base <= done.log_end_offset < bases(log)[3]
    assert done.bytes_removed > 0
    again = open_log(disk, SMALL, is_clean=True, recovery_point=log.recovery_point)
    assert contents(again) == before[: len(contents(again))]
    assert again.log_end_offset == done.log_end_offset
    assert find_damage(disk, PATH) is None


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("which", [0, 2, -1])
def test_a_missing_index_is_rebuilt_on_a_clean_start_scenario_18(kind, which):
    log = sample()
    log.close(NOW)
    before, disk = index_files(log.disk), log.disk
    disk.remove(f"{PATH}/{bases(log)[which]:020d}.{kind}")
    again = open_log(disk, SMALL, is_clean=True, recovery_point=log.recovery_point)
    assert state(again) == state(log)
    # At once: no flush looks below the recovery point, and an empty file would be believed.
    assert index_files(disk.crash(keep_names=lambda changes: changes)) == before
    again.close(NOW)
    assert index_files(disk) == before


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("bit", [0, 5])
def test_a_damaged_index_leads_nobody_astray(is_clean: bool, bit: int):
    """Whichever of its bytes a disk has changed: what the log has is read, from every offset."""
    log = sample(LogConfig(segment_bytes=2400, index_interval_bytes=150))
    log.close(NOW)
    wanted = state(log)
    first = f"{PATH}/{OFFSETS}"
    size = log.disk.size(first)
    assert size is not None
    assert size > 80
    assert len(log.segments) > 1
    for position in range(size):
        disk = log.disk.copy()
        disk.flip_bit(first, position, bit)
        again = open_log(disk, log.config, is_clean=is_clean, recovery_point=log.recovery_point)
        assert state(again) == wanted, position
        for offset in range(0, bases(log)[1], 3):
            found = again.read(offset, again.log_end_offset, 300)
            assert found is not None
            got = list(BatchWalk(found.read()))
            assert got[0].base_offset <= offset <= got[0].last_offset, (position, offset)
            assert sum(batch.size for batch in got) == len(found), (position, offset)


def test_an_index_without_a_log_is_removed_scenario_18():
    log = sample()
    log.close(NOW)
    for kind in ("index", "timeindex", "txnindex"):
        log.disk.open(f"{PATH}/{77:020d}.{kind}")
    open_log(log.disk, SMALL, is_clean=True)
    assert not [name for name in log.disk.names(PATH) if f"{77:020d}" in name]


def test_a_missing_txn_index_comes_back_with_the_segment():
    log = open_log(config=LogConfig(segment_bytes=300))
    for i in range(5):
        append(log, produced(2, 4, 2 * i, attributes=TRANSACTIONAL))
    log.append_built(marker(4, commit=False), 0, NOW)
    log.close(NOW)
    segment = log.segments.active
    expected = log.disk.read_file(segment.path(".txnindex"))
    assert len(expected) == 34
    damage(log.disk, f"{segment.base_offset:020d}.txnindex", 18, struct.pack(">q", 1))
    again = open_log(log.disk, log.config, is_clean=True)
    again.close(NOW)
    assert log.disk.read_file(segment.path(".txnindex")) == expected


def test_a_padded_index_is_read_up_to_its_end():
    log = sample()
    log.close(NOW)
    for kind in ("index", "timeindex"):
        log.disk.open(f"{PATH}/{bases(log)[-1]:020d}.{kind}").append(bytes(120))
    before = bases(log)
    again = open_log(log.disk, SMALL, is_clean=True)
    assert state(again) == state(log)
    append(again, built(1))
    assert bases(again)[: len(before)] == before


def test_interrupted_compactions_scenario_20():
    """Segments 0 and 1 of the log were cleaned into one; a crash after each step."""
    log = sample()
    log.close(NOW)
    old = [f"{base:020d}" for base in bases(log)[:2]]
    merged = b"".join(log.disk.read_file(f"{PATH}/{name}.log") for name in old)
    expected = contents(log)

    def start(step: int) -> SimulatedDisk:
        disk = log.disk.copy()
        state_of = ".cleaned" if step == 1 else ".swap"
        for kind in ("log", "index", "timeindex"):
            content = merged if kind == "log" else b""
            suffix = ".cleaned" if step == 2 and kind == "timeindex" else state_of
            disk.open(f"{PATH}/{old[0]}.{kind}{suffix}").append(content)
        if step >= 4:
            for name in old:
                for kind in ("log", "index", "timeindex"):
                    disk.rename(f"{PATH}/{name}.{kind}", f"{PATH}/{name}.{kind}.deleted")
        if step >= 5:
            disk.rename(f"{PATH}/{old[0]}.log.swap", f"{PATH}/{old[0]}.log")
        return disk

    for step in (1, 2, 3, 4, 5):
        disk = start(step)
        again = open_log(disk, SMALL, is_clean=True, recovery_point=log.recovery_point)
        assert contents(again) == expected, step
        assert len(again.segments) == len(log.segments) - (step > 2), step
        suffixes = (".swap", ".cleaned", ".deleted")
        assert not [name for name in disk.names(PATH) if name.endswith(suffixes)]


def test_a_swap_behind_a_cleaned_file_is_discarded_scenario_21():
    log = sample()
    log.close(NOW)
    log.disk.open(f"{PATH}/{0:020d}.log.cleaned").append(b"x")
    log.disk.open(f"{PATH}/{27:020d}.log.swap").append(b"x")
    again = open_log(log.disk, SMALL, is_clean=True, recovery_point=log.recovery_point)
    assert contents(again) == contents(log)


def test_a_log_start_beyond_the_end_scenario_23():
    log = sample()
    again = open_log(log.disk, SMALL, log_start_offset=9000)
    assert (again.log_start_offset, again.log_end_offset, bases(again)) == (9000, 9000, [9000])
    assert again.leader_epochs.entries() == []
    assert open_log(again.disk, SMALL).log_start_offset == 9000


def test_an_epoch_without_records_scenario_25():
    log = sample()
    log.leader_epochs.assign(9, log.log_end_offset)
    again = reopen(log, is_clean=True)
    assert again.leader_epochs.latest == 9
    again.truncate_to(again.log_end_offset)
    assert again.leader_epochs.latest == 2


def test_epochs_from_before_a_truncation_do_not_outlive_it():
    log = open_log()
    append(log, built(4), epoch=0)
    append(log, built(4), epoch=2)
    log.flush(NOW)
    log.truncate_to(4)
    log.truncate_to(0)
    append(log, built(3), epoch=2)
    again = open_log(log.disk.copy(), log.config, recovery_point=log.recovery_point)
    assert again.leader_epochs.entries() == [(2, 0)]


@pytest.mark.parametrize("start", [0, 7])
@pytest.mark.parametrize("is_clean", [True, False])
def test_records_that_a_crash_brings_back_have_their_epochs(is_clean, start):
    """Where the log starts is written by and by, the epochs at once: a follower that has epoch 0
    only would else hear that it ended where epoch 2 goes on."""
    log = sample()
    entries = log.leader_epochs.entries()
    log.advance_log_start_offset(log.log_end_offset - 1)
    log.flush(NOW)
    again = open_log(
        log.disk,
        SMALL,
        is_clean=is_clean,
        recovery_point=log.recovery_point,
        log_start_offset=start,
    )
    assert again.log_start_offset == start
    assert again.leader_epochs.entries() == [(0, start), *entries[1:]]
    assert again.leader_epochs.is_dirty


@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_lost_epoch_file_is_rebuilt_from_the_batches(content, is_clean):
    log = sample()
    log.close(NOW)
    path = f"{PATH}/leader-epoch-checkpoint"
    log.disk.remove(path)
    if content is not None:
        log.disk.open(path).append(content)
    again = open_log(log.disk, SMALL, is_clean=is_clean, recovery_point=log.recovery_point)
    assert again.leader_epochs.entries() == log.leader_epochs.entries()


@pytest.mark.parametrize("bad", [1, 2, 99])
def test_damaged_snapshots_scenario_26(bad):
    log = sample()
    log.close(NOW)
    names = [name for name in log.disk.names(PATH) if name.endswith(".snapshot")]
    assert len(names) > 4
    for name in names[-bad:]:
        damage(log.disk, name, 8, b"\x55")
    again = open_log(log.disk, SMALL, is_clean=True, recovery_point=log.recovery_point)
    assert state(again) == state(log)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("recovery_point", [0, 100])
def test_five_batches_of_each_producer_are_known_after_restarts(is_clean, recovery_point):
    """Stricter than scenario 27: Apache knows one, so that a retry of the others fails."""
    log = open_log(config=LogConfig(segment_bytes=400, index_interval_bytes=100))
    for i in range(30):
        for producer in (1, 2):
            append(log, produced(1, producer, i))
    for _ in range(2):
        log = open_log(log.disk.copy(), log.config, is_clean=False, recovery_point=recovery_point)
        if is_clean:
            log = reopen(log, is_clean=True)
        for producer in (1, 2):
            for back in range(5):
                retried = log.append_as_leader(valid(produced(1, producer, 29 - back)), 0, NOW)
                offset = 2 * (29 - back) + producer - 1
                assert (retried.base_offset, retried.is_duplicate) == (offset, True)
            older = log.append_as_leader(valid(produced(1, producer, 24)), 0, NOW)
            assert older is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_idle_producers_are_forgotten_at_a_start_but_not_their_open_transactions():
    log = open_log(config=LogConfig(producer_id_expiration_ms=1000))
    append(
        log, built(1, timestamp=WALL_MS - 2000, producer_id=1, producer_epoch=0, base_sequence=0)
    )
    old = {"timestamp": WALL_MS - 2000, "producer_epoch": 0, "base_sequence": 0}
    append(log, built(1, producer_id=2, attributes=TRANSACTIONAL, **old))
    append(log, built(1, timestamp=WALL_MS, producer_id=3, producer_epoch=0, base_sequence=0))
    again = reopen(log, is_clean=True)
    assert sorted(p.producer_id for p in again.producers.active()) == [2, 3]
    assert again.first_unstable_offset == 1


def test_progress_is_told():
    log = sample()
    told = []
    open_log(log.disk.copy(), SMALL)

    load(
        log.disk.copy(),
        PATH,
        SMALL,
        is_clean=False,
        recovery_point=0,
        log_start_offset=0,
        now=NOW,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[-1] == (log.size_bytes, log.size_bytes)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_a_batch_larger_than_what_is_read_at_once(monkeypatch):
    monkeypatch.setattr("tidelog.log.walk.READ_BYTES", 100)
    log = sample()
    assert state(open_log(log.disk.copy(), SMALL)) == state(log)


@pytest.mark.parametrize("read_bytes", [100, 700, 5000, 1 << 20])
def test_many_batches_summed_up_come_to_what_appending_came_to(monkeypatch, read_bytes):
    monkeypatch.setattr("tidelog.log.walk.READ_BYTES", read_bytes)
    config = LogConfig(index_interval_bytes=400)
    log = open_log(config=config)
    due = dict.fromkeys(range(4), 0)
    for i in range(600):
        # Times rise and fall; one producer has a new epoch now and then.
        producer_id = i % 4
        epoch = i // 96 if producer_id == 1 else 0
        if i % 96 < 4 and producer_id == 1:
            due[producer_id] = 0
        batch = built(
            1 + i % 3,
            timestamp=WALL_MS + 40 * (i % 90) + i,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=due[producer_id],
            attributes=TRANSACTIONAL if i % 50 == 0 else 0,
        )
        append(log, batch, epoch=i // 100)
        due[producer_id] += 1 + i % 3
        if i % 50 == 0:
            log.append_built(marker(producer_id, commit=i % 100 == 0, epoch=epoch), i // 100, NOW)
    again = open_log(log.disk.copy(), config)
    assert state(again) == state(log)
    assert segment_state(again) == segment_state(log)


def segment_state(log):
    """What is known of its last one beside the files."""
    active = log.segments.active
    places = list(zip(active.recent_last_offsets, active.recent_positions, strict=True))
    assert len(places) >= 128
    return (
        active.offset_index.to_bytes(),
        active.time_index.to_bytes(),
        active.bytes_since_index_entry,
        active.first_timestamp,
        (active.max_timestamp, active.max_timestamp_offset),
        places[-128:],
        [tuple(one) for one in active.aborted],
    )


def test_an_index_file_from_before_is_continued_or_made_anew():
    config = LogConfig(index_interval_bytes=150)
    log = open_log(config=config)
    for i in range(20):
        append(log, produced(1, 0, i))
    again = open_log(log.disk, config)
    begun = index_files(log.disk)
    for i in range(20, 40):
        append(again, produced(1, 0, i))
    third = open_log(log.disk, config)
    assert third.segments.active.offset_index.to_bytes().startswith(begun[OFFSETS])
    assert index_files(log.disk)[OFFSETS] == third.segments.active.offset_index.to_bytes()
    assert len(index_files(log.disk)[OFFSETS]) > len(begun[OFFSETS])
    damage(log.disk, OFFSETS, 3, b"\xff")
    assert open_log(log.disk, config).log_end_offset == 40
    assert index_files(log.disk)[OFFSETS] == third.segments.active.offset_index.to_bytes()
