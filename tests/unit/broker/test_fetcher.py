"""Followers keep up with their leaders; numbers in names are scenarios of the replication
reference."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.unit.broker.wired import TOPIC_ID, Wired, values_of

from tidelog.broker.fetcher import CALM_MS, INTERRUPT_MS
from tidelog.broker.fetcher_session import FetcherSession, Wanted
from tidelog.broker.followed import State
from tidelog.errors import ErrorCode
from tidelog.events import Flush, Lane
from tidelog.metadata.records.cluster import ConfigRecord
from tidelog.metadata.records.topics import PartitionChangeRecord
from tidelog.types import Uuid
from tidelog.wire.api import ApiKey
from tidelog.wire.codec import decoder
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchRequest, PartitionData

SMALL = {"segment_bytes": str(1 << 20)}


@pytest.fixture
def wired() -> Wired:
    wired = Wired()
    wired.create_topic(min_insync_replicas="2")
    wired.advance(50)
    return wired


def fetches(wired: Wired, node_id: int) -> list[FetchRequest]:
    """What a broker asked of others, in order."""
    found: list[Any] = []
    for _, frame in wired[node_id].shell.requests:
        if int.from_bytes(frame[:2], "big") == ApiKey.FETCH:
            size = int.from_bytes(frame[8:10], "big")
            message, _ = decoder(FetchRequest, 18)(memoryview(frame), 10 + size + 1)
            found.append(message)
    return found


def produce_to_leader_only(wired: Wired, leader: int, *values: bytes) -> None:
    """Records that nobody else gets: acks=1 at a leader that is cut off."""
    for value in values:
        answer = wired[leader].produce_records("t", wired[leader].batch(value), acks=1)
        assert answer.error_code == 0


def test_what_is_produced_is_on_all_replicas_byte_for_byte(wired: Wired) -> None:
    for count in (1, 3, 10):
        assert wired[1].produce("t", *(b"v%d" % i for i in range(count))).error_code == 0
    wired.advance(600)
    assert wired.ends() == wired.watermarks() == {1: 14, 2: 14, 3: 14}
    assert wired.content(1) == wired.content(2) == wired.content(3) != b""


def test_the_first_fetch_opens_a_session_and_the_next_ones_name_what_changed(wired: Wired) -> None:
    """Field by field what Apache Kafka's followers send."""
    wired[2].shell.requests.clear()
    wired.advance(1200)
    idle = fetches(wired, 2)
    assert len(idle) == 2
    assert all(request.topics == () and request.session_id for request in idle)
    assert idle[1].session_epoch == idle[0].session_epoch + 1
    assert (idle[0].max_wait_ms, idle[0].min_bytes, idle[0].max_bytes) == (500, 1, 10485760)
    assert idle[0].replica_state.replica_epoch == wired[2].broker.broker_epoch
    wired[2].shell.requests.clear()
    wired[1].produce("t", b"a", b"b")
    (topic,) = fetches(wired, 2)[0].topics
    (asked,) = topic.partitions
    assert (topic.topic_id, topic.topic) == (TOPIC_ID, "")
    assert (asked.fetch_offset, asked.last_fetched_epoch, asked.current_leader_epoch) == (2, 0, 0)
    assert (asked.log_start_offset, asked.partition_max_bytes) == (0, 1048576)
    fresh = Wired()
    fresh.create_topic()
    first = fetches(fresh, 2)[0]
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert first.topics[0].partitions[0].last_fetched_epoch == -1


def test_a_follower_asks_as_it_is_configured_to() -> None:
    wired = Wired(
        replica_fetch_min_bytes="7",
        replica_fetch_wait_max_ms="123",
        replica_fetch_response_max_bytes="45678",
        replica_fetch_max_bytes="9012",
    )
    wired.create_topic()
    wired.advance(300)
    first, *_, last = fetches(wired, 2)
    assert first.topics[0].partitions[0].partition_max_bytes == 9012
    assert (last.max_wait_ms, last.min_bytes, last.max_bytes) == (123, 7, 45678)


def test_a_high_watermark_comes_with_the_next_answer_1(wired: Wired) -> None:
    assert wired[1].produce("t", b"a").error_code == 0
    assert wired.watermarks() == {1: 1, 2: 0, 3: 0}
    wired.advance(400)
    assert wired.watermarks() == {1: 1, 2: 0, 3: 0}
    wired.advance(150)
    assert wired.watermarks() == {1: 1, 2: 1, 3: 1}


def test_what_the_old_leader_has_alone_is_cut_off_13(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    wired.disconnect(1)
    produce_to_leader_only(wired, 1, b"lost", b"too")
    wired.change(2, 3, isr=(2, 3), leader=2)
    assert wired[2].produce("t", b"b").error_code == 0
    wired.down.clear()
    wired.change(1, isr=(2, 3), leader=2)
    wired.advance(1500)
    assert wired.ends() == {1: 2, 2: 2, 3: 2}
    assert wired.content(1) == wired.content(2) == wired.content(3)
    assert wired.partition(1).log.leader_epochs.entries() == [(0, 0), (1, 1)]


def test_several_epochs_of_divergence_are_found_step_by_step_14(wired: Wired) -> None:
    """A leader whose records nobody got, twice."""
    wired[1].produce("t", b"a")
    wired.disconnect(1)
    for leader in (1, 2, 1, 2):
        wired.change(leader=leader, isr=(1, 2, 3))
        produce_to_leader_only(wired, leader, b"of %d" % leader)
        wired.advance(100)
    epochs = {id_: wired.partition(id_).log.leader_epochs.epochs for id_ in wired.ids}
    assert epochs == {1: [0, 1, 3], 2: [0, 2, 4], 3: [0, 2, 4]}
    wired.down.clear()
    wired[1].shell.requests.clear()
    wired.advance(1500)
    assert wired.content(1) == wired.content(2) == wired.content(3)
    assert wired.ends() == {1: 3, 2: 3, 3: 3}
    asked = [
        (partition.fetch_offset, partition.last_fetched_epoch)
        for request in fetches(wired, 1)
        for topic in request.topics
        for partition in topic.partitions
    ]
    assert asked == [(3, 3), (2, 1), (1, 0), (3, 4)]


def test_an_epoch_above_all_of_the_leaders_is_out_of_range_16(wired: Wired) -> None:
    """An unclean election, of a replica that never heard of the epochs in between."""
    wired[1].produce("t", b"a")
    wired.disconnect(3)
    wired.change(1, 2, leader=1, isr=(1, 2))
    assert wired[1].produce("t", b"b", b"c").error_code == 0
    log = wired.partition(3).log
    # What broker 3 leads begins below: as if the epochs between had never been.
    wired.change(3, leader=1, isr=(1, 2))
    assert log.log_end_offset == 1
    wired.disconnect(1)
    for node_id in (2, 3):
        wired.partition(node_id).log.leader_epochs.assign(9 if node_id == 2 else 0, 1)
    wired.down.discard(3)
    wired.change(leader=3, isr=(3,))
    wired.advance(2000)
    assert wired.ends() == {1: 3, 2: 1, 3: 1}
    assert wired.partition(2).high_watermark == 1
    listed = [f for _, f in wired[2].shell.requests if int.from_bytes(f[:2], "big") == 2]
    assert len(listed) == 1


def test_a_follower_before_the_leaders_start_begins_anew_17(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    wired.advance(600)
    wired.disconnect(3)
    wired.fence(3)
    wired.change(1, 2, isr=(1, 2))
    for _ in range(5):
        wired[1].produce("t", b"b")
    wired.partition(1).advance_log_start_offset(4)
    wired.down.clear()
    wired.fence(3, -1)
    wired.advance(3000)
    log = wired.partition(3).log
    assert (log.log_start_offset, log.log_end_offset) == (4, 6)
    assert wired.partition(3).high_watermark == 6
    assert log.leader_epochs.entries() == [(0, 4)]
    listed = [f for _, f in wired[3].shell.requests if int.from_bytes(f[:2], "big") == 2]
    assert [int.from_bytes(frame[2:4], "big") for frame in listed] == [11, 11]
    assert wired.state(1).isr == (1, 2, 3)


def test_a_log_that_starts_inside_a_batch_18(wired: Wired) -> None:
    wired.disconnect(3)
    wired.fence(3)
    wired.change(1, 2, isr=(1, 2))
    wired[1].produce("t", *[b"x"] * 15)
    wired[1].produce("t", *[b"y"] * 11)
    wired.partition(1).advance_log_start_offset(20)
    wired.down.clear()
    wired.fence(3, -1)
    wired.advance(3000)
    log = wired.partition(3).log
    assert (log.log_start_offset, log.log_end_offset) == (20, 26)
    assert log.segments[0].base_offset == 15
    assert values_of(wired.fetch_at(3, 20)) == [b"y"] * 11


def test_a_fenced_epoch_waits_for_the_metadata_20(wired: Wired) -> None:
    wired.change(1, leader=1, isr=(1, 2, 3))
    wired.advance(600)
    assert wired[2].broker.fetchers.state_of(wired.partition(2)) is State.FAILED
    wired[2].shell.requests.clear()
    wired.advance(3000)
    assert fetches(wired, 2) == []
    wired.change(2, 3, leader=1, isr=(1, 2, 3))
    wired.advance(100)
    assert wired[2].broker.fetchers.state_of(wired.partition(2)) is State.FETCHING
    assert wired[1].produce("t", b"a").error_code == 0


def test_a_leader_that_does_not_know_yet_is_asked_again_21(wired: Wired) -> None:
    """At first soon: it will have learned of it within milliseconds."""
    wired.change(2, 3, leader=1, isr=(1, 2, 3))
    wired.advance(600)
    assert wired[2].broker.fetchers.state_of(wired.partition(2)) is State.DELAYED
    wired.change(1, leader=1, isr=(1, 2, 3))
    wired.advance(1000)
    assert wired[1].produce("t", b"a").error_code == 0
    wired.change(2, 3, leader=1, isr=(1, 2, 3))
    wired.change(1, leader=1, isr=(1, 2, 3))
    wired[2].shell.requests.clear()
    wired.advance(80)
    assert wired[1].produce("t", b"a").error_code == 0
    assert wired.ends() == {1: 2, 2: 2, 3: 2}


def test_who_was_refused_for_a_moment_does_not_wait_for_the_news_of_others() -> None:
    """Of two partitions that have a new leader, it has yet to hear of one."""
    wired = Wired()
    wired.create_topic(3, 2, 1, partitions=2, min_insync_replicas="2")
    wired.advance(600)
    first, second = (
        PartitionChangeRecord(partition_id=index, topic_id=TOPIC_ID, leader=1, isr=(1, 2, 3))
        for index in (0, 1)
    )
    wired.commit([first], 1)
    wired.commit([first, second], 2, 3)
    wired[2].shell.requests.clear()
    wired.commit([second], 1)
    wired.advance(30)
    asked = {
        partition.partition
        for request in fetches(wired, 2)
        for topic in request.topics
        for partition in topic.partitions
    }
    assert 1 in asked


def test_who_is_refused_again_and_again_asks_less_and_less_often() -> None:
    wired = Wired(replica_fetch_backoff_ms="100")
    wired.create_topic(min_insync_replicas="2")
    wired.advance(50)
    wired[2].shell.requests.clear()
    wired.change(2, 3, leader=1, isr=(1, 2, 3))  # which the leader does not learn
    asked = [0]
    for _ in range(1000):
        wired.advance(1)
        asked.append(sum(bool(one.topics) for one in fetches(wired, 2)))
    moments = [ms for ms, (before, after) in enumerate(pairwise(asked)) if after > before]
    delays = [round(after - before, -1) for before, after in pairwise(moments)]
    assert delays[0] <= 20
    assert delays[1:4] == [40, 80, 100]
    assert set(delays[4:]) == {100}


def test_a_replica_that_is_added_catches_up_and_joins_21() -> None:
    wired = Wired(1, 2, 3, 4)
    wired.create_topic(1, 2, 3, min_insync_replicas="2")
    for _ in range(3):
        wired[1].produce("t", b"a")
    wired.change(1, 2, 4, replicas=(1, 2, 3, 4), adding_replicas=(4,))
    wired.advance(600)
    assert wired.partition(4).log.log_end_offset == 3
    assert wired.state(1).isr == (1, 2, 3, 4)
    # And one that is removed deletes what it has.
    path = wired.partition(2).log.path
    wired.change(1, 2, 4, replicas=(1, 3, 4), isr=(1, 3, 4))
    assert ("t", 0) not in wired[2].broker.hosting.by_name
    assert wired[2].broker.fetchers.state_of(wired.partition(1)) is None
    assert not wired[2].shell.disk.exists(path)
    wired.advance(61_000)
    assert not any(name.startswith("t-0") for name in wired[2].shell.disk.names("data"))


def test_a_deleted_topic_is_followed_no_more_22(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    wired.delete_topic()
    wired.advance(600)
    wired[2].shell.requests.clear()
    wired.advance(2000)
    assert fetches(wired, 2) == []
    wired.create_topic(topic_id=Uuid(b"another-topic-id"))
    wired.advance(600)
    assert wired[1].produce("t", b"b").error_code == 0
    wired.advance(600)
    assert wired.ends() == {1: 1, 2: 1, 3: 1}
    assert wired.content(1) == wired.content(2)


def test_who_leads_no_more_and_died_is_forgotten(wired: Wired) -> None:
    wired.advance(600)
    fetchers = wired[3].broker.fetchers
    wired.change(2, 3, leader=2, isr=(2, 3))
    wired.disconnect(1)
    wired.advance(5000)
    assert list(fetchers._fetchers) == [(2, 0)]


def test_who_leads_no_more_is_forgotten(wired: Wired) -> None:
    wired.advance(600)
    fetchers = wired[3].broker.fetchers
    assert list(fetchers._fetchers) == [(1, 0)]
    wired.change(leader=2, isr=(1, 2, 3))
    wired.advance(1500)
    assert list(fetchers._fetchers) == [(2, 0)]
    assert [other.node_id for other, _ in wired[3].shell.outgoing.values()] == [2]
    wired.change(leader=1, isr=(1, 2, 3))
    assert wired[1].produce("t", b"a").error_code == 0
    assert wired.ends() == {1: 1, 2: 1, 3: 1}


def test_even_if_nothing_was_asked_of_it_any_more(wired: Wired) -> None:
    wired.advance(600)
    fetchers, partition = wired[3].broker.fetchers, wired.partition(3)
    fetcher = fetchers._following[partition]
    key = TOPIC_ID, 0
    fetcher._followed[key].state = State.FAILED
    fetcher._note(key, wired[3].shell.now)
    wired.advance(2000)
    assert not fetcher._is_busy
    assert list(fetchers._fetchers) == [(1, 0)]
    wired.delete_topic()
    wired.advance(50)
    assert not fetchers._fetchers
    assert not wired[3].shell.outgoing


def test_a_broken_connection_begins_another_session(wired: Wired) -> None:
    wired.advance(600)
    wired.disconnect(2)
    wired.advance(100)
    wired.down.clear()
    wired[2].shell.requests.clear()
    wired.advance(1500)
    first = fetches(wired, 2)[0]
    assert (first.session_epoch, len(first.topics)) == (0, 1)
    assert first.session_id > 0  # which closes the one before
    assert len(wired[1].broker.fetch_sessions) == 2
    assert wired[1].produce("t", b"a").error_code == 0


@pytest.mark.parametrize("is_unknown", [True, False])
def test_a_session_that_the_leader_refuses_begins_anew_23(wired: Wired, is_unknown: bool) -> None:
    wired.advance(600)
    sessions = wired[1].broker.fetch_sessions
    for session in list(sessions):
        if is_unknown:
            sessions._remove(session.id)
        else:
            session.expected_epoch += 1
    wired[2].shell.requests.clear()
    wired.advance(520)
    restarted = [request for request in fetches(wired, 2) if request.session_epoch == 0]
    assert [bool(request.session_id) for request in restarted] == [not is_unknown]
    assert wired[1].produce("t", b"a").error_code == 0


def test_who_is_followed_anew_does_not_wait_for_a_long_poll(wired: Wired) -> None:
    wired.create_topic(3, 1, 2, name="u", topic_id=Uuid(b"another-topic-id"))
    wired.advance(300)
    wired.change(leader=3, isr=(1, 2, 3))
    wired.advance(INTERRUPT_MS + 10)
    followers = wired.partition(3).followers
    assert followers is not None
    assert [replica.log_end_offset for replica in followers.remote.values()] == [0, 0]


def test_for_many_a_long_poll_is_interrupted_once() -> None:
    """As when a topic is made, whose partitions are opened one by one by a job."""
    wired = Wired()
    wired.create_topic(partitions=100)
    wired.create_topic(name="u", topic_id=Uuid(b"another-topic-id"))
    follower, fetchers = wired[2], wired[2].broker.fetchers
    for index in range(100):
        fetchers.unfollow(wired.partition(2, index))
    wired.advance(1000)
    follower.shell.requests.clear()
    for index in range(100):
        fetchers.follow(wired.partition(2, index), follower.shell.now)
        wired.advance(7)
        if index >= 10:
            named = {
                asked.partition
                for request in fetches(wired, 2)
                for topic in request.topics
                for asked in topic.partitions
                if topic.topic_id == TOPIC_ID
            }
            assert index - (INTERRUPT_MS + 10) // 7 in named, "nobody waits for long"
    assert [one.session_epoch for one in fetches(wired, 2)].count(0) == 1
    assert len(fetches(wired, 2)) < 700 // INTERRUPT_MS + 10
    wired.advance(CALM_MS + 100)
    follower.shell.requests.clear()
    wired.advance(1100)
    assert [one.max_wait_ms for one in fetches(wired, 2)] == [500, 500]


def test_a_short_request_is_given_up_too_when_its_leader_is_silent(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its machine has lost its power, which breaks no connection, and starts again."""
    fetchers, partition = wired[2].broker.fetchers, wired.partition(2)
    fetchers.follow(partition, wired[2].shell.now)
    wired.advance(INTERRUPT_MS + 10)
    assert fetches(wired, 2)[-1].max_wait_ms == INTERRUPT_MS
    with monkeypatch.context() as silence:
        silence.setattr(wired[1].shell, "_answer", lambda connection: None)
        wired.advance(100)
    wired[2].shell.requests.clear()
    fetchers.follow(partition, wired[2].shell.now)
    wired.advance(CALM_MS + INTERRUPT_MS)
    assert fetches(wired, 2)[0].session_epoch == 0
    assert wired[1].produce("t", b"a").error_code == 0


def test_a_long_poll_is_interrupted_soon_whatever_the_job_says_the_time_is(wired: Wired) -> None:
    """A job may know no other time than that of its beginning."""
    broker, began = wired[2].broker, wired[2].shell.now
    wired.advance(100)
    wired[2].shell.requests.clear()
    for _ in range(40):
        broker.fetchers.follow(wired.partition(2), began)
        wired.advance(2)
    wired.advance(INTERRUPT_MS)
    assert [one.session_epoch for one in fetches(wired, 2)].count(0) == 1


def wait_until_cut(wired: Wired, node_id: int) -> None:
    """To the one record that its leader has, too; the disk does not know it yet."""
    partition = wired.partition(node_id)
    for _ in range(300):
        wired.advance(1)
        if partition.log.log_end_offset == 1:
            break
    assert wired[node_id].broker.fetchers.state_of(partition) is State.TRUNCATED


def test_nothing_is_appended_before_the_disk_knows_that_the_log_was_cut(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    wired.disconnect(1)
    produce_to_leader_only(wired, 1, b"lost")
    node = wired[1]
    partition = wired.partition(1)
    partition.log.flush(node.shell.now)
    assert partition.log.recovery_point == 2
    wired.change(2, 3, isr=(2, 3), leader=2)
    wired[2].produce("t", b"b")
    wired.down.clear()
    node.shell.flush_ms = (50, 50)
    wired.change(1, isr=(2, 3), leader=2)
    wait_until_cut(wired, 1)
    written = [e for e in node.shell.effects if isinstance(e, Flush) and not e.work[0].files]
    ((path, content),) = written[-1].work[0].replacements
    assert path.endswith("/recovery-point-offset-checkpoint")
    assert b"t 0 1\n" in content
    assert written[-1].work[1] == (partition.log.segments.active.file, partition.log.path)
    assert written[-1].lane is Lane.AWAITED
    wired.advance(45)
    assert partition.log.log_end_offset == 1
    wired.advance(30)
    assert partition.log.log_end_offset == 2


def cut_on_a_slow_disk(wired: Wired) -> None:
    """Broker 1 has lost its leadership to 2, and what it had alone; its disk needs 200 ms to know
    that. What the metadata says from now on overtakes it."""
    wired[1].produce("t", b"a")
    wired.disconnect(1)
    produce_to_leader_only(wired, 1, b"lost")
    node = wired[1]
    wired.partition(1).log.flush(node.shell.now)
    wired.change(2, 3, isr=(2, 3), leader=2)
    wired.down.clear()
    node.shell.flush_ms = (200, 200)
    wired.change(1, isr=(2, 3), leader=2)
    wait_until_cut(wired, 1)
    node.shell.flush_ms = (1, 1)


def test_not_even_in_a_new_epoch(wired: Wired) -> None:
    cut_on_a_slow_disk(wired)
    node, partition = wired[1], wired.partition(1)
    wired[2].produce("t", b"b")
    wired.change(isr=(2, 3), leader=2)  # takes 30 ms
    assert partition.leader_epoch == 2
    wired.advance(120)
    assert node.broker.fetchers.state_of(partition) is State.TRUNCATED
    assert partition.log.log_end_offset == 1
    wired.advance(400)
    assert partition.log.log_end_offset == 2
    assert not node.broker.fetchers.cut


def test_who_is_elected_leads_when_the_disk_knows_that_its_log_was_cut(wired: Wired) -> None:
    """A leader appends at once: after a power failure recovery would take what it has appended
    for what was flushed there before."""
    cut_on_a_slow_disk(wired)
    node, partition = wired[1], wired.partition(1)
    wired.change(isr=(1, 2, 3), leader=1)  # takes 30 ms
    assert node.produce("t", b"early").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    wired.advance(100)
    assert node.broker.fetchers.cut
    assert not partition.is_leader
    assert partition.log.log_end_offset == 1
    wired.advance(150)
    assert not node.broker.fetchers.cut
    assert partition.is_leader
    assert node.produce("t", b"b").error_code == 0
    wired.advance(100)
    assert wired.ends() == {1: 2, 2: 2, 3: 2}


def test_who_is_deposed_before_the_disk_knows_of_its_cut_never_leads(wired: Wired) -> None:
    cut_on_a_slow_disk(wired)
    partition = wired.partition(1)
    wired.change(isr=(1, 2, 3), leader=1)
    assert partition.leader_epoch == 1, "not even in name"
    wired.change(isr=(1, 2, 3), leader=2)
    assert wired[2].produce("t", b"b").error_code == 0
    assert partition.leader_epoch == 3
    assert wired.ends() == {1: 2, 2: 2, 3: 2}


def test_a_deleted_log_that_was_cut_is_forgotten(wired: Wired) -> None:
    cut_on_a_slow_disk(wired)
    wired.delete_topic()
    assert not wired[1].broker.fetchers.cut
    wired.advance(300)
    assert not wired[1].broker.fetchers.cut


def test_nothing_is_appended_before_the_disk_knows_that_a_segment_is_gone(wired: Wired) -> None:
    wired[1].produce("t", b"a")
    wired.disconnect(1)
    node, partition = wired[1], wired.partition(1)
    produce_to_leader_only(wired, 1, b"lost")
    partition.log.roll(partition.log.log_end_offset, node.shell.now)
    produce_to_leader_only(wired, 1, b"lost, too")
    assert partition.log.recovery_point <= 1
    assert len(partition.log.segments) == 2
    wired.change(2, 3, isr=(2, 3), leader=2)
    wired[2].produce("t", b"b")
    wired.down.clear()
    node.shell.flush_ms = (50, 50)
    wired.change(1, isr=(2, 3), leader=2)
    wait_until_cut(wired, 1)
    cuts = [e.work[1] for e in node.shell.effects if isinstance(e, Flush) and len(e.work) > 1]
    assert cuts[-1] == (partition.log.segments.active.file, partition.log.path)
    wired.advance(150)
    assert partition.log.log_end_offset == 2


def test_very_large_answers_are_taken_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.broker.fetcher.AT_ONCE_BYTES_MAX", 1000)
    wired = Wired()
    wired.create_topic(partitions=3)
    wired.advance(50)
    for index in range(3):
        for _ in range(3):
            assert wired[1].produce("t", bytes(5000), partition=index).error_code == 0
    wired.advance(600)
    for index in range(3):
        assert wired.ends(index) == wired.watermarks(index) == {1: 3, 2: 3, 3: 3}


def test_very_many_partitions_are_named_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.broker.fetcher.NAMED_MAX", 4)
    wired = Wired(1, 2)
    wired.create_topic(partitions=10)
    wired.advance(100)
    named = [sum(len(t.partitions) for t in request.topics) for request in fetches(wired, 2)]
    assert max(named) == 4
    assert sum(named) >= 10
    for index in range(10):
        assert wired[1].produce("t", b"a", partition=index).error_code == 0


def test_each_fetcher_has_its_share() -> None:
    wired = Wired(1, 2, num_replica_fetchers="2")
    wired.create_topic(partitions=6)
    wired.advance(50)
    clients = {frame[10 : 10 + frame[9]] for _, frame in wired[2].shell.requests}
    assert clients == {b"broker-2-fetcher-0", b"broker-2-fetcher-1"}
    for index in range(6):
        assert wired[1].produce("t", b"a", partition=index).error_code == 0


def test_the_number_of_fetchers_changes_while_they_fetch() -> None:
    wired = Wired(1, 2)
    wired.create_topic(partitions=6)
    wired.advance(50)
    for count, names in (("3", {0, 1, 2}), ("1", {0})):
        record = ConfigRecord(
            resource_type=4,
            resource_name="",
            name="num.replica.fetchers",
            value=count,
        )
        wired.commit([record])
        wired.advance(1000)  # until those that are not needed any more have heard
        wired[2].shell.requests.clear()
        for index in range(6):
            assert wired[1].produce("t", b"a", partition=index).error_code == 0
        clients = {frame[10 : 10 + frame[9]] for _, frame in wired[2].shell.requests}
        assert clients == {f"broker-2-fetcher-{name}".encode() for name in names}


def test_a_leader_is_looked_for_where_the_metadata_says(wired: Wired) -> None:
    assert wired[1].produce("t", b"a").error_code == 0
    moved = wired._registration(1)
    (point,) = moved.end_points
    wired.commit([moved.replace(end_points=(point.replace(port=9092 + 77),))], 2)
    wired.advance(1000)
    produce_to_leader_only(wired, 1, b"b")
    wired.advance(1000)
    assert wired.ends() == {1: 2, 2: 1, 3: 2}
    wired.commit([moved], 2)
    wired.advance(2000)
    assert wired.ends() == {1: 2, 2: 2, 3: 2}


def test_records_that_were_damaged_on_the_way_are_asked_for_again(wired: Wired) -> None:
    shell = wired[1].shell
    answer = shell._answer
    damaged: list[int] = []

    def damage(connection: int) -> None:
        sent = shell.sent[connection]
        if b"precious" in sent and not damaged:
            damaged.append(connection)
            place = sent.index(b"precious")
            sent[place] ^= 1
        answer(connection)

    shell._answer = damage  # type: ignore[method-assign]
    answer_ = wired[1].produce("t", b"precious")
    assert answer_.error_code == 0
    assert damaged
    assert wired.content(1) == wired.content(2) == wired.content(3)


def test_a_refusal_that_only_newer_leaders_know_is_one(wired: Wired) -> None:
    shell = wired[1].shell
    answer = shell._answer
    changed: list[int] = []

    def refuse(connection: int) -> None:
        sent = shell.sent[connection]
        if b"precious" in sent and not changed:
            changed.append(connection)
            sent[13:15] = (30_000).to_bytes(2, "big")  # behind size, header and throttle time
        answer(connection)

    shell._answer = refuse  # type: ignore[method-assign]
    wired[1].produce("t", b"precious")
    wired.advance(2_000)
    assert changed
    assert wired.content(1) == wired.content(2) == wired.content(3)


# The session, by itself.

KEY = (TOPIC_ID, 0)
WANTED = Wanted(5, 1, 1, 0, 100)


def told(session: FetcherSession, *wanted: tuple[Any, Wanted | None]) -> tuple[int, int]:
    named, forgotten = session.tell(wanted)
    return sum(len(t.partitions) for t in named), sum(len(t.partitions) for t in forgotten)


def answer(*indexes: int) -> tuple[FetchableTopicResponse, ...]:
    return (
        FetchableTopicResponse(
            topic_id=TOPIC_ID,
            partitions=tuple(
                PartitionData(
                    partition_index=index,
                    error_code=0,
                    high_watermark=0,
                    aborted_transactions=None,
                    records=b"",
                )
                for index in indexes
            ),
        ),
    )


def test_a_session_tells_only_what_is_new() -> None:
    session = FetcherSession()
    assert told(session, (KEY, WANTED), ((TOPIC_ID, 1), None)) == (1, 0)
    assert session.answered(77, answer(0)) is not None
    assert (session.id, session.epoch) == (77, 1)
    assert told(session, (KEY, WANTED)) == (0, 0)
    assert told(session, (KEY, WANTED._replace(fetch_offset=6))) == (1, 0)
    assert session.answered(77, ()) == []
    assert session.epoch == 2
    assert told(session, (KEY, None), ((TOPIC_ID, 9), None)) == (0, 1)
    assert session.answered(0, ()) == []
    assert (session.id, session.epoch) == (0, 0)


def test_a_session_ends_its_count_and_begins_it_at_one() -> None:
    session = FetcherSession()
    told(session, (KEY, WANTED))
    session.answered(77, answer(0))
    session.epoch = (1 << 31) - 1
    session.answered(77, ())
    assert session.epoch == 1


@pytest.mark.parametrize("indexes", [(), (1,), (0, 1)])
def test_an_answer_to_something_else_is_not_used(indexes: tuple[int, ...]) -> None:
    session = FetcherSession()
    told(session, (KEY, WANTED))
    assert session.answered(77, answer(*indexes)) is None
    assert session.is_full
    told(session, (KEY, WANTED))
    assert session.answered(77, answer(0)) is not None
    assert session.answered(77, answer(1)) is None
    assert (session.id, session.epoch) == (77, 0)


def test_errors_restart_a_session() -> None:
    for error, session_id in (
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 77),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 77),
    ):
        session = FetcherSession()
        told(session, (KEY, WANTED))
        session.answered(77, answer(0))
        session.refused(error)
        assert (session.id, session.is_full) == (session_id, True)
        assert told(session, (KEY, WANTED)) == (1, 0)
