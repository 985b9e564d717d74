"""What a controller writes when it becomes the active one, before anything else."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.metadata.format import bootstrap_transaction
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.cluster import AbortTransactionRecord
from tidelog.wire.declare import Message


def activation_records(
    image: MetadataImage, bootstrap: Sequence[Message], min_insync_replicas: int
) -> list[Message]:
    """A transaction that the one before left open is aborted; a new cluster gets its first
    records, be it for the second time."""
    records: list[Message] = []
    if image.before_transaction is not None:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if image.shown.metadata_version == 0:
        records += bootstrap_transaction(bootstrap, min_insync_replicas)
    return records
