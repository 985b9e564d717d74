"""AlterPartition: a leader proposes a new ISR; the controller accepts it or says why not."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.config.broker import BrokerConfig
from tidelog.controller.decision import Decision, Refused
from tidelog.controller.partition_change import RECOVERED, RECOVERING, Target
from tidelog.controller.partitions import PartitionChanges
from tidelog.errors import ErrorCode
from tidelog.metadata.delta_topics import merge
from tidelog.metadata.image import MetadataImage, PartitionState, TopicPartition
from tidelog.types import Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages import alter_partition as wire


def alter_partition(
    image: MetadataImage, request: wire.AlterPartitionRequest, config: BrokerConfig
) -> Decision[wire.AlterPartitionResponse]:
    """Each partition by itself; the answer carries what it is after the change."""
    if image.broker_epoch(request.broker_id) != request.broker_epoch:
        stale = wire.AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH, topics=())
        return Decision([], stale)
    changes = PartitionChanges(image, config)
    records: list[Message] = []
    topics = []
    for topic in request.topics:
        answers = []
        for wanted in topic.partitions:
            try:
                record, answer = decide(changes, request.broker_id, topic.topic_id, wanted)
                if record is not None:
                    records.append(record)
            except Refused as refused:
                answer = refusal(wanted.partition_index, refused.code)
            answers.append(answer)
        topics.append(
            wire.AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=tuple(answers))
        )
    response = wire.AlterPartitionResponse(error_code=ErrorCode.NONE, topics=tuple(topics))
    return Decision(records, response)


def refusal(number: int, code: ErrorCode) -> wire.AlterPartitionResponsePartitionData:
    return wire.AlterPartitionResponsePartitionData(
        partition_index=number,
        error_code=code,
        leader_id=0,
        leader_epoch=0,
        isr=(),
        leader_recovery_state=RECOVERED,
        partition_epoch=0,
    )


def decide(
    changes: PartitionChanges,
    broker_id: int,
    topic_id: Uuid,
    wanted: wire.PartitionData,
) -> tuple[Message | None, wire.AlterPartitionResponsePartitionData]:
    image = changes.image
    members = proposed(wanted)
    state = require_current(image, broker_id, topic_id, wanted)
    require_isr(image, state, members, wanted.leader_recovery_state)
    place = TopicPartition(topic_id, wanted.partition_index)
    target = Target(isr=tuple(members), recovery_state=wanted.leader_recovery_state)
    record = changes.change(place, state, target).build()
    if record is None:
        return None, accepted(wanted.partition_index, state)
    after = merge(state, record)
    if after.leader != state.leader and after.leader != broker_id:
        # The change completed a reassignment without the caller: it reads on in the metadata.
        return record, refusal(wanted.partition_index, ErrorCode.NEW_LEADER_ELECTED)
    return record, accepted(wanted.partition_index, after)


def accepted(number: int, state: PartitionState) -> wire.AlterPartitionResponsePartitionData:
    return wire.AlterPartitionResponsePartitionData(
        partition_index=number,
        error_code=ErrorCode.NONE,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        leader_recovery_state=state.leader_recovery_state,
        partition_epoch=state.partition_epoch,
    )


def proposed(wanted: wire.PartitionData) -> dict[int, int]:
    """The brokers of the new ISR, with the epochs that the leader knows them by; -1 is none."""
    if wanted.new_isr_with_epochs:
        return {one.broker_id: one.broker_epoch for one in wanted.new_isr_with_epochs}
    return dict.fromkeys(wanted.new_isr, -1)


def require_current(
    image: MetadataImage,
    broker_id: int,
    topic_id: Uuid,
    wanted: wire.PartitionData,
) -> PartitionState:
    """The partition, if the caller leads it and knows its latest state."""
    if image.topic_by_id(topic_id) is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    state = image.partition_by_id(topic_id, wanted.partition_index)
    if state is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if wanted.leader_epoch > state.leader_epoch or wanted.partition_epoch > state.partition_epoch:
        # The caller knows more: this controller is not, or no longer, the active one.
        raise Refused(ErrorCode.NOT_CONTROLLER)
    if wanted.leader_epoch < state.leader_epoch:
        raise Refused(ErrorCode.FENCED_LEADER_EPOCH)
    if broker_id != state.leader:
        raise Refused(ErrorCode.INVALID_REQUEST)
    if wanted.partition_epoch < state.partition_epoch:
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION)
    return state


def require_isr(
    image: MetadataImage,
    state: PartitionState,
    members: Mapping[int, int],
    recovery_state: int,
) -> None:
    """What an ISR must be, whoever proposes it."""
    if not set(members) <= set(state.replicas) or state.leader not in members:
        raise Refused(ErrorCode.INVALID_REQUEST)
    if recovery_state == RECOVERING and (
        len(members) > 1 or state.leader_recovery_state == RECOVERED
    ):
        raise Refused(ErrorCode.INVALID_REQUEST)
    for broker_id, epoch in members.items():
        # A broker that restarted since may lack what the leader believes it has.
        is_same_process = epoch in (-1, image.broker_epoch(broker_id))
        if not image.is_active(broker_id) or not is_same_process:
            raise Refused(ErrorCode.INELIGIBLE_REPLICA)
