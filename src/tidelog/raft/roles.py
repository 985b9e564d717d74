"""What a node is in its epoch, each with its own timer. Epoch, leader and vote are the quorum's.

A voter is unattached (also when it has given its vote), prospective, candidate, leader,
follower or resigned; an observer is unattached or follower and has no timer for elections.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.errors import ErrorCode
from tidelog.raft.progress import Replicas
from tidelog.raft.types import NEVER, ReplicaKey
from tidelog.raft.voters import VoterSet
from tidelog.types import Offset
from tidelog.wire.messages.control_records import Voter


class Unattached:
    """Knows no leader to fetch from."""

    __slots__ = ("deadline_ms", "has_voted")

    def __init__(self, deadline_ms: int, *, has_voted: bool = False) -> None:
        self.deadline_ms = deadline_ms
        self.has_voted = has_voted
        """For somebody who is being elected now."""


class Resend:
    """When each voter is to be asked, or asked again; those that have answered are out."""

    __slots__ = ("failures", "times")

    def __init__(self, voter_ids: tuple[int, ...], now_ms: int) -> None:
        self.times = dict.fromkeys(voter_ids, now_ms)
        self.failures: dict[int, int] = {}

    def due(self, now_ms: int) -> list[int]:
        return [voter_id for voter_id, time_ms in self.times.items() if time_ms <= now_ms]

    def sent(self, voter_id: int) -> None:
        """Its answer or failure will come."""
        self.times[voter_id] = NEVER

    def answered(self, voter_id: int) -> None:
        self.times.pop(voter_id, None)

    def failed(self, voter_id: int, now_ms: int, backoff_ms: int) -> None:
        if voter_id in self.times:
            count = self.failures[voter_id] = self.failures.get(voter_id, 0) + 1
            self.times[voter_id] = now_ms + backoff(backoff_ms, count)

    def reachable(self, voter_id: int, now_ms: int) -> None:
        """It was heard of: no need to wait any longer."""
        self.failures.pop(voter_id, None)
        if NEVER > self.times.get(voter_id, NEVER) > now_ms:
            self.times[voter_id] = now_ms

    @property
    def next_ms(self) -> int:
        return min(self.times.values(), default=NEVER)


BACKOFF_DOUBLINGS_MAX = 4


def backoff(backoff_ms: int, failures: int) -> int:
    """The pause after so many failures in a row."""
    return backoff_ms << min(failures - 1, BACKOFF_DOUBLINGS_MAX)


class Election:
    """An election that this node has called: as prospective, asking whether it could win, or
    as a candidate."""

    __slots__ = (
        "deadline_ms",
        "granted",
        "is_pre_vote",
        "is_won",
        "refused",
        "resend",
        "unreachable",
    )

    def __init__(
        self, others: tuple[int, ...], *, is_pre_vote: bool, deadline_ms: int, now_ms: int
    ) -> None:
        self.is_pre_vote = is_pre_vote
        self.deadline_ms = deadline_ms
        self.granted: list[int] = []
        self.refused: list[int] = []
        self.unreachable: dict[int, None] = {}
        """Nobody listened where they should."""
        self.resend = Resend(others, now_ms)
        self.is_won = False
        """Leads as soon as quorum-state says so."""


class Follower:
    """Fetches from the leader."""

    __slots__ = ("deadline_ms", "has_fetched", "has_updated", "leader_is_gone", "update_ms")

    def __init__(self, deadline_ms: int, update_ms: int) -> None:
        self.deadline_ms = deadline_ms
        """By when a fetch must have succeeded."""
        self.has_fetched = False
        """From this leader: then others may not call an election."""
        self.leader_is_gone = False
        """It said so, or its machine did."""
        self.update_ms = update_ms
        """When to look again whether the leader knows this voter as it is, or to join."""
        self.has_updated = False
        """A leader of a static quorum was told once."""


class VoterChange:
    """One at a time."""

    __slots__ = ("deadline_ms", "end_offset", "finish")

    def __init__(self, finish: Callable[[ErrorCode, str], None], deadline_ms: int) -> None:
        self.finish = finish
        """To be called once, with an error and what to say of it."""
        self.deadline_ms = deadline_ms
        self.end_offset: Offset | None = None
        """Committed when the high watermark is here; None while it is not appended."""


class Leader:
    """Begins with its epoch's first record."""

    __slots__ = (
        "announced_to",
        "awaited_end_offset",
        "begin",
        "change",
        "check_deadline_ms",
        "fetched",
        "granted",
        "high_watermark",
        "is_told",
        "known_at_commit",
        "replicas",
        "start_offset",
        "updates",
    )

    def __init__(self, granted: list[int], start_offset: Offset, check_deadline_ms: int) -> None:
        self.granted = granted
        self.start_offset = start_offset
        self.high_watermark: Offset | None = None
        """Unknown until a record of this epoch is committed."""
        self.awaited_end_offset = start_offset
        """Up to there others hear of records, and of their commit, at once."""
        self.replicas = Replicas()
        self.fetched: dict[int, None] = {}
        """Voters that were heard of since the last majority of them."""
        self.check_deadline_ms = check_deadline_ms
        self.known_at_commit: tuple[Offset, Offset, int] | None = None
        """Which voters there were, what was durable and how often others had fetched when it was
        last asked what is committed."""
        self.begin: dict[int, int] = {}
        """When to make itself known to a voter that does not fetch; NEVER while that is asked."""
        self.announced_to: VoterSet | None = None
        """The voters that those are."""
        self.is_told = False
        """Whether the listener knows."""
        self.change: VoterChange | None = None
        self.updates: dict[int, Voter] = {}
        """How voters of a static quorum describe themselves, for when it becomes dynamic."""


class Resigned:
    """Led this epoch, and may neither lead nor vote in it again."""

    __slots__ = ("candidates", "deadline_ms", "resend")

    def __init__(
        self, others: tuple[int, ...], candidates: list[ReplicaKey], deadline_ms: int, now_ms: int
    ) -> None:
        self.candidates = candidates
        """Who should follow, the best first."""
        self.deadline_ms = deadline_ms
        self.resend = Resend(others, now_ms)


Role = Unattached | Election | Follower | Leader | Resigned
