"""Replicas that catch up leave room for others, if a reassignment says so."""

from __future__ import annotations

import pytest
from tests.unit.broker.wired import Wired

from tidelog.broker.replication_quota import SAMPLES_MAX, ReplicationQuota, is_named
from tidelog.config.replication_rates import FOLLOWER_RATE, LEADER_RATE
from tidelog.metadata.records.cluster import ConfigRecord

BROKER_RESOURCE = 4
RECORDS = 40
SIZE = 10_000
RATE = 50_000


def test_a_rate_is_kept_over_some_seconds() -> None:
    quota = ReplicationQuota()
    quota.record(1 << 40, 0)
    assert quota.wait_ms(0) == 0
    quota.limit("1000")
    assert quota.wait_ms(0) == 0
    quota.record(3000, 0)
    assert [quota.wait_ms(now_ms) for now_ms in (0, 1000, 2000, 3000)] == [2000, 2000, 1000, 0]
    quota.record(1000, 3000)
    assert quota.wait_ms(3000) == 1000
    assert quota.wait_ms(SAMPLES_MAX * 1000 + 3001) == 0
    quota.record(10**9, 20_000)
    assert quota.wait_ms(20_000) > 0
    quota.limit(None)
    assert quota.wait_ms(20_000) == 0
    quota.limit("nonsense")
    assert quota.bytes_a_second is None


def test_who_is_named() -> None:
    assert is_named(("*",), 7, 7)
    assert is_named(("0:101", "1:102"), 1, 102)
    assert not is_named(("0:101", "1:102"), 1, 101)
    assert not is_named((), 0, 0)


def behind(rate: str, **configs: str) -> Wired:
    """Broker 3 has missed some records, and may take so many bytes a second."""
    # A fetch brings so little that the rate is kept over many of them.
    wired = Wired(replica_fetch_max_bytes="20000")
    wired.create_topic(min_insync_replicas="2", **configs)
    wired.advance(50)
    wired.disconnect(3)
    wired.fence(3)
    wired.change(1, 2, isr=(1, 2))
    node = wired[1]
    for _ in range(RECORDS):
        assert node.produce("t", bytes(SIZE)).error_code == 0
    names = (LEADER_RATE, FOLLOWER_RATE) if rate == "both" else (rate,)
    wired.commit(
        [
            ConfigRecord(
                resource_type=BROKER_RESOURCE, resource_name=id_, name=name, value=str(RATE)
            )
            for name in names
            for id_ in ("1", "3")
        ]
    )
    wired.down.clear()
    return wired


def catch_up_ms(wired: Wired) -> int:
    for ms in range(0, 30_000, 100):
        if wired.partition(3).log.log_end_offset == RECORDS:
            return ms
        wired.advance(100)
    raise AssertionError("it never comes")


@pytest.mark.parametrize(
    ("rate", "configs"),
    [
        (LEADER_RATE, {"leader_replication_throttled_replicas": "0:1"}),
        (FOLLOWER_RATE, {"follower_replication_throttled_replicas": "*"}),
        (
            "both",
            {
                "leader_replication_throttled_replicas": "0:1",
                "follower_replication_throttled_replicas": "0:3",
            },
        ),
    ],
)
def test_who_lags_is_held_up_and_nobody_else(rate: str, configs: dict[str, str]) -> None:
    wired = behind(rate, **configs)
    took_ms = catch_up_ms(wired)
    expected_ms = RECORDS * SIZE * 1000 // RATE
    assert expected_ms * 0.6 < took_ms < expected_ms * 1.6
    # Who is in sync is not throttled, however much it takes.
    wired.fence(3, -1)
    wired.advance(700)
    assert wired.state(1).isr == (1, 2, 3)
    for _ in range(20):
        assert wired[1].produce("t", bytes(SIZE)).error_code == 0


def test_without_a_list_nobody_is_held_up() -> None:
    assert catch_up_ms(behind("both")) < 2000
