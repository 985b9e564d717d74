"""CreateTopics, DeleteTopics, CreatePartitions: the controller decides, the log remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.controller import topic_changes
from tidelog.controller import topics as controller
from tidelog.controller.decision import Decision
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.runtime.purgatory import Delayed
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


def create_topics(request: Request, broker: Broker, now: Now) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, CreateTopicsRequest)

    def decide() -> Slices[Decision[CreateTopicsResponse]]:
        latest = broker.metadata.latest
        return controller.create_topics(latest, message, broker.config, broker.rng)

    return (yield from broker.commit(decide, "topics", message.timeout_ms, now))


def delete_topics(request: Request, broker: Broker, now: Now) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, DeleteTopicsRequest)

    def decide() -> Slices[Decision[DeleteTopicsResponse]]:
        return topic_changes.delete_topics(broker.metadata.latest, message, broker.config)

    return (yield from broker.commit(decide, "responses", message.timeout_ms, now))


def create_partitions(request: Request, broker: Broker, now: Now) -> Slices[Message | Delayed]:
    message = request.message
    assert isinstance(message, CreatePartitionsRequest)

    def decide() -> Slices[Decision[CreatePartitionsResponse]]:
        return topic_changes.create_partitions(broker.metadata.latest, message, broker.rng)

    return (yield from broker.commit(decide, "results", message.timeout_ms, now))


def create_automatically(broker: Broker, name: str, now: Now) -> Slices[ErrorCode]:
    """What a client is told of a topic that it named and that is made only now."""
    return (yield from broker.in_turn(lambda: _create(broker, name, now)))


def _create(broker: Broker, name: str, now: Now) -> Slices[ErrorCode]:
    latest = broker.metadata.latest
    if name in latest.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # decided already, not committed yet
    topic = CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=(), configs=()
    )
    request = CreateTopicsRequest(topics=(topic,))
    decision = yield from controller.create_topics(latest, request, broker.config, broker.rng)
    (result,) = decision.response.topics
    if result.error_code != ErrorCode.NONE:
        return ErrorCode(result.error_code)
    error = yield from broker.metadata.append_in_slices(decision.records, now)
    if error is not ErrorCode.NONE:
        return ErrorCode.KAFKA_STORAGE_ERROR
    broker.flush_metadata(now)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
