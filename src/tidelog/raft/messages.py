"""Requests and answers of the quorum as they are on the wire. All are about one partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.env import FileSlice
from tidelog.errors import ErrorCode
from tidelog.log.log_dir import METADATA_TOPIC
from tidelog.metadata.snapshot import SnapshotId
from tidelog.raft.types import NOBODY, Address, ReplicaKey
from tidelog.types import METADATA_TOPIC_ID, Offset
from tidelog.wire.messages import (
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    update_raft_voter,
    vote,
)
from tidelog.wire.messages.control_records import Endpoint

FETCH_WAIT_MS = 500
"""How long the leader keeps a Fetch that it has nothing new for."""


class LeaderView(NamedTuple):
    """What a node says of the leader in its answers: who, in which epoch, and where."""

    leader_id: int
    epoch: int
    address: Address | None


def vote_request(
    cluster_id: str,
    voter: ReplicaKey,
    candidate: ReplicaKey,
    epoch: int,
    last: tuple[int, Offset],
    *,
    is_pre_vote: bool,
) -> vote.VoteRequest:
    """Asks a voter for its vote in an epoch. `last` is the epoch of the last record, and the log
    end offset."""
    partition = vote.PartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=candidate.id,
        replica_directory_id=candidate.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=last[0],
        last_offset=last[1],
        pre_vote=is_pre_vote,
    )
    topic = vote.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=(topic,))


def vote_response(error: ErrorCode, leader: LeaderView, *, is_granted: bool) -> vote.VoteResponse:
    partition = vote.VoteResponsePartitionData(
        partition_index=0,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
        vote_granted=is_granted,
    )
    topic = vote.VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    endpoints = tuple(
        vote.NodeEndpoint(node_id=node_id, host=host, port=port)
        for node_id, host, port in _known(leader)
    )
    return vote.VoteResponse(error_code=ErrorCode.NONE, topics=(topic,), node_endpoints=endpoints)


def begin_quorum_epoch_request(
    cluster_id: str, voter: ReplicaKey, leader_id: int, epoch: int, endpoints: Iterable[Endpoint]
) -> begin_quorum_epoch.BeginQuorumEpochRequest:
    """The leader makes itself known."""
    partition = begin_quorum_epoch.PartitionData(
        partition_index=0,
        voter_directory_id=voter.directory_id,
        leader_id=leader_id,
        leader_epoch=epoch,
    )
    topic = begin_quorum_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return begin_quorum_epoch.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=(topic,),
        leader_endpoints=tuple(
            begin_quorum_epoch.LeaderEndpoint(name=one.name, host=one.host, port=one.port)
            for one in endpoints
        ),
    )


def begin_quorum_epoch_response(
    error: ErrorCode, leader: LeaderView
) -> begin_quorum_epoch.BeginQuorumEpochResponse:
    partition = begin_quorum_epoch.BeginQuorumEpochResponsePartitionData(
        partition_index=0,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
    )
    topic = begin_quorum_epoch.BeginQuorumEpochResponseTopicData(
        topic_name=METADATA_TOPIC, partitions=(partition,)
    )
    endpoints = tuple(
        begin_quorum_epoch.NodeEndpoint(node_id=node_id, host=host, port=port)
        for node_id, host, port in _known(leader)
    )
    return begin_quorum_epoch.BeginQuorumEpochResponse(
        error_code=ErrorCode.NONE, topics=(topic,), node_endpoints=endpoints
    )


def end_quorum_epoch_request(
    cluster_id: str,
    leader_id: int,
    epoch: int,
    candidates: Iterable[ReplicaKey],
    endpoints: Iterable[Endpoint],
) -> end_quorum_epoch.EndQuorumEpochRequest:
    """The leader resigns, and says who should follow."""
    partition = end_quorum_epoch.PartitionData(
        partition_index=0,
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_candidates=tuple(
            end_quorum_epoch.ReplicaInfo(
                candidate_id=key.id, candidate_directory_id=key.directory_id
            )
            for key in candidates
        ),
    )
    topic = end_quorum_epoch.TopicData(topic_name=METADATA_TOPIC, partitions=(partition,))
    return end_quorum_epoch.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=(topic,),
        leader_endpoints=tuple(
            end_quorum_epoch.LeaderEndpoint(name=one.name, host=one.host, port=one.port)
            for one in endpoints
        ),
    )


def end_quorum_epoch_response(
    error: ErrorCode, leader: LeaderView
) -> end_quorum_epoch.EndQuorumEpochResponse:
    partition = end_quorum_epoch.EndQuorumEpochResponsePartitionData(
        partition_index=0,
        error_code=error,
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
    )
    topic = end_quorum_epoch.EndQuorumEpochResponseTopicData(
        topic_name=METADATA_TOPIC, partitions=(partition,)
    )
    endpoints = tuple(
        end_quorum_epoch.NodeEndpoint(node_id=node_id, host=host, port=port)
        for node_id, host, port in _known(leader)
    )
    return end_quorum_epoch.EndQuorumEpochResponse(
        error_code=ErrorCode.NONE, topics=(topic,), node_endpoints=endpoints
    )


def fetch_request(
    cluster_id: str,
    replica: ReplicaKey,
    epoch: int,
    last: tuple[int, Offset],
    high_watermark: Offset,
    bytes_max: int,
) -> fetch.FetchRequest:
    """Asks for what comes after `last`: the epoch of the last record, and the log end offset."""
    partition = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=last[1],
        last_fetched_epoch=last[0],
        log_start_offset=-1,
        partition_max_bytes=0,
        replica_directory_id=replica.directory_id,
        high_watermark=high_watermark,
    )
    topic = fetch.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=replica.id),
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=0,
        max_bytes=bytes_max,
        topics=(topic,),
    )


class Fetched(NamedTuple):
    """What an answer to Fetch says besides the leader."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: Offset = -1
    log_start_offset: Offset = -1
    diverging: tuple[int, Offset] | None = None
    """The greatest epoch not above the follower's that the leader has, and where it ends."""
    snapshot_id: SnapshotId | None = None
    records: FileSlice | bytes = b""


def fetch_response(fetched: Fetched, leader: LeaderView) -> fetch.FetchResponse:
    diverging, snapshot = fetched.diverging, fetched.snapshot_id
    partition = fetch.PartitionData(
        partition_index=0,
        error_code=fetched.error,
        high_watermark=fetched.high_watermark,
        last_stable_offset=-1,
        log_start_offset=fetched.log_start_offset,
        diverging_epoch=(
            fetch.EpochEndOffset()
            if diverging is None
            else fetch.EpochEndOffset(epoch=diverging[0], end_offset=diverging[1])
        ),
        current_leader=fetch.LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.epoch
        ),
        snapshot_id=(
            fetch.SnapshotId()
            if snapshot is None
            else fetch.SnapshotId(end_offset=snapshot.end_offset, epoch=snapshot.epoch)
        ),
        aborted_transactions=(),
        records=fetched.records,  # type: ignore[arg-type]  # a slice is sent as it lies there
    )
    topic = fetch.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=(partition,))
    endpoints = tuple(
        fetch.NodeEndpoint(node_id=node_id, host=host, port=port)
        for node_id, host, port in _known(leader)
    )
    return fetch.FetchResponse(responses=(topic,), node_endpoints=endpoints)


def fetch_snapshot_request(
    cluster_id: str,
    replica: ReplicaKey,
    epoch: int,
    snapshot_id: SnapshotId,
    position: int,
    bytes_max: int,
) -> fetch_snapshot.FetchSnapshotRequest:
    """Asks for the next piece of a snapshot."""
    partition = fetch_snapshot.PartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        position=position,
        replica_directory_id=replica.directory_id,
    )
    topic = fetch_snapshot.TopicSnapshot(name=METADATA_TOPIC, partitions=(partition,))
    return fetch_snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=replica.id, max_bytes=bytes_max, topics=(topic,)
    )


def fetch_snapshot_response(
    error: ErrorCode,
    leader: LeaderView,
    snapshot_id: SnapshotId,
    *,
    size: int = 0,
    position: int = 0,
    records: FileSlice | bytes = b"",
) -> fetch_snapshot.FetchSnapshotResponse:
    partition = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        index=0,
        error_code=error,
        snapshot_id=fetch_snapshot.FetchSnapshotResponseSnapshotId(
            end_offset=snapshot_id.end_offset, epoch=snapshot_id.epoch
        ),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(
            leader_id=leader.leader_id, leader_epoch=leader.epoch
        ),
        size=size,
        position=position,
        unaligned_records=records,  # type: ignore[arg-type]  # a slice is sent as it lies there
    )
    topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(
        name=METADATA_TOPIC, partitions=(partition,)
    )
    endpoints = tuple(
        fetch_snapshot.NodeEndpoint(node_id=node_id, host=host, port=port)
        for node_id, host, port in _known(leader)
    )
    return fetch_snapshot.FetchSnapshotResponse(
        error_code=ErrorCode.NONE, topics=(topic,), node_endpoints=endpoints
    )


def update_voter_response(
    error: ErrorCode, leader: LeaderView
) -> update_raft_voter.UpdateRaftVoterResponse:
    host, port = leader.address or Address("", -1)
    return update_raft_voter.UpdateRaftVoterResponse(
        error_code=error,
        current_leader=update_raft_voter.CurrentLeader(
            leader_id=leader.leader_id, leader_epoch=leader.epoch, host=host, port=port
        ),
    )


def _known(leader: LeaderView) -> Iterable[tuple[int, str, int]]:
    """A leader's endpoint is told only by who knows it."""
    if leader.leader_id != NOBODY and leader.address is not None:
        yield leader.leader_id, leader.address.host, leader.address.port
