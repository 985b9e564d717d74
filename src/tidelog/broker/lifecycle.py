"""A broker's life: it registers, catches up, is unfenced, stays alive by heartbeats, and leaves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING

from tidelog.broker.leaving import LOOK_MS, Leaving
from tidelog.broker.registration import broker_request
from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.events import StopProcess
from tidelog.metadata.format import random_uuid
from tidelog.types import Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import BrokerRegistrationResponse

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

log = logging.getLogger("tidelog.lifecycle")

PURPOSE = "heartbeats"
"""A connection of their own: when it breaks, the controller asks whether this process is gone."""
RETRY_MS = 100
HOPELESS = frozenset(
    {
        ErrorCode.INCONSISTENT_CLUSTER_ID,
        ErrorCode.INVALID_REGISTRATION,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Refusals that asking again does not change."""


class BrokerState(Enum):
    """Where it is in its life."""

    STARTING = "starting"
    """It reads the metadata log."""
    REGISTERING = "registering"
    RECOVERING = "recovering"
    """Registered, but the metadata that it has read does not say so yet."""
    RUNNING = "running"
    STOPPING = "stopping"
    """It asks to be relieved of what it leads."""


class Lifecycle:
    """Invariant: at most one registration or heartbeat is on its way."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.state = BrokerState.STARTING
        self.incarnation_id: Uuid = random_uuid(broker.rng)
        """Of this process: by it the controller tells a restart from a repeated request."""
        self.broker_epoch = -1
        self.is_fenced = True
        self._offline: list[Uuid] = []
        self._is_asking = False
        self._is_urgent = False
        self.is_adopted = False
        """Whether the partitions that the metadata places here are open: clients may come."""
        self._beat_ms = 0
        """When the next heartbeat is due; a timer for another time is an old one."""
        self._give_up_ms = 0
        self._refused: ErrorCode | None = None
        self._unheard_ms: int | None = None
        """When the first heartbeat was sent that nobody has answered."""
        self.leaving = Leaving(broker, self._is_unheard)
        self._is_relieved = False

    @property
    def has_stopped(self) -> bool:
        """Whether the process may end: nobody waits for what this broker leads, or in vain."""
        return self._is_relieved or self.leaving.is_hopeless

    def caught_up(self, now: Now) -> None:
        """What was committed before this start has been read."""
        if self.state is BrokerState.STARTING:
            self._begin_to_register(now)

    def adopted(self, now: Now) -> None:
        """They may come now."""
        self.is_adopted = True
        self.metadata_changed(now)

    def metadata_changed(self, now: Now) -> None:
        """Whether this broker's registration is among what it has read."""
        if (
            self.state is BrokerState.RECOVERING
            and self.is_adopted
            and self._broker.image.broker_epoch(self._broker.node_id) == self.broker_epoch
        ):
            self.state = BrokerState.RUNNING
            self.beat_soon(now)
        elif self.state is BrokerState.STOPPING:
            self.beat_soon(now)

    def stop(self, now: Now) -> None:
        """Have others lead what this broker leads, if there are others."""
        others = (one for one in self._broker.image.alive_brokers() if one.is_active)
        is_alone = all(one.broker_id == self._broker.node_id for one in others)
        if self.state in (BrokerState.RUNNING, BrokerState.RECOVERING) and not is_alone:
            self.state = BrokerState.STOPPING
            self.beat_soon(now)
            self.leaving.look_later(now)
        else:
            self._is_relieved = True

    def directory_failed(self, directory_id: Uuid, now: Now) -> None:
        self._offline.append(directory_id)
        self.beat_soon(now)

    def beat_soon(self, now: Now) -> None:
        """There is something that the controller should know."""
        self._is_urgent = True
        if not self._is_asking and self.broker_epoch >= 0:
            self._beat(now)

    # Registration.

    def _begin_to_register(self, now: Now) -> None:
        """It has to succeed in time."""
        self.state = BrokerState.REGISTERING
        timeout_ms = self._broker.config.initial_broker_registration_timeout_ms
        self._give_up_ms = now.monotonic_ms + timeout_ms
        self._register(now)

    def _register(self, now: Now) -> None:
        request = broker_request(self._broker, self.incarnation_id)
        self._ask(request, self._registered, now)

    def _registered(self, answer: Message | PeerFailure, now: Now) -> None:
        self._is_asking = False
        code = ErrorCode.REQUEST_TIMED_OUT
        if isinstance(answer, BrokerRegistrationResponse):
            code = ErrorCode.of(answer.error_code)
            if code is ErrorCode.NONE:
                self.broker_epoch = answer.broker_epoch
                self.state = BrokerState.RECOVERING
                log.info("registered with broker epoch %d", self.broker_epoch)
                self.metadata_changed(now)
                self.beat_soon(now)
                return
        if code is not self._refused:
            self._refused = code
            log.warning("the controller does not register this broker: %s", code.name)
        if code in HOPELESS or now.monotonic_ms >= self._give_up_ms:
            reason = f"the controller does not register this broker: {code.name}"
            self._broker.effects.append(StopProcess(reason))
            return
        self._broker.schedule.at(now.monotonic_ms + RETRY_MS, self._register)

    # Heartbeats.

    def _beat_at(self, time_ms: int) -> None:
        self._beat_ms = time_ms
        self._broker.schedule.at(time_ms, partial(self._beat_if, time_ms))

    def _beat_if(self, time_ms: int, now: Now) -> None:
        if time_ms == self._beat_ms and not self._is_asking and self.broker_epoch >= 0:
            self._beat(now)

    def _beat(self, now: Now) -> None:
        broker = self._broker
        self._is_urgent = False
        if self._unheard_ms is None:
            self._unheard_ms = now.monotonic_ms
        request = BrokerHeartbeatRequest(
            broker_id=broker.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=broker.image.offset,
            want_fence=self.state is BrokerState.RECOVERING,
            want_shut_down=self.state is BrokerState.STOPPING,
            offline_log_dirs=tuple(self._offline),
            cordoned_log_dirs=broker.log_dirs.cordoned_ids(broker.config),
        )
        self._ask(request, self._beaten, now)

    def _beaten(self, answer: Message | PeerFailure, now: Now) -> None:
        self._is_asking = False
        interval_ms = self._broker.config.broker_heartbeat_interval_ms
        if isinstance(answer, BrokerHeartbeatResponse):
            self._unheard_ms = None
            code = ErrorCode.of(answer.error_code)
            if code is ErrorCode.NONE:
                self._heard(answer, now)
            elif code is ErrorCode.STALE_BROKER_EPOCH and self.state is not BrokerState.STOPPING:
                # Another process has this id, or somebody unregistered it.
                log.warning("broker epoch %d is not valid any more", self.broker_epoch)
                self.broker_epoch, self.is_fenced = -1, True
                self._begin_to_register(now)
                return
            else:
                log.warning("a heartbeat was refused: %s", code.name)
                interval_ms = RETRY_MS
        if self.has_stopped:
            return
        if self._is_urgent:
            self._beat(now)
        else:
            self._beat_at(now.monotonic_ms + interval_ms)

    def _heard(self, answer: BrokerHeartbeatResponse, now: Now) -> None:
        if self.state is BrokerState.STOPPING:
            self._is_relieved = answer.should_shut_down
        elif answer.is_fenced != self.is_fenced:
            self.is_fenced = answer.is_fenced
            log.info("this broker is %s", "fenced" if self.is_fenced else "in service")
            if self.is_fenced and self.state is BrokerState.RUNNING:
                self._is_urgent = True
            self._broker.directory_reports.begin(now)

    def _is_unheard(self, now: Now) -> bool:
        since_ms = self._unheard_ms
        return since_ms is not None and now.monotonic_ms >= since_ms + LOOK_MS

    def _ask(
        self, request: Message, then: Callable[[Message | PeerFailure, Now], None], now: Now
    ) -> None:
        self._is_asking = True
        timeout_ms = self._broker.config.broker_session_timeout_ms // 2
        self._broker.controller.ask(request, then, now, purpose=PURPOSE, timeout_ms=timeout_ms)
