"""Requests find their leaders: through moves, deaths and lagging brokers, until a deadline."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.client.memory import HANG_UP, SILENT, MemoryBroker, MemoryCluster, MemoryShell

from tidelog.client import BrokerError, TimedOut, TopicPartition
from tidelog.client.cluster import Cluster
from tidelog.client.errors import DoesNotFit
from tidelog.client.offsets import EARLIEST, ListedOffset, delete_records, list_offsets
from tidelog.client.routing import Attempts, ask_any, refresh
from tidelog.client.steps import Steps
from tidelog.errors import ErrorCode
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tidelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

ORDERS = [TopicPartition("orders", index) for index in range(3)]


@pytest.fixture
def memory() -> MemoryCluster:
    """Brokers that answer ListOffsets only for what they lead: the offset is their id."""
    cluster = MemoryCluster(brokers=2)
    cluster.leaders["orders"] = {0: (1, 5), 1: (2, 5), 2: (2, 5)}

    def answer(broker: MemoryBroker, request: Any) -> ListOffsetsResponse:
        topics = []
        for topic in request.topics:
            partitions = []
            for p in topic.partitions:
                leader, epoch = cluster.leaders[topic.name][p.partition_index]
                code = ErrorCode.NONE
                if leader != broker.address.port:
                    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                elif p.current_leader_epoch < epoch:
                    code = ErrorCode.FENCED_LEADER_EPOCH
                partitions.append(
                    ListOffsetsPartitionResponse(
                        partition_index=p.partition_index,
                        error_code=code,
                        offset=broker.address.port,
                        leader_epoch=epoch,
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions)))
        return ListOffsetsResponse(topics=tuple(topics))

    cluster.handle(ApiKey.LIST_OFFSETS, answer)
    return cluster


def asked(memory: MemoryCluster, node_id: int, key: int = ApiKey.LIST_OFFSETS) -> int:
    return len(memory.brokers[node_id].asked(key))


def earliest(*partitions: TopicPartition) -> dict[TopicPartition, int]:
    return dict.fromkeys(partitions, EARLIEST)


def test_each_leader_is_asked_once_for_all_that_it_leads(memory):
    found = MemoryShell(memory).run(list_offsets, earliest(*ORDERS))
    assert found == {
        ORDERS[0]: ListedOffset(1, -1, 5),
        ORDERS[1]: ListedOffset(2, -1, 5),
        ORDERS[2]: ListedOffset(2, -1, 5),
    }
    assert list(found) == ORDERS
    assert (asked(memory, 1), asked(memory, 2)) == (1, 1)


def test_metadata_is_asked_once_and_again_when_it_is_old(memory):
    shell = MemoryShell(memory, metadata_max_age_ms=1000)
    for _ in range(3):
        shell.run(list_offsets, earliest(ORDERS[0]))
    assert asked(memory, 1, ApiKey.METADATA) == 1
    shell.time_ms += 1000
    shell.run(list_offsets, earliest(ORDERS[0]))
    assert asked(memory, 1, ApiKey.METADATA) == 2


def test_a_leader_that_moved_is_found_and_the_others_are_not_asked_again(memory):
    shell = MemoryShell(memory)
    shell.run(list_offsets, earliest(*ORDERS))
    memory.leaders["orders"][0] = (2, 6)
    found = shell.run(list_offsets, earliest(*ORDERS))
    assert found[ORDERS[0]] == ListedOffset(2, -1, 6)
    assert (asked(memory, 1), asked(memory, 2)) == (2, 3)
    repeated = memory.brokers[2].asked(ApiKey.LIST_OFFSETS)[-1]
    assert [p.partition_index for t in repeated.topics for p in t.partitions] == [0]
    assert shell.pauses == [100]


def test_a_dead_leader_is_waited_for(memory):
    shell = MemoryShell(memory)
    shell.run(list_offsets, earliest(ORDERS[0]))
    memory.alive.discard(1)
    memory.leaders["orders"][0] = (-1, 6)

    def elect(request: Any) -> Any:
        if shell.time_ms > 2000:
            memory.leaders["orders"][0] = (2, 7)
        return memory.metadata(request)

    memory.brokers[2].handlers[ApiKey.METADATA] = elect
    assert shell.run(list_offsets, earliest(ORDERS[0]))[ORDERS[0]].offset == 2
    assert shell.pauses[:5] == [100, 200, 400, 800, 1000]


def test_what_no_broker_can_be_asked_is_not_tried_again_for_one_that_is_down(memory):
    memory.alive.discard(1)
    shell = MemoryShell(memory)
    request = UnregisterBrokerRequest(broker_id=2**31)

    def unregister(cluster: Cluster) -> Steps[UnregisterBrokerResponse]:
        return ask_any(cluster, request, UnregisterBrokerResponse, Attempts(cluster, None))

    with pytest.raises(DoesNotFit):
        shell.run(unregister)
    assert shell.pauses == []


def test_the_deadline_ends_the_attempts_and_tells_the_last_error(memory):
    memory.leaders["orders"][0] = (-1, 6)
    shell = MemoryShell(memory)
    with pytest.raises(TimedOut, match=r"gave up after 4.* s: partition orders-0: .* no leader"):
        shell.run(list_offsets, earliest(ORDERS[0]), timeout_ms=5000)
    assert 3900 < shell.time_ms < 5000


def test_a_lagging_broker_does_not_bring_a_deposed_leader_back(memory):
    shell = MemoryShell(memory)
    shell.run(list_offsets, earliest(ORDERS[0]))
    memory.leaders["orders"][0] = (2, 4)
    shell.cluster.forget(["orders"])
    shell.run(refresh, ["orders"], Attempts(shell.cluster))
    leader = shell.cluster.leader_of(ORDERS[0])
    assert (leader.node_id, leader.leader_epoch) == (1, 5)


def test_a_stale_epoch_is_refreshed(memory):
    shell = MemoryShell(memory)
    shell.run(list_offsets, earliest(ORDERS[0]))
    memory.leaders["orders"][0] = (1, 6)
    assert shell.run(list_offsets, earliest(ORDERS[0]))[ORDERS[0]].leader_epoch == 6


def test_an_unknown_topic_is_unknown_after_a_short_while(memory):
    shell = MemoryShell(memory)
    with pytest.raises(BrokerError, match="topic nope: there is no such topic") as caught:
        shell.run(list_offsets, earliest(TopicPartition("nope", 0)))
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert 2500 < shell.time_ms < 5000
    assert not any(r.allow_auto_topic_creation for r in memory.brokers[1].asked(ApiKey.METADATA))


def test_an_unknown_partition_is_said_at_once(memory):
    shell = MemoryShell(memory)
    with pytest.raises(BrokerError, match=r"partition orders-9: .*the topic has 3"):
        shell.run(list_offsets, earliest(TopicPartition("orders", 9)))
    assert shell.pauses == []


def test_an_error_that_does_not_pass_is_raised_even_if_others_would(memory):
    def answer(request: Any) -> DeleteRecordsResponse:
        codes = {1: ErrorCode.NOT_LEADER_OR_FOLLOWER, 2: ErrorCode.OFFSET_OUT_OF_RANGE}
        return DeleteRecordsResponse(
            topics=tuple(
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=tuple(
                        DeleteRecordsPartitionResult(
                            partition_index=p.partition_index,
                            low_watermark=-1,
                            error_code=codes[p.partition_index],
                        )
                        for p in topic.partitions
                    ),
                )
                for topic in request.topics
            )
        )

    memory.handle(ApiKey.DELETE_RECORDS, lambda _, request: answer(request))
    shell = MemoryShell(memory)
    with pytest.raises(BrokerError, match="partition orders-2: the offset lies outside"):
        shell.run(delete_records, {ORDERS[1]: 1, ORDERS[2]: 1})
    assert shell.pauses == []


def test_the_next_bootstrap_server_is_asked_when_the_first_is_gone(memory):
    memory.alive.discard(1)
    memory.leaders["orders"] = {0: (2, 1)}
    assert MemoryShell(memory).run(list_offsets, earliest(ORDERS[0]))[ORDERS[0]].offset == 2


def test_without_any_broker_bootstrapping_ends_early(memory):
    memory.alive.clear()
    shell = MemoryShell(memory, bootstrap_timeout_ms=2000)
    with pytest.raises(TimedOut, match="broker:1: connection refused"):
        shell.run(list_offsets, earliest(ORDERS[0]))
    assert shell.time_ms < 2100


def test_a_broker_that_serves_no_cluster_yet_is_waited_for(memory):
    shell = MemoryShell(memory)

    def join(request: Any) -> Any:
        memory.alive = {1, 2} if shell.time_ms > 500 else set()
        answer = memory.metadata(request)
        memory.alive = {1, 2}
        return answer

    for broker in memory.brokers.values():
        broker.handlers[ApiKey.METADATA] = join
    assert shell.run(list_offsets, earliest(ORDERS[0]))[ORDERS[0]].offset == 1


@pytest.mark.parametrize("failure", [SILENT, HANG_UP])
def test_a_request_without_an_answer_is_sent_again(memory, failure):
    answers = [failure]
    broker = memory.brokers[1]
    usual = broker.handlers[ApiKey.LIST_OFFSETS]
    broker.handlers[ApiKey.LIST_OFFSETS] = lambda request: (
        answers.pop() if answers else usual(request)
    )
    shell = MemoryShell(memory, request_timeout_ms=1000)
    assert shell.run(list_offsets, earliest(ORDERS[0]))[ORDERS[0]].offset == 1
    assert asked(memory, 1) == 2


def test_a_broker_that_leaves_a_partition_out_of_its_answer_is_an_error(memory):
    memory.handle(ApiKey.LIST_OFFSETS, lambda *_: ListOffsetsResponse(topics=()))
    with pytest.raises(BrokerError, match="no answer about orders-0"):
        MemoryShell(memory).run(list_offsets, earliest(ORDERS[0]))
