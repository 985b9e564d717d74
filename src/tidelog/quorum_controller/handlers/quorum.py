"""What the nodes of the quorum ask each other, and what tools ask of it: raft answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog.env import Now
from tidelog.raft.raft import Raft
from tidelog.runtime.alarm import NEVER
from tidelog.runtime.answers import Answer
from tidelog.runtime.purgatory import Delayed
from tidelog.types import ZERO_UUID
from tidelog.wire.api import ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.messages.describe_quorum import DescribeQuorumResponse, ReplicaState
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController

DIRECTORIES_SINCE = 2
"""The version of DescribeQuorum that tells voters' directories and addresses."""

ENDPOINTS_SINCE: dict[int, int] = {
    ApiKey.VOTE: 1,
    ApiKey.BEGIN_QUORUM_EPOCH: 1,
    ApiKey.END_QUORUM_EPOCH: 1,
    ApiKey.FETCH: 17,
    ApiKey.FETCH_SNAPSHOT: 1,
}
"""The versions whose answers say where the leader is: those of KIP-853. Nodes from before have all
addresses in their configuration."""

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

    def told(answer: Message) -> None:
        controller.runtime.purgatory.complete(delayed, of_version(answer, request))

    handle(request.message, now, told)
    return delayed if delayed.answer is None else delayed.answer


def of_version(answer: Message, request: Request) -> Message:
    """Without what the version of the request cannot carry: the message does not let it fall
    silently."""
    if isinstance(answer, DescribeQuorumResponse) and request.version < DIRECTORIES_SINCE:
        return without_directories(answer)
    if request.version < ENDPOINTS_SINCE.get(request.key, 0):
        return answer.replace(node_endpoints=())
    return answer


def without_directories(answer: DescribeQuorumResponse) -> DescribeQuorumResponse:
    """What clients of before KIP-853 know."""

    def known(replicas: tuple[ReplicaState, ...]) -> tuple[ReplicaState, ...]:
        return tuple(replica.replace(replica_directory_id=ZERO_UUID) for replica in replicas)

    topics = tuple(
        topic.replace(
            partitions=tuple(
                partition.replace(
                    current_voters=known(partition.current_voters),
                    observers=known(partition.observers),
                )
                for partition in topic.partitions
            )
        )
        for topic in answer.topics
    )
    return answer.replace(topics=topics, nodes=())
