"""The messages that `tidelog demo` sends through the codec."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.api import APIS, ApiKey, request_class, response_class
from tidelog.wire.codec import decode, encode
from tidelog.wire.declare import Message, Struct
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.wire.schema import Array, Field, Nested, fields_of

MEASURED_SECONDS = 0.02
"""How long one operation is repeated to learn what it costs."""

TOPIC_ID = Uuid(bytes(range(16)))
TOPIC_IDS_SINCE = {ApiKey.PRODUCE: 13, ApiKey.FETCH: 13}


class Trip(NamedTuple):
    """One message, to bytes and back."""

    name: str
    version: int
    about: str
    size: int
    encode_us: float
    decode_us: float
    is_same: bool


def microseconds(operation: Callable[[], object]) -> float:
    """What one call costs, by calling it for a while; not the first one, which compiles."""
    operation()
    calls = 0
    began = time.perf_counter()
    while (elapsed := time.perf_counter() - began) < MEASURED_SECONDS:
        operation()
        calls += 1
    return elapsed / max(calls, 1) * 1e6


def trips(batch: bytes) -> Iterator[Trip]:
    """A handful of messages, each in its oldest and its newest version and one between."""
    samples: list[tuple[str, ApiKey, Callable[[int], Message]]] = [
        ("1 partition", ApiKey.PRODUCE, lambda v: _produce(v, batch)),
        ("12 partitions", ApiKey.FETCH, lambda v: _fetch(v, batch)),
        ("100 topics", ApiKey.METADATA, lambda v: _metadata()),
        ("1 member", ApiKey.HEARTBEAT, lambda v: _heartbeat()),
    ]
    for about, key, build in samples:
        first, last = APIS[key].versions
        for version in sorted({first, (first + last) // 2, last}):
            yield _trip(build(version), version, about)


def _trip(message: Message, version: int, about: str) -> Trip:
    cls = type(message)
    data = encode(message, version)
    return Trip(
        name=cls.__name__,
        version=version,
        about=about,
        size=len(data),
        encode_us=microseconds(lambda: encode(message, version)),
        decode_us=microseconds(lambda: decode(cls, version, data)),
        # A field that this version lacks comes back as its default, so bytes are compared.
        is_same=encode(decode(cls, version, data), version) == data,
    )


def _produce(version: int, batch: bytes) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=batch)
    name, topic_id = _topic(ApiKey.PRODUCE, version)
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=(partition,))
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(topic,))


def _fetch(version: int, batch: bytes) -> FetchResponse:
    partitions = tuple(
        PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=1000,
            last_stable_offset=1000,
            aborted_transactions=None,
            records=batch,
        )
        for index in range(12)
    )
    name, topic_id = _topic(ApiKey.FETCH, version)
    topic = FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=partitions)
    return FetchResponse(responses=(topic,))


def _topic(key: ApiKey, version: int) -> tuple[str, Uuid]:
    return ("", TOPIC_ID) if version >= TOPIC_IDS_SINCE[key] else ("tides", ZERO_UUID)


def _metadata() -> MetadataResponse:
    brokers = tuple(
        MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=9092 + node_id)
        for node_id in range(3)
    )
    partitions = tuple(
        MetadataResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=index % 3,
            replica_nodes=(0, 1, 2),
            isr_nodes=(0, 1, 2),
        )
        for index in range(12)
    )
    topics = tuple(
        MetadataResponseTopic(error_code=0, name=f"tides-{number}", partitions=partitions)
        for number in range(100)
    )
    return MetadataResponse(brokers=brokers, topics=topics, controller_id=0)


def _heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="readers", generation_id=7, member_id="reader-1")


def every_message() -> Iterator[tuple[type[Message], int]]:
    """Each request and response in each version: what a broker and a controller speak."""
    for api in APIS.values():
        for cls in (request_class(api.key), response_class(api.key)):
            for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1):
                yield cls, version


def returns_unchanged(cls: type[Message], version: int) -> bool:
    """Whether a message with one element in every array survives the way there and back."""
    message = cls(**_values(cls, version))
    data = encode(message, version)
    return decode(cls, version, data) == message


def _values(cls: type[Struct], version: int) -> dict[str, Any]:
    return {field.name: _value(field, version) for field in fields_of(cls)}


def _value(field: Field, version: int) -> Any:
    if field.is_in(version):
        match field.type:
            case Array(Nested(element)):
                return (element(**_values(element, version)),)
            case Nested(inner):
                return inner(**_values(inner, version))
    return field.default
