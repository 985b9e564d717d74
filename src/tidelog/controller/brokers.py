"""What becomes of the partitions of a broker that is fenced, unfenced, stopped or forgotten."""

from __future__ import annotations

from tidelog.config.broker import BrokerConfig
from tidelog.controller.decision import Decision
from tidelog.controller.partitions import PartitionChanges, in_isr, in_isr_or_elr
from tidelog.errors import ErrorCode
from tidelog.metadata.image import Broker, MetadataImage
from tidelog.metadata.records.brokers import (
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
)
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages.unregister_broker import UnregisterBrokerResponse

FENCED, UNFENCED = 1, -1

Records = Slices[list[Message]]


def is_stale(image: MetadataImage, broker_id: int, broker_epoch: int) -> bool:
    """Whether a request is from a process that is not, or no longer, the registered one."""
    broker = image.brokers.get(broker_id)
    return broker is None or broker.broker_epoch != broker_epoch


def shutdown_records(
    image: MetadataImage, broker_id: int, config: BrokerConfig, *, was_clean: bool
) -> Records:
    """Before a new incarnation registers: the old one is in no ISR any more. If it did not stop
    cleanly it may have lost what it had not flushed, and is in no ELR either."""
    places = image.partitions_of(broker_id)
    if was_clean or not image.elr_is_on:
        changes = PartitionChanges(image, config, removed=broker_id)
        return (yield from changes.records(places, in_isr(broker_id)))
    changes = PartitionChanges(image, config, unclean_shutdown=broker_id)
    return (yield from changes.records(places, in_isr_or_elr(broker_id)))


def fence(image: MetadataImage, broker_id: int, config: BrokerConfig) -> Records:
    """Out of every ISR, then fenced; always safe, since epochs shut a live one out."""
    broker = image.brokers[broker_id]
    changes = PartitionChanges(image, config, removed=broker_id)
    records = yield from changes.records(image.partitions_of(broker_id), in_isr(broker_id))
    return [*records, change_of(broker, fenced=FENCED)]


def unfence(image: MetadataImage, broker_id: int, config: BrokerConfig) -> Records:
    """In service; partitions without a leader may have one now."""
    broker = image.brokers[broker_id]
    changes = PartitionChanges(image, config, added=broker_id)
    elected = yield from changes.records(image.leaderless_partitions(), lambda _: True)
    return [change_of(broker, fenced=UNFENCED), *elected]


def begin_controlled_shutdown(
    image: MetadataImage, broker_id: int, config: BrokerConfig
) -> Records:
    """It leads nothing more, but serves until all know."""
    broker = image.brokers[broker_id]
    changes = PartitionChanges(image, config, removed=broker_id)
    records = yield from changes.records(image.partitions_of(broker_id), in_isr(broker_id))
    if broker.in_controlled_shutdown:
        return records  # another controller has written that down, and maybe not all of the rest
    return [change_of(broker, in_controlled_shutdown=1), *records]


def unregister_broker(
    image: MetadataImage, broker_id: int, config: BrokerConfig
) -> Slices[Decision[UnregisterBrokerResponse]]:
    """Forget a broker that will not come back. If it does, it starts as one that may have lost
    anything: it leaves the ELRs then."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        refused = UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {broker_id} is not currently registered",
        )
        return Decision([], refused)
    changes = PartitionChanges(image, config, removed=broker_id)
    records = yield from changes.records(image.partitions_of(broker_id), in_isr(broker_id))
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch)
    response = UnregisterBrokerResponse(error_code=ErrorCode.NONE, error_message=None)
    return Decision([*records, gone], response, is_atomic=False)


def change_of(
    broker: Broker, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )
