"""What can go wrong with a broker, by whose fault it is: its answer, the way to it, the time."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.errors import ErrorCode

TEXTS = {
    ErrorCode.OFFSET_OUT_OF_RANGE: "the offset lies outside the partition's log",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader now",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the broker does not lead the partition",
    ErrorCode.MESSAGE_TOO_LARGE: "the batch is larger than the topic's max.message.bytes",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas demands",
    ErrorCode.TOPIC_ALREADY_EXISTS: "a topic of this name already exists",
    ErrorCode.KAFKA_STORAGE_ERROR: "the broker cannot write to its disk",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the broker does not know this compression",
}
"""For answers that carry a code alone; the other codes' names speak for themselves."""


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ClientError(Exception):
    """All that the client raises for reasons outside the program that uses it."""

    is_retriable = False
    """Whether the same request may succeed when it is sent again."""


class BrokerError(ClientError):
    """A broker answered with an error code."""

    def __init__(self, code: int, message: str | None = None, *, about: str = "") -> None:
        try:
            self.code = ErrorCode(code)
        except ValueError:  # of a broker newer than we are
            self.code = ErrorCode.UNKNOWN_SERVER_ERROR
            message = message or f"error code {code}, which this version does not know"
        self.message = message or TEXTS.get(self.code) or self.code.name
        self.about = about
        """The topic, partition or resource that was refused."""
        super().__init__(f"{about}: {self.message}" if about else self.message)

    @property
    def is_retriable(self) -> bool:  # type: ignore[override]
        return self.code.is_retriable


class ConnectionFailed(ClientError):
    """No connection to an address, or one that broke."""

    is_retriable = True

    def __init__(self, address: Address, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class TimedOut(ClientError):
    """The deadline passed; the cause, if there is one, is what the last attempt met."""

    is_retriable = True


class TooManyRequests(ClientError):
    """As many requests as a connection takes have no answer yet."""

    is_retriable = True


class UnsupportedByBroker(ClientError):
    """The broker is too old (or the client is) for what was asked."""


class DoesNotFit(ClientError):
    """A number is too large, or too small, for its field in Kafka's protocol."""


class UnknownBroker(ClientError):
    """The cluster has no broker of this id."""


class CorruptBatch(ClientError):
    """A fetched batch is not what a producer sent."""
