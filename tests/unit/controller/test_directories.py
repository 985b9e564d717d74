"""AssignReplicasToDirs, and directories that fail."""

from __future__ import annotations

from tests.unit.config.test_broker import config
from tests.unit.metadata.lives import broker, change, features, partition, uuid

from tidelog.controller.directories import assign_replicas_to_dirs
from tidelog.controller.heartbeat import heartbeat
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import replay_all
from tidelog.metadata.image import UNASSIGNED_DIRECTORY, MetadataImage
from tidelog.metadata.records.brokers import BrokerRegistrationChangeRecord
from tidelog.metadata.records.cluster import FeatureLevelRecord
from tidelog.metadata.records.topics import TopicRecord
from tidelog.slices import finish
from tidelog.wire.messages import assign_replicas_to_dirs as wire
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

GONE, FIRST, SECOND = uuid(2001), uuid(3001), uuid(3002)


def cluster(*more, directory=UNASSIGNED_DIRECTORY, **state):
    """Broker 1 has two directories, and leads partition 0."""
    records = [
        *features(),
        broker(1, log_dirs=(FIRST, SECOND)),
        broker(2),
        TopicRecord(name="a", topic_id=uuid(1)),
        partition(1, 0, (1, 2), directories=(directory, uuid(2002)), **state),
        *more,
    ]
    return replay_all(MetadataImage.empty(), records, 0, 1)


def assign(image, directory, *numbers, topic=1, epoch=10):
    request = wire.AssignReplicasToDirsRequest(
        broker_id=1,
        broker_epoch=epoch,
        directories=(
            wire.DirectoryData(
                id=directory,
                topics=(
                    wire.TopicData(
                        topic_id=uuid(topic),
                        partitions=tuple(
                            wire.PartitionData(partition_index=number) for number in numbers
                        ),
                    ),
                ),
            ),
        ),
    )
    decision = finish(assign_replicas_to_dirs(image, request, config()))
    codes = [
        ErrorCode(one.error_code)
        for directory in decision.response.directories
        for topic in directory.topics
        for one in topic.partitions
    ]
    return decision, codes


def test_a_broker_says_where_its_replicas_lie():
    decision, codes = assign(cluster(), FIRST, 0, 0)
    assert decision.records == [change(1, 0, directories=(FIRST, uuid(2002)))]
    assert codes == [ErrorCode.NONE] * 2


def test_what_is_known_is_no_record():
    decision, codes = assign(cluster(directory=FIRST), FIRST, 0)
    assert (list(decision.records), codes) == ([], [ErrorCode.NONE])


def test_from_one_directory_to_another():
    decision, _ = assign(cluster(directory=FIRST), SECOND, 0)
    assert decision.records == [change(1, 0, directories=(SECOND, uuid(2002)))]


def test_refusals():
    other = [TopicRecord(name="b", topic_id=uuid(2)), partition(2, 0, (2,))]
    assert assign(cluster(), FIRST, 9)[1] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert assign(cluster(), FIRST, 0, topic=9)[1] == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert assign(cluster(*other), FIRST, 0, topic=2)[1] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    stale, _ = assign(cluster(), FIRST, 0, epoch=11)
    assert stale.response.error_code == ErrorCode.STALE_BROKER_EPOCH
    old = FeatureLevelRecord(name="metadata.version", feature_level=16)
    unsupported, _ = assign(cluster(old), FIRST, 0)
    assert unsupported.response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert list(unsupported.records) == []


def test_a_replica_in_a_directory_that_failed_is_out_of_sync():
    decision, codes = assign(cluster(), GONE, 0)
    image = replay_all(cluster(), decision.records, 50, 1)
    state = image.partition("a", 0)
    assert (codes, state.isr, state.leader) == ([ErrorCode.NONE], (2,), 2)


def test_a_replica_that_begins_anew_is_not_eligible():
    """Its directory is gone, and with it its records: in the next one its log is empty."""
    image = cluster(directory=GONE, isr=(), leader=-1, eligible_leader_replicas=(1,))
    decision, _ = assign(image, FIRST, 0)
    state = replay_all(image, decision.records, 50, 1).partition("a", 0)
    assert state.directory(1) == FIRST
    assert (state.leader, state.eligible_leader_replicas) == (-1, ())


def test_the_last_known_leader_that_begins_anew_waits_for_an_operator():
    """As Kafka has it: who may lead is asked by the directory that it had before."""
    image = cluster(directory=GONE, isr=(), leader=-1, last_known_elr=(1,))
    decision, _ = assign(image, FIRST, 0)
    state = replay_all(image, decision.records, 50, 1).partition("a", 0)
    assert state.directory(1) == FIRST
    assert (state.leader, state.isr, state.last_known_elr) == (-1, (), (1,))


def beat(image, **more):
    request = BrokerHeartbeatRequest(
        broker_id=1,
        broker_epoch=10,
        current_metadata_offset=1000,
        want_fence=False,
        want_shut_down=False,
        **more,
    )
    return finish(heartbeat(image, request, config()))


def test_a_directory_fails():
    image = cluster(directory=FIRST)
    records = beat(image, offline_log_dirs=(FIRST, uuid(99))).records
    assert records == [
        change(1, 0, isr=(2,), leader=2),
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, log_dirs=(SECOND,)),
    ]
    after = replay_all(image, records, 50, 1)
    assert list(beat(after, offline_log_dirs=(FIRST,)).records) == []


def test_nobody_is_elected_where_its_directory_has_just_failed():
    image = replay_all(
        cluster(directory=FIRST, isr=(), leader=-1, eligible_leader_replicas=(1,)),
        [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=1)],
        50,
        1,
    )
    healthy = replay_all(image, beat(image).records, 60, 1)
    assert healthy.partition("a", 0).leader == 1
    failed = replay_all(image, beat(image, offline_log_dirs=(FIRST,)).records, 60, 1)
    assert failed.partition("a", 0).leader == -1
    assert not failed.brokers[1].fenced
