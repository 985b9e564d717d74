"""Chooses a record's partition as Java's producer does, so that both put a key in one place."""

from __future__ import annotations

from tidelog.wire.records_twin_assign import murmur2, partition_of_key

__all__ = ["murmur2", "partition_of_key"]
