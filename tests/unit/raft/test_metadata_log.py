"""The metadata log: appended is not committed, and what is committed can be read again."""

from __future__ import annotations

import pytest

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.log.config import LogConfig
from tidelog.log.recovery import load
from tidelog.metadata.records.cluster import ConfigRecord
from tidelog.raft.metadata_log import MetadataLog
from tidelog.sim.disk import SimulatedDisk

NOW = Now(0, 1_700_000_000_000)


def open_log(disk: SimulatedDisk, epoch: int = 0) -> MetadataLog:
    log = load(
        disk, "m-0", LogConfig(), is_clean=False, recovery_point=0, log_start_offset=0, now=NOW
    )
    return MetadataLog(log, 1, epoch)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def leader(disk: SimulatedDisk) -> MetadataLog:
    metadata = open_log(disk)
    metadata.become_leader(NOW)
    return metadata


def config(value: str) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value=value)


def shown(metadata: MetadataLog, *, latest: bool = False) -> dict[str, str]:
    image = metadata.latest if latest else metadata.committed
    return dict(image.topic_configs("t"))


def test_only_a_flush_commits(leader: MetadataLog) -> None:
    called: list[str] = []
    assert leader.append([config("1")], NOW, lambda now: called.append("1")) is ErrorCode.NONE
    first_end = leader.log.log_end_offset
    leader.append([config("2")], NOW, lambda now: called.append("2"))
    assert (shown(leader), shown(leader, latest=True)) == ({}, {"retention.ms": "2"})
    assert leader.has_pending
    records, then = leader.flushed(first_end)
    assert records == [config("1")]
    for callback in then:
        callback(NOW)
    assert called == ["1"]
    assert shown(leader) == {"retention.ms": "1"}
    assert leader.committed_offset == first_end
    leader.flushed(leader.log.log_end_offset)
    assert shown(leader) == {"retention.ms": "2"}
    assert not leader.has_pending


def test_a_decision_without_records_waits_for_those_before_it(leader: MetadataLog) -> None:
    leader.flushed(leader.log.log_end_offset)
    leader.append([config("1")], NOW)
    end_offset = leader.log.log_end_offset
    assert leader.append([], NOW, lambda now: None) is ErrorCode.NONE
    assert leader.log.log_end_offset == end_offset
    assert len(leader.flushed(end_offset - 1)[1]) == 0
    assert len(leader.flushed(end_offset)[1]) == 1


def test_what_is_read_again_is_what_was_appended(disk: SimulatedDisk, leader: MetadataLog) -> None:
    for count in range(50):
        leader.append([config(str(count)), config(str(count))], NOW)
    again = open_log(disk.copy())
    assert shown(again) == {"retention.ms": "49"}
    assert again.latest is again.committed
    assert again.committed_offset == again.log.log_end_offset == leader.log.log_end_offset
    assert again.leader_epoch == leader.leader_epoch == 1
    again.become_leader(NOW)
    assert again.leader_epoch == 2


def test_an_epoch_that_left_no_record_still_counts(disk: SimulatedDisk) -> None:
    metadata = open_log(disk, epoch=7)
    metadata.become_leader(NOW)
    assert metadata.leader_epoch == 8
    assert metadata.log.leader_epochs.latest == 8


def test_no_room_changes_nothing(disk: SimulatedDisk, leader: MetadataLog) -> None:
    leader.flushed(leader.log.log_end_offset)
    disk.capacity_bytes -= disk.free_bytes
    before = leader.latest
    assert leader.append([config("1")], NOW) is ErrorCode.KAFKA_STORAGE_ERROR
    assert leader.latest is before
    assert not leader.has_pending
