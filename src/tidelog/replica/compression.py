"""A topic's compression.type: batches of another codec are written anew before the append."""

from __future__ import annotations

from tidelog.errors import ErrorCode
from tidelog.log.config import LogConfig
from tidelog.wire.batch import RecordBatch, read_batch
from tidelog.wire.batch_builder import recompress
from tidelog.wire.batch_validation import Refusal, ValidBatch
from tidelog.wire.compression import Compression

CODEC_BITS = 0x07
CODECS = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


LZ4_FAST = 9
"""Kafka's default, by which it means the fast compressor and not level 9 of the other one."""
GZIP_DEFAULT = -1


def _level(codec: Compression, config: LogConfig) -> int | None:
    match codec:
        case Compression.GZIP if config.compression_gzip_level != GZIP_DEFAULT:
            return config.compression_gzip_level
        case Compression.LZ4 if config.compression_lz4_level != LZ4_FAST:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
        case _:
            return None


def recompressed(valid: ValidBatch, config: LogConfig) -> ValidBatch | Refusal:
    """The same records in the topic's codec; a batch that is in it already stays as it is."""
    codec = CODECS[config.compression_type]
    if valid.batch.codec == codec:
        return valid
    data = recompress(valid.batch, codec, _level(codec, config))
    if len(data) > config.max_message_bytes:
        return Refusal(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {len(data)} bytes in codec {config.compression_type}, at most"
            f" {config.max_message_bytes} are allowed",
        )
    batch = read_batch(memoryview(data), 0, len(data))
    assert isinstance(batch, RecordBatch)
    return valid._replace(batch=batch, attributes=valid.attributes & ~CODEC_BITS | codec)
