"""Brokers that replicate to each other with real frames in virtual time. Each is a whole node with
a metadata log of its own; the test writes the same records into all of them, as a quorum would."""

from __future__ import annotations

import struct
from functools import partial
from typing import Any

from tests.unit.node_client import Cluster, fetch_partition, records_of

from tidelog.events import (
    Answered,
    CloseConnection,
    Connect,
    Connected,
    ConnectFailed,
    Disconnected,
    Effect,
    Send,
    Ticked,
)
from tidelog.metadata.image import PartitionState
from tidelog.metadata.records.brokers import (
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from tidelog.metadata.records.cluster import ConfigRecord
from tidelog.metadata.records.topics import (
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.replica.partition import Partition
from tidelog.sim.shell import SimulatedShell
from tidelog.slices import finish
from tidelog.types import Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages import fetch

TOPIC_ID = Uuid(b"topic-id-sixteen")
TOPIC_RESOURCE = 2


class WiredShell(SimulatedShell):
    """One machine. What its node sends to another takes a millisecond each way."""

    wires: Wired
    node_id: int

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.outgoing: dict[int, tuple[WiredShell, int]] = {}
        """Our connections: the machine at the other end, and its number for it."""
        self.incoming: dict[int, tuple[WiredShell, int]] = {}
        self.requests: list[tuple[int, bytes]] = []
        """To which broker, and the frame."""
        self.answers: list[tuple[int, bytes]] = []

    def _start(self, effect: Effect) -> None:
        match effect:
            case Connect(connection, _, port):
                self._later(1, partial(self._connect, connection, port - 9092))
            case Send(connection, parts) if connection < 0:
                data = b"".join(
                    bytes(getattr(part, "read", lambda part=part: part)()) for part in parts
                )
                self._later(1, partial(self._deliver, connection, data))
            case CloseConnection(connection) if connection < 0:
                self._hang_up(connection)
            case _:
                super()._start(effect)
        if isinstance(effect, Send) and effect.connection in self.incoming:
            self._later(1, partial(self._answer, effect.connection))

    def _connect(self, connection: int, node_id: int) -> None:
        other = self.wires.reachable(self.node_id, node_id)
        if other is None:
            self._step(ConnectFailed(connection, was_refused=True))
            return
        theirs = other.connect()
        self.outgoing[connection] = other, theirs
        other.incoming[theirs] = self, connection
        self._step(Connected(connection))

    def _deliver(self, connection: int, data: bytes) -> None:
        if connection in self.outgoing:
            other, theirs = self.outgoing[connection]
            self.requests.append((other.node_id, data[4:]))
            other.send(theirs, data)

    def _answer(self, connection: int) -> None:
        if connection not in self.incoming:
            return
        other, theirs = self.incoming[connection]
        data = self.take(connection)
        while data:
            (size,) = struct.unpack_from(">i", data)
            self.answers.append((other.node_id, data[4 : 4 + size]))
            other._step(Answered(theirs, memoryview(data[4 : 4 + size])))
            data = data[4 + size :]

    def _hang_up(self, connection: int) -> None:
        if connection in self.outgoing:
            other, theirs = self.outgoing.pop(connection)
            other.incoming.pop(theirs, None)
            other.disconnect(theirs)

    def cut(self) -> None:
        """All connections of this machine break."""
        for connection in list(self.outgoing):
            self._hang_up(connection)
            self._step(Disconnected(connection))
        for theirs, (other, connection) in list(self.incoming.items()):
            other._hang_up(connection)
            other._step(Disconnected(connection))
            assert theirs not in self.incoming


class WiredCluster(Cluster):
    SHELL = WiredShell

    def ask(
        self,
        message: Message,
        version: int | None = None,
        *,
        wait_ms: int = 1000,
        connection: int = 0,
    ) -> Any:
        """While it waits, time passes for all."""
        assert message.API_KEY is not None
        self.send(message, version, connection)
        for _ in range(wait_ms):
            answers = self.take(message.API_KEY, version, connection)
            if answers:
                (answer,) = answers
                return answer
            self.shell.wires.advance(1)
        raise AssertionError(f"no answer within {wait_ms} ms")


class Wired:
    """Brokers 1, 2, 3, which know of each other."""

    def __init__(self, *ids: int, **properties: str) -> None:
        self.ids = ids or (1, 2, 3)
        self.down: set[int] = set()
        """Cut off from all others."""
        self.nodes = {id_: self._node(id_, properties) for id_ in self.ids}
        for node in self.nodes.values():
            node.shell.wires = self
        for id_ in self.ids:
            self.commit([self._registration(other) for other in self.ids if other != id_], id_)

    def _node(self, node_id: int, properties: dict[str, str]) -> WiredCluster:
        own = {
            "node_id": str(node_id),
            "listeners": f"PLAINTEXT://h:{9092 + node_id},CONTROLLER://h:9000",
            "controller_quorum_voters": f"{node_id}@h:9000",
            "broker_session_timeout_ms": str(10**9),
            "broker_heartbeat_interval_ms": str(10**8),
            "broker_rack": f"rack{node_id}",
        }
        # The shell has to know its machine before the node takes its first step.
        shell = type(f"Shell{node_id}", (WiredShell,), {"node_id": node_id, "wires": self})
        cluster = type("Machine", (WiredCluster,), {"SHELL": shell})
        return cluster(seed=node_id, **(own | properties))

    def _registration(self, node_id: int) -> RegisterBrokerRecord:
        broker = self.nodes[node_id].broker
        point = BrokerEndpoint(name="PLAINTEXT", host="h", port=9092 + node_id, security_protocol=0)
        return RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=Uuid(bytes([node_id]) * 16),
            broker_epoch=broker.broker_epoch,
            end_points=(point,),
            features=(),
            rack=f"rack{node_id}",
            fenced=False,
            log_dirs=broker.log_dirs.ids,
        )

    def reachable(self, node_id: int, other: int) -> WiredShell | None:
        if other in self.down or node_id in self.down or other not in self.nodes:
            return None
        return self.nodes[other].shell

    def __getitem__(self, node_id: int) -> WiredCluster:
        return self.nodes[node_id]

    def partition(self, node_id: int, index: int = 0, topic: str = "t") -> Partition:
        return self.nodes[node_id].partition(topic, index)

    # Time.

    def advance(self, ms: int) -> None:
        for _ in range(ms):
            for node in self.nodes.values():
                node.shell.advance(1)

    def disconnect(self, node_id: int) -> None:
        """Its machine is cut off: all connections break, none can be made."""
        self.down.add(node_id)
        self.nodes[node_id].shell.cut()

    # Metadata.

    def commit(self, records: list[Message], *ids: int) -> None:
        """Into the metadata logs of all, or of some."""
        for id_ in ids or self.ids:
            node = self.nodes[id_]
            finish(node.broker.metadata.append(records, node.shell.now))
            node.shell._step(Ticked())
        self.advance(30)

    def create_topic(
        self,
        *replicas: int,
        partitions: int = 1,
        name: str = "t",
        topic_id: Uuid = TOPIC_ID,
        **configs: str,
    ) -> None:
        records: list[Message] = [TopicRecord(name=name, topic_id=topic_id)]
        records += [
            ConfigRecord(
                resource_type=TOPIC_RESOURCE,
                resource_name=name,
                name=key.replace("_", "."),
                value=value,
            )
            for key, value in configs.items()
        ]
        replicas = replicas or self.ids
        for index in range(partitions):
            records.append(
                PartitionRecord(
                    partition_id=index,
                    topic_id=topic_id,
                    replicas=replicas,
                    isr=replicas,
                    removing_replicas=(),
                    adding_replicas=(),
                    leader=replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=tuple(self.nodes[id_].broker.log_dirs.ids[0] for id_ in replicas),
                )
            )
        self.commit(records)

    def delete_topic(self) -> None:
        self.commit([RemoveTopicRecord(topic_id=TOPIC_ID)])

    def change(self, *ids: int, index: int = 0, topic_id: Uuid = TOPIC_ID, **fields: Any) -> None:
        """A PartitionChangeRecord, for all brokers or some."""
        record = PartitionChangeRecord(partition_id=index, topic_id=topic_id, **fields)
        self.commit([record], *ids)

    def fence(self, node_id: int, fenced: int = 1) -> None:
        self._change_registration(node_id, fenced=fenced)

    def stop_in_order(self, node_id: int) -> None:
        self._change_registration(node_id, in_controlled_shutdown=1)

    def _change_registration(self, node_id: int, **fields: int) -> None:
        """As the others hear of it."""
        epoch = self.nodes[node_id].broker.broker_epoch
        record = BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, **fields)
        self.commit([record], *(id_ for id_ in self.ids if id_ != node_id))

    def state(self, node_id: int, index: int = 0) -> PartitionState:
        """As one broker has read it."""
        state = self.nodes[node_id].broker.image.partition_by_id(TOPIC_ID, index)
        assert state is not None
        return state

    # What is inside.

    def ends(self, index: int = 0) -> dict[int, int]:
        return {id_: self.partition(id_, index).log.log_end_offset for id_ in self.ids}

    def watermarks(self, index: int = 0) -> dict[int, int]:
        return {id_: self.partition(id_, index).high_watermark for id_ in self.ids}

    def content(self, node_id: int, index: int = 0) -> bytes:
        """The log as it lies there."""
        own = self.partition(node_id, index).log
        return b"".join(segment.file.read(0, segment.size) for segment in own.segments)

    def fetch_at(self, node_id: int, offset: int, version: int = 12, **fields: Any) -> Any:
        """A consumer's fetch."""
        return self.nodes[node_id].fetch("t", offset, version=version, **fields)

    def replica_fetch(
        self,
        leader: int,
        replica: int,
        offset: int,
        *,
        broker_epoch: int | None = None,
        **fields: Any,
    ) -> Any:
        """A follower's fetch by hand."""
        epoch = self.nodes[replica].broker.broker_epoch if replica in self.nodes else 7
        asked = fetch_partition(
            0, offset, **({"current_leader_epoch": -1, "log_start_offset": 0} | fields)
        )
        request = fetch.FetchRequest(
            replica_state=fetch.ReplicaState(
                replica_id=replica, replica_epoch=epoch if broker_epoch is None else broker_epoch
            ),
            max_wait_ms=0,
            min_bytes=1,
            topics=(fetch.FetchTopic(topic_id=TOPIC_ID, partitions=(asked,)),),
        )
        return self.nodes[leader].ask(request, 18)


def values_of(data: Any) -> list[bytes | None]:
    return [value for _, value in records_of(data)]
