"""The partition change builder: what becomes of a partition when its ISR, its replicas or the
state of a broker change. All elections happen here.

The steps are Kafka's, in its order; eligible leader replicas (ELR) are those of KIP-966.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeVar

from tidelog.metadata.delta_topics import UNCHANGED_LEADER, UNCHANGED_RECOVERY_STATE
from tidelog.metadata.image import NO_LEADER, PartitionState
from tidelog.metadata.records.topics import PartitionChangeRecord
from tidelog.types import Uuid

T = TypeVar("T")

RECOVERED, RECOVERING = 0, 1


class Election(Enum):
    """Who may win."""

    PREFERRED = "preferred"
    """The first replica, though another leads."""
    ONLINE = "online"
    """A member of the ISR, or of the ELR if nobody else is left."""
    UNCLEAN = "unclean"
    """Any live replica, if nobody else is left: records may be lost."""


class Winner(NamedTuple):
    node: int
    is_unclean: bool = False


class Target(NamedTuple):
    """What a caller wants to change; None leaves it."""

    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    recovery_state: int | None = None
    directory: tuple[int, Uuid] | None = None
    """A broker, and where its replica lies now."""


NO_TARGET = Target()


@dataclass(repr=False, eq=False)
class PartitionChange:
    """One change of one partition."""

    topic_id: Uuid
    partition_id: int
    before: PartitionState
    is_acceptable: Callable[[int], bool]
    """Whether a replica's broker is active."""
    min_isr: int
    """min.insync.replicas, but not more than there are replicas."""
    elr_is_on: bool
    directory_of: Callable[[int], Uuid]
    """Where a replica goes that is new to a broker."""
    target: Target = NO_TARGET
    election: Election = Election.ONLINE
    unclean_shutdown: frozenset[int] = frozenset()
    """Brokers that may have lost records: out of ISR and ELR with them."""

    def __post_init__(self) -> None:
        before, target = self.before, self.target
        self.isr = before.isr if target.isr is None else target.isr
        self.replicas = before.replicas if target.replicas is None else target.replicas
        self.removing = (
            before.removing_replicas
            if target.removing_replicas is None
            else target.removing_replicas
        )
        self.adding = (
            before.adding_replicas if target.adding_replicas is None else target.adding_replicas
        )
        self.elr = before.eligible_leader_replicas
        self.last_known_elr = before.last_known_elr
        self.leader = UNCHANGED_LEADER
        self.isr_is_elected = False
        """By its winner alone: then it is written even if it reads as before."""
        self.recovery_state = UNCHANGED_RECOVERY_STATE
        if target.recovery_state is not None and (
            target.recovery_state != before.leader_recovery_state
        ):
            self.recovery_state = target.recovery_state

    def build(self) -> PartitionChangeRecord | None:
        """The record of the change; None if nothing changes."""
        self._complete_reassignment()
        if self.elr_is_on:
            self._update_elr()
        self._elect()
        if not self.elr_is_on:
            self.elr = ()
        # Without a new leader a shrunken replica list bumps the leader epoch all the same: the
        # removed replica must not be counted by a leader that does not know.
        lost = set(self.before.replicas) - set(self.replicas)
        if lost and self.leader == UNCHANGED_LEADER:
            self.leader = self.before.leader
        self._update_last_known_elr()
        return self._record()

    def _complete_reassignment(self) -> None:
        """As soon as all replicas that are to come are in sync; where fewer come than go, all that
        are to stay must be, so that a partition does not end with fewer than it seems to have."""
        if not self.removing and not self.adding:
            return
        isr = tuple(node for node in self.isr if node not in self.removing)
        replicas = tuple(node for node in self.replicas if node not in self.removing)
        # A move that was turned round removes again some that it had added. (Kafka's waits for
        # these, and never ends.)
        coming = set(self.adding) - set(self.removing)
        awaited = set(replicas) if len(coming) < len(self.removing) else coming
        if isr and replicas and set(isr) >= awaited:
            self.isr, self.replicas = isr, replicas
            self.removing = self.adding = ()

    def _update_elr(self) -> None:
        if len(self.isr) >= self.min_isr:
            self.elr = ()
            return
        # Who was in the ISR when it was large enough holds all that was acknowledged since, as
        # long as it is a replica. (Kafka keeps who was moved away, and would elect it with an empty
        # log if it is moved back.)
        candidates = {*self.before.eligible_leader_replicas, *self.before.isr} & {*self.replicas}
        self.elr = tuple(sorted(candidates - {*self.isr} - self.unclean_shutdown))

    def _elect(self) -> None:
        winner = self._winner()
        if winner.node == self.before.leader:
            return
        self.leader = winner.node
        if winner.node == NO_LEADER:
            return
        if winner.node not in self.isr:
            self.isr = (winner.node,)
            self.isr_is_elected = True
            self.elr = (
                () if winner.is_unclean else tuple(node for node in self.elr if node != winner.node)
            )
        if winner.is_unclean and self.before.leader_recovery_state != RECOVERING:
            self.recovery_state = RECOVERING

    def _winner(self) -> Winner:
        first = self.replicas[0]
        leader = self.before.leader
        if self.election is Election.PREFERRED and self._is_valid(first):
            return Winner(first)
        if leader != NO_LEADER and self._is_valid(leader):
            return Winner(leader)
        for node in self.replicas:
            if self._is_valid(node):
                return Winner(node)
        if self.elr_is_on and not self.isr and not self.elr and len(self.last_known_elr) == 1:
            (last,) = self.last_known_elr
            if last in self.replicas and self.is_acceptable(last):
                return Winner(last, is_unclean=True)
        if self.election is Election.UNCLEAN:
            for node in self.replicas:
                if self.is_acceptable(node):
                    return Winner(node, is_unclean=True)
        return Winner(NO_LEADER)

    def _is_valid(self, node: int) -> bool:
        in_sync = node in self.isr or (not self.isr and node in self.elr)
        return in_sync and node in self.replicas and self.is_acceptable(node)

    def _update_last_known_elr(self) -> None:
        """Who led last is who may be asked when everybody else is gone."""
        if not self.elr_is_on:
            return
        if self.leader >= 0:
            self.last_known_elr = ()
        elif self.leader == NO_LEADER != self.before.leader and not self.last_known_elr:
            self.last_known_elr = (self.before.leader,)

    def _record(self) -> PartitionChangeRecord | None:
        before = self.before
        # Without ELR the last ISR is kept when nobody is left: it says who may lead again.
        keeps_isr = not self.isr and not self.elr_is_on
        isr = self.isr if self.isr_is_elected else changed(self.isr, before.isr)
        record = PartitionChangeRecord(
            partition_id=self.partition_id,
            topic_id=self.topic_id,
            isr=None if keeps_isr else isr,
            leader=self.leader,
            replicas=changed(self.replicas, before.replicas),
            removing_replicas=changed(self.removing, before.removing_replicas),
            adding_replicas=changed(self.adding, before.adding_replicas),
            leader_recovery_state=self.recovery_state,
            directories=self._directories(),
            eligible_leader_replicas=changed(self.elr, before.eligible_leader_replicas),
            last_known_elr=changed(self.last_known_elr, before.last_known_elr),
        )
        nothing = PartitionChangeRecord(partition_id=self.partition_id, topic_id=self.topic_id)
        return None if record == nothing else record

    def _directories(self) -> tuple[Uuid, ...] | None:
        """They follow the replicas; a replica that is new gets its broker's."""
        before = self.before
        if self.replicas == before.replicas and self.target.directory is None:
            return None
        known = {node: before.directory(node) for node in before.replicas}
        if self.target.directory is not None:
            node, directory = self.target.directory
            known[node] = directory
        directories = tuple(
            known[node] if node in known else self.directory_of(node) for node in self.replicas
        )
        return changed(directories, before.directories)


def changed(after: tuple[T, ...], before: tuple[T, ...]) -> tuple[T, ...] | None:
    return None if after == before else after
