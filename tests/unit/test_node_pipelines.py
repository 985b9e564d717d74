"""Requests of one connection that follow each other before the first is answered."""

from __future__ import annotations

from tests.unit.node_client import Cluster, create_topic_request, request_frame

from tidelog.wire.messages import produce

PARTITIONS = 400


def wide_produce(cluster: Cluster, text: bytes) -> produce.ProduceRequest:
    """A batch for each of so many partitions that it is appended in pieces."""
    return produce.ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=(
            produce.TopicProduceData(
                name="wide",
                partition_data=tuple(
                    produce.PartitionProduceData(
                        index=index, records=cluster.batch(text + b"%04d" % index)
                    )
                    for index in range(PARTITIONS)
                ),
            ),
        ),
    )


def test_a_frame_stays_as_it_is_until_its_request_is_done() -> None:
    """An answer that was waited for is encoded while a later request is done in pieces, whose
    records are still views of the connection's buffer."""
    cluster = Cluster()
    cluster.create_topic("wide", PARTITIONS)
    cluster.shell.advance(1000)
    cluster.shell.flush_ms = (0, 0)  # between two pieces
    texts = [b"%c" % letter * 3000 for letter in b"ABC"]  # more than a buffer grows by itself
    frames = b""
    for number, text in enumerate(texts):
        frames += request_frame(create_topic_request(f"small-{number}"), 7, 2 * number)
        frames += request_frame(wide_produce(cluster, text), 9, 2 * number + 1)
    cluster.shell.send(cluster.connection, frames)
    cluster.shell.advance(5000)
    answers = [int.from_bytes(frame[:4], "big") for frame in cluster.frames()]
    assert answers == list(range(6))
    for index in range(PARTITIONS):
        assert cluster.values("wide", partition=index) == [text + b"%04d" % index for text in texts]
