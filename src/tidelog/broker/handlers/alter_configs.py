"""IncrementalAlterConfigs and AlterConfigs are the active controller's. But only a broker itself
knows its directories: which of them are to be cordoned it looks at before it forwards that, as
Kafka's brokers do. Where these are refused, Kafka's changes the other resources of the request all
the same; ours changes none of them, and says so."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from tidelog.controller import config_changes
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.metadata.image import BROKER_RESOURCE
from tidelog.runtime.answers import Answer
from tidelog.runtime.refusals import refuse
from tidelog.slices import Slices
from tidelog.wire.api import ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


def alter_configs(request: Request, broker: Broker, now: Now) -> Answer | Slices[Answer]:
    message: Any = request.message
    own = (BROKER_RESOURCE, str(broker.node_id))
    for number, wanted in enumerate(message.resources):
        names = [one.name for one in wanted.configs]
        if (wanted.resource_type, wanted.resource_name) == own and (
            config_changes.CORDONED_LOG_DIRS in names
        ):
            return _checked(request, number, broker, now)
    return broker.controller.forward(request, now)


def _checked(request: Request, number: int, broker: Broker, now: Now) -> Slices[Answer]:
    message: Any = request.message
    alone = message.replace(resources=(message.resources[number],))
    config = broker.static_config
    if request.key == ApiKey.ALTER_CONFIGS:
        replaced = yield from config_changes.alter_configs(broker.image, alone, config)
        found: Any = replaced.response.responses
    else:
        changed = yield from config_changes.alter_configs_incrementally(broker.image, alone, config)
        found = changed.response.responses
    if found[0].error_code == ErrorCode.NONE:
        answer = broker.controller.forward(request, now)
        return (yield from answer) if isinstance(answer, Generator) else answer
    # Nothing is changed: the others are left for another try.
    refused: Any = refuse(message, ErrorCode.OPERATION_NOT_ATTEMPTED)
    responses = list(refused.responses)
    responses[number] = found[0]
    whole: Message = refused.replace(responses=tuple(responses))
    return whole
