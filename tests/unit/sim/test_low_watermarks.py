"""When a low watermark may fall, and when it may not."""

from __future__ import annotations

import pytest
from tests.unit.replica.replicas import TOPIC_ID, Replicas
from tests.unit.sim.test_fetches import VERSION, asked

from tidelog.events import Received
from tidelog.replica.isr import RemoteReplica
from tidelog.sim.low_watermarks import LowWatermarks
from tidelog.sim.violation import Violation
from tidelog.wire.api import ApiKey
from tidelog.wire.request import Request


class Watched:
    """Broker 1 leads; all three replicas have deleted what lies below offset 3 of 4."""

    def __init__(self) -> None:
        self.invariants = LowWatermarks()
        self.replicas = Replicas()
        self.replicas.append(4)
        self.replicas.replicate()
        self.replicas.leader.advance_log_start_offset(3)
        self.replicas.replicate()
        self.look(3)

    def look(self, low_watermark: int) -> None:
        """After a step with a fetch."""
        replicas = self.replicas
        assert replicas.leader.low_watermark == low_watermark
        request = Request(int(ApiKey.FETCH), VERSION, 7, None, asked(4, 0))
        self.invariants.received("node1", Received(4, request, "PLAINTEXT"))
        self.invariants.stepped("node1", {(TOPIC_ID, 0): replicas.leader}, replicas.brokers)

    def tell(self, log_start_offset: int, broker_epoch: int) -> None:
        """Broker 2 says where its log starts."""
        self.replicas.leader.follower_fetched(
            2,
            fetch_offset=4,
            log_start_offset=log_start_offset,
            broker_epoch=broker_epoch,
            now=self.replicas.now,
        )

    def forget(self, broker_id: int) -> None:
        followers = self.replicas.leader.followers
        assert followers is not None
        followers.remote[broker_id] = RemoteReplica(broker_id)


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_it_may_not_fall_by_itself(watched: Watched) -> None:
    watched.tell(1, broker_epoch=20)
    with pytest.raises(Violation, match=r"falls for a reason.*low_watermark=3.*low_watermark=1"):
        watched.look(1)


def test_it_may_with_another_process(watched: Watched) -> None:
    watched.replicas.brokers.epochs[2] = 21
    watched.look(3)
    watched.tell(1, broker_epoch=21)
    watched.look(1)


def test_it_may_with_a_replica_that_is_back(watched: Watched) -> None:
    watched.replicas.brokers.fenced.add(2)
    watched.tell(1, broker_epoch=20)
    watched.look(3)
    watched.replicas.brokers.fenced.clear()
    watched.look(1)


def test_it_may_in_another_epoch(watched: Watched) -> None:
    watched.replicas.elect(1, isr=(1, 2, 3))
    watched.tell(1, broker_epoch=20)
    watched.look(1)


def test_what_a_replica_told_may_not_be_forgotten(watched: Watched) -> None:
    watched.replicas.change((1, 2, 3))
    watched.forget(2)
    with pytest.raises(Violation, match="falls for a reason"):
        watched.look(-1)


def test_but_it_may_have_gone_and_come_by_two_changes(watched: Watched) -> None:
    watched.replicas.change((1, 2, 3))
    watched.replicas.change((1, 2, 3))
    watched.forget(2)
    watched.look(-1)
