"""What we say is what Apache Kafka's nodes say: each captured frame of the quorum is built again
from what it is about."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tidelog.env import FileSlice
from tidelog.errors import ErrorCode
from tidelog.metadata.snapshot import SnapshotId
from tidelog.raft import messages
from tidelog.raft.messages import Fetched, LeaderView
from tidelog.raft.types import Address, ReplicaKey
from tidelog.raft.validation import endpoint_in, only_partition
from tidelog.types import METADATA_TOPIC_ID
from tidelog.wire.api import ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.messages.control_records import Endpoint
from tidelog.wire.request import decode_any, decode_response

FRAMES = Path(__file__).parents[2] / "data" / "frames.jsonl"
APIS = ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot", "UpdateRaftVoter")


def captured() -> list[tuple[str, Message]]:
    """Frames of the quorum, decoded."""
    found = []
    for line in FRAMES.read_text().splitlines():
        frame = json.loads(line)
        if frame["api"] not in APIS:
            continue
        data, key, version = memoryview(bytes.fromhex(frame["hex"])), frame["key"], frame["version"]
        if frame["kind"] == "request":
            message = decode_any(data, {key: (0, version)}).message
        else:
            message = decode_response(data, key, version, frame["corr"])
        if frame["api"] == "Fetch" and not is_metadata(message):
            continue
        found.append((f"{frame['id']} {frame['api']} {frame['kind']}", message))
    return found


def is_metadata(message: Any) -> bool:
    topics = getattr(message, "topics", None) or getattr(message, "responses", ())
    return any(topic.topic_id == METADATA_TOPIC_ID for topic in topics)


CAPTURED = captured()


def view(message: Any, leader: Any) -> LeaderView:
    where = endpoint_in(message.node_endpoints, leader.leader_id)
    return LeaderView(leader.leader_id, leader.leader_epoch, where)


def endpoints(listed: Any) -> list[Endpoint]:
    return [Endpoint(name=one.name, host=one.host, port=one.port) for one in listed]


def built_request(message: Any, told: Any) -> Message | None:
    match message.API_KEY:
        case ApiKey.VOTE:
            return messages.vote_request(
                message.cluster_id,
                ReplicaKey(message.voter_id, told.voter_directory_id),
                ReplicaKey(told.replica_id, told.replica_directory_id),
                told.replica_epoch,
                (told.last_offset_epoch, told.last_offset),
                is_pre_vote=told.pre_vote,
            )
        case ApiKey.BEGIN_QUORUM_EPOCH:
            return messages.begin_quorum_epoch_request(
                message.cluster_id,
                ReplicaKey(message.voter_id, told.voter_directory_id),
                told.leader_id,
                told.leader_epoch,
                endpoints(message.leader_endpoints),
            )
        case ApiKey.END_QUORUM_EPOCH:
            candidates = [
                ReplicaKey(one.candidate_id, one.candidate_directory_id)
                for one in told.preferred_candidates
            ]
            return messages.end_quorum_epoch_request(
                message.cluster_id,
                told.leader_id,
                told.leader_epoch,
                candidates,
                endpoints(message.leader_endpoints),
            )
        case ApiKey.FETCH:
            return messages.fetch_request(
                message.cluster_id,
                ReplicaKey(message.replica_state.replica_id, told.replica_directory_id),
                told.current_leader_epoch,
                (told.last_fetched_epoch, told.fetch_offset),
                told.high_watermark,
                message.max_bytes,
            )
        case ApiKey.FETCH_SNAPSHOT:
            return messages.fetch_snapshot_request(
                message.cluster_id,
                ReplicaKey(message.replica_id, told.replica_directory_id),
                told.current_leader_epoch,
                SnapshotId(told.snapshot_id.end_offset, told.snapshot_id.epoch),
                told.position,
                message.max_bytes,
            )
    return None


def built_response(message: Any, told: Any) -> Message | None:
    match message.API_KEY:
        case ApiKey.VOTE:
            return messages.vote_response(
                told.error_code, view(message, told), is_granted=told.vote_granted
            )
        case ApiKey.BEGIN_QUORUM_EPOCH:
            return messages.begin_quorum_epoch_response(told.error_code, view(message, told))
        case ApiKey.END_QUORUM_EPOCH:
            return messages.end_quorum_epoch_response(told.error_code, view(message, told))
        case ApiKey.FETCH:
            diverging, snapshot = told.diverging_epoch, told.snapshot_id
            fetched = Fetched(
                ErrorCode(told.error_code),
                told.high_watermark,
                told.log_start_offset,
                (diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 else None,
                SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.epoch >= 0 else None,
                bytes(told.records),
            )
            return messages.fetch_response(fetched, view(message, told.current_leader))
        case ApiKey.FETCH_SNAPSHOT:
            return messages.fetch_snapshot_response(
                told.error_code,
                view(message, told.current_leader),
                SnapshotId(told.snapshot_id.end_offset, told.snapshot_id.epoch),
                size=told.size,
                position=told.position,
                records=bytes(told.unaligned_records),
            )
    return None


@pytest.mark.parametrize(("name", "message"), CAPTURED, ids=[name for name, _ in CAPTURED])
def test_a_captured_frame_is_built_again(name: str, message: Any):
    if message.API_KEY == ApiKey.UPDATE_RAFT_VOTER:
        if name.endswith("response"):
            leader = message.current_leader
            where = Address(leader.host, leader.port)
            told = LeaderView(leader.leader_id, leader.leader_epoch, where)
            assert messages.update_voter_response(message.error_code, told) == message
        return
    told = only_partition(message)
    if told is None:  # a refusal of the whole request
        assert message.error_code != 0
        return
    build = built_request if name.endswith("request") else built_response
    assert build(message, told) == message


def test_the_frames_are_there():
    counts = Counter(" ".join(name.split()[1:]) for name, _ in CAPTURED)
    assert counts["Vote request"] == 18
    assert counts["Fetch response"] > 30
    assert min(counts.values()) >= 2


def test_a_slice_of_a_file_is_told_as_it_is():
    piece = FileSlice(None, 5, 7)  # type: ignore[arg-type]
    answer: Any = messages.fetch_response(Fetched(records=piece), LeaderView(1, 1, None))
    assert only_partition(answer).records is piece
