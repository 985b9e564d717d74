"""Cutting a stream into frames, however the bytes arrive and whatever they claim."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.decoder import DecodeError
from tidelog.wire.frame import (
    BUFFER_BYTES_KEPT_MAX,
    BUFFER_BYTES_MIN,
    LARGE_BYTES_MAX,
    UNNEEDED_MAX,
    FrameReader,
    LargeBuffers,
)


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


def feed(reader: FrameReader, stream: bytes, chunk: int = 1 << 30) -> list[bytes]:
    """Receives the stream in chunks of at most this size, as a socket would."""
    frames = []
    while stream:
        place = reader.buffer()
        count = min(len(place), len(stream), chunk)
        place[:count] = stream[:count]
        stream = stream[count:]
        frames += [bytes(frame) for frame in reader.received(count)]
    return frames


@given(
    st.lists(st.binary(max_size=300) | st.just(b"x" * 3 * BUFFER_BYTES_MIN), max_size=8),
    st.integers(1, 100_000),
)
def test_frames_come_out_as_they_went_in(payloads: list[bytes], chunk: int) -> None:
    assert feed(FrameReader(), framed(*payloads), max(chunk, 100)) == payloads


def test_byte_by_byte() -> None:
    assert feed(FrameReader(), framed(b"", b"a", b"bcd"), 1) == [b"", b"a", b"bcd"]


@pytest.mark.parametrize("size", [-1, -(1 << 31), 101, (1 << 31) - 1])
def test_a_length_beyond_the_limit_is_refused_before_its_bytes(size: int) -> None:
    with pytest.raises(DecodeError, match=f"a frame of {size} bytes"):
        feed(FrameReader(frame_bytes_max=100), struct.pack(">i", size))


def test_the_limit_itself_is_allowed() -> None:
    assert feed(FrameReader(frame_bytes_max=100), framed(bytes(100))) == [bytes(100)]


def test_a_claimed_length_costs_no_memory() -> None:
    reader = FrameReader()
    assert feed(reader, struct.pack(">i", 100 << 20)) == []
    assert len(reader.buffer()) <= BUFFER_BYTES_MIN


def test_a_large_buffer_is_given_back() -> None:
    reader = FrameReader()
    large = bytes(LARGE_BYTES_MAX)
    assert feed(reader, framed(large)) == [large]
    assert len(reader.buffer()) == BUFFER_BYTES_MIN


def test_large_buffers_are_kept_as_long_as_there_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LargeBuffers, "bytes_left", 5 * BUFFER_BYTES_KEPT_MAX)
    large = bytes(BUFFER_BYTES_KEPT_MAX + 1)
    readers = [FrameReader() for _ in range(3)]
    for reader in readers:
        assert feed(reader, framed(large)) == [large]
    kept = [len(reader.buffer()) for reader in readers]
    assert kept == [2 * BUFFER_BYTES_KEPT_MAX, 2 * BUFFER_BYTES_KEPT_MAX, BUFFER_BYTES_MIN]
    readers.pop(0).shrink()
    assert feed(readers[1], framed(large)) == [large]
    assert len(readers[1].buffer()) == 2 * BUFFER_BYTES_KEPT_MAX
    readers.clear()
    del reader
    assert LargeBuffers.bytes_left == 5 * BUFFER_BYTES_KEPT_MAX


def test_a_large_buffer_that_is_not_needed_any_more_is_given_back() -> None:
    reader = FrameReader()
    large = framed(bytes(BUFFER_BYTES_KEPT_MAX + 1))
    feed(reader, large)
    for _ in range(UNNEEDED_MAX):
        feed(reader, framed(b"small"))
    assert len(reader.buffer()) == 2 * BUFFER_BYTES_KEPT_MAX
    feed(reader, large)
    for _ in range(UNNEEDED_MAX + 1):
        feed(reader, framed(b"small"))
    assert len(reader.buffer()) == BUFFER_BYTES_MIN


def test_the_buffer_at_most_doubles_what_arrived() -> None:
    reader = FrameReader()
    arrived = feed(reader, struct.pack(">i", 50 << 20) + bytes(1 << 20))
    assert arrived == []
    assert len(reader.buffer()) <= 2 * (1 << 20) + BUFFER_BYTES_MIN


def test_a_busy_connection_gets_a_larger_buffer_and_gives_it_back() -> None:
    """Whose bytes fill the buffer gets more of them at once, within bounds."""
    reader = FrameReader()
    frame = framed(bytes(1000))
    stream = frame * (8 * BUFFER_BYTES_KEPT_MAX // len(frame))
    received = 0
    while stream:
        room = reader.buffer()
        taken = min(len(room), len(stream))
        room[:taken], stream = stream[:taken], stream[taken:]
        received += len(list(reader.received(taken)))
    assert received == 8 * BUFFER_BYTES_KEPT_MAX // len(frame)
    assert len(reader.buffer()) == BUFFER_BYTES_KEPT_MAX
    reader.shrink()
    assert len(reader.buffer()) == BUFFER_BYTES_MIN


def test_what_has_arrived_is_not_shrunk_away() -> None:
    reader = FrameReader()
    large = framed(bytes(4 * BUFFER_BYTES_MIN))
    assert feed(reader, large[:-1]) == []
    reader.shrink()
    assert feed(reader, large[-1:]) == [large[4:]]
