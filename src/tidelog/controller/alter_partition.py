"""AlterPartition: a leader proposes a new ISR; the controller accepts it or says why not."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.config.broker import BrokerConfig
from tidelog.controller.brokers import is_stale
from tidelog.controller.decision import CHANGE_COST, Decision, Refused
from tidelog.controller.partition_change import RECOVERED, RECOVERING, Target
from tidelog.controller.partitions import PartitionChanges
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage, PartitionState, TopicPartition
from tidelog.slices import Slices
from tidelog.types import Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages import alter_partition as wire


def alter_partition(
    image: MetadataImage, request: wire.AlterPartitionRequest, config: BrokerConfig
) -> Slices[Decision[wire.AlterPartitionResponse]]:
    """Each partition by itself; the answer carries what it is after the change."""
    if is_stale(image, request.broker_id, request.broker_epoch):
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
            yield CHANGE_COST
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
    members = proposed(wanted)
    state = require_current(changes, broker_id, topic_id, wanted)
    require_isr(changes.image, state, members, wanted.leader_recovery_state)
    place = TopicPartition(topic_id, wanted.partition_index)
    isr = tuple(member for member, _ in members)
    target = Target(isr=isr, recovery_state=wanted.leader_recovery_state)
    record = changes.build(place, state, target)
    if record is None:
        return None, accepted(wanted.partition_index, state)
    after = changes.replay(state, record)
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


def proposed(wanted: wire.PartitionData) -> Sequence[tuple[int, int]]:
    """The brokers of the new ISR, with the epochs that the leader knows them by; -1 is none."""
    if wanted.new_isr_with_epochs:
        return [(one.broker_id, one.broker_epoch) for one in wanted.new_isr_with_epochs]
    return [(broker_id, -1) for broker_id in wanted.new_isr]


def require_current(
    changes: PartitionChanges,
    broker_id: int,
    topic_id: Uuid,
    wanted: wire.PartitionData,
) -> PartitionState:
    """The partition, if the caller leads it and knows its latest state."""
    if changes.image.topic_by_id(topic_id) is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    state = changes.find(topic_id, wanted.partition_index)
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
    members: Sequence[tuple[int, int]],
    recovery_state: int,
) -> None:
    """What an ISR must be, whoever proposes it."""
    isr = {broker_id for broker_id, _ in members}
    is_valid = len(isr) == len(members) and isr <= set(state.replicas) and state.leader in isr
    # Only RECOVERING may stay what it is: an unclean leader is alone until it has recovered.
    if recovery_state == RECOVERING:
        is_valid &= len(isr) == 1 and state.leader_recovery_state == RECOVERING
    if not is_valid or recovery_state not in (RECOVERED, RECOVERING):
        raise Refused(ErrorCode.INVALID_REQUEST)
    for broker_id, epoch in members:
        # A broker that restarted since may lack what the leader believes it has.
        is_same_process = epoch in (-1, image.broker_epoch(broker_id))
        if not image.is_active(broker_id) or not is_same_process:
            raise Refused(ErrorCode.INELIGIBLE_REPLICA)
