"""Which fetch sessions are kept when there are more than slots."""

from __future__ import annotations

import random
from typing import Any

from tests.unit.node_client import fetch_partition

from tidelog.broker.fetch_session import EPOCH_MAX, EVICTABLE_AFTER_MS, FetchSession, FetchSessions
from tidelog.errors import ErrorCode
from tidelog.wire.messages import fetch

CONSUMER = fetch.ReplicaState()
FOLLOWER = fetch.ReplicaState(replica_id=2, replica_epoch=20)


def open_session(
    sessions: FetchSessions,
    now_ms: int,
    size: int = 1,
    *,
    is_follower: bool = False,
    replica_epoch: int = 20,
) -> int:
    partitions = tuple(fetch_partition(index, 0) for index in range(size))
    request = fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        session_epoch=0,
        topics=(fetch.FetchTopic(topic="t", partitions=partitions),),
    )
    follower = FOLLOWER.replace(replica_epoch=replica_epoch)
    session = sessions.resolve(
        request, uses_topic_ids=False, replica=follower if is_follower else CONSUMER, now_ms=now_ms
    )
    assert isinstance(session, FetchSession)
    return session.id


def use(sessions: FetchSessions, session_id: int, epoch: int, now_ms: int) -> Any:
    request = fetch.FetchRequest(
        max_wait_ms=0, min_bytes=0, session_id=session_id, session_epoch=epoch, topics=()
    )
    return sessions.resolve(request, uses_topic_ids=False, replica=CONSUMER, now_ms=now_ms)


def ids(sessions: FetchSessions) -> set[int]:
    return {session.id for session in sessions}


def new(slots: int = 2) -> FetchSessions:
    return FetchSessions(slots, random.Random(0))


def test_no_slot_no_session() -> None:
    assert open_session(new(0), 0) == 0
    sessions = new()
    first, second = open_session(sessions, 0), open_session(sessions, 0)
    assert open_session(sessions, EVICTABLE_AFTER_MS) == 0
    assert ids(sessions) == {first, second}


def test_who_has_not_fetched_for_longest_gives_way() -> None:
    sessions = new()
    first, second = open_session(sessions, 0, 9), open_session(sessions, 0, 9)
    use(sessions, first, 1, 10)
    third = open_session(sessions, EVICTABLE_AFTER_MS + 1)
    assert ids(sessions) == {first, third}
    assert use(sessions, second, 1, 0) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_larger_one_replaces_the_smallest_that_had_its_time() -> None:
    sessions = new(3)
    old = [open_session(sessions, 0, size) for size in (3, 2, 4)]
    late = EVICTABLE_AFTER_MS + 1
    for session in old:
        use(sessions, session, 1, late)
    assert open_session(sessions, late, 1) == 0
    fourth = open_session(sessions, late, 2)
    assert ids(sessions) == {old[0], old[2], fourth}
    # That one is new: the next larger one goes for the next old one.
    fifth = open_session(sessions, late, 5)
    assert ids(sessions) == {old[2], fourth, fifth}


def test_every_consumer_gives_way_to_a_follower_and_no_follower_to_a_consumer() -> None:
    sessions = new()
    open_session(sessions, 0, 5)
    open_session(sessions, 0, 9)
    followers = {open_session(sessions, 0, is_follower=True) for _ in range(2)}
    assert ids(sessions) == followers
    assert open_session(sessions, 0, is_follower=True) == 0
    late = EVICTABLE_AFTER_MS + 1
    for session in followers:
        use(sessions, session, 1, late)
    assert open_session(sessions, late, 100) == 0
    assert open_session(sessions, late, 2, is_follower=True) != 0


def test_a_follower_that_was_started_again_has_no_old_sessions() -> None:
    sessions = new(10)
    consumer = open_session(sessions, 0)
    for _ in range(2):
        open_session(sessions, 0, is_follower=True)
    new_ones = {open_session(sessions, 0, is_follower=True, replica_epoch=30) for _ in range(2)}
    assert ids(sessions) == {consumer} | new_ones


def test_epochs_wrap_to_1() -> None:
    sessions = new()
    session_id = open_session(sessions, 0)
    (session,) = sessions
    session.expected_epoch = EPOCH_MAX
    assert use(sessions, session_id, EPOCH_MAX, 0) is session
    assert session.expected_epoch == 1


def test_a_session_without_partitions_is_none() -> None:
    sessions = new()
    request = fetch.FetchRequest(max_wait_ms=0, min_bytes=0, session_epoch=0, topics=())
    session = sessions.resolve(request, uses_topic_ids=False, replica=CONSUMER, now_ms=0)
    assert isinstance(session, FetchSession)
    assert (session.id, len(sessions)) == (0, 0)
