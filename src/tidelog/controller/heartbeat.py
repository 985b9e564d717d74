"""BrokerHeartbeat: where a broker is in its life, and where it goes from there."""

from __future__ import annotations

from enum import Enum

from tidelog.config.broker import BrokerConfig
from tidelog.controller.brokers import begin_controlled_shutdown, fence, unfence
from tidelog.controller.decision import CHANGE_COST, Decision
from tidelog.controller.directories import cordon_directories, directories_offline
from tidelog.controller.partitions import leads_any
from tidelog.errors import ErrorCode
from tidelog.metadata.delta import replay
from tidelog.metadata.image import Broker, MetadataImage
from tidelog.slices import Slices
from tidelog.types import Offset
from tidelog.wire.declare import Message
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class BrokerState(Enum):
    """As the controller sees it."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


NOT_STOPPING: Offset = -1


def state_of(broker: Broker, shutdown_offset: Offset) -> BrokerState:
    if broker.fenced:
        return BrokerState.FENCED
    if shutdown_offset != NOT_STOPPING:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.UNFENCED


def heartbeat(
    image: MetadataImage,
    request: BrokerHeartbeatRequest,
    config: BrokerConfig,
    *,
    shutdown_offset: Offset = NOT_STOPPING,
    active_offset_min: Offset = -1,
) -> Slices[Decision[BrokerHeartbeatResponse]]:
    """The answer, and what changes with it. The offsets are of sessions, so the caller's to keep:
    of the last record that took this broker's leaderships (since it was unfenced), and what every
    active broker has read."""
    broker = image.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch:
        stale = BrokerHeartbeatResponse(
            error_code=ErrorCode.STALE_BROKER_EPOCH, should_shut_down=False
        )
        return Decision([], stale)
    before = state_of(broker, shutdown_offset)
    all_know = active_offset_min >= shutdown_offset
    after = yield from next_state(image, broker, request, before, all_know=all_know)
    online = [one for one in broker.log_dirs if one not in request.offline_log_dirs]
    records = yield from directories_offline(image, broker.broker_id, online, config)
    for offset, record in enumerate(records, image.offset + 1):
        # Nobody is to be elected where its directory has just failed.
        image = replay(image, record, offset, image.epoch)
        yield CHANGE_COST
    if after is not before:
        records += yield from transition(image, broker.broker_id, after, config)
    records += cordon_directories(image, broker.broker_id, request.cordoned_log_dirs)
    response = BrokerHeartbeatResponse(
        error_code=ErrorCode.NONE,
        is_caught_up=request.current_metadata_offset >= broker.registered_at,
        is_fenced=after in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=after is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(records, response, is_atomic=False)


def next_state(
    image: MetadataImage,
    broker: Broker,
    request: BrokerHeartbeatRequest,
    before: BrokerState,
    *,
    all_know: bool,
) -> Slices[BrokerState]:
    """What a heartbeat leads to. A broker that stops may go once all active brokers know that it
    leads nothing any more."""
    match before:
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
            leads = yield from leads_any(image, broker.broker_id)
            return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
        case _:
            leads = yield from leads_any(image, broker.broker_id)
            if leads or not all_know:
                return BrokerState.CONTROLLED_SHUTDOWN
            return BrokerState.SHUTDOWN_NOW


def transition(
    image: MetadataImage, broker_id: int, after: BrokerState, config: BrokerConfig
) -> Slices[list[Message]]:
    """The records by which a broker comes to another state."""
    match after:
        case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW:
            return (yield from fence(image, broker_id, config))
        case BrokerState.UNFENCED:
            return (yield from unfence(image, broker_id, config))
        case BrokerState.CONTROLLED_SHUTDOWN:
            return (yield from begin_controlled_shutdown(image, broker_id, config))
