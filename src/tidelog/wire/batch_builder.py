"""Makes record batches: from records, from encoded columns, and from a batch in another codec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.types import Offset
from tidelog.wire.batch import (
    CRC_START,
    HEADER,
    LENGTH_END,
    MAGIC,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    RecordBatch,
    renew_crc,
)
from tidelog.wire.compression import DECOMPRESSED_BYTES_MAX, Compression, compress
from tidelog.wire.records_twin_parse import Header, write_record
from tidelog.wire.records_types import EncodedRecords

if TYPE_CHECKING:
    from typing_extensions import Buffer

assert HEADER.size - CRC_START == 40


def assemble_batch(
    records: Buffer,
    record_count: int,
    *,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: Offset = 0,
    last_offset_delta: int | None = None,
    partition_leader_epoch: int = -1,
    attributes: int = 0,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    """A batch around records that are encoded already. Without last_offset_delta they are
    dense; the codec's bits in attributes are overwritten."""
    payload = compress(compression, records, compression_level) if compression else records
    batch = bytearray(HEADER.size)
    batch += payload
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LENGTH_END,
        partition_leader_epoch,
        MAGIC,
        0,
        attributes & ~0x07 | compression,
        record_count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    )
    renew_crc(batch, 0)
    return batch


def finish_batch(
    encoded: EncodedRecords,
    record_count: int,
    *,
    compression: Compression = Compression.NONE,
    compression_level: int | None = None,
    is_stamped_later: bool = False,
) -> bytearray:
    """A batch of records that were encoded with room for its header: uncompressed, it is made
    where they lie. What a producer stamps later gets its checksum then."""
    if compression:
        return assemble_batch(
            memoryview(encoded.records)[HEADER.size :],
            record_count,
            base_timestamp=encoded.base_timestamp,
            max_timestamp=encoded.max_timestamp,
            compression=compression,
            compression_level=compression_level,
        )
    batch = encoded.records
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LENGTH_END,
        -1,
        MAGIC,
        0,
        0,
        record_count - 1,
        encoded.base_timestamp,
        encoded.max_timestamp,
        NO_PRODUCER_ID,
        -1,
        -1,
        record_count,
    )
    if not is_stamped_later:
        renew_crc(batch, 0)
    return batch


class BatchBuilder:
    """Gathers records for a batch, one by one."""

    def __init__(self) -> None:
        self.record_count = 0
        self.records_size = 0
        """Bytes of the records so far, uncompressed."""
        self._records: list[bytes] = []
        self._base_timestamp = self._max_timestamp = NO_TIMESTAMP

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp: int = NO_TIMESTAMP,
        headers: tuple[Header, ...] = (),
    ) -> None:
        """Add a record at the next offset. The first one's timestamp is the base."""
        if not self._records:
            self._base_timestamp = timestamp
        self._max_timestamp = max(self._max_timestamp, timestamp)
        delta = timestamp - self._base_timestamp
        record = write_record(delta, self.record_count, key, value, headers)
        self._records.append(record)
        self.record_count += 1
        self.records_size += len(record)

    def build(
        self,
        *,
        base_offset: Offset = 0,
        partition_leader_epoch: int = -1,
        attributes: int = 0,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        base_sequence: int = -1,
    ) -> bytearray:
        """The batch; the builder may go on and build a longer one."""
        assert self._records, "a batch has a record"
        return assemble_batch(
            b"".join(self._records),
            self.record_count,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            base_offset=base_offset,
            partition_leader_epoch=partition_leader_epoch,
            attributes=attributes,
            compression=compression,
            compression_level=compression_level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )


def recompress(
    batch: RecordBatch,
    codec: Compression,
    level: int | None = None,
    *,
    bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> bytearray:
    """The same batch in another codec, for topics whose compression.type is not `producer`.
    Raises what decompressing does."""
    return assemble_batch(
        batch.decompressed(bytes_max),
        batch.record_count,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        base_offset=batch.base_offset,
        last_offset_delta=batch.last_offset_delta,
        partition_leader_epoch=batch.partition_leader_epoch,
        attributes=batch.attributes,
        compression=codec,
        compression_level=level,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
    )
