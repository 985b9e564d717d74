"""Who is dead is fenced: by a look at its listener as soon as its connection breaks, else when its
session is over.

Fencing is always safe, because epochs shut out whoever is alive after all; so a look can only win
time (ADR 12).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.brokers import fence
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.events import ConnectionId
from tidelog.metadata.image import Broker
from tidelog.quorum_controller.sessions import NO_LOOK, PROBE_INTERVAL_MS_MIN, Look, Session
from tidelog.slices import Slices
from tidelog.wire.declare import Message

if TYPE_CHECKING:
    from tidelog.quorum_controller.active import Active

log = logging.getLogger("tidelog.controller")

PROBE_INTERVAL_MS = 250
"""Between two looks for a process that nobody hears of, twice as long each time. A process that
ends closes its connections one after the other, so that the first look may find its listener."""
RETRY_MS = 1000
"""After a fencing that could not be written."""


class Fencing:
    """Of brokers that are registered, by the active controller."""

    def __init__(self, active: Active) -> None:
        self._active = active
        self._sessions = active.sessions
        self._timer_ms: int | None = None

    def start(self, now: Now) -> None:
        """Nobody was heard of yet: a node that led the quorum dies as a broker, too."""
        self._timer_ms = None
        for session in self._sessions.begin(self._active.controller.latest, now):
            self.look_for(session, now)
        self.watch(now)

    def disconnected(self, connection: ConnectionId, now: Now) -> None:
        session = self._sessions.lost(connection)
        if session is not None:
            self.look_for(session, now)

    def doubted(self, session: Session, now: Now) -> None:
        """Somebody else wants its place, and may want it again and again: if it is looked for
        already, this is one of those looks."""
        self.look_for(session, now, session.next_look.interval_ms)

    # Looking at listeners.

    def look_for(
        self, session: Session, now: Now, interval_ms: int = PROBE_INTERVAL_MS_MIN
    ) -> None:
        """Ask the machine of a process that nobody hears of whether it still listens."""
        broker = self._registered(session)
        if broker is None or session.is_probed or session.connection is not None:
            return
        name = self._active.controller.config.inter_broker_name
        endpoint = broker.endpoint(name) or next(iter(broker.end_points), None)
        if endpoint is None:
            return
        session.is_probed, session.next_look = True, NO_LOOK

        def probed(was_refused: bool, now: Now) -> None:
            session.is_probed = False
            self._looked(session, was_refused, now, interval_ms)

        self._active.controller.runtime.peers.probe(endpoint.host, endpoint.port, probed, now)

    def _looked(self, session: Session, was_refused: bool, now: Now, interval_ms: int) -> None:
        if not self._sessions.has(session) or session.connection is not None:
            return  # it speaks again, or another has its place
        if was_refused:
            self._fence(session, "nobody listens where it did", now)
        else:
            next_look = Look(min(2 * interval_ms, PROBE_INTERVAL_MS))
            session.next_look = next_look
            self._active.at(
                now.monotonic_ms + interval_ms,
                lambda now: self._look_again(session, next_look, now),
            )

    def _look_again(self, session: Session, look: Look, now: Now) -> None:
        if session.next_look is look:  # or another has taken its place
            session.next_look = NO_LOOK
            self.look_for(session, now, look.interval_ms)

    # Silence.

    def watch(self, now: Now) -> None:
        """Look again when the next session would be over."""
        due_ms = self._sessions.next_stale_ms
        if due_ms is None or (self._timer_ms is not None and self._timer_ms <= due_ms):
            return
        self._timer_ms = due_ms
        self._active.at(due_ms, lambda now: self._check(due_ms, now))

    def _check(self, due_ms: int, now: Now) -> None:
        if due_ms != self._timer_ms:
            return  # an earlier one has taken its place
        self._timer_ms = None
        for session in self._sessions.stale(now):
            reason = f"nobody has heard of it for {self._sessions.timeout_ms} ms"
            self._fence(session, reason, now)
        self.watch(now)

    # Both.

    def _registered(self, session: Session) -> Broker | None:
        """Its registration, unless another process has taken its place."""
        if not self._sessions.has(session):
            return None
        broker = self._active.controller.latest.brokers.get(session.broker_id)
        is_same = broker is not None and broker.broker_epoch == session.broker_epoch
        return broker if is_same else None

    def _fence(self, session: Session, reason: str, now: Now) -> None:
        """When its turn comes, so that each decision sees the one before, and if it is not heard
        of until then."""
        controller = self._active.controller
        session.is_dead = True

        def decide() -> Slices[Sequence[Message]]:
            broker = self._registered(session)
            if broker is None or broker.fenced or not session.is_dead:
                return ()
            log.warning("broker %d is fenced: %s", session.broker_id, reason)
            return (yield from fence(controller.latest, session.broker_id, controller.config))

        def written(error: ErrorCode, now: Now) -> None:
            if not session.is_dead or not self._sessions.has(session):
                return
            if error is ErrorCode.NONE:
                self._sessions.forget(session.broker_id)
            else:
                log.error("broker %d cannot be fenced: %s", session.broker_id, error.name)
                self._active.at(now.monotonic_ms + RETRY_MS, lambda now: self._again(session, now))

        self._active.write(decide, now, written)

    def _again(self, session: Session, now: Now) -> None:
        session.is_dead = False
        self.look_for(session, now)
        self.watch(now)
