"""Envelope: a client's request that its broker hands on."""

from __future__ import annotations

import logging
from collections.abc import Generator
from typing import TYPE_CHECKING

from tidelog.config.definition import parse_decimal
from tidelog.controller.describe_configs import NODE_ID_BITS
from tidelog.env import DiskFull, Now
from tidelog.errors import ErrorCode
from tidelog.quorum_controller.decisions import COMMIT_TIMEOUT_MS
from tidelog.runtime.answers import Answer
from tidelog.runtime.purgatory import Delayed
from tidelog.runtime.refusals import fitted, refuse
from tidelog.slices import Slices
from tidelog.wire.api import ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError
from tidelog.wire.frame import LENGTH
from tidelog.wire.large import decode_large
from tidelog.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.wire.request import Request, Undecoded, decode_any, encode_response

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController

log = logging.getLogger("tidelog.controller")

FORWARDABLE = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)


class Enveloped(Delayed):
    """The answer to what was in the envelope, to come."""

    def expire(self, now: Now) -> Message:
        return EnvelopeResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)


def envelope(request: Request, controller: QuorumController, now: Now) -> Slices[Answer]:
    message = request.message
    assert isinstance(message, EnvelopeRequest)
    if message.request_principal is None:
        return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    if len(message.client_host_address) not in (4, 16):
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    if not controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    # What waits for its commit is read again, and the connection's buffer is not ours for as long.
    frame = memoryview(bytes(message.request_data))
    try:
        inner = decode_any(frame, controller.served)
        if inner.message.__class__ is Undecoded:
            inner = yield from decode_large(inner)
    except DecodeError:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    if inner.key not in FORWARDABLE:
        return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
    delayed = Enveloped(now.monotonic_ms + COMMIT_TIMEOUT_MS)

    def answered(answer: Message, now: Now) -> None:
        frame = b"".join(encode_response(inner, answer))[LENGTH.size :]
        response = EnvelopeResponse(response_data=frame, error_code=ErrorCode.NONE)
        controller.runtime.purgatory.complete(delayed, response)

    forwarder = parse_decimal(request.client_id or "", NODE_ID_BITS)
    controller.answer(handled(inner, controller, forwarder, now), answered, now)
    return delayed.answer if delayed.answer is not None else delayed


def handled(
    inner: Request, controller: QuorumController, forwarder: int | None, now: Now
) -> Slices[Answer]:
    """The answer. An error of ours costs one client its own, not the broker the connection by
    which all its clients' requests come."""
    try:
        answer = controller.handle(inner, now, forwarder)
        return (yield from answer) if isinstance(answer, Generator) else answer
    except (OSError, DiskFull):
        raise
    except Exception:
        log.exception("a forwarded request failed: key %d version %d", *inner[:2])
        return fitted(refuse(inner.message, ErrorCode.UNKNOWN_SERVER_ERROR), inner.version)
