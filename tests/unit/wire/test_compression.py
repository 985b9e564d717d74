"""Every framing that clients send is read, what we send is what they read, nothing explodes."""

from __future__ import annotations

import contextlib
import gzip
import struct
import tracemalloc
import zlib
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.compression import (
    DECOMPRESSED_BYTES_MAX,
    LEVELS,
    Compression,
    DecompressedTooLarge,
    UndecodableData,
    compress,
    decompress,
)

CODECS = [codec for codec in Compression if codec]
TEXT = b"".join(b"%d bottles of beer on the wall, " % i for i in range(6000))  # 200 KB
NOISE = b"".join(zlib.crc32(i.to_bytes(4, "big")).to_bytes(4, "big") for i in range(30_000))
ZEROS = bytes(9 << 20)
CONTENTS = {"empty": b"", "byte": b"x", "text": TEXT, "zeros": bytes(300_000), "noise": NOISE}


def read(codec: Compression, data: bytes, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    return bytes(decompress(codec, data, bytes_max=bytes_max))


def xerial(*blocks: bytes) -> bytes:
    chunks = [struct.pack(">i", len(block)) + block for block in blocks]
    return b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + b"".join(chunks)


def raw_snappy(content: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(content))


def lz4_frame(content: bytes, **options: bool) -> bytes:
    compressor = cramjam.lz4.Compressor(level=1, **options)
    compressor.compress(content)
    return bytes(compressor.finish())


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("name", CONTENTS)
def test_round_trip(codec: Compression, name: str) -> None:
    content = CONTENTS[name]
    levels = [LEVELS[codec][0], 1, LEVELS[codec][-1]] if codec in LEVELS else []
    for level in [None, *levels]:
        if name != "noise" or level != 22:
            assert read(codec, compress(codec, content, level)) == content


@given(st.sampled_from(Compression), st.binary(max_size=2000))
def test_round_trip_of_anything(codec: Compression, content: bytes) -> None:
    assert read(codec, compress(codec, memoryview(bytearray(content)))) == content


def test_what_we_write() -> None:
    assert compress(Compression.GZIP, TEXT)[:4] == bytes.fromhex("1f8b0800")
    assert gzip.decompress(compress(Compression.GZIP, TEXT)) == TEXT
    framed = compress(Compression.SNAPPY, bytes(65537))
    assert framed[:16].hex() == "82534e41505059000000000100000001"
    position, sizes = 16, []
    while position < len(framed):
        (size,) = struct.unpack_from(">i", framed, position)
        block = framed[position + 4 : position + 4 + size]
        sizes.append(len(bytes(cramjam.snappy.decompress_raw(block))))
        position += 4 + size
    assert sizes == [32768, 32768, 1]
    frame = compress(Compression.LZ4, NOISE)
    assert frame[:7].hex() == "04224d18604082"
    assert frame[-4:] == bytes(4)
    assert struct.unpack_from("<I", frame, 7)[0] == 65536 | 1 << 31  # noise is stored as it is
    assert compress(Compression.ZSTD, TEXT)[:4] == bytes.fromhex("28b52ffd")


READABLE = {
    "gzip, another writer": (Compression.GZIP, gzip.compress(TEXT, 9), TEXT),
    "gzip, two members": (Compression.GZIP, gzip.compress(b"a") + gzip.compress(TEXT), b"a" + TEXT),
    "snappy, raw": (Compression.SNAPPY, raw_snappy(TEXT), TEXT),
    "snappy, raw and empty": (Compression.SNAPPY, raw_snappy(b""), b""),
    "snappy, xerial": (Compression.SNAPPY, xerial(raw_snappy(b"a"), raw_snappy(TEXT)), b"a" + TEXT),
    "snappy, xerial without chunks": (Compression.SNAPPY, xerial(), b""),
    "lz4, checksums": (
        Compression.LZ4,
        lz4_frame(TEXT, block_linked=False, content_checksum=True),
        TEXT,
    ),
    "lz4, no content checksum": (
        Compression.LZ4,
        lz4_frame(TEXT, block_linked=False, content_checksum=False),
        TEXT,
    ),
    "zstd, two frames": (
        Compression.ZSTD,
        bytes(cramjam.zstd.compress(b"a")) + bytes(cramjam.zstd.compress(TEXT)),
        b"a" + TEXT,
    ),
    "zstd, high ratio": (Compression.ZSTD, compress(Compression.ZSTD, ZEROS), ZEROS),
    "lz4, high ratio": (Compression.LZ4, compress(Compression.LZ4, ZEROS), ZEROS),
}


@pytest.mark.parametrize("name", READABLE)
def test_framings_that_clients_send(name: str) -> None:
    codec, data, content = READABLE[name]
    assert read(codec, data) == content


FRAME = compress(Compression.LZ4, TEXT)
UNREADABLE = {
    "gzip, empty": (Compression.GZIP, b""),
    "gzip, zlib's format": (Compression.GZIP, zlib.compress(TEXT)),
    "gzip, wrong checksum": (Compression.GZIP, gzip.compress(TEXT)[:-8] + bytes(8)),
    "gzip, garbage after it": (Compression.GZIP, gzip.compress(TEXT) + b"garbage"),
    "snappy, header cut": (Compression.SNAPPY, xerial()[:12]),
    "snappy, chunk too long": (Compression.SNAPPY, xerial()[:16] + b"\x7f\xff\xff\xff"),
    "snappy, chunk negative": (Compression.SNAPPY, xerial()[:16] + b"\xff\xff\xff\xff"),
    "snappy, size cut": (Compression.SNAPPY, xerial() + b"\0\0"),
    "snappy, claims 4 GiB": (Compression.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(100)),
    "lz4, empty": (Compression.LZ4, b""),
    "lz4, wrong header checksum": (Compression.LZ4, FRAME[:6] + b"\x83" + FRAME[7:]),
    "lz4, dependent blocks": (Compression.LZ4, lz4_frame(TEXT, block_linked=True)),
    "lz4, no end mark": (Compression.LZ4, FRAME[:-4]),
    "lz4, two frames": (Compression.LZ4, FRAME + FRAME),
    "lz4, garbage after it": (Compression.LZ4, FRAME + b"garbage"),
    "lz4, header only": (Compression.LZ4, FRAME[:7]),
    "zstd, empty": (Compression.ZSTD, b""),
    "zstd, garbage after it": (Compression.ZSTD, compress(Compression.ZSTD, TEXT) + b"garbage"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_not_read(name: str) -> None:
    codec, data = UNREADABLE[name]
    with pytest.raises(UndecodableData):
        read(codec, data)


@pytest.mark.parametrize("codec", CODECS)
def test_a_cut_anywhere_is_found(codec: Compression) -> None:
    data = compress(codec, TEXT[:500])
    for end in range(1, len(data)):
        if codec is Compression.SNAPPY and end == 16:
            continue  # a header without chunks is sound: it holds nothing
        with pytest.raises(UndecodableData):
            read(codec, data[:end])


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
def test_damage_raises_nothing_else(codec: Compression, data: st.DataObject) -> None:
    damaged = bytearray(compress(codec, TEXT[:2000]))
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UndecodableData, DecompressedTooLarge):
        assert len(read(codec, bytes(damaged), 10_000)) <= 10_000


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_exact(codec: Compression) -> None:
    data = compress(codec, TEXT)
    assert read(codec, data, len(TEXT)) == TEXT
    for bytes_max in (len(TEXT) - 1, 100, 0):
        with pytest.raises(DecompressedTooLarge):
            read(codec, data, bytes_max)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_little_memory(codec: Compression) -> None:
    bomb = compress(codec, bytes(50 << 20))
    tracemalloc.start()
    with pytest.raises(DecompressedTooLarge):
        read(codec, bomb, 1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_many_gzip_members_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What lies behind a member is copied: given all of it, a megabyte would take seconds."""
    made = zlib.decompressobj
    read_at_once = []

    def member(wbits: int) -> Any:
        real = made(wbits=wbits)

        class Measured:
            def decompress(self, data: memoryview, size_max: int) -> bytes:
                read_at_once.append(len(data))
                return real.decompress(data, size_max)

            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

        return Measured()

    monkeypatch.setattr(zlib, "decompressobj", member)
    members = [gzip.compress(b"%d" % number) for number in range(2000)]
    assert read(Compression.GZIP, b"".join(members)) == b"".join(map(b"%d".__mod__, range(2000)))
    assert len(read_at_once) >= 2000
    assert max(read_at_once) < sum(map(len, members)) // 4


def test_a_claimed_size_allocates_nothing() -> None:
    claims = {
        Compression.SNAPPY: b"\xff\xff\xff\xff\x07" + bytes(50),
        Compression.ZSTD: bytes.fromhex("28b52ffde0ffffffffffffff7f") + bytes(20),
    }
    for codec, data in claims.items():
        tracemalloc.start()
        with pytest.raises((UndecodableData, DecompressedTooLarge)):
            read(codec, data, 1 << 20)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 4 << 20
