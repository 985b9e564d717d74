"""A memory broker behind a real socket, for the shells."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from tests.unit.client.memory import HANG_UP, SILENT, MemoryCluster

from tidelog.client import Address
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


class SocketBroker:
    """One broker of one topic; ListOffsets answers with the timestamp it was asked for, or with
    what `outcomes` holds next."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self.listener.getsockname())
        self.cluster = MemoryCluster(brokers=1)
        self.broker = self.cluster.brokers[1]
        self.broker.address = self.address
        self.cluster.leaders["orders"] = dict.fromkeys(range(2000), (1, 0))
        self.outcomes: list[Any] = []
        self.accepted: list[socket.socket] = []
        self.broker.handlers[ApiKey.LIST_OFFSETS] = self._list_offsets
        threading.Thread(target=self._accept, daemon=True).start()

    def hang_up(self) -> None:
        """Close every connection, as an idle one is closed."""
        for connection in self.accepted:
            connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.accepted.append(connection)
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        pending = b""
        # The client may be gone at any time.
        with connection, suppress(OSError):
            while data := connection.recv(1 << 20):
                pending += data
                while len(pending) >= 4 and len(pending) >= (
                    end := 4 + int.from_bytes(pending[:4], "big")
                ):
                    (answer,) = self.broker.answer(pending[:end])
                    pending = pending[end:]
                    if answer is HANG_UP:
                        return
                    if answer is not SILENT and answer is not None:
                        assert isinstance(answer, bytes)
                        connection.sendall(answer)

    def _list_offsets(self, request: Any) -> Any:
        if self.outcomes and (outcome := self.outcomes.pop(0)) is not None:
            return outcome
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=p.partition_index, error_code=0, offset=p.timestamp
                        )
                        for p in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )


@contextmanager
def socket_broker() -> Iterator[SocketBroker]:
    broker = SocketBroker()
    try:
        yield broker
    finally:
        broker.listener.close()
        for connection in broker.accepted:
            connection.close()


def refused_address() -> Address:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address(*listener.getsockname())
