"""The four codecs of record batches, in the framings that Java clients and librdkafka use.

Reading takes every framing they send and never makes more than the limit it is given, whatever
the data claims. Writing makes what both of them read without special cases:

    gzip    one member (librdkafka stops for good inside a second one)
    snappy  xerial framing in chunks of 32 KiB, which is what Java writes; every client since
            the first has to read it, and a chunk's size bounds what a reader allocates
    lz4     one frame of independent 64 KiB blocks without checksums, header 60 40 82;
            Java refuses dependent blocks, which is what a ready-made frame writer makes
    zstd    one frame
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

DECOMPRESSED_BYTES_MAX = 128 << 20
"""The most that one batch may decompress to. A megabyte of well-chosen bytes could else become
tens of gigabytes."""

_FIRST_ROOM = 64 << 10
_ROOM_FACTOR = 8
"""Room for output starts at this many times the input, and grows fourfold while it is too small."""

_ROOM_ENDED = "failed to write whole buffer"
"""How the library says that the room was too small; it has one exception for all failures."""

_SNAPPY_RATIO_MAX = 32
"""A snappy block's densest element makes 64 bytes of 3, so a greater claim is false."""

_GZIP_PIECE = 8 << 10
"""Read at once: what is behind the end of a member is copied, and there may be many members."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_CHUNK = 32 << 10

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_HEADER = _LZ4_MAGIC + b"\x60\x40\x82"
_LZ4_CHUNK = 64 << 10
_LZ4_RAW = 1 << 31

_BE32 = struct.Struct(">i")
_LE32 = struct.Struct("<I")


class Compression(IntEnum):
    """Bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


LEVELS: dict[Compression, range] = {
    Compression.GZIP: range(1, 10),
    Compression.LZ4: range(1, 18),
    Compression.ZSTD: range(-131072, 23),
}
"""The levels that topic configs allow; gzip's -1 stands for no level."""


class UndecodableData(ValueError):
    """The bytes are not what their codec writes."""


class DecompressedTooLarge(ValueError):
    """There is more in them than the reader wants to hold."""


def decompress(codec: Compression, data: Buffer, *, bytes_max: int) -> memoryview:
    """The data's content; data itself without a codec, whatever its size.
    Raises UndecodableData or DecompressedTooLarge."""
    view = memoryview(data)
    return view if codec is Compression.NONE else _READERS[codec](view, bytes_max)


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """The data as one compressed block; without a level the codec's own default."""
    assert level is None or level in LEVELS.get(codec, ())
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return zlib.compress(data, -1 if level is None else level, wbits=31)
        case Compression.SNAPPY:
            return _write_xerial(memoryview(data))
        case Compression.LZ4:
            return _write_lz4(memoryview(data), level)
        case Compression.ZSTD:
            from cramjam import zstd

            return bytes(zstd.compress(data, level))


def _read_gzip(data: memoryview, bytes_max: int) -> memoryview:
    content = bytearray()
    position = 0
    member = zlib.decompressobj(wbits=31)
    while position < len(data):
        if member.eof:
            member = zlib.decompressobj(wbits=31)
        piece = data[position : position + _GZIP_PIECE]
        try:
            # One byte beyond the limit tells "as much as allowed" from "more".
            content += member.decompress(piece, bytes_max + 1 - len(content))
        except zlib.error as error:
            raise UndecodableData(str(error)) from None
        if len(content) > bytes_max:
            raise DecompressedTooLarge
        position += len(piece) - len(member.unused_data)
    if not member.eof:
        raise UndecodableData("gzip: truncated")
    return memoryview(content)


def _read_snappy(data: memoryview, bytes_max: int) -> memoryview:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return memoryview(_read_snappy_block(data, bytes_max))
    content = bytearray()
    position = len(_XERIAL_HEADER)
    if len(data) < position:
        raise UndecodableData("snappy: truncated header")
    while position < len(data):
        if len(data) - position < _BE32.size:
            raise UndecodableData("snappy: truncated chunk")
        (size,) = _BE32.unpack_from(data, position)
        position += _BE32.size
        if not 0 <= size <= len(data) - position:
            raise UndecodableData("snappy: a chunk's size is out of range")
        chunk = data[position : position + size]
        content += _read_snappy_block(chunk, bytes_max - len(content))
        position += size
    return memoryview(content)


def _read_snappy_block(block: memoryview, bytes_max: int) -> bytearray:
    from cramjam import DecompressionError, snappy

    try:
        size = snappy.decompress_raw_len(block)
        if size > len(block) * _SNAPPY_RATIO_MAX:
            raise UndecodableData("snappy: claims more than its bytes can hold")
        if size > bytes_max:
            raise DecompressedTooLarge
        content = bytearray(size)
        snappy.decompress_raw_into(block, content)
    except DecompressionError as error:
        raise UndecodableData(str(error)) from None
    return content


def _write_xerial(data: memoryview) -> bytes:
    from cramjam import snappy

    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_CHUNK):
        block = bytes(snappy.compress_raw(data[start : start + _XERIAL_CHUNK]))
        parts += _BE32.pack(len(block)), block
    return b"".join(parts)


def _read_lz4(data: memoryview, bytes_max: int) -> memoryview:
    from cramjam import lz4

    _check_lz4_frame(data)
    return _read_growing(lz4.decompress_into, data, bytes_max)


def _check_lz4_frame(data: memoryview) -> None:
    """Refuse what Java refuses or overlooks and the library takes: dependent blocks, and
    anything after the first frame. The library checks the rest, checksums among it."""
    if len(data) < len(_LZ4_HEADER) or data[:4] != _LZ4_MAGIC:
        raise UndecodableData("lz4: not a frame")
    flags = data[4]
    if not flags & 0x20:
        raise UndecodableData("lz4: blocks depend on each other")
    if flags & 0x01:
        raise UndecodableData("lz4: needs a dictionary")
    position = len(_LZ4_HEADER) + (8 if flags & 0x08 else 0)
    while position + _LE32.size <= len(data):
        (size,) = _LE32.unpack_from(data, position)
        position += _LE32.size
        if size == 0:
            if position + (4 if flags & 0x04 else 0) != len(data):
                break
            return
        position += (size & ~_LZ4_RAW) + (4 if flags & 0x10 else 0)
    raise UndecodableData("lz4: the data does not end with its frame")


def _write_lz4(data: memoryview, level: int | None) -> bytes:
    from cramjam import lz4

    parts = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_CHUNK):
        chunk = data[start : start + _LZ4_CHUNK]
        if level is None:
            block = bytes(lz4.compress_block(chunk, store_size=False))
        else:
            block = bytes(
                lz4.compress_block(
                    chunk, mode="high_compression", compression=level, store_size=False
                )
            )
        if len(block) < len(chunk):
            parts += _LE32.pack(len(block)), block
        else:
            parts += _LE32.pack(len(chunk) | _LZ4_RAW), bytes(chunk)
    parts.append(bytes(4))
    return b"".join(parts)


def _read_zstd(data: memoryview, bytes_max: int) -> memoryview:
    from cramjam import zstd

    return _read_growing(zstd.decompress_into, data, bytes_max)


def _read_growing(
    decompress_into: Callable[[memoryview, bytearray], int], data: memoryview, bytes_max: int
) -> memoryview:
    """Decompress into ever more room, as the data needs it: what it claims is not asked for."""
    from cramjam import DecompressionError

    room = max(_FIRST_ROOM, len(data) * _ROOM_FACTOR)
    while True:
        # One byte beyond the limit tells "as much as allowed" from "more".
        content = bytearray(min(room, bytes_max + 1))
        try:
            size = decompress_into(data, content)
        except DecompressionError as error:
            if _ROOM_ENDED not in str(error):
                raise UndecodableData(str(error)) from None
            if room > bytes_max:
                raise DecompressedTooLarge from None
            room *= 4
            continue
        if size > bytes_max:
            raise DecompressedTooLarge
        return memoryview(content)[:size]


_READERS: dict[Compression, Callable[[memoryview, int], memoryview]] = {
    Compression.GZIP: _read_gzip,
    Compression.SNAPPY: _read_snappy,
    Compression.LZ4: _read_lz4,
    Compression.ZSTD: _read_zstd,
}
