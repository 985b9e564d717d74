"""The client's side of an incremental fetch session (KIP-227): a leader is told what changed in
what is asked of it, and tells what changed in its logs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.errors import ErrorCode
from tidelog.types import Offset, Uuid
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NO_SESSION = 0
INITIAL_EPOCH = 0
EPOCH_MAX = (1 << 31) - 1

Key = tuple[Uuid, int]
"""A partition by its topic's id."""
Answers = list[tuple[Key, PartitionData]]


class Wanted(NamedTuple):
    """What is asked of one partition."""

    fetch_offset: Offset
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: Offset
    partition_max_bytes: int

    def of(self, index: int) -> FetchPartition:
        return FetchPartition(
            partition=index,
            current_leader_epoch=self.current_leader_epoch,
            fetch_offset=self.fetch_offset,
            last_fetched_epoch=self.last_fetched_epoch,
            log_start_offset=self.log_start_offset,
            partition_max_bytes=self.partition_max_bytes,
        )


class FetcherSession:
    """What the leader knows of us. Without a session it is told all each time."""

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self.told: dict[Key, Wanted] = {}
        """All partitions of the last request, named in it or before."""

    @property
    def is_full(self) -> bool:
        """Whether the next request names all partitions."""
        return self.epoch == INITIAL_EPOCH

    def restart(self, *, is_unknown: bool = False) -> None:
        """The next request opens another session; it closes this one, if the leader has it."""
        self.epoch = INITIAL_EPOCH
        if is_unknown:
            self.id = NO_SESSION

    def tell(
        self, wanted: Iterable[tuple[Key, Wanted | None]]
    ) -> tuple[tuple[FetchTopic, ...], tuple[ForgottenTopic, ...]]:
        """What a request must say of partitions that may have changed, None if they are not
        wanted any more; of all that are wanted, if it is a full one."""
        if self.is_full:
            self.told = {}
        named: dict[Uuid, list[FetchPartition]] = {}
        forgotten: dict[Uuid, list[int]] = {}
        for key, want in wanted:
            topic_id, index = key
            if want is None:
                if self.told.pop(key, None) is not None:
                    forgotten.setdefault(topic_id, []).append(index)
            elif self.told.get(key) != want:
                self.told[key] = want
                named.setdefault(topic_id, []).append(want.of(index))
        return (
            tuple(
                FetchTopic(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in named.items()
            ),
            tuple(
                ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes))
                for topic_id, indexes in forgotten.items()
            ),
        )

    def refused(self, error: ErrorCode) -> None:
        """The whole request was."""
        self.restart(is_unknown=error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def answered(
        self, session_id: int, topics: tuple[FetchableTopicResponse, ...]
    ) -> Answers | None:
        """What the leader says of each partition; None if it speaks of others than it was asked
        for: then nothing of it counts."""
        answers = [
            ((topic.topic_id, data.partition_index), data)
            for topic in topics
            for data in topic.partitions
        ]
        is_complete = not self.is_full or len(answers) == len(self.told)
        if not is_complete or any(key not in self.told for key, _ in answers):
            self.restart()
            return None
        if session_id == NO_SESSION:
            self.restart(is_unknown=True)
        elif self.is_full:
            self.id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        return answers
