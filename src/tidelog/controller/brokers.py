"""Brokers: registration, heartbeats, fencing, controlled shutdown, unregistering."""

from __future__ import annotations

from enum import Enum

from tidelog.config.broker import BrokerConfig
from tidelog.controller.decision import Decision, Refused
from tidelog.controller.partitions import PartitionChanges, in_isr, in_isr_or_elr, leads_any
from tidelog.errors import ErrorCode
from tidelog.metadata.features import KRAFT_VERSION, METADATA_VERSION
from tidelog.metadata.format import is_reserved
from tidelog.metadata.image import Broker, MetadataImage
from tidelog.metadata.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from tidelog.types import Offset
from tidelog.wire.declare import Message
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tidelog.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

FENCED, UNFENCED = 1, -1


def register_broker(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    config: BrokerConfig,
    *,
    cluster_id: str,
    next_offset: Offset,
    has_valid_session: bool,
) -> Decision[BrokerRegistrationResponse]:
    """A process makes itself known. Its broker epoch is the offset at which the controller
    writes next: unique, and higher than all before."""
    try:
        require_registrable(image, request, cluster_id, has_valid_session)
    except Refused as refused:
        return Decision([], BrokerRegistrationResponse(error_code=refused.code))
    existing = image.brokers.get(request.broker_id)
    records: list[Message] = []
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        record = registration_record(request, existing.broker_epoch, existing)
    else:
        if existing is not None:
            was_clean = request.previous_broker_epoch == existing.broker_epoch
            records += shutdown_records(image, existing.broker_id, config, was_clean=was_clean)
        record = registration_record(request, next_offset, None)
    response = BrokerRegistrationResponse(
        error_code=ErrorCode.NONE, broker_epoch=record.broker_epoch
    )
    return Decision([*records, record], response)


def registration_record(
    request: BrokerRegistrationRequest, epoch: int, same_process: Broker | None
) -> RegisterBrokerRecord:
    """A new process starts fenced; one that registers again stays what it was."""
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(
            BrokerEndpoint(
                name=one.name,
                host=one.host,
                port=one.port,
                security_protocol=one.security_protocol,
            )
            for one in request.listeners
        ),
        features=tuple(
            BrokerFeature(
                name=one.name,
                min_supported_version=one.min_supported_version,
                max_supported_version=one.max_supported_version,
            )
            for one in request.features
        ),
        rack=request.rack,
        fenced=same_process is None or same_process.fenced,
        in_controlled_shutdown=same_process is not None and same_process.in_controlled_shutdown,
        log_dirs=request.log_dirs,
    )


def require_registrable(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    cluster_id: str,
    has_valid_session: bool,
) -> None:
    if request.cluster_id != cluster_id:
        raise Refused(ErrorCode.INCONSISTENT_CLUSTER_ID)
    existing = image.brokers.get(request.broker_id)
    if (
        existing is not None
        and has_valid_session
        and existing.incarnation_id != request.incarnation_id
    ):
        raise Refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION)
    if request.is_migrating_zk_broker:
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED)
    require_directories(image, request)
    ranges = {
        one.name: (one.min_supported_version, one.max_supported_version) for one in request.features
    }
    if METADATA_VERSION not in ranges:
        raise Refused(ErrorCode.INVALID_REGISTRATION)
    # A feature that is finalized must be understood; one that is not counts as level 0.
    for name in {*image.features, *ranges} - {KRAFT_VERSION}:
        least, most = ranges.get(name, (0, 0))
        if not least <= image.feature_level(name) <= most:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)


def require_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    """Each broker has directories of its own: a copied disk must not pass for two."""
    log_dirs = request.log_dirs
    others = {
        directory
        for broker in image.brokers.values()
        if broker.broker_id != request.broker_id
        for directory in broker.log_dirs
    }
    if (
        not log_dirs
        or len(set(log_dirs)) < len(log_dirs)
        or any(is_reserved(directory) for directory in log_dirs)
        or others & set(log_dirs)
    ):
        raise Refused(ErrorCode.INVALID_REGISTRATION)


def register_controller(
    request: ControllerRegistrationRequest,
) -> Decision[ControllerRegistrationResponse]:
    """Every start of a controller is written down; nothing is refused."""
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=tuple(
            ControllerEndpoint(
                name=one.name,
                host=one.host,
                port=one.port,
                security_protocol=one.security_protocol,
            )
            for one in request.listeners
        ),
        features=tuple(
            ControllerFeature(
                name=one.name,
                min_supported_version=one.min_supported_version,
                max_supported_version=one.max_supported_version,
            )
            for one in request.features
        ),
    )
    response = ControllerRegistrationResponse(error_code=ErrorCode.NONE, error_message="")
    return Decision([record], response)


def shutdown_records(
    image: MetadataImage, broker_id: int, config: BrokerConfig, *, was_clean: bool
) -> list[Message]:
    """Before a new incarnation registers: the old one is in no ISR any more. If it did not stop
    cleanly it may have lost what it had not flushed, and is in no ELR either."""
    if was_clean or not image.elr_is_on:
        changes = PartitionChanges(image, config, removed=broker_id)
        return changes.records(in_isr(image, broker_id))
    changes = PartitionChanges(image, config, unclean_shutdown=broker_id)
    return changes.records(in_isr_or_elr(image, broker_id))


def fence(image: MetadataImage, broker_id: int, config: BrokerConfig) -> list[Message]:
    """Out of every ISR, then fenced; always safe, since epochs shut a live one out."""
    broker = image.brokers[broker_id]
    changes = PartitionChanges(image, config, removed=broker_id)
    return [*changes.records(in_isr(image, broker_id)), change_of(broker, fenced=FENCED)]


def unfence(image: MetadataImage, broker_id: int, config: BrokerConfig) -> list[Message]:
    """In service; partitions without a leader may have one now."""
    broker = image.brokers[broker_id]
    changes = PartitionChanges(image, config, added=broker_id)
    return [
        change_of(broker, fenced=UNFENCED),
        *changes.records(image.leaderless_partitions()),
    ]


def begin_controlled_shutdown(
    image: MetadataImage, broker_id: int, config: BrokerConfig
) -> list[Message]:
    """It leads nothing more, but serves until all know."""
    broker = image.brokers[broker_id]
    changes = PartitionChanges(image, config, removed=broker_id)
    return [
        change_of(broker, in_controlled_shutdown=1),
        *changes.records(in_isr(image, broker_id)),
    ]


def unregister_broker(
    image: MetadataImage, broker_id: int, config: BrokerConfig
) -> Decision[ErrorCode]:
    """Forget a broker that will not come back."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return Decision([], ErrorCode.BROKER_ID_NOT_REGISTERED)
    changes = PartitionChanges(image, config, removed=broker_id)
    gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch)
    return Decision([*changes.records(in_isr(image, broker_id)), gone], ErrorCode.NONE)


def change_of(
    broker: Broker, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


class BrokerState(Enum):
    """Where a broker is in its life, as the controller sees it."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


def state_of(broker: Broker) -> BrokerState:
    if broker.fenced:
        return BrokerState.FENCED
    if broker.in_controlled_shutdown:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.UNFENCED


def next_state(
    image: MetadataImage,
    broker: Broker,
    request: BrokerHeartbeatRequest,
    *,
    shutdown_offset: Offset,
    active_offset_min: Offset,
) -> BrokerState:
    """What a heartbeat leads to. A broker that stops may go once every active broker has
    read beyond the record that took its leaderships."""
    leads = leads_any(image, broker.broker_id)
    match state_of(broker):
        case BrokerState.FENCED:
            if request.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            caught_up = request.current_metadata_offset >= broker.registered_at
            may_serve = caught_up and not request.want_fence
            return BrokerState.UNFENCED if may_serve else BrokerState.FENCED
        case BrokerState.UNFENCED:
            if request.want_fence:
                stops = request.want_shut_down
                return BrokerState.SHUTDOWN_NOW if stops else BrokerState.FENCED
            if not request.want_shut_down:
                return BrokerState.UNFENCED
            return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
        case _:
            if leads or active_offset_min < shutdown_offset:
                return BrokerState.CONTROLLED_SHUTDOWN
            return BrokerState.SHUTDOWN_NOW


def heartbeat(
    image: MetadataImage,
    request: BrokerHeartbeatRequest,
    config: BrokerConfig,
    *,
    shutdown_offset: Offset = -1,
    active_offset_min: Offset = -1,
) -> Decision[BrokerHeartbeatResponse]:
    """The answer, and what changes with it. The offsets are the caller's to keep: they are of
    the session, not of the cluster."""
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        stale = BrokerHeartbeatResponse(
            error_code=ErrorCode.STALE_BROKER_EPOCH, should_shut_down=False
        )
        return Decision([], stale)
    before = state_of(broker)
    after = next_state(
        image,
        broker,
        request,
        shutdown_offset=shutdown_offset,
        active_offset_min=active_offset_min,
    )
    records: list[Message] = []
    if after is not before:
        match after:
            case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW:
                records += fence(image, broker.broker_id, config)
            case BrokerState.UNFENCED:
                records += unfence(image, broker.broker_id, config)
            case BrokerState.CONTROLLED_SHUTDOWN:
                records += begin_controlled_shutdown(image, broker.broker_id, config)
    cordoned = request.cordoned_log_dirs
    if cordoned is not None and cordoned != broker.cordoned_log_dirs:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.broker_epoch,
                cordoned_log_dirs=cordoned,
            )
        )
    response = BrokerHeartbeatResponse(
        error_code=ErrorCode.NONE,
        is_caught_up=request.current_metadata_offset >= broker.registered_at,
        is_fenced=after in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=after is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(records, response)
