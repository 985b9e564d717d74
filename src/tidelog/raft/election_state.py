"""`quorum-state`: what a node must not forget of an election, as one line of JSON.

Version 1 is that of a dynamic quorum, version 0 that of a static one, which knows no directories
and lists the voters.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from tidelog.env import Disk
from tidelog.log.checkpoint import MalformedFile
from tidelog.raft.types import NOBODY, ReplicaKey
from tidelog.types import ZERO_UUID, format_uuid, parse_uuid

QUORUM_STATE = "quorum-state"


class ElectionState(NamedTuple):
    """The epoch, who leads it as far as this node knows, and whom this node gave its vote."""

    epoch: int = 0
    leader_id: int = NOBODY
    voted: ReplicaKey | None = None


class StateFile(NamedTuple):
    """A work item: the file, replaced and durable."""

    path: str
    content: bytes

    def flush(self, disk: Disk) -> None:
        disk.replace(self.path, self.content)


def format_quorum_state(
    state: ElectionState, kraft_version: int, voter_ids: Iterable[int]
) -> bytes:
    """The file's content."""
    voted_id = NOBODY if state.voted is None else state.voted.id
    fields = {"leaderId": state.leader_id, "leaderEpoch": state.epoch, "votedId": voted_id}
    if kraft_version > 0:
        directory = ZERO_UUID if state.voted is None else state.voted.directory_id
        document = {**fields, "votedDirectoryId": format_uuid(directory), "data_version": 1}
    else:
        voters = [{"voterId": voter_id} for voter_id in voter_ids]
        rest = {"appliedOffset": 0, "currentVoters": voters, "data_version": 0}
        document = {"clusterId": "", **fields, **rest}
    return json.dumps(document, separators=(",", ":")).encode()


def parse_quorum_state(path: str, content: bytes | None) -> ElectionState:
    """What the file says; a missing one says that nothing has happened yet. Raises MalformedFile:
    a node that forgot its vote could give another."""
    if content is None:
        return ElectionState()
    try:
        document = json.loads(content)
        if document["data_version"] not in (0, 1):
            raise MalformedFile(path, f"version {document['data_version']}, want 0 or 1")
        voted_id = int(document.get("votedId", NOBODY))
        directory = document.get("votedDirectoryId")
        voted = ReplicaKey(voted_id, parse_uuid(directory) if directory else ZERO_UUID)
        return ElectionState(
            int(document["leaderEpoch"]),
            int(document["leaderId"]),
            voted if voted_id != NOBODY else None,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedFile(path, f"not a quorum state: {error!r}") from error
