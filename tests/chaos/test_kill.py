"""kill -9 of the real server under load, again and again: what was acknowledged is there."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.suite import SECONDS_MAX
from tests.interop.tidelog_node import TidelogNode

pytestmark = pytest.mark.slow

KILLS = 50
PARTITIONS = 3
ACKNOWLEDGED_A_LIFE = (1, 2000)
"""How many records a node acknowledges before it is killed, at least: chance decides. A life that
acknowledges nothing would prove nothing."""
QUIET = {"log_level": 0, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100}


class Load(threading.Thread):
    """Numbers its records, and remembers where each was acknowledged."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failed: list[KafkaError] = []
        self.sent = 0
        self.stopping = threading.Event()
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 5 * SECONDS_MAX * 1000,
                "queue.buffering.max.messages": 5_000,
                "retry.backoff.ms": 10,
                **QUIET,
            }
        )

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.producer.produce(
                    "t",
                    str(self.sent).encode(),
                    partition=self.sent % PARTITIONS,
                    on_delivery=self._delivered,
                )
                self.sent += 1
            except BufferError:
                self.producer.poll(0.05)
            self.producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
            return
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None and partition is not None and offset is not None
        self.acknowledged[int(value)] = (partition, offset)

    def wait_for(self, count: int) -> None:
        """Until so many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        deadline = time.monotonic() + SECONDS_MAX
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, f"{len(self.acknowledged)} of {wanted} acknowledged"
            assert self.failed == []
            self.stopping.wait(0.001)

    def stop(self) -> None:
        self.stopping.set()
        self.join()
        assert self.producer.flush(5 * SECONDS_MAX) == 0


def read_all(bootstrap_servers: str) -> dict[int, list[int]]:
    """The numbers of every partition, by rising offset, which must be dense."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "none",
            "enable.partition.eof": True,
            "check.crcs": True,
            **QUIET,
        }
    )
    consumer.assign([TopicPartition("t", number, 0) for number in range(PARTITIONS)])
    found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
    ended = 0
    while ended < PARTITIONS:
        message = consumer.poll(SECONDS_MAX)
        assert message is not None, f"no record and no end within {SECONDS_MAX} s"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended += 1
            continue
        partition, value = message.partition(), message.value()
        assert partition is not None and value is not None
        assert message.offset() == len(found[partition])
        found[partition].append(int(value))
    consumer.close()
    return found


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    rng = random.Random(1)
    node = TidelogNode(tmp_path)
    node.start()
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers, **QUIET})
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(SECONDS_MAX)
    load = Load(node.bootstrap_servers)
    load.start()
    try:
        for _ in range(KILLS):
            load.wait_for(rng.randint(*ACKNOWLEDGED_A_LIFE))
            node.kill()
            node.start()
        load.stop()
        found = read_all(node.bootstrap_servers)
    finally:
        load.stopping.set()
        node.kill()

    assert load.failed == []
    assert len(load.acknowledged) == load.sent
    for number, (partition, offset) in load.acknowledged.items():
        assert found[partition][offset] == number
    for partition, numbers in found.items():
        # Each once and in order: none lost, none twice, although the producer retried.
        assert numbers == list(range(partition, load.sent, PARTITIONS))
