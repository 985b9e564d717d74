"""BrokerRegistration and ControllerRegistration: a process makes itself known."""

from __future__ import annotations

from tidelog.config.broker import BrokerConfig
from tidelog.controller.brokers import shutdown_records
from tidelog.controller.decision import Decision, Refused
from tidelog.controller.directories import DIRECTORIES_SINCE
from tidelog.errors import ErrorCode
from tidelog.metadata.features import KRAFT_VERSION, METADATA_VERSION
from tidelog.metadata.format import is_reserved
from tidelog.metadata.image import Broker, MetadataImage
from tidelog.metadata.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from tidelog.slices import Slices
from tidelog.types import Offset
from tidelog.wire.declare import Message
from tidelog.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tidelog.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

CONTROLLERS_REGISTER_SINCE = 15
"""The metadata.version (3.7-IV0) that knows of controllers' registrations."""


def register_broker(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    config: BrokerConfig,
    *,
    cluster_id: str,
    next_offset: Offset,
    has_valid_session: bool,
    kraft_version: int = 0,
) -> Slices[Decision[BrokerRegistrationResponse]]:
    """Its broker epoch is the offset at which the controller writes next: unique, and higher than
    all before. A valid session is one of the process that is registered by this id now."""
    try:
        require_registrable(image, request, cluster_id, has_valid_session, kraft_version)
    except Refused as refused:
        return Decision([], BrokerRegistrationResponse(error_code=refused.code))
    existing = image.brokers.get(request.broker_id)
    records: list[Message] = []
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        record = registration_record(request, existing.broker_epoch, existing)
    else:
        # Who was unregistered may still be in an ELR, and nobody knows how it stopped.
        was_clean = existing is not None and request.previous_broker_epoch == existing.broker_epoch
        records = yield from shutdown_records(image, request.broker_id, config, was_clean=was_clean)
        record = registration_record(request, next_offset, None)
    response = BrokerRegistrationResponse(
        error_code=ErrorCode.NONE, broker_epoch=record.broker_epoch
    )
    return Decision([*records, record], response, is_atomic=False)


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
    kraft_version: int,
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
    if image.metadata_version >= DIRECTORIES_SINCE:
        require_directories(image, request)
    ranges = {
        one.name: (one.min_supported_version, one.max_supported_version) for one in request.features
    }
    if METADATA_VERSION not in ranges:
        raise Refused(ErrorCode.INVALID_REGISTRATION)
    # A feature that is finalized must be understood; one that is not counts as level 0.
    levels = dict(image.features.items()) | {KRAFT_VERSION: kraft_version}
    for name in [*levels, *ranges]:
        least, most = ranges.get(name, (0, 0))
        if not least <= levels.get(name, 0) <= most:
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
    image: MetadataImage, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """Every start of a controller is written down, whatever it says of itself."""
    if image.metadata_version < CONTROLLERS_REGISTER_SINCE:
        refused = ControllerRegistrationResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            error_message="The current MetadataVersion is too old to support controller"
            " registrations.",
        )
        return Decision([], refused)
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
