"""A partition's offsets keep their order, whoever appends, deletes or leads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.broker.handlers.transactions import ABORT, COMMIT, end, write
from tests.unit.node_client import Cluster

from tidelog.errors import ErrorCode
from tidelog.replica.partition import Partition


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create_topic("t")
    return cluster


def assert_ordered(partition: Partition) -> None:
    log = partition.log
    assert (
        log.log_start_offset
        <= partition.last_stable_offset
        <= partition.high_watermark
        <= log.log_end_offset
    )


class Watcher:
    count = 0

    def partition_changed(self) -> None:
        self.count += 1

    def watermark_changed(self) -> None:
        raise AssertionError("this one reads no further than the watermark")


def test_watchers_hear_of_what_they_can_read(cluster: Cluster) -> None:
    partition, watcher = cluster.partition("t"), Watcher()
    partition.watchers[watcher] = None
    cluster.produce("t", b"a", b"b", producer_id=1, producer_epoch=0, base_sequence=0)
    assert (watcher.count, partition.high_watermark) == (1, 2)
    cluster.produce("t", b"a", b"b", producer_id=1, producer_epoch=0, base_sequence=0)
    assert watcher.count == 1
    assert partition.advance_log_start_offset(1)
    assert not partition.advance_log_start_offset(1)
    assert watcher.count == 2


def test_an_epoch_is_known_from_its_election_on(cluster: Cluster) -> None:
    cluster.produce("t", b"a")
    cluster.restart()
    partition = cluster.partition("t")
    epochs = partition.log.leader_epochs.entries()
    assert epochs == [(0, 0), (partition.leader_epoch, 1)]
    assert partition.check_leader_epoch(-1) == ErrorCode.NONE
    assert partition.check_leader_epoch(partition.leader_epoch) == ErrorCode.NONE


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["produce", "write", "commit", "abort", "delete", "restart", "kill"]),
        st.integers(0, 3),
    ),
    max_size=25,
)


@given(steps=STEPS)
def test_the_offsets_keep_their_order(steps: list[tuple[str, int]]) -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    sequences = dict.fromkeys(range(4), 0)
    open_: set[int] = set()
    for step, number in steps:
        partition = cluster.partition("t")
        match step:
            case "produce":
                cluster.produce("t", b"a")
            case "write":
                write(cluster, number, sequences[number], b"a")
                sequences[number] += 1
                open_.add(number)
            case "commit" | "abort" if number in open_:
                end(cluster, number, COMMIT if step == "commit" else ABORT)
                open_.remove(number)
            case "delete":
                partition.advance_log_start_offset(max(0, partition.last_stable_offset - number))
            case "restart":
                cluster.restart()
            case "kill":
                cluster.kill()
            case _:
                pass
        assert_ordered(cluster.partition("t"))
    partition = cluster.partition("t")
    if not open_:
        assert partition.last_stable_offset == partition.high_watermark
    assert partition.high_watermark == partition.log.log_end_offset
