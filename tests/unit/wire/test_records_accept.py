"""accept_batch: what passes in one go passes rule by rule too, and both modules agree."""

from __future__ import annotations

import random

import pytest

from tidelog.wire import records, records_twin
from tidelog.wire.batch import CONTROL, TimestampType, renew_crc
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_validation import (
    ProduceRules,
    Refusal,
    ValidBatch,
    validate_closely,
    validate_produced,
)
from tidelog.wire.compression import Compression

NOW_MS = 1_700_000_000_000
RULES = [
    ProduceRules(),
    ProduceRules(compacted=True),
    ProduceRules(timestamp_type=TimestampType.LOG_APPEND_TIME),
    ProduceRules(max_message_bytes=200),
    ProduceRules(timestamp_after_max_ms=5, timestamp_before_max_ms=5),
]


def batch(count: int = 3, *, key: bytes | None = b"k", **fields: object) -> bytearray:
    builder = BatchBuilder()
    for number in range(count):
        builder.append(key, b"value", timestamp=NOW_MS + 10 * number, headers=((b"h", None),))
    return builder.build(**fields)  # type: ignore[arg-type]


def accept(module: object, data: bytes, rules: ProduceRules) -> tuple[int, int] | None:
    low, high = rules.timestamp_range(NOW_MS)
    found: tuple[int, int] | None = module.accept_batch(  # type: ignore[attr-defined]
        data, rules.max_message_bytes, low, high, rules.compacted
    )
    return found


def test_the_usual_batch_is_accepted() -> None:
    assert accept(records, bytes(batch()), ProduceRules()) == (NOW_MS + 20, 2)


@pytest.mark.parametrize(
    "unusual",
    [
        b"",
        bytes(61),
        bytes(batch(compression=Compression.LZ4)),
        bytes(batch(attributes=CONTROL)),
        bytes(batch(base_offset=1)),
        bytes(batch(producer_id=1, producer_epoch=0, base_sequence=-1)),
        bytes(batch()) + bytes(batch()),
        bytes(batch()) + b"stray",
        bytes(batch())[:-1],
    ],
)
def test_whatever_is_unusual_is_left_to_a_closer_look(unusual: bytes) -> None:
    assert accept(records, unusual, ProduceRules()) is None
    assert accept(records_twin, unusual, ProduceRules()) is None


def test_accepted_means_valid_whatever_the_bytes() -> None:
    rng = random.Random(0)
    accepted = 0
    for _ in range(4000):
        data = batch(rng.randint(1, 4), key=rng.choice([b"k", None]))
        for _ in range(rng.randint(0, 2)):
            data[rng.randrange(len(data))] = rng.choice(
                [0, 1, 2, 127, 128, 255, rng.randrange(256)]
            )
        if rng.random() < 0.7 and len(data) == 12 + int.from_bytes(data[8:12], "big"):
            renew_crc(data, 0)
        for rules in RULES:
            found = accept(records, bytes(data), rules)
            assert found == accept(records_twin, bytes(data), rules)
            closely = validate_closely(memoryview(data), rules, produce_version=9, now_ms=NOW_MS)
            quickly = validate_produced(data, rules, produce_version=9, now_ms=NOW_MS)
            assert quickly == closely
            if found is not None:
                accepted += 1
                assert isinstance(closely, ValidBatch)
    assert accepted > 1000


def test_a_refusal_says_why() -> None:
    refused = validate_produced(
        batch(key=None), ProduceRules(compacted=True), produce_version=9, now_ms=NOW_MS
    )
    assert isinstance(refused, Refusal)
    assert len(refused.record_errors) == 3
