"""UpdateFeatures: the levels that the whole cluster agrees on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog.config.broker import BrokerConfig
from tidelog.controller.decision import Decision, Refused
from tidelog.controller.registration import CONTROLLERS_REGISTER_SINCE
from tidelog.errors import ErrorCode
from tidelog.metadata.features import ELR_VERSION, FEATURES, KRAFT_VERSION, METADATA_VERSION
from tidelog.metadata.image import BROKER_RESOURCE, MetadataImage
from tidelog.metadata.records.brokers import BrokerFeature, ControllerFeature
from tidelog.metadata.records.cluster import ConfigRecord, FeatureLevelRecord
from tidelog.wire.declare import Message
from tidelog.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class UpgradeType(IntEnum):
    """What the caller allows."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


METADATA_CHANGES = (8, 11, 13, 14, 15, 17, 23, 30)
"""The levels of metadata.version that write what the one before does not understand: to go back
behind one would lose that."""
OFF = (0, 0)
DEPENDENCIES = {(ELR_VERSION, 1): (METADATA_VERSION, 23)}


class Quorum(NamedTuple):
    """What the controller knows of those who have to agree, beside what is in the image."""

    node_id: int
    voter_ids: Sequence[int] = ()
    kraft_version: int = 0


def update_features(
    image: MetadataImage,
    request: UpdateFeaturesRequest,
    config: BrokerConfig,
    *,
    voter_ids: Sequence[int] = (),
    kraft_version: int = 0,
) -> Decision[UpdateFeaturesResponse]:
    """All or nothing: the first feature that cannot change refuses the request. Every broker that
    is registered and every controller must understand what comes."""
    quorum = Quorum(config.node_id, voter_ids, kraft_version)
    proposed = dict(image.features.items())
    proposed |= {update.feature: update.max_version_level for update in request.feature_updates}
    records: list[Message] = []
    try:
        for update in request.feature_updates:
            require_possible(image, update, quorum, proposed)
            if update.feature == KRAFT_VERSION:
                require_no_step_back(update, quorum)
            elif update.max_version_level != image.feature_level(update.feature):
                records.append(
                    FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
                )
    except Refused as refused:
        return refusal_of_all(refused)
    if proposed.get(ELR_VERSION, 0) > 0 and not image.elr_is_on:
        records = [*agreed_min_isr(image, config.min_insync_replicas), *records]
    results = tuple(
        UpdatableFeatureResult(
            # Kafka spells out the lack of an error here, and here alone.
            feature=update.feature,
            error_code=ErrorCode.NONE,
            error_message="NONE",
        )
        for update in request.feature_updates
    )
    response = UpdateFeaturesResponse(
        error_code=ErrorCode.NONE, error_message=None, results=results
    )
    return Decision([] if request.validate_only else records, response)


def agreed_min_isr(image: MetadataImage, min_insync_replicas: int) -> list[Message]:
    """Eligible leader replicas need one least ISR on all nodes: the cluster's, no broker's own."""
    name = "min.insync.replicas"
    records: list[Message] = []
    if name not in image.cluster_configs():
        records.append(
            ConfigRecord(
                resource_type=BROKER_RESOURCE,
                resource_name="",
                name=name,
                value=str(min_insync_replicas),
            )
        )
    for (kind, resource), values in image.configs.items_from((BROKER_RESOURCE, "")):
        if kind != BROKER_RESOURCE:
            break
        if resource and name in values:
            records.append(
                ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=None)
            )
    return records


def refusal_of_all(refused: Refused) -> Decision[UpdateFeaturesResponse]:
    message = (
        "The update failed for all features since the following feature had an error:"
        f" {refused.message}"
    )
    return Decision([], UpdateFeaturesResponse(error_code=refused.code, error_message=message))


def require_no_step_back(update: FeatureUpdateKey, quorum: Quorum) -> None:
    """Who has been told the voters by the log could not do without."""
    if update.max_version_level < quorum.kraft_version:
        raise Refused(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {update.max_version_level} for feature {KRAFT_VERSION}."
            " It can only be raised.",
        )


def wanted_kraft_version(request: UpdateFeaturesRequest) -> int | None:
    """kraft.version is a control record of the quorum, not one of the controller's."""
    if request.validate_only:
        return None
    for update in request.feature_updates:
        if update.feature == KRAFT_VERSION:
            return update.max_version_level
    return None


def require_possible(
    image: MetadataImage, update: FeatureUpdateKey, quorum: Quorum, proposed: Mapping[str, int]
) -> None:
    name, level = update.feature, update.max_version_level
    current = quorum.kraft_version if name == KRAFT_VERSION else image.feature_level(name)
    # Version 0 of the request said it by a flag.
    kind = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if kind not in tuple(UpgradeType)[1:]:
        refusal: str | None = "The controller does not support the given upgrade type."
    elif level < 0:
        refusal = "A feature version cannot be less than 0."
    else:
        refusal = (
            complaint(image, name, level, quorum)
            or direction(level, current, UpgradeType(kind))
            or missing(name, level, proposed)
        )
    if refusal is not None:
        refusal = f"Invalid update version {level} for feature {name}. {refusal}"
    elif name == METADATA_VERSION and any(level < one <= current for one in METADATA_CHANGES):
        why = (
            "Unsafe metadata downgrade is not supported in this version."
            if kind == UpgradeType.UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata"
            " information."
        )
        refusal = f"Unsupported metadata.version downgrade from {current} to {level}. {why}"
    if refusal is not None:
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION, refusal)


def complaint(image: MetadataImage, name: str, level: int, quorum: Quorum) -> str | None:
    """Who does not understand this level."""
    own = FEATURES.get(name)
    ranges = [
        (f"Local controller {quorum.node_id}", (own.level_min, own.level_max) if own else OFF)
    ]
    ranges += [
        (f"Broker {one.broker_id}", supported(one.features, name)) for one in image.brokers.values()
    ]
    if image.metadata_version >= CONTROLLERS_REGISTER_SINCE:
        ranges += [
            (f"Controller {one.controller_id}", supported(one.features, name))
            for one in image.controllers.values()
            if one.controller_id != quorum.node_id
        ]
    for who, (least, most) in ranges:
        if not least <= level <= most:
            if most == 0:
                return f"{who} does not support this feature."
            return f"{who} only supports versions {least}-{most}"
    known = {quorum.node_id, *image.controllers}
    for voter_id in quorum.voter_ids:
        if image.metadata_version >= CONTROLLERS_REGISTER_SINCE and voter_id not in known:
            return f"controller {voter_id} has not registered, and may not support this feature"
    return None


def supported(
    features: Sequence[BrokerFeature] | Sequence[ControllerFeature], name: str
) -> tuple[int, int]:
    """The levels that a node has registered; who does not know a feature has it off."""
    for one in features:
        if one.name == name:
            return one.min_supported_version, one.max_supported_version
    return OFF


def direction(level: int, current: int, kind: UpgradeType) -> str | None:
    """Whether the caller allowed to go where this goes."""
    if level < current and kind is UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade."
        )
    if level > current and kind is not UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def missing(name: str, level: int, proposed: Mapping[str, int]) -> str | None:
    """What else the level needs."""
    if name not in FEATURES:
        return f"Feature {name} not found."
    other, least = DEPENDENCIES.get((name, level), ("", 0))
    if proposed.get(other, 0) < least:
        return f"{name} could not be set to {level} because it depends on {other} level {least}"
    return None
