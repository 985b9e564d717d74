"""BrokerRegistration and BrokerHeartbeat: what the active controller remembers of brokers comes
with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.quorum_controller.decisions import Decider
from tidelog.runtime.answers import Answer
from tidelog.runtime.refusals import refuse
from tidelog.slices import Slices
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController


def broker_registration(
    request: Request, controller: QuorumController, now: Now
) -> Answer | Slices[Answer]:
    message, connection = request.message, controller.connection
    assert isinstance(message, BrokerRegistrationRequest)
    if not controller.is_active:
        return refuse(message, ErrorCode.NOT_CONTROLLER)
    decider = Decider(lambda controller, _: controller.active.register(message, connection, now))
    return controller.decide(decider, message, now)


def broker_heartbeat(
    request: Request, controller: QuorumController, now: Now
) -> Answer | Slices[Answer]:
    message = request.message
    assert isinstance(message, BrokerHeartbeatRequest)
    if not controller.is_active:
        return refuse(message, ErrorCode.NOT_CONTROLLER)
    controller.active.heard(message, controller.connection, now)
    decider = Decider(lambda controller, _: controller.active.heartbeat(message))
    return controller.decide(decider, message, now)
