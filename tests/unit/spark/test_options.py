"""Options are text: what they mean, and what a wrong one is told."""

from __future__ import annotations

import pytest

from tidelog.client import Address
from tidelog.spark.kafka_options import kafka_settings
from tidelog.spark.options import (
    OptionError,
    boolean,
    choice,
    integer,
    milliseconds,
    refuse_unknown,
)

SERVERS = {"kafka.bootstrap.servers": "a:1,b:2"}


def test_a_mistyped_option_is_refused_and_the_right_one_named():
    known = ("startingOffsets", "failOnDataLoss")
    refuse_unknown({"FAILONDATALOSS": "false", "kafka.acks": "all"}, known, "the source")
    with pytest.raises(OptionError, match=r"no option 'startingoffset' \(did you mean starting"):
        refuse_unknown({"startingoffset": "earliest"}, known, "the source")
    with pytest.raises(OptionError, match="no option 'zzz'; its options are failOnDataLoss, st"):
        refuse_unknown({"zzz": ""}, known, "the source")


def test_values_are_read_or_refused():
    assert boolean({"a": " True "}, "a", False) is True
    assert boolean({}, "a", True) is True
    assert integer({"a": " 12 "}, "a") == 12
    assert integer({}, "a") is None
    assert choice({"a": "LATEST"}, "a", "error", ("error", "latest")) == "latest"
    for text in ("yes", "", "1"):
        with pytest.raises(OptionError, match=r"a is .* and may be true or false"):
            boolean({"a": text}, "a", False)
    for text in ("", "1.5", "ten", "0", str(1 << 63)):
        with pytest.raises(OptionError, match=r"a is .*: want a whole number from 1"):
            integer({"a": text}, "a", minimum=1)
    with pytest.raises(OptionError, match="a is 'first', and may be error or latest"):
        choice({"a": "first"}, "a", "error", ("error", "latest"))


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("15m", 900_000),
        ("10s", 10_000),
        ("500ms", 500),
        ("7", 7),
        ("1h", 3_600_000),
        ("2MIN", 120_000),
    ],
)
def test_times_are_written_as_spark_writes_them(text, ms):
    assert milliseconds({"a": text}, "a", 0) == ms


def test_a_time_in_words_is_refused():
    with pytest.raises(OptionError, match="such as 15m"):
        milliseconds({"a": "soon"}, "a", 0)


def test_kafka_settings_are_the_clients_and_the_callers():
    options = {
        **SERVERS,
        "kafka.request.timeout.ms": "7",
        "kafka.isolation.level": "read_committed",
        "startingOffsets": "earliest",
    }
    settings, more = kafka_settings(options, ("isolation.level",), "the source")
    assert settings.bootstrap_servers == (Address("a", 1), Address("b", 2))
    assert settings.request_timeout_ms == 7
    assert settings.client_id == "tidelog-spark"
    assert more == {"isolation.level": "read_committed"}
    named, _ = kafka_settings({**SERVERS, "kafka.client.id": "me"}, (), "the source")
    assert named.client_id == "me"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "'kafka.bootstrap.servers' must be specified for the sink, as host:port"),
        ({"kafka.bootstrap.servers": "a:b"}, "'a:b' is not an address"),
        ({**SERVERS, "kafka.sasl.mechanism": "PLAIN"}, "the sink does not know kafka.sasl.mech"),
        ({**SERVERS, "kafka.sasl.mechanism": "PLAIN"}, "it knows kafka.acks, kafka.bootstrap.ser"),
        ({**SERVERS, "kafka.security.protocol": "SSL"}, "speaks PLAINTEXT only"),
        ({**SERVERS, "kafka.request.timeout.ms": "soon"}, "want milliseconds"),
    ],
)
def test_a_kafka_setting_is_never_ignored(options, words):
    with pytest.raises(OptionError, match=words):
        kafka_settings(options, ("acks",), "the sink")
