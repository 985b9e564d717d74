"""Addresses as people write them, and where a key belongs."""

from __future__ import annotations

import pytest

from tidelog.client import (
    Address,
    BrokerError,
    ClientSettings,
    parse_servers,
    settings_from_properties,
)
from tidelog.client.partitioner import murmur2, partition_of_key
from tidelog.errors import ErrorCode


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("a:1", [("a", 1)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        ("a", [("a", 9092)]),
        ("[::1]:9093,[::1]", [("::1", 9093), ("::1", 9092)]),
    ],
)
def test_servers_are_read(text, servers):
    assert parse_servers(text) == tuple(Address(*server) for server in servers)


@pytest.mark.parametrize("text", ["a:", ":1", "a:0", "a:65536", "a:x", "a:-1", "a:²"])
def test_what_is_no_address_is_named(text):
    with pytest.raises(ValueError, match="want host:port"):
        parse_servers(text)


def test_without_a_server_there_is_no_client():
    with pytest.raises(ValueError, match="at least one"):
        ClientSettings(bootstrap_servers=parse_servers(""))


def test_an_address_is_shown_as_it_is_written():
    assert str(Address("::1", 1)) == "[::1]:1"
    assert str(Address("a", 1)) == "a:1"


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_javas_producer_does(key, hashed):
    assert murmur2(key) == hashed % 2**32
    assert partition_of_key(key, 7) == (hashed & 0x7FFFFFFF) % 7


def test_a_code_of_the_future_is_told_by_number():
    error = BrokerError(999, about="topic a")
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "999" in str(error)
    assert not error.is_retriable


def test_settings_are_read_under_kafkas_names():
    settings = settings_from_properties(
        {
            "bootstrap.servers": "a:1",
            "client.id": "me",
            "request.timeout.ms": "5",
            "default.api.timeout.ms": "6",
            "retry.backoff.max.ms": "7",
            "security.protocol": "plaintext",
        }
    )
    assert settings == ClientSettings(
        bootstrap_servers=(Address("a", 1),),
        client_id="me",
        request_timeout_ms=5,
        timeout_ms=6,
        retry_backoff_ms_max=7,
    )
    assert settings_from_properties({"client.id": "you"}, settings).timeout_ms == 6


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("group.id", "g", "does not know group.id; it knows bootstrap.servers, client.id"),
        ("security.protocol", "SSL", "speaks PLAINTEXT only"),
        ("request.timeout.ms", "-1", "want milliseconds from 0"),
        ("request.timeout.ms", "2147483648", "want milliseconds from 0"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(name, value, said):
    with pytest.raises(ValueError, match=said):
        settings_from_properties({"bootstrap.servers": "a", name: value})
