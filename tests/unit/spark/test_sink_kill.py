"""kill -9 of a real node under the sink's tasks: each row is written once, in its order."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.tidelog_node import TidelogNode
from tests.unit.spark.topics import Topics
from tests.unit.spark.written import read_all, rows_of, writer_for

from tidelog.spark.connections import discard
from tidelog.spark.sink import BatchWriter, WrittenRows

pytestmark = pytest.mark.slow

KILLS = 10
PARTITIONS = 3
LIVES_SECONDS = (0.05, 0.5)
ROWS = 300
"""In an Arrow batch."""
BATCHES = 100
"""Of a task."""


class Worker(threading.Thread):
    """Writes numbered rows in task after task until it is told to stop, as fast as it can: a
    kill finds requests that were written and not answered."""

    def __init__(self, writer: BatchWriter) -> None:
        super().__init__(daemon=True)
        self.writer = writer
        self.rows = self.tasks = 0
        self.stopping = threading.Event()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                before = self.rows
                message = self.writer.write(self._rows())
                assert isinstance(message, WrittenRows)
                assert message.rows == self.rows - before
                self.tasks += 1
        except BaseException as error:
            self.failure = error
        finally:
            discard(self.writer.options.client)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        for _ in range(BATCHES):
            if self.stopping.is_set():
                return
            numbers = range(self.rows, self.rows + ROWS)
            self.rows += ROWS
            yield rows_of(
                value=[b"%d" % number for number in numbers],
                partition=[number % PARTITIONS for number in numbers],
            )


def test_no_row_is_lost_or_written_twice(tmp_path: Path) -> None:
    rng = random.Random(2)
    node = TidelogNode(tmp_path)
    node.start()
    topics = Topics(node.bootstrap_servers)
    topics.create("t", PARTITIONS)
    options = {
        "topic": "t",
        "kafka__linger__ms": "0",
        "kafka__batch__size": "2000",
        "kafka__retry__backoff__ms": "10",
    }
    topics.client.close()
    rows = rows_of(value=[], partition=[])
    worker = Worker(writer_for(node.bootstrap_servers, rows, **options))
    worker.start()
    try:
        for _ in range(KILLS):
            worker.stopping.wait(rng.uniform(*LIVES_SECONDS))
            node.kill()
            node.start()
        worker.stopping.set()
        worker.join()
        found = read_all(node.bootstrap_servers, "t", PARTITIONS)
    finally:
        worker.stopping.set()
        node.kill()
    assert worker.failure is None
    assert worker.tasks > 2
    assert worker.rows > 5_000
    for partition in range(PARTITIONS):
        numbers = [int(r.value or b"") for r in found if r.partition == partition]
        assert numbers == list(range(partition, worker.rows, PARTITIONS))


def test_a_task_that_failed_and_is_run_again_loses_nothing(tmp_path: Path) -> None:
    with TidelogNode(tmp_path) as node:
        topics = Topics(node.bootstrap_servers)
        topics.create("t")
        topics.client.close()
        rows = [rows_of(value=[b"%d" % number]) for number in range(100)]
        writer = writer_for(node.bootstrap_servers, rows[0], topic="t", kafka__linger__ms="0")

        def failing() -> Iterator[pa.RecordBatch]:
            yield from rows[:60]
            raise RuntimeError("the executor is lost")

        with pytest.raises(RuntimeError, match="the executor is lost"):
            writer.write(failing())
        writer.write(iter(rows))
        found = [int(r.value or b"") for r in read_all(node.bootstrap_servers, "t", 1)]
    assert found[-100:] == list(range(100))
    assert found[:-100] == list(range(len(found) - 100))


class LossyWay:
    """Forwards connections to a node, and loses some of its answers together with theirs."""

    def __init__(self, port: int, listener: socket.socket, share: float) -> None:
        self.port = port
        self.listener = listener
        self.share = share
        self.lost = 0
        self._rng = random.Random(4)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                node = socket.create_connection(("127.0.0.1", self.port))
                threading.Thread(target=self._carry, args=[client, node], daemon=True).start()
                threading.Thread(target=self._answer, args=[client, node], daemon=True).start()

    def _carry(self, client: socket.socket, node: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                node.sendall(data)
        with suppress(OSError):
            node.shutdown(socket.SHUT_RDWR)

    def _answer(self, client: socket.socket, node: socket.socket) -> None:
        with client, node, suppress(OSError):
            while data := node.recv(1 << 16):
                if self._rng.random() < self.share:
                    self.lost += 1
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)


def test_lost_answers_make_no_row_be_written_twice() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        shown = f"127.0.0.1:{listener.getsockname()[1]}"
        with TidelogNode(properties={"advertised.listeners": f"PLAINTEXT://{shown}"}) as node:
            way = LossyWay(int(node.bootstrap_servers.rpartition(":")[2]), listener, 0.2)
            rows = rows_of(value=[b"%d" % number for number in range(200)], partition=[0] * 200)
            options = {"topic": "t", "kafka__linger__ms": "0", "kafka__batch__size": "500"}
            writer = writer_for(shown, rows, **options, kafka__retry__backoff__ms="1")
            writer.write(iter([rows] * 20))
            discard(writer.options.client)
            assert way.lost > 5
            way.share = 0
            found = [int(record.value or b"") for record in read_all(shown, "t", 1)]
    assert found == list(range(200)) * 20
