"""A task's worker: its connections outlive tasks, its broker may die, its memory is bounded."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from tests.interop.tidelog_node import TidelogNode
from tests.unit.spark.topics import START_MS, Topics

from tidelog.client import ClientSettings, TopicPartition, parse_servers
from tidelog.client.produce import produce
from tidelog.spark import connections
from tidelog.spark.planner import OffsetRange
from tidelog.spark.range_reader import read_range
from tidelog.spark.source_options import batch_options
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.compression import Compression

WORKER_BYTES = 1 << 30
VALUE_BYTES = 64 << 10
BATCHES = 1100
BATCH_RECORDS = 16


def options(topics: Topics, name: str, **more: str):
    servers = {"kafka.bootstrap.servers": topics.bootstrap_servers, "subscribe": name}
    return batch_options({**servers, "columns": "offset,value", **more})


def offsets(batches) -> list[int]:
    return [offset for arrow in batches for offset in arrow.column("offset").to_pylist()]


def test_tasks_share_the_connections_of_their_process(topics):
    name = "shared-connections"
    topics.create(name, 2)
    for partition in range(2):
        topics.fill(name, range(10), partition)
    wanted = options(topics, name)
    client = connections.client_for(wanted.client)
    used = []
    for partition in range(2):
        found = read_range(OffsetRange(TopicPartition(name, partition), 0, 10), wanted)
        assert offsets(found) == list(range(10))
        used.append(list(client._channels.values()))
    assert used[0] == used[1] != []
    assert connections.client_for(wanted.client) is client


def test_of_many_clients_the_one_unused_for_longest_goes(monkeypatch):
    monkeypatch.setattr(connections, "CLIENTS_MAX", 2)
    monkeypatch.setattr(connections._kept, "clients", {})
    a, b, c = (ClientSettings(bootstrap_servers=parse_servers(name)) for name in "abc")
    clients = [connections.client_for(settings) for settings in (a, b, a, c)]
    assert list(connections._kept.clients) == [a, c]
    assert clients[0] is clients[2]
    connections.discard(a)
    connections.discard(a)
    assert list(connections._kept.clients) == [c]


def test_a_task_that_ends_early_leaves_its_connection_usable(topics):
    name = "ended-early"
    topics.create(name)
    for n in range(0, 40_000, 4000):
        topics.fill(name, range(n, n + 4000))
    wanted = options(topics, name, **{"kafka.max.partition.fetch.bytes": "1"})
    whole = OffsetRange(TopicPartition(name, 0), 0, 40_000)
    rows = read_range(whole, wanted)
    assert next(rows).num_rows == 10_000
    rows.close()
    assert offsets(read_range(whole, wanted)) == list(range(40_000))


def test_a_broker_that_dies_within_a_task_is_waited_for(tmp_path):
    name = "killed"
    with TidelogNode(tmp_path / "node") as node:
        topics = Topics(node.bootstrap_servers)
        topics.create(name)
        for n in range(0, 40_000, 4000):
            topics.fill(name, range(n, n + 4000))
        wanted = options(topics, name, **{"kafka.max.partition.fetch.bytes": "1"})
        rows = read_range(OffsetRange(TopicPartition(name, 0), 0, 40_000), wanted)
        first = next(rows)
        node.kill()
        found = offsets([first])
        # The other way round the node would die with the thread that started it.
        reading = threading.Thread(target=lambda: found.extend(offsets(rows)))
        reading.start()
        node.start()
        reading.join()
        assert found == list(range(40_000)), "each record once"
        topics.client.close()


@pytest.mark.slow
def test_a_worker_of_a_gigabyte_reads_a_topic_that_is_larger(topics):
    """Spark limits a worker's address space, and so does this test.

    Its peak is asked of /proc: getrusage would count what the process was before its exec.
    """
    name = "large"
    topics.create(name, max_message_bytes=str(32 << 20))
    builder = BatchBuilder()
    for n in range(BATCH_RECORDS):
        builder.append(None, bytes([n]) * VALUE_BYTES, timestamp=START_MS)
    batch = builder.build(compression=Compression.ZSTD)
    for _ in range(BATCHES):
        topics.client.run(produce, {TopicPartition(name, 0): bytearray(batch)})
    options = {"kafka.bootstrap.servers": topics.bootstrap_servers, "subscribe": name}
    program = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, ({WORKER_BYTES}, {WORKER_BYTES}))
from tidelog.client import TopicPartition
from tidelog.spark.planner import OffsetRange
from tidelog.spark.range_reader import read_range
from tidelog.spark.source_options import batch_options
options = batch_options({options!r})
whole = OffsetRange(TopicPartition({name!r}, 0), 0, {BATCHES * BATCH_RECORDS})
size = sum(arrow.nbytes for arrow in read_range(whole, options))
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(size, peak.split()[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    size, resident_kib = map(int, done.stdout.split())
    assert size > BATCHES * BATCH_RECORDS * VALUE_BYTES > WORKER_BYTES
    assert resident_kib * 1024 < WORKER_BYTES // 2
