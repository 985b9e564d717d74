"""When the benchmarks of clusters say that a target is met: only if it was measured, and is."""

from __future__ import annotations

import math
import threading
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from benchmarks import failover, image
from benchmarks.cluster import CLUSTER
from benchmarks.harness.figures import OURS, THEIRS, Limit, Results, at_least, at_most
from benchmarks.harness.versus import IDLE, LOADED, START


class Named(NamedTuple):
    name: str


def results(limit: Limit, ours: list[float], theirs: list[float]) -> Results:
    found = Results()
    found.expect({"figure": limit})
    for name, values in ((OURS, ours), (THEIRS, theirs)):
        for value in values:
            found.note(Named(name), {"figure": value})  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("limit", "ours", "theirs", "is_missed"),
    [
        (at_least(2), [20.0, 1.0, 30.0], [10.0, 10.0, 10.0], False),
        (at_least(2), [20.0, 19.0, 1.0], [10.0, 10.0, 10.0], True),
        (at_least(2), [0.0], [10.0], True),
        (at_most(0.6), [6.0], [10.0], False),
        (at_most(0.6), [7.0], [10.0], True),
        (Limit(0.05, False, is_ratio=False), [0.05], [9.0], False),
        (Limit(0.05, False, is_ratio=False), [0.06], [9.0], True),
        (Limit(0.05, False, is_ratio=False), [0.0], [9.0], False),
    ],
)
def test_the_median_of_the_rounds_ratios_counts(limit, ours, theirs, is_missed):
    assert results(limit, ours, theirs).missed() == (["figure"] if is_missed else [])


def test_one_system_alone_is_not_judged_by_a_ratio():
    found = results(at_least(2), [1.0], [])
    assert found.missed() == []
    (verdict,) = found.table().columns[-1].cells
    assert verdict == ""


def test_a_cluster_is_held_to_every_target():
    limits = {figure: limit for case in CLUSTER.cases for figure, limit in case.limits.items()}
    held = {figure: (it.value, it.is_least) for figure, it in limits.items() if it is not None}
    assert held == {
        "100 B records, 16 KB batches: MB/s": (2, True),
        "100 B records, 100 KB batches: MB/s": (1.3, True),
        "100 B records, 1024 KB batches: MB/s": (1.3, True),
        "1024 B records, 16 KB batches: MB/s": (2, True),
        "1024 B records, 100 KB batches: MB/s": (1.3, True),
        "1024 B records, 1024 KB batches: MB/s": (1.3, True),
        "requests of one record, 50 connections x 1: /s": (1.2, True),
        "1000 records/s, linger 0: p99 ms": (0.6, False),
        "900 partitions without traffic: cores": (0.05, False),
    }
    assert CLUSTER.start_limit == at_most(1 / 7), START
    assert CLUSTER.memory_limit == at_most(1 / 6), (IDLE, LOADED)
    assert CLUSTER.replicas == 3


def test_so_is_a_fail_over():
    assert failover.TARGETS == {
        "kill -9: longest gap between acks, s": 1,
        "kill -9: longest wait of a record for its ack, s": 1,
        "kill -9: longest gap between acks of one partition, s": 1,
        "kill -9 of the active controller: the next is active, s": 0.3,
        "restart: back in every ISR after its start, s": 2,
        "rolling restart: longest gap between acks, s": 0.3,
        "rolling restart: longest wait of a record for its ack, s": 0.3,
        "errors that the producer saw": 0,
    }
    assert (failover.PARTITIONS, failover.KILLS) == (300, 20)


def measured(**changed: list[float]) -> dict[str, list[float]]:
    """Each target as it may be at most, but for those whose names begin so."""
    found = {name: [0.0, float(most)] for name, most in failover.TARGETS.items()}
    for start, values in changed.items():
        (name,) = [name for name in found if name.startswith(start)]
        found[name] = values
    return found


def test_the_longest_of_a_fail_over_counts():
    assert failover.missed(measured()) == []
    (name,) = failover.missed(measured(restart=[0.1] * 19 + [2.01]))
    assert name.startswith("restart")
    assert len(failover.missed(measured(errors=[1.0]))) == 1


def test_a_fail_over_that_was_not_measured_is_missed():
    assert len(failover.missed(measured(restart=[]))) == 1
    assert len(failover.missed(measured(restart=[math.inf]))) == 1


def test_a_record_that_waits_is_seen_although_others_are_acknowledged(monkeypatch):
    load = object.__new__(failover.Load)
    load.acked = [(99.5, 0.7), *((100 + tenth / 10, 0.01) for tenth in range(20)), (101.9, 1.5)]
    load.waiting = {7: 101.8}
    monkeypatch.setattr(failover.time, "time", lambda: 102.0)
    assert load.gap(100.0) == pytest.approx(0.1)
    assert load.wait(100.0) == pytest.approx(1.5)
    load.waiting = {7: 100.2}
    assert load.wait(100.0) == pytest.approx(1.8)


def produced(**settings):
    """The partitions of a load's first records."""
    load = object.__new__(failover.Load)
    load.waiting, load._is_over, load._partition = {}, False, settings.get("partition")
    partitions = []

    def produce(topic, value, *, partition, on_delivery):
        partitions.append(partition)
        load._is_over = len(partitions) == 4

    load._producer = SimpleNamespace(produce=produce, poll=float, flush=float)
    load._produce()
    return partitions


def test_a_load_writes_to_all_partitions_or_to_one():
    assert produced() == [0, 1, 2, 3]
    assert produced(partition=0) == [0, 0, 0, 0]
    assert produced(partition=7) == [7, 7, 7, 7]


class Clock:
    """Time, in which something is acknowledged all the while that nothing moves."""

    def __init__(self):
        self.now = 100.0
        self.load = object.__new__(failover.Load)
        self.load.acked, self.load.waiting, self.load.errors = [(self.now, 0.0)], {}, []
        self.load.end = lambda: None

    def time(self):
        return self.now

    monotonic = time

    def sleep(self, seconds):
        for _ in range(round(seconds * 100)):
            self.now += 0.01
            self.load.acked.append((self.now, 0.0))

    def hold(self, seconds):
        self.now += seconds
        self.load.acked.append((self.now, seconds))


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(failover, "time", found)
    return found


def test_leaders_that_are_given_back_belong_to_a_rolling_restart(clock, monkeypatch):
    monkeypatch.setattr(failover, "is_in_sync", lambda admin: True)
    monkeypatch.setattr(failover, "give_leaders_back", lambda admin: clock.hold(0.4))
    nodes = SimpleNamespace(stop=lambda node: clock.hold(0.1), start=clock.sleep)
    figures = failover.restart(nodes, clock.load, None, 1)
    assert figures == {
        failover.ROLLING_GAP: pytest.approx(0.4),
        failover.ROLLING_WAIT: pytest.approx(0.4),
    }


def test_the_gap_of_one_partition_is_of_one_that_the_victim_leads(clock, monkeypatch):
    single = Clock().load
    single.acked, single.errors = [(100.0, 0.0), (102.5, 2.5)], ["refused"]
    asked = []

    def made(servers, partition):
        asked.append(partition)
        return single

    in_sync = iter([False, True])
    monkeypatch.setattr(failover, "is_in_sync", lambda admin: next(in_sync))
    monkeypatch.setattr(failover, "Load", made)
    led = [SimpleNamespace(id=index, leader=leader) for index, leader in enumerate((3, 1, 2, 1))]
    monkeypatch.setattr(failover, "partitions", lambda admin: led)
    nodes = SimpleNamespace(bootstrap_servers="", kill=lambda node: None, start=lambda node: None)
    figures = failover.kill(nodes, clock.load, None, 1, is_controller=False)
    assert asked == [1]
    assert figures[failover.KILL_PARTITION_GAP] == pytest.approx(2.5)
    assert figures[failover.KILL_GAP] == pytest.approx(0.01)
    assert figures[failover.ERRORS] == 1


def ended(produce):
    load = object.__new__(failover.Load)
    load.waiting, load.errors, load._is_over = {}, [], False
    load._produce = lambda: produce(load)
    load._thread = threading.Thread(target=load._run)
    load._thread.start()
    load.end()
    return load.errors


def test_a_producer_that_breaks_or_leaves_records_behind_is_an_error():
    def leave_one(load):
        load.waiting[7] = 0.0

    def give_up(load):
        raise BufferError("its queue is full")

    assert ended(lambda load: None) == []
    assert ended(leave_one) == ["1 records were never acknowledged"]
    assert ended(give_up) == ["the producer gave up: BufferError('its queue is full')"]


def test_the_image_that_is_measured_is_one_that_is_answered_from():
    made = image.cluster(image.SIZES[0])
    assert b"topic-00003" in image.answering(made)(3)
    assert image.changing(made)(3) is not made


@pytest.mark.slow
def test_an_answer_costs_no_more_with_100000_partitions():
    small, large = image.seconds([image.answering(image.cluster(size)) for size in image.SIZES])
    assert large < 4 * small, "two levels of a tree more, not a thousand times"
