"""Decisions about a broker with very many partitions come in small pieces, and say what a piece
costs: whoever runs them stops in between."""

from __future__ import annotations

import gc
import time

import pytest
from tests.unit.config.test_broker import config
from tests.unit.metadata.lives import broker, features, partition, uuid

from tidelog.controller.brokers import begin_controlled_shutdown, fence, unfence
from tidelog.controller.decision import RECORDS_MAX, Decision, batches
from tidelog.controller.elections import elect_leaders, imbalanced_partitions
from tidelog.controller.heartbeat import heartbeat
from tidelog.controller.reassignments import list_partition_reassignments
from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.topics import TopicRecord
from tidelog.runtime.jobs import STEP_COST_MAX
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

PARTITIONS = 10_000
CONFIG = config()
STOP = BrokerHeartbeatRequest(
    broker_id=2, broker_epoch=20, current_metadata_offset=1, want_fence=False, want_shut_down=True
)
STEP_MS_MAX = 5.0
STEPS_SLOW_MAX = 0.02
"""The share of steps that may be slower: of this thread's time, but caches are everybody's."""


@pytest.fixture(scope="module")
def image():
    """Brokers 1 and 2 have everything, and 1 leads it."""
    records = [*features(), broker(1), broker(2), broker(3, fenced=True)]
    for number in range(1, 11):
        records.append(TopicRecord(name=f"t{number}", topic_id=uuid(number)))
        records += [partition(number, one, (1, 2)) for one in range(PARTITIONS // 10)]
    return replay_all(MetadataImage.empty(), records, 0, 1)


@pytest.fixture(scope="module")
def leaderless(image):
    *changes, _ = done(fence(image, 1, CONFIG))[0]
    image = replay_all(image, changes, image.offset + 1, 1)
    *changes, _ = done(fence(image, 2, CONFIG))[0]
    return replay_all(image, changes, image.offset + 1, 1)


def done(slices):
    """The result, and how long each step took that did a step's worth of pieces."""
    steps, cost, began = [], 0, time.thread_time()
    while True:
        try:
            cost += next(slices)
        except StopIteration as stopped:
            return stopped.value, steps
        if cost >= STEP_COST_MAX:
            steps.append((time.thread_time() - began) * 1000)
            cost, began = 0, time.thread_time()


DECISIONS = {
    "fence": lambda image, _: fence(image, 1, CONFIG),
    "shutdown": lambda image, _: begin_controlled_shutdown(image, 1, CONFIG),
    "leads nothing": lambda image, _: heartbeat(image, STOP, CONFIG),
    "unfence": lambda _, leaderless: unfence(leaderless, 2, CONFIG),
    "elect": lambda image, _: elect_leaders(
        image, ElectLeadersRequest(election_type=0, topic_partitions=None), CONFIG
    ),
    "imbalanced": lambda image, _: imbalanced_partitions(image, 0),
    "list": lambda image, _: list_partition_reassignments(
        image, ListPartitionReassignmentsRequest(topics=None)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DECISIONS)
def test_no_step_is_long(name, image, leaderless):
    gc.collect()
    gc.disable()  # the image of the test is large, and to walk it takes a while
    try:
        _, steps = done(DECISIONS[name](image, leaderless))
    finally:
        gc.enable()
    assert len(steps) >= 9, "it was done in a few large pieces"
    slow = [ms for ms in steps if ms > STEP_MS_MAX]
    assert len(slow) <= max(1, len(steps) * STEPS_SLOW_MAX), slow


@pytest.mark.slow
def test_what_happens_to_a_broker_may_take_several_batches(image):
    records, _ = done(fence(image, 1, CONFIG))
    assert len(records) == PARTITIONS + 1
    first, second = batches(Decision(records, None, is_atomic=False))
    assert (len(first), len(second)) == (RECORDS_MAX, 1)
    assert [*first, *second] == records
    assert batches(Decision(records, None)) == [records]
    assert batches(Decision([], None)) == batches(Decision([], None, is_atomic=False)) == []
