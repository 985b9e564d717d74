"""The connection's protocol: versions first, answers in order, and what ends it."""

from __future__ import annotations

import struct

import pytest
from tests.unit.client.memory import ALL_VERSIONS, MemoryBroker, exchange, feed

from tidelog.client.connection import IN_FLIGHT_MAX, BrokerConnection
from tidelog.client.errors import (
    Address,
    ConnectionFailed,
    DoesNotFit,
    TooManyRequests,
    UnsupportedByBroker,
)
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tidelog.wire.messages.init_producer_id import InitProducerIdRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.messages.unregister_broker import UnregisterBrokerRequest

ADDRESS = Address("broker", 9092)


def broker(**changes: tuple[int, int]) -> MemoryBroker:
    served = dict(ALL_VERSIONS)
    for name, versions in changes.items():
        served[ApiKey[name]] = versions
    found = MemoryBroker(ADDRESS, served)
    found.handlers[ApiKey.METADATA] = lambda _: MetadataResponse(brokers=(), topics=())
    return found


def ready(peer: MemoryBroker) -> BrokerConnection:
    connection = BrokerConnection(ADDRESS, "test")
    while not connection.is_ready:
        exchange(connection, peer, expects_answer=False)
    return connection


def test_the_first_request_asks_for_the_versions_in_the_newest_we_know():
    peer = broker()
    connection = BrokerConnection(ADDRESS, "me")
    assert not connection.is_ready
    exchange(connection, peer, expects_answer=False)
    assert connection.is_ready
    (request,) = peer.requests
    assert (request.key, request.version, request.client_id) == (18, 4, "me")
    assert request.message.client_software_name == "tidelog"
    assert connection.broker_versions == peer.served


@pytest.mark.parametrize("last", [0, 2, 3])
def test_an_older_broker_is_asked_again_in_its_own_version(last):
    peer = broker(API_VERSIONS=(0, last))
    connection = BrokerConnection(ADDRESS, "test")
    exchange(connection, peer, expects_answer=False)
    assert not connection.is_ready
    exchange(connection, peer, expects_answer=False)
    assert connection.is_ready
    assert [request.version for request in peer.requests] == [last]


def test_a_broker_that_refuses_twice_is_given_up():
    peer = broker(API_VERSIONS=(9, 9))
    connection = BrokerConnection(ADDRESS, "test")
    exchange(connection, peer, expects_answer=False)
    with pytest.raises(ConnectionFailed, match="refused to tell its versions"):
        exchange(connection, peer, expects_answer=False)


@pytest.mark.parametrize(
    ("theirs", "limit", "chosen"), [((0, 99), None, 13), ((0, 9), None, 9), ((0, 99), 7, 7)]
)
def test_the_highest_common_version_is_spoken(theirs, limit, chosen):
    assert APIS[ApiKey.METADATA].versions == (0, 13)
    peer = broker(METADATA=theirs)
    peer.served[ApiKey.METADATA] = theirs
    connection = ready(peer)
    connection.send(MetadataRequest(topics=None), version_max=limit)
    assert isinstance(exchange(connection, peer), MetadataResponse)
    assert peer.requests[-1].version == chosen


def test_a_version_that_is_not_stable_is_not_spoken():
    assert APIS[ApiKey.INIT_PRODUCER_ID].versions[1] == 6
    assert ready(broker()).version_of(ApiKey.INIT_PRODUCER_ID) == 5


@pytest.mark.parametrize("theirs", [(14, 20), None])
def test_without_a_common_version_it_says_which_would_do(theirs):
    peer = broker()
    peer.served.pop(ApiKey.METADATA)
    if theirs is not None:
        peer.served[ApiKey.METADATA] = theirs
    connection = ready(peer)
    said = "versions 14 to 20" if theirs else "no version"
    with pytest.raises(UnsupportedByBroker, match=f"has {said} of Metadata, 0 to 13 needed"):
        connection.send(MetadataRequest(topics=None))


def test_what_a_version_cannot_say_is_an_error_and_leaves_the_connection_usable():
    peer = broker(DELETE_TOPICS=(1, 5))
    connection = ready(peer)
    topic = DeleteTopicState(name="orders", topic_id=bytes(16))
    with pytest.raises(UnsupportedByBroker, match="DeleteTopics version 5 has no"):
        connection.send(DeleteTopicsRequest(topics=(topic,), timeout_ms=1))
    assert connection.take_outgoing() == []
    connection.send(MetadataRequest(topics=None))
    assert isinstance(exchange(connection, peer), MetadataResponse)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (UnregisterBrokerRequest(broker_id=2**31), "2147483648 does not fit broker_id"),
        (UnregisterBrokerRequest(broker_id=-(2**31) - 1), "-2147483649 does not fit broker_id"),
        (
            InitProducerIdRequest(
                transactional_id=None,
                transaction_timeout_ms=1,
                producer_id=2**63,
                producer_epoch=2**15,
            ),
            "9223372036854775808 does not fit producer_id, which has 64 bits",
        ),
        *(
            (
                # Few partitions are packed at once, many by another way.
                ElectLeadersRequest(
                    election_type=0,
                    topic_partitions=(
                        TopicPartitions(topic="t", partitions=(*range(count), 2**31)),
                    ),
                    timeout_ms=1,
                ),
                "2147483648 does not fit partitions, which has 32 bits",
            )
            for count in (0, 1000)
        ),
    ],
)
def test_a_number_too_large_is_an_error_and_leaves_the_connection_usable(request_, said):
    peer = broker()
    connection = ready(peer)
    with pytest.raises(DoesNotFit, match=said):
        connection.send(request_)
    assert connection.take_outgoing() == []
    connection.send(MetadataRequest(topics=None))
    assert isinstance(exchange(connection, peer), MetadataResponse)


def test_what_is_no_number_is_the_programs_mistake():
    with pytest.raises(struct.error):
        ready(broker()).send(UnregisterBrokerRequest(broker_id="1"))


def test_answers_are_matched_in_order():
    peer = broker()
    connection = ready(peer)
    ids = [connection.send(MetadataRequest(topics=None)) for _ in range(3)]
    assert connection.in_flight == 3
    answers = []
    for data in peer.answer(b"".join(map(bytes, connection.take_outgoing()))):
        answers += feed(connection, data, 3)
    assert [answer.correlation_id for answer in answers] == ids
    assert connection.in_flight == 0


def test_an_answer_to_another_request_ends_the_connection():
    peer = broker()
    connection = ready(peer)
    connection.send(MetadataRequest(topics=None))
    (data,) = peer.answer(b"".join(map(bytes, connection.take_outgoing())))
    wrong = data[:4] + struct.pack(">i", 99) + data[8:]
    with pytest.raises(ConnectionFailed, match="an answer to request 99, not 1"):
        feed(connection, wrong)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Kafka: an answer of 1213486160"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "does not speak Kafka: an answer of 352518912"),
        (struct.pack(">ii", 4, 0), "does not speak Kafka"),
        (struct.pack(">i", 0), "does not speak Kafka"),
    ],
)
def test_a_peer_of_another_protocol_is_found_out(data, said):
    with pytest.raises(ConnectionFailed, match=said):
        feed(BrokerConnection(ADDRESS, "test"), data)


def test_an_answer_to_no_request_ends_the_connection():
    connection = ready(broker())
    with pytest.raises(ConnectionFailed, match="an answer to no request"):
        feed(connection, struct.pack(">ii", 4, 0))


def test_a_closed_stream_says_what_it_means():
    assert "without TLS" in str(BrokerConnection(ADDRESS, "test").closed_by_peer())
    assert "closed the connection" in str(ready(broker()).closed_by_peer())


def test_a_request_without_an_answer_does_not_wait_for_one():
    connection = ready(broker())
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=())
    connection.send(request, expects_answer=False)
    assert connection.take_outgoing()
    assert connection.in_flight == 0


def test_requests_in_flight_are_bounded():
    connection = ready(broker())
    for _ in range(IN_FLIGHT_MAX):
        connection.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1))
    with pytest.raises(TooManyRequests, match="64 requests have no answer yet"):
        connection.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1))
