"""Requests in any version to any broker, as bytes, without a client's opinion about them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from tests.interop.suite import SECONDS_MAX, pause
from tidelog.types import ZERO_UUID
from tidelog.wire.api import APIS, response_class
from tidelog.wire.codec import decode, encode
from tidelog.wire.declare import Message, Struct
from tidelog.wire.headers import RequestHeader
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

METADATA_VERSION = 12
IS_NOT_COMPARED = frozenset(
    # Of another name on each machine, or different in each run.
    {"cluster_id", "port", "producer_id", "log_dir", "total_bytes", "usable_bytes", "session_id"}
    # In words of one's own.
    | {"error_message", "documentation"}
)


class Closed(Exception):
    """The broker closed the connection instead of answering."""


class Exchange:
    """One connection."""

    def __init__(self, bootstrap_servers: str) -> None:
        host, _, port = bootstrap_servers.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=SECONDS_MAX)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def ask(self, message: Message, version: int) -> Message:
        key = message.API_KEY
        assert key is not None
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id="exchange",
        )
        header_version = APIS[key].request_header_version(version)
        frame = encode(header, header_version) + encode(message, version)
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)
        answer = self._receive(int.from_bytes(self._receive(4), "big"))
        assert int.from_bytes(answer[:4], "big") == self._correlation_id
        start = 5 if APIS[key].response_header_version(version) else 4
        return decode(response_class(key), version, answer[start:])

    def _receive(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            received = self._socket.recv(size - len(data))
            if not received:
                raise Closed
            data += received
        return bytes(data)

    def ask_until(self, message: Message, version: int, holds: Callable[[Any], bool]) -> Message:
        """Ask again until the broker has caught up with what its controller has acknowledged."""
        deadline = time.monotonic() + SECONDS_MAX
        while not holds(answer := self.ask(message, version)):
            assert time.monotonic() < deadline, f"still {answer}"
            pause()
        return answer

    def topic_id(self, topic: str) -> bytes:
        """Waits until the broker knows the topic."""
        named = (MetadataRequestTopic(name=topic),)
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        answer: Any = self.ask_until(
            request, METADATA_VERSION, lambda answer: answer.topics[0].error_code == 0
        )
        topic_id: bytes = answer.topics[0].topic_id
        return topic_id


def comparable(value: Any) -> Any:
    """A message as plain data, without what differs between two brokers that do the same."""
    if isinstance(value, Struct):
        return {
            name: "…" if name in IS_NOT_COMPARED else _named(name, getattr(value, name))
            for name in type(value).FIELDS
        }
    if isinstance(value, tuple):
        return [comparable(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


def _named(name: str, value: Any) -> Any:
    if name == "topic_id":
        return "none" if value == ZERO_UUID else "an id"
    return comparable(value)
