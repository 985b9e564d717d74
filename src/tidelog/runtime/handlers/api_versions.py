"""ApiVersions: what this node can do, and at which level the cluster does it."""

from __future__ import annotations

import re

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.metadata.features import FEATURES, KRAFT_VERSION
from tidelog.runtime.handlers.role import Role
from tidelog.wire.api import ApiKey
from tidelog.wire.declare import Message
from tidelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from tidelog.wire.request import Request, Served, UnknownVersion

SOFTWARE_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
NAMES_SINCE = 3

PRODUCE_ADVERTISED_MIN = 0
"""librdkafka compresses only if version 0 is in the range, which nobody sends any more."""


def api_versions(request: Request, role: Role, now: Now) -> Message:
    message = request.message
    if isinstance(message, UnknownVersion):
        return refuse_version(role.served)
    assert isinstance(message, ApiVersionsRequest)
    if request.version >= NAMES_SINCE and not (
        SOFTWARE_NAME.fullmatch(message.client_software_name)
        and SOFTWARE_NAME.fullmatch(message.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
    image = role.image
    finalized = dict(image.features.items())
    if role.metadata.kraft_version:
        finalized[KRAFT_VERSION] = role.metadata.kraft_version
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=advertised(role.served),
        supported_features=tuple(
            SupportedFeatureKey(
                name=name,
                # Before version 4 a minimum of 0 makes Java clients fail (KAFKA-17011).
                min_version=(
                    feature.level_min
                    if request.version > NAMES_SINCE
                    else max(feature.level_min, 1)
                ),
                max_version=feature.level_max,
            )
            for name, feature in sorted(FEATURES.items())
        ),
        finalized_features_epoch=image.offset,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in finalized.items()
        ),
    )


def refuse_version(served: Served) -> ApiVersionsResponse:
    """Error 35, with the versions that would have been understood."""
    first, last = served[ApiKey.API_VERSIONS]
    known = ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=first, max_version=last)
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=(known,))


def advertised(served: Served) -> tuple[ApiVersion, ...]:
    return tuple(
        ApiVersion(
            api_key=key,
            min_version=PRODUCE_ADVERTISED_MIN if key == ApiKey.PRODUCE else first,
            max_version=last,
        )
        for key, (first, last) in sorted(served.items())
    )
