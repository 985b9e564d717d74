"""A stream cut anywhere gives the same answers, each in memory that stays."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.frames import BUFFER_BYTES, SPARE_BYTES_MAX, SPARES_MAX, AnswerFrames
from tidelog.wire.decoder import DecodeError


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def receive(frames: AnswerFrames, stream: bytes, piece: int) -> list[memoryview]:
    found: list[memoryview] = []
    while stream:
        room = frames.buffer()
        assert len(room)
        count = min(piece, len(room), len(stream))
        room[:count] = stream[:count]
        stream = stream[count:]
        found += frames.received(count)
    return found


sizes = st.one_of(st.integers(0, 50), st.integers(BUFFER_BYTES - 8, BUFFER_BYTES + 8))


@given(
    st.lists(sizes, max_size=6),
    st.one_of(st.integers(1, 100), st.just(BUFFER_BYTES), st.just(1 << 20)),
)
def test_any_cut_gives_the_same_frames(lengths, piece):
    bodies = [bytes([number % 256]) * length for number, length in enumerate(lengths, 1)]
    assert [bytes(f) for f in receive(AnswerFrames(), framed(*bodies), max(piece, 50))] == bodies


@pytest.mark.parametrize("size", [10, BUFFER_BYTES * 2])
def test_a_frame_does_not_change_when_the_next_arrives(size):
    frames = AnswerFrames()
    (first,) = receive(frames, framed(b"a" * size), 1 << 20)
    receive(frames, framed(b"b" * size), 1 << 20)
    assert bytes(first) == b"a" * size


@pytest.mark.parametrize("size", [-1, 1001])
def test_a_length_out_of_bounds_is_refused(size):
    with pytest.raises(DecodeError, match="an answer of"):
        receive(AnswerFrames(1000), struct.pack(">i", size), 4)


def test_a_frame_of_the_limit_is_taken():
    assert len(receive(AnswerFrames(1000), framed(bytes(1000)), 999)) == 1


def test_memory_that_nobody_reads_serves_again():
    frames = AnswerFrames()
    size = 2 * BUFFER_BYTES
    (first,) = receive(frames, framed(b"a" * size), 1 << 20)
    (second,) = receive(frames, framed(b"b" * size), 1 << 20)
    where = [id(first.obj), id(second.obj)]
    assert where[0] != where[1]
    first.release()
    (third,) = receive(frames, framed(b"c" * (size - 1)), 1 << 20)
    assert (bytes(third), id(third.obj)) == (b"c" * (size - 1), where[0])
    assert bytes(second) == b"b" * size, "it is still read"
    (fourth,) = receive(frames, framed(b"d" * size), 1 << 20)
    assert id(fourth.obj) not in where


def test_no_connection_keeps_much_memory():
    frames = AnswerFrames()
    kept = [receive(frames, framed(bytes(size)), 1 << 20) for size in (100_000, 200_000, 300_000)]
    assert len(frames._spares) == SPARES_MAX
    del kept
    receive(frames, framed(bytes(SPARE_BYTES_MAX + 1)), 1 << 23)
    assert sum(map(len, frames._spares)) < SPARE_BYTES_MAX


def test_a_large_frame_is_received_in_place():
    frames = AnswerFrames()
    receive(frames, struct.pack(">i", 1 << 20) + b"x", 5)
    assert len(frames.buffer()) == (1 << 20) - 1
