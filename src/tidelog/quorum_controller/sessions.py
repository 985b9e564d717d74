"""The active controller's memory of brokers: when it heard of each last, by which connection, and
how far each has read the metadata. None of it is in the log: who becomes active begins anew."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.controller.heartbeat import NOT_STOPPING
from tidelog.env import Now
from tidelog.events import ConnectionId
from tidelog.metadata.image import Broker, MetadataImage
from tidelog.types import Offset
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest

OWN_CONNECTION: ConnectionId = 0
"""The broker of this very process asks without a socket, and is alive as long as we are."""
EVERYTHING: Offset = (1 << 63) - 1
PROBE_INTERVAL_MS_MIN = 10
"""Between the first look for a process and the second."""


class Look:
    """One to come, for a process that nobody hears of."""

    __slots__ = ("interval_ms",)

    def __init__(self, interval_ms: int) -> None:
        self.interval_ms = interval_ms
        """Between it and the one behind it."""


NO_LOOK = Look(PROBE_INTERVAL_MS_MIN)


class Session:
    """Of one registered process."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "connection",
        "contact_ms",
        "is_dead",
        "is_probed",
        "metadata_offset",
        "next_look",
        "shutdown_offset",
    )

    def __init__(self, broker_id: int, broker_epoch: int, contact_ms: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.contact_ms = contact_ms
        self.connection: ConnectionId | None = None
        """By which its last heartbeat came; None if that broke, or if there was none yet."""
        self.is_dead = False
        """Taken for dead until it is heard of: it is to be fenced, and keeps nobody out."""
        self.is_probed = False
        """Whether somebody is looking for it just now."""
        self.next_look = NO_LOOK
        """One at a time, or they would multiply."""
        self.metadata_offset: Offset = -1
        self.shutdown_offset: Offset = NOT_STOPPING
        """Of the last record that took its leaderships, once it wants to stop."""


class Sessions:
    """Invariant: at most one a broker, that of the process which is registered or about to be."""

    def __init__(self, node_id: int, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._node_id = node_id
        self._sessions: dict[int, Session] = {}
        self._by_connection: dict[ConnectionId, Session] = {}

    def begin(self, image: MetadataImage, now: Now) -> list[Session]:
        """Everybody in service has a fresh session; those that this controller has to look for.
        Who was about to stop may do so when all know what is known now."""
        self.clear()
        for broker in image.alive_brokers():
            session = Session(broker.broker_id, broker.broker_epoch, now.monotonic_ms)
            if broker.in_controlled_shutdown:
                session.shutdown_offset = image.offset
            if broker.broker_id == self._node_id:
                session.connection = OWN_CONNECTION
            self._sessions[broker.broker_id] = session
        return [one for one in self._sessions.values() if one.connection is None]

    def clear(self) -> None:
        self._sessions = {}
        self._by_connection = {}

    def find(self, broker_id: int, broker_epoch: int) -> Session | None:
        session = self._sessions.get(broker_id)
        return session if session is not None and session.broker_epoch == broker_epoch else None

    def has(self, session: Session) -> bool:
        """Whether it is still the broker's."""
        return self._sessions.get(session.broker_id) is session

    def heard(
        self, broker_id: int, broker_epoch: int, connection: ConnectionId, now: Now
    ) -> Session:
        """A process that is registered speaks, or one that has just been."""
        session = self.find(broker_id, broker_epoch)
        if session is None:
            self.forget(broker_id)
            session = Session(broker_id, broker_epoch, now.monotonic_ms)
            self._sessions[broker_id] = session
        session.contact_ms = now.monotonic_ms
        session.is_dead = False
        self._connect(session, connection)
        return session

    def _connect(self, session: Session, connection: ConnectionId | None) -> None:
        if connection == session.connection:
            return
        if session.connection is not None:
            self._by_connection.pop(session.connection, None)
        session.connection = connection
        if connection not in (None, OWN_CONNECTION):
            self._by_connection[connection] = session

    def lost(self, connection: ConnectionId) -> Session | None:
        """Whose connection broke; None if it was nobody's last."""
        session = self._by_connection.get(connection)
        if session is not None:
            self._connect(session, None)
        return session

    def forget(self, broker_id: int) -> None:
        session = self._sessions.pop(broker_id, None)
        if session is not None and session.connection is not None:
            self._by_connection.pop(session.connection, None)

    def blocks(
        self,
        registered: Broker,
        request: BrokerRegistrationRequest,
        connection: ConnectionId,
        now: Now,
    ) -> Session | None:
        """The session by which a registered process keeps another one from its id, if it does."""
        if connection == OWN_CONNECTION:
            return None  # this process has started anew: its last life is over
        session = self.find(registered.broker_id, registered.broker_epoch)
        if session is None or session.is_dead or self._is_stale(session, now):
            return None
        if session.connection is None:
            # Nobody hears of it, and one address has one listener: the newcomer, as it says.
            addresses = {(one.host, one.port) for one in registered.end_points}
            if any((one.host, one.port) in addresses for one in request.listeners):
                return None
        return session

    def _is_stale(self, session: Session, now: Now) -> bool:
        return now.monotonic_ms - session.contact_ms > self.timeout_ms

    def stale(self, now: Now) -> list[Session]:
        """Those that were silent for too long, the longest first."""
        found = [one for one in self._living() if self._is_stale(one, now)]
        return sorted(found, key=lambda one: (one.contact_ms, one.broker_id))

    @property
    def next_stale_ms(self) -> int | None:
        """When somebody is, if nobody is heard of until then."""
        first_ms = min((one.contact_ms for one in self._living()), default=None)
        return None if first_ms is None else first_ms + self.timeout_ms + 1

    def _living(self) -> Iterator[Session]:
        return (one for one in self._sessions.values() if not one.is_dead)

    def active_offset_min(self, image: MetadataImage) -> Offset:
        """Up to where every broker in service has read, other than those that are about to stop."""
        offsets: list[Offset] = []
        for broker in image.alive_brokers():
            session = self.find(broker.broker_id, broker.broker_epoch)
            if session is None:
                offsets.append(-1)
            elif session.shutdown_offset == NOT_STOPPING:
                offsets.append(session.metadata_offset)
        return min(offsets, default=EVERYTHING)
