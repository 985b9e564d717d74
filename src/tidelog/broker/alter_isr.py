"""Asks the controller for other ISRs (AlterPartition), for all partitions that this broker leads:
one request at a time, with all that has come up meanwhile."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.replica.isr import IsrChange
from tidelog.replica.isr_change import (
    is_under_way,
    isr_change_refused,
    isr_changed,
    maybe_shrink_isr,
)
from tidelog.replica.partition import Partition
from tidelog.slices import Slices
from tidelog.types import Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
    PartitionData,
    TopicData,
)

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

RETRY_MS = 50
PARTITIONS_MAX = 500
"""In one request: it is made, and its answer acted upon, in one step."""
SHRINK_COST = 3
"""Microseconds for a look at who lags (slices.py)."""

Changes = dict[Partition, IsrChange]


class AlterIsr:
    """Invariant: one request is under way at most. A change stays until its answer is known: a
    leader cannot go back, because the controller may have done it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: Changes = {}
        self._is_asking = False
        self._retry_ms: int | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self, now: Now) -> None:
        """Look again and again who lags."""
        interval_ms = max(1, self._broker.config.replica_lag_time_max_ms // 2)
        self._broker.schedule.every(interval_ms, now.monotonic_ms + interval_ms, self._look)

    def _look(self, now: Now) -> None:
        self._broker.jobs.add(self._shrink(now), now)

    def _shrink(self, now: Now) -> Slices[None]:
        hosting = self._broker.hosting
        for place, partition in list(hosting.by_id.items()):
            now = self._broker.jobs.fresh(now)
            if partition.followers is not None and hosting.by_id.get(place) is partition:
                change = maybe_shrink_isr(partition, now)
                if change is not None:
                    self.submit(partition, change, now)
                # A replica that is dead is not waited for.
                partition.low_watermark_awaited.reached(partition.low_watermark)
            yield SHRINK_COST

    def submit(self, partition: Partition, change: IsrChange, now: Now) -> None:
        """Ask for it, as soon as what was asked before is answered."""
        self._waiting[partition] = change
        if not self._is_asking and self._retry_ms is None:
            self._ask(now)

    def _ask(self, now: Now) -> None:
        asked: Changes = {}
        for partition, change in list(self._waiting.items()):
            if not is_under_way(partition, change):
                del self._waiting[partition]
            elif len(asked) < PARTITIONS_MAX:
                asked[partition] = change
        if asked:
            self._is_asking = True
            answered = partial(self._answered, asked)
            self._broker.controller.ask(self._request(asked), answered, now, purpose="isr")

    def _request(self, asked: Changes) -> AlterPartitionRequest:
        topics: dict[Uuid, list[PartitionData]] = {}
        for partition, change in asked.items():
            topics.setdefault(partition.topic_id, []).append(
                PartitionData(
                    partition_index=partition.index,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=self._members(change),
                    partition_epoch=change.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker.node_id,
            broker_epoch=self._broker.broker_epoch,
            topics=tuple(
                TopicData(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
        )

    def _members(self, change: IsrChange) -> tuple[BrokerState, ...]:
        node_id, own_epoch = self._broker.node_id, self._broker.broker_epoch
        return tuple(
            BrokerState(broker_id=member, broker_epoch=own_epoch if member == node_id else epoch)
            for member, epoch in zip(change.isr, change.broker_epochs, strict=True)
        )

    def _answered(self, asked: Changes, answer: Message | PeerFailure, now: Now) -> None:
        self._is_asking = False
        if not isinstance(answer, AlterPartitionResponse) or answer.error_code:
            self._ask_later(now)
            return
        answers = {
            (topic.topic_id, data.partition_index): data
            for topic in answer.topics
            for data in topic.partitions
        }
        is_left = False
        for partition, change in asked.items():
            data = answers.get((partition.topic_id, partition.index))
            if self._waiting.get(partition) is not change or not is_under_way(partition, change):
                continue  # the metadata was faster
            if data is None or self._settle(partition, data, now):
                is_left = True
            else:
                del self._waiting[partition]
        if is_left:
            self._ask_later(now)
        else:
            self._ask(now)

    def _settle(
        self, partition: Partition, data: AlterPartitionResponsePartitionData, now: Now
    ) -> bool:
        """Do as the controller says; whether it must be asked again."""
        if data.error_code:
            return isr_change_refused(partition, ErrorCode.of(data.error_code))
        isr_changed(partition, data.leader_epoch, data.partition_epoch, data.isr, now)
        return False

    def _ask_later(self, now: Now) -> None:
        self._retry_ms = now.monotonic_ms + RETRY_MS
        self._broker.schedule.at(self._retry_ms, self._retry)

    def _retry(self, now: Now) -> None:
        self._retry_ms = None
        if not self._is_asking:
            self._ask(now)
