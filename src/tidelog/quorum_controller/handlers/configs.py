"""AlterConfigs, IncrementalAlterConfigs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.controller import config_changes
from tidelog.controller.decision import Decision
from tidelog.env import Now
from tidelog.runtime.purgatory import Delayed
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from tidelog.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController

COMMIT_TIMEOUT_MS = 30_000
"""These requests do not say how long their sender waits."""


def alter_configs(
    request: Request, controller: QuorumController, now: Now
) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, AlterConfigsRequest)
    forwarder = controller.forwarder

    def decide() -> Slices[Decision[AlterConfigsResponse]]:
        return config_changes.alter_configs(
            controller.latest, message, controller.static_config, node_id=forwarder
        )

    return (yield from controller.commit(decide, "responses", COMMIT_TIMEOUT_MS, now))


def incremental_alter_configs(
    request: Request, controller: QuorumController, now: Now
) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, IncrementalAlterConfigsRequest)
    forwarder = controller.forwarder

    def decide() -> Slices[Decision[IncrementalAlterConfigsResponse]]:
        return config_changes.alter_configs_incrementally(
            controller.latest, message, controller.static_config, node_id=forwarder
        )

    return (yield from controller.commit(decide, "responses", COMMIT_TIMEOUT_MS, now))
