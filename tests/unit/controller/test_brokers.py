"""Registration, heartbeats and their refusals. What they write is compared with a live cluster's
log in test_captured_life."""

from __future__ import annotations

import pytest
from tests.unit.config.test_broker import config
from tests.unit.metadata.lives import broker, change, features, partition, uuid

from tidelog.config.broker import BrokerConfig
from tidelog.controller.brokers import unregister_broker
from tidelog.controller.heartbeat import heartbeat
from tidelog.controller.producer_ids import BLOCK_SIZE, allocate_producer_ids
from tidelog.controller.registration import register_broker
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.brokers import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tidelog.metadata.records.cluster import ProducerIdsRecord
from tidelog.metadata.records.topics import TopicRecord
from tidelog.slices import finish
from tidelog.types import METADATA_TOPIC_ID
from tidelog.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)

CONFIG: BrokerConfig = config()
RANGES = {
    "metadata.version": (7, 30),
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "transaction.version": (0, 2),
}


def cluster(*more):
    return replay_all(MetadataImage.empty(), [*features(), broker(1), broker(2), *more], 0, 1)


def registration(broker_id=3, *, ranges=RANGES, **changes):
    values = {
        "broker_id": broker_id,
        "cluster_id": "c",
        "incarnation_id": uuid(77),
        "listeners": (Listener(name="PLAINTEXT", host="h", port=1, security_protocol=0),),
        "features": tuple(
            Feature(name=name, min_supported_version=least, max_supported_version=most)
            for name, (least, most) in ranges.items()
        ),
        "rack": None,
        "log_dirs": (uuid(88),),
        **changes,
    }
    return BrokerRegistrationRequest(**values)


def register(image, request, *, session=False):
    return finish(
        register_broker(
            image, request, CONFIG, cluster_id="c", next_offset=500, has_valid_session=session
        )
    )


def test_a_new_broker_is_fenced_and_its_epoch_is_the_offset():
    decision = register(cluster(), registration())
    (record,) = decision.records
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced) == (500, True)
    assert decision.response.broker_epoch == 500


def test_the_same_process_keeps_its_epoch_and_state():
    decision = register(
        cluster(), registration(1, incarnation_id=uuid(1001), log_dirs=(uuid(2001),)), session=True
    )
    (record,) = decision.records
    assert (record.broker_epoch, record.fenced) == (10, False)
    assert decision.response.broker_epoch == 10


@pytest.mark.parametrize(
    ("request_", "session", "code"),
    [
        (registration(cluster_id="other"), False, ErrorCode.INCONSISTENT_CLUSTER_ID),
        (registration(1), True, ErrorCode.DUPLICATE_BROKER_REGISTRATION),
        (registration(1), False, ErrorCode.NONE),
        (registration(is_migrating_zk_broker=True), False, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (registration(log_dirs=()), False, ErrorCode.INVALID_REGISTRATION),
        (registration(log_dirs=(uuid(8), uuid(8))), False, ErrorCode.INVALID_REGISTRATION),
        (registration(log_dirs=(METADATA_TOPIC_ID,)), False, ErrorCode.INVALID_REGISTRATION),
        (registration(log_dirs=(uuid(2001),)), False, ErrorCode.INVALID_REGISTRATION),
        (registration(ranges={"a": (0, 1)}), False, ErrorCode.INVALID_REGISTRATION),
        (
            registration(ranges={"metadata.version": (7, 30)}),
            False,
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (
            registration(ranges={**RANGES, "metadata.version": (7, 29)}),
            False,
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (registration(ranges={**RANGES, "foo": (1, 1)}), False, ErrorCode.UNSUPPORTED_VERSION),
        (registration(ranges={**RANGES, "foo": (0, 1)}), False, ErrorCode.NONE),
        (registration(ranges={**RANGES, "kraft.version": (0, 1)}), False, ErrorCode.NONE),
        (
            registration(ranges={**RANGES, "kraft.version": (1, 1)}),
            False,
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    ],
)
def test_who_may_register(request_, session, code):
    decision = register(cluster(), request_, session=session)
    assert decision.response.error_code == code
    assert bool(decision.records) == (code is ErrorCode.NONE)


def beat(image, broker_id=1, *, epoch=None, offset=1000, **wants):
    request = BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker_id * 10 if epoch is None else epoch,
        current_metadata_offset=offset,
        want_fence=wants.pop("want_fence", False),
        want_shut_down=wants.pop("want_shut_down", False),
        cordoned_log_dirs=wants.pop("cordoned_log_dirs", None),
    )
    return finish(heartbeat(image, request, CONFIG, **wants))


def led_by_1():
    return cluster(TopicRecord(name="a", topic_id=uuid(1)), partition(1, 0, (1, 2)))


def flags(decision):
    response = decision.response
    return response.is_caught_up, response.is_fenced, response.should_shut_down


def test_a_stranger_is_stale():
    assert beat(cluster(), 9).response.error_code == ErrorCode.STALE_BROKER_EPOCH
    assert beat(cluster(), 1, epoch=11).response.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_fenced_broker_is_unfenced_once_it_has_read_its_registration():
    image = cluster(broker(3, fenced=True))
    offset = image.brokers[3].registered_at
    early = beat(image, 3, offset=offset - 1)
    assert (flags(early), list(early.records)) == ((False, True, False), [])
    waiting = beat(image, 3, offset=offset, want_fence=True)
    assert (flags(waiting), list(waiting.records)) == ((True, True, False), [])
    ready = beat(image, 3, offset=offset)
    assert flags(ready) == (True, False, False)
    assert ready.records == [
        BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=30, fenced=-1)
    ]
    leaving = beat(image, 3, want_shut_down=True)
    assert flags(leaving) == (True, True, True)


def test_a_leader_hands_over_before_it_stops():
    image = led_by_1()
    first = beat(image, want_shut_down=True)
    assert flags(first) == (True, False, False)
    assert first.records == [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, in_controlled_shutdown=1),
        change(1, 0, isr=(2,), leader=2),
    ]
    image = replay_all(image, first.records, 500, 1)
    second = beat(image, want_shut_down=True, shutdown_offset=501, active_offset_min=500)
    assert (flags(second), list(second.records)) == ((True, False, False), [])
    third = beat(image, want_shut_down=True, shutdown_offset=501, active_offset_min=501)
    assert flags(third) == (True, True, True)
    assert third.records == [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=1)]


def test_who_leads_nothing_may_go_at_once():
    assert flags(beat(led_by_1(), 2, want_shut_down=True)) == (True, True, True)
    assert flags(beat(led_by_1(), 2, want_fence=True)) == (True, True, False)
    assert flags(beat(led_by_1(), 2, want_fence=True, want_shut_down=True)) == (True, True, True)
    assert list(beat(led_by_1(), 2).records) == []


def test_cordoned_directories_are_written_once():
    (record,) = beat(cluster(), cordoned_log_dirs=()).records
    assert record.cordoned_log_dirs == ()
    again = replay_all(cluster(), [record], 50, 1)
    assert list(beat(again, cordoned_log_dirs=()).records) == []


def test_the_last_replica_of_a_partition_comes_back():
    """A single node: killed, it is elected again as the last known leader, which is unclean;
    stopped cleanly it comes back from the ELR."""
    image = cluster(TopicRecord(name="a", topic_id=uuid(1)), partition(1, 0, (1,)))
    for previous, recovery_state in ((-1, 1), (10, 0)):
        decision = register(
            image, registration(1, previous_broker_epoch=previous, log_dirs=(uuid(2001),))
        )
        restarted = replay_all(image, decision.records, 500, 1)
        state = restarted.partition("a", 0)
        assert (state.isr, state.leader) == ((), -1)
        ready = beat(restarted, 1, epoch=500)
        state = replay_all(restarted, ready.records, 600, 1).partition("a", 0)
        assert (state.isr, state.leader, state.leader_epoch) == ((1,), 1, 2)
        assert state.leader_recovery_state == recovery_state


def test_unregister():
    decision = finish(unregister_broker(led_by_1(), 1, CONFIG))
    assert decision.records == [
        change(1, 0, isr=(2,), leader=2),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=10),
    ]
    refused = finish(unregister_broker(cluster(), 9, CONFIG))
    assert list(refused.records) == []
    assert refused.response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_producer_ids_come_in_blocks():
    image = cluster()
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=10)
    for start in (0, BLOCK_SIZE):
        decision = allocate_producer_ids(image, request)
        assert decision.response.producer_id_start == start
        assert decision.response.producer_id_len == BLOCK_SIZE
        image = replay_all(image, decision.records, 500, 1)
        assert image.next_producer_id == start + BLOCK_SIZE
    stale = AllocateProducerIdsRequest(broker_id=1, broker_epoch=11)
    assert allocate_producer_ids(image, stale).response.error_code == 77
    full = ProducerIdsRecord(broker_id=1, next_producer_id=(1 << 63) - 5)
    image = replay_all(image, [full], 501, 1)
    assert allocate_producer_ids(image, request).response.error_code == -1
