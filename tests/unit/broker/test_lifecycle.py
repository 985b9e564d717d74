"""What a broker makes of the controller's answers to its registration and its heartbeats."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node_client import Cluster

from tidelog.broker.lifecycle import RETRY_MS, BrokerState
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tidelog.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

NEWER_CODE = 999


class Controller:
    """Answers when it is told to."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.asked: list[tuple[Any, Any]] = []
        cluster.broker.controller = self  # type: ignore[assignment]

    def ask(self, message: Any, then: Any, now: Now, **_: Any) -> None:
        self.asked.append((message, then))

    def take(self, kind: type) -> Any:
        """The one request that is under way."""
        ((message, then),) = self.asked
        assert isinstance(message, kind), message
        self.asked.clear()
        return then

    def beaten(self, code: int = 0) -> None:
        answer = BrokerHeartbeatResponse(error_code=code, should_shut_down=False, is_fenced=False)
        self.take(BrokerHeartbeatRequest)(answer, self.cluster.shell.now)

    def registered(self, code: int = 0, epoch: int = -1) -> None:
        answer = BrokerRegistrationResponse(error_code=code, broker_epoch=epoch)
        self.take(BrokerRegistrationRequest)(answer, self.cluster.shell.now)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.shell.advance(100)
    assert cluster.broker.lifecycle.state is BrokerState.RUNNING
    return cluster


def test_a_timer_from_before_sends_no_heartbeat_of_who_is_not_registered(cluster: Cluster) -> None:
    controller, lifecycle = Controller(cluster), cluster.broker.lifecycle
    cluster.shell.advance(100)
    assert controller.asked == [], "the next heartbeat is due in two seconds"
    lifecycle.beat_soon(cluster.shell.now)
    controller.beaten(ErrorCode.STALE_BROKER_EPOCH)
    controller.registered(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    for _ in range(40):
        cluster.shell.advance(RETRY_MS)
        controller.registered(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    cluster.shell.advance(RETRY_MS)
    controller.registered(epoch=500)
    assert (lifecycle.state, lifecycle.broker_epoch) == (BrokerState.RECOVERING, 500)


def test_reasons_that_only_a_newer_controller_knows(cluster: Cluster) -> None:
    controller, lifecycle = Controller(cluster), cluster.broker.lifecycle
    lifecycle.beat_soon(cluster.shell.now)
    controller.beaten(NEWER_CODE)
    cluster.shell.advance(RETRY_MS)
    controller.beaten(ErrorCode.STALE_BROKER_EPOCH)
    controller.registered(NEWER_CODE)
    cluster.shell.advance(RETRY_MS)
    controller.registered(epoch=500)
    assert lifecycle.broker_epoch == 500
    controller.asked.clear()
    automatic = cluster.broker.automatic_topics
    assert automatic.create("t", cluster.shell.now) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    controller.take(CreateTopicsRequest)(CreateTopicsResponse(topics=()), cluster.shell.now)
