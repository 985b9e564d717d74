"""Transactions made by hand, as long as there is no coordinator: batches and markers are appended
behind the broker's back, and its partition told."""

from __future__ import annotations

import struct

from tests.unit.node_client import Cluster

from tidelog.wire.batch import CONTROL, TRANSACTIONAL
from tidelog.wire.batch_builder import BatchBuilder

COMMIT, ABORT = 1, 0


def append(cluster: Cluster, batch: bytearray, topic: str = "t") -> None:
    partition = cluster.partition(topic)
    partition.log.append_built(batch, partition.leader_epoch, cluster.shell.now)
    partition.maybe_advance_high_watermark(cluster.shell.now)


def write(cluster: Cluster, producer_id: int, sequence: int, *values: bytes) -> None:
    """Records of a producer's open transaction."""
    batch = cluster.batch(
        *values,
        attributes=TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
    )
    append(cluster, bytearray(batch))


def end(cluster: Cluster, producer_id: int, how: int) -> None:
    """The marker that ends a transaction."""
    builder = BatchBuilder()
    builder.append(
        struct.pack(">hh", 0, how), struct.pack(">hi", 0, 0), timestamp=cluster.shell.now.wall_ms
    )
    batch = builder.build(
        attributes=TRANSACTIONAL | CONTROL, producer_id=producer_id, producer_epoch=0
    )
    append(cluster, batch)
