"""Every answer is the one that a live Apache Kafka gave (tests/data/decisions.txt, which
tests/interop keeps true), but that refusals of ours may go on and say what is allowed."""

from __future__ import annotations

import random
from pathlib import Path

from tests.unit.config.test_broker import config
from tests.unit.controller.scripts import SCRIPTS, Model, transcript

from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.snapshot import records_of

TRANSCRIPT = Path(__file__).parents[2] / "data" / "decisions.txt"


def test_every_answer_is_kafkas():
    model = Model(config(log_retention_hours="100", num_partitions="2"), random.Random(1))
    lines = []
    for name, script in SCRIPTS.items():
        for request in script(name):
            lines += [line.partition(" (allowed: ")[0] for line in
                      transcript(request, model.ask(request))]  # fmt: skip
    expected = TRANSCRIPT.read_text().splitlines()
    assert len(expected) > 200
    assert lines == expected
    again = replay_all(MetadataImage.empty(), model.records, 0, 1)
    assert list(records_of(again)) == list(records_of(model.image))
