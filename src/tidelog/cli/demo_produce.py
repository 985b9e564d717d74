"""One Produce request on its way through the wire layer, as a connection will take it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.cli.demo_batches import NOW_MS, sample_batch
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.batch import BatchWalk, assign_offset
from tidelog.wire.batch_validation import ProduceRules, ValidBatch, validate_produced
from tidelog.wire.codec import decode, encode
from tidelog.wire.frame import LENGTH, FrameReader
from tidelog.wire.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from tidelog.wire.request import decode_request, encode_response

VERSION = 9
BASE_OFFSET = 4711
LEADER_EPOCH = 3
SEGMENT_BYTES = 500
"""A network cuts where it likes."""


class Step(NamedTuple):
    """What happened, in which module."""

    module: str
    text: str


def produce_once() -> Iterator[Step]:
    """From the client's bytes to the client's answer; what a log would do is played."""
    sent = _client_bytes()
    frames = FrameReader()
    arrived: list[memoryview] = []
    pieces = 0
    for start in range(0, len(sent), SEGMENT_BYTES):
        piece = sent[start : start + SEGMENT_BYTES]
        frames.buffer()[: len(piece)] = piece
        arrived += frames.received(len(piece))
        pieces += 1
    (frame,) = arrived
    yield Step("wire/frame.py", f"{len(sent):,} bytes in {pieces} pieces are one frame")

    request = decode_request(frame, {ApiKey.PRODUCE: APIS[ApiKey.PRODUCE].versions})
    asker = f"correlation id {request.correlation_id}, from client {request.client_id}"
    yield Step("wire/request.py", f"key {request.key}, version {request.version}, {asker}")

    message = request.message
    assert isinstance(message, ProduceRequest)
    (topic,) = message.topic_data
    (partition,) = topic.partition_data
    assert isinstance(partition.records, memoryview)
    place = f"{topic.name}-{partition.index}"
    yield Step("wire/codec.py", f"{place}: {len(partition.records):,} B of records, not copied")

    verdict = validate_produced(
        partition.records, ProduceRules(), produce_version=request.version, now_ms=NOW_MS
    )
    assert isinstance(verdict, ValidBatch)
    yield Step("wire/batch_validation.py", f"{verdict.batch.record_count} records, all sound")

    assign_offset(partition.records, 0, BASE_OFFSET, LEADER_EPOCH)
    (stored,) = BatchWalk(partition.records)
    offsets = f"offsets {stored.base_offset} to {stored.last_offset}"
    yield Step("wire/batch.py", f"{offsets} written in place, the checksum still holds")

    answer = b"".join(encode_response(request, _answer(topic.name, stored.base_offset)))
    yield Step("wire/request.py", f"{len(answer)} bytes of answer: {_client_reads(answer)}")


def _client_bytes() -> bytes:
    header = RequestHeader(
        request_api_key=ApiKey.PRODUCE,
        request_api_version=VERSION,
        correlation_id=42,
        client_id="demo",
    )
    partition = PartitionProduceData(index=0, records=sample_batch())
    topic = TopicProduceData(name="tides", partition_data=(partition,))
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(topic,))
    header_version = APIS[ApiKey.PRODUCE].request_header_version(VERSION)
    body = encode(header, header_version) + encode(request, VERSION)
    return LENGTH.pack(len(body)) + body


def _answer(topic: str, base_offset: int) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, error_code=0, base_offset=base_offset)
    return ProduceResponse(
        responses=(TopicProduceResponse(name=topic, partition_responses=(partition,)),)
    )


def _client_reads(answer: bytes) -> str:
    header_version = APIS[ApiKey.PRODUCE].response_header_version(VERSION)
    header = ResponseHeader(correlation_id=42)
    prefix = LENGTH.pack(len(answer) - LENGTH.size) + encode(header, header_version)
    assert answer.startswith(prefix)
    response = decode(ProduceResponse, VERSION, answer[len(prefix) :])
    (partition,) = response.responses[0].partition_responses
    return f"error {partition.error_code}, base offset {partition.base_offset}"
