"""Judges a history when all is over: nothing that was promised is lost, nothing is there twice,
everything is in order."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.sim.history import History, Outcome, Place, Seen, Written
from tidelog.sim.violation import Violation
from tidelog.types import Offset

Excuse = Callable[[Place, Offset], str | None]
"""Why what was acknowledged at an offset may be gone; None if it may not."""


def check(history: History, reader: str, excuse: Excuse, start: Callable[[Place], Offset]) -> None:
    """With what a reader got of all partitions at the end, whose logs begin at start."""
    logs: dict[Place, dict[Offset, bytes]] = {}
    for seen in history.seen:
        if seen.consumer == reader:
            logs.setdefault(seen.place, {})[seen.offset] = seen.value
    places = {place: _offsets(log) for place, log in logs.items()}
    for written in history.promised():
        if written.place.topic_id not in history.deleted_topics:
            _check_kept(written, places.get(written.place, {}), excuse, start)
    _check_once(history, places)
    _check_order(history, places)
    _check_refused(history)
    _check_consumers(history.seen, excuse)


def _offsets(log: dict[Offset, bytes]) -> dict[bytes, list[Offset]]:
    found: dict[bytes, list[Offset]] = {}
    for offset, value in sorted(log.items()):
        found.setdefault(value, []).append(offset)
    return found


def _check_kept(
    written: Written,
    offsets: dict[bytes, list[Offset]],
    excuse: Excuse,
    start: Callable[[Place], Offset],
) -> None:
    for offset, value in enumerate(written.values, written.offset):
        found = offsets.get(value, [])
        if offset in found or (written.offset < 0 and found):
            continue
        if written.offset >= 0 and offset < start(written.place):
            continue  # deleted from the log's beginning
        if excuse(written.place, written.offset) is None:
            raise Violation(
                "what was acknowledged is not lost",
                f"{_name(value)} of {written.producer}, acknowledged at {offset}, is at {found}",
            )


def _check_once(history: History, places: dict[Place, dict[bytes, list[Offset]]]) -> None:
    for written in history.written:
        if written.session is None:
            continue
        offsets = places.get(written.place, {})
        for value in written.values:
            if len(offsets.get(value, ())) > 1:
                raise Violation(
                    "an idempotent producer writes once",
                    f"{_name(value)} of {written.producer} is at {offsets[value]}",
                )


def _check_order(history: History, places: dict[Place, dict[bytes, list[Offset]]]) -> None:
    last: dict[tuple[str, int, Place], tuple[Offset, bytes]] = {}
    for written in history.written:
        if written.session is None:
            continue
        key = written.producer, written.session, written.place
        offsets = places.get(written.place, {})
        for value in written.values:
            if value not in offsets:
                continue
            before = last.get(key)
            if before is not None and offsets[value][0] <= before[0]:
                raise Violation(
                    "a producer's records keep their order",
                    f"{_name(value)} at {offsets[value][0]} was sent after {_name(before[1])} at"
                    f" {before[0]}",
                )
            last[key] = offsets[value][0], value


def _check_refused(history: History) -> None:
    refused = {
        value: written
        for written in history.written
        if written.outcome is Outcome.REFUSED
        for value in written.values
    }
    for seen in history.seen:
        if seen.value in refused:
            raise Violation(
                "what was refused is not there",
                f"{seen.consumer} got {_name(seen.value)} at {seen.offset}",
            )


def _check_consumers(all_seen: list[Seen], excuse: Excuse) -> None:
    """An offset is one value for everybody, unless what was there is lost."""
    values: dict[tuple[Place, Offset], bytes] = {}
    for seen in all_seen:
        key = seen.place, seen.offset
        known = values.setdefault(key, seen.value)
        if known != seen.value and excuse(*key) is None:
            raise Violation(
                "what was read at an offset never changes",
                f"at {seen.offset} {seen.consumer} got {_name(seen.value)}, another {_name(known)}",
            )


def _name(value: bytes) -> str:
    return value.rpartition(b".")[0].decode()
