"""Tells the controller in which log directories this broker has put its replicas.

Not while this broker knows that it is fenced: with its first word of being ready the controller
may elect it for partitions that it led last (KIP-966), and the directory that the metadata has for
them says whether it still has their records. Who began anew in another one would lead empty, and
the others would give up what they have. Apache Kafka 4.3.1 elects by the same rule, and waits
100 ms before it reports; most often, but not always, it is unfenced by then. Nor is it always here:
a report that reaches the controller after that has fenced its sender counts as an early one.
Afterwards the rule asks for the new directory: who begins anew leads when the next broker is
unfenced, or an operator wants it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.metadata.image import TopicPartition
from tidelog.types import Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages import assign_replicas_to_dirs as wire

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

PURPOSE = "directories"
PLACES_MAX = 2000
"""In one request."""
RETRY_MS = 1000


class DirectoryReports:
    """What is to be told; one request is on its way at a time."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._untold: dict[TopicPartition, Uuid] = {}
        self._is_asking = False

    def add(self, place: TopicPartition, directory_id: Uuid, now: Now) -> None:
        self._untold[place] = directory_id
        self.begin(now)

    def begin(self, now: Now) -> None:
        """As soon as this broker is unfenced, in a step of its own: there may be more to come."""
        if self._untold and not self._is_asking and not self._broker.lifecycle.is_fenced:
            self._is_asking = True
            self._broker.schedule.at(now.monotonic_ms, self._tell)

    def _tell(self, now: Now) -> None:
        broker = self._broker
        if broker.lifecycle.is_fenced:
            self._is_asking = False  # until it is not, again
            return
        told = dict(list(self._untold.items())[:PLACES_MAX])
        by_directory: dict[Uuid, dict[Uuid, list[int]]] = {}
        for place, directory_id in told.items():
            topics = by_directory.setdefault(directory_id, {})
            topics.setdefault(place.topic_id, []).append(place.partition)
        request = wire.AssignReplicasToDirsRequest(
            broker_id=broker.node_id,
            broker_epoch=broker.broker_epoch,
            directories=tuple(
                wire.DirectoryData(
                    id=directory_id,
                    topics=tuple(
                        wire.TopicData(
                            topic_id=topic_id,
                            partitions=tuple(
                                wire.PartitionData(partition_index=number) for number in numbers
                            ),
                        )
                        for topic_id, numbers in topics.items()
                    ),
                )
                for directory_id, topics in by_directory.items()
            ),
        )

        def answered(answer: Message | PeerFailure, now: Now) -> None:
            is_told = (
                isinstance(answer, wire.AssignReplicasToDirsResponse)
                and answer.error_code == ErrorCode.NONE
            )
            for place, directory_id in told.items() if is_told else ():
                if self._untold.get(place) == directory_id:
                    del self._untold[place]
            if self._untold:
                delay_ms = 0 if is_told else RETRY_MS
                broker.schedule.at(now.monotonic_ms + delay_ms, self._tell)
            else:
                self._is_asking = False

        broker.controller.ask(request, answered, now, purpose=PURPOSE)
