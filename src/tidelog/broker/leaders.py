"""Who leads instead, for clients that asked the wrong broker: they need not ask again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from tidelog.types import ZERO_UUID, Uuid

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


class Leader(NamedTuple):
    """-1 where nobody is known."""

    leader_id: int = -1
    leader_epoch: int = -1


NodeT = TypeVar("NodeT", covariant=True)


class Endpoint(Protocol[NodeT]):
    """The wire's class for a node's address: each message has its own."""

    def __call__(self, *, node_id: int, host: str, port: int, rack: str | None) -> NodeT: ...


class Leaders:
    """Those that one answer names, with their addresses at the listener of the request."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._listener = broker.listener
        self._named: dict[int, None] = {}

    def find(self, topic: str, topic_id: Uuid, index: int) -> Leader:
        """As the replica here knows it, else as the metadata does."""
        broker = self._broker
        if topic_id != ZERO_UUID:
            partition = broker.hosting.by_id.get((topic_id, index))
            state = broker.image.partition_by_id(topic_id, index)
        else:
            partition = broker.hosting.by_name.get((topic, index))
            state = broker.image.partition(topic, index)
        if partition is not None:
            leader = Leader(partition.leader_id, partition.leader_epoch)
        elif state is not None:
            leader = Leader(state.leader, state.leader_epoch)
        else:
            return Leader()
        self._named[leader.leader_id] = None
        return leader

    def endpoints(self, node: Endpoint[NodeT]) -> tuple[NodeT, ...]:
        """Of all that were found and are alive."""
        found = []
        for leader_id in self._named:
            broker = self._broker.image.brokers.get(leader_id)
            point = None if broker is None else broker.endpoint(self._listener)
            if broker is not None and point is not None and not broker.fenced:
                found.append(
                    node(node_id=leader_id, host=point.host, port=point.port, rack=broker.rack)
                )
        return tuple(found)
