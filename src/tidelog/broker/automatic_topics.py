"""Topics that are made because somebody asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.wire.declare import Message
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

ASKED_MAX = 1000
"""At once; who asks for more of them asks again."""


class AutomaticTopics:
    """Those that the controller was asked for and has not answered."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._asked: dict[str, None] = {}

    def create(self, name: str, now: Now) -> ErrorCode:
        """What a client is told of a topic that it named and that is made only now: it will find
        it when it asks again. A refusal is told if it comes at once."""
        refused = ErrorCode.NONE
        if name in self._asked or len(self._asked) >= ASKED_MAX:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        def answered(answer: Message | PeerFailure, now: Now) -> None:
            nonlocal refused
            self._asked.pop(name, None)
            if isinstance(answer, CreateTopicsResponse) and answer.topics:
                refused = ErrorCode.of(answer.topics[0].error_code)

        self._asked[name] = None
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=(), configs=()
        )
        self._broker.controller.ask(CreateTopicsRequest(topics=(topic,)), answered, now)
        if refused in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refused
