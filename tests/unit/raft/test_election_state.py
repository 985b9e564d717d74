"""quorum-state is Apache's file, byte for byte; and nothing leaves before it is durable."""

from __future__ import annotations

import pytest
from tests.unit.metadata.captured import DISK

from tidelog.env import DiskFull, Now
from tidelog.log.checkpoint import MalformedFile
from tidelog.raft.election_state import ElectionState, format_quorum_state, parse_quorum_state
from tidelog.raft.gate import DISK_FULL_RETRY_MS, Gate
from tidelog.raft.types import FlushDone, ReplicaKey, Work
from tidelog.sim.disk import SimulatedDisk
from tidelog.types import Uuid

KEY = ReplicaKey(3, Uuid(b"0123456789abcdef"))


def test_a_captured_static_one():
    content = (DISK / "quorum-state.v0.json").read_bytes()
    state = parse_quorum_state("quorum-state", content)
    assert state == ElectionState(6, 2, None)
    assert format_quorum_state(state, 0, [1, 2, 3]) == content


def test_a_captured_dynamic_one():
    content = (DISK / "quorum-state.v1.json").read_bytes()
    state = parse_quorum_state("quorum-state", content)
    assert state == ElectionState(3, 1, None)
    assert format_quorum_state(state, 1, [1]) == content


def test_a_vote_keeps_its_directory_in_version_1_alone():
    state = ElectionState(7, 3, KEY)
    assert parse_quorum_state("f", format_quorum_state(state, 1, [])) == state
    stored = parse_quorum_state("f", format_quorum_state(state, 0, [1]))
    assert stored == ElectionState(7, 3, ReplicaKey(3))


def test_without_a_file_nothing_has_happened():
    assert parse_quorum_state("f", None) == ElectionState(0, -1, None)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"leaderId":1,"leaderEpoch":"x","votedId":-1,"data_version":1}',
        b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,"data_version":2}',
        b'{"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"?","data_version":1}',
    ],
)
def test_an_unreadable_one_is_not_guessed_at(content: bytes):
    with pytest.raises(MalformedFile):
        parse_quorum_state("quorum-state", content)


class Held:
    """A gate whose flushes a test answers."""

    def __init__(self) -> None:
        self.flushes: list[tuple[tuple[Work, ...], FlushDone]] = []
        self.done: list[str] = []
        self.failures: list[str] = []
        self.gate = Gate(
            "d/quorum-state",
            lambda work, then: self.flushes.append((work, then)),
            self.failures.append,
            self.settle,
        )

    def settle(self, now: Now) -> None:
        while self.gate.work(now):
            pass

    def say(self, what: str) -> None:
        self.gate.when_open(lambda now: self.done.append(what))

    def flushed(self, error: OSError | DiskFull | None = None, time_ms: int = 0) -> None:
        work, then = self.flushes.pop(0)
        if error is None:
            disk = SimulatedDisk()
            disk.make_directory("d")
            for one in work:
                one.flush(disk)
            self.content = disk.read_file("d/quorum-state")
        then(error, Now(time_ms, 0))


def test_what_is_stored_before_holds_back_what_comes_after():
    held = Held()
    held.say("at once")
    held.settle(Now(0, 0))
    held.gate.store(b"one")
    held.say("a vote")
    held.settle(Now(0, 0))
    assert held.done == ["at once"]
    held.gate.store(b"two")
    held.say("another")
    held.flushed()
    assert (held.content, held.done) == (b"one", ["at once"])
    held.flushed()
    assert (held.content, held.done) == (b"two", ["at once", "a vote", "another"])
    assert held.gate.is_open


def test_several_changes_of_a_step_are_one_write():
    held = Held()
    for content in (b"one", b"two", b"three"):
        held.gate.store(content)
    held.settle(Now(0, 0))
    held.flushed()
    assert held.content == b"three"
    assert held.flushes == []


def test_a_full_disk_is_asked_again():
    held = Held()
    held.gate.store(b"one")
    held.say("a vote")
    held.settle(Now(0, 0))
    held.flushed(DiskFull("no room"))
    held.settle(Now(DISK_FULL_RETRY_MS - 1, 0))
    assert held.flushes == []
    assert held.gate.retry_ms == DISK_FULL_RETRY_MS
    held.settle(Now(DISK_FULL_RETRY_MS, 0))
    held.flushed(time_ms=DISK_FULL_RETRY_MS)
    assert held.done == ["a vote"]


def test_a_broken_disk_is_the_end():
    held = Held()
    held.gate.store(b"one")
    held.say("a vote")
    held.settle(Now(0, 0))
    held.flushed(OSError(5, "broken"))
    held.settle(Now(10_000, 0))
    assert (held.done, held.flushes, len(held.failures)) == ([], [], 1)
