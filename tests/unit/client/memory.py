"""Brokers in memory, and a shell that runs operations on them: real bytes, virtual time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.client import Address, ClientSettings, ConnectionFailed, TimedOut
from tidelog.client.cluster import Cluster
from tidelog.client.connection import BrokerConnection
from tidelog.client.errors import ClientError
from tidelog.client.steps import Abandon, Ask, Finish, Pause, Start
from tidelog.runtime.handlers.api_versions import refuse_version
from tidelog.slices import finish
from tidelog.types import Uuid
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.frame import FrameReader
from tidelog.wire.large import decode_large
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.request import (
    Request,
    Undecoded,
    UnknownVersion,
    decode_any,
    encode_response,
)

PIECE = 7
"""Bytes arrive in pieces of this size."""

SILENT = object()
"""A handler's answer: none, for ever."""
HANG_UP = object()
"""A handler's answer: the connection is closed."""

ALL_VERSIONS = {int(key): api.versions for key, api in APIS.items()}


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"."))


class MemoryBroker:
    """Answers requests by key: a handler is called with the request's message."""

    def __init__(self, address: Address, served: dict[int, tuple[int, int]] | None = None) -> None:
        self.address = address
        self.served = dict(ALL_VERSIONS if served is None else served)
        self.requests: list[Request] = []
        self.handlers: dict[int, Callable[[Any], Any]] = {
            ApiKey.API_VERSIONS: self._versions,
        }

    def answer(self, data: bytes) -> list[bytes | object]:
        """What the broker sends back for these bytes, which are whole frames."""
        frames = FrameReader()
        answers: list[bytes | object] = []
        while data:
            room = frames.buffer()
            piece, data = data[: len(room)], data[len(room) :]
            room[: len(piece)] = piece
            for frame in frames.received(len(piece)):
                answers.append(self._answer(memoryview(bytes(frame))))
        return answers

    def asked(self, key: int) -> list[Any]:
        """The requests of this API, in order."""
        return [request.message for request in self.requests if request.key == key]

    def _answer(self, frame: memoryview) -> bytes | object:
        request = decode_any(frame, self.served)
        if isinstance(request.message, Undecoded):
            request = finish(decode_large(request))
        if isinstance(request.message, UnknownVersion):
            return b"".join(encode_response(request, refuse_version(self.served)))
        self.requests.append(request)
        message = self.handlers[request.key](request.message)
        if isinstance(message, Message):
            return b"".join(encode_response(request, message))
        return message

    def _versions(self, _: Message) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            error_code=0,
            api_keys=tuple(
                ApiVersion(api_key=key, min_version=first, max_version=last)
                for key, (first, last) in self.served.items()
            ),
        )


class MemoryCluster:
    """Brokers 1 to n, and topics whose leaders a test moves at will."""

    def __init__(self, brokers: int = 2, **served: Any) -> None:
        self.brokers = {
            node_id: MemoryBroker(Address("broker", node_id), **served)
            for node_id in range(1, brokers + 1)
        }
        self.alive = set(self.brokers)
        self.leaders: dict[str, dict[int, tuple[int, int]]] = {}
        """Of each topic's partitions, the leader and its epoch."""
        for broker in self.brokers.values():
            broker.handlers[ApiKey.METADATA] = self.metadata

    def metadata(self, request: Any) -> MetadataResponse:
        wanted = None if request.topics is None else [topic.name for topic in request.topics]
        names = sorted(self.leaders) if wanted is None else wanted
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(
                    node_id=node_id, host=broker.address.host, port=broker.address.port
                )
                for node_id, broker in self.brokers.items()
                if node_id in self.alive
            ),
            cluster_id="memory",
            controller_id=min(self.alive, default=-1),
            topics=tuple(self._topic(name) for name in names),
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.leaders:
            return MetadataResponseTopic(error_code=3, name=name, partitions=())
        return MetadataResponseTopic(
            error_code=0,
            name=name,
            topic_id=topic_id(name),
            partitions=tuple(
                MetadataResponsePartition(
                    error_code=0 if leader >= 0 else 5,
                    partition_index=index,
                    leader_id=leader,
                    leader_epoch=epoch,
                    replica_nodes=(1,),
                    isr_nodes=(1,),
                )
                for index, (leader, epoch) in self.leaders[name].items()
            ),
        )

    def handle(self, key: int, handler: Callable[[MemoryBroker, Any], Any]) -> None:
        """The same handler for every broker; it is told which one is asked."""
        for broker in self.brokers.values():
            broker.handlers[key] = lambda message, broker=broker: handler(broker, message)


class MemoryShell:
    """Runs operations as the real shells do, without a socket and without waiting."""

    def __init__(self, memory: MemoryCluster, **settings: Any) -> None:
        self.memory = memory
        self.time_ms = 0
        self.pauses: list[int] = []
        self.effects: list[Any] = []
        servers = tuple(broker.address for broker in memory.brokers.values())
        settings.setdefault("bootstrap_servers", servers)
        self.cluster = Cluster(ClientSettings(**settings), lambda: self.time_ms, lambda: 0.5)
        self._connections: dict[Address, BrokerConnection] = {}
        self._replies: dict[int, Any] = {}
        self._next_ticket = 0

    def run(self, operation: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        steps = operation(self.cluster, *args, **kwargs)
        outcome = None
        while True:
            try:
                effect = steps.send(outcome)
            except StopIteration as stop:
                return stop.value
            self.effects.append(effect)
            outcome = self._perform(effect)

    def _perform(self, effect: Any) -> Any:
        match effect:
            case Start(ask):
                self._next_ticket += 1
                self._replies[self._next_ticket] = self._ask(ask)
                return self._next_ticket
            case Finish(ticket):
                reply = self._replies.pop(ticket)
                if isinstance(reply, TimedOut):
                    self.time_ms += self.cluster.settings.request_timeout_ms
                return reply
            case Abandon(ticket):
                del self._replies[ticket]
            case Pause(ms):
                self.pauses.append(ms)
                self.time_ms += ms
        return None

    def _ask(self, ask: Ask) -> Any:
        self.time_ms += 1
        broker = next(b for b in self.memory.brokers.values() if b.address == ask.address)
        if ask.address.port not in self.memory.alive:
            self._connections.pop(ask.address, None)
            return ConnectionFailed(ask.address, "connection refused")
        try:
            connection = self._connection(broker)
            connection.send(
                ask.request, version_max=ask.version_max, expects_answer=ask.expects_answer
            )
            return exchange(connection, broker, expects_answer=ask.expects_answer)
        except ClientError as error:
            self._connections.pop(ask.address, None)
            return error

    def _connection(self, broker: MemoryBroker) -> BrokerConnection:
        if broker.address not in self._connections:
            connection = BrokerConnection(broker.address, "test")
            while not connection.is_ready:
                exchange(connection, broker, expects_answer=False)
            self._connections[broker.address] = connection
        return self._connections[broker.address]


def exchange(
    connection: BrokerConnection, broker: MemoryBroker, *, expects_answer: bool = True
) -> Message | None:
    """Carry the bytes there and back, in small pieces."""
    answers = []
    for answer in broker.answer(b"".join(map(bytes, connection.take_outgoing()))):
        if answer is SILENT:
            raise TimedOut(f"{broker.address}: no answer in time")
        if answer is HANG_UP:
            raise connection.closed_by_peer()
        if answer is not None:
            assert isinstance(answer, bytes)
            answers += feed(connection, answer)
    return answers[-1].message if expects_answer else None


def feed(connection: BrokerConnection, data: bytes, piece: int = PIECE) -> list[Any]:
    """Let these bytes arrive."""
    answers = []
    for start in range(0, len(data), piece):
        part = data[start : start + piece]
        while part:
            room = connection.buffer()
            count = min(len(room), len(part))
            room[:count] = part[:count]
            part = part[count:]
            answers += connection.received(count)
    return answers
