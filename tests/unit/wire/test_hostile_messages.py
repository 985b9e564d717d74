"""Bytes from strangers: never a crash, a hang, or memory in proportion to a claimed count."""

from __future__ import annotations

import json
import os
import random
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tidelog.wire.api import APIS, request_class, response_class
from tidelog.wire.codec import decode, decoder, encode
from tidelog.wire.declare import Message, Struct
from tidelog.wire.decoder import ELEMENTS_MAX, DecodeError
from tidelog.wire.encoder import pack_uvarint
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.metadata import MetadataRequest
from tidelog.wire.request import decode_request
from tidelog.wire.schema import Array, Blob, FieldType, Fixed, Nested, Text, fields_of
from tidelog.wire.source import STRING_BYTES_MAX

FRAMES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "frames.jsonl").read_text().splitlines()
]
SERVED = {key: api.versions for key, api in APIS.items()}
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
MUTATIONS_A_FRAME = 60
MEMORY_A_BYTE_MAX = 300
"""An object for each few bytes that were really sent: a constant factor, not a claimed count."""


def mutations(frame: bytes, rng: random.Random) -> Iterator[bytes]:
    for _ in range(MUTATIONS_A_FRAME):
        mutated = bytearray(frame)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(mutated))
            match rng.randrange(6):
                case 0:
                    mutated[at] ^= 1 << rng.randrange(8)
                case 1:
                    mutated[at : at + 4] = b"\x7f\xff\xff\xff"
                case 2:
                    mutated[at : at + 5] = b"\xff\xff\xff\xff\x0f"
                case 3:
                    mutated[at : at + 2] = rng.randbytes(2)
                case 4:
                    del mutated[at:]
                    mutated += b"\0"
                case 5:
                    mutated[at:at] = rng.randbytes(rng.randint(1, 9))
        yield bytes(mutated)


@pytest.mark.parametrize("frame", FRAMES[::3], ids=lambda frame: frame["id"])
def test_mutated_frames_are_decoded_or_refused(frame: dict[str, Any]) -> None:
    rng = random.Random(frame["id"])
    sane = bytes.fromhex(frame["hex"])
    cls = response_class(frame["key"])
    for mutated in mutations(sane, rng):
        view = memoryview(mutated)
        with suppress(DecodeError):
            if frame["kind"] == "request":
                decode_request(view, SERVED)
            else:
                decoder(cls, frame["version"])(view, 4)


def filled(cls: type[Struct], version: int) -> Any:
    """Something in every field of this version: every length, count and tag is on the wire."""

    def value(field_type: FieldType) -> Any:
        match field_type:
            case Array(element):
                return (value(element),)
            case Nested(inner):
                return filled(inner, version)
            case Text():
                return "text"
            case Blob():
                return b"blob"
            case Fixed("16s"):
                return bytes(range(16))
            case Fixed():
                return 1

    return cls(
        **{
            field.name: value(field.type) if field.is_in(version) else field.default
            for field in fields_of(cls)
        }
    )


CLASSES = [
    pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
    for key, api in APIS.items()
    for cls in (request_class(key), response_class(key))
    for version in sorted({api.versions[0], api.versions[1]})
]


@pytest.mark.parametrize(("cls", "version"), CLASSES)
def test_absurd_counts_cost_no_memory(cls: type[Message], version: int) -> None:
    message = filled(cls, version)
    sane = encode(message, version)
    assert decode(cls, version, sane) == message
    # Every place in `make test`; of all but the shortest every few bytes in `make check`.
    step = 1 + len(sane) // 10 if os.environ.get("TIDELOG_QUICK") else 1
    absurd = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08", b"\xff" * 4]
    tracemalloc.start()
    try:
        for at in range(0, len(sane), step):
            for claim in absurd:
                hostile = memoryview(sane[:at] + claim + sane[at + len(claim) :])
                tracemalloc.reset_peak()
                before, _ = tracemalloc.get_traced_memory()
                with suppress(DecodeError):
                    decoder(cls, version)(hostile, 0)
                _, peak = tracemalloc.get_traced_memory()
                assert peak - before < 20_000 + MEMORY_A_BYTE_MAX * len(hostile)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("cls", "version"), CLASSES)
def test_every_truncation_is_refused(cls: type[Message], version: int) -> None:
    whole = encode(filled(cls, version), version)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            decode(cls, version, whole[:size])


def test_small_elements_that_are_really_there_have_a_limit() -> None:
    """Each would be an object of some 60 bytes for two: a frame of 100 MB would fill the memory."""
    too_many = ELEMENTS_MAX + 1
    frame = struct.pack(">i", too_many) + bytes(2 * too_many)
    with pytest.raises(DecodeError, match="more elements and tags than"):
        decode(MetadataRequest, 0, frame)


def test_arrays_within_arrays_share_the_limit() -> None:
    numbers = 1000
    topic = b"\0\0" + struct.pack(">i", numbers) + bytes(4 * numbers)
    topics = ELEMENTS_MAX // numbers
    start = struct.pack(">iiiibiii", -1, 0, 0, 0, 0, 0, -1, 0)
    frame = start + struct.pack(">i", topics) + topic * topics
    with pytest.raises(DecodeError, match="more elements and tags than"):
        decode(FetchRequest, 7, frame)


@pytest.mark.parametrize(
    ("message", "version"),
    [(HEARTBEAT, 4), (FetchRequest(max_wait_ms=0, min_bytes=0, topics=()), 18)],
    ids=["none is known", "some are known"],
)
def test_tags_have_a_limit(message: Message, version: int) -> None:
    sane = encode(message, version)
    assert sane[-1] == 0
    many = ELEMENTS_MAX + 1
    with pytest.raises(DecodeError, match="more elements and tags than"):
        decode(type(message), version, sane[:-1] + pack_uvarint(many) + b"\x63\0" * many)


@pytest.mark.parametrize("size", [STRING_BYTES_MAX, STRING_BYTES_MAX + 1])
def test_a_compact_string_is_no_longer_than_any_other(size: int) -> None:
    data = encode(HEARTBEAT.replace(group_id="x"), 4)
    assert data.startswith(b"\x02x")
    data = pack_uvarint(size + 1) + b"x" * size + data[2:]
    if size <= STRING_BYTES_MAX:
        assert len(decode(HeartbeatRequest, 4, data).group_id) == size
    else:
        with pytest.raises(DecodeError, match="group_id is too long for a string"):
            decode(HeartbeatRequest, 4, data)
