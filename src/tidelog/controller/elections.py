"""ElectLeaders, and the elections that nobody asks for: back to the preferred replicas, and of
whoever is left where that is allowed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum

from tidelog.config.broker import BrokerConfig
from tidelog.controller.decision import (
    CHANGE_COST,
    LOOK_COST,
    RECORDS_MAX,
    Decision,
    Refused,
)
from tidelog.controller.partition_change import NO_TARGET, Election
from tidelog.controller.partitions import PartitionChanges
from tidelog.errors import ErrorCode
from tidelog.metadata.image import NO_LEADER, MetadataImage, PartitionState, TopicPartition
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages import elect_leaders as wire

ELECTIONS_MAX = 1000
"""Without being asked, in one decision."""


class ElectionType(IntEnum):
    """As a client numbers them."""

    PREFERRED = 0
    UNCLEAN = 1


NOT_AVAILABLE = {
    ElectionType.PREFERRED: (
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        "The preferred leader was not available.",
    ),
    ElectionType.UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}


def elect_leaders(
    image: MetadataImage, request: wire.ElectLeadersRequest, config: BrokerConfig
) -> Slices[Decision[wire.ElectLeadersResponse]]:
    """Each partition by itself. Where all are meant, those that need no election are not told of.
    Who asks for an unclean election gets it, whatever the topic's configs say."""
    try:
        if request.election_type not in tuple(ElectionType):
            raise Refused(
                ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
            )
        return (yield from _elect_all(image, request, config))
    except Refused as refused:
        answers = yield from refused_all(request, refused)
        response = wire.ElectLeadersResponse(
            error_code=refused.code, replica_election_results=answers
        )
        return Decision([], response)


def _elect_all(
    image: MetadataImage, request: wire.ElectLeadersRequest, config: BrokerConfig
) -> Slices[Decision[wire.ElectLeadersResponse]]:
    changes = PartitionChanges(image, config)
    kind = ElectionType(request.election_type)
    records: list[Message] = []
    answers: list[wire.ReplicaElectionResult] = []
    for topic, numbers in wanted_partitions(image, request):
        results: list[wire.PartitionResult] = []
        for number in numbers:
            code, message = ErrorCode.NONE, None
            try:
                records.append(elect(changes, topic, number, kind))
            except Refused as refused:
                code, message = refused.code, refused.message
            if code is not ErrorCode.ELECTION_NOT_NEEDED or request.topic_partitions is not None:
                results.append(
                    wire.PartitionResult(
                        partition_id=number, error_code=code, error_message=message
                    )
                )
            yield LOOK_COST if code is ErrorCode.ELECTION_NOT_NEEDED else CHANGE_COST
        answers.append(wire.ReplicaElectionResult(topic=topic, partition_result=tuple(results)))
        if len(records) > RECORDS_MAX:
            raise Refused(
                ErrorCode.POLICY_VIOLATION,
                "Unable to perform excessively large batch operation.",
            )
        yield LOOK_COST
    response = wire.ElectLeadersResponse(
        error_code=ErrorCode.NONE, replica_election_results=tuple(answers)
    )
    return Decision(records, response)


def wanted_partitions(
    image: MetadataImage, request: wire.ElectLeadersRequest
) -> Iterator[tuple[str, Iterable[int]]]:
    """By topic; all there are if none is named."""
    if request.topic_partitions is None:
        return ((topic.name, topic.partitions) for topic in image.topics.values())
    return ((one.topic, one.partitions) for one in request.topic_partitions)


def refused_all(
    request: wire.ElectLeadersRequest, refused: Refused
) -> Slices[tuple[wire.ReplicaElectionResult, ...]]:
    answers: list[wire.ReplicaElectionResult] = []
    for one in request.topic_partitions or ():
        results = tuple(
            wire.PartitionResult(
                partition_id=number, error_code=refused.code, error_message=refused.message
            )
            for number in one.partitions
        )
        answers.append(wire.ReplicaElectionResult(topic=one.topic, partition_result=results))
        yield LOOK_COST + len(results)
    return tuple(answers)


def elect(changes: PartitionChanges, topic_name: str, number: int, kind: ElectionType) -> Message:
    """The record that makes somebody else lead, or Refused."""
    topic = changes.image.topic(topic_name)
    if topic is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic_name}")
    state = changes.find(topic.topic_id, number)
    if state is None:
        raise Refused(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic_name}-{number}"
        )
    is_needed = (
        state.leader == NO_LEADER
        if kind is ElectionType.UNCLEAN
        else state.leader != state.replicas[0]
    )
    if not is_needed:
        raise Refused(
            ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
        )
    election = Election.UNCLEAN if kind is ElectionType.UNCLEAN else Election.PREFERRED
    place = TopicPartition(topic.topic_id, number)
    record = changes.build(place, state, NO_TARGET, election)
    if record is None:
        raise Refused(*NOT_AVAILABLE[kind])
    changes.replay(state, record)
    return record


def imbalanced_partitions(image: MetadataImage, percentage: int) -> Slices[list[TopicPartition]]:
    """Those that another leads than the preferred replica; but not where that is so of no more
    than a percentage of the partitions that a broker should lead. To find them takes a look at
    all partitions: whoever decides then looks again at these."""
    found: dict[TopicPartition, PartitionState] = {}
    preferred: Counter[int] = Counter()
    led_by_others: Counter[int] = Counter()
    for topic in image.topics.values():
        for number, state in topic.partitions.items():
            first = state.replicas[0]
            preferred[first] += 1
            led_by_others[first] += state.leader != first
            if is_imbalanced(image, state):
                found[TopicPartition(topic.topic_id, number)] = state
            yield 1
        yield 1
    tolerated = {
        broker_id
        for broker_id, count in led_by_others.items()
        if count * 100 <= percentage * preferred[broker_id]
    }
    places: list[TopicPartition] = []
    for place, state in found.items():
        if state.replicas[0] not in tolerated or is_in_want(image, state):
            places.append(place)
        yield 1
    return places


def is_imbalanced(image: MetadataImage, state: PartitionState) -> bool:
    """Whether the preferred replica does not lead, and a look at the partition may change
    something: it could lead, or nobody does, or a move could end."""
    first = state.replicas[0]
    if state.leader == first:
        return False
    could_lead = first in state.isr and image.is_active(first)
    return could_lead or is_in_want(image, state)


def is_in_want(image: MetadataImage, state: PartitionState) -> bool:
    """Of a leader, or of the end of a move."""
    return not image.is_active(state.leader) or state.is_reassigning


def elect_preferred(
    image: MetadataImage, places: Sequence[TopicPartition], config: BrokerConfig
) -> Slices[Decision[int]]:
    """The preferred replicas lead again, where they still can; how many."""
    changes = PartitionChanges(image, config)
    records: list[Message] = []
    for place in places:
        state = image.partition_by_id(*place)
        if state is not None and is_imbalanced(image, state):
            record = changes.build(place, state, NO_TARGET, Election.PREFERRED)
            if record is not None:
                records.append(record)
        yield CHANGE_COST
    return Decision(records, len(records))


def elect_unclean(image: MetadataImage, config: BrokerConfig) -> Slices[Decision[int]]:
    """Whoever is alive leads, where nobody does and the topic prefers that; how many. (The topic
    may have been changed after its last leader died, and no broker has come or gone since.)"""
    changes = PartitionChanges(image, config)
    records: list[Message] = []
    for place, state in image.leaderless_partitions():
        if len(records) == ELECTIONS_MAX:
            break
        if changes.rules(place.topic_id).may_elect_unclean:
            record = changes.build(place, state, NO_TARGET, Election.UNCLEAN)
            if record is not None:
                records.append(record)
            yield CHANGE_COST
        yield LOOK_COST
    return Decision(records, len(records))
