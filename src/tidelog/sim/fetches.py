"""Invariants of fetches, of followers and consumers: who asks by another epoch gets no records, nor
does a process that is gone; and who waits for records gets them when they are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.broker.fetch_session import FetchedPartition
from tidelog.events import ConnectionId, Received
from tidelog.replica.isr import Brokers, RemoteReplica
from tidelog.replica.partition import Partition
from tidelog.sim.counters import Counters
from tidelog.sim.violation import Violation
from tidelog.types import Offset, Uuid
from tidelog.wire.messages.fetch import FetchRequest, FetchResponse
from tidelog.wire.request import Request, decode_response

Hosted = Mapping[tuple[Uuid, int], Partition]
Asked = dict[tuple[Uuid, int], int]
"""The leader epochs that a request names, where they are not those of who got it."""


class Believed(NamedTuple):
    """What a leader knows of a follower, by its fetches."""

    partition: Partition
    replica: RemoteReplica
    leader_epoch: int
    broker_epoch: int | None
    log_end_offset: Offset
    last_fetch_ms: int

    @classmethod
    def of(cls, partition: Partition, one: RemoteReplica) -> Believed:
        fetched = one.broker_epoch, one.log_end_offset, one.last_fetch_ms
        return cls(partition, one, partition.leader_epoch, *fetched)


class FetchInvariants:
    """A leader that takes a late fetch for one of its epoch believes in records that the follower
    has given up since; a reader of another epoch may get records that are none."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._asked: dict[tuple[str, ConnectionId, int], tuple[Request, Asked]] = {}
        """Requests that must be refused in part."""
        self._late: dict[tuple[str, ConnectionId, int], Request] = {}
        """Those of processes that others have replaced, which must be refused altogether."""
        self._believed: list[Believed] = []
        """Of followers, before the present step, in which one of those comes."""

    def received(self, machine: str, hosted: Hosted, brokers: Brokers, event: Received) -> None:
        request = event.request
        if not isinstance(request, Request) or not isinstance(request.message, FetchRequest):
            return
        replica = request.message.replica_state
        if -1 < replica.replica_epoch < brokers.broker_epoch(replica.replica_id):
            self._late[machine, event.connection, request.correlation_id] = request
            self._counters.reached("a fetch came late from a process that was gone")
            self._believed = [
                Believed.of(partition, partition.followers.remote[replica.replica_id])
                for partition in hosted.values()
                if partition.followers is not None
                and replica.replica_id in partition.followers.remote
            ]
        asked = Asked()
        for topic in request.message.topics:
            for one in topic.partitions:
                place, epoch = (topic.topic_id, one.partition), one.current_leader_epoch
                partition = hosted.get(place)
                if partition is not None and epoch not in (-1, partition.leader_epoch):
                    asked[place] = epoch
        if asked:
            self._asked[machine, event.connection, request.correlation_id] = request, asked

    def stepped(self, machine: str) -> None:
        """Nobody believes what a process says that is gone: answers alone do not show that, for one
        without news names no partition."""
        believed, self._believed = self._believed, []
        for before in believed:
            now = Believed.of(before.partition, before.replica)
            if now != before and now.leader_epoch == before.leader_epoch:
                raise Violation(
                    "who fetches for a process that is gone is refused",
                    f"{machine}: of {before.partition} it believed {before[2:]}, now {now[2:]}",
                )

    def sent(self, machine: str, hosted: Hosted, connection: ConnectionId, frame: bytes) -> None:
        if connection < 0 or not (self._asked or self._late):
            return
        key = machine, connection, int.from_bytes(frame[4:8], "big")
        late = self._late.pop(key, None)
        request, asked = self._asked.pop(key, (late, Asked()))
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
                if late is not None and not one.error_code:
                    raise Violation(
                        "who fetches for a process that is gone is refused",
                        f"{machine}: {partition} is read by {late.message}",
                    )
                if place not in asked or partition is None or one.error_code:
                    continue
                # Who knew more when it asked may be right by now.
                if asked[place] != partition.leader_epoch:
                    raise Violation(
                        "who fetches by another epoch is refused",
                        f"{machine}: {partition} of epoch {partition.leader_epoch} is read by"
                        f" epoch {asked[place]}",
                    )

    def check_told(self, machine: str, grown: Iterable[Partition]) -> None:
        """After a step that is not one of those whose answers wait for the end of a turn: no
        follower's long poll waits for what these logs have. Its time would run out some day, so
        nothing else would fail but the time that acks=all takes."""
        for partition in grown:
            end_offset = partition.log.log_end_offset
            for watcher in partition.replica_watchers if partition.is_leader else ():
                assert isinstance(watcher, FetchedPartition)
                if watcher.session.waiting is not None and watcher.fetch_offset < end_offset:
                    raise Violation(
                        "a follower that waits gets what is there",
                        f"{machine}: replica {watcher.session.replica.replica_id} waits for"
                        f" {partition} at {watcher.fetch_offset}, which ends at {end_offset}",
                    )

    def ended(self, machine: str) -> None:
        for key in [key for key in (*self._asked, *self._late) if key[0] == machine]:
            self._asked.pop(key, None)
            self._late.pop(key, None)
