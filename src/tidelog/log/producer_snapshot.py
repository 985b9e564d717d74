"""`<offset>.snapshot`: the producers' state below an offset. The checksum tells a whole file from
a torn one."""

from __future__ import annotations

import struct

from tidelog.log.producer_state import (
    NO_OFFSET,
    SEQUENCE_MAX,
    KnownBatch,
    Producer,
    ProducerStates,
)
from tidelog.wire import records

VERSION = 1
_HEADER = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
assert _ENTRY.size == 46


def write_snapshot(states: ProducerStates) -> bytes:
    """One batch a producer, Kafka's format."""
    parts = [_COUNT.pack(len(states))]
    for producer in states.active():
        last = producer.batches[-1] if producer.batches else None
        first_offset = producer.current_txn_first_offset
        parts.append(
            _ENTRY.pack(
                producer.producer_id,
                producer.producer_epoch,
                producer.last_sequence,
                producer.last_offset,
                last.offset_delta if last else 0,
                producer.last_timestamp,
                producer.coordinator_epoch,
                NO_OFFSET if first_offset is None else first_offset,
            )
        )
    body = b"".join(parts)
    return _HEADER.pack(VERSION, records.crc32c(body)) + body


def read_snapshot(content: bytes) -> list[Producer] | None:
    """None if the file is torn or damaged."""
    if len(content) < _HEADER.size + _COUNT.size:
        return None
    version, crc = _HEADER.unpack_from(content)
    body = memoryview(content)[_HEADER.size :]
    (count,) = _COUNT.unpack_from(body)
    size = _COUNT.size + count * _ENTRY.size
    if version != VERSION or count < 0 or len(body) != size or records.crc32c(body) != crc:
        return None
    return [_producer(*entry) for entry in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _producer(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    current_txn_first_offset: int,
) -> Producer:
    producer = Producer(producer_id, producer_epoch)
    producer.last_timestamp = timestamp
    producer.coordinator_epoch = coordinator_epoch
    if current_txn_first_offset != NO_OFFSET:
        producer.current_txn_first_offset = current_txn_first_offset
    if last_offset != NO_OFFSET:
        base_sequence = (last_sequence - offset_delta) & SEQUENCE_MAX
        producer.batches.append(
            KnownBatch(base_sequence, last_sequence, last_offset, offset_delta, timestamp)
        )
    return producer
