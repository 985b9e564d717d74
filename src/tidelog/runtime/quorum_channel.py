"""How the quorum asks its other nodes."""

from __future__ import annotations

from tidelog.env import Now
from tidelog.raft.types import Address, Probed, Then
from tidelog.runtime.peers import Peers
from tidelog.wire.api import ApiKey
from tidelog.wire.declare import Message


class QuorumChannel:
    """A long poll has a connection of its own: a vote cannot wait for its answer."""

    def __init__(self, node_id: int, peers: Peers) -> None:
        self._client_id = f"raft-client-{node_id}"
        self._peers = peers

    def send(self, to: Address, request: Message, then: Then, now: Now, timeout_ms: int) -> None:
        purpose = "fetch" if request.API_KEY == ApiKey.FETCH else ""
        peer = self._peers.peer(to.host, to.port, self._client_id, purpose)
        peer.send(request, then, now, timeout_ms)

    def probe(self, to: Address, then: Probed, now: Now) -> None:
        self._peers.probe(to.host, to.port, then, now)
