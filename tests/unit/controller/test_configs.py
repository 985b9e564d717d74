"""Where we say more than Kafka, and what the script of a live node does not reach."""

from __future__ import annotations

import random

import pytest
from tests.unit.config.test_broker import config
from tests.unit.controller.scripts import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    TOPIC,
    Model,
    change,
    create,
    delete,
    describe,
    replace,
    topic,
)
from tests.unit.metadata.lives import broker

from tidelog.controller.config_changes import alter_configs_incrementally
from tidelog.controller.describe_configs import list_config_resources
from tidelog.controller.names import collision, name_complaint
from tidelog.controller.topics import create_topics
from tidelog.errors import ErrorCode
from tidelog.metadata.frame import encode_record
from tidelog.metadata.records.cluster import ConfigRecord, FeatureLevelRecord
from tidelog.metadata.records.topics import ClearElrRecord, PartitionRecord, TopicRecord
from tidelog.slices import finish
from tidelog.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest


@pytest.fixture
def model():
    made = Model(config(), random.Random(1))
    made.ask(create(topic("t")))
    return made


def result(answer):
    (found,) = answer.responses
    return ErrorCode(found.error_code), found.error_message


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("log.cleaner.threads", "many", "a whole number of 32 bits, at least 0"),
        ("message.max.bytes", "-1", "Value must be at least 0"),
        ("no.such.key", "1", "Unknown configuration no.such.key (allowed: what docs/"),
        ("log.cleaner.thread", "1", "nearest: log.cleaner.threads"),
        ("retention.ms", "1", "nearest: log.retention.ms"),
        ("num.io.threads", "1", "num.io.threads of Kafka's has no meaning here"),
        ("log.cleanup.policy", "x" * 40_000, "longer than 32767"),
        ("replica.alter.log.dirs.io.max.bytes.per.second", "1", "has no effect here, yet"),
        ("leader.replication.throttled.rate", "fast", "Not a number of type LONG"),
        ("follower.replication.throttled.rate", "-1", "at least 0"),
    ],
)
def test_a_brokers_bad_value_is_invalid_and_says_what_is_allowed(model, name, value, allowed):
    """Kafka answers INVALID_REQUEST to some of these, and takes unknown keys."""
    code, message = result(model.ask(change(BROKER, "1", (name, SET, value))))
    assert code is ErrorCode.INVALID_CONFIG
    assert allowed in message


def test_replication_may_be_throttled(model):
    for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
        assert result(model.ask(change(BROKER, "1", (name, SET, "1000000"))))[0] == 0
        assert model.image.broker_configs(1)[name] == "1000000"
        assert result(model.ask(change(BROKER, "1", (name, DELETE, None))))[0] == 0
        assert name not in model.image.broker_configs(1)


def test_throttles_that_are_not_there_may_be_removed(model):
    """As Kafka's tool for reassignments does, of every broker, when it sees that one is done."""
    name = "follower.replication.throttled.rate"
    for resource in ("1", ""):
        assert result(model.ask(change(BROKER, resource, (name, DELETE, None))))[0] == 0


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("/data/b,/nowhere", "Missing entries : /nowhere (allowed: /data/a, /data/b or *)"),
        ("*,/data/a", "When cordoned.log.dirs is set to *, it must not contain other values"),
    ],
)
def test_a_broker_cordons_only_directories_that_it_has(model, value, said):
    for operation in (SET, APPEND):
        answer = model.ask(change(BROKER, "1", ("cordoned.log.dirs", operation, value)))
        code, message = result(answer)
        assert code is ErrorCode.INVALID_REQUEST
        assert said in message
    for good in ("/data/a", "/data/a,/data/b", "*", ""):
        answer = model.ask(change(BROKER, "1", ("cordoned.log.dirs", SET, good)))
        assert result(answer) == (ErrorCode.NONE, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [("listeners", "PLAINTEXT://:1"), ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT")],
)
def test_what_is_only_read_at_the_start_is_not_taken_later(model, name, value):
    """Kafka opens and closes listeners while it runs; a node that does not must not say so."""
    code, message = result(model.ask(change(BROKER, "1", (name, SET, value))))
    assert code is ErrorCode.INVALID_CONFIG
    assert message == (
        f"{name} cannot be changed while the node runs, yet: change it in the node's file, and"
        " start the node again"
    )
    assert result(model.ask(change(BROKER, "1", (name, DELETE, None))))[0] is ErrorCode.NONE


def test_another_brokers_directories_are_known_to_that_broker_alone(model):
    model.write([broker(2)])
    request = change(BROKER, "2", ("cordoned.log.dirs", SET, "/elsewhere"))
    decision = finish(alter_configs_incrementally(model.image, request, config()))
    assert result(decision.response) == (ErrorCode.NONE, None)


def test_a_list_does_not_grow_beyond_what_a_record_holds(model):
    model.write([broker(2)])
    for number, code in ((1, 0), (2, 0), (3, 40)):
        item = f"{number}" + "é" * 8000
        request = change(BROKER, "2", ("cordoned.log.dirs", APPEND, item))
        decision = finish(alter_configs_incrementally(model.image, request, model.config))
        assert decision.response.responses[0].error_code == code
        for record in decision.records:
            encode_record(record, model.image.metadata_version)
        model.write(list(decision.records))


def test_a_refused_resource_changes_nothing(model):
    before = len(model.records)
    model.ask(change(TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "0")))
    assert len(model.records) == before


def test_a_resource_twice(model):
    once = change(TOPIC, "t", ("retention.ms", SET, "5")).resources
    request = IncrementalAlterConfigsRequest(resources=once + once, validate_only=False)
    answer = model.ask(request)
    assert [one.error_code for one in answer.responses] == [42, 42]
    assert model.image.topic_configs("t") == {}


def test_a_forwarded_request_may_name_any_registered_broker(model):
    model.write([broker(2)])
    names = {"2": 0, "3": 102, "-1": 42, "x": 42, "--2": 42, "²": 42, "2" * 5000: 42}
    for name, code in names.items():
        request = change(BROKER, name, ("log.retention.ms", SET, "5"))
        decision = finish(alter_configs_incrementally(model.image, request, model.config))
        assert decision.response.responses[0].error_code == code


@pytest.mark.parametrize("name", ["--1", "²", "1" * 5000, str(1 << 31)])
def test_a_broker_is_named_by_a_number(model, name):
    for answer in (
        model.ask(change(BROKER, name, ("log.retention.ms", SET, "5"))).responses,
        model.ask(replace(BROKER, name, log_retention_ms="5")).responses,
        model.ask(describe(BROKER, name)).results,
    ):
        assert answer[0].error_code == ErrorCode.INVALID_REQUEST
        assert f"id must be an integer, but it is: {name[:20]}" in answer[0].error_message


def test_an_unknown_operation(model):
    kinds = {TOPIC: ErrorCode.UNKNOWN_SERVER_ERROR, BROKER: ErrorCode.INVALID_REQUEST}
    for (kind, expected), name in zip(kinds.items(), ("t", "1"), strict=True):
        code, message = result(model.ask(change(kind, name, ("log.retention.ms", 9, "5"))))
        assert (code, message) == (expected, "Unknown operation type 9")


def test_an_unchanged_value_of_a_topic_is_no_record_but_one_of_a_broker(model):
    for kind, name, key, times in ((TOPIC, "t", "retention.ms", 1), (BROKER, "1", "log.retention.ms", 2)):  # fmt: skip  # noqa: E501
        for _ in range(2):
            model.ask(change(kind, name, (key, SET, "5")))
        written = [r for r in model.records if isinstance(r, ConfigRecord) and r.name == key]
        assert len(written) == times


def test_replacing_removes_the_rest(model):
    model.ask(change(TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "9")))
    model.ask(replace(TOPIC, "t", retention_ms="6"))
    assert model.image.topic_configs("t") == {"retention.ms": "6"}


def test_min_insync_replicas_clears_the_elr_only_while_there_is_one(model):
    model.ask(change(TOPIC, "t", ("min.insync.replicas", SET, "2")))
    assert model.records[-1] == ClearElrRecord(topic_name="t")
    model.ask(change(BROKER, "", ("min.insync.replicas", SET, "3")))
    assert model.records[-1] == ClearElrRecord(topic_name="")
    model.write([FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)])
    model.ask(change(BROKER, "1", ("min.insync.replicas", SET, "2")))
    model.ask(change(BROKER, "", ("min.insync.replicas", DELETE, None)))
    assert not isinstance(model.records[-1], ClearElrRecord)
    assert model.image.broker_configs(1) == {"min.insync.replicas": "2"}


def test_the_records_of_a_topic_are_in_kafkas_order(model):
    request = create(topic("u", 2, min_insync_replicas="1", retention_ms="5"))
    decision = finish(create_topics(model.image, request, model.config, random.Random(1)))
    assert [type(record) for record in decision.records] == [
        TopicRecord,
        ConfigRecord,
        ConfigRecord,
        ClearElrRecord,
        PartitionRecord,
        PartitionRecord,
    ]
    last = decision.records[-1]
    assert (last.partition_id, last.replicas, last.isr, last.leader) == (1, (1,), (1,), 1)
    assert (last.leader_epoch, last.partition_epoch) == (0, 0)
    assert last.directories == model.image.brokers[1].log_dirs


def test_topics_are_not_deleted_where_that_is_off():
    model = Model(config(delete_topic_enable="false"), random.Random(1))
    model.ask(create(topic("t")))
    (found,) = model.ask(delete("t")).responses
    assert found.error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert "t" in model.image.topics


def test_by_name_and_by_id_is_once(model):
    topic_id = model.image.topics["t"].topic_id
    by_id = delete(None, topic_id=topic_id).topics
    request = type(delete())(topics=delete("t").topics + by_id, timeout_ms=1)
    assert sorted(one.error_code for one in model.ask(request).responses) == [0, 42]
    assert len(model.image.topics) == 0


def test_describing_shows_what_it_means(model):
    (found,) = model.ask(describe(TOPIC, "t", "retention.ms")).results[0].configs
    assert "How long records are kept" in found.documentation
    assert (found.config_type, found.read_only, found.is_sensitive) == (5, False, False)
    (refused,) = model.ask(describe(99, "x")).results
    assert refused.error_code == ErrorCode.INVALID_REQUEST


def test_what_does_not_parse_is_shown_as_it_is(model):
    model.write(
        [ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="soon")]
    )
    (found,) = model.ask(describe(TOPIC, "t", "retention.ms")).results[0].configs
    assert found.value == "soon"


def test_resources_are_listed_by_type(model):
    model.write([ConfigRecord(resource_type=16, resource_name="m", name="a", value="1")])
    everything = finish(list_config_resources(model.image, ()))
    assert [(one.resource_type, one.resource_name) for one in everything.config_resources] == [
        (2, "t"), (4, "1"), (8, "1"), (16, "m"),
    ]  # fmt: skip
    unknown = finish(list_config_resources(model.image, (1,)))
    assert unknown.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_names():
    assert name_complaint("a.b_c-D9") is None
    assert name_complaint("a" * 249) is None
    assert name_complaint("a" * 250) is not None


def test_collisions_are_found_without_looking_at_all_topics(model):
    model.ask(create(topic("a.b"), topic("ab"), topic("b_c"), topic("a.b.c")))
    assert collision(model.image, "a_b") == "a.b"
    assert collision(model.image, "a.b") is None, "itself"
    assert collision(model.image, "b.c") == "b_c"
    assert collision(model.image, "a_b_c") == "a.b.c"
    assert collision(model.image, "c.b") is None
    assert collision(model.image, "ab") is None
