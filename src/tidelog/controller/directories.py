"""Log directories, as brokers report them: where replicas lie, and which directories failed."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.config.broker import BrokerConfig
from tidelog.controller.decision import CHANGE_COST, Decision, Refused
from tidelog.controller.partition_change import Election, Target
from tidelog.controller.partitions import PartitionChanges, is_online
from tidelog.errors import ErrorCode
from tidelog.metadata.image import Broker, MetadataImage, TopicPartition
from tidelog.metadata.records.brokers import BrokerRegistrationChangeRecord
from tidelog.slices import Slices
from tidelog.types import Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages import assign_replicas_to_dirs as wire

DIRECTORIES_SINCE = 17
"""The metadata.version (3.7-IV2) that knows in which directory a replica lies."""

CORDONS_SINCE = 30
"""4.3-IV0."""


def assign_replicas_to_dirs(
    image: MetadataImage, request: wire.AssignReplicasToDirsRequest, config: BrokerConfig
) -> Slices[Decision[wire.AssignReplicasToDirsResponse]]:
    """AssignReplicasToDirs: a broker with several directories says where it has put its replicas.
    A replica in a directory that has failed is out of sync with that."""
    broker = image.brokers.get(request.broker_id)
    code = ErrorCode.NONE
    if image.metadata_version < DIRECTORIES_SINCE:
        code = ErrorCode.UNSUPPORTED_VERSION
    elif broker is None or broker.broker_epoch != request.broker_epoch:
        code = ErrorCode.STALE_BROKER_EPOCH
    if broker is None or code is not ErrorCode.NONE:
        return Decision([], wire.AssignReplicasToDirsResponse(error_code=code, directories=()))
    changes = PartitionChanges(image, config)
    without = PartitionChanges(image, config, removed=broker.broker_id)
    records: list[Message] = []
    directories = []
    for wanted in request.directories:
        topics = []
        for topic in wanted.topics:
            answers = []
            for one in topic.partitions:
                place = TopicPartition(topic.topic_id, one.partition_index)
                code = ErrorCode.NONE
                try:
                    records += assigned(changes, without, broker, place, wanted.id)
                except Refused as refused:
                    code = refused.code
                answers.append(
                    wire.AssignReplicasToDirsResponsePartitionData(
                        partition_index=one.partition_index, error_code=code
                    )
                )
                yield CHANGE_COST
            topics.append(
                wire.AssignReplicasToDirsResponseTopicData(
                    topic_id=topic.topic_id, partitions=tuple(answers)
                )
            )
        directories.append(
            wire.AssignReplicasToDirsResponseDirectoryData(id=wanted.id, topics=tuple(topics))
        )
    response = wire.AssignReplicasToDirsResponse(
        error_code=ErrorCode.NONE, directories=tuple(directories)
    )
    return Decision(records, response)


def assigned(
    changes: PartitionChanges,
    without: PartitionChanges,
    broker: Broker,
    place: TopicPartition,
    directory: Uuid,
) -> list[Message]:
    """The records by which a replica of the broker lies in a directory; without it, if need be."""
    if changes.image.topic_by_id(place.topic_id) is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    state = changes.find(*place)
    if state is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    broker_id = broker.broker_id
    if broker_id not in state.replicas:
        raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    # Where the directory is gone that it lay in, so are its records: it begins anew in this one,
    # and an ELR that counts on it would elect an empty log. (Kafka's does.)
    was = state.directory(broker_id)
    is_emptied = was != directory and not is_online(broker, was)
    records: list[Message] = []
    moved = changes.build(place, state, Target(directory=(broker_id, directory)), Election.ONLINE)
    if moved is not None:
        records.append(moved)
        state = changes.replay(state, moved)
    if is_emptied or not is_online(broker, directory):
        left = tuple(node for node in state.isr if node != broker_id)
        lost = frozenset({broker_id} if is_emptied else ())
        out = without.build(place, state, Target(isr=left), unclean_shutdown=lost)
        if out is not None:
            records.append(out)
            changes.replay(state, out)
    return records


def cordon_directories(
    image: MetadataImage, broker_id: int, cordoned: Iterable[Uuid] | None
) -> list[Message]:
    """Which of a broker's directories get no new replicas (KIP-1066); None is from one that does
    not say."""
    broker = image.brokers[broker_id]
    if cordoned is None or image.metadata_version < CORDONS_SINCE:
        return []
    wanted = tuple(cordoned)
    if broker.cordoned_log_dirs is not None and set(wanted) == set(broker.cordoned_log_dirs):
        return []
    change = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.broker_epoch, cordoned_log_dirs=wanted
    )
    return [change]


def directories_offline(
    image: MetadataImage, broker_id: int, online: Iterable[Uuid], config: BrokerConfig
) -> Slices[list[Message]]:
    """A broker has these directories left: what lies in others is not in sync any more."""
    broker, left = image.brokers[broker_id], tuple(sorted(online))
    gone = set(broker.log_dirs) - set(left)
    if not gone or image.metadata_version < DIRECTORIES_SINCE:
        return []
    changes = PartitionChanges(image, config, removed=broker_id)
    records = yield from changes.records(
        image.partitions_of(broker_id), lambda state: state.directory(broker_id) in gone
    )
    change = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker.broker_epoch, log_dirs=left
    )
    return [*records, change]
