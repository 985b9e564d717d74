"""A connection to a broker without its socket: bytes in, bytes out, requests and answers.

The first request is ApiVersions, in the newest version we know; a broker that does not know it
says so in version 0 and names its own newest, in which we ask again. Then every API is
spoken in the highest version that both sides have.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any, NamedTuple

from tidelog import __version__
from tidelog.client.errors import (
    Address,
    BrokerError,
    ConnectionFailed,
    DoesNotFit,
    TooManyRequests,
    UnsupportedByBroker,
)
from tidelog.client.frames import AnswerFrames
from tidelog.client.misfit import misfit
from tidelog.errors import ErrorCode
from tidelog.wire.api import APIS, ApiKey, response_class
from tidelog.wire.codec import UnsupportedVersion, decode, decoder
from tidelog.wire.declare import Message
from tidelog.wire.decoder import DecodeError
from tidelog.wire.encoder import EncodeError
from tidelog.wire.frame import FRAME_BYTES_MAX
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.request import encode_request, response_start

IN_FLIGHT_MAX = 64
"""Requests without an answer on one connection. More would only wait in the broker's socket."""

SOFTWARE_NAME = "tidelog"
NO_LISTENER = "it closed the connection before it answered; is it a Kafka listener without TLS?"


class InFlight(NamedTuple):
    """A request that has no answer yet."""

    correlation_id: int
    key: ApiKey
    version: int


class Answer(NamedTuple):
    """A broker's answer, and to which request."""

    correlation_id: int
    message: Message


class BrokerConnection:
    """Feed it what `buffer` and `received` say, write what `take_outgoing` gives.

    Not ready until the broker has told its versions; after a failure it is of no more use.
    """

    def __init__(
        self, address: Address, client_id: str, *, answer_bytes_max: int = FRAME_BYTES_MAX
    ) -> None:
        self.address = address
        self.client_id = client_id
        self.is_ready = False
        self.broker_versions: dict[int, tuple[int, int]] = {}
        self._frames = AnswerFrames(answer_bytes_max)
        self._outgoing: list[Any] = []
        self._in_flight: deque[InFlight] = deque()
        self._next_correlation_id = 0
        self._has_fallen_back = False
        self._ask_versions(_last_version(ApiKey.API_VERSIONS))

    @property
    def in_flight(self) -> int:
        """How many answers are awaited."""
        return len(self._in_flight)

    def send(
        self, request: Message, *, version_max: int | None = None, expects_answer: bool = True
    ) -> int:
        """Queue a request, and return its correlation id. UnsupportedByBroker if the broker
        has no version that can say it."""
        assert self.is_ready
        if len(self._in_flight) >= IN_FLIGHT_MAX:
            raise TooManyRequests(f"{self.address}: {IN_FLIGHT_MAX} requests have no answer yet")
        assert request.API_KEY is not None
        version = self.version_of(request.API_KEY, version_max)
        return self._queue(request, request.API_KEY, version, expects_answer)

    def version_of(self, key: ApiKey, version_max: int | None = None) -> int:
        """The highest that both sides speak."""
        first, last = self.broker_versions.get(key, (0, -1))
        ours, highest = APIS[key].versions[0], _last_version(key)
        version = min(last, highest if version_max is None else min(highest, version_max))
        if version < max(first, ours):
            said = f"versions {first} to {last}" if last >= 0 else "no version"
            raise UnsupportedByBroker(
                f"{self.address} has {said} of {APIS[key].name}, {ours} to {highest} needed: "
                "use a broker of Kafka 2.8 or newer"
            )
        return version

    def take_outgoing(self) -> list[Any]:
        """The buffers to write now."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def buffer(self) -> memoryview:
        """Where received bytes belong."""
        return self._frames.buffer()

    def received(self, count: int) -> list[Answer]:
        """The answers that became whole; ConnectionFailed if the peer does not speak Kafka."""
        answers = []
        try:
            for frame in self._frames.received(count):
                answer = self._read(frame)
                if answer is not None:
                    answers.append(answer)
        except DecodeError as error:
            raise ConnectionFailed(self.address, f"it does not speak Kafka: {error}") from None
        return answers

    def closed_by_peer(self) -> ConnectionFailed:
        """What the end of the stream means now."""
        reason = "the broker closed the connection" if self.is_ready else NO_LISTENER
        return ConnectionFailed(self.address, reason)

    def _read(self, frame: memoryview) -> Answer | None:
        if not self._in_flight:
            raise DecodeError("an answer to no request")
        waiting = self._in_flight.popleft()
        position = response_start(frame, waiting.key, waiting.version, waiting.correlation_id)
        if not self.is_ready:
            self._learn_versions(frame[position:], waiting.version)
            return None
        message, _ = decoder(response_class(waiting.key), waiting.version)(frame, position)
        return Answer(waiting.correlation_id, message)

    def _ask_versions(self, version: int) -> None:
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=__version__
        )
        self._queue(request, ApiKey.API_VERSIONS, version, True)

    def _learn_versions(self, body: memoryview, version: int) -> None:
        # A refusal has the form of version 0, whatever was asked.
        is_refused = bytes(body[:2]) == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")
        answer = decode(ApiVersionsResponse, 0 if is_refused else version, body)
        versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        if is_refused and not self._has_fallen_back:
            self._has_fallen_back = True
            _, last = versions.get(ApiKey.API_VERSIONS, (0, 0))
            self._ask_versions(min(last, version - 1))
        elif answer.error_code:
            refusal = BrokerError(answer.error_code)
            raise ConnectionFailed(self.address, f"it refused to tell its versions: {refusal}")
        else:
            self.broker_versions = versions
            self.is_ready = True

    def _queue(self, request: Message, key: ApiKey, version: int, expects_answer: bool) -> int:
        correlation_id = self._next_correlation_id
        try:
            parts = encode_request(request, version, correlation_id, self.client_id)
        except (EncodeError, UnsupportedVersion) as error:
            raise UnsupportedByBroker(f"{self.address}: {APIS[key].name} {error}") from None
        except struct.error:
            said = misfit(request, version)
            if said is None:  # not a number of the user's: a mistake in the program
                raise
            raise DoesNotFit(f"{APIS[key].name}: {said}") from None
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        self._outgoing += parts
        if expects_answer:
            self._in_flight.append(InFlight(correlation_id, key, version))
        return correlation_id


def _last_version(key: ApiKey) -> int:
    api = APIS[key]
    return api.versions[1] - api.latest_is_unstable
