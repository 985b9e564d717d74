"""A leader that hears of nobody is one for a while, and no longer."""

from __future__ import annotations

import pytest
from tests.unit.raft.test_elections import started
from tests.unit.raft.world import CLUSTER_ID, Node, World, static_world

from tidelog.events import Received
from tidelog.raft.messages import fetch_request
from tidelog.sim.check_quorum import SLACK_US, TIMEOUT_US, CheckQuorum
from tidelog.sim.timeline import MS
from tidelog.sim.violation import Violation
from tidelog.wire.request import Request

STEP_US = 100 * MS


class Watched:
    """The leader of five voters, in a time of its own."""

    def __init__(self) -> None:
        self.world: World = started(static_world([1, 2, 3, 4, 5]))
        self.leader: Node = self.world.elected()
        self.others = [n for n in self.world.nodes.values() if n is not self.leader]
        self.checks = CheckQuorum()
        self.now_us = 0

    def fetch(self, node: Node) -> None:
        raft = node.raft
        message = fetch_request(CLUSTER_ID, node.key, raft.epoch, (raft.epoch, 1), 0, 1 << 20)
        request = Request(1, 17, 1, None, message)
        self.checks.received("node", Received(1, request, "CONTROLLER"), self.now_us)

    def run(self, duration_us: int, *fetching: Node) -> None:
        for _ in range(duration_us // STEP_US):
            self.now_us += STEP_US
            for node in fetching:
                self.fetch(node)
            self.checks.stepped("node", self.leader.raft, self.now_us)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_majority_is_enough(watched: Watched) -> None:
    watched.run(10 * TIMEOUT_US, *watched.others[:2])


def test_less_is_not(watched: Watched) -> None:
    watched.run(TIMEOUT_US, *watched.others[:2])
    with pytest.raises(Violation, match="a leader without a majority resigns"):
        watched.run(2 * TIMEOUT_US, watched.others[0])


def test_it_has_its_time(watched: Watched) -> None:
    watched.run(TIMEOUT_US, *watched.others[:2])
    watched.run(TIMEOUT_US + SLACK_US)


def test_who_was_paused_may_look_first(watched: Watched) -> None:
    watched.run(TIMEOUT_US, *watched.others)
    watched.now_us += 5 * TIMEOUT_US
    watched.run(2 * STEP_US)
    watched.run(TIMEOUT_US, *watched.others)


def test_who_resigned_leads_no_more(watched: Watched) -> None:
    watched.run(TIMEOUT_US)
    watched.leader.raft.resign(watched.world.now)
    watched.run(3 * TIMEOUT_US)
