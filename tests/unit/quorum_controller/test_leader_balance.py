"""Leadership goes back to the preferred replicas by itself."""

from __future__ import annotations

import pytest
from tests.unit.metadata.lives import change, config, partition, uuid
from tests.unit.quorum_controller.cluster import Cluster

from tidelog.controller import elections
from tidelog.metadata.records.topics import TopicRecord
from tidelog.quorum_controller import leader_balance

QUIET = {"metadata_max_idle_interval_ms": "0", "broker_session_timeout_ms": "100000000"}
INTERVAL_MS = 300_000


def topic(number, *partitions):
    return [TopicRecord(name=f"t{number}", topic_id=uuid(number)), *partitions]


def led_by_others(count):
    return topic(2, *(partition(2, number, (1, 2, 3), leader=2) for number in range(count)))


def leaders(cluster, name="t2"):
    return [state.leader for state in cluster.latest.topic(name).partitions.values()]


def test_every_interval():
    cluster = Cluster(*led_by_others(3), **QUIET).start()
    cluster.sleep(INTERVAL_MS - 1)
    assert leaders(cluster) == [2, 2, 2]
    cluster.sleep(1)
    assert leaders(cluster) == [1, 1, 1]
    written = len(cluster.metadata.records)
    cluster.sleep(INTERVAL_MS)
    assert len(cluster.metadata.records) == written == 3


def test_not_if_it_is_turned_off():
    cluster = Cluster(*led_by_others(3), **QUIET, auto_leader_rebalance_enable="false").start()
    cluster.sleep(2 * INTERVAL_MS)
    assert leaders(cluster) == [2, 2, 2]


@pytest.mark.parametrize(("percentage", "is_balanced"), [(29, True), (30, False)])
def test_a_few_are_left_where_they_are(percentage: int, is_balanced: bool):
    """Three of the ten that broker 1 should lead."""
    led = (partition(3, number, (1, 2, 3)) for number in range(6))  # and one of the cluster's own
    records = [*led_by_others(3), *topic(3, *led)]
    setting = {"leader_imbalance_per_broker_percentage": str(percentage)}
    cluster = Cluster(*records, **QUIET, **setting).start()
    cluster.sleep(INTERVAL_MS)
    assert leaders(cluster) == ([1] * 3 if is_balanced else [2] * 3)


def test_more_than_one_decision_makes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(leader_balance, "ELECTIONS_MAX", 4)
    cluster = Cluster(*led_by_others(10), **QUIET).start()
    cluster.sleep(INTERVAL_MS)
    assert leaders(cluster) == [1] * 10


def test_not_by_who_cannot():
    out_of_sync = topic(2, partition(2, 0, (1, 2, 3), isr=(2, 3), leader=2))
    cluster = Cluster(*out_of_sync, **QUIET).start()
    cluster.sleep(INTERVAL_MS)
    assert cluster.metadata.records == []


def test_what_changes_between_look_and_decision_counts():
    cluster = Cluster(*led_by_others(2), **QUIET).start()
    cluster.is_deciding = True
    cluster.sleep(INTERVAL_MS)
    (state,) = [cluster.latest.partition("t2", 0)]
    assert state.leader == 2
    list(cluster.metadata.append([change(2, 0, isr=(2, 3))], cluster.now))
    cluster.is_deciding = False
    cluster.settle()
    assert leaders(cluster) == [2, 1]


def test_where_nobody_leads_and_the_topic_prefers_anybody(monkeypatch: pytest.MonkeyPatch):
    """The topic was changed after its last leader died."""
    monkeypatch.setattr(elections, "ELECTIONS_MAX", 4)
    monkeypatch.setattr(leader_balance, "ELECTIONS_MAX", 4)
    dead = [
        partition(2, number, (7, 2), isr=(), leader=-1, eligible_leader_replicas=(7,))
        for number in range(10)
    ]
    cluster = Cluster(*topic(2, *dead), **QUIET).start()
    cluster.sleep(INTERVAL_MS)
    assert leaders(cluster) == [-1] * 10
    allowed = config(2, "t2", "unclean.leader.election.enable", "true")
    list(cluster.metadata.append([allowed], cluster.now))
    cluster.sleep(INTERVAL_MS)
    assert leaders(cluster) == [2] * 10
    state = cluster.latest.partition("t2", 0)
    assert (state.isr, state.leader_recovery_state) == ((2,), 1)
