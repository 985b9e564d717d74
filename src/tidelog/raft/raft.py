"""One node of the metadata quorum: the surface of this package, see `__init__.py`."""

from __future__ import annotations

from tidelog.env import Now, Rng
from tidelog.errors import ErrorCode
from tidelog.log.log import Log
from tidelog.log.results import Appended
from tidelog.raft.announcements import Announcements
from tidelog.raft.cleaning import Cleaning
from tidelog.raft.config import RaftConfig
from tidelog.raft.describe import describe_quorum
from tidelog.raft.election_state import ElectionState
from tidelog.raft.elections import Elections
from tidelog.raft.following import Following
from tidelog.raft.leading import Leading
from tidelog.raft.membership import Membership
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Election, Follower, Leader, Resigned
from tidelog.raft.serving import Serving
from tidelog.raft.snapshots import Snapshots
from tidelog.raft.types import NOBODY, Address, Answer, Channel, Flush, RaftListener, ReplicaKey
from tidelog.raft.voter_changes import VoterChanges
from tidelog.raft.voters import VotersAt, VoterSet
from tidelog.types import Offset, Uuid
from tidelog.wire.messages.describe_quorum import DescribeQuorumRequest


class Raft:
    """Made on a loaded log. Raises MalformedFile or DecodeError where its directory does not say
    what it should."""

    def __init__(
        self,
        config: RaftConfig,
        node_id: int,
        directory_id: Uuid,
        cluster_id: str,
        log: Log,
        rng: Rng,
        channel: Channel,
        flush: Flush,
        listener: RaftListener,
    ) -> None:
        key = ReplicaKey(node_id, directory_id)
        self._quorum = quorum = Quorum(config, key, cluster_id, log, rng, channel, flush, listener)
        self._elections = Elections(quorum)
        self._leading = Leading(quorum)
        self._announcements = Announcements(quorum, self._elections)
        self._serving = Serving(quorum, self._leading, self._elections)
        self._following = Following(quorum, self._elections)
        self._changes = VoterChanges(quorum, self._leading)
        self._cleaning = Cleaning(quorum)
        quorum.add(
            self._elections,
            self._leading,
            self._announcements,
            self._following.appending,
            self._following,
            self._following.download,
            Membership(quorum),
            self._serving,
            self._cleaning,
        )
        self.vote = self._elections.vote
        self.begin_quorum_epoch = self._announcements.begin_quorum_epoch
        self.end_quorum_epoch = self._announcements.end_quorum_epoch
        self.fetch = self._serving.fetch
        self.fetch_snapshot = self._serving.fetch_snapshot
        self.add_voter = self._changes.add_voter
        self.remove_voter = self._changes.remove_voter
        self.update_voter = self._changes.update_voter
        self.upgrade_kraft_version = self._changes.upgrade_kraft_version

    # Time.

    def start(self, now: Now) -> None:
        """Take up what quorum-state says. A node that led does not lead its epoch again, because
        it does not know any more what it said in it; a quorum of one elects itself at once."""
        quorum = self._quorum
        self._cleaning.start(now)
        log_epoch = quorum.last[0]
        if quorum.epoch < log_epoch:
            quorum.unattach(log_epoch, now)
        if quorum.is_voter and not quorum.others:
            quorum.elect_self(now)
        elif quorum.leader_id == quorum.key.id:
            quorum.unattach(quorum.epoch + 1, now)
        else:
            self._resume(now)
        quorum.settle(now)

    def _resume(self, now: Now) -> None:
        quorum = self._quorum
        leader_address = quorum.address_of(quorum.leader_id) if quorum.leader_id >= 0 else None
        is_own_vote = quorum.state.voted == quorum.key or (
            quorum.kraft_version == 0 and quorum.state.voted == ReplicaKey(quorum.key.id)
        )
        if leader_address is not None:
            quorum.follow(quorum.epoch, quorum.leader_id, leader_address, now)
        elif is_own_vote and quorum.is_voter and quorum.leader_id == NOBODY:
            quorum.stand_again(now)
        else:
            quorum.wait_for_leader(now)

    def tick(self, now: Now) -> None:
        """The deadline has come; earlier does no harm."""
        self._following.appending.tick(now)
        self._quorum.settle(now)

    @property
    def next_deadline_ms(self) -> int:
        """When, by the monotonic clock, to be ticked at the latest."""
        return self._quorum.next_deadline_ms

    # Leading.

    def append(
        self, batch: bytearray, now: Now, *, is_awaited: bool = True
    ) -> Appended | ErrorCode:
        """One batch of the leader, which gets its offsets and epoch here. It is committed when
        the high watermark is beyond it, if this node still leads the same epoch then. Of what
        nobody awaits the others hear one after the other, some milliseconds later."""
        appended = self._leading.append(batch, now, is_awaited=is_awaited)
        self._quorum.settle(now)
        return appended

    def resign(self, now: Now) -> None:
        """Hand over to the voter that has most; a node that stops does so. Nothing if this node
        does not lead."""
        if isinstance(self._quorum.role, Leader):
            self._quorum.resign(now)
            self._quorum.settle(now)

    def describe_quorum(self, request: DescribeQuorumRequest, now: Now, answer: Answer) -> None:
        """Handles DescribeQuorum."""
        self._quorum.reply(answer, describe_quorum(self._quorum, request, now))
        self._quorum.settle(now)

    # What is known.

    @property
    def role_name(self) -> str:
        """As operators know it."""
        quorum, role = self._quorum, self._quorum.role
        if not quorum.is_voter and not isinstance(role, Leader | Resigned):
            return "observer"
        if isinstance(role, Election):
            return "prospective" if role.is_pre_vote else "candidate"
        if isinstance(role, Leader | Follower | Resigned):
            return type(role).__name__.lower()
        return "voted" if quorum.state.voted is not None else "unattached"

    @property
    def state(self) -> ElectionState:
        """As quorum-state has it, or will have it before anybody is told."""
        return self._quorum.state

    @property
    def epoch(self) -> int:
        return self._quorum.epoch

    @property
    def leader_id(self) -> int:
        """-1 if it is not known."""
        return self._quorum.leader_id

    @property
    def leader_address(self) -> Address | None:
        """Where the active controller is."""
        return self._quorum.leader_address

    @property
    def is_leader(self) -> bool:
        """Whether it may append; whether others still believe in it is another question."""
        return isinstance(self._quorum.role, Leader)

    @property
    def is_voter(self) -> bool:
        return self._quorum.is_voter

    @property
    def voters(self) -> VoterSet:
        """The latest in the log, committed or not."""
        return self._quorum.voters

    @property
    def kraft_version(self) -> int:
        return self._quorum.kraft_version

    def voters_at(self, end_offset: Offset) -> VotersAt:
        """Those that all records below an offset make; for snapshots."""
        return self._quorum.history.at(end_offset)

    @property
    def high_watermark(self) -> Offset:
        """All below is committed."""
        return self._quorum.high_watermark

    @property
    def config(self) -> RaftConfig:
        return self._quorum.config

    @property
    def log(self) -> Log:
        return self._quorum.log

    @property
    def snapshots(self) -> Snapshots:
        return self._quorum.snapshots

    @property
    def has_handed_over(self) -> bool:
        """After resign: whether all voters know, or somebody else leads already."""
        role = self._quorum.role
        return not isinstance(role, Leader) and not (
            isinstance(role, Resigned) and role.resend.times
        )
