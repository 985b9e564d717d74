"""How a node gets the log: it finds the leader, fetches from it, and cuts off what diverges.

A voter's fetch says what it has on disk, so that it leaves only after the flush of all before.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from tidelog.env import Now
from tidelog.errors import PeerFailure
from tidelog.metadata.snapshot import SnapshotId
from tidelog.raft.appending import Appending
from tidelog.raft.elections import Elections
from tidelog.raft.gate import DISK_FULL_RETRY_MS
from tidelog.raft.messages import fetch_request
from tidelog.raft.quorum import Quorum
from tidelog.raft.roles import Election, Follower, Leader, Unattached, backoff
from tidelog.raft.serving import end_offset_for
from tidelog.raft.snapshot_download import SnapshotDownload
from tidelog.raft.types import NEVER, Address
from tidelog.raft.validation import heed
from tidelog.types import Offset
from tidelog.wire.declare import Message


class Server:
    """A node that may know the leader, or be it."""

    __slots__ = ("address", "failures", "is_asked", "retry_ms")

    def __init__(self, address: Address) -> None:
        self.address = address
        self.is_asked = False
        self.retry_ms = 0
        self.failures = 0

    def failed(self, now: Now, backoff_ms: int) -> None:
        self.failures += 1
        self.retry_ms = now.monotonic_ms + backoff(backoff_ms, self.failures)


class Sent(NamedTuple):
    """What a fetch said; its answer counts as long as that is still so."""

    epoch: int
    last: tuple[int, Offset]


class Following:
    """A part of raft."""

    def __init__(self, quorum: Quorum, elections: Elections) -> None:
        self._quorum = quorum
        self._elections = elections
        self._servers: dict[Address, Server] = {}
        self._next_server = quorum.rng.randrange(1 << 16)
        self.download = SnapshotDownload(quorum, self.succeeded)
        self.appending = Appending(quorum)
        elections.when_heard = self.reachable
        elections.when_doubted = self._probe_leader

    @property
    def next_deadline_ms(self) -> int:
        if not self._may_ask():
            return NEVER
        times = [one.retry_ms for one in self._wanted() if not one.is_asked]
        return max(min(times, default=NEVER), self.appending.pause_until_ms)

    def work(self, now: Now) -> bool:
        """Ask whom there is to ask."""
        if not self._may_ask() or now.monotonic_ms < self.appending.pause_until_ms:
            return False
        has_asked = False
        for server in self._wanted():
            if not server.is_asked and server.retry_ms <= now.monotonic_ms:
                self._ask(server, now)
                has_asked = True
        return has_asked

    def _may_ask(self) -> bool:
        quorum = self._quorum
        if isinstance(quorum.role, Leader) or not quorum.gate.is_open:
            return False
        if self.download.is_busy or self.appending.is_busy:
            return False
        return quorum.is_log_durable or not (quorum.config.is_controller or quorum.has_cut)

    def _wanted(self) -> list[Server]:
        """A follower asks its leader, and others too while that does not answer. Who has no
        leader asks all voters if it is one, so as to know whom it reaches; else one at a time."""
        quorum, role = self._quorum, self._quorum.role
        if isinstance(role, Follower):
            assert quorum.leader_address is not None
            leader = self._server(quorum.leader_address)
            return [leader, *self._known(but=leader)] if leader.failures else [leader]
        if isinstance(role, Unattached) or (isinstance(role, Election) and role.is_pre_vote):
            return self._known()
        return []

    def _known(self, but: Server | None = None) -> list[Server]:
        quorum = self._quorum
        known = [quorum.address_of(voter_id) for voter_id in quorum.others]
        if not quorum.is_voter:
            known = [*quorum.config.bootstrap_servers, *known]
        own = {Address(one.host, one.port) for one in quorum.config.endpoints}
        servers = [
            self._server(address)
            for address in dict.fromkeys(known)
            if address is not None and address not in own
        ]
        servers = [server for server in servers if server is not but]
        if quorum.is_voter or not servers:
            return servers
        asked = [server for server in servers if server.is_asked]
        return asked or [servers[self._next_server % len(servers)]]

    def _server(self, address: Address) -> Server:
        server = self._servers.get(address)
        if server is None:
            server = self._servers[address] = Server(address)
        return server

    def reachable(self, voter_id: int, now: Now) -> None:
        """A voter was heard of: no need to wait before it is asked."""
        address = self._quorum.address_of(voter_id) if voter_id in self._quorum.voters else None
        server = self._servers.get(address) if address is not None else None
        if server is not None and server.failures:
            server.failures = 0
            server.retry_ms = min(server.retry_ms, now.monotonic_ms)

    def _ask(self, server: Server, now: Now) -> None:
        quorum = self._quorum
        server.is_asked = True
        sent = Sent(quorum.epoch, quorum.last)
        request = fetch_request(
            quorum.cluster_id,
            quorum.key,
            sent.epoch,
            sent.last,
            quorum.high_watermark or -1,
            quorum.config.fetch_bytes_max,
        )
        then = partial(self._answered, server, sent)
        timeout_ms = quorum.config.request_timeout_ms
        quorum.channel.send(server.address, request, then, now, timeout_ms)

    def _answered(
        self, server: Server, sent: Sent, response: Message | PeerFailure, now: Now
    ) -> None:
        quorum = self._quorum
        server.is_asked = False
        self._next_server += 1
        if isinstance(response, PeerFailure):
            server.failed(now, quorum.config.retry_backoff_ms)
            self._suspect(server, response, now)
        else:
            known = quorum.state
            partition = heed(quorum, response, now)
            for voter_id in quorum.others:
                if quorum.address_of(voter_id) == server.address:
                    self._elections.heard(voter_id, now)
            if partition is not None and self._counts(server, sent):
                server.failures = 0
                self._take(server, partition, now)
            elif quorum.state == known:  # it had nothing to say
                server.failed(now, quorum.config.retry_backoff_ms)
        quorum.settle(now)

    def _counts(self, server: Server, sent: Sent) -> bool:
        """Whether it is the leader's answer to what is still the question."""
        quorum = self._quorum
        is_leader = isinstance(quorum.role, Follower) and server.address == quorum.leader_address
        is_same = sent == Sent(quorum.epoch, quorum.last)
        return is_leader and is_same and not self.download.is_busy and not self.appending.is_busy

    def _suspect(self, server: Server, failure: PeerFailure, now: Now) -> None:
        """The leader did not answer: ask its machine whether it is still there."""
        quorum, role = self._quorum, self._quorum.role
        if not isinstance(role, Follower) or server.address != quorum.leader_address:
            return
        if failure is PeerFailure.REFUSED:
            self._elections.leader_is_gone(now)
        elif failure is PeerFailure.LOST:
            self._probe_leader(now)

    def _probe_leader(self, now: Now) -> None:
        quorum, role = self._quorum, self._quorum.role

        def probed(was_refused: bool, now: Now) -> None:
            if was_refused and role is quorum.role:
                self._elections.leader_is_gone(now)
                quorum.settle(now)

        if isinstance(role, Follower) and quorum.leader_address is not None:
            quorum.channel.probe(quorum.leader_address, probed, now)

    # What the leader says.

    def _take(self, server: Server, partition: Any, now: Now) -> None:
        self.succeeded(now)
        diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
        if diverging.epoch >= 0 and diverging.end_offset >= 0:
            self._truncate(diverging.epoch, diverging.end_offset)
        elif snapshot.epoch >= 0 and snapshot.end_offset >= 0:
            snapshot_id = SnapshotId(snapshot.end_offset, snapshot.epoch)
            if not self.download.begin(snapshot_id, now):
                server.retry_ms = now.monotonic_ms + DISK_FULL_RETRY_MS
        else:
            records = memoryview(partition.records or b"")
            self.appending.begin(records, partition.high_watermark, now)

    def succeeded(self, now: Now) -> None:
        """The leader answered."""
        quorum, role = self._quorum, self._quorum.role
        assert isinstance(role, Follower)
        role.has_fetched, role.leader_is_gone = True, False
        role.deadline_ms = quorum.fetch_deadline_ms(quorum.leader_id, now)
        self._elections.has_leader()

    def _truncate(self, epoch: int, end_offset: Offset) -> None:
        """To the last place where both logs may be equal; the next fetch asks again."""
        quorum = self._quorum
        end = quorum.log.log_end_offset
        own_epoch, own_end = end_offset_for(quorum, epoch)
        if epoch == 0:
            target = min(end_offset, end)
        else:
            target = min(own_end, end_offset) if own_epoch == epoch else own_end
        if target < quorum.high_watermark:
            quorum.listener.failed(
                f"the leader's log ends epoch {epoch} at offset {end_offset}, and this node has"
                f" records as committed up to {quorum.high_watermark}"
            )
            return
        quorum.truncate_to(target)
