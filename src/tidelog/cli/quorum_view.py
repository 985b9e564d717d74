"""How `tidelog quorum describe` shows a quorum: Kafka's lines, Kafka's table, or JSON."""

from __future__ import annotations

import json

from tidelog.client.quorum import DescribedQuorum, QuorumReplica
from tidelog.types import ZERO_UUID, format_uuid

NAME_WIDTH = 24
TITLES = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


def status(quorum: DescribedQuorum) -> str:
    """The quorum in eight lines."""
    leader = _leader(quorum)
    last = min(quorum.voters, key=lambda voter: voter.log_end_offset, default=leader)
    lag_ms = 0
    if last is not leader:
        known = leader.last_caught_up_ms >= 0 and last.last_caught_up_ms >= 0
        lag_ms = leader.last_caught_up_ms - last.last_caught_up_ms if known else -1
    fields = {
        "ClusterId": quorum.cluster_id,
        "LeaderId": quorum.leader_id,
        "LeaderEpoch": quorum.leader_epoch,
        "HighWatermark": quorum.high_watermark,
        "MaxFollowerLag": leader.log_end_offset - last.log_end_offset,
        "MaxFollowerLagTimeMs": lag_ms,
        "CurrentVoters": json.dumps([_named(quorum, voter) for voter in quorum.voters]),
        "CurrentObservers": json.dumps([_named(quorum, one) for one in quorum.observers]),
    }
    return "\n".join(f"{name + ':':{NAME_WIDTH}}{value}" for name, value in fields.items())


def _leader(quorum: DescribedQuorum) -> QuorumReplica:
    """A leader that no longer votes describes the quorum all the same."""
    everybody = (*quorum.voters, *quorum.observers)
    nobody = QuorumReplica(quorum.leader_id, ZERO_UUID, quorum.high_watermark, -1, -1)
    return next((one for one in everybody if one.node_id == quorum.leader_id), nobody)


def _named(quorum: DescribedQuorum, replica: QuorumReplica) -> dict[str, object]:
    """What is known of who it is, and where."""
    named: dict[str, object] = {"id": replica.node_id}
    if replica.directory_id != ZERO_UUID:
        named["directoryId"] = format_uuid(replica.directory_id)
    if replica.node_id in quorum.endpoints:
        named["endpoints"] = [str(one) for one in quorum.endpoints[replica.node_id]]
    return named


def rows(quorum: DescribedQuorum) -> list[tuple[QuorumReplica, int, str]]:
    """Each node with its lag and its role: the leader, the voters, the observers."""
    leader = _leader(quorum)
    followers = [one for one in quorum.voters if one.node_id != leader.node_id]
    observers = [one for one in quorum.observers if one.node_id != leader.node_id]
    ranked = [(leader, "Leader")]
    ranked += [(one, "Follower") for one in followers] + [(one, "Observer") for one in observers]
    return [(one, leader.log_end_offset - one.log_end_offset, role) for one, role in ranked]


def replication(quorum: DescribedQuorum, now_ms: int | None) -> str:
    """A table; with the time of now, times are as long ago as they are."""

    def when(time_ms: int) -> str:
        return str(time_ms) if now_ms is None or time_ms < 0 else f"{now_ms - time_ms} ms ago"

    cells = [
        (
            str(one.node_id),
            format_uuid(one.directory_id),
            str(one.log_end_offset),
            str(lag),
            when(one.last_fetch_ms),
            when(one.last_caught_up_ms),
            role,
        )
        for one, lag, role in rows(quorum)
    ]
    widths = [max(map(len, column)) for column in zip(TITLES, *cells, strict=True)]
    lines = (
        "".join(f"{cell:{width}}\t" for cell, width in zip(row, widths, strict=True))
        for row in (TITLES, *cells)
    )
    return "\n".join(lines)


def as_json(quorum: DescribedQuorum) -> str:
    content = {
        "cluster_id": quorum.cluster_id,
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "nodes": [
            {
                "id": one.node_id,
                "directory_id": format_uuid(one.directory_id),
                "role": role.lower(),
                "log_end_offset": one.log_end_offset,
                "lag": lag,
                "last_fetch_ms": one.last_fetch_ms,
                "last_caught_up_ms": one.last_caught_up_ms,
                "endpoints": [str(point) for point in quorum.endpoints.get(one.node_id, ())],
            }
            for one, lag, role in rows(quorum)
        ],
    }
    return json.dumps(content, indent=2)
