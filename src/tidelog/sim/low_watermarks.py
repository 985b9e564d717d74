"""An invariant of low watermarks: what DeleteRecords was answered with stays true."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.events import Received
from tidelog.replica.isr import Brokers
from tidelog.replica.partition import Partition
from tidelog.sim.fetches import Hosted
from tidelog.sim.violation import Violation
from tidelog.types import Offset
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.request import Request

Counted = dict[int, int | None]
"""The replicas that count, each with the broker epoch of its last fetch."""


class Mark(NamedTuple):
    """A low watermark, and what it depends on."""

    leader_epoch: int
    partition_epoch: int
    counted: Counted
    low_watermark: Offset


class LowWatermarks:
    """Within a leader epoch it falls if more replicas count than before, because they are back or
    new, or if one of them is another process than before: where a log starts is written to disk by
    and by, so that a machine may come back with some of what was deleted. Else it never does."""

    def __init__(self) -> None:
        self._marks: dict[Partition, Mark] = {}
        self._fetched: dict[str, None] = {}
        """Machines that somebody fetches from with the present step."""

    def received(self, machine: str, event: Received) -> None:
        request = event.request
        if isinstance(request, Request) and isinstance(request.message, FetchRequest):
            self._fetched[machine] = None

    def stepped(self, machine: str, hosted: Hosted, brokers: Brokers) -> None:
        if self._fetched.pop(machine, machine) is None:
            for partition in hosted.values():
                if partition.log.log_start_offset and partition.followers is not None:
                    self._check(machine, partition, brokers)

    def _check(self, machine: str, partition: Partition, brokers: Brokers) -> None:
        before = self._marks.get(partition)
        now = self._marks[partition] = self._mark(partition, brokers, before)
        if (
            before is not None
            and before.leader_epoch == now.leader_epoch
            and before.counted == now.counted
            and before.low_watermark > now.low_watermark
        ):
            raise Violation(
                "a low watermark falls for a reason",
                f"{partition} on {machine}: from {before} to {now}",
            )

    def _mark(self, partition: Partition, brokers: Brokers, before: Mark | None) -> Mark:
        assert partition.followers is not None
        # Nobody goes and comes again by one change: whoever has not fetched since is as it was.
        is_next = before is not None and partition.partition_epoch <= before.partition_epoch + 1
        known = before.counted if before is not None and is_next else {}
        counted = {
            broker_id: known.get(broker_id) if one.broker_epoch is None else one.broker_epoch
            for broker_id, one in partition.followers.remote.items()
            if brokers.is_alive(broker_id)
        }
        return Mark(
            partition.leader_epoch, partition.partition_epoch, counted, partition.low_watermark
        )
