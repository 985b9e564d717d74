"""DescribeConfigs and ListConfigResources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.config.broker import BrokerConfig
from tidelog.config.definition import UpdateMode, parse_decimal
from tidelog.controller.decision import Refused
from tidelog.controller.effective_configs import (
    Entry,
    cluster_default_configs,
    effective_broker_configs,
    effective_topic_configs,
)
from tidelog.controller.names import require_legal_name
from tidelog.errors import ErrorCode
from tidelog.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from tidelog.slices import Slices
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tidelog.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesResponse,
)

RESOURCE_COST = 60
ENTRY_COST = 20
"""Microseconds for a resource, and for each of its configs."""
NODE_ID_BITS = 32
LISTED_RESOURCES = (
    TOPIC_RESOURCE,
    BROKER_RESOURCE,
    BROKER_LOGGER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
)


def describe_configs(
    image: MetadataImage, request: DescribeConfigsRequest, config: BrokerConfig
) -> Slices[DescribeConfigsResponse]:
    """What counts on this broker, as far as it was asked for."""
    results = []
    for resource in request.resources:
        yield RESOURCE_COST
        shown: list[DescribeConfigsResourceResult] = []
        code, message = ErrorCode.NONE, ""  # Kafka's, where others have null
        try:
            entries = entries_of(image, resource, config)
            for entry in chosen(entries, resource):
                shown.append(show(entry, resource, request))
                yield ENTRY_COST
        except Refused as refused:
            code, message = refused.code, refused.message or ""
        results.append(
            DescribeConfigsResult(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=tuple(shown),
            )
        )
    return DescribeConfigsResponse(results=tuple(results))


def entries_of(
    image: MetadataImage, resource: DescribeConfigsResource, config: BrokerConfig
) -> Iterable[Entry]:
    name = resource.resource_name
    match resource.resource_type:
        case 2:  # TOPIC_RESOURCE
            require_legal_name(name)
            if name not in image.topics:
                raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            return effective_topic_configs(image, image.topic_configs(name), config)
        case 4:  # BROKER_RESOURCE
            if not name:
                return cluster_default_configs(image)
            require_own_id(name, config.node_id, called="Broker", or_empty=" or empty string")
            return effective_broker_configs(image, config)
        case other:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {other}")


def require_own_id(name: str, node_id: int, *, called: str = "Node", or_empty: str = "") -> None:
    """A broker only speaks for itself: clients send a broker's resource to that broker."""
    number = parse_decimal(name, NODE_ID_BITS)
    if number is None:
        raise Refused(
            ErrorCode.INVALID_REQUEST, f"{called} id must be an integer, but it is: {name}"
        )
    if number != node_id:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id}{or_empty}, but received {name}",
        )


def chosen(entries: Iterable[Entry], resource: DescribeConfigsResource) -> Iterable[Entry]:
    names = resource.configuration_keys
    return entries if names is None else (entry for entry in entries if entry.name in names)


def show(
    entry: Entry, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    is_broker = resource.resource_type == BROKER_RESOURCE
    synonyms = entry.synonyms if request.include_synonyms else ()
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=is_broker and entry.key.mode is UpdateMode.READ_ONLY,
        config_source=entry.source,
        is_sensitive=entry.key.is_sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=one.name, value=one.value, source=one.source)
            for one in synonyms
        ),
        config_type=entry.key.type,
        documentation=entry.key.documentation if request.include_documentation else None,
    )


def list_config_resources(
    image: MetadataImage, resource_types: Sequence[int]
) -> Slices[ListConfigResourcesResponse]:
    """The resources of these types, of all types if none is named. (Version 0 of the request
    means client metrics: whoever decodes it says so.)"""
    wanted = resource_types or LISTED_RESOURCES
    if not set(wanted) <= set(LISTED_RESOURCES):
        return ListConfigResourcesResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=()
        )
    found: list[ConfigResource] = []
    for kind in sorted(set(wanted)):
        names: Iterable[str]
        if kind == TOPIC_RESOURCE:
            names = image.topics
        elif kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
            names = (str(broker.broker_id) for broker in image.alive_brokers())
        else:
            names = (name for resource, name in image.configs if resource == kind)
        for name in names:
            found.append(ConfigResource(resource_name=name, resource_type=kind))
            yield 1
    return ListConfigResourcesResponse(error_code=ErrorCode.NONE, config_resources=tuple(found))
