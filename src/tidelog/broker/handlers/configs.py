"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.controller import config_changes
from tidelog.controller import describe_configs as controller
from tidelog.controller.decision import Decision
from tidelog.env import Now
from tidelog.runtime.purgatory import Delayed
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest
from tidelog.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

CLIENT_METRICS_RESOURCE = 16
"""All that version 0 of ListConfigResources knows."""
COMMIT_TIMEOUT_MS = 30_000
"""These requests do not say how long their sender waits."""


def describe_configs(request: Request, broker: Broker, now: Now) -> Slices[Message]:
    message = request.message
    assert isinstance(message, DescribeConfigsRequest)
    return (yield from controller.describe_configs(broker.image, message, broker.static_config))


def list_config_resources(request: Request, broker: Broker, now: Now) -> Slices[Message]:
    message = request.message
    assert isinstance(message, ListConfigResourcesRequest)
    types = (CLIENT_METRICS_RESOURCE,) if request.version == 0 else message.resource_types
    return (yield from controller.list_config_resources(broker.image, types))


def alter_configs(request: Request, broker: Broker, now: Now) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, AlterConfigsRequest)

    def decide() -> Slices[Decision[AlterConfigsResponse]]:
        return config_changes.alter_configs(
            broker.metadata.latest, message, broker.static_config, node_id=broker.node_id
        )

    return (yield from broker.commit(decide, "responses", COMMIT_TIMEOUT_MS, now))


def incremental_alter_configs(
    request: Request, broker: Broker, now: Now
) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, IncrementalAlterConfigsRequest)

    def decide() -> Slices[Decision[IncrementalAlterConfigsResponse]]:
        return config_changes.alter_configs_incrementally(
            broker.metadata.latest, message, broker.static_config, node_id=broker.node_id
        )

    return (yield from broker.commit(decide, "responses", COMMIT_TIMEOUT_MS, now))
