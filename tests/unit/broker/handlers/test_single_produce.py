"""A Produce of one partition has a short way of its own: it must not be told from the long one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.node_client import Cluster, request_frame

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire import records, request
from tidelog.wire.batch import LOG_APPEND_TIME, TRANSACTIONAL, renew_crc
from tidelog.wire.compression import Compression
from tidelog.wire.messages import produce
from tidelog.wire.records_twin import parse_produce as never

VERSIONS = range(3, 14)
CONFIGS: dict[str, dict[str, str]] = {
    "plain": {},
    "small": {"max_message_bytes": "200"},
    "compacted": {"cleanup_policy": "compact"},
    "append-time": {"message_timestamp_type": "LogAppendTime"},
    "lz4": {"compression_type": "lz4"},
    "durable": {"flush_messages": "1"},
    "now": {"message_timestamp_after_max_ms": "5", "message_timestamp_before_max_ms": "5"},
    "tiny": {"internal_segment_bytes": "300"},
}

pytestmark = pytest.mark.skipif(
    records.parse_produce is never, reason="the short way is compiled code"
)


def made(rng: random.Random, cluster: Cluster) -> bytes:
    """A batch, most often a good one."""
    fields: dict[str, Any] = {}
    if rng.random() < 0.4:
        sequence = rng.choice([0, 0, 1, 2, 3, 7])
        fields |= {"producer_id": rng.randint(1, 3), "producer_epoch": 0, "base_sequence": sequence}
    if rng.random() < 0.1:
        fields["compression"] = rng.choice(list(Compression))
    if rng.random() < 0.1:
        fields["attributes"] = rng.choice([TRANSACTIONAL, LOG_APPEND_TIME])
    if rng.random() < 0.2:
        fields["timestamp"] = cluster.shell.now.wall_ms + rng.choice([-1000, 4, 3_600_001])
    if rng.random() < 0.2:
        fields["key"] = None
    values = [bytes(rng.choice([0, 5, 60]))] * rng.choice([1, 1, 1, 3])
    batch = bytearray(cluster.batch(*values, **fields))
    if rng.random() < 0.15:
        batch[rng.randrange(len(batch))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.6 and len(batch) == 12 + int.from_bytes(batch[8:12], "big"):
            renew_crc(batch, 0)
    return bytes(batch)


def frames(seed: int, cluster: Cluster, count: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    for correlation_id in range(count):
        version, topic = rng.choice(VERSIONS), rng.choice([*CONFIGS, "nobody"])
        topic_id = cluster.topic_id(topic) if topic in CONFIGS else Uuid(bytes(15) + b"x")
        data = produce.PartitionProduceData(
            index=rng.choice([0, 0, 0, 0, 1]),
            records=None if rng.random() < 0.02 else made(rng, cluster),
        )
        message = produce.ProduceRequest(
            transactional_id="x" if rng.random() < 0.05 else None,
            acks=rng.choice([-1, 1, 1, 1, 0, 2]),
            timeout_ms=1000,
            topic_data=(
                produce.TopicProduceData(
                    name=topic if version < 13 else "",
                    topic_id=topic_id if version >= 13 else ZERO_UUID,
                    partition_data=(data,) * (2 if rng.random() < 0.03 else 1),
                ),
            ),
        )
        frame = bytearray(request_frame(message, version, correlation_id))
        if rng.random() < 0.05:
            frame[rng.randrange(4, len(frame))] ^= 1 << rng.randrange(8)
        yield bytes(frame)


def ran(monkeypatch: pytest.MonkeyPatch, seed: int, *, short: bool, count: int) -> list[object]:
    """All that can be seen of a node which gets these requests."""
    taken = 0

    def parse(frame: memoryview) -> Any:
        nonlocal taken
        single = records.parse_produce(frame) if short else None
        taken += single is not None
        return single

    monkeypatch.setattr(request, "parse_produce", parse)
    cluster = Cluster(seed=seed)
    for topic, configs in CONFIGS.items():
        cluster.create_topic(topic, **configs)
    seen: list[object] = []
    connection = cluster.shell.connect()
    for number, frame in enumerate(frames(seed, cluster, count)):
        if connection in cluster.shell.closed:
            seen.append(cluster.shell.closed[connection])
            connection = cluster.shell.connect()
        cluster.shell.send(connection, frame)
        if number % 5 == 0:
            cluster.shell.advance(10)
        seen.append(cluster.shell.take(connection))
    cluster.shell.advance(1000)
    seen.append(cluster.shell.take(connection))
    for topic in CONFIGS:
        log = cluster.partition(topic).log
        seen.append((topic, cluster.partition(topic).high_watermark, log.log_end_offset))
        seen += [segment.file.read(0, segment.size) for segment in log.segments]
    assert (taken > count // 2) == short
    return seen


@pytest.mark.parametrize("seed", range(6))
def test_nothing_differs_from_the_long_way(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    short = ran(monkeypatch, seed, short=True, count=400)
    assert short == ran(monkeypatch, seed, short=False, count=400)
    assert sum(isinstance(part, bytes) and len(part) > 1000 for part in short) > 2


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["t", "x" * 249])
def test_the_answer_is_encoded_as_by_the_general_encoder(
    monkeypatch: pytest.MonkeyPatch, version: int, name: str
) -> None:
    answers = []
    for parse in (records.parse_produce, never):
        monkeypatch.setattr(request, "parse_produce", parse)
        cluster = Cluster()
        cluster.create_topic(name)
        message = cluster.produce_request(name, cluster.batch(b"a", b"b"))
        if version >= 13:
            data = message.topic_data[0].replace(name="", topic_id=cluster.topic_id(name))
            message = message.replace(topic_data=(data,))
        cluster.send(message, version)
        cluster.send(message, version)
        answers.append(cluster.frames())
    assert len(answers[0]) == 2
    assert answers[0] == answers[1]


def test_an_answer_waits_for_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that waits for the disk, then one that need not."""
    cluster = Cluster()
    cluster.create_topic("durable", flush_messages="1")
    cluster.create_topic("plain")
    first = cluster.send(cluster.produce_request("durable", cluster.batch(b"a")), 9)
    second = cluster.send(cluster.produce_request("plain", cluster.batch(b"b")), 9)
    assert cluster.log_end_offset("plain") == 1
    cluster.shell.advance(100)
    found = [int.from_bytes(frame[:4], "big") for frame in cluster.frames()]
    assert found == [first, second]


def test_every_cut_of_a_request_is_left_to_the_general_decoder() -> None:
    cluster = Cluster()
    message = cluster.produce_request("t", cluster.batch(b"value"))
    for version in VERSIONS:
        frame = memoryview(bytearray(request_frame(message, version, 7)[4:]))
        assert records.parse_produce(frame) is not None
        for end in range(len(frame)):
            assert records.parse_produce(frame[:end]) is None
