"""The controller's decisions against a live node of Apache Kafka: the same requests in the same
order, and every answer is equal, messages for people included."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.interop.apache import ApacheNode
from tests.interop.suite import SECONDS_MAX
from tests.interop.test_config_definitions import KEPT
from tests.unit.controller.scripts import SCRIPTS, Model, transcript
from tidelog.config.broker import BrokerConfig
from tidelog.types import ZERO_UUID
from tidelog.wire.api import APIS, response_class
from tidelog.wire.codec import decode, decoder, encode
from tidelog.wire.declare import Message, Struct
from tidelog.wire.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

pytestmark = pytest.mark.interop
LOOK_SECONDS = 0.02
LOOKS_MAX = 1500
"""How often a broker is asked that has not yet taken over what its controller has answered."""


class Connection:
    """Sends one request at a time in its newest version."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=SECONDS_MAX)

    def ask(self, request: Message) -> Message:
        assert request.API_KEY is not None
        api = APIS[request.API_KEY]
        version = api.versions[1]
        header = RequestHeader(
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=1,
            client_id="decisions",
        )
        frame = encode(header, api.request_header_version(version)) + encode(request, version)
        self.socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._receive(4))
        answer = memoryview(self._receive(size))
        _, position = decoder(ResponseHeader, api.response_header_version(version))(answer, 0)
        message, _ = decoder(response_class(api.key), version)(answer, position)
        return message

    def _receive(self, size: int) -> bytes:
        received = b""
        while len(received) < size:
            part = self.socket.recv(size - len(received))
            assert part, "the node closed the connection"
            received += part
        return received


def as_sent(answer: Message) -> Message:
    """After a way over the wire, in the newest version, which may leave fields out."""
    version = type(answer).VERSIONS[1]
    return decode(type(answer), version, encode(answer, version))


def comparable(answer: Any) -> Any:
    """Without ids, which chance gives, and in the order of names, which is not promised."""
    if isinstance(answer, Struct):
        return {
            name: getattr(answer, name) != ZERO_UUID
            if name == "topic_id"
            else comparable(getattr(answer, name))
            for name in type(answer).FIELDS
        }
    if isinstance(answer, tuple):
        return sorted((comparable(item) for item in answer), key=repr)
    return int(answer) if isinstance(answer, int) else answer


def without_what_is_ours_alone(answer: Message, known: set[str]) -> Message:
    """Documentation is ours; keys that we do not have are Kafka's."""
    if not isinstance(answer, DescribeConfigsResponse):
        return answer
    for result in answer.results:
        kept = []
        for one in result.configs:
            if one.name in known:
                one.documentation = None  # type: ignore[misc]
                kept.append(one)
        result.configs = tuple(kept)  # type: ignore[misc]
    return answer


def agree(ours: Any, theirs: Any) -> bool:
    """Equal, but that a refusal of ours may go on and say what is allowed."""
    if isinstance(ours, dict):
        return all(agree(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(agree, ours, theirs))
    if isinstance(ours, str) and " (allowed: " in ours:
        return ours.startswith(theirs or "?")
    return bool(ours == theirs)


class Exchanged(NamedTuple):
    """A request, and the answers."""

    request: Message
    ours: Any
    theirs: Any
    transcript: list[str]
    """Of their answer."""


@pytest.fixture(scope="module")
def conversations() -> dict[str, list[Exchanged]]:
    """Every script, on a node that has seen nothing else."""
    with ApacheNode(properties={"log.retention.hours": "100", "num.partitions": "2"}) as node:
        connection = Connection(node.bootstrap_servers)
        model = Model(BrokerConfig.from_properties(node.properties), random.Random(1))
        found = {
            name: [exchange(request, model, connection) for request in script(name)]
            for name, script in SCRIPTS.items()
        }
        connection.socket.close()
    return found


def exchange(request: Message, model: Model, connection: Connection) -> Exchanged:
    known = model.known_keys() - {"listeners"} - KEPT  # the default of the first is ours
    ours = comparable(without_what_is_ours_alone(as_sent(model.ask(request)), known))
    # A broker takes a change over a moment after it was answered.
    for _ in range(LOOKS_MAX if isinstance(request, DescribeConfigsRequest) else 1):
        answer = connection.ask(request)
        lines = transcript(request, answer)
        theirs = comparable(without_what_is_ours_alone(answer, known))
        if agree(ours, theirs):
            break
        threading.Event().wait(LOOK_SECONDS)
    return Exchanged(request, ours, theirs, lines)


@pytest.mark.parametrize("name", SCRIPTS)
def test_answers_agree(name: str, conversations: dict[str, list[Exchanged]]) -> None:
    for number, (request, ours, theirs, _) in enumerate(conversations[name]):
        assert agree(ours, theirs), f"request {number}: {request}\n{ours}\n{theirs}"


TRANSCRIPT = Path(__file__).parents[1] / "data" / "decisions.txt"


def test_the_transcript_that_unit_tests_go_by_is_what_kafka_answers(
    conversations: dict[str, list[Exchanged]],
) -> None:
    """With REWRITE_TRANSCRIPTS=1 the file is written anew."""
    lines = [
        line for exchanged in conversations.values() for one in exchanged for line in one.transcript
    ]
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        TRANSCRIPT.write_text("\n".join(lines) + "\n")
    assert TRANSCRIPT.read_text().splitlines() == lines
