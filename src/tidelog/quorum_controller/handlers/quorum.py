"""What the nodes of the quorum ask each other, and what tools ask of it: raft answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.env import Now
from tidelog.raft.raft import Raft
from tidelog.runtime.alarm import NEVER
from tidelog.runtime.answers import Answer
from tidelog.runtime.purgatory import Delayed
from tidelog.wire.api import ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController

Told = Callable[[Message], None]
RaftMethod = Callable[[Raft], Callable[[Any, Now, Told], None]]

RAFT_METHODS: dict[int, RaftMethod] = {
    ApiKey.VOTE: lambda raft: raft.vote,
    ApiKey.BEGIN_QUORUM_EPOCH: lambda raft: raft.begin_quorum_epoch,
    ApiKey.END_QUORUM_EPOCH: lambda raft: raft.end_quorum_epoch,
    ApiKey.FETCH: lambda raft: raft.fetch,
    ApiKey.FETCH_SNAPSHOT: lambda raft: raft.fetch_snapshot,
    ApiKey.DESCRIBE_QUORUM: lambda raft: raft.describe_quorum,
    ApiKey.ADD_RAFT_VOTER: lambda raft: raft.add_voter,
    ApiKey.REMOVE_RAFT_VOTER: lambda raft: raft.remove_voter,
    ApiKey.UPDATE_RAFT_VOTER: lambda raft: raft.update_voter,
}


class QuorumAnswer(Delayed):
    """Raft ends every wait itself: after a long poll, an fsync, a commit."""

    waits_for_disk = True


def quorum(request: Request, controller: QuorumController, now: Now) -> Answer:
    delayed = QuorumAnswer(NEVER)
    handle = RAFT_METHODS[request.key](controller.metadata.raft)
    handle(
        request.message, now, lambda answer: controller.runtime.purgatory.complete(delayed, answer)
    )
    return delayed if delayed.answer is None else delayed.answer
