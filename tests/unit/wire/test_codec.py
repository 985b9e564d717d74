"""What the codec refuses to say, and the values that it stores in more than one way."""

from __future__ import annotations

import pytest

from tidelog.wire.api import APIS
from tidelog.wire.codec import (
    UnsupportedVersion,
    decode,
    decoder,
    encode,
    encoder,
    sliced_decoder,
    sliced_encoder,
)
from tidelog.wire.decoder import DecodeError
from tidelog.wire.encoder import EncodeError
from tidelog.wire.messages.fetch import FetchRequest, ForgottenTopic
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id="i")


def test_a_field_that_the_version_lacks_is_an_error_unless_it_is_ignorable() -> None:
    assert decode(HeartbeatRequest, 3, encode(HEARTBEAT, 3)) == HEARTBEAT
    with pytest.raises(EncodeError, match=r"version 2 has no HeartbeatRequest\.group_instance_id"):
        encode(HEARTBEAT, 2)
    throttled = HeartbeatResponse(throttle_time_ms=7, error_code=0)
    assert decode(HeartbeatResponse, 0, encode(throttled, 0)).throttle_time_ms == 0


def test_a_version_that_does_not_exist_is_an_error() -> None:
    message = "HeartbeatRequest has versions 0 to 4, not 5"
    with pytest.raises(UnsupportedVersion, match=message):
        encode(HEARTBEAT, 5)
    for make in (decoder, encoder, sliced_decoder, sliced_encoder):
        with pytest.raises(UnsupportedVersion, match=message):
            make(HeartbeatRequest, 5)


@pytest.mark.parametrize("version", range(5))
def test_a_string_that_no_version_could_say_is_an_error(version: int) -> None:
    """By its bytes, as Kafka counts, whatever the length before it could hold."""
    longest = HEARTBEAT.replace(group_id="ü" * 16383 + "x", group_instance_id=None)
    assert decode(HeartbeatRequest, version, encode(longest, version)) == longest
    with pytest.raises(EncodeError, match="at most 32767 bytes, not 32768"):
        encode(longest.replace(group_id="ü" * 16384), version)
    if version >= 3:
        with pytest.raises(EncodeError, match="at most 32767 bytes, not 40000"):
            encode(HEARTBEAT.replace(group_instance_id="x" * 40000), version)


def test_trailing_bytes_are_refused_where_a_message_stands_alone() -> None:
    with pytest.raises(DecodeError, match="HeartbeatRequest v4: 2 bytes too many"):
        decode(HeartbeatRequest, 4, encode(HEARTBEAT, 4) + b"xx")


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 126, 127, 128, 1000])
@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_arrays_of_numbers_of_every_size(count: int, version: int) -> None:
    forgotten = ForgottenTopic(partitions=tuple(range(count)))
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=(), forgotten_topics_data=(forgotten,)
    )
    assert decode(FetchRequest, version, encode(request, version)) == request


@pytest.mark.parametrize("counts", [(0, 0, 0), (3, 2, 1), (16, 16, 16), (3, 17, 0), (200, 1, 130)])
@pytest.mark.parametrize("version", range(APIS[3].versions[1] + 1))
def test_partitions_with_arrays_of_every_size(counts: tuple[int, int, int], version: int) -> None:
    replicas, isr, offline = (tuple(range(count)) for count in counts)
    partition = MetadataResponsePartition(
        error_code=0,
        partition_index=1,
        leader_id=2,
        leader_epoch=3 if version >= 7 else -1,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=offline if version >= 5 else (),
    )
    topic = MetadataResponseTopic(error_code=0, name="t", partitions=(partition, partition))
    response = MetadataResponse(brokers=(), topics=(topic,))
    assert decode(MetadataResponse, version, encode(response, version)) == response


def test_messages_are_values() -> None:
    same = HEARTBEAT.replace(group_id="g")
    assert same == HEARTBEAT
    assert hash(same) == hash(HEARTBEAT)
    assert same.replace(group_id="other") != HEARTBEAT
    assert HeartbeatResponse(error_code=0) != HEARTBEAT
    assert repr(HeartbeatResponse(error_code=5)) == (
        "HeartbeatResponse(throttle_time_ms=0, error_code=5)"
    )
    with pytest.raises(AttributeError):
        HEARTBEAT.mistyped = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="member_id"):
        HeartbeatRequest(group_id="g", generation_id=1)  # type: ignore[call-arg]
