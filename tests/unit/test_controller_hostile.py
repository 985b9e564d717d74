"""Strangers and old nodes at a controller's listener: each is answered or cut off, and the
controller goes on."""

from __future__ import annotations

import logging
import random
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import examples
from tests.unit.node_client import Cluster, create_topic_request, parse_response, request_frame

from tidelog.controller import topic_changes, topics
from tidelog.errors import ErrorCode
from tidelog.quorum_controller.handlers import envelope as envelopes
from tidelog.quorum_controller.handlers.quorum import ENDPOINTS_SINCE
from tidelog.quorum_controller.router import CONTROLLER_SERVED
from tidelog.types import METADATA_TOPIC_ID, ZERO_UUID, Uuid
from tidelog.wire.api import APIS, ApiKey, request_class
from tidelog.wire.codec import encode
from tidelog.wire.declare import Message, Struct
from tidelog.wire.encoder import EncodeError
from tidelog.wire.headers import RequestHeader
from tidelog.wire.messages import (
    broker_registration,
    describe_quorum,
    elect_leaders,
    fetch,
    fetch_snapshot,
    vote,
)
from tidelog.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from tidelog.wire.messages.begin_quorum_epoch import PartitionData as Greeted
from tidelog.wire.messages.begin_quorum_epoch import TopicData as GreetedTopic
from tidelog.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from tidelog.wire.messages.end_quorum_epoch import PartitionData as Left
from tidelog.wire.messages.end_quorum_epoch import TopicData as LeftTopic
from tidelog.wire.messages.envelope import EnvelopeRequest
from tidelog.wire.schema import Array, Blob, Field, Fixed, Nested, Text, fields_of

METADATA = "__cluster_metadata"
PRINCIPAL, LOOPBACK = b"\0\0\5User\0", b"\x7f\0\0\1"


def at(cluster: Cluster) -> int:
    """A connection to its controller."""
    return cluster.shell.connect("CONTROLLER")


def enveloped(message: Message, version: int | None = None) -> EnvelopeRequest:
    inner = request_frame(message, version, 7)[4:]
    return EnvelopeRequest(
        request_data=inner, request_principal=PRINCIPAL, client_host_address=LOOPBACK
    )


def opened(answer: Any, key: int) -> Any:
    return parse_response(key, None, bytes(answer.response_data))[1]


@pytest.fixture
def no_errors_of_ours(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What a handler raises is ours to mend: the node logs it, the test fails."""
    yield
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []


# Old nodes.


def fetched(epoch: int, offset: int, max_wait_ms: int) -> fetch.FetchRequest:
    asked = fetch.FetchPartition(
        partition=0,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=epoch if offset else 0,
        partition_max_bytes=0,
    )
    topic = fetch.FetchTopic(topic=METADATA, topic_id=METADATA_TOPIC_ID, partitions=(asked,))
    return fetch.FetchRequest(
        replica_id=-1, max_wait_ms=max_wait_ms, min_bytes=0, topics=(topic,), session_epoch=-1
    )


def asked_of_the_quorum(epoch: int) -> list[Message]:
    """What a node asks that believes in an epoch before this one."""
    told = vote.PartitionData(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=2,
        last_offset_epoch=0,
        last_offset=0,
    )
    greeted = Greeted(partition_index=0, leader_id=2, leader_epoch=epoch)
    left = Left(partition_index=0, leader_id=2, leader_epoch=epoch)
    piece = fetch_snapshot.PartitionSnapshot(
        partition=0,
        current_leader_epoch=epoch,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=5, epoch=1),
        position=0,
    )
    return [
        vote.VoteRequest(
            cluster_id=None, topics=(vote.TopicData(topic_name=METADATA, partitions=(told,)),)
        ),
        BeginQuorumEpochRequest(
            cluster_id=None, topics=(GreetedTopic(topic_name=METADATA, partitions=(greeted,)),)
        ),
        EndQuorumEpochRequest(
            cluster_id=None, topics=(LeftTopic(topic_name=METADATA, partitions=(left,)),)
        ),
        fetched(epoch, 0, 0),
        fetch_snapshot.FetchSnapshotRequest(
            topics=(fetch_snapshot.TopicSnapshot(name=METADATA, partitions=(piece,)),)
        ),
    ]


VERSIONS = [
    (key, version)
    for key in ENDPOINTS_SINCE
    for version in range(
        max(CONTROLLER_SERVED[key][0], 13 if key == ApiKey.FETCH else 0),
        CONTROLLER_SERVED[key][1] + 1,
    )
]


@pytest.mark.usefixtures("no_errors_of_ours")
@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_each_version_tells_the_epoch_and_a_late_one_the_address(key: int, version: int) -> None:
    cluster = Cluster()
    cluster.restart()
    (request,) = (one for one in asked_of_the_quorum(1) if key == one.API_KEY)
    answer = cluster.ask(request, version, connection=at(cluster))
    topic = (answer.responses if key == ApiKey.FETCH else answer.topics)[0]
    told = topic.partitions[0]
    assert told.error_code == ErrorCode.FENCED_LEADER_EPOCH
    leader = getattr(told, "current_leader", told)
    assert (leader.leader_id, leader.leader_epoch) == (1, 2)
    addresses = [(one.node_id, one.port) for one in answer.node_endpoints]
    assert addresses == ([(1, 9093)] if version >= ENDPOINTS_SINCE[key] else [])


@pytest.mark.usefixtures("no_errors_of_ours")
@pytest.mark.parametrize("version", range(13, 19))
def test_an_old_observer_may_wait_for_records(version: int) -> None:
    cluster = Cluster()
    connection = at(cluster)
    end_offset = cluster.node.controller.metadata.log.log_end_offset
    cluster.send(fetched(1, end_offset, 500), version, connection)
    assert cluster.take(ApiKey.FETCH, version, connection) == []
    cluster.create_topic("t")
    (answer,) = cluster.take(ApiKey.FETCH, version, connection)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
    assert len(answer.responses[0].partitions[0].records) > 0


# Envelopes.


@pytest.mark.usefixtures("no_errors_of_ours")
@pytest.mark.parametrize("client_id", ["1", "²", "1" * 5000, "", "-1"])
def test_whoever_forwards_a_request_is_answered(client_id: str) -> None:
    cluster = Cluster()
    connection = at(cluster)
    frame = request_frame(enveloped(create_topic_request("t")), 0, 5)
    header = RequestHeader(
        request_api_key=ApiKey.ENVELOPE,
        request_api_version=0,
        correlation_id=5,
        client_id=client_id,
    )
    named = encode(header, APIS[ApiKey.ENVELOPE].request_header_version(0))
    body = named + frame[4 + len(named) - len(client_id.encode()) + len("test") :]
    cluster.shell.send(connection, struct.pack(">i", len(body)) + body)
    cluster.shell.advance(100)
    (answer,) = cluster.take(ApiKey.ENVELOPE, 0, connection)
    assert opened(answer, ApiKey.CREATE_TOPICS).topics[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("is_late", [False, True])
def test_an_error_of_ours_costs_one_forwarded_request_its_answer(
    monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """And not the broker its connection, nor the controller its life, whenever it comes."""
    cluster = Cluster()
    connection = at(cluster)

    def broken(*_: Any) -> Any:
        if is_late:
            yield 10_000  # the rest is another step's
        raise ZeroDivisionError

    monkeypatch.setattr(topics, "create_topics", broken)
    answer = cluster.ask(enveloped(create_topic_request("t")), connection=connection)
    (refused,) = opened(answer, ApiKey.CREATE_TOPICS).topics
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert cluster.shell.closed == {}
    monkeypatch.undo()
    cluster.create_topic("t")


def test_an_envelope_holds_what_may_be_forwarded_and_nothing_else() -> None:
    cluster = Cluster()
    described = describe_quorum.DescribeQuorumRequest(topics=())
    for message in (enveloped(described), fetched(1, 0, 0), *asked_of_the_quorum(0)):
        assert message.API_KEY not in envelopes.FORWARDABLE
        answer = cluster.ask(enveloped(message), connection=at(cluster))
        assert (answer.error_code, answer.response_data) == (ErrorCode.INVALID_REQUEST, None)


# Elections in the version that knows errors of partitions alone.


@pytest.mark.usefixtures("no_errors_of_ours")
@pytest.mark.parametrize("version", [0, 1, 2])
def test_an_election_that_is_not_committed_in_time_is_refused(version: int) -> None:
    cluster = Cluster()
    cluster.create_topic("t", 2)
    cluster.shell.flush_ms = (500, 500)
    connection = at(cluster)
    cluster.send(create_topic_request("u"))  # what is not committed yet is waited for
    wanted = elect_leaders.TopicPartitions(topic="t", partitions=(0, 1))
    request = elect_leaders.ElectLeadersRequest(topic_partitions=(wanted,), timeout_ms=100)
    cluster.send(request, version, connection)
    cluster.shell.advance(200)
    (answer,) = cluster.take(ApiKey.ELECT_LEADERS, version, connection)
    late = ErrorCode.REQUEST_TIMED_OUT
    assert answer.error_code == (late if version else ErrorCode.NONE)
    (topic,) = answer.replica_election_results
    assert [one.error_code for one in topic.partition_result] == [late, late]


@pytest.mark.usefixtures("no_errors_of_ours")
@pytest.mark.parametrize("version", [0, 2])
def test_an_election_is_the_active_controllers(version: int) -> None:
    cluster = Cluster()
    cluster.node.controller.is_active = False
    wanted = elect_leaders.TopicPartitions(topic="t", partitions=(0,))
    request = elect_leaders.ElectLeadersRequest(topic_partitions=(wanted,))
    answer = cluster.ask(request, version, connection=at(cluster))
    code = ErrorCode.NOT_CONTROLLER
    assert answer.error_code == (code if version else ErrorCode.NONE)
    assert answer.replica_election_results[0].partition_result[0].error_code == code


# Requests of very many elements.


def test_a_registration_of_many_elements_comes_by_its_own_connection() -> None:
    """Else it could be taken for one of this node's own broker, which nobody blocks."""
    cluster = Cluster(node_id="1")
    registered = cluster.broker.image.brokers[1]
    request = broker_registration.BrokerRegistrationRequest(
        broker_id=1,
        cluster_id=cluster.node.controller.cluster_id,
        incarnation_id=Uuid(b"\5" * 16),
        listeners=tuple(
            broker_registration.Listener(name=f"L{n}", host="h", port=1, security_protocol=0)
            for n in range(200)
        ),
        features=(),
        rack=None,
        log_dirs=registered.log_dirs,
    )
    answer = cluster.ask(request, connection=at(cluster))
    assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


# Anything that can be said at all.

BITS = {"b": 8, "h": 16, "i": 32, "q": 64}
TEXTS = ["", "t", METADATA, "²", "--1", "1", "1" * 5000, "PLAINTEXT", "CONTROLLER", "x" * 300]
TEXTS += ["min.insync.replicas", "metadata.version", "kraft.version", "cordoned.log.dirs", "\0"]
FITTING = {"topic_name": METADATA, "partition_index": 0, "partition": 0, "index": 0}
"""What a request is refused at once without, most often."""


class Absurd:
    """Requests that are well formed, and make no sense."""

    def __init__(self, rng: random.Random, cluster: Cluster) -> None:
        self._rng = rng
        raft, image = cluster.node.controller.metadata.raft, cluster.broker.image
        self._cluster_id = cluster.node.controller.cluster_id
        self._uuids = [ZERO_UUID, METADATA_TOPIC_ID, b"\xff" * 16, rng.randbytes(16)]
        self._uuids += [topic.topic_id for topic in image.topics.values()]
        self._numbers = [-2, -1, 0, 1, 2, 3, 9093, raft.log.log_end_offset]
        self._numbers += [raft.epoch, raft.epoch + 1]
        for broker in image.brokers.values():
            self._uuids += [broker.incarnation_id, *broker.log_dirs]
            self._numbers += [broker.broker_id, broker.broker_epoch]

    def struct(self, cls: type[Struct], version: int) -> Any:
        known = {one.name: one.default for one in fields_of(cls)}
        mine = {one.name: self._field(one, version) for one in fields_of(cls) if one.is_in(version)}
        return cls(**known | mine)

    def _field(self, field: Field, version: int) -> Any:
        rng = self._rng
        if field.is_nullable(version) and rng.random() < 0.15:
            return None
        if field.name in FITTING and rng.random() < 0.8:
            return FITTING[field.name]
        if field.name == "cluster_id" and rng.random() < 0.9:
            return self._cluster_id
        if field.name == "topic_id" and rng.random() < 0.5:
            return METADATA_TOPIC_ID
        return self._value(field.type, version)

    def _value(self, kind: Any, version: int) -> Any:
        rng = self._rng
        match kind:
            case Fixed("16s"):
                return rng.choice(self._uuids)
            case Fixed("?"):
                return rng.random() < 0.5
            case Fixed("d"):
                return rng.choice([0.0, -1.0, float("inf")])
            case Fixed("H"):
                return rng.choice([0, 1, 9093, 65535])
            case Fixed(letter):
                limit = 1 << BITS[letter] - 1
                number = rng.choice([*self._numbers, -limit, limit - 2])
                return max(-limit, min(number, limit - 1))
            case Text():
                return rng.choice(TEXTS)
            case Blob():
                return rng.choice([b"", LOOPBACK, rng.randbytes(40)])
            case Nested(cls):
                return self.struct(cls, version)
            case Array(element):
                count = 200 if rng.random() < 0.01 else rng.choice([0, 1, 1, 1, 1, 2])
                return tuple(self._value(element, version) for _ in range(count))


@pytest.fixture(scope="module")
def few_partitions() -> Iterator[None]:
    """A request for 10,000 is fine with a node, but takes the simulated disk a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(topics, "PARTITIONS_MAX", 20)
        patch.setattr(topic_changes, "RECORDS_MAX", 20)
        yield


STATED = ("both lead epoch",)
"""What ends a node by its own decision."""


@pytest.mark.usefixtures("no_errors_of_ours", "few_partitions")
@examples(60)
@given(seed=st.integers(0, 1 << 32))
def test_absurd_requests_never_raise(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(seed=seed)
    cluster.create_topic("t", 2)
    for _ in range(20):
        key = rng.choice(sorted(CONTROLLER_SERVED))
        version = rng.randint(*CONTROLLER_SERVED[key])
        message = Absurd(rng, cluster).struct(request_class(key), version)
        try:
            frame = request_frame(message, version, 7)
        except EncodeError:
            continue  # not well formed: a field that the version has not
        if rng.random() < 0.3:
            sealed = EnvelopeRequest(
                request_data=frame[4:], request_principal=PRINCIPAL, client_host_address=LOOPBACK
            )
            frame = request_frame(sealed, 0, 8)
        cluster.shell.send(at(cluster), frame)
        cluster.shell.advance(rng.choice([0, 1, 700]))
        if cluster.shell.stopped is not None:
            assert any(one in cluster.shell.stopped for one in STATED), cluster.shell.stopped
            return
    cluster.shell.advance(20_000)
