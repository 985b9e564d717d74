"""Which answers to fetches are a violation, and which fetches may wait."""

from __future__ import annotations

import pytest
from tests.unit.node_client import Cluster
from tests.unit.replica.replicas import TOPIC_ID, Replicas

from tidelog.broker.fetch_session import FetchSession
from tidelog.broker.handlers.fetch import DelayedFetch
from tidelog.broker.reading import Reading
from tidelog.errors import ErrorCode
from tidelog.events import Received
from tidelog.replica.partition import Partition
from tidelog.sim.counters import Counters
from tidelog.sim.fetches import FetchInvariants
from tidelog.sim.violation import Violation
from tidelog.types import Uuid
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from tidelog.wire.request import Request, encode_response

VERSION = 17
CONNECTION = 4


def asked(offset: int, epoch: int) -> FetchRequest:
    one = FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=offset, partition_max_bytes=1000
    )
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, topics=(FetchTopic(topic_id=TOPIC_ID, partitions=(one,)),)
    )


class Fetches:
    """Of the only partition of machine node1, which leads it in epoch 1."""

    def __init__(self) -> None:
        self.invariants = FetchInvariants(Counters())
        self.replicas = Replicas()
        self.replicas.elect(1, isr=(1, 2, 3))
        self._request = Request(int(ApiKey.FETCH), VERSION, 7, "reader", asked(0, 0))

    @property
    def hosted(self) -> dict[tuple[Uuid, int], Partition]:
        return {(TOPIC_ID, 0): self.replicas.leader}

    def ask(self, epoch: int, broker_epoch: int = -1) -> None:
        """As a consumer, or as broker 2."""
        message = asked(0, epoch)
        if broker_epoch >= 0:
            replica = ReplicaState(replica_id=2, replica_epoch=broker_epoch)
            message = message.replace(replica_state=replica)
        self._request = self._request._replace(message=message)
        event = Received(CONNECTION, self._request, "PLAINTEXT")
        self.invariants.received("node1", self.hosted, self.replicas.brokers, event)

    def answer(self, error: ErrorCode = ErrorCode.NONE) -> None:
        told = PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=0,
            aborted_transactions=None,
            records=b"",
        )
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=(told,))
        parts = encode_response(self._request, FetchResponse(responses=(topic,)))
        self.invariants.sent("node1", self.hosted, CONNECTION, b"".join(parts))


@pytest.fixture
def fetches() -> Fetches:
    return Fetches()


@pytest.mark.parametrize("epoch", [0, 2])
def test_who_asks_by_another_epoch_may_not_be_served(fetches: Fetches, epoch: int) -> None:
    fetches.ask(epoch)
    with pytest.raises(Violation, match=r"another epoch is refused.* of epoch 1 is read by epoch"):
        fetches.answer()


@pytest.mark.parametrize("epoch", [-1, 1])
def test_who_asks_by_this_epoch_or_none_may(fetches: Fetches, epoch: int) -> None:
    fetches.ask(epoch)
    fetches.answer()


def test_who_is_refused_is_not_served(fetches: Fetches) -> None:
    fetches.ask(0)
    fetches.answer(ErrorCode.FENCED_LEADER_EPOCH)


def test_who_knew_more_may_be_right_when_it_is_answered(fetches: Fetches) -> None:
    fetches.ask(2)
    fetches.replicas.elect(1, isr=(1, 2, 3))
    fetches.answer()


def test_who_was_right_may_be_answered_later(fetches: Fetches) -> None:
    fetches.ask(1)
    fetches.replicas.elect(1, isr=(1, 2, 3))
    fetches.answer()


def test_what_a_process_was_asked_ends_with_it(fetches: Fetches) -> None:
    fetches.ask(0)
    fetches.invariants.ended("node1")
    fetches.answer()


def test_a_process_that_is_gone_may_not_be_served(fetches: Fetches) -> None:
    fetches.ask(1, broker_epoch=19)
    with pytest.raises(Violation, match=r"process that is gone is refused.*t-0 is read by"):
        fetches.answer()


@pytest.mark.parametrize("offset", [0, 1])
def test_nor_believed(fetches: Fetches, offset: int) -> None:
    """Not even that it is there."""
    fetches.replicas.append()
    fetches.replicas.fetch(2)
    fetches.ask(1, broker_epoch=19)
    fetches.invariants.stepped("node1")
    fetches.ask(1, broker_epoch=19)
    fetches.replicas.advance(1)
    fetches.replicas.fetch(2, offset=offset)
    with pytest.raises(Violation, match="process that is gone is refused"):
        fetches.invariants.stepped("node1")
    fetches.invariants.stepped("node1")


def test_a_process_that_is_gone_is_refused(fetches: Fetches) -> None:
    fetches.ask(1, broker_epoch=19)
    fetches.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize("broker_epoch", [20, 21])
def test_the_process_that_is_known_or_the_next_may(fetches: Fetches, broker_epoch: int) -> None:
    fetches.ask(1, broker_epoch=broker_epoch)
    fetches.answer()


def test_who_was_known_when_it_asked_may_be_answered_later(fetches: Fetches) -> None:
    fetches.ask(1, broker_epoch=20)
    fetches.replicas.brokers.epochs[2] = 99
    fetches.answer()


class Poll:
    """A long poll of broker 2 for what follows an offset."""

    def __init__(self, replicas: Replicas, offset: int) -> None:
        self.partition = replicas.leader
        replica = ReplicaState(replica_id=2, replica_epoch=20)
        self.session = FetchSession(1, uses_topic_ids=True, replica=replica, now_ms=0)
        request = asked(offset, replicas.leader_epoch)
        self.session.update(request)
        for fetched in self.session.partitions.values():
            fetched.watch(self.partition)
        self.delayed = DelayedFetch(
            Reading(Cluster().broker, self.session, request, VERSION), deadline_ms=500
        )
        assert self.session.waiting is self.delayed

    def check(self) -> None:
        FetchInvariants(Counters()).check_told("node1", [self.partition])


def test_a_follower_may_not_wait_for_what_is_there(fetches: Fetches) -> None:
    poll = Poll(fetches.replicas, 0)
    poll.check()
    fetches.replicas.append()
    with pytest.raises(Violation, match=r"replica 2 waits for .* at 0, which ends at 1"):
        poll.check()


def test_it_may_for_what_follows(fetches: Fetches) -> None:
    fetches.replicas.append()
    Poll(fetches.replicas, 1).check()


def test_who_was_answered_does_not_wait(fetches: Fetches) -> None:
    poll = Poll(fetches.replicas, 0)
    fetches.replicas.append()
    poll.delayed.forget()
    poll.check()


def test_who_no_longer_leads_need_not_tell(fetches: Fetches) -> None:
    poll = Poll(fetches.replicas, 0)
    fetches.replicas.append()
    fetches.replicas.elect(2, isr=(1, 2, 3))
    poll.check()
