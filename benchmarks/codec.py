"""The codec against kio, whose decoder is Rust and whose encoder is Python, in one run.

Each row interleaves both and keeps each one's best. Exits 1 if a target is missed.
"""

from __future__ import annotations

import io
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kio.schema.fetch.v13 import response as kio_fetch
from kio.schema.metadata.v12 import response as kio_metadata
from kio.schema.produce.v9 import request as kio_produce_request
from kio.schema.produce.v9 import response as kio_produce
from kio.serial import entity_reader, entity_writer
from rich.console import Console
from rich.table import Table

from tidelog.types import Uuid
from tidelog.wire.codec import decoder, encoder
from tidelog.wire.codec import encode as encode_whole
from tidelog.wire.declare import Message
from tidelog.wire.messages import fetch, metadata, produce

ROUNDS = 7
SECONDS_A_ROUND = 0.1
IMPORT_MS_MAX = 60
DECODE_RATIO_MIN = 1 / 3
ENCODE_RATIO_MIN = 8


class Row(NamedTuple):
    name: str
    ours: Callable[[], object]
    kio: Callable[[], object]
    ratio: float
    """Kio's time over ours must be at least this."""


def seconds_each(function: Callable[[], object]) -> float:
    count, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < SECONDS_A_ROUND:
        for _ in range(10):
            function()
        count += 10
    return elapsed / count


def encoding_row(name: str, message: Message, version: int, kio_class: type[Any]) -> Row:
    """Both encode the same message; kio's is made by decoding our bytes."""
    encode = encoder(type(message), version)
    kio_message, _ = entity_reader(kio_class)(encode_whole(message, version), 0)
    write = entity_writer(kio_class)

    def ours() -> object:
        parts: list[Any] = []
        encode(message, parts)
        return b"".join(parts)

    def theirs() -> object:
        buffer = io.BytesIO()
        write(buffer, kio_message)
        return buffer.getvalue()

    assert ours() == theirs()
    return Row(name, ours, theirs, ENCODE_RATIO_MIN)


def produce_request_rows() -> list[Row]:
    rows = []
    for size in (150, 16_000):
        request = produce.ProduceRequest(
            transactional_id=None,
            acks=-1,
            timeout_ms=30_000,
            topic_data=(
                produce.TopicProduceData(
                    name="orders",
                    partition_data=(produce.PartitionProduceData(index=3, records=bytes(size)),),
                ),
            ),
        )
        frame = encode_whole(request, 9)
        view, decode = memoryview(frame), decoder(produce.ProduceRequest, 9)
        read = entity_reader(kio_produce_request.ProduceRequest)
        rows.append(
            Row(
                f"decode Produce v9 request, {size} B of records",
                lambda decode=decode, view=view: decode(view, 0),
                lambda read=read, frame=frame: read(frame, 0),
                DECODE_RATIO_MIN,
            )
        )
    return rows


def produce_response_row() -> Row:
    response = produce.ProduceResponse(
        responses=(
            produce.TopicProduceResponse(
                name="orders",
                partition_responses=(
                    produce.PartitionProduceResponse(
                        index=3, error_code=0, base_offset=123_456, log_start_offset=0
                    ),
                ),
            ),
        ),
    )
    return encoding_row("encode Produce v9 response", response, 9, kio_produce.ProduceResponse)


def fetch_rows() -> list[Row]:
    rows = []
    for partitions in (1, 12, 100):
        response = fetch.FetchResponse(
            responses=(
                fetch.FetchableTopicResponse(
                    topic_id=Uuid(bytes(range(16))),
                    partitions=tuple(
                        fetch.PartitionData(
                            partition_index=index,
                            error_code=0,
                            high_watermark=1_000_000 + index,
                            last_stable_offset=1_000_000 + index,
                            log_start_offset=0,
                            aborted_transactions=None,
                            records=b"",
                        )
                        for index in range(partitions)
                    ),
                ),
            ),
        )
        name = f"encode Fetch v13 response, {partitions} partitions"
        rows.append(encoding_row(name, response, 13, kio_fetch.FetchResponse))
    return rows


def metadata_row() -> Row:
    response = metadata.MetadataResponse(
        brokers=tuple(
            metadata.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=9092 + node)
            for node in (1, 2, 3)
        ),
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        controller_id=1,
        topics=tuple(
            metadata.MetadataResponseTopic(
                error_code=0,
                name=f"topic-{number}",
                topic_id=Uuid(number.to_bytes(16, "big")),
                partitions=tuple(
                    metadata.MetadataResponsePartition(
                        error_code=0,
                        partition_index=index,
                        leader_id=1 + index % 3,
                        leader_epoch=5,
                        replica_nodes=(1, 2, 3),
                        isr_nodes=(1, 2, 3),
                    )
                    for index in range(12)
                ),
            )
            for number in range(1, 101)
        ),
    )
    name = "encode Metadata v12 response, 100 topics x 12"
    return encoding_row(name, response, 12, kio_metadata.MetadataResponse)


def import_ms(module: str) -> float:
    """The best of several fresh interpreters."""
    program = (
        f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    )
    runs = [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(ROUNDS)]
    return min(runs) * 1000


def main() -> int:
    table = Table("message", "Tidelog", "kio 0.6.5", "kio / Tidelog", "target", title="Codec")
    missed = False
    rows = [*produce_request_rows(), produce_response_row(), *fetch_rows(), metadata_row()]
    for row in rows:
        ours = theirs = float("inf")
        for _ in range(ROUNDS):
            ours = min(ours, seconds_each(row.ours))
            theirs = min(theirs, seconds_each(row.kio))
        is_met = theirs / ours >= row.ratio
        missed |= not is_met
        table.add_row(
            row.name,
            f"{ours * 1e6:.2f} us",
            f"{theirs * 1e6:.2f} us",
            f"{theirs / ours:.2f}",
            f"{'met' if is_met else 'MISSED'}, {row.ratio:.2f}",
        )
    base, wire = import_ms("asyncio"), import_ms("asyncio, tidelog.wire")
    is_met = wire - base <= IMPORT_MS_MAX
    missed |= not is_met
    table.add_row(
        "import tidelog.wire beyond asyncio",
        f"{wire - base:.1f} ms",
        "",
        "",
        f"{'met' if is_met else 'MISSED'}, {IMPORT_MS_MAX} ms",
    )
    Console().print(table)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
