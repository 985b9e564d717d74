"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.purgatory import Delayed
from tidelog.controller import config_changes
from tidelog.controller import describe_configs as controller
from tidelog.env import Now
from tidelog.wire.declare import Message
from tidelog.wire.messages.alter_configs import AlterConfigsRequest
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest
from tidelog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

CLIENT_METRICS_RESOURCE = 16
"""All that version 0 of ListConfigResources knows."""
COMMIT_TIMEOUT_MS = 30_000
"""These requests do not say how long their sender waits."""


def describe_configs(request: Request, broker: Broker, now: Now) -> Message:
    message = request.message
    assert isinstance(message, DescribeConfigsRequest)
    return controller.describe_configs(broker.image, message, broker.static_config)


def list_config_resources(request: Request, broker: Broker, now: Now) -> Message:
    message = request.message
    assert isinstance(message, ListConfigResourcesRequest)
    types = (CLIENT_METRICS_RESOURCE,) if request.version == 0 else message.resource_types
    return controller.list_config_resources(broker.image, types)


def alter_configs(request: Request, broker: Broker, now: Now) -> Message | Delayed:
    message = request.message
    assert isinstance(message, AlterConfigsRequest)
    decision = config_changes.alter_configs(
        broker.metadata.latest, message, broker.static_config, node_id=broker.node_id
    )
    return broker.commit(decision, "responses", COMMIT_TIMEOUT_MS, now)


def incremental_alter_configs(request: Request, broker: Broker, now: Now) -> Message | Delayed:
    message = request.message
    assert isinstance(message, IncrementalAlterConfigsRequest)
    decision = config_changes.alter_configs_incrementally(
        broker.metadata.latest, message, broker.static_config, node_id=broker.node_id
    )
    return broker.commit(decision, "responses", COMMIT_TIMEOUT_MS, now)
