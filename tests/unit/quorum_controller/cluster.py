"""An active controller whose log commits when a test says so, and peers that a test kills."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from tests.unit.config.test_broker import config
from tests.unit.metadata.lives import broker, features, partition, uuid

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.topics import TopicRecord
from tidelog.quorum_controller.active import Active
from tidelog.runtime.runtime import Runtime
from tidelog.slices import finish
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)


class Log:
    """The metadata of one controller: what is appended counts for the next decision."""

    kraft_version = 0

    def __init__(self) -> None:
        self.image = MetadataImage.empty()
        self.records: list[Any] = []
        self.unawaited: list[Any] = []
        self.uncommitted: list[Any] = []
        self.error = ErrorCode.NONE
        self.log = SimpleNamespace(log_end_offset=0)

    def append(self, records, now, then=None, *, is_awaited=True):
        yield 1
        if self.error is not ErrorCode.NONE:
            return self.error
        self.image = replay_all(self.image, records, self.log.log_end_offset, 1)
        self.log.log_end_offset += len(records)
        self.records += records
        if not is_awaited:
            self.unawaited += records
        if then is not None:
            self.uncommitted.append(then)
        return ErrorCode.NONE

    def commit(self, now):
        told, self.uncommitted = self.uncommitted, []
        for then in told:
            then(ErrorCode.NONE, now)


class Probes:
    """Looks at listeners that nobody has answered yet."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def probe(self, host, port, then, now):
        self.asked.append((port, then))

    def ports(self):
        return [port for port, _ in self.asked]


class Cluster:
    """Node 9 is the active controller of brokers 1, 2 and 3; broker 1 leads a topic."""

    def __init__(self, *more: Any, node_id: int = 9, **properties: str) -> None:
        self.time_ms = 1000
        self.processes = 5000
        self.config = config(**properties)
        self.static_config = SimpleNamespace(
            node_id=node_id, broker_session_timeout_ms=self.config.broker_session_timeout_ms
        )
        self.cluster_id = "c"
        self.metadata = Log()
        self.runtime = Runtime(random.Random(1))
        self.probes = self.runtime.peers = Probes()  # type: ignore[assignment]
        self.is_deciding = False
        first = [
            *features(),
            *(broker(number) for number in (1, 2, 3)),
            TopicRecord(name="a", topic_id=uuid(1)),
            partition(1, 0, (1, 2, 3)),
            *more,
        ]
        finish(self.metadata.append(first, self.now))
        self.metadata.records.clear()
        self.active = Active(self)  # type: ignore[arg-type]

    @property
    def now(self) -> Now:
        return Now(self.time_ms, self.time_ms)

    @property
    def latest(self) -> MetadataImage:
        return self.metadata.image

    def in_turn(self, decide):
        while self.is_deciding:
            yield 1000
        self.is_deciding = True
        try:
            return (yield from decide())
        finally:
            self.is_deciding = False

    def start(self) -> Cluster:
        self.active.start(self.now)
        return self

    def settle(self) -> None:
        """All that is due now, and all long work."""
        for _ in range(50):
            self.runtime.tick(self.now)

    def sleep(self, ms: int) -> None:
        end_ms = self.time_ms + ms
        self.settle()
        while (due_ms := self.runtime.schedule.next_ms) is not None and due_ms <= end_ms:
            self.time_ms = max(due_ms, self.time_ms)
            self.settle()
        self.time_ms = end_ms
        self.settle()

    def answer_probes(self, *refused: int) -> None:
        """Nobody listens at these ports, somebody does at the others."""
        asked, self.probes.asked = self.probes.asked, []
        for port, then in asked:
            then(port in refused, self.now)
        self.settle()

    def beat(self, broker_id: int, connection: int | None = None, **wants: Any):
        """A heartbeat, by the broker's own connection; what it is answered."""
        known = self.latest.brokers[broker_id]
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=wants.pop("epoch", known.broker_epoch),
            current_metadata_offset=wants.pop("offset", self.latest.offset),
            want_fence=wants.pop("want_fence", False),
            want_shut_down=wants.pop("want_shut_down", False),
        )
        self.active.heard(request, broker_id * 100 if connection is None else connection, self.now)
        decision = finish(self.active.heartbeat(request))
        finish(self.metadata.append(decision.records, self.now))
        return decision.response

    def beat_for(self, ms: int, *broker_ids: int) -> None:
        for _ in range(0, ms, 1000):
            self.sleep(1000)
            for broker_id in broker_ids:
                self.beat(broker_id)

    def register(self, broker_id: int, *, port: int | None = None, connection: int = 7777):
        """A new process takes a broker's id."""
        self.processes += 1
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="c",
            incarnation_id=uuid(self.processes),
            listeners=(
                Listener(
                    name="PLAINTEXT",
                    host="127.0.0.1",
                    port=9000 + broker_id if port is None else port,
                    security_protocol=0,
                ),
            ),
            features=tuple(
                Feature(name=name, min_supported_version=0, max_supported_version=30)
                for name in self.latest.features
            ),
            rack=None,
            log_dirs=(uuid(2000 + broker_id),),
        )
        decision = finish(self.active.register(request, connection, self.now))
        finish(self.metadata.append(decision.records, self.now))
        self.settle()
        return decision.response

    def is_fenced(self, broker_id: int) -> bool:
        return self.latest.brokers[broker_id].fenced

    def fenced(self) -> list[int]:
        return [one.broker_id for one in self.latest.brokers.values() if one.fenced]
