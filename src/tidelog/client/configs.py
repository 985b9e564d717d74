"""Shows and changes the configuration of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog.client.cluster import Cluster
from tidelog.client.errors import Address, BrokerError, ClientError, UnknownBroker
from tidelog.client.routing import Attempts, ask_any, ask_controller, ask_one, refresh
from tidelog.client.steps import Steps
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tidelog.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


class ResourceType(IntEnum):
    """What has a configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from; the most specific one wins."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


class ConfigOperation(IntEnum):
    """How a value changes; the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Resource(NamedTuple):
    """A topic, a broker (its id as text; empty: the default of all) or a group."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        kind = self.type.name.lower().replace("_", " ")
        return f"{kind} {self.name}" if self.name else f"{kind} default"


class Change(NamedTuple):
    """One value that changes."""

    name: str
    operation: ConfigOperation
    value: str | None = None


class Synonym(NamedTuple):
    """A place where the value could come from."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting of a resource."""

    name: str
    value: str | None
    """None: it is sensitive, and brokers do not tell it."""
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]
    documentation: str | None


Described = dict[Resource, tuple[ConfigEntry, ...] | BrokerError]


def describe_configs(
    cluster: Cluster,
    resources: Collection[Resource],
    *,
    names: Sequence[str] | None = None,
    include_documentation: bool = False,
    timeout_ms: int | None = None,
) -> Steps[Described]:
    """The settings of resources, of each those in names (None: all)."""
    attempts = Attempts(cluster, timeout_ms)
    found: Described = {}
    groups = yield from _by_broker(cluster, resources, attempts)
    for address, part in groups.items():
        request = DescribeConfigsRequest(
            resources=tuple(
                DescribeConfigsResource(
                    resource_type=resource.type,
                    resource_name=resource.name,
                    configuration_keys=None if names is None else tuple(names),
                )
                for resource in part
            ),
            include_synonyms=True,
            include_documentation=include_documentation,
        )
        answer: DescribeConfigsResponse | ClientError
        if address is None:
            answer = yield from ask_any(cluster, request, DescribeConfigsResponse, attempts)
        else:
            answer = yield from ask_one(
                cluster, address, request, DescribeConfigsResponse, attempts
            )
            if isinstance(answer, ClientError):
                raise answer
        for result in answer.results:
            resource = Resource(ResourceType(result.resource_type), result.resource_name)
            found[resource] = _entries(resource, result)
    return found


def _by_broker(
    cluster: Cluster, resources: Iterable[Resource], attempts: Attempts
) -> Steps[dict[Address | None, list[Resource]]]:
    """A broker's own settings are known to that broker alone."""
    groups: dict[Address | None, list[Resource]] = {}
    for resource in resources:
        address = None
        if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name:
            if not cluster.brokers:
                yield from refresh(cluster, (), attempts)
            node_id = int(resource.name) if resource.name.isdigit() else -1
            address = cluster.brokers.get(node_id)
            if address is None:
                known = ", ".join(map(str, sorted(cluster.brokers)))
                raise UnknownBroker(f"there is no broker {resource.name}; the brokers are {known}")
        groups.setdefault(address, []).append(resource)
    return groups


def _entries(
    resource: Resource, result: DescribeConfigsResult
) -> tuple[ConfigEntry, ...] | BrokerError:
    if result.error_code:
        return BrokerError(result.error_code, result.error_message, about=str(resource))
    return tuple(_entry(config) for config in sorted(result.configs, key=lambda c: c.name))


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        config.name,
        config.value,
        ConfigSource(config.config_source),
        config.read_only,
        config.is_sensitive,
        tuple(Synonym(s.name, s.value, ConfigSource(s.source)) for s in config.synonyms),
        config.documentation,
    )


def alter_configs(
    cluster: Cluster,
    changes: dict[Resource, Sequence[Change]],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> Steps[dict[Resource, BrokerError | None]]:
    """Change single values, the others stay; of each resource, what was wrong."""
    attempts = Attempts(cluster, timeout_ms)
    results: dict[Resource, BrokerError | None] = {}
    groups = yield from _by_broker(cluster, changes, attempts)
    for address, part in groups.items():
        request = IncrementalAlterConfigsRequest(
            resources=tuple(_alteration(resource, changes[resource]) for resource in part),
            validate_only=validate_only,
        )
        kind = IncrementalAlterConfigsResponse
        answer: IncrementalAlterConfigsResponse | ClientError
        if address is None:
            answer = yield from ask_controller(cluster, request, kind, attempts)
        else:
            answer = yield from ask_one(cluster, address, request, kind, attempts)
            if isinstance(answer, ClientError):
                raise answer
        for result in answer.responses:
            resource = Resource(ResourceType(result.resource_type), result.resource_name)
            code, message = result.error_code, result.error_message
            error = BrokerError(code, message, about=str(resource)) if code else None
            results[resource] = error
    return results


def _alteration(resource: Resource, changes: Sequence[Change]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource.type,
        resource_name=resource.name,
        configs=tuple(
            AlterableConfig(name=c.name, config_operation=c.operation, value=c.value)
            for c in changes
        ),
    )


def list_config_resources(
    cluster: Cluster, types: Collection[ResourceType], *, timeout_ms: int | None = None
) -> Steps[tuple[Resource, ...]]:
    """The resources of these types that have a configuration of their own."""
    attempts = Attempts(cluster, timeout_ms)
    request = ListConfigResourcesRequest(resource_types=tuple(sorted(types)))
    answer = yield from ask_any(cluster, request, ListConfigResourcesResponse, attempts)
    if answer.error_code:
        raise BrokerError(answer.error_code, about="configs")
    return tuple(
        Resource(ResourceType(r.resource_type), r.resource_name) for r in answer.config_resources
    )
