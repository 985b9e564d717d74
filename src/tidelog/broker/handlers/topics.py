"""CreateTopics, DeleteTopics, CreatePartitions: the controller decides, the log remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.broker.purgatory import Delayed
from tidelog.controller import topic_changes
from tidelog.controller import topics as controller
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.wire.declare import Message
from tidelog.wire.messages.create_partitions import CreatePartitionsRequest
from tidelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest
from tidelog.wire.request import Request

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


def create_topics(request: Request, broker: Broker, now: Now) -> Message | Delayed:
    message = request.message
    assert isinstance(message, CreateTopicsRequest)
    decision = controller.create_topics(broker.metadata.latest, message, broker.config, broker.rng)
    return broker.commit(decision, "topics", message.timeout_ms, now)


def delete_topics(request: Request, broker: Broker, now: Now) -> Message | Delayed:
    message = request.message
    assert isinstance(message, DeleteTopicsRequest)
    decision = topic_changes.delete_topics(broker.metadata.latest, message, broker.config)
    return broker.commit(decision, "responses", message.timeout_ms, now)


def create_partitions(request: Request, broker: Broker, now: Now) -> Message | Delayed:
    message = request.message
    assert isinstance(message, CreatePartitionsRequest)
    decision = topic_changes.create_partitions(broker.metadata.latest, message, broker.rng)
    return broker.commit(decision, "results", message.timeout_ms, now)


def create_automatically(broker: Broker, name: str, now: Now) -> ErrorCode:
    """What a client is told of a topic that it named and that is made only now."""
    if name in broker.metadata.latest.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # decided already, not committed yet
    topic = CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=(), configs=()
    )
    decision = controller.create_topics(
        broker.metadata.latest, CreateTopicsRequest(topics=(topic,)), broker.config, broker.rng
    )
    (result,) = decision.response.topics
    if result.error_code != ErrorCode.NONE:
        return ErrorCode(result.error_code)
    if broker.metadata.append(decision.records, now) is not ErrorCode.NONE:
        return ErrorCode.KAFKA_STORAGE_ERROR
    broker.flush_metadata(now)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
