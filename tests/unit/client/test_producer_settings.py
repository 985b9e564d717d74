"""Kafka's names for a producer's settings: read, checked as Kafka checks them, refused by name."""

from __future__ import annotations

import pytest

from tidelog.client.produce import ACKS_LEADER
from tidelog.client.producer_settings import PRODUCER_NAMES, ProducerSettings, producer_settings
from tidelog.wire.compression import Compression


def settings(**properties: str) -> ProducerSettings:
    named = {name.replace("_", "."): text for name, text in properties.items()}
    return producer_settings(named, 30_000, {})


def test_the_defaults_are_those_of_kafkas_producer():
    assert settings() == ProducerSettings()


def test_every_name_of_kafkas_producer_is_read():
    found = settings(
        acks="-1",
        batch_size="1000",
        linger_ms="7",
        buffer_memory="2000",
        max_request_size="3000",
        max_in_flight_requests_per_connection="4",
        retries="5",
        delivery_timeout_ms="40000",
        max_block_ms="6",
        compression_type="ZSTD",
        compression_zstd_level="-3",
        compression_lz4_level="4",
        compression_gzip_level="-1",
        enable_idempotence="True",
        partitioner_ignore_keys="true",
    )
    assert found == ProducerSettings(
        batch_bytes=1000,
        linger_ms=7,
        buffer_bytes=2000,
        request_bytes_max=3000,
        in_flight_max=4,
        retries=5,
        delivery_timeout_ms=40_000,
        block_ms_max=6,
        compression=Compression.ZSTD,
        compression_level=-3,
        ignore_keys=True,
    )
    assert len(PRODUCER_NAMES) == 15


@pytest.mark.parametrize(
    "against", [{"acks": "1"}, {"retries": "0"}, {"max_in_flight_requests_per_connection": "6"}]
)
def test_what_contradicts_idempotence_ends_it_unless_it_was_asked_for(against):
    assert not settings(**against).idempotent
    assert not settings(**against, enable_idempotence="false").idempotent
    with pytest.raises(ValueError, match=r"enable.idempotence=true needs"):
        settings(**against, enable_idempotence="true")
    assert settings(acks="1").acks == ACKS_LEADER


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("acks", "2"),
        ("batch.size", "-1"),
        ("linger.ms", "soon"),
        ("compression.type", "brotli"),
        ("compression.zstd.level", "23"),
        ("compression.gzip.level", "0"),
        ("max.in.flight.requests.per.connection", "0"),
        ("enable.idempotence", "yes"),
        ("delivery.timeout.ms", "29999"),
    ],
)
def test_a_wrong_value_is_named(name, text):
    with pytest.raises(ValueError, match=f"{name}={text}"):
        producer_settings({name: text}, 30_000, {})


def test_time_to_linger_is_part_of_the_delivery():
    with pytest.raises(ValueError, match="which are 30005"):
        settings(linger_ms="5", delivery_timeout_ms="30004")
    settings(linger_ms="5", delivery_timeout_ms="30005")
