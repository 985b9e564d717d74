"""A scan of segment files: every row once, whatever the indexes say, and nothing is written."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.log.log_samples import NOW, WALL_MS, append, built, marker, open_log, produced

from tidelog.disk import RealDisk
from tidelog.log.config import LogConfig
from tidelog.log.log import Log
from tidelog.log.results import DamagedSegment
from tidelog.spark.options import OptionError
from tidelog.spark.planner import DataLoss
from tidelog.spark.scan import ScanOptions, plan, scan_options
from tidelog.spark.scan_files import NoSuchLog, ReadOnlyDisk, SegmentChanged
from tidelog.spark.scan_read import IndexLied, read_ranges
from tidelog.wire import records
from tidelog.wire.batch import TRANSACTIONAL, BatchWalk
from tidelog.wire.compression import Compression

SMALL = LogConfig(segment_bytes=8_000, index_interval_bytes=200)
PIECE = {"maxBytesPerPartition": "900"}


def written(data: Path, topic: str = "tides-0", config: LogConfig = SMALL) -> Log:
    return open_log(RealDisk(), config, path=f"{data}/{topic}")


def filled(data: Path, batches: int = 120, topic: str = "tides-0") -> Log:
    """Of five records each, over several segments, cleanly closed."""
    log = written(data, topic)
    for number in range(batches):
        append(log, built(5, value=b"value-%d-" % number * 3, timestamp=WALL_MS + number))
    log.close(NOW)
    return log


def options(data: Path, **more: str) -> ScanOptions:
    return scan_options({"path": str(data), **more})


def scanned(data: Path, **more: str) -> pa.Table:
    wanted = options(data, **more)
    batches = [
        batch
        for ranges in plan(wanted)
        for batch in read_ranges(ReadOnlyDisk(), ranges, wanted.rules)
    ]
    return pa.Table.from_batches(batches) if batches else pa.table({"offset": []})


def offsets(data: Path, **more: str) -> list[int]:
    found: list[int] = scanned(data, **more)["offset"].to_pylist()
    return found


def contents(data: Path) -> dict[Path, tuple[bytes, int]]:
    files = [path for path in data.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def logs_of(data: Path, kind: str = "log") -> list[Path]:
    return sorted((data / "tides-0").glob(f"*.{kind}"))


def test_every_record_is_a_row_once_however_it_is_cut(tmp_path):
    filled(tmp_path)
    assert len(logs_of(tmp_path)) > 2
    whole = scanned(tmp_path)
    assert whole["offset"].to_pylist() == list(range(600))
    assert whole["value"][7].as_py() == b"value-1-" * 3 + b"2"
    assert whole["topic"].unique().to_pylist() == ["tides"]
    pieces = plan(options(tmp_path, **PIECE))
    assert len(pieces) > 3 * len(logs_of(tmp_path))
    assert scanned(tmp_path, **PIECE).equals(whole)
    assert scanned(tmp_path, minPartitions="20").equals(whole)
    assert len(plan(options(tmp_path, minPartitions="20"))) >= 15  # about as many


def test_nothing_is_written_and_a_directory_may_be_read_only(tmp_path):
    filled(tmp_path)
    logs_of(tmp_path, "index")[0].unlink()
    before = contents(tmp_path)
    assert len(offsets(tmp_path, **PIECE)) == 600
    assert contents(tmp_path) == before
    disk, some = ReadOnlyDisk(), str(logs_of(tmp_path)[0])
    changes: list[Callable[[], object]] = [
        lambda: disk.open(some).append(b"x"),
        lambda: disk.replace(some, b""),
        lambda: disk.remove(some),
        lambda: disk.rename(some, f"{some}.x"),
        lambda: disk.remove_directory(str(tmp_path)),
        lambda: disk.make_directory(f"{tmp_path}/x"),
        lambda: disk.flush_directory(str(tmp_path)),
        lambda: disk.set_modified_ms(some, 0),
        lambda: disk.lock(f"{tmp_path}/.lock"),
        lambda: disk.unlock(f"{tmp_path}/.lock"),
    ]
    for change in changes:
        with pytest.raises(OSError):
            change()
    assert contents(tmp_path) == before


def test_a_partitions_directory_alone_is_enough(tmp_path):
    filled(tmp_path)
    assert len(offsets(tmp_path / "tides-0")) == 600
    assert len(offsets(Path(f"file://{tmp_path}/tides-0/"))) == 600


@pytest.mark.parametrize(
    "lie", ["shifted", "all but the last", "random", "swapped", "beyond", "other offsets", "gone"]
)
def test_an_index_that_lies_is_made_anew_in_memory(tmp_path, lie):
    filled(tmp_path)
    index = logs_of(tmp_path, "index")[0]
    entries = list(struct.iter_unpack(">ii", index.read_bytes()))
    assert len(entries) > 5
    chance = random.Random(3)
    match lie:
        case "shifted":
            entries = [(offset, position + 3) for offset, position in entries]
        case "all but the last":
            last = entries.pop()
            entries = [*((offset, position + 3) for offset, position in entries), last]
        case "random":
            entries = [(n, chance.randrange(7_000)) for n in range(100)]
        case "swapped":
            other = logs_of(tmp_path, "index")[-2].read_bytes()
            assert other != index.read_bytes()
            entries = list(struct.iter_unpack(">ii", other))
        case "beyond":
            entries.append((10**6, 10**6))
        case "other offsets":
            entries = [(offset + 1, position) for offset, position in entries]
        case "gone":
            entries = []
    index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    assert offsets(tmp_path, **PIECE) == list(range(600))
    assert len(plan(options(tmp_path, **PIECE))) > 20


@pytest.mark.parametrize(("is_sound", "first_offset"), [(True, 3), (True, 100), (False, 3)])
def test_an_index_that_leads_into_a_record_is_found_out(tmp_path, is_sound, first_offset):
    """A value that is itself a sound batch with the right offsets is the one lie that a look at
    the batch does not show; the task before it arrives elsewhere."""
    log = written(tmp_path, config=LogConfig(segment_bytes=10**6, index_interval_bytes=10**5))
    append(log, built(3))
    inner = built(2, value=b"inner")
    struct.pack_into(">q", inner, 0, first_offset)
    inner[-1] ^= not is_sound
    append(log, built(2, value=bytes(inner)))
    append(log, built(1))
    log.close(NOW)
    content = logs_of(tmp_path)[0].read_bytes()
    index = logs_of(tmp_path, "index")[0]
    index.write_bytes(struct.pack(">ii", 4, content.index(inner)))
    assert offsets(tmp_path, maxBytesPerPartition="1") == list(range(6))
    last = content.rindex(bytes(built(1))[16:21]) - 16
    index.write_bytes(index.read_bytes() + struct.pack(">ii", 5, last))
    if is_sound and first_offset == 3:
        with pytest.raises(IndexLied, match="useIndex=false"):
            offsets(tmp_path, maxBytesPerPartition="1")
    else:
        assert offsets(tmp_path, maxBytesPerPartition="1") == list(range(6))
    assert offsets(tmp_path, maxBytesPerPartition="1", useIndex="false") == list(range(6))


@pytest.mark.parametrize(
    "tail", [b"\0" * 700, b"garbage" * 30, bytes(built(3))[:80]], ids=["zeros", "noise", "half"]
)
def test_a_torn_tail_is_left_out(tmp_path, tail):
    filled(tmp_path)
    last = logs_of(tmp_path)[-1]
    last.write_bytes(last.read_bytes() + tail)
    assert offsets(tmp_path, **PIECE) == list(range(600))
    last.write_bytes(last.read_bytes()[: -len(tail) - 10])
    assert offsets(tmp_path, **PIECE) == list(range(595))


def test_a_bad_batch_that_sound_ones_follow_fails_the_scan_unless_it_may_lose(tmp_path, caplog):
    filled(tmp_path)
    first = logs_of(tmp_path)[0]
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    for piece in ({}, PIECE, {"maxBytesPerPartition": "1", "useIndex": "false"}):
        with pytest.raises(DamagedSegment, match="checksum is wrong"):
            offsets(tmp_path, **piece)
        caplog.clear()
        found = offsets(tmp_path, failOnDataLoss="false", **piece)
        assert len(found) == len(set(found)) == 595
        lost = sorted(set(range(600)) - set(found))
        assert lost == list(range(lost[0], lost[0] + 5))
        (said,) = caplog.messages
        assert f"in offset [{lost[0]}, {lost[0] + 5}) for topic partition tides-0: {first}" in said
        assert "checksum is wrong" in said
        behind = {"startingOffsets": f'{{"tides": {{"0": {lost[-1] + 1}}}}}'}
        caplog.clear()
        assert offsets(tmp_path, failOnDataLoss="false", **piece, **behind)[0] == lost[-1] + 1
        assert caplog.messages == [], "what nobody asked for is no loss"


def test_records_that_cannot_be_decompressed_are_named(tmp_path, caplog):
    log = written(tmp_path)
    append(log, built(3))
    append(log, built(4, value=b"x" * 100, compression=Compression.ZSTD))
    append(log, built(2))
    log.close(NOW)
    (path,) = logs_of(tmp_path)
    content = bytearray(path.read_bytes())
    at = content.index(b"\x28\xb5\x2f\xfd")
    batch_at = len(bytes(built(3)))
    content[at] ^= 1
    end = len(content) - len(bytes(built(2)))
    struct.pack_into(">I", content, batch_at + 17, records.crc32c(content[batch_at + 21 : end]))
    path.write_bytes(content)
    with pytest.raises(DamagedSegment, match="is damaged at position"):
        offsets(tmp_path)
    assert offsets(tmp_path, failOnDataLoss="false") == [0, 1, 2, 7, 8]
    (said,) = caplog.messages
    assert "in offset [3, 7) for topic partition tides-0" in said


def test_a_lost_end_of_a_segment_ends_the_log_if_it_was_not_flushed(tmp_path, caplog):
    filled(tmp_path)
    first = logs_of(tmp_path)[0]
    kept = first.read_bytes()
    first.write_bytes(kept[:-20])
    logs_of(tmp_path, "index")[0].write_bytes(b"")
    next_base = int(logs_of(tmp_path)[1].stem)
    assert offsets(tmp_path) == list(range(next_base - 5))
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\ntides 0 600\n")
    with pytest.raises(DamagedSegment, match="follows"):
        offsets(tmp_path)
    assert len(offsets(tmp_path, failOnDataLoss="false")) == 595
    (said,) = caplog.messages
    assert f"in offset [{next_base - 5}, {next_base}) for topic partition tides-0" in said


def transactions(data: Path) -> None:
    log = written(data)
    append(log, produced(2, 1, 0, attributes=TRANSACTIONAL))  # 0, 1
    append(log, produced(2, 2, 0, attributes=TRANSACTIONAL))  # 2, 3
    append(log, built(1))  # 4
    log.append_built(marker(1, commit=False), 0, NOW)  # 5
    append(log, produced(2, 1, 2, attributes=TRANSACTIONAL))  # 6, 7
    log.append_built(marker(2, commit=True), 0, NOW)  # 8
    log.append_built(marker(1, commit=True), 0, NOW)  # 9
    append(log, produced(1, 3, 0, attributes=TRANSACTIONAL))  # 10, open for ever
    append(log, built(3))  # 11 to 13
    log.close(NOW)


@pytest.mark.parametrize("piece", ["1", "1000000"])
def test_only_committed_records_are_rows_unless_all_are_wanted(tmp_path, piece):
    transactions(tmp_path)
    more = {"maxBytesPerPartition": piece}
    assert offsets(tmp_path, **more) == [2, 3, 4, 6, 7]
    uncommitted = {"kafka.isolation.level": "read_uncommitted"}
    assert offsets(tmp_path, **more, **uncommitted) == [0, 1, 2, 3, 4, 6, 7, 10, 11, 12, 13]
    for path in [*logs_of(tmp_path, "txnindex"), *logs_of(tmp_path, "snapshot")]:
        path.write_bytes(b"nonsense")
    assert offsets(tmp_path, **more) == [2, 3, 4, 6, 7]
    for path in [*logs_of(tmp_path, "txnindex"), *logs_of(tmp_path, "snapshot")]:
        path.unlink()
    assert offsets(tmp_path, **more) == [2, 3, 4, 6, 7]


def test_a_snapshot_of_another_log_is_not_believed(tmp_path):
    transactions(tmp_path)
    other = written(tmp_path, "other-0")
    for _ in range(14):
        append(other, built(1))
    other.close(NOW)
    logs_of(tmp_path, "snapshot")[-1].rename(tmp_path / "other-0/00000000000000000014.snapshot")
    assert offsets(tmp_path, subscribe="other") == list(range(14))


def test_random_transactions_are_seen_as_a_consumer_sees_them(tmp_path):
    for seed in range(6 if os.environ.get("TIDELOG_QUICK") else 60):
        data = tmp_path / str(seed)
        expected = random_transactions(data, random.Random(seed))
        for piece in ("1", "700", "100000"):
            assert offsets(data, maxBytesPerPartition=piece) == expected, seed


def random_transactions(data: Path, chance: random.Random) -> list[int]:
    """Returns the offsets that a reader of committed records may see."""
    log = written(data, config=LogConfig(segment_bytes=1_500, index_interval_bytes=150))
    pending: dict[int, list[int]] = {}
    sequences = dict.fromkeys(range(4), 0)
    visible: list[int] = []
    for _ in range(chance.randrange(10, 90)):
        producer = chance.randrange(5)
        count = chance.randrange(1, 4)
        if producer == 4:
            base = append(log, built(count)).base_offset
            visible += range(base, base + count)
        elif producer in pending and chance.random() < 0.5:
            commit = chance.random() < 0.6
            log.append_built(marker(producer, commit=commit), 0, NOW)
            held = pending.pop(producer)
            visible += held if commit else []
        else:
            batch = produced(count, producer, sequences[producer], attributes=TRANSACTIONAL)
            base = append(log, batch).base_offset
            sequences[producer] += count
            pending.setdefault(producer, []).extend(range(base, base + count))
    stable = min((held[0] for held in pending.values()), default=log.log_end_offset)
    if chance.random() < 0.5:
        log.close(NOW)
    return sorted(offset for offset in visible if offset < stable)


def test_a_transaction_whose_end_is_lost_is_no_silent_loss(tmp_path):
    transactions(tmp_path)
    path = logs_of(tmp_path)[0]
    content = path.read_bytes()
    path.write_bytes(content[: content.index(bytes(marker(2, commit=True))[21:]) - 21])
    found = offsets(tmp_path)
    assert found == []  # producer 2's transaction is open now, since offset 2


def test_offsets_and_times_bound_a_scan(tmp_path):
    filled(tmp_path)
    some = {"startingOffsets": '{"tides": {"0": 123}}', "endingOffsets": '{"tides": {"0": 456}}'}
    assert offsets(tmp_path, **some, **PIECE) == list(range(123, 456))
    pieces = plan(options(tmp_path, **some, **PIECE))
    assert len(pieces) < len(plan(options(tmp_path, **PIECE)))
    since = {"startingTimestamp": str(WALL_MS + 50), "endingTimestamp": str(WALL_MS + 60)}
    assert offsets(tmp_path, **since) == list(range(250, 300))
    late = {"startingTimestamp": str(WALL_MS + 500)}
    with pytest.raises(OptionError, match="startingOffsetsByTimestampStrategy"):
        offsets(tmp_path, **late)
    assert offsets(tmp_path, **late, startingOffsetsByTimestampStrategy="latest") == []
    with pytest.raises(OptionError, match="must name all partitions"):
        offsets(tmp_path, startingOffsets='{"tides": {"1": 0}}')


def test_an_open_transaction_whose_beginning_was_deleted_ends_the_log_at_its_start(tmp_path):
    transactions(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntides 0 12\n")
    assert offsets(tmp_path) == []
    uncommitted = {"kafka.isolation.level": "read_uncommitted"}
    assert offsets(tmp_path, **uncommitted) == [12, 13]


def test_a_time_does_not_lead_into_an_open_transaction(tmp_path):
    """A broker too finds no record there for a reader of committed ones."""
    log = written(tmp_path)
    append(log, built(2))
    open_batch = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    append(log, built(3, timestamp=WALL_MS + 9, attributes=TRANSACTIONAL, **open_batch))
    log.close(NOW)
    assert offsets(tmp_path, endingTimestamp=str(WALL_MS + 9)) == [0, 1]
    with pytest.raises(OptionError, match="has no record of"):
        offsets(tmp_path, startingTimestamp=str(WALL_MS + 9))


def test_deleted_records_stay_deleted(tmp_path):
    filled(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntides 0 17\n")
    assert offsets(tmp_path) == list(range(17, 600))


def bounds(start: int, end: int = -1) -> dict[str, str]:
    return {
        "startingOffsets": f'{{"tides": {{"0": {start}}}}}',
        "endingOffsets": f'{{"tides": {{"0": {end}}}}}',
    }


COULD_NOT_READ = "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"


@pytest.mark.parametrize(
    ("asked", "kind", "lost", "left"),
    [
        ((3, -1), COULD_NOT_READ, ["[3, 17)", "begins at offset 17"], range(17, 600)),
        ((3, 9), COULD_NOT_READ, ["[3, 9)", "begins at offset 17"], range(0)),
        ((590, 700), COULD_NOT_READ, ["[600, 700)", "ends at offset 600"], range(590, 600)),
        ((650, 700), COULD_NOT_READ, ["[650, 700)", "ends at offset 600"], range(0)),
        ((650, -1), "PARTITION_OFFSET_CHANGED", ["from 650 to 600"], range(0)),
    ],
)
def test_offsets_that_are_not_there_are_a_loss_as_in_the_source(
    tmp_path, caplog, asked, kind, lost, left
):
    filled(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntides 0 17\n")
    with pytest.raises(DataLoss, match=kind) as raised:
        offsets(tmp_path, **bounds(*asked), **PIECE)
    assert all(words in str(raised.value) for words in lost)
    assert offsets(tmp_path, **bounds(*asked), **PIECE, failOnDataLoss="false") == list(left)
    (said,) = caplog.messages
    assert all(words in said for words in lost)


def test_both_ends_of_a_range_may_be_lost_and_an_empty_range_loses_nothing(tmp_path, caplog):
    filled(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\ntides 0 17\n")
    found = offsets(tmp_path, **bounds(0, 601), failOnDataLoss="false")
    assert found == list(range(17, 600))
    assert [text.partition(" for ")[0][-9:] for text in caplog.messages] == [
        "t [0, 17)",
        "600, 601)",
    ]
    assert offsets(tmp_path, **bounds(700, 700)) == []
    assert offsets(tmp_path, **bounds(600)) == []


def test_what_an_open_transaction_holds_back_is_not_passed_over_in_silence(tmp_path):
    transactions(tmp_path)
    with pytest.raises(DataLoss, match=r"\[10, 12\).*a transaction is open since offset 10"):
        offsets(tmp_path, **bounds(0, 12))
    uncommitted = {"kafka.isolation.level": "read_uncommitted"}
    assert offsets(tmp_path, **bounds(9, 12), **uncommitted) == [10, 11]
    assert offsets(tmp_path, **bounds(4, 10)) == [4, 6, 7]


def test_topics_are_chosen_as_in_the_source(tmp_path):
    for topic in ("tides-0", "tides-1", "moon-0", "__consumer_offsets-3"):
        filled(tmp_path, 2, topic)
    (tmp_path / "gone-0.0123456789abcdef0123456789abcdef-delete").mkdir()

    def rows(**more: str) -> set[tuple[str, int]]:
        table = scanned(tmp_path, **more)
        return set(zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True))

    assert rows() == {("tides", 0), ("tides", 1), ("moon", 0)}
    assert rows(subscribe="moon, __consumer_offsets") == {("moon", 0), ("__consumer_offsets", 3)}
    assert rows(assign='{"tides": [1]}') == {("tides", 1)}
    assert rows(subscribePattern="^t.*s$") == {("tides", 0), ("tides", 1)}
    with pytest.raises(NoSuchLog, match="has no sun; its topics are moon, tides"):
        rows(subscribe="sun")
    with pytest.raises(NoSuchLog, match="has no tides-7"):
        rows(assign='{"tides": [7]}')
    # Small partitions share a task.
    assert len(plan(options(tmp_path))) == 1


def test_columns_and_headers_are_the_sources(tmp_path):
    log = written(tmp_path)
    append(log, built(3, compression=Compression.ZSTD))
    log.close(NOW)
    assert scanned(tmp_path).column_names[:3] == ["key", "value", "topic"]
    assert "headers" in scanned(tmp_path, includeHeaders="true").column_names
    assert scanned(tmp_path, columns="offset,key").column_names == ["offset", "key"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kafka.bootstrap.servers": "a:1"}, "path reads files without a broker"),
        ({"maxByte": "1"}, "maxBytesPerPartition"),
        ({"maxOffsetsPerTrigger": "1"}, "has no option 'maxOffsetsPerTrigger'"),
        ({"path": "s3a://bucket/data"}, "every executor has mounted"),
        ({"path": " "}, "path is empty"),
        ({"useIndex": "perhaps"}, "true or false"),
        ({"kafka.isolation.level": "any"}, "read_uncommitted or read_committed"),
        ({"startingOffsets": "latest"}, "can't be latest"),
    ],
)
def test_a_wrong_option_is_told_what_is_right(tmp_path, wrong, message):
    with pytest.raises(OptionError, match=message):
        options(tmp_path, **wrong)


def test_what_is_no_data_directory_is_said(tmp_path):
    with pytest.raises(NoSuchLog, match="there is no directory"):
        plan(options(tmp_path / "missing"))
    with pytest.raises(NoSuchLog, match=r"holds no partition: .* or one of these$"):
        plan(options(tmp_path))
    filled(tmp_path / "node-1", 2)
    (tmp_path / "node-1/meta.properties").touch()
    with pytest.raises(NoSuchLog, match=r"holds no partition: .*; perhaps .*/node-1$"):
        plan(options(tmp_path))
    assert len(offsets(tmp_path / "node-1")) == 10


def test_a_segment_that_retention_took_meanwhile_is_read_or_named(tmp_path, caplog):
    filled(tmp_path)
    wanted = options(tmp_path, **PIECE)
    ranges = plan(wanted)
    first = logs_of(tmp_path)[0]
    first.rename(f"{first}.deleted")
    rows = [b for r in ranges for b in read_ranges(ReadOnlyDisk(), r, wanted.rules)]
    assert sum(batch.num_rows for batch in rows) == 600
    Path(f"{first}.deleted").unlink()
    with pytest.raises(FileNotFoundError, match="is gone since the scan was planned"):
        list(read_ranges(ReadOnlyDisk(), ranges[0], wanted.rules))
    lenient = wanted.rules._replace(fail_on_data_loss=False)
    assert list(read_ranges(ReadOnlyDisk(), ranges[0], lenient)) == []
    said = caplog.messages[0]
    piece = ranges[0][0]
    assert f"in offset [0, {piece.end.offset}) for topic partition tides-0: {first} is gone" in said


def batches_of(path: Path) -> list[bytes]:
    content = path.read_bytes()
    return [content[batch.position : batch.end_position] for batch in BatchWalk(content)]


@pytest.mark.parametrize("piece", [{}, PIECE, {"useIndex": "false"}], ids=str)
@pytest.mark.parametrize("change", ["compacted", "merged", "cut off", "torn"])
def test_a_segment_that_changed_meanwhile_is_not_read_as_it_was_planned(tmp_path, change, piece):
    """Neither are rows left out or doubled in silence, nor does a task wait for bytes for ever."""
    filled(tmp_path)
    first, second, *_ = logs_of(tmp_path)
    # As large as the first of the next segment, so that merged ones begin where others did.
    fewer = [batch for n, batch in enumerate(batches_of(first)) if n != 12]
    content = {
        "compacted": b"".join(fewer),
        "merged": b"".join(fewer) + second.read_bytes(),
        "cut off": b"".join(batches_of(first)[:-2]),
        "torn": first.read_bytes()[:-100],
    }[change]
    for lenient in ({}, {"failOnDataLoss": "false"}):
        wanted = options(tmp_path, **piece, **lenient)
        ranges = plan(wanted)
        kept = first.read_bytes()
        first.write_bytes(content)
        second.rename(f"{second}.deleted")
        with pytest.raises((SegmentChanged, IndexLied), match="since the scan was planned"):
            for each in ranges:
                list(read_ranges(ReadOnlyDisk(), each, wanted.rules))
        first.write_bytes(kept)
        Path(f"{second}.deleted").rename(second)


def test_a_segment_that_grows_meanwhile_is_read_as_it_was(tmp_path):
    log = written(tmp_path)
    append(log, built(5))
    wanted = options(tmp_path)
    ranges = plan(wanted)
    append(log, built(5))
    rows = [b for r in ranges for b in read_ranges(ReadOnlyDisk(), r, wanted.rules)]
    assert [offset for batch in rows for offset in batch["offset"].to_pylist()] == list(range(5))
    log.close(NOW)


def test_an_interrupted_compaction_is_read_as_a_start_would_finish_it(tmp_path):
    filled(tmp_path)
    first, second, *_ = logs_of(tmp_path)
    whole = first.read_bytes() + second.read_bytes()
    Path(f"{first}.swap").write_bytes(whole)
    assert offsets(tmp_path, **PIECE) == list(range(600))
    first.unlink()
    assert offsets(tmp_path, **PIECE) == list(range(600))
    second.rename(f"{second}.deleted")
    assert offsets(tmp_path, **PIECE) == list(range(600))


def test_an_empty_partition_and_a_running_node_are_no_trouble(tmp_path):
    log = written(tmp_path)
    assert offsets(tmp_path) == []
    for _ in range(100):
        append(log, built(5, value=b"x" * 40))
    assert logs_of(tmp_path, "index")[-1].stat().st_size == 0  # kept in memory so far
    assert offsets(tmp_path, **PIECE) == list(range(500))
    log.close(NOW)
