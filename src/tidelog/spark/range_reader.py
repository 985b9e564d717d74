"""Reads one range of a partition, on an executor: raw batches from the broker, decoded into Arrow.

What a worker holds at once: the answer that is decoded and the one that is on its way (each up
to `kafka.max.partition.fetch.bytes`), one decompressed batch, and one Arrow batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pyarrow as pa

from tidelog.client import BrokerError, Client, ClientError, TimedOut
from tidelog.client.fetch import Fetched, PartitionReader
from tidelog.client.offsets import EARLIEST, LATEST, list_offsets
from tidelog.client.visibility import Visibility
from tidelog.errors import ErrorCode
from tidelog.spark.arrow import ArrowDecoder
from tidelog.spark.connections import client_for
from tidelog.spark.planner import OffsetRange, range_lost
from tidelog.spark.source_options import SourceOptions
from tidelog.types import Offset
from tidelog.wire.batch import BatchWalk

log = logging.getLogger(__name__)

GONE = frozenset(
    {
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""What a broker says of records that were there when the range was planned."""


def read_range(wanted: OffsetRange, options: SourceOptions) -> Iterator[pa.RecordBatch]:
    """The records of a range, in order of their offsets. Raises DataLoss, or leaves out what is
    gone; raises TimedOut if what must be there does not come."""
    decoder = ArrowDecoder(wanted.partition, options.columns)
    client = client_for(options.client)
    for fetched in _fetch_range(client, wanted, options):
        yield from _decode(fetched, decoder, wanted.end_offset, options.check_crcs)
    yield from decoder.finish()


def _decode(
    fetched: Fetched, decoder: ArrowDecoder, end_offset: Offset, check_crc: bool
) -> Iterator[pa.RecordBatch]:
    # What a batch holds before the offset asked for may have been deleted.
    start_offset = fetched.fetch_offset
    walk = BatchWalk(fetched.records, check_crc=check_crc)
    visibility = Visibility(fetched)
    for batch in fetched.batches_of(walk):
        if batch.base_offset >= end_offset:
            break
        if visibility.admits(batch):
            yield from decoder.feed(batch, start_offset, end_offset)
        walk.position, walk.next_offset = decoder.feed_plain(
            fetched.records, walk.position, walk.next_offset, start_offset, end_offset, check_crc
        )


def _fetch_range(client: Client, wanted: OffsetRange, options: SourceOptions) -> Iterator[Fetched]:
    """The answers that cover a range. It starts again behind what was lost, never before."""
    position: Offset | None = wanted.start_offset
    while position is not None:
        reader = PartitionReader(
            wanted.partition,
            position,
            wanted.end_offset,
            limits=options.limits,
            isolation=options.isolation,
        )
        try:
            yield from _fetch_until_lost(client, reader, options)
            return
        except ClientError as error:
            # Of what stayed unknown for as long as one may wait, the last answer counts.
            answer = error.__cause__ if isinstance(error, TimedOut) else error
            if not isinstance(answer, BrokerError) or answer.code not in GONE:
                raise
            left = wanted._replace(start_offset=reader.position)
            if options.fail_on_data_loss:
                raise range_lost(left, answer.message) from error
            position = _next_available(client, left, options, answer)
        finally:
            client.run(reader.close)


def _fetch_until_lost(
    client: Client, reader: PartitionReader, options: SourceOptions
) -> Iterator[Fetched]:
    timeout_ms = options.poll_timeout_ms
    waits_since = time.monotonic()
    while True:
        position = reader.position
        fetched = client.run(reader.read, timeout_ms=timeout_ms)
        if fetched is None:
            return
        if reader.position > position:
            yield fetched
            waits_since = time.monotonic()
        elif (time.monotonic() - waits_since) * 1000 > timeout_ms:
            raise _nothing_came(reader, fetched, timeout_ms)


def _nothing_came(reader: PartitionReader, fetched: Fetched, timeout_ms: int) -> ClientError:
    """A new leader may not know for a moment how far the log reached. For good, the log ends
    before the range does: it was truncated, or the topic created anew."""
    about = f"partition {reader.partition}"
    waited = f"no record at offset {reader.position} within {timeout_ms} ms"
    if fetched.high_watermark <= reader.position:
        return BrokerError(ErrorCode.OFFSET_OUT_OF_RANGE, waited, about=about)
    return TimedOut(f"{about}: {waited}, though its high watermark is {fetched.high_watermark}")


def _next_available(
    client: Client, left: OffsetRange, options: SourceOptions, error: BrokerError
) -> Offset | None:
    """Where the range and the log still overlap; None if nowhere."""
    first = last = left.start_offset
    if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
        first, last = (
            client.run(list_offsets, {left.partition: end}, isolation=options.isolation)[
                left.partition
            ].offset
            for end in (EARLIEST, LATEST)
        )
    position = max(left.start_offset, first)
    is_gone = position >= min(left.end_offset, last)
    log.warning(
        "partition %s: %s; records of [%d, %d) are skipped",
        left.partition,
        error.message,
        left.start_offset,
        left.end_offset if is_gone else position,
    )
    return None if is_gone else position
