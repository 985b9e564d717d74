"""Produce: what is appended, what is refused, and who gets which answer when."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from tests.unit.node_client import TOPIC, Cluster, parse_response

from tidelog.errors import ErrorCode
from tidelog.events import Flush, StopProcess
from tidelog.types import ZERO_UUID
from tidelog.wire.batch import CONTROL, TRANSACTIONAL, BatchWalk, renew_crc
from tidelog.wire.compression import Compression
from tidelog.wire.declare import Message
from tidelog.wire.messages import api_versions, produce

PRODUCE, API_VERSIONS = 0, 18
DAY_MS = 86_400_000


def with_header(batch: bytes, form: str, position: int, value: int) -> bytes:
    """The batch with one header field changed and its checksum right."""
    changed = bytearray(batch)
    struct.pack_into(form, changed, position, value)
    renew_crc(changed, 0)
    return bytes(changed)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create_topic("t")
    return cluster


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_answers(cluster: Cluster, version: int) -> None:
    data = produce.PartitionProduceData(index=0, records=cluster.batch(b"a", b"b"))
    topic = produce.TopicProduceData(
        name="t" if version < 13 else "",
        topic_id=cluster.topic_id("t") if version >= 13 else ZERO_UUID,
        partition_data=(data,),
    )
    request = produce.ProduceRequest(
        transactional_id=None, acks=1, timeout_ms=1, topic_data=(topic,)
    )
    cluster.produce("t", b"0")
    (answered,) = cluster.ask(request, version).responses
    (partition,) = answered.partition_responses
    assert (partition.error_code, partition.base_offset) == (0, 1)
    assert partition.log_append_time_ms == -1
    assert partition.log_start_offset == (0 if version >= 5 else -1)
    assert cluster.values("t") == [b"0", b"a", b"b"]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_of_the_old_formats_close_the_connection(version: int, cluster: Cluster) -> None:
    header = struct.pack(">hhi", PRODUCE, version, 1) + struct.pack(">h", -1)
    cluster.shell.send(cluster.connection, struct.pack(">i", len(header)) + header)
    assert cluster.connection in cluster.shell.closed


@pytest.mark.parametrize("acks", [-2, 2, 5])
def test_other_acks_are_refused_and_nothing_is_appended(acks: int, cluster: Cluster) -> None:
    answer = cluster.produce_records("t", cluster.batch(b"a"), acks=acks)
    assert answer.error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert answer.base_offset == -1
    assert cluster.log_end_offset("t") == 0


def test_acks_0_gets_no_answer(cluster: Cluster) -> None:
    cluster.send(cluster.produce_request("t", cluster.batch(b"a"), acks=0), 9)
    cluster.shell.advance(5000)
    assert cluster.frames() == []
    assert cluster.log_end_offset("t") == 1
    assert cluster.produce("t", b"b").base_offset == 1


def test_an_error_with_acks_0_closes_the_connection(cluster: Cluster) -> None:
    cluster.send(cluster.produce_request("unknown", cluster.batch(b"a"), acks=0), 9)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in cluster.shell.closed[cluster.connection]
    assert cluster.frames() == []


REFUSED: dict[str, tuple[Any, ErrorCode]] = {
    "nothing": (lambda batch: b"", ErrorCode.INVALID_RECORD),
    "null": (lambda batch: None, ErrorCode.INVALID_RECORD),
    "half a batch": (lambda batch: batch[:-1], ErrorCode.INVALID_RECORD),
    "two batches": (lambda batch: batch + batch, ErrorCode.INVALID_RECORD),
    "magic 1": (lambda batch: batch[:16] + b"\x01" + batch[17:], ErrorCode.INVALID_RECORD),
    "magic 3": (lambda batch: batch[:16] + b"\x03" + batch[17:], ErrorCode.CORRUPT_MESSAGE),
    "flipped byte": (
        lambda batch: batch[:-1] + bytes([batch[-1] ^ 1]),
        ErrorCode.CORRUPT_MESSAGE,
    ),
    "base offset": (lambda batch: with_header(batch, ">q", 0, 7), ErrorCode.INVALID_RECORD),
    "control": (lambda batch: with_header(batch, ">h", 21, CONTROL), ErrorCode.INVALID_RECORD),
    "count": (lambda batch: with_header(batch, ">i", 57, 2), ErrorCode.INVALID_RECORD),
    "delta": (lambda batch: with_header(batch, ">i", 23, 4), ErrorCode.INVALID_RECORD),
    "codec 5": (lambda batch: with_header(batch, ">h", 21, 5), ErrorCode.UNKNOWN_SERVER_ERROR),
    "not gzip": (lambda batch: with_header(batch, ">h", 21, 1), ErrorCode.UNKNOWN_SERVER_ERROR),
    "no sequence": (lambda batch: with_header(batch, ">q", 43, 9), ErrorCode.INVALID_RECORD),
    "transactional": (
        lambda batch: with_header(batch, ">h", 21, TRANSACTIONAL),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_leaves_the_log_as_it_was(what: str, cluster: Cluster) -> None:
    cluster.produce("t", b"before")
    change, code = REFUSED[what]
    answer = cluster.produce_records("t", change(cluster.batch(b"a")))
    assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
    assert cluster.log_end_offset("t") == 1
    assert cluster.partition("t").log.size_bytes == len(cluster.batch(b"before"))
    assert cluster.produce("t", b"after").base_offset == 1


def test_a_transaction_without_a_coordinator_is_refused(cluster: Cluster) -> None:
    batch = cluster.batch(
        b"a", attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, base_sequence=0
    )
    answer = cluster.produce_records("t", batch, transactional_id="x")
    assert answer.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert cluster.partition("t").last_stable_offset == cluster.log_end_offset("t") == 0


@pytest.fixture
def two() -> Cluster:
    """With a topic of two partitions."""
    two = Cluster()
    two.create_topic("t", 2)
    return two


def to_partitions(*topics: list[tuple[int, bytes]], acks: int = -1) -> Message:
    """A Produce to topic t, each of whose topics names the partitions that it says."""
    data = tuple(
        produce.TopicProduceData(
            name="t",
            partition_data=tuple(
                produce.PartitionProduceData(index=index, records=records)
                for index, records in partitions
            ),
        )
        for partitions in topics
    )
    return produce.ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1, topic_data=data)


def test_of_a_partition_named_twice_the_last_records_count(two: Cluster) -> None:
    """As in Apache Kafka; and one that is not named twice beside it gets its own."""
    first, second, other = (two.batch(value) for value in (b"1", b"2", b"other"))
    for request in (
        to_partitions([(0, first), (1, other), (0, second)]),
        to_partitions([(0, first)], [(1, other), (0, second)]),
    ):
        (topic,) = two.ask(request, 9).responses
        assert [p.index for p in topic.partition_responses] == [0, 1]
        assert [p.error_code for p in topic.partition_responses] == [0, 0]
    assert two.values("t") == [b"2", b"2"]
    assert two.values("t", partition=1) == [b"other"] * 2


def test_one_transactional_batch_refuses_the_whole_request(two: Cluster) -> None:
    fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    batch = two.batch(b"a", attributes=TRANSACTIONAL, **fields)
    both = [(0, batch), (1, two.batch(b"b"))]
    (topic,) = two.ask(to_partitions(both), 9).responses
    assert [p.error_code for p in topic.partition_responses] == [53, 53]
    two.send(to_partitions(both, acks=0), 9)
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in two.shell.closed[two.connection]
    assert (two.log_end_offset("t"), two.log_end_offset("t", 1)) == (0, 0)


def test_too_large_too_old_too_new_and_without_a_key() -> None:
    cluster = Cluster()
    cluster.create_topic("small", max_message_bytes="100")
    cluster.create_topic("strict", message_timestamp_before_max_ms=str(DAY_MS))
    cluster.create_topic("compact", cleanup_policy="compact")
    cluster.create_topic("segment", segment_bytes=str(1 << 20), max_message_bytes=str(2 << 20))
    wall_ms = cluster.shell.now.wall_ms
    too_large = cluster.produce("small", bytes(100))
    too_old = cluster.produce("strict", b"a", b"b", timestamp=wall_ms - DAY_MS - 1)
    too_new = cluster.produce("strict", b"a", timestamp=wall_ms + 3_600_001)
    keyless = cluster.produce("compact", b"a", b"b", key=None)
    too_long = cluster.produce("segment", bytes(1 << 20))
    assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert too_old.error_code == too_new.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in too_old.record_errors] == [0, 1]
    assert keyless.error_code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in keyless.record_errors] == [0, 1]
    assert too_long.error_code == ErrorCode.RECORD_LIST_TOO_LARGE
    for topic in ("small", "strict", "compact", "segment"):
        assert cluster.log_end_offset(topic) == 0
    assert cluster.produce("strict", b"a", timestamp=wall_ms - DAY_MS).error_code == 0


def test_unknown_topics_partitions_and_ids(cluster: Cluster) -> None:
    batch = cluster.batch(b"a")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.produce_records("u", batch).error_code == unknown
    assert cluster.produce_records("t", batch, partition=1).error_code == unknown
    assert cluster.produce_records("t", batch, partition=-1).error_code == unknown
    for topic_id in (ZERO_UUID, b"x" * 16):
        data = produce.PartitionProduceData(index=0, records=batch)
        topic = produce.TopicProduceData(topic_id=topic_id, partition_data=(data,))  # type: ignore[arg-type]
        request = produce.ProduceRequest(
            transactional_id=None, acks=1, timeout_ms=1, topic_data=(topic,)
        )
        (answer,) = cluster.ask(request, 13).responses
        assert answer.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert answer.topic_id == topic_id


def test_one_bad_partition_does_not_stop_the_others(cluster: Cluster) -> None:
    cluster.create_topic("two", 2)
    good = produce.PartitionProduceData(index=1, records=cluster.batch(b"a"))
    bad = produce.PartitionProduceData(index=0, records=b"")
    topics = (
        produce.TopicProduceData(name="two", partition_data=(bad, good)),
        produce.TopicProduceData(name="t", partition_data=(bad,)),
    )
    request = produce.ProduceRequest(
        transactional_id=None, acks=-1, timeout_ms=1, topic_data=topics
    )
    first, second = cluster.ask(request, 9).responses
    assert [(a.index, a.error_code) for a in first.partition_responses] == [
        (0, ErrorCode.INVALID_RECORD),
        (1, ErrorCode.NONE),
    ]
    assert second.partition_responses[0].error_code == ErrorCode.INVALID_RECORD
    assert cluster.log_end_offset("two", 1) == 1


def idempotent(cluster: Cluster, sequence: int, epoch: int = 0, *values: bytes) -> Any:
    return cluster.produce(
        "t", *(values or (b"v",)), producer_id=7, producer_epoch=epoch, base_sequence=sequence
    )


def test_the_last_five_batches_are_recognised(cluster: Cluster) -> None:
    for sequence in range(7):
        assert idempotent(cluster, sequence).base_offset == sequence
    for sequence in range(2, 7):
        assert (idempotent(cluster, sequence).base_offset, cluster.log_end_offset("t")) == (
            sequence,
            7,
        )
    assert idempotent(cluster, 1).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert cluster.log_end_offset("t") == 7


def test_a_gap_and_an_old_epoch_are_refused(cluster: Cluster) -> None:
    idempotent(cluster, 0, 3)
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert idempotent(cluster, 2, 3).error_code == out_of_order
    assert idempotent(cluster, 1, 2).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert idempotent(cluster, 1, 4).error_code == out_of_order
    assert cluster.log_end_offset("t") == 1
    assert idempotent(cluster, 0, 4).base_offset == 1
    assert idempotent(cluster, 1, 3).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_duplicates_are_known_after_a_restart_and_after_two_kills(cluster: Cluster) -> None:
    for sequence in range(0, 10, 2):
        idempotent(cluster, sequence, 0, b"a", b"b")
    cluster.restart()
    cluster.kill()
    cluster.kill()
    for sequence in range(0, 10, 2):
        answer = idempotent(cluster, sequence, 0, b"a", b"b")
        assert (answer.error_code, answer.base_offset) == (0, sequence)
    assert cluster.log_end_offset("t") == 10
    assert idempotent(cluster, 10).base_offset == 10


def test_log_append_time_overwrites_the_clients_time() -> None:
    cluster = Cluster()
    cluster.create_topic("t", message_timestamp_type="LogAppendTime")
    cluster.shell.advance(500)
    answer = cluster.produce("t", b"a", timestamp=5)
    assert answer.log_append_time_ms == cluster.shell.now.wall_ms
    (batch,) = BatchWalk(cluster.fetch("t", 0).records)
    assert batch.max_timestamp == cluster.shell.now.wall_ms
    assert batch.crc_is_right()


def test_answers_keep_the_order_of_requests(cluster: Cluster) -> None:
    """A long poll holds back the answers behind it, not the requests."""
    cluster.send(cluster.fetch_request("t", 0, max_wait_ms=700, min_bytes=1000), 12)
    produced = cluster.send(cluster.produce_request("t", cluster.batch(b"a")), 9)
    software = api_versions.ApiVersionsRequest(
        client_software_name="a", client_software_version="1"
    )
    asked = cluster.send(software)
    assert cluster.log_end_offset("t") == 1
    assert cluster.frames() == []
    cluster.shell.advance(700)
    fetched, second, third = cluster.frames()
    assert parse_response(1, 12, fetched)[1].responses[0].partitions[0].high_watermark == 1
    assert parse_response(PRODUCE, 9, second)[0] == produced
    assert parse_response(API_VERSIONS, None, third)[0] == asked


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("uncompressed", Compression.NONE),
        ("gzip", Compression.GZIP),
        ("snappy", Compression.SNAPPY),
        ("lz4", Compression.LZ4),
        ("zstd", Compression.ZSTD),
    ],
)
def test_a_topics_codec_is_that_of_its_batches(name: str, codec: Compression) -> None:
    cluster = Cluster()
    cluster.create_topic("t", compression_type=name)
    for sent in Compression:
        cluster.produce("t", bytes(300), b"x", compression=sent)
    batches = list(BatchWalk(cluster.fetch("t", 0).records))
    assert [batch.codec for batch in batches] == [codec] * 5
    assert all(batch.crc_is_right() for batch in batches)
    assert [batch.base_offset for batch in batches] == [0, 2, 4, 6, 8]
    assert cluster.values("t") == [bytes(300), b"x"] * 5


def test_a_batch_in_the_topics_codec_already_stays_as_it_is() -> None:
    cluster = Cluster()
    cluster.create_topic("t", compression_type="gzip", compression_gzip_level="9")
    sent = cluster.batch(b"ab" * 500, compression=Compression.GZIP, compression_level=1)
    cluster.produce_records("t", sent)
    assert bytes(cluster.fetch("t", 0).records)[61:] == sent[61:]
    other = cluster.batch(b"ab" * 500, compression=Compression.GZIP, compression_level=9)
    assert other[61:] != sent[61:]


def test_a_batch_that_grows_beyond_the_limit_by_the_topics_codec_is_refused() -> None:
    cluster = Cluster()
    cluster.create_topic("t", compression_type="uncompressed", max_message_bytes="1000")
    answer = cluster.produce("t", bytes(5000), compression=Compression.GZIP)
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert cluster.log_end_offset("t") == 0


def flushes(cluster: Cluster) -> int:
    return sum(isinstance(effect, Flush) for effect in cluster.shell.effects)


@pytest.mark.parametrize("acks", [1, -1])
def test_flush_messages_makes_the_answer_wait_for_the_disk(acks: int) -> None:
    cluster = Cluster()
    cluster.create_topic("t", flush_messages="2")
    cluster.shell.advance(3000)
    log = cluster.partition("t").log
    assert cluster.produce("t", b"a").base_offset == 0
    assert log.recovery_point == 0
    before = flushes(cluster)
    cluster.send(cluster.produce_request("t", cluster.batch(b"b"), acks=acks), 9)
    cluster.send(cluster.produce_request("t", cluster.batch(b"c"), acks=acks), 9)
    assert cluster.frames() == []
    assert flushes(cluster) == before + 1
    cluster.shell.advance(10)
    answers = cluster.take(PRODUCE, 9)
    assert [a.responses[0].partition_responses[0].base_offset for a in answers] == [1, 2]
    assert log.recovery_point == 3
    cluster.crash()
    assert cluster.values("t") == [b"a", b"b", b"c"]


def test_a_flush_that_does_not_come_times_out() -> None:
    cluster = Cluster()
    cluster.create_topic("t", flush_messages="1")
    cluster.shell.advance(3000)
    request = cluster.produce_request("t", cluster.batch(b"a"), timeout_ms=1)
    cluster.shell.flush_ms = (50, 50)
    cluster.send(request, 9)
    cluster.shell.advance(2)
    (answer,) = cluster.take(PRODUCE, 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    cluster.shell.advance(100)
    assert cluster.values("t") == [b"a"]


def test_flush_messages_can_be_set_and_unset(cluster: Cluster) -> None:
    cluster.shell.advance(3000)
    assert not cluster.configure(TOPIC, "t", flush_messages="1").error_code
    cluster.send(cluster.produce_request("t", cluster.batch(b"b")), 9)
    assert cluster.frames() == []
    cluster.shell.advance(10)
    assert len(cluster.frames()) == 1
    assert not cluster.configure(TOPIC, "t", operation=1, flush_messages=None).error_code
    cluster.send(cluster.produce_request("t", cluster.batch(b"c")), 9)
    assert len(cluster.frames()) == 1


def test_a_flush_that_fails_stops_the_process() -> None:
    cluster = Cluster()
    cluster.create_topic("t", flush_messages="1")
    cluster.shell.advance(3000)
    cluster.shell.disk.fault = lambda operation, path: (
        OSError(5, "no such luck") if operation == "flush" and "t-0" in path else None
    )
    cluster.send(cluster.produce_request("t", cluster.batch(b"a")), 9)
    cluster.shell.advance(100)
    assert isinstance(cluster.shell.effects[-1], StopProcess)
    assert "data is offline" in (cluster.shell.stopped or "")
    assert cluster.frames() == []


@pytest.mark.parametrize(("version", "code"), [(6, 76), (7, 0)])
def test_zstd_needs_version_7(version: int, code: int, cluster: Cluster) -> None:
    batch = cluster.batch(b"a", compression=Compression.ZSTD)
    assert cluster.produce_records("t", batch, version).error_code == code


def test_flush_ms_bounds_what_a_power_failure_takes() -> None:
    cluster = Cluster()
    cluster.create_topic("t", flush_ms="5000")
    cluster.shell.advance(3000)
    log = cluster.partition("t").log
    assert cluster.produce("t", b"a").base_offset == 0
    cluster.shell.advance(500)
    assert log.recovery_point == 0
    cluster.shell.advance(6500)
    assert log.recovery_point == 1
    cluster.produce("t", b"b")
    cluster.crash()
    assert cluster.values("t") == [b"a"]
