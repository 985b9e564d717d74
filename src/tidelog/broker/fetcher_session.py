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
        told = self.told
        named: dict[Uuid, list[FetchPartition]] = {}
        forgotten: dict[Uuid, list[int]] = {}
        for key, want in wanted:
            topic_id, index = key
            if want is None:
                if told.pop(key, None) is not None:
                    forgotten.setdefault(topic_id, []).append(index)
            elif told.get(key) != want:
                told[key] = want
                asked = FetchPartition(
                    partition=index,
                    current_leader_epoch=want.current_leader_epoch,
                    fetch_offset=want.fetch_offset,
                    last_fetched_epoch=want.last_fetched_epoch,
                    log_start_offset=want.log_start_offset,
                    partition_max_bytes=want.partition_max_bytes,
                )
                named.setdefault(topic_id, []).append(asked)
        topics = [
            FetchTopic(topic_id=topic_id, partitions=tuple(partitions))
            for topic_id, partitions in named.items()
        ]
        no_more = [
            ForgottenTopic(topic_id=topic_id, partitions=tuple(indexes))
            for topic_id, indexes in forgotten.items()
        ]
        return tuple(topics), tuple(no_more)

    def refused(self, error: ErrorCode) -> None:
        """The whole request was."""
        self.restart(is_unknown=error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def answered(
        self, session_id: int, topics: tuple[FetchableTopicResponse, ...]
    ) -> Answers | None:
        """What the leader says of each partition; None if it speaks of others than it was asked
        for: then nothing of it counts."""
        is_full, told = self.is_full, self.told
        answers: Answers = []
        for topic in topics:
            for data in topic.partitions:
                key = topic.topic_id, data.partition_index
                if key not in told:
                    self.restart()
                    return None
                answers.append((key, data))
        if is_full and len(answers) != len(told):
            self.restart()
            return None
        if session_id == NO_SESSION:
            self.restart(is_unknown=True)
        elif is_full:
            self.id, self.epoch = session_id, 1
        else:
            self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        return answers
