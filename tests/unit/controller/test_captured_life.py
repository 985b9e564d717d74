"""The decisions of a live Apache controller, made again: from the image before each batch of its
log our functions must come to the records of that batch."""

from __future__ import annotations

from itertools import groupby

import pytest
from tests.unit.config.test_broker import config
from tests.unit.metadata.captured import DISK, LIFE

from tidelog.controller.alter_partition import alter_partition
from tidelog.controller.brokers import begin_controlled_shutdown, fence, unfence
from tidelog.controller.elections import elect_leaders
from tidelog.controller.reassignments import alter_partition_reassignments
from tidelog.controller.registration import register_broker, register_controller
from tidelog.errors import ErrorCode
from tidelog.metadata.batches import read_metadata
from tidelog.metadata.delta import replay
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.brokers import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from tidelog.metadata.records.cluster import NoOpRecord
from tidelog.metadata.records.topics import PartitionChangeRecord
from tidelog.slices import finish
from tidelog.wire.batch import BatchWalk
from tidelog.wire.messages import alter_partition as altering
from tidelog.wire.messages import controller_registration
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from tidelog.wire.messages.controller_registration import ControllerRegistrationRequest
from tidelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

CONFIG = config()


def batches():
    """Each batch with the image before it. (A batch may hold several operations.)"""
    image = MetadataImage.empty()
    for batch in BatchWalk((DISK / LIFE).read_bytes()):
        logged = read_metadata(batch)
        yield image, logged
        for one in logged:
            image = replay(image, one.record, one.offset, one.epoch)


def changes(records):
    """Partition changes as a set: Kafka's order among them is that of a hash table. ELRs are
    sets, too."""
    found = set()
    for record in records:
        if isinstance(record, PartitionChangeRecord):
            fields = {name: getattr(record, name) for name in type(record).FIELDS}
            elr = fields["eligible_leader_replicas"]
            fields["eligible_leader_replicas"] = None if elr is None else tuple(sorted(elr))
            found.add(tuple(fields.items()))
    return found


def others(records):
    return [record for record in records if not isinstance(record, PartitionChangeRecord)]


def same(ours, theirs):
    assert changes(ours) == changes(theirs)
    assert others(ours) == others(theirs)
    return True


def without_cordons(records):
    """Nor NoOps: what may share a batch with an operation."""
    return [
        record
        for record in records
        if not isinstance(record, NoOpRecord) and getattr(record, "cordoned_log_dirs", None) is None
    ]


def of_broker_changes(wanted):
    """Batches with a change of a registration that the predicate takes."""
    for image, logged in batches():
        records = without_cordons([one.record for one in logged])
        for record in records:
            if isinstance(record, BrokerRegistrationChangeRecord) and wanted(record):
                yield image, record.broker_id, records


@pytest.mark.parametrize(
    ("wanted", "decide", "times"),
    [
        (lambda record: record.fenced == 1, fence, 5),
        (lambda record: record.fenced == -1, unfence, 7),
        (lambda record: record.in_controlled_shutdown == 1, begin_controlled_shutdown, 1),
    ],
)
def test_fencing_unfencing_and_controlled_shutdown(wanted, decide, times):
    seen = 0
    for image, broker_id, records in of_broker_changes(wanted):
        seen += same(finish(decide(image, broker_id, CONFIG)), records)
    assert seen == times


def request_of(record, previous_broker_epoch):
    return BrokerRegistrationRequest(
        broker_id=record.broker_id,
        cluster_id="c",
        incarnation_id=record.incarnation_id,
        listeners=tuple(
            Listener(name=p.name, host=p.host, port=p.port, security_protocol=p.security_protocol)
            for p in record.end_points
        ),
        features=tuple(
            Feature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in record.features
        ),
        rack=record.rack,
        log_dirs=record.log_dirs,
        previous_broker_epoch=previous_broker_epoch,
    )


def test_registrations():
    clean_stops = {414: 97}
    seen = 0
    for image, logged in batches():
        records = [one.record for one in logged]
        if not isinstance(records[-1], RegisterBrokerRecord):
            continue
        decision = finish(
            register_broker(
                image,
                request_of(records[-1], clean_stops.get(logged[0].offset, -1)),
                CONFIG,
                cluster_id="c",
                next_offset=logged[0].offset,
                has_valid_session=False,
            )
        )
        seen += same(decision.records, records)
        assert decision.response.error_code == ErrorCode.NONE
        assert decision.response.broker_epoch == logged[0].offset
    assert seen == 7


def test_changes_of_isrs():
    """What a leader must have proposed for these records to be written."""
    seen = 0
    for image, logged in batches():
        records = [one.record for one in logged]
        if not all(isinstance(record, PartitionChangeRecord) for record in records):
            continue
        grows = [r for r in records if r.isr is not None and r.leader == -2 and r.replicas is None]
        for topic_id, group in groupby(grows, key=lambda record: record.topic_id):
            for record in group:
                state = image.partition_by_id(topic_id, record.partition_id)
                wanted = altering.PartitionData(
                    partition_index=record.partition_id,
                    leader_epoch=state.leader_epoch,
                    new_isr_with_epochs=tuple(
                        altering.BrokerState(broker_id=node, broker_epoch=image.broker_epoch(node))
                        for node in record.isr
                    ),
                    partition_epoch=state.partition_epoch,
                )
                request = altering.AlterPartitionRequest(
                    broker_id=state.leader,
                    broker_epoch=image.broker_epoch(state.leader),
                    topics=(altering.TopicData(topic_id=topic_id, partitions=(wanted,)),),
                )
                decision = finish(alter_partition(image, request, CONFIG))
                seen += same(decision.records, [record])
                (answer,) = decision.response.topics[0].partitions
                assert (answer.error_code, answer.isr) == (0, record.isr)
                assert answer.partition_epoch == state.partition_epoch + 1
    assert seen > 5


def test_registrations_of_controllers():
    seen = 0
    for image, logged in batches():
        for one in logged:
            if not isinstance(one.record, RegisterControllerRecord):
                continue
            record = one.record
            request = ControllerRegistrationRequest(
                controller_id=record.controller_id,
                incarnation_id=record.incarnation_id,
                zk_migration_ready=False,
                listeners=tuple(
                    controller_registration.Listener(
                        name=p.name,
                        host=p.host,
                        port=p.port,
                        security_protocol=p.security_protocol,
                    )
                    for p in record.end_points
                ),
                features=tuple(
                    controller_registration.Feature(
                        name=f.name,
                        min_supported_version=f.min_supported_version,
                        max_supported_version=f.max_supported_version,
                    )
                    for f in record.features
                ),
            )
            assert register_controller(image, request).records == [record]
            seen += 1
    assert seen > 3


def before_offset(offset):
    """The image before a batch, and its records."""
    for image, logged in batches():
        if logged[0].offset <= offset <= logged[-1].offset:
            return image, [
                one.record for one in logged if isinstance(one.record, PartitionChangeRecord)
            ]
    raise AssertionError(f"no batch has offset {offset}")


def test_moves_and_an_election():
    """Of t3-0 from 101, 102 to 102, 103; of t1-0 to another order; of t1-0's preferred replica."""
    for offset, topic, replicas in ((609, "t3", (102, 103)), (633, "t1", None)):
        image, records = before_offset(offset)
        (record,) = records
        wanted = ReassignablePartition(
            partition_index=0, replicas=record.replicas if replicas is None else replicas
        )
        request = AlterPartitionReassignmentsRequest(
            topics=(ReassignableTopic(name=topic, partitions=(wanted,)),)
        )
        decision = finish(alter_partition_reassignments(image, request, CONFIG))
        assert same(decision.records, records)
        assert decision.response.responses[0].partitions[0].error_code == ErrorCode.NONE
    image, records = before_offset(640)
    request = ElectLeadersRequest(
        election_type=0, topic_partitions=(TopicPartitions(topic="t1", partitions=(0,)),)
    )
    assert same(finish(elect_leaders(image, request, CONFIG)).records, records)


def test_a_move_ends_with_a_change_of_the_isr():
    image, records = before_offset(611)
    (record,) = records
    state = image.partition_by_id(record.topic_id, 0)
    wanted = altering.PartitionData(
        partition_index=0,
        leader_epoch=state.leader_epoch,
        new_isr_with_epochs=tuple(
            altering.BrokerState(broker_id=node, broker_epoch=image.broker_epoch(node))
            for node in (101, 102, 103)
        ),
        partition_epoch=state.partition_epoch,
    )
    request = altering.AlterPartitionRequest(
        broker_id=101,
        broker_epoch=image.broker_epoch(101),
        topics=(altering.TopicData(topic_id=record.topic_id, partitions=(wanted,)),),
    )
    decision = finish(alter_partition(image, request, CONFIG))
    assert same(decision.records, records)
    (answer,) = decision.response.topics[0].partitions
    assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
