"""What a controller does only while it is the active one: it keeps brokers' sessions, fences who is
dead, balances leaders, and writes records that say nothing, so that all see that it lives."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tidelog.controller.decision import Decision, batches
from tidelog.controller.heartbeat import NOT_STOPPING, heartbeat
from tidelog.controller.registration import register_broker
from tidelog.controller.unclean import unclean_elections
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.events import ConnectionId
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.cluster import NoOpRecord
from tidelog.quorum_controller.fencing import Fencing
from tidelog.quorum_controller.leader_balance import LeaderBalance
from tidelog.quorum_controller.sessions import Sessions
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController

log = logging.getLogger("tidelog.controller")

Written = Callable[[ErrorCode, Now], None]
Task = Callable[[Now], None]


class Active:
    """Invariant: nothing happens here unless this controller is the active one."""

    def __init__(self, controller: QuorumController) -> None:
        self.controller = controller
        config = controller.static_config
        self.sessions = Sessions(config.node_id, config.broker_session_timeout_ms)
        self.fencing = Fencing(self)
        self._leader_balance = LeaderBalance(self)
        self._term = 0
        """Counts how often it became active, or was no longer: timers of another term are over."""
        self._no_op_is_pending = False

    def start(self, now: Now) -> None:
        self._term += 1
        self._no_op_is_pending = False
        self.fencing.start(now)
        self._leader_balance.start(now)
        idle_ms = self.controller.config.metadata_max_idle_interval_ms
        if idle_ms:
            self.every(idle_ms, self._write_no_op, now)

    def stop(self) -> None:
        self._term += 1
        self.sessions.clear()

    # Time and turns.

    def at(self, time_ms: int, task: Task) -> None:
        """Do it then, if this term lasts so long."""
        term = self._term

        def run(now: Now) -> None:
            if term == self._term:
                task(now)

        self.controller.runtime.schedule.at(time_ms, run)

    def every(self, interval_ms: int, task: Task, now: Now) -> None:
        """A late run does not make up for those that it missed."""

        def run(now: Now) -> None:
            self.every(interval_ms, task, now)
            task(now)

        self.at(now.monotonic_ms + interval_ms, run)

    def write(
        self,
        decide: Callable[[], Slices[Sequence[Message]]],
        now: Now,
        then: Written | None = None,
    ) -> None:
        """Decide when its turn comes and append what was decided; then is told how that went."""
        controller, term = self.controller, self._term

        def turn() -> Slices[None]:
            if term != self._term:
                return
            image, error = controller.latest, ErrorCode.NONE
            records = yield from decide()
            report_unclean(image, records)
            fresh = controller.runtime.jobs.fresh
            for batch in batches(Decision(records, None, is_atomic=False)):
                error = yield from controller.metadata.append(batch, fresh(now))
                if error is not ErrorCode.NONE:
                    break
            if then is not None and term == self._term:
                then(error, fresh(now))

        controller.runtime.jobs.start(controller.in_turn(turn), now)

    def _write_no_op(self, now: Now) -> None:
        """Unless the last one is not committed: that says enough."""
        if self._no_op_is_pending:
            return
        self._no_op_is_pending = True
        controller, term = self.controller, self._term

        def committed(error: ErrorCode, now: Now) -> None:
            if term == self._term:
                self._no_op_is_pending = False

        def turn() -> Slices[None]:
            if term == self._term:
                error = yield from controller.metadata.append(
                    [NoOpRecord()], now, committed, is_awaited=False
                )
                if error is not ErrorCode.NONE:
                    committed(error, now)

        controller.runtime.jobs.start(controller.in_turn(turn), now)

    # Brokers.

    def disconnected(self, connection: ConnectionId, now: Now) -> None:
        """A peer is gone: it may be a broker whose process is."""
        self.fencing.disconnected(connection, now)

    def register(
        self, request: BrokerRegistrationRequest, connection: ConnectionId, now: Now
    ) -> Slices[Decision[BrokerRegistrationResponse]]:
        """BrokerRegistration. A process that lives keeps others from its id."""
        controller = self.controller
        registered = controller.latest.brokers.get(request.broker_id)
        blocking = (
            None
            if registered is None
            else self.sessions.blocks(registered, request, connection, now)
        )
        decision = yield from register_broker(
            controller.latest,
            request,
            controller.config,
            cluster_id=controller.cluster_id,
            next_offset=controller.metadata.log.log_end_offset,
            has_valid_session=blocking is not None,
            kraft_version=controller.metadata.kraft_version,
        )
        if decision.response.error_code == ErrorCode.NONE:
            epoch = decision.response.broker_epoch
            self.sessions.heard(request.broker_id, epoch, connection, now)
            self.fencing.watch(now)
        elif blocking is not None:
            self.fencing.doubted(blocking, now)
        return decision

    def heard(self, request: BrokerHeartbeatRequest, connection: ConnectionId, now: Now) -> None:
        """As soon as a heartbeat comes, however long its turn takes to come."""
        broker = self.controller.latest.brokers.get(request.broker_id)
        if broker is not None and broker.broker_epoch == request.broker_epoch:
            self.sessions.heard(request.broker_id, request.broker_epoch, connection, now)
            self.fencing.watch(now)

    def heartbeat(
        self, request: BrokerHeartbeatRequest
    ) -> Slices[Decision[BrokerHeartbeatResponse]]:
        """BrokerHeartbeat, when its turn has come."""
        controller, sessions = self.controller, self.sessions
        image = controller.latest
        session = sessions.find(request.broker_id, request.broker_epoch)
        decision = yield from heartbeat(
            image,
            request,
            controller.config,
            shutdown_offset=NOT_STOPPING if session is None else session.shutdown_offset,
            active_offset_min=sessions.active_offset_min(image),
        )
        answer = decision.response
        if session is not None and answer.error_code == ErrorCode.NONE:
            session.metadata_offset = request.current_metadata_offset
            if answer.is_fenced:
                session.shutdown_offset = NOT_STOPPING
            elif request.want_shut_down and session.shutdown_offset == NOT_STOPPING:
                end_offset = controller.metadata.log.log_end_offset + len(decision.records)
                session.shutdown_offset = end_offset - 1
        return decision


def report_unclean(image: MetadataImage, records: Sequence[Message]) -> None:
    """Of a decision on this image."""
    for election in unclean_elections(image, records):
        log.log(logging.INFO if election.is_of_the_last_leader else logging.WARNING, "%s", election)
