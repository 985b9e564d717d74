"""What only the active controller answers: by a decision, or by what it has decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.controller.reassignments import list_partition_reassignments as listed
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.quorum_controller.decisions import DECIDERS
from tidelog.runtime.answers import Answer
from tidelog.runtime.refusals import fitted, refuse
from tidelog.slices import Slices
from tidelog.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController


def decide(request: Request, controller: QuorumController, now: Now) -> Answer | Slices[Answer]:
    if not controller.is_active:
        return fitted(refuse(request.message, ErrorCode.NOT_CONTROLLER), request.version)
    return controller.decide(DECIDERS[request.key], request.message, now, request)


def list_partition_reassignments(
    request: Request, controller: QuorumController, now: Now
) -> Answer | Slices[Answer]:
    message = request.message
    assert isinstance(message, ListPartitionReassignmentsRequest)
    if not controller.is_active:
        return refuse(message, ErrorCode.NOT_CONTROLLER)
    return listed(controller.image, message)
