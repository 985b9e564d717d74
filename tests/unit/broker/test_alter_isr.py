"""Changes of ISRs on their way to the controller; numbers in names are scenarios of the replication
reference."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.wired import TOPIC_ID, Wired

from tidelog.broker.alter_isr import RETRY_MS
from tidelog.env import Now
from tidelog.errors import ErrorCode, PeerFailure
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)


class Controller:
    """Answers when it is told to."""

    def __init__(self, wired: Wired) -> None:
        self.wired = wired
        self.asked: list[tuple[AlterPartitionRequest, Any]] = []
        wired[1].broker.controller = self  # type: ignore[assignment]

    def ask(self, message: Any, then: Any, now: Now, **_: Any) -> None:
        if isinstance(message, AlterPartitionRequest):
            self.asked.append((message, then))

    def answer(self, code: int = 0, codes: dict[int, int] | None = None, **fields: Any) -> None:
        """To what was asked first: the ISR as it was asked for, or errors."""
        request, then = self.asked.pop(0)
        answers = tuple(
            AlterPartitionResponsePartitionData(
                partition_index=data.partition_index,
                error_code=(codes or {}).get(data.partition_index, 0),
                leader_id=1,
                leader_epoch=data.leader_epoch,
                isr=tuple(member.broker_id for member in data.new_isr_with_epochs),
                partition_epoch=data.partition_epoch + 1,
            )
            for data in request.topics[0].partitions
            if data.partition_index not in fields.get("silent", ())
        )
        topic = AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=answers)
        response = AlterPartitionResponse(error_code=code, topics=() if code else (topic,))
        then(response, self.wired[1].shell.now)

    def indexes(self) -> list[int]:
        (request, _), *more = self.asked
        assert more == [], "one request at a time"
        return [data.partition_index for data in request.topics[0].partitions]


@pytest.fixture
def wired() -> Wired:
    """Broker 3 is not in sync, but fetches."""
    wired = Wired()
    wired.create_topic(partitions=3, min_insync_replicas="2")
    wired.fence(3)
    for index in range(3):
        wired.change(isr=(1, 2), index=index)
    return wired


def isrs(wired: Wired) -> list[tuple[int, ...]]:
    return [wired.partition(1, index).isr for index in range(3)]


def test_all_that_comes_up_meanwhile_is_one_request(wired: Wired) -> None:
    controller = Controller(wired)
    wired.fence(3, -1)
    wired.advance(600)
    assert controller.indexes() == [0]
    (request, _) = controller.asked[0]
    assert (request.broker_id, request.broker_epoch) == (1, wired[1].broker.broker_epoch)
    (data,) = request.topics[0].partitions
    members = [(state.broker_id, state.broker_epoch) for state in data.new_isr_with_epochs]
    assert members == [(id_, wired[id_].broker.broker_epoch) for id_ in (1, 2, 3)]
    assert (data.leader_epoch, data.partition_epoch, data.leader_recovery_state) == (0, 1, 0)
    controller.answer()
    assert isrs(wired) == [(1, 2, 3), (1, 2), (1, 2)]
    assert controller.indexes() == [1, 2]
    controller.answer()
    assert isrs(wired) == [(1, 2, 3)] * 3
    assert controller.asked == []
    assert len(wired[1].broker.alter_isr) == 0


@pytest.mark.parametrize(
    "failure", [PeerFailure.TIMED_OUT, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NOT_CONTROLLER, 999]
)
def test_what_was_not_heard_is_asked_again(wired: Wired, failure: Any) -> None:
    controller = Controller(wired)
    wired.fence(3, -1)
    wired.advance(600)
    if isinstance(failure, PeerFailure):
        controller.asked.pop()[1](failure, wired[1].shell.now)
    else:
        controller.answer(code=failure)
    assert controller.asked == []
    wired.advance(RETRY_MS + 1)
    assert controller.indexes() == [0, 1, 2]


def test_of_each_partition_what_its_answer_says_5_35(wired: Wired) -> None:
    controller = Controller(wired)
    wired.fence(3, -1)
    wired.advance(600)
    controller.answer(codes={0: ErrorCode.INVALID_UPDATE_VERSION})
    controller.answer(codes={1: ErrorCode.INELIGIBLE_REPLICA}, silent=(2,))
    partitions = [wired.partition(1, index) for index in range(3)]
    # Overtaken: the metadata will tell. Refused: as before. No answer: it is asked again.
    assert [partition.maximal_isr for partition in partitions] == [(1, 2, 3), (1, 2), (1, 2, 3)]
    assert isrs(wired) == [(1, 2)] * 3
    wired.advance(RETRY_MS + 1)
    assert 2 in controller.indexes()
    assert 0 not in controller.indexes()
    wired.change(isr=(1, 2, 3), index=0)
    assert partitions[0].isr == (1, 2, 3)
    # It is tried again with the next fetch.
    controller.answer()
    wired.advance(600)
    assert controller.indexes() == [1]


def test_a_reason_that_only_a_newer_controller_knows_is_none_to_give_up(wired: Wired) -> None:
    controller = Controller(wired)
    wired.fence(3, -1)
    wired.advance(600)
    controller.answer(codes={0: 999})
    wired.advance(RETRY_MS + 1)
    assert 0 in controller.indexes()


def test_the_metadata_is_faster(wired: Wired) -> None:
    controller = Controller(wired)
    wired.fence(3, -1)
    wired.advance(600)
    wired.change(leader=1, isr=(1, 2), index=0)
    wired.advance(5)
    controller.answer()
    assert wired.partition(1).isr == (1, 2)
    assert wired.partition(1).partition_epoch == 2


def test_a_leader_no_more_asks_for_nothing(wired: Wired) -> None:
    controller = Controller(wired)
    wired.fence(3, -1)
    wired.advance(600)
    for index in range(3):
        wired.change(leader=2, index=index)
    controller.answer(code=ErrorCode.NOT_CONTROLLER)
    wired.advance(200)
    assert controller.asked == []
    assert len(wired[1].broker.alter_isr) == 0
