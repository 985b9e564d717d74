"""Invariant of fetches, of followers and consumers: who asks by another epoch gets no records."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.events import ConnectionId, Received
from tidelog.replica.partition import Partition
from tidelog.sim.replicas import require
from tidelog.types import Uuid
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.request import Request, decode_response

Hosted = Mapping[tuple[Uuid, int], Partition]
Asked = dict[tuple[Uuid, int], int]
"""The leader epochs that a request names, where they are not those of who got it."""


class FetchInvariants:
    """A leader that takes a late fetch for one of its epoch believes in records that the follower
    has given up since; a reader of another epoch may get records that are none."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, ConnectionId, int], tuple[Request, Asked]] = {}
        """Requests that must be refused in part."""

    def received(self, machine: str, hosted: Hosted, event: Received) -> None:
        request = event.request
        if not isinstance(request, Request) or not isinstance(request.message, FetchRequest):
            return
        asked = Asked()
        for topic in request.message.topics:
            for one in topic.partitions:
                place, epoch = (topic.topic_id, one.partition), one.current_leader_epoch
                partition = hosted.get(place)
                if partition is not None and epoch not in (-1, partition.leader_epoch):
                    asked[place] = epoch
        if asked:
            self._asked[machine, event.connection, request.correlation_id] = request, asked

    def sent(self, machine: str, hosted: Hosted, connection: ConnectionId, frame: bytes) -> None:
        if connection < 0 or not self._asked:
            return
        key = machine, connection, int.from_bytes(frame[4:8], "big")
        request, asked = self._asked.pop(key, (None, Asked()))
        if request is None:
            return
        answer = decode_response(
            memoryview(frame)[4:], request.key, request.version, request.correlation_id
        )
        assert isinstance(answer, FetchResponse)
        for topic in answer.responses:
            for one in topic.partitions:
                place = topic.topic_id, one.partition_index
                partition = hosted.get(place)
                if place in asked and partition is not None and not one.error_code:
                    # Who knew more when it asked may be right by now.
                    require(
                        asked[place] == partition.leader_epoch,
                        "who fetches by another epoch is refused",
                        lambda place=place, partition=partition: (  # type: ignore[misc]
                            f"{machine}: {partition} of epoch {partition.leader_epoch} is read by"
                            f" epoch {asked[place]}"
                        ),
                    )

    def ended(self, machine: str) -> None:
        for key in [key for key in self._asked if key[0] == machine]:
            del self._asked[key]
