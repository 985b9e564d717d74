"""A controller asks for its registration once, and waits for the metadata to tell."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from tests.unit.config.test_broker import config
from tests.unit.metadata.lives import features

from tidelog.env import Now
from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import MetadataImage
from tidelog.quorum_controller.self_registration import RETRY_MS, SelfRegistration
from tidelog.runtime.runtime import Runtime
from tidelog.wire.messages.controller_registration import ControllerRegistrationResponse


def test_who_was_answered_gives_the_metadata_a_moment():
    asked: list[Any] = []
    runtime = Runtime(random.Random(0))
    controller = SimpleNamespace(
        node_id=1,
        image=replay_all(MetadataImage.empty(), features(), 0, 1),
        runtime=runtime,
        static_config=config(),
        channel=SimpleNamespace(ask=lambda *given, purpose: asked.append(given)),
    )
    registration = SelfRegistration(controller)  # type: ignore[arg-type]
    registration.check(Now(0, 0))
    [(_, answered, _)] = asked
    answered(ControllerRegistrationResponse(error_code=0, error_message=None), Now(5, 5))
    for time_ms in (5, 6, 5 + RETRY_MS - 1):
        runtime.schedule.run(Now(time_ms, time_ms))
        registration.check(Now(time_ms, time_ms))
    assert len(asked) == 1
    runtime.schedule.run(Now(5 + RETRY_MS, 0))
    assert len(asked) == 2, "the metadata does not tell"
