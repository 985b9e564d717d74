"""A leader of the quorum that hears of no majority any more does not go on leading: others may have
another leader, and brokers that reach it alone would be kept from it."""

from __future__ import annotations

from tidelog.events import Received
from tidelog.raft.raft import Raft
from tidelog.sim.timeline import MS
from tidelog.sim.violation import Violation
from tidelog.types import METADATA_TOPIC_ID
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.fetch_snapshot import FetchSnapshotRequest
from tidelog.wire.request import Request

TIMEOUT_US = 3000 * MS
"""One and a half times `controller.quorum.fetch.timeout.ms`."""
SLACK_US = 500 * MS
"""A clock may run slow, and a process that was paused needs a moment to look at its own."""


class CheckQuorum:
    """Looks at leaders now and then."""

    def __init__(self) -> None:
        self._heard: dict[str, dict[int, int]] = {}
        """When a voter's fetch last came, by the machine that it came to."""
        self._since: dict[str, int] = {}
        """Since when a machine leads."""
        self._overdue: dict[str, int] = {}
        """When it was first seen that a leader should not be one any more."""
        self._next_us: dict[str, int] = {}

    def received(self, machine: str, event: Received, now_us: int) -> None:
        request = event.request
        message = request.message if isinstance(request, Request) else None
        if isinstance(message, FetchRequest):
            if any(topic.topic_id == METADATA_TOPIC_ID for topic in message.topics):
                replica_id = max(message.replica_id, message.replica_state.replica_id)
                self._heard.setdefault(machine, {})[replica_id] = now_us
        elif isinstance(message, FetchSnapshotRequest):
            self._heard.setdefault(machine, {})[message.replica_id] = now_us

    def ended(self, machine: str) -> None:
        for known in (self._heard, self._since, self._overdue, self._next_us):
            known.pop(machine, None)

    def stepped(self, machine: str, raft: Raft, now_us: int) -> None:
        if not raft.is_leader:
            if machine in self._since:
                self.ended(machine)
            return
        if now_us < self._next_us.get(machine, 0):
            return
        self._next_us[machine] = now_us + SLACK_US // 2
        last_us = max(self._majority_us(machine, raft), self._since.setdefault(machine, now_us))
        if now_us - last_us <= TIMEOUT_US + SLACK_US:
            self._overdue.pop(machine, None)
        elif now_us - self._overdue.setdefault(machine, now_us) > SLACK_US:
            raise Violation(
                "a leader without a majority resigns",
                f"{machine} leads epoch {raft.epoch} and has not heard of a majority of"
                f" {raft.voters} for {(now_us - last_us) // MS} ms",
            )

    def _majority_us(self, machine: str, raft: Raft) -> int:
        """When it last had heard of so many that they are a majority with itself."""
        heard = self._heard.get(machine, {})
        is_voter = raft.leader_id in raft.voters
        others = [one for one in raft.voters.ids if one != raft.leader_id]
        wanted = raft.voters.majority - is_voter
        if not wanted:
            return self._next_us[machine]
        times = sorted((heard.get(one, 0) for one in others), reverse=True)
        return times[wanted - 1]
