"""What our brokers say to each other is what Apache Kafka's do, byte for byte: the captured life of
topic t1 on brokers 101, 102, 103, the last of which leads it."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.wired import Wired
from tests.unit.node_client import parse_response

from tidelog.types import parse_uuid
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import decoder, encode
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.list_offsets import ListOffsetsRequest

TOPIC_ID = parse_uuid("UZo7GbnyQEK545-rr8VsWQ")
BROKER_EPOCHS = {101: 97, 102: 188, 103: 186}
FRAMES = {
    frame["id"]: frame
    for frame in map(
        json.loads, (Path(__file__).parents[2] / "data" / "frames.jsonl").read_text().splitlines()
    )
}
REQUESTS = {ApiKey.FETCH: FetchRequest, ApiKey.LIST_OFFSETS: ListOffsetsRequest}


@pytest.fixture
def wired() -> Wired:
    wired = Wired(101, 102, 103)
    for id_, epoch in BROKER_EPOCHS.items():
        wired[id_].broker.lifecycle.broker_epoch = epoch
    for id_ in wired.ids:
        wired.commit([wired._registration(other) for other in wired.ids if other != id_], id_)
    for node in wired.nodes.values():
        node.shell.requests.clear()
        node.shell.answers.clear()
    any_time = {"message_timestamp_after_max_ms": str(1 << 62)}
    wired.create_topic(103, 101, 102, name="t1", topic_id=TOPIC_ID, **any_time)
    return wired


def captured(frame_id: str) -> bytes:
    return bytes.fromhex(FRAMES[frame_id]["hex"])


def request_of(frame: bytes) -> Any:
    """The message, whatever the header's correlation id."""
    key, version, _, size = struct.unpack_from(">hhih", frame)
    message, end = decoder(REQUESTS[ApiKey(key)], version)(memoryview(frame), 10 + size + 1)
    assert end == len(frame)
    return message


def requests(wired: Wired, node_id: int) -> list[bytes]:
    return [frame for _, frame in wired[node_id].shell.requests]


def response_of(frame: bytes) -> Any:
    return parse_response(ApiKey.FETCH, 18, frame)[1]


def in_session(message: Any, like: Any) -> Any:
    """The number of a session is chance, and how long it lasts a matter of time."""
    fields = {"session_id": like.session_id}
    if isinstance(message, FetchRequest):
        fields["session_epoch"] = like.session_epoch
    return message.replace(**fields)


def test_a_follower_asks_for_the_same(wired: Wired) -> None:
    wired.advance(600)
    first, second, *_ = requests(wired, 101)
    theirs = captured("05-create-topic/148")
    assert first[:4] == theirs[:4]  # key and version, without asking for versions before
    assert first[8:] == theirs[8:]
    idle = captured("05-produce/161")
    assert encode(in_session(request_of(second), request_of(idle)), 18) == encode(
        request_of(idle), 18
    )
    wired[101].shell.requests.clear()
    produce(wired)
    acknowledging = captured("05-produce/164")
    ours = requests(wired, 101)[0]
    assert in_session(request_of(ours), request_of(acknowledging)) == request_of(acknowledging)


def produce(wired: Wired) -> None:
    """The record that was produced there, as its leader wrote it."""
    (data,) = response_of(captured("05-produce/163")).responses[0].partitions
    node = wired[103]
    connection = node.shell.connect()
    node.send(node.produce_request("t1", bytes(data.records)), 9, connection)
    wired.advance(20)
    (answer,) = node.take(ApiKey.PRODUCE, 9, connection)
    assert answer.responses[0].partition_responses[0].error_code == 0


def test_a_leader_answers_the_same(wired: Wired) -> None:
    wired.advance(600)
    produce(wired)
    wired.advance(600)
    answers = [frame for id_, frame in wired[103].shell.answers if id_ == 101]
    for frame_id in ("05-create-topic/154", "05-produce/163", "05-produce/167"):
        theirs = response_of(captured(frame_id))
        ours = [encode(in_session(response_of(frame), theirs), 18) for frame in answers]
        assert encode(theirs, 18) in ours, frame_id
    assert wired.partition(101, topic="t1").high_watermark == 1


def test_a_follower_out_of_range_asks_where_the_log_is(wired: Wired) -> None:
    for _ in range(3):
        wired.change(leader=103, topic_id=TOPIC_ID)
    wired.disconnect(102)
    leader = wired.partition(103, topic="t1")
    for id_ in (101, 103):
        wired.partition(id_, topic="t1").log.truncate_fully_and_start_at(41)
    leader.high_watermark = 41
    leader.log.leader_epochs.assign(3, 41)
    wired.down.clear()
    wired[102].shell.requests.clear()
    wired.advance(1500)
    asked = [
        f for f in requests(wired, 102) if f[:2] == captured("05-follower-out-of-range/365")[:2]
    ]
    for ours, frame_id in zip(
        asked, ("05-follower-out-of-range/365", "05-follower-out-of-range/367"), strict=True
    ):
        assert ours[8:] == captured(frame_id)[8:]
    mended = request_of(captured("05-follower-out-of-range/369"))
    named = [
        topic
        for frame in requests(wired, 102)
        if frame[:2] == b"\x00\x01"
        for topic in request_of(frame).topics
    ]
    assert mended.topics[0] in named
