"""Kafka's wire protocol: frames, messages, record batches. Bytes in, values out, no I/O."""

from tidelog.wire.api import APIS, ApiKey, request_class, response_class
from tidelog.wire.codec import UnsupportedVersion, decode, decoder, encode, encoder
from tidelog.wire.decoder import DecodeError
from tidelog.wire.encoder import EncodeError
from tidelog.wire.frame import FrameReader
from tidelog.wire.request import Request, decode_request, encode_response

__all__ = [
    "APIS",
    "ApiKey",
    "DecodeError",
    "EncodeError",
    "FrameReader",
    "Request",
    "UnsupportedVersion",
    "decode",
    "decode_request",
    "decoder",
    "encode",
    "encode_response",
    "encoder",
    "request_class",
    "response_class",
]
