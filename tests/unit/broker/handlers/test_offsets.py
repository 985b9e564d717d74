"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.handlers.transactions import COMMIT, end, write
from tests.unit.node_client import Cluster

from tidelog.errors import ErrorCode
from tidelog.wire.messages import delete_records, list_offsets, offset_for_leader_epoch


@pytest.fixture
def cluster() -> Cluster:
    """Three batches, the last one of another leader epoch; times are 10, 30 and 20."""
    cluster = Cluster()
    cluster.create_topic("t", 2, retention_ms="-1")
    cluster.produce("t", b"0", b"1", timestamp=10)
    cluster.produce("t", b"2", timestamp=30)
    cluster.restart()
    cluster.produce("t", b"3", timestamp=20)
    return cluster


def asked(timestamp: int, partition: int = 0, current_leader_epoch: int = -1) -> Any:
    return list_offsets.ListOffsetsPartition(
        partition_index=partition,
        timestamp=timestamp,
        current_leader_epoch=current_leader_epoch,
    )


def list_all(cluster: Cluster, *partitions: Any, **fields: Any) -> Any:
    version = fields.pop("version", None)
    topic = list_offsets.ListOffsetsTopic(name=fields.pop("topic", "t"), partitions=partitions)
    request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,), **fields)
    (answer,) = cluster.ask(request, version).topics
    return answer.partitions


def list_one(cluster: Cluster, timestamp: int, **fields: Any) -> Any:
    (partition,) = list_all(cluster, asked(timestamp), **fields)
    return partition


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_finds_the_ends_and_a_time(cluster: Cluster, version: int) -> None:
    epoch = (lambda of: of) if version >= 4 else (lambda of: -1)
    for timestamp, expected in {
        -1: (-1, 4, epoch(cluster.partition("t").leader_epoch)),
        -2: (-1, 0, epoch(0)),
        5: (10, 0, epoch(0)),
        11: (30, 2, epoch(0)),
        31: (-1, -1, -1),
    }.items():
        found = list_one(cluster, timestamp, version=version)
        assert found.error_code == 0
        assert (found.timestamp, found.offset, found.leader_epoch) == expected


@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [(-3, 7, (30, 2)), (-4, 8, (-1, 0)), (-5, 9, (-1, -1)), (-6, 11, (-1, -1)), (-7, 99, None)],
)
def test_special_timestamps_have_their_version(
    cluster: Cluster, timestamp: int, since: int, expected: tuple[int, int] | None
) -> None:
    for version in range(1, 12):
        found = list_one(cluster, timestamp, version=version)
        if version < since:
            assert found.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert (found.timestamp, found.offset) == (-1, -1)
        else:
            assert found.error_code == 0
            assert (found.timestamp, found.offset) == expected


def test_the_log_start_is_where_earliest_is(cluster: Cluster) -> None:
    cluster.partition("t").advance_log_start_offset(3)
    earliest = list_one(cluster, -2)
    assert (earliest.offset, earliest.leader_epoch) == (3, cluster.partition("t").leader_epoch)
    assert list_one(cluster, -4).offset == 3
    assert list_one(cluster, 0).offset == 3
    # The greatest timestamp is that of the segments: Kafka does not ask where the log starts.
    assert list_one(cluster, -3).offset == 2


def test_committed_readers_end_at_the_last_stable_offset(cluster: Cluster) -> None:
    write(cluster, 1, 0, b"4")
    assert list_one(cluster, -1).offset == 5
    assert list_one(cluster, -1, isolation_level=1).offset == 4
    now_ms = cluster.shell.now.wall_ms
    assert list_one(cluster, now_ms).offset == 4
    assert list_one(cluster, now_ms, isolation_level=1).offset == -1
    end(cluster, 1, COMMIT)
    assert list_one(cluster, -1, isolation_level=1).offset == 6


def test_list_offsets_refuses(cluster: Cluster) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert list_one(cluster, -1, topic="u").error_code == unknown
    missing, fenced, newer, good = list_all(
        cluster, asked(-1, 7), asked(-1, 0, 0), asked(-1, 1, 99), asked(-1, 5)
    )
    assert missing.error_code == good.error_code == unknown
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (fenced.offset, fenced.timestamp, fenced.leader_epoch) == (-1, -1, -1)
    twice, other, again = list_all(cluster, asked(-1), asked(-1, 1), asked(-2))
    assert twice.error_code == again.error_code == ErrorCode.INVALID_REQUEST
    assert other.error_code == 0


@pytest.mark.parametrize("version", [2, 3, 4])
def test_where_epochs_end(cluster: Cluster, version: int) -> None:
    def ends(index: int, epoch: int, current: int = -1) -> tuple[int, int, int]:
        partition = offset_for_leader_epoch.OffsetForLeaderPartition(
            partition=index, leader_epoch=epoch, current_leader_epoch=current
        )
        topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=(partition,))
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=(topic,))
        (answer,) = cluster.ask(request, version).topics[0].partitions
        assert answer.partition == index
        return answer.error_code, answer.leader_epoch, answer.end_offset

    latest = cluster.partition("t").leader_epoch
    assert ends(0, 0) == (0, 0, 3)
    assert ends(0, latest) == (0, latest, 4)
    assert ends(0, latest + 1) == (0, -1, -1)
    assert ends(0, -1) == (0, -1, -1)
    assert ends(0, 0, latest) == (0, 0, 3)
    assert ends(0, 0, latest - 1) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert ends(0, 0, latest + 1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert ends(2, 0) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)


def delete_below(cluster: Cluster, offset: int, topic: str = "t", index: int = 0, **v: Any) -> Any:
    partition = delete_records.DeleteRecordsPartition(partition_index=index, offset=offset)
    request = delete_records.DeleteRecordsRequest(
        topics=(delete_records.DeleteRecordsTopic(name=topic, partitions=(partition,)),),
        timeout_ms=1000,
    )
    (answer,) = cluster.ask(request, v.get("version")).topics[0].partitions
    return answer.error_code, answer.low_watermark


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_are_deleted_below_an_offset(cluster: Cluster, version: int) -> None:
    assert delete_below(cluster, 1, version=version) == (0, 1)
    assert cluster.fetch("t", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert cluster.values("t", 1) == [b"1", b"2", b"3"]
    assert delete_below(cluster, 0) == (0, 1)
    assert delete_below(cluster, -1) == (0, 4)
    assert cluster.fetch("t", 4).log_start_offset == 4
    cluster.restart()
    assert cluster.fetch("t", 4).log_start_offset == 4


def test_delete_records_refuses(cluster: Cluster) -> None:
    cluster.create_topic("compact", cleanup_policy="compact")
    cluster.create_topic("both", cleanup_policy="compact,delete")
    out_of_range = (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete_below(cluster, 5) == out_of_range
    assert delete_below(cluster, -2) == out_of_range
    assert delete_below(cluster, 0, index=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete_below(cluster, 0, "compact") == (ErrorCode.POLICY_VIOLATION, -1)
    assert delete_below(cluster, 0, "both") == (0, 0)
    assert cluster.partition("t").log.log_start_offset == 0


def test_the_log_start_survives_a_crash_once_it_was_checkpointed(cluster: Cluster) -> None:
    cluster.shell.advance(2000)
    assert delete_below(cluster, 2) == (0, 2)
    cluster.shell.advance(61_000)
    cluster.crash()
    assert cluster.fetch("t", 2).log_start_offset == 2
