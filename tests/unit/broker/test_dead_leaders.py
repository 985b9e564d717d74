"""What Metadata says of brokers that have just died (ADR 14)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.wired import Wired

from tidelog.broker.leader_checks import DOUBT_MS, TIMEOUT_MS
from tidelog.broker.metadata_follower import MetadataFollower
from tidelog.broker.moved_leaders import MOVED_MS
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.messages import describe_topic_partitions, metadata

DEAD = ErrorCode.LEADER_NOT_AVAILABLE


@pytest.fixture
def wired() -> Wired:
    """Broker 1 leads."""
    wired = Wired()
    wired.create_topic()
    wired.advance(50)
    return wired


def ask(wired: Wired, node_id: int) -> int:
    """Without waiting for the answer; the connection on which it will come."""
    node = wired[node_id]
    connection = node.shell.connect()
    asked = metadata.MetadataRequestTopic(name="t")
    node.send(metadata.MetadataRequest(topics=(asked,)), 12, connection)
    return connection


def answers(wired: Wired, node_id: int, connection: int) -> list[tuple[int, int]]:
    """The leader of the first partition, and its error."""
    return [told(answer) for answer in wired[node_id].take(ApiKey.METADATA, 12, connection)]


def told(answer: Any) -> tuple[int, int]:
    partition = answer.topics[0].partitions[0]
    return partition.leader_id, partition.error_code


def checks(wired: Wired, node_id: int) -> list[int]:
    """Whom a broker asked whether it is there, each time."""
    return [
        asked
        for asked, frame in wired[node_id].shell.requests
        if int.from_bytes(frame[:2], "big") == ApiKey.API_VERSIONS
    ]


def test_a_leader_is_named_when_it_has_answered(wired: Wired) -> None:
    connection = ask(wired, 2)
    assert answers(wired, 2, connection) == []
    wired.advance(4)  # it takes a connection, which stays
    assert answers(wired, 2, connection) == [(1, 0)]
    connection = ask(wired, 2)
    wired.advance(3)
    assert answers(wired, 2, connection) == [(1, 0)]
    assert checks(wired, 2) == [1, 1]


def test_nobody_asks_itself(wired: Wired) -> None:
    connection = ask(wired, 1)
    assert answers(wired, 1, connection) == [(1, 0)]
    assert checks(wired, 1) == []


def test_a_dead_leader_is_not_named(wired: Wired) -> None:
    wired.disconnect(1)
    answer = wired[2].metadata("t")
    assert told(answer) == (-1, DEAD)
    assert answer.topics[0].partitions[0].leader_epoch == 0
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=(describe_topic_partitions.TopicRequest(name="t"),), response_partition_limit=9
    )
    assert told(wired[2].ask(request)) == (-1, DEAD)


def test_nor_is_one_that_dies_before_it_answers(wired: Wired) -> None:
    connection = ask(wired, 2)
    wired.disconnect(1)
    wired.advance(5)
    assert answers(wired, 2, connection) == [(-1, DEAD)]


def test_an_answer_to_an_earlier_client_is_no_answer_to_a_later_one(wired: Wired) -> None:
    wired[2].metadata("t")
    before = ask(wired, 2)
    later = [ask(wired, 2), ask(wired, 2)]
    while not (first := answers(wired, 2, before)):
        wired.advance(1)
    assert first == [(1, 0)]
    assert [answers(wired, 2, one) for one in later] == [[], []]
    wired.disconnect(1)
    wired.advance(5)
    assert [answers(wired, 2, one) for one in later] == [[(-1, DEAD)], [(-1, DEAD)]]


def test_many_clients_cost_one_check(wired: Wired) -> None:
    wired[2].metadata("t")
    connections = [ask(wired, 2) for _ in range(100)]
    wired.advance(6)
    assert all(answers(wired, 2, one) == [(1, 0)] for one in connections)
    assert len(checks(wired, 2)) == 3


def test_so_much_is_held_and_no_more(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.broker.handlers.metadata.HELD_PARTITIONS_MAX", 2)
    held, gone, not_held = ask(wired, 2), ask(wired, 2), ask(wired, 2)
    assert answers(wired, 2, not_held) == [(1, 0)]
    wired[2].shell.disconnect(gone)
    assert answers(wired, 2, ask(wired, 2)) == []
    wired.advance(9)
    assert answers(wired, 2, held) == [(1, 0)]
    assert wired[2].broker.leader_checks.held_partitions == 0


def test_the_next_leader_is_named_at_once(wired: Wired) -> None:
    wired.disconnect(1)
    assert told(wired[2].metadata("t")) == (-1, DEAD)
    wired.change(2, 3, leader=3, isr=(2, 3))
    assert told(wired[2].metadata("t")) == (3, 0)


def asked_by(wired: Wired, connection: int) -> Any:
    """What broker 2 answers on this connection."""
    asked = metadata.MetadataRequestTopic(name="t")
    wired[2].send(metadata.MetadataRequest(topics=(asked,)), 12, connection)
    for _ in range(10):
        for answer in wired[2].take(ApiKey.METADATA, 12, connection):
            return answer
        wired.advance(1)
    raise AssertionError("no answer")


def die_and_be_followed(wired: Wired) -> None:
    """Broker 1 is fenced, and 3 leads, before any client has asked."""
    wired.disconnect(1)
    wired.fence(1)
    wired.change(2, 3, leader=3, isr=(2, 3))


def test_who_asks_late_hears_first_that_there_is_no_leader(wired: Wired) -> None:
    first, second = wired[2].shell.connect(), wired[2].shell.connect()
    die_and_be_followed(wired)
    for connection in (first, second):
        answer = asked_by(wired, connection)
        assert [one.node_id for one in answer.brokers] == [2, 3]
        assert told(answer) == (-1, DEAD)
        # Who knows of the next epoch by another connection does not believe this one.
        assert answer.topics[0].partitions[0].leader_epoch == 0
        answer = asked_by(wired, connection)
        assert told(answer) == (3, 0)
        assert answer.topics[0].partitions[0].leader_epoch == 1


def test_who_has_heard_it_before_is_told_of_the_next_leader_at_once(wired: Wired) -> None:
    connection = wired[2].shell.connect()
    wired.disconnect(1)
    assert told(asked_by(wired, connection)) == (-1, DEAD)
    wired.fence(1)
    wired.change(2, 3, leader=3, isr=(2, 3))
    assert told(asked_by(wired, connection)) == (3, 0)


def test_after_a_while_everybody_is_told_of_the_next_leader(wired: Wired) -> None:
    connection = wired[2].shell.connect()
    die_and_be_followed(wired)
    wired.advance(MOVED_MS)
    assert told(asked_by(wired, connection)) == (3, 0)


def test_nor_do_those_who_ask_by_another_connection_each_time_wait_for_longer(
    wired: Wired,
) -> None:
    die_and_be_followed(wired)
    for _ in range(MOVED_MS // 100):
        asked_by(wired, wired[2].shell.connect())
        wired.advance(100)
    assert told(asked_by(wired, wired[2].shell.connect())) == (3, 0)


def test_a_leader_that_lives_on_is_followed_at_once(wired: Wired) -> None:
    connection = wired[2].shell.connect()
    wired.change(2, 3, leader=3)
    assert told(asked_by(wired, connection)) == (3, 0)


def test_so_is_one_that_hands_its_leaderships_over_and_goes(wired: Wired) -> None:
    connection = wired[2].shell.connect()
    wired.stop_in_order(1)
    wired.change(2, 3, leader=3, isr=(2, 3))
    wired.fence(1)
    assert told(asked_by(wired, connection)) == (3, 0)


def test_a_death_may_be_told_last_of_all(wired: Wired) -> None:
    """Behind the changes of its partitions, of which there may be more than a batch holds."""
    connection = wired[2].shell.connect()
    wired.disconnect(1)
    wired.change(2, 3, leader=3, isr=(2, 3))
    wired.fence(1)
    assert told(asked_by(wired, connection)) == (-1, DEAD)
    assert told(asked_by(wired, connection)) == (3, 0)


def test_so_is_the_next_one_once_the_dead_broker_is_back(wired: Wired) -> None:
    connection = wired[2].shell.connect()
    die_and_be_followed(wired)
    wired.fence(1, -1)
    assert told(asked_by(wired, connection)) == (3, 0)


def test_what_is_read_before_a_broker_serves_is_old_news(wired: Wired) -> None:
    """After a start it reads what has long been over, its own death perhaps."""
    actors = wired[2].broker.metadata._actors
    follower = next(one for one in actors if isinstance(one, MetadataFollower))
    follower._is_adopted = False
    die_and_be_followed(wired)
    follower._is_adopted = True
    assert told(asked_by(wired, wired[2].shell.connect())) == (3, 0)


def test_so_many_are_told_first_and_no_more(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.broker.moved_leaders.TOLD_MAX", 1)
    first, second = wired[2].shell.connect(), wired[2].shell.connect()
    die_and_be_followed(wired)
    assert told(asked_by(wired, first)) == (-1, DEAD)
    assert told(asked_by(wired, second)) == (3, 0)


def test_who_closed_an_idle_connection_is_named(wired: Wired) -> None:
    wired[2].metadata("t")
    shell = wired[1].shell
    connection = ask(wired, 2)
    wired.advance(1)
    shell.cut()
    wired.advance(6)
    assert answers(wired, 2, connection) == [(1, 0)]


def test_who_is_silent_is_named_after_a_while(wired: Wired) -> None:
    wired[2].metadata("t")
    connection = ask(wired, 2)
    for _ in range(TIMEOUT_MS - 1):
        wired[2].shell.advance(1)  # time stands still for the others
    assert answers(wired, 2, connection) == []
    wired[2].shell.advance(1)
    assert answers(wired, 2, connection) == [(1, 0)]


def test_who_only_cannot_be_reached_from_here_is_named_again(wired: Wired) -> None:
    wired.disconnect(1)
    assert told(wired[2].metadata("t")) == (-1, DEAD)
    wired.advance(DOUBT_MS)
    assert told(wired[2].metadata("t")) == (1, 0)
    assert told(wired[2].metadata("t")) == (1, 0)
    wired.down.remove(1)
    assert told(wired[2].metadata("t")) == (1, 0)
    wired.disconnect(1)  # it had answered: this is news
    assert told(wired[2].metadata("t")) == (-1, DEAD)


def test_a_node_that_stops_answers_those_who_wait(wired: Wired) -> None:
    node = wired[2]
    connection = ask(wired, 2)
    for effect in node.shell.node.stop(node.shell.now):
        node.shell._start(effect)
    assert answers(wired, 2, connection) == [(1, 0)]
