"""CreateTopics, DeleteTopics, CreatePartitions: the controller decides, the log remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.controller import topic_changes
from tidelog.controller import topics as decisions
from tidelog.controller.decision import Decision
from tidelog.env import Now
from tidelog.runtime.purgatory import Delayed
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from tidelog.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController


def create_topics(
    request: Request, controller: QuorumController, now: Now
) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, CreateTopicsRequest)

    def decide() -> Slices[Decision[CreateTopicsResponse]]:
        return decisions.create_topics(
            controller.latest, message, controller.config, controller.runtime.rng
        )

    return (yield from controller.commit(decide, "topics", message.timeout_ms, now))


def delete_topics(
    request: Request, controller: QuorumController, now: Now
) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, DeleteTopicsRequest)

    def decide() -> Slices[Decision[DeleteTopicsResponse]]:
        return topic_changes.delete_topics(controller.latest, message, controller.config)

    return (yield from controller.commit(decide, "responses", message.timeout_ms, now))


def create_partitions(
    request: Request, controller: QuorumController, now: Now
) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, CreatePartitionsRequest)

    def decide() -> Slices[Decision[CreatePartitionsResponse]]:
        return topic_changes.create_partitions(controller.latest, message, controller.runtime.rng)

    return (yield from controller.commit(decide, "results", message.timeout_ms, now))
