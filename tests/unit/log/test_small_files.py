"""Names, checkpoints, epochs, snapshots, indexes: what they say, and what they refuse."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import ErrorCode
from tidelog.log.checkpoint import (
    MalformedFile,
    format_offsets,
    format_partition_metadata,
    parse_clean_shutdown,
    parse_offsets,
    parse_partition_metadata,
)
from tidelog.log.index import BATCH_OFFSETS, OffsetIndex, TimeIndex
from tidelog.log.leader_epochs import LeaderEpochs, parse_leader_epochs
from tidelog.log.names import (
    OffsetFile,
    PartitionDirectory,
    moved_directory_name,
    parse_directory_name,
    parse_file_name,
)
from tidelog.log.producer_snapshot import read_snapshot, write_snapshot
from tidelog.log.producer_state import ProducerStates, sequence_after
from tidelog.log.txn_index import AbortedTransaction, read_entries, write_entries
from tidelog.sim.disk import SimulatedDisk
from tidelog.types import Uuid

TOPIC_ID = Uuid(bytes(range(16)))


def test_names():
    assert parse_file_name("00000000000000004711.log") == OffsetFile(4711, ".log", "")
    assert parse_file_name("00000000000000000000.timeindex.swap").state == ".swap"
    for name in ("4711.log", "leader-epoch-checkpoint", "00000000000000004711.log2", "x.log"):
        assert parse_file_name(name) is None
    assert parse_directory_name("a-b-12") == PartitionDirectory("a-b", 12)
    assert parse_directory_name("foo") is None
    moved = moved_directory_name("t" * 249, 7, bytes(16), "delete")
    assert len(moved) == 255
    assert parse_directory_name(moved).state == "delete"
    assert parse_directory_name(f"a-1.{'0f' * 16}-stray") == PartitionDirectory("a", 1, "stray")


TOPICS = st.text("abc.-_", min_size=1, max_size=9)


@given(st.dictionaries(st.tuples(TOPICS, st.integers(0, 99)), st.integers(0, 2**63 - 1)))
def test_offset_checkpoints(offsets):
    content = format_offsets(offsets.items())
    assert parse_offsets("x", content) == offsets
    assert content.endswith(b"\n")


@pytest.mark.parametrize("content", [None, b""])
def test_a_missing_checkpoint_has_no_entries(content):
    assert parse_offsets("x", content) == {}


@pytest.mark.parametrize(
    "content",
    [b"1\n0\n", b"0\n", b"0\n2\na 0 1\n", b"0\n1\na 0\n", b"0\n1\na 0 b\n", b"\xff", b"0\nx\n"],
)
def test_malformed_checkpoints(content):
    with pytest.raises(MalformedFile):
        parse_offsets("x", content)


def test_partition_metadata():
    content = format_partition_metadata(TOPIC_ID)
    assert content == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert len(content) == 43
    assert parse_partition_metadata("x", content) == TOPIC_ID
    for bad in (b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\ntopic_id: A"):
        with pytest.raises(MalformedFile):
            parse_partition_metadata("x", bad)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"brokerEpoch":"x"}', b"3"])
def test_a_marker_that_says_nothing_is_one_all_the_same(content):
    assert parse_clean_shutdown(content) == -1


class TestLeaderEpochs:
    def sample(self) -> LeaderEpochs:
        return LeaderEpochs([(0, 0), (2, 10), (5, 30)])

    def test_assign(self):
        epochs = self.sample()
        assert not epochs.assign(5, 40)
        assert epochs.assign(6, 40)
        assert epochs.assign(7, 40)
        assert epochs.entries() == [(0, 0), (2, 10), (5, 30), (7, 40)]
        assert epochs.assign(3, 20)
        assert epochs.entries() == [(0, 0), (2, 10), (3, 20)]
        assert epochs.assign(3, 15)
        assert epochs.entries() == [(0, 0), (2, 10), (3, 15)]

    @pytest.mark.parametrize(
        ("epoch", "end"),
        [
            (-1, (-1, -1)),
            (0, (0, 10)),
            (1, (0, 10)),
            (2, (2, 30)),
            (4, (2, 30)),
            (5, (5, 99)),
            (6, (-1, -1)),
        ],
    )
    def test_end_offset_for(self, epoch, end):
        assert self.sample().end_offset_for(epoch, 99) == end

    def test_end_offset_below_the_first(self):
        assert LeaderEpochs([(3, 10), (4, 20)]).end_offset_for(1, 99) == (1, 10)
        assert LeaderEpochs().end_offset_for(0, 99) == (-1, -1)

    def test_truncations(self):
        epochs = self.sample()
        epochs.truncate_from_end(30)
        assert epochs.entries() == [(0, 0), (2, 10)]
        assert epochs.latest == 2
        epochs.truncate_from_start(15)
        assert epochs.entries() == [(2, 15)]
        epochs.is_dirty = False
        epochs.truncate_from_start(3)
        epochs.truncate_from_start(15)
        assert epochs.entries() == [(2, 15)]
        assert not epochs.is_dirty
        epochs.clear()
        assert epochs.latest == -1

    def test_epoch_for_offset(self):
        found = [self.sample().epoch_for_offset(offset) for offset in (0, 9, 10, 29, 30, 99)]
        assert found == [0, 0, 2, 2, 5, 5]
        assert LeaderEpochs([(3, 10)]).epoch_for_offset(9) == -1

    def test_the_file(self):
        assert self.sample().to_bytes() == b"0\n3\n0 0\n2 10\n5 30\n"
        again = parse_leader_epochs("x", self.sample().to_bytes())
        assert again.entries() == self.sample().entries()
        assert not again.is_dirty
        for bad in (b"0\n2\n0 0\n0 5\n", b"0\n2\n0 5\n1 5\n", b"0\n1\n0\n", b"0\n1\na b\n"):
            with pytest.raises(MalformedFile):
                parse_leader_epochs("x", bad)


class TestIndexes:
    def test_lookups(self):
        index, disk = OffsetIndex(100), SimulatedDisk()
        batches = SimpleNamespace(base_offset=1000, file=disk.open("log"))
        content = bytearray(400)
        for offset, position in ((5, 100), (9, 200), (20, 300)):
            index.append(offset, position)
            BATCH_OFFSETS.pack_into(content, position, 1000 + offset - 2, 2)
        batches.file.append(content)
        wanted = (0, 4, 5, 8, 9, 19, 20, 99)
        found = [index.position_at_or_below(offset, batches) for offset in wanted]
        assert found == [0, 0, 100, 100, 200, 200, 300, 300]
        found = [index.position_up_to(p, batches) for p in (0, 99, 100, 250, 999)]
        assert found == [0, 0, 100, 200, 300]
        assert index.last_position(batches) == 300
        # What the log does not agree with is none.
        index.positions[1] += 1
        found = [index.position_at_or_below(offset, batches) for offset in wanted]
        assert found == [0, 0, 100, 100, 100, 100, 300, 300]
        index.truncate(9)
        assert index.to_bytes() == bytes.fromhex("0000000500000064")

    @pytest.mark.parametrize("padding", [b"", bytes(40), b"\x01"])
    def test_files_with_padding(self, padding):
        index = OffsetIndex(100)
        index.append(5, 100)
        index.append(9, 200)
        again = OffsetIndex(100)
        again.load(index.to_bytes() + padding)
        assert again.to_bytes() == index.to_bytes()
        empty = OffsetIndex(100)
        empty.load(bytes(80))
        assert len(empty) == 0

    def test_time_entries_rise(self):
        index = TimeIndex(100)
        for timestamp, offset in ((50, 3), (50, 4), (-1, 5), (51, 9)):
            index.maybe_append(timestamp, offset)
        assert list(zip(index.timestamps, index.offsets, strict=True)) == [(50, 3), (51, 9)]
        empty = TimeIndex(100)
        empty.maybe_append(-1, 0)
        assert empty.last() is None
        again = TimeIndex(100)
        again.load(index.to_bytes() + bytes(24))
        assert again.last() == (51, 9)
        assert [again.offset_at_or_before(t) for t in (0, 50, 51, 99)] == [0, 3, 9, 9]


def test_txn_index_entries():
    entries = [AbortedTransaction(1, 4, 7, 8), AbortedTransaction(2, 5, 9, 10)]
    content = write_entries(entries)
    assert len(content) == 68
    assert content[:34].hex() == (
        "0000" + "0000000000000001" + "0000000000000004" + "0000000000000007" + "0000000000000008"
    )
    assert read_entries(content, 7) == entries
    assert read_entries(content, 8) is None
    assert read_entries(content[:-1], 0) is None


def test_snapshots():
    states = ProducerStates()
    assert write_snapshot(states).hex() == "0001" + "48674bc7" + "00000000"
    states.end_transaction(9, 3, offset=5, timestamp=77, coordinator_epoch=2, is_aborted=True)
    content = write_snapshot(states)
    assert len(content) == 56
    (producer,) = read_snapshot(content)
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (9, 3, -1)
    assert (producer.coordinator_epoch, producer.last_timestamp, producer.batches) == (2, 77, [])
    for i in range(len(content)):
        damaged = bytearray(content)
        damaged[i] ^= 0x10
        assert read_snapshot(bytes(damaged)) is None
        assert read_snapshot(content[:i]) is None


def test_sequences_wrap():
    assert sequence_after(2**31 - 1, 1) == 0
    assert sequence_after(2**31 - 2, 3) == 1


def test_the_codes_of_refused_batches_are_kafkas():
    assert ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER == 45
    assert ErrorCode.INVALID_PRODUCER_EPOCH == 47
