"""Which requests are decoded, which are refused, and the one that is answered nevertheless."""

from __future__ import annotations

import struct

import pytest

from tidelog.runtime.handlers.api_versions import refuse_version
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.codec import decode, encode
from tidelog.wire.decoder import DecodeError
from tidelog.wire.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages.api_versions import ApiVersionsResponse
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.wire.request import (
    Request,
    UnknownVersion,
    decode_request,
    encode_response,
)

SERVED = {key: api.versions for key, api in APIS.items()}
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")


def request_frame(key: int, version: int, body: bytes, header_version: int = 1) -> memoryview:
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=7, client_id="me"
    )
    return memoryview(encode(header, header_version) + body)


@pytest.mark.parametrize("version", range(5))
def test_request_is_decoded(version: int) -> None:
    header_version = 2 if version == 4 else 1
    frame = request_frame(ApiKey.HEARTBEAT, version, encode(HEARTBEAT, version), header_version)
    assert decode_request(frame, SERVED) == Request(12, version, 7, "me", HEARTBEAT)


def test_bytes_behind_the_request_are_ignored() -> None:
    frame = request_frame(ApiKey.HEARTBEAT, 0, encode(HEARTBEAT, 0) + b"trailing")
    assert decode_request(frame, SERVED).message == HEARTBEAT


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (b"", "a request of 0 bytes"),
        (b"\0\x0c\0", "a request of 3 bytes"),
        (request_frame(4, 0, b""), "API key 4 is not served"),
        (request_frame(93, 0, b""), "API key 93 is not served"),
        (request_frame(-1, 0, b""), "API key -1 is not served"),
        (request_frame(12, 5, b"", 2), "Heartbeat v5 is not served, only v0 to v4"),
        (request_frame(12, -1, b""), "Heartbeat v-1 is not served"),
        (request_frame(0, 2, b""), "Produce v2 is not served, only v3 to v13"),
        (request_frame(12, 0, b""), "HeartbeatRequest v0"),
        (request_frame(12, 0, encode(HEARTBEAT, 0)[:-1]), "HeartbeatRequest v0: ends 1 bytes"),
        (struct.pack(">hhih", 12, 0, 7, -2), "client_id has a negative length"),
        (struct.pack(">hhih", 12, 4, 7, -1), "the header ends before its tags"),
        (struct.pack(">hhih", 12, 0, 7, 1) + b"\xff" + bytes(9), "client_id is not UTF-8"),
        (struct.pack(">hhih", 12, 0, 7, 9), "the header ends 9 bytes early"),
    ],
)
def test_what_is_no_request_is_refused(frame: bytes, complaint: str) -> None:
    with pytest.raises(DecodeError, match=complaint):
        decode_request(memoryview(frame), SERVED)


def test_an_api_that_is_not_served_is_refused() -> None:
    frame = request_frame(ApiKey.HEARTBEAT, 0, encode(HEARTBEAT, 0))
    with pytest.raises(DecodeError, match="API key 12 is not served"):
        decode_request(frame, {ApiKey.API_VERSIONS: (0, 4)})


@pytest.mark.parametrize("version", [5, 32767])
def test_api_versions_of_the_future_is_answered_in_version_0(version: int) -> None:
    frame = request_frame(ApiKey.API_VERSIONS, version, b"unheard-of", 2)
    request = decode_request(frame, SERVED)
    assert isinstance(request.message, UnknownVersion)
    answer = b"".join(encode_response(request, refuse_version(SERVED)))
    # Length, correlation id, error 35, one entry: ApiVersions 0 to 4.
    assert answer.hex() == "0000001000000007002300000001001200000004"
    assert decode(ApiVersionsResponse, 0, answer[8:]).error_code == 35


def test_response_is_a_frame_with_the_right_header() -> None:
    for version, header_version in ((3, 0), (4, 1)):
        request = Request(12, version, 7, None, HEARTBEAT)
        answer = b"".join(encode_response(request, HeartbeatResponse(error_code=27)))
        assert struct.unpack_from(">i", answer) == (len(answer) - 4,)
        header = encode(ResponseHeader(correlation_id=7), header_version)
        body = encode(HeartbeatResponse(error_code=27), version)
        assert answer[4:] == header + body


def test_records_are_sent_from_where_they_lie() -> None:
    records = memoryview(bytearray(b"batches"))
    partition = PartitionData(
        partition_index=0,
        error_code=0,
        high_watermark=1,
        aborted_transactions=None,
        records=records,
    )
    response = FetchResponse(responses=(FetchableTopicResponse(partitions=(partition,)),))
    parts = encode_response(Request(1, 13, 7, None, HEARTBEAT), response)
    assert any(part is records for part in parts)
