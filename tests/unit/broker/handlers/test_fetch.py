"""Fetch: what is read, how much of it, when the answer comes, and what sessions remember."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.handlers.transactions import ABORT, COMMIT, end, write
from tests.unit.node_client import Cluster, fetch_partition, records_of

from tidelog.errors import ErrorCode
from tidelog.events import TurnEnded
from tidelog.runtime.pace import Pace
from tidelog.types import ZERO_UUID
from tidelog.wire.messages import fetch

FETCH = 1


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create_topic("t", 3)
    return cluster


def request(*topics: tuple[str, list[Any]], **fields: Any) -> fetch.FetchRequest:
    fields = {"max_wait_ms": 0, "min_bytes": 1} | fields
    asked = tuple(
        fetch.FetchTopic(topic=name, partitions=tuple(partitions)) for name, partitions in topics
    )
    return fetch.FetchRequest(topics=asked, **fields)


def partitions_of(response: fetch.FetchResponse) -> dict[tuple[str, int], Any]:
    return {
        (topic.topic, partition.partition_index): partition
        for topic in response.responses
        for partition in topic.partitions
    }


def batch_size(cluster: Cluster, *values: bytes) -> int:
    return len(cluster.batch(*values))


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads(cluster: Cluster, version: int) -> None:
    cluster.produce("t", b"a", b"b")
    topic_id = cluster.topic_id("t") if version >= 13 else ZERO_UUID
    asked = fetch.FetchTopic(
        topic="t" if version < 13 else "", topic_id=topic_id, partitions=(fetch_partition(0, 1),)
    )
    message = fetch.FetchRequest(max_wait_ms=0, min_bytes=1, topics=(asked,))
    response = cluster.ask(message, version)
    assert (response.error_code, response.session_id) == (0, 0)
    (topic,) = response.responses
    assert (topic.topic, topic.topic_id) == ("t" if version < 13 else "", topic_id)
    (partition,) = topic.partitions
    assert (partition.error_code, partition.high_watermark, partition.last_stable_offset) == (
        0,
        2,
        2,
    )
    assert records_of(partition) == [(0, b"a"), (1, b"b")]
    assert partition.aborted_transactions is None
    assert partition.preferred_read_replica == -1


def test_offsets_out_of_range_and_unknown_partitions(cluster: Cluster) -> None:
    cluster.produce("t", b"a", b"b", b"c")
    cluster.partition("t").advance_log_start_offset(1)
    for offset in (-1, 0, 4):
        answer = cluster.fetch("t", offset)
        assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert (answer.high_watermark, answer.log_start_offset, bytes(answer.records)) == (
            -1,
            -1,
            b"",
        )
    at_the_end = cluster.fetch("t", 3)
    assert (at_the_end.error_code, at_the_end.high_watermark, bytes(at_the_end.records)) == (
        0,
        3,
        b"",
    )
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.fetch("u", 0).error_code == unknown
    assert cluster.fetch("t", 0, partition=3).error_code == unknown
    for topic_id in (ZERO_UUID, b"x" * 16):
        asked = fetch.FetchTopic(topic_id=topic_id, partitions=(fetch_partition(0, 0),))  # type: ignore[arg-type]
        response = cluster.ask(fetch.FetchRequest(max_wait_ms=9, min_bytes=1, topics=(asked,)), 13)
        assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_leader_epoch_is_checked(cluster: Cluster) -> None:
    cluster.produce("t", b"a")
    cluster.restart()
    epoch = cluster.partition("t").leader_epoch
    assert epoch > 0
    assert cluster.fetch("t", 0, current_leader_epoch=epoch).error_code == 0
    fenced = cluster.fetch("t", 0, current_leader_epoch=epoch - 1)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    unknown = cluster.fetch("t", 0, current_leader_epoch=epoch + 1)
    assert unknown.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_diverging_epoch_is_told_even_beyond_the_end(cluster: Cluster) -> None:
    cluster.produce("t", b"a", b"b")
    cluster.restart()
    cluster.produce("t", b"c")
    for offset in (3, 9):
        answer = cluster.fetch("t", offset, last_fetched_epoch=0, max_wait_ms=1000, min_bytes=99)
        assert answer.error_code == 0
        assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 2)
        assert bytes(answer.records) == b""
        assert answer.high_watermark == 3
    agreed = cluster.fetch("t", 2, last_fetched_epoch=0)
    assert agreed.diverging_epoch.epoch == -1
    assert records_of(agreed) == [(2, b"c")]
    undefined = cluster.fetch("t", 0, last_fetched_epoch=99)
    assert undefined.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    cluster.partition("t").advance_log_start_offset(1)
    below = cluster.fetch("t", 0, last_fetched_epoch=0)
    assert below.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (0, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_who_is_no_replica_may_not_fetch_as_one(
    cluster: Cluster, epoch: int, code: ErrorCode
) -> None:
    for replica in (1, 5):
        answer = cluster.fetch("t", 0, replica_id=replica, current_leader_epoch=epoch)
        assert answer.error_code == code


# How much.


def test_the_first_batch_comes_whole_and_then_the_limits_hold(cluster: Cluster) -> None:
    size = batch_size(cluster, bytes(100))
    for index in (0, 1):
        cluster.produce("t", bytes(100), partition=index)
        cluster.produce("t", bytes(100), partition=index)
    asked = ("t", [fetch_partition(0, 0, partition_max_bytes=1), fetch_partition(1, 0)])
    for max_bytes, sizes in (
        (1, [size, 0]),
        (2 * size, [size, size]),
        (3 * size, [size, 2 * size]),
    ):
        found = partitions_of(cluster.ask(request(asked, max_bytes=max_bytes), 12))
        assert [len(found["t", index].records) for index in (0, 1)] == sizes
    # A partition after the first with data gets nothing that does not fit.
    small = ("t", [fetch_partition(0, 0), fetch_partition(1, 0, partition_max_bytes=1)])
    found = partitions_of(cluster.ask(request(small), 12))
    assert [len(found["t", index].records) for index in (0, 1)] == [2 * size, 0]


def test_the_brokers_limit_holds_over_the_clients() -> None:
    cluster = Cluster(fetch_max_bytes="1024")
    cluster.create_topic("t")
    for _ in range(3):
        cluster.produce("t", bytes(600))
    answer = cluster.fetch("t", 0, max_bytes=1 << 30)
    assert len(records_of(answer)) == 1


# When.


def test_the_append_completes_a_long_poll(cluster: Cluster) -> None:
    """And no timer: the answer is there although no time passes."""
    poll = cluster.shell.connect()
    cluster.send(cluster.fetch_request("t", 0, max_wait_ms=10_000), 12, poll)
    assert cluster.frames(poll) == []
    cluster.produce("t", b"a", partition=1)
    assert cluster.take(FETCH, 12, poll) == []
    now = cluster.shell.now
    cluster.produce("t", b"a")
    (answer,) = cluster.take(FETCH, 12, poll)
    assert cluster.shell.now == now
    assert records_of(answer.responses[0].partitions[0]) == [(0, b"a")]
    assert len(cluster.broker.purgatory) <= 1
    cluster.shell.advance(20_000)
    assert cluster.frames(poll) == []


def test_where_records_come_fast_many_are_told_together(
    cluster: Cluster,
) -> None:
    cluster.node.has_turns, cluster.node.pace = True, Pace(fast_steps=16)
    polls = [cluster.shell.connect() for _ in range(16)]
    cluster.send(cluster.fetch_request("t", 0, max_wait_ms=10_000), 12, polls[0])
    cluster.produce("t", b"alone")
    assert len(cluster.take(FETCH, 12, polls[0])) == 1
    for poll in polls:
        cluster.send(cluster.fetch_request("t", 1, max_wait_ms=10_000), 12, poll)
    cluster.produce("t", b"a")
    cluster.produce("t", b"b")
    assert cluster.node.waits_for_more
    assert all(cluster.frames(poll) == [] for poll in polls)
    cluster.shell._step(TurnEnded())
    for poll in polls:
        (answer,) = cluster.take(FETCH, 12, poll)
        assert records_of(answer.responses[0].partitions[0]) == [(1, b"a"), (2, b"b")]
    assert not cluster.node.waits_for_more


def test_min_bytes_are_waited_for(cluster: Cluster) -> None:
    size = batch_size(cluster, b"a")
    poll = cluster.shell.connect()
    cluster.send(cluster.fetch_request("t", 0, max_wait_ms=900, min_bytes=3 * size), 12, poll)
    for count in range(3):
        assert cluster.frames(poll) == []
        assert cluster.produce("t", b"a").base_offset == count
    (answer,) = cluster.take(FETCH, 12, poll)
    assert len(records_of(answer.responses[0].partitions[0])) == 3


def test_min_bytes_of_several_partitions_add_up(cluster: Cluster) -> None:
    size = batch_size(cluster, b"a")
    poll = cluster.shell.connect()
    asked = ("t", [fetch_partition(index, 0) for index in (0, 1, 2)])
    cluster.send(request(asked, max_wait_ms=900, min_bytes=2 * size), 12, poll)
    cluster.produce("t", b"a", partition=2)
    assert cluster.frames(poll) == []
    cluster.produce("t", b"a", partition=1)
    assert len(cluster.frames(poll)) == 1


def test_a_long_poll_ends_with_what_there_is(cluster: Cluster) -> None:
    poll = cluster.shell.connect()
    cluster.send(cluster.fetch_request("t", 0, max_wait_ms=900, min_bytes=10_000), 12, poll)
    cluster.produce("t", b"a")
    cluster.shell.advance(899)
    assert cluster.frames(poll) == []
    cluster.shell.advance(1)
    (answer,) = cluster.take(FETCH, 12, poll)
    assert records_of(answer.responses[0].partitions[0]) == [(0, b"a")]


def test_more_min_bytes_than_max_bytes_are_not_waited_for(cluster: Cluster) -> None:
    cluster.produce("t", bytes(100))
    message = cluster.fetch_request("t", 0, max_wait_ms=9000, min_bytes=1 << 30, max_bytes=50)
    cluster.send(message, 12)
    assert len(cluster.frames()) == 1


def test_no_min_bytes_no_partitions_and_errors_are_answered_at_once(cluster: Cluster) -> None:
    cluster.send(cluster.fetch_request("t", 0, max_wait_ms=9000, min_bytes=0), 12)
    cluster.send(request(max_wait_ms=9000), 12)
    both = [fetch_partition(0, 0), fetch_partition(9, 0)]
    cluster.send(request(("t", both), max_wait_ms=9000), 12)
    assert len(cluster.frames()) == 3


def test_a_deletion_ends_a_long_poll(cluster: Cluster) -> None:
    poll = cluster.shell.connect()
    cluster.send(cluster.fetch_request("t", 0, max_wait_ms=10_000), 12, poll)
    cluster.delete_topic("t")
    (answer,) = cluster.take(FETCH, 12, poll)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.responses[0].partitions[0].error_code == unknown


def test_who_hangs_up_is_not_waited_for(cluster: Cluster) -> None:
    poll = cluster.shell.connect()
    cluster.send(cluster.fetch_request("t", 0, max_wait_ms=10_000), 12, poll)
    assert len(cluster.partition("t").watchers) == 1
    cluster.shell.disconnect(poll)
    assert len(cluster.partition("t").watchers) == 0
    cluster.produce("t", b"a")
    assert cluster.frames(poll) == []


# Sessions.


class Session:
    """A fetcher that uses one, as clients do."""

    def __init__(self, cluster: Cluster, *partitions: Any, version: int = 12) -> None:
        self.cluster, self.version = cluster, version
        self.response = cluster.ask(
            request(("t", list(partitions)), session_id=0, session_epoch=0), version
        )
        self.id = self.response.session_id
        self.epoch = 1

    def message(self, *partitions: Any, forget: tuple[int, ...] = (), **fields: Any) -> Any:
        topics = (("t", list(partitions)),) if partitions else ()
        fields = {"session_id": self.id, "session_epoch": self.epoch} | fields
        if forget:
            fields["forgotten_topics_data"] = (fetch.ForgottenTopic(topic="t", partitions=forget),)
        return request(*topics, **fields)

    def ask(self, *partitions: Any, **fields: Any) -> Any:
        response = self.cluster.ask(self.message(*partitions, **fields), self.version)
        self.epoch += not response.error_code
        return response


def test_a_session_tells_what_changed(cluster: Cluster) -> None:
    session = Session(cluster, *(fetch_partition(index, 0) for index in range(3)))
    assert session.id > 0
    assert set(partitions_of(session.response)) == {("t", 0), ("t", 1), ("t", 2)}
    assert session.ask().responses == ()
    cluster.produce("t", b"a", partition=1)
    found = partitions_of(session.ask())
    assert set(found) == {("t", 1)}
    assert records_of(found["t", 1]) == [(0, b"a")]
    # Not consumed: it comes again, until the client moves on.
    assert set(partitions_of(session.ask())) == {("t", 1)}
    assert session.ask(fetch_partition(1, 1)).responses == ()
    assert session.ask().responses == ()


def test_a_session_tells_of_new_watermarks_and_errors(cluster: Cluster) -> None:
    cluster.produce("t", b"a", b"b")
    session = Session(cluster, fetch_partition(0, 2), fetch_partition(1, 0))
    cluster.partition("t").advance_log_start_offset(1)
    (news,) = partitions_of(session.ask()).values()
    assert (news.log_start_offset, bytes(news.records)) == (1, b"")
    assert session.ask().responses == ()
    (error,) = partitions_of(session.ask(fetch_partition(1, 7))).values()
    assert error.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    # An error is told as long as it lasts, and so is its end.
    assert len(session.ask().responses) == 1
    (mended,) = partitions_of(session.ask(fetch_partition(1, 0))).values()
    assert (mended.error_code, mended.high_watermark) == (0, 0)


def test_a_session_adds_and_forgets(cluster: Cluster) -> None:
    session = Session(cluster, fetch_partition(0, 0))
    assert set(partitions_of(session.ask(fetch_partition(1, 0)))) == {("t", 1)}
    session.ask(forget=(0,))
    cluster.produce("t", b"a")
    cluster.produce("t", b"a", partition=1)
    assert set(partitions_of(session.ask())) == {("t", 1)}
    last = session.ask(forget=(1,))
    assert (last.error_code, last.session_id) == (0, 0)
    assert session.ask().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert all(len(cluster.partition("t", index).watchers) == 0 for index in (0, 1))


def test_a_session_is_held_to_its_epoch_and_its_kind_of_names(cluster: Cluster) -> None:
    session = Session(cluster, fetch_partition(0, 0))
    for epoch in (2, 7):
        refused = cluster.ask(session.message(session_epoch=epoch), 12)
        assert refused.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert (refused.session_id, refused.responses) == (0, ())
    assert cluster.ask(session.message(), 13).error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    unknown = cluster.ask(session.message(session_id=session.id + 1), 12)
    assert unknown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert session.ask().error_code == 0
    assert cluster.ask(session.message(session_epoch=1), 12).error_code == 71


def test_a_session_outlives_its_connection_and_ends_when_told_to(cluster: Cluster) -> None:
    session = Session(cluster, fetch_partition(0, 0))
    cluster.shell.disconnect(cluster.connection)
    cluster.connection = cluster.shell.connect()
    assert session.ask().error_code == 0
    closed = cluster.ask(session.message(fetch_partition(0, 0), session_epoch=-1), 12)
    assert (closed.error_code, closed.session_id, len(closed.responses)) == (0, 0, 1)
    assert session.ask().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(cluster.broker.fetch_sessions) == 0


def test_a_new_session_replaces_the_one_that_it_names(cluster: Cluster) -> None:
    session = Session(cluster, fetch_partition(0, 0))
    again = cluster.ask(session.message(fetch_partition(0, 0), session_epoch=0), 12)
    assert again.session_id not in (0, session.id)
    assert len(cluster.broker.fetch_sessions) == 1


def test_a_long_poll_of_a_session_is_completed_by_an_append(cluster: Cluster) -> None:
    session = Session(cluster, *(fetch_partition(index, 0) for index in range(3)))
    poll = cluster.shell.connect()
    cluster.send(session.message(max_wait_ms=10_000), 12, poll)
    assert cluster.frames(poll) == []
    cluster.produce("t", b"a", partition=2)
    (answer,) = cluster.take(FETCH, 12, poll)
    assert set(partitions_of(answer)) == {("t", 2)}


def test_a_session_that_moved_on_ends_the_wait_of_its_older_request(cluster: Cluster) -> None:
    session = Session(cluster, fetch_partition(0, 0))
    poll = cluster.shell.connect()
    cluster.send(session.message(max_wait_ms=1000), 12, poll)
    cluster.send(session.message(session_epoch=2, max_wait_ms=0), 12)
    cluster.shell.advance(1000)
    (answer,) = cluster.take(FETCH, 12, poll)
    assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_served_partitions_go_behind_the_others(cluster: Cluster) -> None:
    """Where not all fit into an answer, each has its turn."""
    session = Session(cluster, *(fetch_partition(index, 0) for index in range(3)))
    for index in range(3):
        for _ in range(3):
            cluster.produce("t", bytes(100), partition=index)
    served = []
    offsets = dict.fromkeys(range(3), 0)
    moved: tuple[Any, ...] = ()
    for _ in range(9):
        found = partitions_of(session.ask(*moved, max_bytes=1))
        ((_, index),) = [key for key, data in found.items() if len(data.records)]
        offsets[index] += 1
        moved = (fetch_partition(index, offsets[index]),)
        served.append(index)
    assert sorted(served[:3]) == sorted(served[3:6]) == sorted(served[6:]) == [0, 1, 2]


def test_a_topic_that_comes_again_is_another_one_to_a_session_by_id(cluster: Cluster) -> None:
    def by_id(topic_id: Any, **fields: Any) -> Any:
        asked = fetch.FetchTopic(topic_id=topic_id, partitions=(fetch_partition(0, 0),))
        return cluster.ask(fetch.FetchRequest(min_bytes=1, topics=(asked,), **fields), 13)

    first = by_id(cluster.topic_id("t"), max_wait_ms=0, session_epoch=0)
    cluster.delete_topic("t")
    cluster.create_topic("t")
    cluster.produce("t", b"a")
    message = fetch.FetchRequest(
        max_wait_ms=0, min_bytes=1, topics=(), session_id=first.session_id, session_epoch=1
    )
    (partition,) = cluster.ask(message, 13).responses[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_ID


# Transactions.


def test_committed_readers_stop_at_the_first_open_transaction(cluster: Cluster) -> None:
    cluster.produce("t", b"0")
    write(cluster, 1, 0, b"1", b"2")
    cluster.produce("t", b"3")
    answer = cluster.fetch("t", 0, isolation_level=1)
    assert (answer.high_watermark, answer.last_stable_offset) == (4, 1)
    assert records_of(answer) == [(0, b"0")]
    assert answer.aborted_transactions == ()
    at_the_end = cluster.fetch("t", 1, isolation_level=1)
    assert (at_the_end.error_code, bytes(at_the_end.records)) == (0, b"")
    assert len(records_of(cluster.fetch("t", 0))) == 4


@pytest.mark.parametrize("how", [COMMIT, ABORT])
def test_the_end_of_a_transaction_completes_who_waits_for_it(cluster: Cluster, how: int) -> None:
    write(cluster, 1, 0, b"0", b"1")
    poll = cluster.shell.connect()
    message = cluster.fetch_request("t", 0, max_wait_ms=10_000, isolation_level=1)
    cluster.send(message, 12, poll)
    cluster.produce("t", b"2")
    cluster.shell.advance(1)
    assert cluster.frames(poll) == []
    end(cluster, 1, how)
    cluster.produce("t", b"4")
    (answer,) = cluster.take(FETCH, 12, poll)
    (partition,) = answer.responses[0].partitions
    assert partition.last_stable_offset == 5
    assert [offset for offset, _ in records_of(partition)] == [0, 1, 2, 3, 4]
    aborted = [(entry.producer_id, entry.first_offset) for entry in partition.aborted_transactions]
    assert aborted == ([(1, 0)] if how == ABORT else [])


def test_aborted_transactions_are_those_of_what_is_read(cluster: Cluster) -> None:
    for producer in range(5):
        write(cluster, producer, 0, b"a")
        end(cluster, producer, ABORT)
    write(cluster, 9, 0, b"open")

    def aborted(offset: int, **fields: Any) -> list[int]:
        answer = cluster.fetch("t", offset, isolation_level=1, **fields)
        return [entry.producer_id for entry in answer.aborted_transactions]

    assert aborted(0) == [0, 1, 2, 3, 4]
    assert aborted(4) == [2, 3, 4]
    assert aborted(3, partition_max_bytes=1) == [1]
    assert aborted(4, partition_max_bytes=1) == [2]
    assert cluster.fetch("t", 0).aborted_transactions is None


def test_the_last_stable_offset_is_found_again_after_a_restart(cluster: Cluster) -> None:
    write(cluster, 1, 0, b"0")
    end(cluster, 1, ABORT)
    cluster.kill()
    assert cluster.partition("t").last_stable_offset == 2
    # Also where the high watermark was known to be beyond the marker.
    cluster.shell.advance(6000)
    cluster.kill()
    assert cluster.broker.log_dirs.metadata.high_watermarks["t", 0] == 2
    assert cluster.partition("t").last_stable_offset == 2
    write(cluster, 1, 1, b"2")
    cluster.restart()
    assert cluster.partition("t").last_stable_offset == 2
    answer = cluster.fetch("t", 0, isolation_level=1)
    assert [(e.producer_id, e.first_offset) for e in answer.aborted_transactions] == [(1, 0)]
