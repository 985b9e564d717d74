"""Which replica a consumer should read from (KIP-392): one of its own rack, if that has what it
asks for. `replica.selector.class` says whether leaders choose at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.replica.partition import Partition
from tidelog.types import Offset

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""Kafka's name for it. Any other class is one that we do not have: then the leader serves."""
NOBODY = -1


def preferred_replica(broker: Broker, partition: Partition, rack: str, offset: Offset) -> int:
    """NOBODY if the leader itself serves. Of several the one that has come furthest; of equals
    the one that fetched last, then the first."""
    followers = partition.followers
    if followers is None or broker.config.replica_selector_class != RACK_AWARE:
        return NOBODY
    if broker.config.broker_rack == rack:
        return NOBODY
    candidates = [
        replica
        for replica in followers.remote.values()
        if replica.broker_id in followers.committed
        and replica.log_start_offset <= offset <= replica.log_end_offset
        and broker.image.is_alive(replica.broker_id)
        and broker.image.brokers[replica.broker_id].rack == rack
    ]
    if not candidates:
        return NOBODY
    best = max(candidates, key=lambda one: (one.log_end_offset, one.last_caught_up_ms))
    return best.broker_id
