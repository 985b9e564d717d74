"""ElectLeaders and all its answers; the elections that nobody asks for. Chance compares them with
Apache's in tests/interop/test_controller_decisions.py."""

from __future__ import annotations

import pytest
from tests.unit.config.test_broker import config
from tests.unit.metadata.lives import broker, change, features, partition, uuid
from tests.unit.metadata.lives import config as config_record

from tidelog.controller import elections
from tidelog.controller.activation import activation_records
from tidelog.controller.elections import elect_leaders, elect_preferred, elect_unclean
from tidelog.controller.unclean import unclean_elections
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import replay_all
from tidelog.metadata.format import feature_records
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.cluster import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from tidelog.metadata.records.topics import TopicRecord
from tidelog.slices import finish
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED, UNCLEAN = 0, 1


def cluster(*partitions, **states):
    """Brokers 1 and 2 are alive, 3 is fenced."""
    records = [
        *features(),
        broker(1),
        broker(2),
        broker(3, fenced=True),
        TopicRecord(name="a", topic_id=uuid(1)),
        *partitions,
    ]
    return replay_all(MetadataImage.empty(), records, 0, 1)


def elect(image, kind, *wanted, everything=False):
    topics = tuple(TopicPartitions(topic=name, partitions=numbers) for name, numbers in wanted)
    request = ElectLeadersRequest(
        election_type=kind, topic_partitions=None if everything else topics
    )
    return finish(elect_leaders(image, request, config()))


def answers(decision):
    return {
        (topic.topic, one.partition_id): (ErrorCode(one.error_code), one.error_message)
        for topic in decision.response.replica_election_results
        for one in topic.partition_result
    }


LED_BY_2 = partition(1, 0, (1, 2), leader=2)
LED_BY_1 = partition(1, 1, (1, 2))
PREFERRED_IS_DEAD = partition(1, 2, (3, 2), isr=(2,), leader=2)
NOBODY_LEADS = partition(
    1, 3, (3, 2), isr=(), leader=-1, eligible_leader_replicas=(3,), last_known_elr=(3,)
)
NOBODY_LIVES = partition(1, 4, (3,), isr=(), leader=-1, eligible_leader_replicas=(3,))
ALL = (LED_BY_2, LED_BY_1, PREFERRED_IS_DEAD, NOBODY_LEADS, NOBODY_LIVES)


def test_the_preferred_replica_leads_again():
    decision = elect(cluster(*ALL), PREFERRED, ("a", (0, 1, 2, 3, 9)), ("b", (0,)))
    assert decision.records == [change(1, 0, leader=1)]
    assert answers(decision) == {
        ("a", 0): (ErrorCode.NONE, None),
        ("a", 1): (
            ErrorCode.ELECTION_NOT_NEEDED,
            "Leader election not needed for topic partition.",
        ),
        ("a", 2): (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            "The preferred leader was not available.",
        ),
        ("a", 3): (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            "The preferred leader was not available.",
        ),
        ("a", 9): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such partition as a-9"),
        ("b", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No such topic as b"),
    }


def test_whoever_is_alive_leads_if_that_is_asked_for():
    decision = elect(cluster(*ALL), UNCLEAN, ("a", (0, 3, 4)))
    (record,) = decision.records
    assert record == change(
        1,
        3,
        isr=(2,),
        leader=2,
        leader_recovery_state=1,
        eligible_leader_replicas=(),
        last_known_elr=(),
    )
    codes = {number: code for (_, number), (code, _) in answers(decision).items()}
    assert codes == {
        0: ErrorCode.ELECTION_NOT_NEEDED,
        3: ErrorCode.NONE,
        4: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    }


def test_all_partitions_without_those_that_need_nothing():
    decision = elect(cluster(*ALL), PREFERRED, everything=True)
    assert [(number, code) for (_, number), (code, _) in answers(decision).items()] == [
        (0, ErrorCode.NONE),
        (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (3, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (4, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ]


def test_no_partitions():
    decision = elect(cluster(*ALL), PREFERRED)
    assert (list(decision.records), decision.response.error_code) == ([], 0)


def test_a_partition_twice_is_elected_once():
    decision = elect(cluster(LED_BY_2), PREFERRED, ("a", (0, 0)))
    assert len(decision.records) == 1
    (topic,) = decision.response.replica_election_results
    assert [one.error_code for one in topic.partition_result] == [0, 84]


def test_an_election_that_nobody_knows():
    decision = elect(cluster(*ALL), 7, ("a", (0,)))
    assert decision.response.error_code == ErrorCode.INVALID_REQUEST
    assert answers(decision) == {("a", 0): (ErrorCode.INVALID_REQUEST, "Unknown election type 7")}
    assert list(decision.records) == []


def test_too_many_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(elections, "RECORDS_MAX", 2)
    many = cluster(*(partition(1, number, (1, 2), leader=2) for number in range(3)))
    decision = elect(many, PREFERRED, ("a", (0, 1, 2)))
    assert decision.response.error_code == ErrorCode.POLICY_VIOLATION
    assert list(decision.records) == []


def test_without_being_asked():
    image = cluster(*ALL)
    places = finish(elections.imbalanced_partitions(image, 0))
    assert [place.partition for place in places] == [0, 3, 4]
    decision = finish(elect_preferred(image, places, config()))
    assert decision.records == [change(1, 0, leader=1)]
    assert decision.response == 1


def test_not_where_a_broker_lacks_only_a_few():
    """Others lead one of the four partitions that broker 1 should lead, and one of broker 2's
    two."""
    led = (partition(1, number, (1, 2)) for number in (1, 2, 3))
    image = cluster(
        LED_BY_2, *led, partition(1, 4, (2, 1), leader=1, isr=(2, 1)), partition(1, 5, (2, 1))
    )

    def found(percentage):
        places = finish(elections.imbalanced_partitions(image, percentage))
        return [place.partition for place in places]

    assert found(24) == [0, 4]
    assert found(25) == found(49) == [4]
    assert found(50) == []


def test_who_has_no_leader_is_looked_at_whatever_is_tolerated():
    places = finish(elections.imbalanced_partitions(cluster(*ALL), 100))
    assert [place.partition for place in places] == [3, 4]


def test_unclean_without_being_asked_only_where_the_topic_allows_it():
    image = cluster(*ALL)
    assert list(finish(elect_unclean(image, config())).records) == []
    allowed = config_record(2, "a", "unclean.leader.election.enable", "true")
    decision = finish(elect_unclean(replay_all(image, [allowed], 90, 1), config()))
    assert [record.partition_id for record in decision.records] == [3]
    everywhere = config_record(4, "", "unclean.leader.election.enable", "true")
    decision = finish(elect_unclean(replay_all(image, [everywhere], 90, 1), config()))
    assert [record.partition_id for record in decision.records] == [3]


def test_what_an_unclean_election_may_have_cost():
    image = cluster(*ALL)
    decision = elect(image, UNCLEAN, ("a", (3,)))
    (found,) = unclean_elections(image, decision.records)
    assert (found.topic, found.partition, found.leader) == ("a", 3, 2)
    assert str(found) == (
        "unclean election: broker 2 leads a-3 in leader epoch 1. What it lacks of the records up"
        " to leader epoch 0 is lost; broker 3 had them last"
    )
    assert not found.is_of_the_last_leader
    clean = elect(image, PREFERRED, ("a", (0,)))
    assert list(unclean_elections(image, clean.records)) == []
    from_elr = change(1, 3, leader=3, isr=(3,), eligible_leader_replicas=())
    assert list(unclean_elections(image, [from_elr])) == []


# A controller becomes the active one.


def test_a_new_cluster_gets_its_first_records():
    records = activation_records(MetadataImage.empty(), feature_records(), 1)
    assert isinstance(records[0], BeginTransactionRecord)
    assert isinstance(records[-1], EndTransactionRecord)
    image = replay_all(MetadataImage.empty(), records, 0, 1)
    assert image.metadata_version == 30
    assert activation_records(image, feature_records(), 1) == []


def test_a_transaction_that_was_left_open_is_aborted():
    image = replay_all(cluster(LED_BY_2), [BeginTransactionRecord(name="x")], 50, 1)
    image = replay_all(image, [TopicRecord(name="b", topic_id=uuid(2))], 51, 1)
    records = activation_records(image, feature_records(), 1)
    assert records == [AbortTransactionRecord(reason="Controller failover")]
    after = replay_all(image, records, 52, 1)
    assert "b" not in after.topics
    assert after.before_transaction is None


def test_first_records_that_were_left_half_way_are_written_again():
    first = activation_records(MetadataImage.empty(), feature_records(), 1)
    image = replay_all(MetadataImage.empty(), first[:3], 0, 1)
    records = activation_records(image, feature_records(), 1)
    assert records == [AbortTransactionRecord(reason="Controller failover"), *first]
    assert replay_all(image, records, 3, 1).metadata_version == 30
