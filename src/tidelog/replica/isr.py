"""What a leader knows of a partition's other replicas: how far each has come, who is in sync."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tidelog.types import Offset

UNKNOWN = -1
"""An offset that no fetch has told yet; a broker epoch that is not checked."""
LONG_AGO_MS = -(1 << 62)


class Brokers(Protocol):
    """What the metadata says of brokers; an image of it knows all of this."""

    def broker_epoch(self, broker_id: int, /) -> int:
        """-1 if nobody is registered."""

    def is_active(self, broker_id: int, /) -> bool:
        """Neither fenced nor about to stop: it may be in an ISR."""

    def is_alive(self, broker_id: int, /) -> bool:
        """Not fenced."""


class IsrChange(NamedTuple):
    """An ISR as a leader wants it. While it waits for the controller's answer nobody knows
    which one holds, the committed or this."""

    isr: tuple[int, ...]
    broker_epochs: tuple[int, ...]
    """As the members' fetches told them; -1 of the leader, and of who has not fetched."""
    leader_epoch: int
    partition_epoch: int


class RemoteReplica:
    """One follower, as its fetches show it."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_end_offset: Offset = UNKNOWN
        self.log_start_offset: Offset = UNKNOWN
        self.broker_epoch: int | None = None
        """Of its last fetch."""
        self.last_fetch_leader_end_offset: Offset = UNKNOWN
        self.last_fetch_ms = LONG_AGO_MS
        self.last_caught_up_ms = LONG_AGO_MS

    def begin_epoch(self, end_offset: Offset, caught_up_ms: int) -> None:
        """The leader stays, in a new epoch that starts at end_offset."""
        self.last_fetch_leader_end_offset = end_offset
        self.last_fetch_ms = self.last_caught_up_ms = caught_up_ms

    def fetched(
        self,
        fetch_offset: Offset,
        log_start_offset: Offset,
        broker_epoch: int,
        leader_end_offset: Offset,
        now_ms: int,
    ) -> None:
        """A fetch was accepted. Who asks for all that there was at its fetch before counts as
        caught up then: a follower may be one small batch behind for ever."""
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.last_fetch_leader_end_offset = max(
            self.last_fetch_leader_end_offset, leader_end_offset
        )
        self.last_fetch_ms = now_ms
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch


class Followers:
    """All replicas but the leader's own. Invariant: maximal ⊇ committed; whichever of them
    the controller has by now, the high watermark is not beyond any member's end."""

    __slots__ = (
        "_brokers",
        "_lag_time_max_ms",
        "committed",
        "maximal",
        "node_id",
        "pending",
        "remote",
    )

    def __init__(self, node_id: int, brokers: Brokers, lag_time_max_ms: int) -> None:
        self.node_id = node_id
        self._brokers = brokers
        self._lag_time_max_ms = lag_time_max_ms
        self.remote: dict[int, RemoteReplica] = {}
        self.committed: tuple[int, ...] = ()
        self.maximal: tuple[int, ...] = ()
        self.pending: IsrChange | None = None

    def assign(self, replicas: tuple[int, ...], isr: tuple[int, ...]) -> None:
        """What the controller has confirmed: it replaces a change that is under way."""
        others = sorted(replica for replica in replicas if replica != self.node_id)
        self.remote = {other: self.remote.get(other) or RemoteReplica(other) for other in others}
        self.commit(isr)

    def commit(self, isr: tuple[int, ...]) -> None:
        self.committed = self.maximal = isr
        self.pending = None

    def begin_epoch(self, end_offset: Offset, now_ms: int) -> None:
        """Who is in sync gets the full time to fetch from the leader of this epoch."""
        for replica in self.remote.values():
            caught_up_ms = now_ms if replica.broker_id in self.committed else LONG_AGO_MS
            replica.begin_epoch(end_offset, caught_up_ms)

    # What has been fetched.

    def is_stale(self, replica_id: int, broker_epoch: int) -> bool:
        """Whether it is a fetch of an incarnation that the metadata knows to be gone."""
        return UNKNOWN < broker_epoch < self._brokers.broker_epoch(replica_id)

    def touched(self, replica_id: int, broker_epoch: int, now_ms: int) -> None:
        """It had fetched all that there was, and fetched again at that time."""
        replica = self.remote.get(replica_id)
        if replica is not None and replica.broker_epoch == broker_epoch:
            replica.last_fetch_ms = max(replica.last_fetch_ms, now_ms)
            replica.last_caught_up_ms = max(replica.last_caught_up_ms, now_ms)

    def is_caught_up(self, replica: RemoteReplica, end_offset: Offset, now_ms: int) -> bool:
        return (
            replica.log_end_offset == end_offset
            or now_ms - replica.last_caught_up_ms <= self._lag_time_max_ms
        )

    def is_eligible(self, replica: RemoteReplica) -> bool:
        """Whether the controller would have it in the ISR, as far as is known here."""
        if replica.broker_epoch is None or not self._brokers.is_active(replica.broker_id):
            return False
        return replica.broker_epoch in (UNKNOWN, self._brokers.broker_epoch(replica.broker_id))

    def replicated_end(self, own_end: Offset, end_offset: Offset, now_ms: int) -> Offset:
        """Up to where all have the log that count: a replica that is about to join does too,
        else a fast leader that is in sync with itself alone could outrun it for ever."""
        least = own_end
        for replica in self.remote.values():
            if replica.log_end_offset < least and (
                replica.broker_id in self.maximal
                or (self.is_caught_up(replica, end_offset, now_ms) and self.is_eligible(replica))
            ):
                least = replica.log_end_offset
        return least

    def low_watermark(self, log_start_offset: Offset) -> Offset:
        """Below it nobody alive has a record."""
        for replica in self.remote.values():
            if replica.log_start_offset < log_start_offset and self._brokers.is_alive(
                replica.broker_id
            ):
                log_start_offset = replica.log_start_offset
        return log_start_offset

    # Changes of the ISR. One at a time: only the answer or the metadata ends it.

    def expanded(self, replica: RemoteReplica, end_offset_min: Offset) -> tuple[int, ...] | None:
        """The ISR with one more member, if it may be that now."""
        if (
            self.pending is None
            and replica.broker_id not in self.committed
            and replica.log_end_offset >= end_offset_min
            and self.is_eligible(replica)
        ):
            return (*self.committed, replica.broker_id)
        return None

    def shrunk(self, end_offset: Offset, now_ms: int) -> tuple[int, ...] | None:
        """The ISR without those that lag, if there are any."""
        if self.pending is not None:
            return None
        kept = tuple(
            member
            for member in self.committed
            if member not in self.remote
            or self.is_caught_up(self.remote[member], end_offset, now_ms)
        )
        return kept if kept != self.committed else None

    def propose(self, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int) -> IsrChange:
        """From now on the change is under way. Who joins counts already; who leaves counts
        until it is sure, for the controller may refuse."""
        members = tuple(sorted(isr))
        epochs = tuple(
            UNKNOWN if replica is None or replica.broker_epoch is None else replica.broker_epoch
            for replica in map(self.remote.get, members)
        )
        self.pending = IsrChange(members, epochs, leader_epoch, partition_epoch)
        if len(isr) > len(self.committed):
            self.maximal = isr
        return self.pending
