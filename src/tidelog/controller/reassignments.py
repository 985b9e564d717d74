"""AlterPartitionReassignments and ListPartitionReassignments: partitions move to other brokers.

A move adds the replicas of its target and marks those that are to go; it ends with the change of
the ISR by which all of the target are in sync (`partition_change.py`), or is taken back.
"""

from __future__ import annotations

from tidelog.config.broker import BrokerConfig
from tidelog.controller.decision import CHANGE_COST, LOOK_COST, RECORDS_MAX, Decision, Refused
from tidelog.controller.partition_change import Election, Target
from tidelog.controller.partitions import PartitionChanges
from tidelog.controller.topics import require_assignment
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage, PartitionState, Topic, TopicPartition
from tidelog.metadata.records.topics import PartitionChangeRecord
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages import alter_partition_reassignments as wire
from tidelog.wire.messages import list_partition_reassignments as listing


def alter_partition_reassignments(
    image: MetadataImage, request: wire.AlterPartitionReassignmentsRequest, config: BrokerConfig
) -> Slices[Decision[wire.AlterPartitionReassignmentsResponse]]:
    """Each partition by itself; all moves that begin stand in one batch."""
    changes = PartitionChanges(image, config)
    records: list[Message] = []
    answers: list[wire.ReassignableTopicResponse] = []
    for topic in request.topics:
        results: list[wire.ReassignablePartitionResponse] = []
        for wanted in topic.partitions:
            code, message = ErrorCode.NONE, None
            try:
                record = reassign(
                    changes, topic.name, wanted, request.allow_replication_factor_change
                )
                if record is not None and len(records) == RECORDS_MAX:
                    raise Refused(
                        ErrorCode.POLICY_VIOLATION,
                        f"One request moves {RECORDS_MAX} partitions at most.",
                    )
                if record is not None:
                    records.append(record)
            except Refused as refused:
                code, message = refused.code, refused.message
            results.append(
                wire.ReassignablePartitionResponse(
                    partition_index=wanted.partition_index, error_code=code, error_message=message
                )
            )
            yield CHANGE_COST
        answers.append(wire.ReassignableTopicResponse(name=topic.name, partitions=tuple(results)))
        yield LOOK_COST
    response = wire.AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_code=ErrorCode.NONE,
        error_message=None if request.topics else "",  # as Kafka has it
        responses=tuple(answers),
    )
    return Decision(records, response)


def reassign(
    changes: PartitionChanges,
    topic_name: str,
    wanted: wire.ReassignablePartition,
    may_change_factor: bool,
) -> PartitionChangeRecord | None:
    """The record by which one partition begins to move, or stays; None if it is there."""
    topic = changes.image.topic(topic_name)
    if topic is None:
        raise Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic_name}."
        )
    number = wanted.partition_index
    state = changes.find(topic.topic_id, number)
    if state is None:
        raise Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic_name}:{number}."
        )
    place = TopicPartition(topic.topic_id, number)
    if wanted.replicas is None:
        record = cancel(changes, topic, place, state)
    else:
        require_assignment(changes.image, wanted.replicas, None)
        if not may_change_factor:
            require_same_factor(state, len(wanted.replicas))
        # However the topic is configured: a move never costs a record.
        record = changes.build(place, state, moved(state, wanted.replicas), Election.ONLINE)
    if record is not None:
        changes.replay(state, record)
    return record


def moved(state: PartitionState, replicas: tuple[int, ...]) -> Target:
    """All that have it now stay until those to come are in sync. Who was added by a move that runs
    already still counts as added, so that taking this one back leads to where the first began.
    (Kafka's forgets them, or keeps removing what the new target has.)"""
    removing = tuple(sorted(set(state.replicas) - set(replicas)))
    adding = tuple(sorted({*state.adding_replicas, *replicas} - original(state)))
    return Target(replicas=replicas + removing, removing_replicas=removing, adding_replicas=adding)


def original(state: PartitionState) -> set[int]:
    """The replicas from before the move that runs, if one does."""
    return set(state.replicas) - set(state.adding_replicas)


def require_same_factor(state: PartitionState, factor: int) -> None:
    """Where a move runs, what counts is how many replicas it leads to."""
    current = len(set(state.replicas) - set(state.removing_replicas))
    if current != factor:
        raise Refused(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {current} to {factor}",
        )


def cancel(
    changes: PartitionChanges, topic: Topic, place: TopicPartition, state: PartitionState
) -> PartitionChangeRecord | None:
    """Back to the replicas from before the move."""
    if not state.is_reassigning:
        raise Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas = tuple(node for node in state.replicas if node not in state.adding_replicas)
    isr = tuple(node for node in state.isr if node not in state.adding_replicas)
    if not isr:
        # Only those hold everything that are to leave again.
        if not changes.rules(topic.topic_id).may_elect_unclean:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Unable to revert partition assignment for {topic.name}:{place.partition} because"
                " it would require an unclean leader election.",
            )
        if not replicas:
            raise Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                "Invalid replica assignment: addingReplicas contains all replicas.",
            )
        isr = remaining(changes, state, replicas)
    target = Target(isr=isr, replicas=replicas, removing_replicas=(), adding_replicas=())
    return changes.build(place, state, target)


def remaining(
    changes: PartitionChanges, state: PartitionState, replicas: tuple[int, ...]
) -> tuple[int, ...]:
    """The ISR where nobody is in sync. (Kafka's is the first replica, alive or not.)"""
    if changes.image.elr_is_on:
        return ()  # an election follows, and who wins it knows that records may be lost
    is_acceptable = changes.acceptable(state)
    return tuple(node for node in replicas if is_acceptable(node))[:1] or replicas[:1]


def list_partition_reassignments(
    image: MetadataImage, request: listing.ListPartitionReassignmentsRequest
) -> Slices[listing.ListPartitionReassignmentsResponse]:
    """The moves that run, of these partitions or of all."""
    found: list[listing.OngoingTopicReassignment] = []
    if request.topics is None:
        wanted = ((topic, tuple(topic.partitions)) for topic in image.topics.values())
    else:
        named = ((image.topic(one.name), one.partition_indexes) for one in request.topics)
        wanted = ((topic, numbers) for topic, numbers in named if topic is not None)
    for topic, numbers in wanted:
        ongoing: list[listing.OngoingPartitionReassignment] = []
        for number in numbers:
            state = topic.partitions.get(number)
            if state is not None and state.is_reassigning:
                ongoing.append(
                    listing.OngoingPartitionReassignment(
                        partition_index=number,
                        replicas=state.replicas,
                        adding_replicas=state.adding_replicas,
                        removing_replicas=state.removing_replicas,
                    )
                )
            yield 1
        if ongoing:
            found.append(
                listing.OngoingTopicReassignment(name=topic.name, partitions=tuple(ongoing))
            )
        yield LOOK_COST
    return listing.ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, error_message=None, topics=tuple(found)
    )
