"""Replay and lookups. That every image equals Apache's is shown in tests/interop."""

from __future__ import annotations

import time

import pytest
from tests.unit.metadata.captured import DISK, LIFE
from tests.unit.metadata.lives import (
    acl,
    broker,
    change,
    config,
    every_kind_of_record,
    features,
    partition,
    uuid,
)

from tidelog.metadata.batches import walk_metadata
from tidelog.metadata.delta import REPLAYS, replay, replay_all
from tidelog.metadata.delta_topics import UnreplayableRecord
from tidelog.metadata.frame import RECORD_TYPES
from tidelog.metadata.image import MIGRATING_DIRECTORY, MetadataImage, TopicPartition
from tidelog.metadata.records.brokers import (
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
)
from tidelog.metadata.records.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from tidelog.metadata.records.topics import ClearElrRecord, RemoveTopicRecord, TopicRecord
from tidelog.metadata.snapshot import records_of


def image_of(*records, epoch=1):
    return replay_all(MetadataImage.empty(), records, 0, epoch)


def small_cluster():
    return image_of(
        *features(),
        *(broker(number) for number in (1, 2, 3)),
        TopicRecord(name="a", topic_id=uuid(1)),
        partition(1, 0, (1, 2)),
        partition(1, 1, (2, 3)),
        config(2, "a", "retention.ms", "5"),
    )


def test_every_record_has_its_replay():
    assert set(REPLAYS) == set(RECORD_TYPES.values())


def test_lookups():
    image = small_cluster()
    assert (image.offset, image.epoch) == (10, 1)
    topic = image.topic("a")
    assert topic is not None
    assert image.topic_by_id(uuid(1)) is topic
    assert image.topic("b") is image.topic_by_id(uuid(2)) is None
    assert list(topic.partitions) == [0, 1]
    assert image.partition("a", 1) is image.partition_by_id(uuid(1), 1)
    assert image.partition("a", 2) is image.partition("b", 0) is None
    assert image.partition("a", 1).leader == 2
    assert [place.partition for place, _ in image.partitions_of(2)] == [0, 1]
    assert [place.partition for place, _ in image.partitions_of(3)] == [1]
    assert list(image.partitions_of(9)) == []
    assert image.topic_configs("a") == {"retention.ms": "5"}
    assert image.topic_configs("b") == image.cluster_configs() == image.broker_configs(1) == {}
    assert image.metadata_version == 30
    assert image.elr_is_on
    assert image.feature_level("no.such") == 0
    assert image.broker_epoch(1) == 10
    assert image.broker_epoch(9) == -1
    assert image.brokers[2].endpoint("PLAINTEXT").port == 9002
    assert image.brokers[2].endpoint("SSL") is None
    assert image.brokers[2].registered_at == 5
    assert image.partition("a", 0).directory(2) == uuid(2002)
    assert image.partition("a", 0).directory(3) == MIGRATING_DIRECTORY


def test_alive_and_active():
    image = replay_all(
        small_cluster(),
        [
            BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=1),
            BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=20, in_controlled_shutdown=1),
        ],
        20,
        1,
    )
    assert [one.broker_id for one in image.alive_brokers()] == [2, 3]
    assert [number for number in (1, 2, 3, 4) if image.is_alive(number)] == [2, 3]
    assert [number for number in (1, 2, 3, 4) if image.is_active(number)] == [3]


def test_an_image_does_not_change():
    before = small_cluster()
    records = list(records_of(before))
    replay_all(before, [change(1, 0, leader=2), RemoveTopicRecord(topic_id=uuid(1))], 20, 1)
    assert list(records_of(before)) == records


def test_epochs_rise_as_kafka_has_them_rise():
    image = small_cluster()
    for record, leader_epoch, partition_epoch in [
        (change(1, 0, isr=(1,)), 0, 1),
        (change(1, 0, leader=2), 1, 2),
        (change(1, 0, leader=-1), 2, 3),
        (change(1, 0, leader=2, isr=(2,)), 3, 4),
        (change(1, 0, eligible_leader_replicas=(1,)), 3, 5),
        (ClearElrRecord(topic_name=""), 3, 6),
        (ClearElrRecord(topic_name="a"), 3, 6),
    ]:
        image = replay(image, record, image.offset + 1, 1)
        state = image.partition("a", 0)
        assert (state.leader_epoch, state.partition_epoch) == (leader_epoch, partition_epoch)


def test_the_indexes_follow():
    image = small_cluster()
    place = TopicPartition(uuid(1), 0)
    image = replay(image, change(1, 0, leader=-1), 20, 1)
    assert [found for found, _ in image.leaderless_partitions()] == [place]
    image = replay(image, change(1, 0, leader=1), 21, 1)
    assert not image.leaderless
    image = replay(image, change(1, 0, replicas=(3,), leader=-1), 22, 1)
    assert [p for p, _ in image.partitions_of(1)] == []
    assert place in dict(image.partitions_of(3))
    assert 1 not in image.partitions_by_broker, "an empty entry is dropped"
    image = replay(image, RemoveTopicRecord(topic_id=uuid(1)), 23, 1)
    assert len(image.partitions_by_broker) == len(image.leaderless) == 0
    assert len(image.configs) == len(image.topics) == len(image.topic_names) == 0


def test_configs_are_sorted_and_an_empty_resource_is_none():
    image = image_of(config(2, "a", "z", "1"), config(2, "a", "b", "2"), config(2, "a", "z", "3"))
    assert list(image.topic_configs("a").items()) == [("b", "2"), ("z", "3")]
    image = replay_all(image, [config(2, "a", "z", None), config(2, "a", "b", None)], 9, 1)
    assert len(image.configs) == 0


@pytest.mark.parametrize(
    "record",
    [
        UnregisterBrokerRecord(broker_id=9, broker_epoch=1),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9, fenced=1),
        RemoveTopicRecord(topic_id=uuid(9)),
        partition(9, 0, (1,)),
        change(1, 9),
        TopicRecord(name="a", topic_id=uuid(9)),
        TopicRecord(name="c", topic_id=uuid(1)),
        ClearElrRecord(topic_name="nobody"),
        EndTransactionRecord(),
        AbortTransactionRecord(),
    ],
)
def test_what_cannot_follow_is_refused(record):
    with pytest.raises(UnreplayableRecord):
        replay(small_cluster(), record, 20, 1)


def test_nothing_of_an_open_transaction_is_shown():
    before = small_cluster()
    image = replay_all(before, [BeginTransactionRecord(name="x"), acl(1)], 20, 2)
    assert len(image.acls) == 1
    assert image.shown is before
    with pytest.raises(UnreplayableRecord):
        replay(image, BeginTransactionRecord(), 22, 2)
    ended = replay(image, EndTransactionRecord(), 22, 2)
    assert ended.shown is ended
    assert len(ended.acls) == 1
    aborted = replay(image, AbortTransactionRecord(reason="y"), 22, 2)
    assert aborted.shown is aborted
    assert (len(aborted.acls), aborted.offset) == (0, 22)


def test_a_captured_life_replays():
    image = MetadataImage.empty()
    for logged in walk_metadata((DISK / LIFE).read_bytes()):
        image = replay(image, logged.record, logged.offset, logged.epoch)
    assert (image.offset, image.epoch) == (1019, 4)
    assert sorted(image.topics) == ["__consumer_offsets", "__transaction_state", "t1", "t3", "t4"]
    assert [one.broker_id for one in image.alive_brokers()] == [101, 102, 103]
    assert [one.controller_id for one in image.controllers.values()] == [1, 2, 3]
    assert image.partition("t1", 0).replicas[0] == image.partition("t1", 0).leader == 101
    assert image.topic_configs("t4")["min.insync.replicas"] == "2"
    assert image.next_producer_id == 2000
    assert image.broker_epoch(102) == 953


def test_a_snapshot_makes_the_image_again():
    groups = every_kind_of_record()
    image = MetadataImage.empty()
    for group in groups:
        image = replay_all(image, group, image.offset + 1, 1)
        assert next(records_of(image)).name == "metadata.version", "it says how to read on"
        again = replay_all(MetadataImage.empty(), list(records_of(image)), 0, 1)
        assert list(records_of(again)) == list(records_of(image))
        assert again.partitions_by_broker == image.partitions_by_broker
        assert again.leaderless == image.leaderless


def cluster_of(partitions: int) -> MetadataImage:
    records = [broker(number) for number in range(1, 4)]
    for topic in range(partitions // 10):
        records.append(TopicRecord(name=f"t{topic:06}", topic_id=uuid(topic)))
        records += [partition(topic, number, (1, 2, 3)) for number in range(10)]
    return image_of(*records)


def seconds(image: MetadataImage) -> float:
    """Of the quickest of several rounds: replay one change, look one partition up."""
    record, best = change(5, 3, isr=(1, 2)), 1.0
    for _ in range(30):
        start = time.perf_counter()
        for _ in range(100):
            replay(image, record, 1, 1)
            image.partition("t000005", 3)
        best = min(best, time.perf_counter() - start)
    return best


@pytest.mark.slow
def test_a_change_costs_no_more_with_100000_partitions():
    small, large = cluster_of(100), cluster_of(100_000)
    # Two levels of a tree more, not a thousand times: a map that is copied would show at once.
    assert seconds(large) < 4 * seconds(small)
    after = replay(large, change(5, 3, isr=(1, 2)), 1, 1)
    assert after.partitions_by_broker is large.partitions_by_broker
    assert after.leaderless is large.leaderless


def test_a_noop_moves_the_offset_alone():
    image = small_cluster()
    after = replay(image, NoOpRecord(), 50, 3)
    assert (after.offset, after.epoch) == (50, 3)
    assert after.topics is image.topics
