"""Clients of a replicated partition: what is acknowledged, what is read from whom, what is told.
Numbers in names are scenarios of the replication reference."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.wired import TOPIC_ID, Wired, values_of
from tests.unit.node_client import fetch_partition

from tidelog.broker.fetch_session import PIECE
from tidelog.broker.reading import Reading
from tidelog.broker.replica_selector import RACK_AWARE
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.events import Ticked
from tidelog.metadata.records.brokers import BrokerRegistrationChangeRecord
from tidelog.replica.isr_change import maybe_shrink_isr
from tidelog.types import Uuid
from tidelog.wire.messages import delete_records, fetch, list_offsets

LAG_MS = 30_000
MANY_ID = Uuid(b"many-partitions-")
EARLIEST, LATEST = -2, -1


@pytest.fixture
def wired() -> Wired:
    wired = Wired(replica_selector_class=RACK_AWARE)
    wired.create_topic(min_insync_replicas="2")
    wired.advance(50)
    return wired


def begin_to_produce(
    wired: Wired, leader: int, *values: bytes, timeout_ms: int = 1000, **fields: Any
) -> int:
    """Without waiting for the answer; the connection on which it will come."""
    node = wired[leader]
    connection = node.shell.connect()
    batch = node.batch(*values, **fields)
    node.send(node.produce_request("t", batch, timeout_ms=timeout_ms), 9, connection)
    return connection


def produced(wired: Wired, leader: int, connection: int) -> Any:
    answers = wired[leader].take(0, 9, connection)
    return answers[0].responses[0].partition_responses[0] if answers else None


def follow_by_hand(wired: Wired, offset: int, *, epoch: int, session: tuple[int, int]) -> Any:
    """The fetch of a follower's session."""
    fetched_epoch = min(epoch, wired.partition(1).leader_epoch)
    partition = fetch_partition(
        0, offset, current_leader_epoch=epoch, last_fetched_epoch=fetched_epoch
    )
    request = fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=3, replica_epoch=wired[3].broker.broker_epoch),
        max_wait_ms=0,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=(fetch.FetchTopic(topic_id=TOPIC_ID, partitions=(partition,)),),
    )
    return wired[1].ask(request, 18)


def lose(wired: Wired, *ids: int) -> None:
    for id_ in ids:
        wired.disconnect(id_)
        wired.fence(id_)


def test_a_session_goes_on_only_with_what_its_leader_is_now(wired: Wired) -> None:
    """Sessions are read by a short way, which must not be shorter than the other."""
    assert wired[1].produce("t", b"a").error_code == 0
    wired.disconnect(3)
    opened = follow_by_hand(wired, 0, epoch=0, session=(0, 0))
    answer = follow_by_hand(wired, 1, epoch=0, session=(opened.session_id, 1))
    assert answer.error_code == 0
    for number, (epoch, error) in enumerate(
        [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)], start=2
    ):
        if number == 2:
            wired.change(1, 2, isr=(1, 2), leader=1)
        answer = follow_by_hand(wired, 1, epoch=epoch, session=(opened.session_id, number))
        assert answer.responses[0].partitions[0].error_code == error
    wired.commit([wired._registration(3).replace(broker_epoch=10**6)], 1)
    answer = follow_by_hand(wired, 1, epoch=1, session=(opened.session_id, 4))
    gone = answer.responses[0].partitions[0].error_code
    assert gone == ErrorCode.NOT_LEADER_OR_FOLLOWER, "another process has taken its place"


def test_a_long_fetch_of_an_old_incarnation_ends_with_the_news(wired: Wired) -> None:
    """Between two slices of it the metadata may tell of another process."""
    count = PIECE + 10
    wired.create_topic(partitions=count, name="many", topic_id=MANY_ID)
    wired.advance(200)
    wired.disconnect(3)
    broker = wired[1].broker
    replica = fetch.ReplicaState(replica_id=3, replica_epoch=wired[3].broker.broker_epoch)
    asked = [
        fetch_partition(index, 0, current_leader_epoch=0, last_fetched_epoch=0)
        for index in range(count)
    ]
    message = fetch.FetchRequest(
        replica_state=replica,
        max_wait_ms=0,
        min_bytes=1,
        topics=(fetch.FetchTopic(topic_id=MANY_ID, partitions=tuple(asked)),),
    )
    session = broker.fetch_sessions.resolve(
        message, uses_topic_ids=True, replica=replica, now_ms=0, is_large=False
    )
    assert not isinstance(session, ErrorCode)
    reading = Reading(broker, session, message, 18)
    reading.collect(wired[1].shell.now)  # from now on the short way may be taken
    slices = reading.collect_in_slices(wired[1].shell.now, is_first=True)
    next(slices)
    wired.commit([wired._registration(3).replace(broker_epoch=10**6)], 1)
    next(slices)
    errors = [data.error_code for _, data in reading.found]
    foreign = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert errors == [0] * PIECE + [foreign] * (count - PIECE)


# Acknowledgements.


def test_who_is_alone_in_the_isr_waits_for_nobody() -> None:
    wired = Wired()
    wired.create_topic(min_insync_replicas="1")
    wired.advance(50)
    lose(wired, 2, 3)
    wired.change(1, isr=(1,))
    connection = begin_to_produce(wired, 1, b"a")
    assert produced(wired, 1, connection).error_code == 0


def test_a_connection_that_was_held_back_is_read_again(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if all its answers but the last have left, and that one has nobody before it."""
    monkeypatch.setattr("tidelog.runtime.rows.WAITING_MAX", 1)
    node = wired[1]
    connection = node.shell.connect()
    for value in (b"a", b"b", b"c", b"d"):
        node.send(node.produce_request("t", node.batch(value), timeout_ms=1000), 9, connection)
    wired.advance(100)
    assert len(node.take(0, 9, connection)) == 4


def test_acks_all_waits_for_the_isr(wired: Wired) -> None:
    connection = begin_to_produce(wired, 1, b"a")
    assert produced(wired, 1, connection) is None
    wired.advance(20)
    answer = produced(wired, 1, connection)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert wired.ends() == {1: 1, 2: 1, 3: 1}
    assert wired[1].produce_records("t", wired[1].batch(b"b"), acks=1).base_offset == 1


def test_below_min_isr_acks_all_is_refused_and_others_are_not_seen_8(wired: Wired) -> None:
    lose(wired, 2, 3)
    wired.change(1, isr=(1,))
    answer = wired[1].produce("t", b"a")
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert wired[1].log_end_offset("t") == 0
    assert wired[1].produce_records("t", wired[1].batch(b"b"), acks=1).error_code == 0
    assert values_of(wired.fetch_at(1, 0)) == []
    wired.down.clear()
    wired.fence(2, -1)
    wired.advance(1500)
    assert wired.state(1).isr == (1, 2)
    assert values_of(wired.fetch_at(1, 0)) == [b"b"]


def test_an_isr_that_falls_before_the_answer_is_an_error_9(wired: Wired) -> None:
    wired.disconnect(2)
    wired.disconnect(3)
    connection = begin_to_produce(wired, 1, b"a")
    partition = wired.partition(1)
    # The high watermark passes it in the same moment in which only the leader is left.
    followers = partition.followers
    assert followers is not None
    followers.commit((1,))
    partition.set_high_watermark(1)
    wired[1].shell._step(Ticked())
    answer = produced(wired, 1, connection)
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert wired[1].log_end_offset("t") == 1


def test_a_leader_that_is_none_any_more_says_so_10(wired: Wired) -> None:
    wired.disconnect(1)
    connection = begin_to_produce(wired, 1, b"a")
    wired.change(leader=2, isr=(2, 3))
    answer = produced(wired, 1, connection)
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(wired.partition(1).high_watermark_awaited) == 0


def test_a_deletion_ends_the_wait(wired: Wired) -> None:
    wired.disconnect(1)
    connection = begin_to_produce(wired, 1, b"a")
    wired.delete_topic()
    answer = produced(wired, 1, connection)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_retry_after_a_timeout_gets_the_old_offsets_11(wired: Wired) -> None:
    idempotent = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    wired.disconnect(2)
    connection = begin_to_produce(wired, 1, b"a", timeout_ms=300, **idempotent)
    wired.advance(299)
    assert produced(wired, 1, connection) is None
    wired.advance(2)
    assert produced(wired, 1, connection).error_code == ErrorCode.REQUEST_TIMED_OUT
    assert len(wired.partition(1).high_watermark_awaited) == 0
    # A retry waits as well: nobody has told that the first try is safe.
    again = begin_to_produce(wired, 1, b"a", timeout_ms=5000, **idempotent)
    wired.advance(100)
    assert produced(wired, 1, again) is None
    wired.down.clear()
    wired.advance(2000)
    answer = produced(wired, 1, again)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert wired[1].log_end_offset("t") == 1


def both_partitions(wired: Wired, timeout_ms: int) -> int:
    """One request to two of them."""
    node = wired[1]
    connection = node.shell.connect()
    one, other = (
        node.produce_request("t", node.batch(b"a"), partition=index, timeout_ms=timeout_ms)
        for index in (0, 1)
    )
    (data,) = other.topic_data[0].partition_data
    (topic,) = one.topic_data
    topic = topic.replace(partition_data=(*topic.partition_data, data))
    node.send(one.replace(topic_data=(topic,)), 9, connection)
    return connection


def test_each_partition_of_a_request_has_its_own_answer() -> None:
    wired = Wired()
    wired.create_topic(min_insync_replicas="2", partitions=2)
    wired.advance(50)

    def codes(connection: int) -> list[int]:
        answers = wired[1].take(0, 9, connection)
        return [one.error_code for a in answers for one in a.responses[0].partition_responses]

    connection = both_partitions(wired, 1000)
    assert codes(connection) == []
    wired.advance(20)
    assert codes(connection) == [0, 0]
    lose(wired, 2, 3)
    wired.change(1, isr=(1,), index=1)
    connection = both_partitions(wired, 300)
    wired.advance(299)
    assert codes(connection) == []
    wired.advance(2)
    assert codes(connection) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS]
    connection = both_partitions(wired, 300)
    wired.change(1, leader=2, isr=(2, 3))
    answer = codes(connection)
    assert answer == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS]
    assert len(wired.partition(1).high_watermark_awaited) == 0


def test_who_hangs_up_is_not_waited_for(wired: Wired) -> None:
    wired.disconnect(2)
    connection = begin_to_produce(wired, 1, b"a")
    assert len(wired.partition(1).high_watermark_awaited) == 1
    wired[1].shell.disconnect(connection)
    assert len(wired.partition(1).high_watermark_awaited) == 0


def test_a_follower_says_who_leads(wired: Wired) -> None:
    request = wired[2].produce_request("t", wired[2].batch(b"a"))
    for version, leader in ((9, (-1, -1)), (10, (1, 0))):
        response = wired[2].ask(request, version)
        answer = response.responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        told = answer.current_leader
        assert (told.leader_id, told.leader_epoch) == leader
        points = [(point.node_id, point.host, point.port) for point in response.node_endpoints]
        assert points == ([(1, "h", 9093)] if version >= 10 else [])


# A leader's checks of replicas.


def test_replicas_are_held_to_their_epochs_19(wired: Wired) -> None:
    wired.change(leader=1, isr=(1, 2, 3))
    for epoch, code in (
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (1, ErrorCode.NONE),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        response = wired.replica_fetch(1, 2, 0, current_leader_epoch=epoch)
        (answer,) = response.responses[0].partitions
        assert answer.error_code == code
        is_fenced = code is ErrorCode.FENCED_LEADER_EPOCH
        assert answer.current_leader.leader_id == (1 if is_fenced else -1)
        assert len(response.node_endpoints) == is_fenced
        if code:
            assert (answer.high_watermark, answer.log_start_offset) == (-1, -1)
    (answer,) = wired.replica_fetch(2, 3, 0).responses[0].partitions
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 1)


def test_a_deposed_leader_without_the_news_gives_no_data_19(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    wired.change(2, 3, leader=2, isr=(2, 3))
    (answer,) = wired.replica_fetch(1, 3, 0, current_leader_epoch=1).responses[0].partitions
    assert answer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert bytes(answer.records) == b""


def test_who_is_no_replica_21(wired: Wired) -> None:
    for epoch, code in ((-1, 6), (0, 75)):
        (answer,) = wired.replica_fetch(1, 4, 0, current_leader_epoch=epoch).responses[0].partitions
        assert answer.error_code == code


def test_a_fetch_of_an_old_incarnation_changes_nothing_6(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    followers = wired.partition(1).followers
    assert followers is not None
    replica = followers.remote[2]
    before = replica.log_end_offset, replica.last_fetch_ms
    wired.disconnect(2)
    (answer,) = (
        wired.replica_fetch(1, 2, 0, broker_epoch=wired[2].broker.broker_epoch - 1)
        .responses[0]
        .partitions
    )
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (replica.log_end_offset, replica.last_fetch_ms) == before


def test_errors_and_divergence_move_nothing(wired: Wired) -> None:
    wired[1].produce("t", b"a", b"b")
    wired.change(leader=1, isr=(1, 2, 3))
    wired.advance(50)
    wired.disconnect(2)
    followers = wired.partition(1).followers
    assert followers is not None
    replica = followers.remote[2]
    before = replica.log_end_offset, replica.last_fetch_ms
    for offset, fields, code in (
        (9, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
        (2, {"last_fetched_epoch": 7}, ErrorCode.OFFSET_OUT_OF_RANGE),
        (3, {"last_fetched_epoch": 0}, ErrorCode.NONE),
    ):
        (answer,) = wired.replica_fetch(1, 2, offset, **fields).responses[0].partitions
        assert answer.error_code == code
        assert (answer.diverging_epoch.epoch >= 0) == (code is ErrorCode.NONE)
        assert (replica.log_end_offset, replica.last_fetch_ms) == before


def test_a_fetch_that_waited_tells_only_when_it_came(wired: Wired) -> None:
    wired.disconnect(2)
    wired.disconnect(3)
    node, came_ms = wired[1], wired[1].shell.now.monotonic_ms
    asked = fetch_partition(0, 0, log_start_offset=0)
    request = fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=2, replica_epoch=-1),
        max_wait_ms=1000,
        min_bytes=1,
        topics=(fetch.FetchTopic(topic_id=TOPIC_ID, partitions=(asked,)),),
    )
    connection = node.shell.connect()
    node.send(request, 18, connection)
    wired.advance(400)
    node.produce_records("t", node.batch(b"a"), acks=1)
    (answer,) = node.take(1, 18, connection)
    assert values_of(answer.responses[0].partitions[0]) == [b"a"]
    followers = wired.partition(1).followers
    assert followers is not None
    replica = followers.remote[2]
    assert (replica.last_fetch_ms, replica.last_caught_up_ms) == (came_ms, came_ms)
    assert (replica.log_end_offset, replica.last_fetch_leader_end_offset) == (0, 0)


def test_another_topics_id_22(wired: Wired) -> None:
    wired[1].produce("t", b"old")
    new_id = Uuid(b"x" * 16)
    asked = fetch.FetchTopic(topic_id=new_id, partitions=(fetch_partition(0, 0),))
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=1, topics=(asked,))
    (answer,) = wired[1].ask(request, 18).responses[0].partitions
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    # Made anew: the metadata knows it already, but the old log still lies here.
    hosting = wired[1].broker.hosting
    old = hosting.by_name["t", 0]
    wired.delete_topic()
    wired.create_topic(topic_id=new_id)
    new = hosting.by_id.pop((new_id, 0))
    hosting.by_name["t", 0] = old
    (answer,) = wired[1].ask(request, 18).responses[0].partitions
    assert (answer.error_code, bytes(answer.records)) == (ErrorCode.INCONSISTENT_TOPIC_ID, b"")
    hosting.by_name["t", 0] = hosting.by_id[new_id, 0] = new
    (answer,) = wired[1].ask(request, 18).responses[0].partitions
    assert (answer.error_code, bytes(answer.records)) == (0, b"")


# The ISR.


def test_a_follower_that_is_gone_leaves_and_comes_back_3(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    wired.disconnect(3)
    answer = wired[1].produce_records("t", wired[1].batch(b"b"), timeout_ms=100)
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    wired.advance(LAG_MS + LAG_MS // 2 + 200)
    assert wired.state(1).isr == (1, 2)
    assert wired.partition(1).high_watermark == 2
    assert wired[1].produce("t", b"c").error_code == 0
    wired.down.clear()
    wired.advance(1500)
    assert wired.state(1).isr == (1, 2, 3)
    assert wired.ends() == {1: 3, 2: 3, 3: 3}


def test_idle_followers_stay_in_sync(wired: Wired) -> None:
    """Their sessions name nothing, and yet they fetch."""
    wired[1].produce("t", b"a")
    wired.advance(3 * LAG_MS)
    wired[1].produce_records("t", wired[1].batch(b"b"), acks=1)
    # There is something that they have not, and they have not fetched since.
    assert maybe_shrink_isr(wired.partition(1), wired[1].shell.now) is None
    wired.advance(LAG_MS)
    assert wired.state(1).isr == (1, 2, 3)
    assert wired.state(1).partition_epoch == 0


def test_one_that_had_all_and_is_gone_leaves_when_there_is_more_3(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    wired.advance(LAG_MS)
    wired.disconnect(3)
    wired.advance(2 * LAG_MS)
    assert wired.state(1).isr == (1, 2, 3)
    wired[1].produce_records("t", wired[1].batch(b"b"), acks=1)
    wired.advance(LAG_MS)
    assert wired.state(1).isr == (1, 2)


def test_who_leads_late_gives_the_others_all_of_their_time(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Very many partitions are taken up in steps: the last has its turn long after the first."""
    broker = wired[2].broker
    monkeypatch.setattr(broker.hosting, "_begin_to_follow", lambda now: None)
    wired.change(leader=2, isr=(1, 2, 3))
    begun, late = wired[2].shell.now, Now(10**6, 10**6)
    broker.jobs.add(broker.hosting._follow_changed(begun), begun)
    broker.jobs.run(late)
    followers = wired.partition(2).followers
    assert followers is not None
    assert followers.remote[3].last_caught_up_ms == late.monotonic_ms


def test_one_that_was_fenced_joins_when_it_is_not_4(wired: Wired) -> None:
    """Also on an idle partition: nothing is read, but it fetches."""
    wired[1].produce("t", b"a")
    wired.fence(3)
    wired.change(1, 2, isr=(1, 2))
    wired.advance(2000)
    assert wired.state(1).isr == (1, 2)
    assert wired[1].produce("t", b"b").error_code == 0
    wired.advance(2000)
    wired.fence(3, -1)
    wired.advance(700)
    assert wired.state(1).isr == (1, 2, 3)


def test_one_in_controlled_shutdown_does_not_join_42(wired: Wired) -> None:
    record = BrokerRegistrationChangeRecord(
        broker_id=3, broker_epoch=wired[3].broker.broker_epoch, in_controlled_shutdown=1
    )
    wired.commit([record], 1, 2)
    wired.change(1, 2, isr=(1, 2))
    wired.advance(2000)
    assert wired.state(1).isr == (1, 2)


def test_a_changed_min_isr_counts_at_once(wired: Wired) -> None:
    lose(wired, 2, 3)
    wired.change(1, isr=(1,))
    wired[1].produce_records("t", wired[1].batch(b"a"), acks=1)
    assert wired.partition(1).high_watermark == 0
    assert wired[1].configure(2, "t", min_insync_replicas="1").error_code == 0
    wired.advance(50)
    assert wired.partition(1).high_watermark == 1
    assert wired[1].produce("t", b"b").error_code == 0


# Offsets.


def listed(
    wired: Wired, node_id: int, timestamp: int, *, version: int = 11, replica_id: int = -1
) -> Any:
    asked = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = list_offsets.ListOffsetsRequest(
        replica_id=replica_id,
        topics=(list_offsets.ListOffsetsTopic(name="t", partitions=(asked,)),),
    )
    return wired[node_id].ask(request, version).topics[0].partitions[0]


def test_a_new_leader_does_not_tell_an_end_that_it_does_not_know_12(wired: Wired) -> None:
    for _ in range(5):
        wired[1].produce("t", b"a")
    wired.advance(600)
    for _ in range(4):
        wired[1].produce("t", b"b")
    assert wired.partition(2).high_watermark < 9
    wired.disconnect(3)
    wired.disconnect(1)
    wired.change(2, leader=2, isr=(1, 2, 3))
    assert listed(wired, 2, LATEST).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert listed(wired, 2, LATEST, version=4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    beyond = wired[2].shell.now.wall_ms + 10**9
    assert listed(wired, 2, beyond).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert listed(wired, 2, EARLIEST).offset == 0
    assert listed(wired, 2, 0).offset == 0
    assert listed(wired, 2, LATEST, replica_id=3).offset == 9
    wired.down.clear()
    wired.change(1, 3, leader=2, isr=(1, 2, 3))
    wired.advance(1500)
    assert listed(wired, 2, LATEST).offset == 9
    assert (listed(wired, 2, beyond).error_code, listed(wired, 2, beyond).offset) == (0, -1)


def delete(wired: Wired, offset: int, timeout_ms: int = 1000) -> Any:
    asked = delete_records.DeleteRecordsPartition(partition_index=0, offset=offset)
    request = delete_records.DeleteRecordsRequest(
        topics=(delete_records.DeleteRecordsTopic(name="t", partitions=(asked,)),),
        timeout_ms=timeout_ms,
    )
    return wired[1].ask(request, 2, wait_ms=2000).topics[0].partitions[0]


def test_records_are_deleted_when_no_live_replica_has_them_38(wired: Wired) -> None:
    for _ in range(5):
        wired[1].produce("t", b"a")
    result = delete(wired, 3)
    assert (result.error_code, result.low_watermark) == (0, 3)
    starts = [wired.partition(id_).log.log_start_offset for id_ in wired.ids]
    assert starts == [3, 3, 3]
    assert delete(wired, 9).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    lose(wired, 3)
    result = delete(wired, 4)
    assert (result.error_code, result.low_watermark) == (0, 4)
    wired.down.clear()
    wired.fence(3, -1)
    wired.disconnect(3)
    result = delete(wired, -1, timeout_ms=700)
    assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 3)
    assert len(wired.partition(1).low_watermark_awaited) == 0


def test_a_follower_that_has_deleted_by_itself_tells_so_38(wired: Wired) -> None:
    """Retention does that on each replica."""
    for _ in range(5):
        wired[1].produce("t", b"a")
    wired.advance(600)
    for id_ in (2, 3):
        wired.partition(id_).advance_log_start_offset(4)
    result = delete(wired, 3)
    assert (result.error_code, result.low_watermark) == (0, 3)


# Reading from followers.


def test_a_consumer_is_sent_to_the_replica_of_its_rack_26(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    wired.advance(600)
    sent = wired.fetch_at(1, 0, rack_id="rack2", max_wait_ms=1000)
    assert (sent.preferred_read_replica, bytes(sent.records)) == (2, b"")
    assert (sent.error_code, sent.high_watermark, sent.log_start_offset) == (0, 1, 0)
    for rack in ("rack1", "elsewhere", ""):
        served = wired.fetch_at(1, 0, rack_id=rack)
        assert (served.preferred_read_replica, values_of(served)) == (-1, [b"a"])
    # Beyond what it has, and where it is not in sync, the leader serves.
    assert wired.fetch_at(1, 0, version=10).preferred_read_replica == -1
    wired.disconnect(2)
    wired[1].produce_records("t", wired[1].batch(b"b"), acks=1)
    assert wired.fetch_at(1, 2, rack_id="rack2").preferred_read_replica == -1
    assert wired.fetch_at(1, 0, rack_id="rack2").preferred_read_replica == 2
    wired.fence(2)
    assert wired.fetch_at(1, 0, rack_id="rack2").preferred_read_replica == -1
    wired.fence(2, -1)
    wired.change(1, isr=(1, 3))
    assert wired.fetch_at(1, 0, rack_id="rack2").preferred_read_replica == -1


def test_without_a_selector_the_leader_serves_all() -> None:
    wired = Wired()
    wired.create_topic()
    wired[1].produce("t", b"a")
    assert values_of(wired.fetch_at(1, 0, rack_id="rack2")) == [b"a"]


def test_a_follower_serves_up_to_its_own_high_watermark_27(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    wired.advance(600)
    wired[1].produce("t", b"b")
    assert wired.watermarks() == {1: 2, 2: 1, 3: 1}
    assert values_of(wired.fetch_at(2, 0)) == [b"a"]
    assert values_of(wired.fetch_at(2, 1)) == []
    assert wired.fetch_at(2, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert wired.fetch_at(2, 0, rack_id="rack3").preferred_read_replica == -1
    old = wired.fetch_at(2, 0, version=10)
    assert old.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    # And those that wait there are answered when it moves.
    poll = wired[2].shell.connect()
    wired[2].send(wired[2].fetch_request("t", 1, max_wait_ms=10_000), 12, poll)
    wired.advance(600)
    (answer,) = wired[2].take(1, 12, poll)
    assert values_of(answer.responses[0].partitions[0]) == [b"b"]


def test_consumers_do_not_see_what_may_be_lost(wired: Wired) -> None:
    poll = wired[1].shell.connect()
    wired[1].send(wired[1].fetch_request("t", 0, max_wait_ms=10_000), 12, poll)
    wired.disconnect(3)
    wired[1].produce_records("t", wired[1].batch(b"a"), acks=1)
    wired.advance(1000)
    assert wired[1].frames(poll) == []
    wired.down.clear()
    wired.advance(1200)
    (answer,) = wired[1].take(1, 12, poll)
    assert values_of(answer.responses[0].partitions[0]) == [b"a"]


def test_the_session_tells_a_follower_of_a_watermark_alone_24(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    wired.advance(600)
    session = next(iter(wired[1].broker.fetch_sessions))
    assert session.is_follower
    (fetched,) = session.partitions.values()
    assert fetched.known_high_watermark == 1
    assert session.partitions.keys() == {(TOPIC_ID, 0)}
    assert not session.changed


def test_a_watermark_that_came_with_a_divergence_is_told_again(wired: Wired) -> None:
    """On an idle partition it would otherwise never be known."""
    wired[1].produce("t", b"a")
    wired.advance(600)
    wired[1].produce("t", b"b")
    assert wired.watermarks() == {1: 2, 2: 1, 3: 1}
    wired.disconnect(2)
    wired.change(leader=2, isr=(1, 2, 3))
    wired.change(leader=1, isr=(1, 2, 3))
    assert wired.watermarks() == {1: 2, 2: 1, 3: 1}
    # Broker 2 has an epoch without records, which broker 1 does not know.
    wired.down.clear()
    wired.advance(2000)
    assert wired.watermarks() == {1: 2, 2: 2, 3: 2}


def test_a_watermark_is_told_again_in_another_leader_epoch(wired: Wired) -> None:
    """Who has heard of an epoch drops what it is told of the one before; on an idle partition it
    would otherwise never know the high watermark."""
    wired[1].produce("t", b"a")
    wired.advance(600)
    state = fetch.ReplicaState(replica_id=2, replica_epoch=wired[2].broker.broker_epoch)

    def told(session_id: int, session_epoch: int, leader_epoch: int) -> fetch.FetchResponse:
        asked = fetch_partition(0, 1, current_leader_epoch=leader_epoch, log_start_offset=0)
        request = fetch.FetchRequest(
            replica_state=state,
            max_wait_ms=0,
            min_bytes=1,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=(fetch.FetchTopic(topic_id=TOPIC_ID, partitions=(asked,)),),
        )
        answer = wired[1].ask(request, 18)
        assert isinstance(answer, fetch.FetchResponse)
        return answer

    first = told(0, 0, 0)
    assert first.responses[0].partitions[0].high_watermark == 1
    assert told(first.session_id, 1, 0).responses == ()
    wired.change(leader=1, isr=(1, 2, 3))
    (topic,) = told(first.session_id, 2, 1).responses
    assert topic.partitions[0].high_watermark == 1
    assert told(first.session_id, 3, 1).responses == ()
