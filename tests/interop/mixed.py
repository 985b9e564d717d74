"""A cluster of Tidelog's and Apache Kafka's nodes, and what is asked of it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.apache import CLUSTER_ID, ApacheNode
from tests.interop.process import NodeProcess
from tests.interop.tidelog_node import TidelogNode
from tidelog.cli.main import tidelog
from tidelog.testing.ports import free_ports

WAIT_SECONDS_MAX = 120
QUIET = {"log_level": 0, "topic.metadata.refresh.interval.ms": 500}


class MemberOfTidelog(TidelogNode):
    """One of many: it is formatted with the cluster's id before it starts."""

    def format(self) -> None:
        done = CliRunner().invoke(tidelog, ["format", "-t", CLUSTER_ID, self.write_config()])
        assert done.exit_code == 0, done.output


class Acked(NamedTuple):
    """What a producer was promised to find again."""

    partition: int
    offset: int
    value: bytes


class MixedCluster:
    """Controllers 1, 2 and 3 of one kind, brokers from 101 on of any; the kind is the class."""

    def __init__(self, controllers: type[NodeProcess], brokers: Mapping[int, type[NodeProcess]]):
        self.folder = Path(tempfile.mkdtemp(prefix="mixed-"))
        ports = free_ports(3 + len(brokers))
        voters = ",".join(f"{i + 1}@127.0.0.1:{ports[i]}" for i in range(3))
        self.nodes: dict[int, NodeProcess] = {}
        for number in (1, 2, 3):
            address = f"CONTROLLER://127.0.0.1:{ports[number - 1]}"
            self._add(controllers, number, "controller", address, voters)
        self.addresses = []
        for number, port in zip(brokers, ports[3:], strict=True):
            self.addresses.append(f"127.0.0.1:{port}")
            address = f"PLAINTEXT://127.0.0.1:{port}"
            self._add(brokers[number], number, "broker", address, voters)
        self.bootstrap_servers = ",".join(self.addresses)
        self.brokers = tuple(brokers)

    def _add(
        self, kind: type[NodeProcess], number: int, role: str, address: str, voters: str
    ) -> None:
        properties = {
            "process.roles": role,
            "node.id": str(number),
            "listeners": address,
            "controller.quorum.voters": voters,
            "offsets.topic.replication.factor": "3",
        }
        node = kind(self.folder / str(number), properties=properties)
        self.nodes[number] = node

    def __enter__(self) -> MixedCluster:
        try:
            for node in self.nodes.values():
                node.format()
                node.launch()
            self.admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, **QUIET})
            self.until(lambda: sorted(self.metadata().brokers) == sorted(self.brokers))
        except BaseException:
            self.__exit__(RuntimeError)
            raise
        return self

    def __exit__(self, kind: Any = None, *rest: object) -> None:
        for node in reversed(self.nodes.values()):
            if kind is not None:
                node.kill()
                node.show_log(15)
            else:
                node.stop()
        if kind is None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while not is_so():
            assert time.monotonic() < deadline, "it did not come to that"
            self.admin.poll(0.1)

    def metadata(self, topic: str | None = None) -> Any:
        """As soon as somebody tells."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            try:
                return self.admin.list_topics(topic, timeout=5)
            except KafkaException:
                if time.monotonic() > deadline:
                    raise
                self.admin.poll(0.1)

    def partitions(self, topic: str) -> dict[int, tuple[int, list[int]]]:
        """Of each, who leads and who is in sync."""
        found = self.metadata(topic).topics[topic].partitions
        return {number: (one.leader, sorted(one.isrs)) for number, one in found.items()}

    def create(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Those of each partition, of which two must have a record; all are in sync."""
        placed = [list(one) for one in replicas]
        configs = {"min.insync.replicas": "2"}
        wanted = NewTopic(topic, len(placed), replica_assignment=placed, config=configs)
        self.admin.create_topics([wanted])[topic].result(WAIT_SECONDS_MAX)
        self.until_in_sync(topic)

    def until_in_sync(self, topic: str, brokers: tuple[int, ...] = ()) -> None:
        wanted = sorted(brokers or self.brokers)
        self.until(lambda: all(one[1] == wanted for one in self.partitions(topic).values()))

    def write(self, topic: str, begin: int, count: int, during: Callable[[], None]) -> list[Acked]:
        """Records by an idempotent producer with acks=all, while something happens."""
        acked: list[Acked] = []
        failed: list[KafkaError] = []

        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failed.append(error)
                return
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert isinstance(value, bytes)
            assert partition is not None
            assert offset is not None
            acked.append(Acked(partition, offset, value))

        settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 1, **QUIET}
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, **settings})
        partitions = len(self.partitions(topic))
        for number in range(begin, begin + count):
            partition = number % partitions
            producer.produce(topic, b"%d" % number, partition=partition, on_delivery=told)
            producer.poll(0.002 if number % 20 == 0 else 0)
            if number == begin + count // 3:
                during()
        assert producer.flush(WAIT_SECONDS_MAX) == 0
        assert not failed, failed[0]
        return acked

    def read(self, topic: str) -> dict[bytes, list[tuple[int, int]]]:
        """Where each value is found, from the first to the last."""
        settings = {"group.id": "none", "enable.auto.commit": False, **QUIET}
        consumer = Consumer({"bootstrap.servers": self.bootstrap_servers, **settings})
        found: dict[bytes, list[tuple[int, int]]] = {}
        for partition in self.partitions(topic):
            place = TopicPartition(topic, partition, 0)
            consumer.assign([place])
            _, end = consumer.get_watermark_offsets(place, timeout=WAIT_SECONDS_MAX)
            offset = -1
            while offset + 1 < end:
                for message in consumer.consume(1000, timeout=10):
                    assert message.error() is None, message.error()
                    offset = message.offset() or 0
                    value = message.value()
                    assert isinstance(value, bytes)
                    found.setdefault(value, []).append((partition, offset))
        consumer.close()
        return found


APACHE, TIDELOG = ApacheNode, MemberOfTidelog
