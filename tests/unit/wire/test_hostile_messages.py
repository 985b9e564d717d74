"""Bytes from strangers: never a crash, a hang, or memory in proportion to a claimed count."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tidelog.wire.api import APIS, request_class, response_class
from tidelog.wire.codec import decode, decoder, encode
from tidelog.wire.declare import Message, Struct
from tidelog.wire.decoder import DecodeError
from tidelog.wire.request import UnsupportedApiVersions, decode_request
from tidelog.wire.schema import Array, FieldType, Nested, fields_of

FRAMES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "frames.jsonl").read_text().splitlines()
]
SERVED = {key: api.versions for key, api in APIS.items()}
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
        with suppress(DecodeError, UnsupportedApiVersions):
            if frame["kind"] == "request":
                decode_request(view, SERVED)
            else:
                decoder(cls, frame["version"])(view, 4)


def filled(cls: type[Struct]) -> Any:
    """A struct with one element in every array, so that every count is on the wire."""

    def value(field_type: FieldType, default: Any) -> Any:
        match field_type:
            case Array(Nested(inner)):
                return (filled(inner),)
            case Nested(inner):
                return filled(inner)
            case _:
                return default

    return cls(**{field.name: value(field.type, field.default) for field in fields_of(cls)})


CLASSES = [
    pytest.param(cls, version, id=f"{cls.__name__}-v{version}")
    for key, api in APIS.items()
    for cls in (request_class(key), response_class(key))
    for version in sorted({api.versions[0], api.versions[1]})
]


@pytest.mark.parametrize(("cls", "version"), CLASSES)
def test_absurd_counts_cost_no_memory(cls: type[Message], version: int) -> None:
    try:
        sane = encode(filled(cls), version)
    except ValueError:  # a field that this version lacks cannot be said: leave it empty
        sane = encode(cls(**{f.name: f.default for f in fields_of(cls)}), version)
    decode(cls, version, sane)
    absurd = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08", b"\xff" * 4]
    tracemalloc.start()
    try:
        for at in range(len(sane)):
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
    whole = encode(cls(**{f.name: f.default for f in fields_of(cls)}), version)
    for size in range(len(whole)):
        with pytest.raises(DecodeError):
            decode(cls, version, whole[:size])
