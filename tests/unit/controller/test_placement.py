"""Striped placement: even over brokers and racks, never on one broker twice."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.unit.metadata.lives import broker, uuid

from tidelog.controller.decision import Refused
from tidelog.controller.placement import members_of, place_replicas
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import MetadataImage


def cluster(*brokers):
    return members_of(replay_all(MetadataImage.empty(), brokers, 0, 1))


def racked(racks, per_rack):
    return cluster(
        *(
            broker(rack * 10 + number, rack=f"r{rack}")
            for rack in range(racks)
            for number in range(per_rack)
        )
    )


@pytest.mark.parametrize("seed", range(5))
def test_leaders_and_replicas_are_even(seed):
    image = cluster(*(broker(number) for number in range(5)))
    placed = list(place_replicas(image, 500, 3, random.Random(seed)))
    assert all(len(set(replicas)) == 3 for replicas in placed)
    assert set(Counter(replicas[0] for replicas in placed).values()) == {100}
    counts = Counter(broker for replicas in placed for broker in replicas)
    assert max(counts.values()) - min(counts.values()) <= 60


@pytest.mark.parametrize("seed", range(5))
def test_replicas_are_in_different_racks(seed):
    placed = list(place_replicas(racked(3, 2), 60, 3, random.Random(seed)))
    assert all(len({broker // 10 for broker in replicas}) == 3 for replicas in placed)
    leaders = Counter(replicas[0] for replicas in placed)
    assert set(leaders.values()) == {10}


def test_with_fewer_racks_than_replicas_every_rack_has_one():
    placed = list(place_replicas(racked(2, 3), 30, 4, random.Random(1)))
    for replicas in placed:
        assert len(set(replicas)) == 4
        assert Counter(broker // 10 for broker in replicas) == {0: 2, 1: 2}


def test_brokers_that_are_about_to_stop_get_nothing():
    stopping = broker(2, in_controlled_shutdown=True)
    image = cluster(broker(0), broker(1), stopping)
    placed = list(place_replicas(image, 20, 2, random.Random(1)))
    assert {one for replicas in placed for one in replicas} == {0, 1}
    with pytest.raises(Refused):
        place_replicas(image, 1, 3, random.Random(1))
    stopped = broker(2, in_controlled_shutdown=True, fenced=True)
    image = cluster(broker(0), broker(1), stopped)
    (replicas,) = place_replicas(image, 1, 3, random.Random(1))
    assert set(replicas) == {0, 1, 2}


def test_fenced_brokers_come_last_and_never_lead():
    image = cluster(broker(0), broker(1), broker(2, fenced=True))
    placed = list(place_replicas(image, 20, 2, random.Random(1)))
    assert {broker for replicas in placed for broker in replicas} == {0, 1}
    placed = list(place_replicas(image, 20, 3, random.Random(1)))
    assert all(replicas[0] != 2 and 2 in replicas for replicas in placed)


def test_one_broker():
    assert list(place_replicas(cluster(broker(4)), 3, 1, random.Random(1))) == [[4], [4], [4]]


def test_different_seeds_begin_at_different_brokers():
    image = cluster(*(broker(number) for number in range(5)))
    first = {next(place_replicas(image, 1, 1, random.Random(seed)))[0] for seed in range(40)}
    assert first == set(range(5))


def test_a_broker_whose_directories_are_cordoned_gets_nothing():
    image = cluster(broker(0), broker(1, cordoned_log_dirs=(uuid(2001),)))
    placed = list(place_replicas(image, 10, 1, random.Random(1)))
    assert {broker for replicas in placed for broker in replicas} == {0}


@pytest.mark.parametrize(
    ("image", "factor", "message"),
    [
        (cluster(broker(0, fenced=True)), 1, "All brokers are currently fenced."),
        (cluster(broker(0)), 2, "only 1 broker(s) are registered"),
        (cluster(broker(0)), 0, "must be positive"),
        (cluster(), 1, "All brokers are currently fenced."),
    ],
)
def test_what_cannot_be_had(image, factor, message):
    with pytest.raises(Refused) as refused:
        place_replicas(image, 1, factor, random.Random(1))
    assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert message in str(refused.value)
