"""Where a topic's partitions begin and end, asked while others write and read."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.cli.demo_clients import PARTITIONS, DemoFailed
from tidelog.client import Client
from tidelog.client.cluster import TopicPartition
from tidelog.client.offsets import DEBUGGER, EARLIEST, LATEST, list_offsets
from tidelog.types import Offset


class PartitionOffsets(NamedTuple):
    """log_start_offset ≤ high_watermark ≤ log_end_offset."""

    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset


def ask_offsets(client: Client, places: list[TopicPartition]) -> list[PartitionOffsets]:
    """Of each partition. The answers are of three moments, so the end is asked for last."""
    latest = dict.fromkeys(places, LATEST)
    start = client.run(list_offsets, dict.fromkeys(places, EARLIEST))
    watermark = client.run(list_offsets, latest)
    end = client.run(list_offsets, latest, replica_id=DEBUGGER)
    return [
        PartitionOffsets(start[place].offset, watermark[place].offset, end[place].offset)
        for place in places
    ]


def require_count(client: Client, topic: str, count: int) -> None:
    """A reader that stops at the last record it waits for sees none that is there behind it, as
    where the last batch of a partition was written twice."""
    offsets = ask_offsets(client, [TopicPartition(topic, index) for index in range(PARTITIONS)])
    found = sum(one.log_end_offset - one.log_start_offset for one in offsets)
    if found != count:
        raise DemoFailed(f"topic {topic} has {found:,} records, but {count:,} were written")
