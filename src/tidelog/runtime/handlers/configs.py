"""DescribeConfigs, ListConfigResources."""

from __future__ import annotations

from tidelog.controller import describe_configs as controller
from tidelog.env import Now
from tidelog.runtime.handlers.role import Role
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest
from tidelog.wire.messages.list_config_resources import ListConfigResourcesRequest
from tidelog.wire.request import Request

CLIENT_METRICS_RESOURCE = 16
"""All that version 0 of ListConfigResources knows."""


def describe_configs(request: Request, role: Role, now: Now) -> Slices[Message]:
    message = request.message
    assert isinstance(message, DescribeConfigsRequest)
    return (yield from controller.describe_configs(role.image, message, role.static_config))


def list_config_resources(request: Request, role: Role, now: Now) -> Slices[Message]:
    message = request.message
    assert isinstance(message, ListConfigResourcesRequest)
    types = (CLIENT_METRICS_RESOURCE,) if request.version == 0 else message.resource_types
    return (yield from controller.list_config_resources(role.image, types))
