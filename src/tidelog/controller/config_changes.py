"""Changes of configs: IncrementalAlterConfigs, AlterConfigs, and those of a new topic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog.config.broker import (
    BROKER_KEYS,
    READ_AT_START,
    BrokerConfig,
    is_unused,
    unknown,
)
from tidelog.config.definition import ConfigType, InvalidConfig, UpdateMode, parse_decimal
from tidelog.config.replication_rates import MOVES_RATE, RATE_KEYS
from tidelog.config.topic import TOPIC_KEYS, VALUE_LENGTH_MAX, validate_topic_configs
from tidelog.controller.decision import TOPIC_COST, Decision, Refused
from tidelog.controller.describe_configs import NODE_ID_BITS, require_own_id
from tidelog.controller.effective_configs import current_config
from tidelog.controller.names import require_legal_name
from tidelog.errors import ErrorCode
from tidelog.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from tidelog.metadata.records.cluster import ConfigRecord
from tidelog.metadata.records.topics import ClearElrRecord
from tidelog.slices import Slices
from tidelog.wire.declare import Message
from tidelog.wire.messages import alter_configs as replacing
from tidelog.wire.messages import incremental_alter_configs as incremental
from tidelog.wire.messages.create_topics import CreatableTopic

MIN_INSYNC_REPLICAS = "min.insync.replicas"
CORDONED_LOG_DIRS = "cordoned.log.dirs"


class Operation(IntEnum):
    """Of IncrementalAlterConfigs. The last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Resource(NamedTuple):
    """What has configs."""

    kind: int
    name: str


Changes = Mapping[str, str | None]
"""New values by name; None removes one."""


def alter_configs_incrementally(
    image: MetadataImage,
    request: incremental.IncrementalAlterConfigsRequest,
    config: BrokerConfig,
    *,
    node_id: int | None = None,
) -> Slices[Decision[incremental.IncrementalAlterConfigsResponse]]:
    """Each resource changes as a whole or not at all. With a node id, only that broker's own
    resource may be named: brokers check that before they forward."""
    records: list[Message] = []
    responses = []
    times = Counter((one.resource_type, one.resource_name) for one in request.resources)
    for wanted in request.resources:
        yield TOPIC_COST
        resource = Resource(wanted.resource_type, wanted.resource_name)
        code, message = ErrorCode.NONE, None
        try:
            require_once(times[resource])
            names = [one.name for one in wanted.configs]
            require_sound(names, [one for one in wanted.configs if is_null_where_not(one)])
            check_resource(image, resource, node_id)
            changes = {one.name: operated(image, resource, one) for one in wanted.configs}
            records += decide(image, resource, changes, config)
        except Refused as refused:
            code, message = refused.code, refused.message
        responses.append(
            incremental.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.kind,
                resource_name=resource.name,
            )
        )
    response = incremental.IncrementalAlterConfigsResponse(responses=tuple(responses))
    return Decision([] if request.validate_only else records, response)


def alter_configs(
    image: MetadataImage,
    request: replacing.AlterConfigsRequest,
    config: BrokerConfig,
    *,
    node_id: int | None = None,
) -> Slices[Decision[replacing.AlterConfigsResponse]]:
    """What is not named goes back to its default."""
    records: list[Message] = []
    responses = []
    times = Counter((one.resource_type, one.resource_name) for one in request.resources)
    for wanted in request.resources:
        yield TOPIC_COST
        resource = Resource(wanted.resource_type, wanted.resource_name)
        code, message = ErrorCode.NONE, None
        try:
            require_once(times[resource])
            names = [one.name for one in wanted.configs]
            require_sound(names, [one for one in wanted.configs if one.value is None])
            check_resource(image, resource, node_id)
            before = image.configs_of(*resource)
            changes: dict[str, str | None] = dict.fromkeys(set(before) - set(names))
            changes |= {one.name: one.value for one in wanted.configs}
            records += decide(image, resource, dict(sorted(changes.items())), config)
        except Refused as refused:
            code, message = refused.code, refused.message
        responses.append(
            replacing.AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.kind,
                resource_name=resource.name,
            )
        )
    response = replacing.AlterConfigsResponse(responses=tuple(responses))
    return Decision([] if request.validate_only else records, response)


def created_topic_configs(
    image: MetadataImage, topic: CreatableTopic, config: BrokerConfig
) -> list[Message]:
    """The records of a new topic's configs, or Refused."""
    changes = {one.name: one.value for one in topic.configs}
    nulls = [one.name for one in topic.configs if one.value is None]
    if nulls:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(nulls)}",
        )
    return decide(image, Resource(TOPIC_RESOURCE, topic.name), changes, config)


def require_once(times: int) -> None:
    if times > 1:
        raise Refused(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def is_null_where_not(one: incremental.AlterableConfig) -> bool:
    return one.value is None and one.config_operation != Operation.DELETE


def require_sound(
    names: Sequence[str],
    nulls: Sequence[incremental.AlterableConfig] | Sequence[replacing.AlterableConfig],
) -> None:
    """The shape of a request, whatever it is about."""
    if len(set(names)) < len(names):
        raise Refused(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls:
        listed = ",".join(one.name for one in nulls)
        raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {listed}")


def check_resource(image: MetadataImage, resource: Resource, node_id: int | None) -> None:
    """Whether there is such a resource; Refused if not."""
    if resource.kind == TOPIC_RESOURCE:
        if not resource.name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        require_legal_name(resource.name)
        if resource.name not in image.topics:
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"The topic '{resource.name}' does not exist.",
            )
    elif resource.kind == BROKER_RESOURCE:
        if not resource.name:
            return
        if node_id is not None:
            require_own_id(resource.name, node_id)
        broker_id = parse_decimal(resource.name, NODE_ID_BITS)
        if broker_id is None:
            raise Refused(
                ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number."
            )
        if broker_id < 0:
            raise Refused(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
        if broker_id not in image.brokers:
            raise Refused(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {resource.name} found."
            )
    else:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.kind}")


def operated(
    image: MetadataImage, resource: Resource, wanted: incremental.AlterableConfig
) -> str | None:
    """The new value of one config; None removes it."""
    match wanted.config_operation:
        case 0:  # SET
            return wanted.value
        case 1:  # DELETE
            return None
        case 2 | 3:
            return changed_list(image, resource, wanted)
        case other:
            # What Kafka's brokers look at themselves they refuse; its controller stumbles.
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            if resource.kind == BROKER_RESOURCE:
                code = ErrorCode.INVALID_REQUEST
            raise Refused(code, f"Unknown operation type {other}")


def changed_list(
    image: MetadataImage, resource: Resource, wanted: incremental.AlterableConfig
) -> str:
    """A list with items more or less, from what is set or else from the default."""
    keys = TOPIC_KEYS if resource.kind == TOPIC_RESOURCE else BROKER_KEYS
    key = keys.get(wanted.name)
    operation = Operation(wanted.config_operation)
    if key is None or key.type is not ConfigType.LIST:
        allowed = " (allowed: SET and DELETE)" if key is not None else ""
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"Can't {operation.name} to key {wanted.name} because its type is not LIST.{allowed}",
        )
    current = image.configs_of(*resource).get(wanted.name, key.default_text)
    items = [item for item in (current or "").split(",") if item]
    assert wanted.value is not None
    for item in wanted.value.split(","):
        if operation is Operation.APPEND and item not in items:
            items.append(item)
        elif operation is Operation.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def decide(
    image: MetadataImage, resource: Resource, changes: Changes, config: BrokerConfig
) -> list[Message]:
    """The records of a resource's new values, or Refused."""
    require_min_isr_transition(image, resource, changes)
    before = image.configs_of(*resource)
    after = {name: value for name, value in {**before, **changes}.items() if value is not None}
    try:
        if resource.kind == TOPIC_RESOURCE:
            validate_topic_configs(after, current_config(image, config).topic_defaults())
        else:
            validate_broker_changes(resource, changes)
            if CORDONED_LOG_DIRS in changes and resource.name == str(config.node_id):
                validate_cordons(config, after)
    except InvalidConfig as invalid:
        raise Refused(ErrorCode.INVALID_CONFIG, str(invalid)) from None
    records: list[Message] = [
        ConfigRecord(
            resource_type=resource.kind, resource_name=resource.name, name=name, value=value
        )
        for name, value in changes.items()
        # A broker's value is written even if it is the same: it makes brokers look again.
        if before.get(name) != value or resource.kind == BROKER_RESOURCE
    ]
    touches_min_isr = any(
        isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS
        for record in records
    )
    if touches_min_isr and image.elr_is_on:
        records.append(
            ClearElrRecord(topic_name=resource.name if resource.kind == TOPIC_RESOURCE else "")
        )
    return records


def require_min_isr_transition(image: MetadataImage, resource: Resource, changes: Changes) -> None:
    """With eligible leader replicas all nodes must agree on the least ISR (KIP-966)."""
    if (
        not image.elr_is_on
        or resource.kind != BROKER_RESOURCE
        or MIN_INSYNC_REPLICAS not in changes
    ):
        return
    if resource.name:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        )
    if changes[MIN_INSYNC_REPLICAS] is None:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
        )


def validate_broker_changes(resource: Resource, changes: Changes) -> None:
    """Only keys that may change at this level, to values that they may hold."""
    if changes.get(MOVES_RATE) is not None:
        raise InvalidConfig(
            f"{MOVES_RATE} has no effect here, yet: replicas stay in their directories"
        )
    for name, key in RATE_KEYS.items():
        rate = changes.get(name)
        if rate is not None:
            key.parse(rate)
    changes = {
        name: value
        for name, value in changes.items()
        if name not in RATE_KEYS and name != MOVES_RATE
    }
    for name in changes:
        if is_unused(name):
            raise InvalidConfig(f"{name} of Kafka's has no meaning here, and cannot be changed")
        if name not in BROKER_KEYS:
            raise InvalidConfig(unknown(name))
    fixed = [name for name in changes if BROKER_KEYS[name].mode is UpdateMode.READ_ONLY]
    if fixed:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: [{', '.join(sorted(fixed))}]",
        )
    single = [name for name in changes if BROKER_KEYS[name].mode is UpdateMode.PER_BROKER]
    if single and not resource.name:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" [{', '.join(sorted(single))}]",
        )
    for name, value in changes.items():
        if value is None:
            continue
        if name in READ_AT_START:
            raise InvalidConfig(
                f"{name} cannot be changed while the node runs, yet: change it in the node's file,"
                " and start the node again"
            )
        if len(value.encode()) > VALUE_LENGTH_MAX:
            raise InvalidConfig(
                f"The configuration value for {name} is longer than {VALUE_LENGTH_MAX} bytes"
            )
        BROKER_KEYS[name].parse(value)


def validate_cordons(config: BrokerConfig, own: Mapping[str, str]) -> None:
    """Only a broker itself knows its directories: those of another are not looked at."""
    try:
        config.with_dynamic({}, own).validate_cordons()
    except InvalidConfig as invalid:
        raise Refused(ErrorCode.INVALID_REQUEST, str(invalid)) from None
