"""What leaders may ask of the controller, whom they count meanwhile, and who may join."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.metadata.lives import broker, change, features, partition, uuid
from tests.unit.replica.replicas import TOPIC_ID, Replicas

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.topics import TopicRecord
from tidelog.replica.isr_change import isr_change_refused
from tidelog.runtime.answers import Answer
from tidelog.sim.counters import Counters
from tidelog.sim.history import Place
from tidelog.sim.isr_changes import IsrChangeInvariants, Overheard
from tidelog.sim.violation import Violation
from tidelog.types import Uuid
from tidelog.wire.api import ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
    PartitionData,
    TopicData,
)
from tidelog.wire.request import Request, encode_request, encode_response

VERSION = 3


def asking(
    *members: int,
    topic_id: Uuid = TOPIC_ID,
    leader_epoch: int = 0,
    partition_epoch: int = 1,
    epochs: int = 0,
) -> AlterPartitionRequest:
    """For an ISR of brokers whose epochs are ten times their ids, and some more."""
    isr = tuple(BrokerState(broker_id=id_, broker_epoch=id_ * 10 + epochs) for id_ in members)
    one = PartitionData(
        partition_index=0,
        leader_epoch=leader_epoch,
        new_isr_with_epochs=isr,
        partition_epoch=partition_epoch,
    )
    topic = TopicData(topic_id=topic_id, partitions=(one,))
    return AlterPartitionRequest(broker_id=1, broker_epoch=10, topics=(topic,))


def telling(error: ErrorCode, *isr: int) -> AlterPartitionResponse:
    one = AlterPartitionResponsePartitionData(
        partition_index=0,
        error_code=error,
        leader_id=1,
        leader_epoch=0,
        isr=isr,
        partition_epoch=2,
    )
    topic = AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=(one,))
    return AlterPartitionResponse(error_code=ErrorCode.NONE, topics=(topic,))


class Watched:
    """Machine node1 leads a partition with the ISR 1, and asks another one for more."""

    def __init__(self) -> None:
        self.invariants = IsrChangeInvariants(Counters())
        self.replicas = Replicas()
        self.replicas.change((1,))
        self.open: set[int] = {-1, -2}
        self._count = 0

    def ask(self, *members: int, connection: int = -1, partition_epoch: int = 1) -> None:
        self._count += 1
        message = asking(*members, partition_epoch=partition_epoch)
        frame = b"".join(encode_request(message, VERSION, self._count, "1"))
        self.invariants.sent("node1", connection, frame, self.open.__contains__)

    def answer(self, error: ErrorCode, *isr: int, connection: int = -1) -> None:
        request = Request(int(ApiKey.ALTER_PARTITION), VERSION, self._count, "1", asking(1))
        frame = b"".join(encode_response(request, telling(error, *isr)))
        self.invariants.answered("node1", connection, memoryview(frame)[4:])

    def propose(self, *members: int) -> None:
        self.replicas.leader.propose(members)
        self.ask(*members)
        self.look()

    def look(self) -> None:
        self.invariants.stepped("node1", {(TOPIC_ID, 0): self.replicas.leader})


@pytest.fixture
def watched() -> Watched:
    return Watched()


# One at a time.


def test_nothing_may_be_asked_before_the_answer(watched: Watched) -> None:
    watched.ask(1, 2)
    with pytest.raises(Violation, match="one AlterPartition at a time"):
        watched.ask(1, 2, connection=-2)


def test_after_the_answer_it_may(watched: Watched) -> None:
    watched.ask(1, 2)
    watched.answer(ErrorCode.NOT_CONTROLLER)
    watched.ask(1, 2, connection=-2)


def test_another_connections_answer_is_none(watched: Watched) -> None:
    watched.ask(1, 2)
    watched.answer(ErrorCode.NONE, 1, 2, connection=-2)
    with pytest.raises(Violation, match="one AlterPartition at a time"):
        watched.ask(1, 2)


def test_after_the_connection_broke_it_may(watched: Watched) -> None:
    watched.ask(1, 2)
    watched.invariants.disconnected("node1", -2)
    watched.invariants.disconnected("node1", -1)
    watched.ask(1, 2, connection=-2)


def test_who_hangs_up_may_ask_elsewhere_at_once(watched: Watched) -> None:
    watched.ask(1, 2)
    watched.open.remove(-1)
    watched.ask(1, 2, connection=-2)


def test_another_process_may_ask(watched: Watched) -> None:
    watched.ask(1, 2)
    watched.invariants.ended("node1")
    watched.ask(1, 3)


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_UPDATE_VERSION])
def test_no_other_change_may_be_asked_for_while_one_may_be_made(
    watched: Watched, error: ErrorCode
) -> None:
    watched.ask(1, 2)
    watched.answer(error)
    with pytest.raises(Violation, match="one change of an ISR at a time"):
        watched.ask(1, 3)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.INELIGIBLE_REPLICA])
def test_it_may_when_that_is_known(watched: Watched, error: ErrorCode) -> None:
    watched.ask(1, 2)
    watched.answer(error, 1, 2)
    watched.ask(1, 3)


def test_it_may_after_another_state(watched: Watched) -> None:
    watched.ask(1, 2)
    watched.answer(ErrorCode.INVALID_UPDATE_VERSION)
    watched.ask(1, 3, partition_epoch=2)


# Who counts.


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_UPDATE_VERSION])
def test_a_leader_may_not_go_back_while_nobody_knows(watched: Watched, error: ErrorCode) -> None:
    watched.propose(1, 2)
    watched.answer(error)
    watched.look()
    isr_change_refused(watched.replicas.leader, ErrorCode.INELIGIBLE_REPLICA)
    with pytest.raises(Violation, match=r"counts whom it has asked for.*but counts \(1,\)"):
        watched.look()


def test_nor_when_the_connection_broke(watched: Watched) -> None:
    watched.propose(1, 2)
    watched.invariants.disconnected("node1", -1)
    isr_change_refused(watched.replicas.leader, ErrorCode.INELIGIBLE_REPLICA)
    with pytest.raises(Violation, match="counts whom it has asked for"):
        watched.look()


def test_it_may_if_it_was_refused(watched: Watched) -> None:
    watched.propose(1, 2)
    watched.answer(ErrorCode.INELIGIBLE_REPLICA)
    isr_change_refused(watched.replicas.leader, ErrorCode.INELIGIBLE_REPLICA)
    watched.look()


def test_it_may_by_what_the_metadata_tells(watched: Watched) -> None:
    watched.propose(1, 2)
    watched.replicas.change((1,))
    watched.look()


def test_who_no_longer_leads_counts_nobody(watched: Watched) -> None:
    watched.propose(1, 2)
    leader = watched.replicas.leader
    watched.replicas.elect(2, isr=(2, 3))
    watched.invariants.stepped("node1", {(TOPIC_ID, 0): leader})


# The controller of the same node.


class Controller:
    """Answers when it is told to."""

    is_active = True

    def __init__(self) -> None:
        self.then: list[Callable[[Message, Now], None]] = []

    def handle(self, request: Request, now: Now, forwarder: int) -> Answer:
        raise AssertionError

    def ask(self, message: Message, then: Callable[[Message, Now], None], now: Now) -> None:
        self.then.append(then)


def test_what_is_asked_on_the_same_node_counts(watched: Watched) -> None:
    controller, now = Controller(), watched.replicas.now
    overheard = Overheard(controller, "node1", watched.invariants)
    answers: list[Message] = []
    overheard.ask(asking(1, 2), lambda answer, now: answers.append(answer), now)
    with pytest.raises(Violation, match="one AlterPartition at a time"):
        watched.ask(1, 2)
    controller.then.pop()(telling(ErrorCode.INELIGIBLE_REPLICA), now)
    assert len(answers) == 1
    watched.ask(1, 3)


# Who joins.


def joined(*, epochs: int, asked: tuple[int, ...] = (1, 2, 3)) -> None:
    """Brokers 1 and 2 were in the ISR, the leader asks for more, and three are."""
    invariants = IsrChangeInvariants(Counters())
    message = asking(*asked, topic_id=uuid(1), partition_epoch=0, epochs=epochs)
    frame = b"".join(encode_request(message, VERSION, 1, "1"))
    invariants.sent("node1", -1, frame, lambda connection: True)
    topic = TopicRecord(name="t", topic_id=uuid(1))
    records = *features(), broker(1), broker(2), broker(3), topic
    image = replay_all(MetadataImage.empty(), records, 0, 1)
    image = replay_all(image, [partition(1, 0, (1, 2, 3), isr=(1, 2))], 10, 1)
    image = replay_all(image, [change(1, 0, isr=(1, 2, 3))], 11, 1)
    state = image.partition_by_id(uuid(1), 0)
    assert state is not None
    invariants.decided(Place(uuid(1), 0), state, image)


def test_who_joins_is_the_process_that_the_leader_knows() -> None:
    joined(epochs=0)


def test_another_process_may_not_join() -> None:
    with pytest.raises(Violation, match=r"the process that caught up.*broker 1 has epoch 10"):
        joined(epochs=-1)


def test_who_is_in_the_isr_for_another_reason_is_no_matter() -> None:
    joined(epochs=-1, asked=(1, 2))
