"""UpdateFeatures: the levels that the whole cluster agrees on."""

from __future__ import annotations

from enum import IntEnum

from tidelog.controller.decision import Decision, Refused
from tidelog.errors import ErrorCode
from tidelog.metadata.features import FEATURES, KRAFT_VERSION, METADATA_VERSION
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.cluster import FeatureLevelRecord
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


def update_features(
    image: MetadataImage, request: UpdateFeaturesRequest, node_id: int
) -> Decision[UpdateFeaturesResponse]:
    """All or nothing: the first feature that cannot change refuses the request."""
    records: list[Message] = []
    try:
        for update in request.feature_updates:
            require_possible(image, update, node_id)
            if update.feature == KRAFT_VERSION:
                require_quorum_unchanged(update, request.validate_only)
            elif update.max_version_level != image.feature_level(update.feature):
                records.append(
                    FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
                )
    except Refused as refused:
        message = (
            "The update failed for all features since the following feature had an error:"
            f" {refused.message}"
        )
        return Decision([], UpdateFeaturesResponse(error_code=refused.code, error_message=message))
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


def require_quorum_unchanged(update: FeatureUpdateKey, validate_only: bool) -> None:
    """kraft.version is a control record of the quorum, not one of the controller's."""
    if update.max_version_level and not validate_only:
        raise Refused(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {update.max_version_level} for feature {KRAFT_VERSION}."
            " The voters of this quorum come from controller.quorum.voters.",
        )


def require_possible(image: MetadataImage, update: FeatureUpdateKey, node_id: int) -> None:
    name, level = update.feature, update.max_version_level
    refusal = complaint(image, name, level, node_id) or direction(image, update)
    if refusal is not None:
        refusal = f"Invalid update version {level} for feature {name}. {refusal}"
    elif name == METADATA_VERSION and level < image.metadata_version:
        why = (
            "Unsafe metadata downgrade is not supported in this version."
            if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE
            else "Refusing to perform the requested downgrade because it might delete metadata"
            " information."
        )
        refusal = (
            f"Unsupported metadata.version downgrade from {image.metadata_version} to {level}."
            f" {why}"
        )
    if refusal is not None:
        raise Refused(ErrorCode.INVALID_UPDATE_VERSION, refusal)


def complaint(image: MetadataImage, name: str, level: int, node_id: int) -> str | None:
    """Who does not understand this level."""
    supported = FEATURES.get(name)
    if supported is None:
        return f"Local controller {node_id} does not support this feature."
    if level < 0:
        return "A feature version cannot be less than 0."
    if name == KRAFT_VERSION and level == 0:
        return None
    if not supported.level_min <= level <= supported.level_max:
        return (
            f"Local controller {node_id} only supports versions"
            f" {supported.level_min}-{supported.level_max}"
        )
    for broker in image.brokers.values():
        for one in broker.features:
            outside = not one.min_supported_version <= level <= one.max_supported_version
            if one.name == name and outside:
                return (
                    f"Broker {broker.broker_id} only supports versions"
                    f" {one.min_supported_version}-{one.max_supported_version}"
                )
    return None


def direction(image: MetadataImage, update: FeatureUpdateKey) -> str | None:
    """Whether the caller allowed to go where this goes."""
    current = image.feature_level(update.feature)
    # Version 0 of the request said it by a flag.
    kind = UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if kind not in tuple(UpgradeType)[1:]:
        return "The controller does not support the given upgrade type."
    if update.max_version_level < current and kind == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade."
        )
    if update.max_version_level > current and kind != UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None
