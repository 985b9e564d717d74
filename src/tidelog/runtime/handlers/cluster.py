"""DescribeCluster: who is there, brokers or controllers."""

from __future__ import annotations

from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.metadata.image import MetadataImage
from tidelog.runtime.handlers.role import Role
from tidelog.wire.declare import Message
from tidelog.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tidelog.wire.messages.metadata import MetadataResponseBroker
from tidelog.wire.request import Request

BROKERS_ENDPOINT = 1
CONTROLLERS_ENDPOINT = 2
ENDPOINTS = {BROKERS_ENDPOINT: "BROKER", CONTROLLERS_ENDPOINT: "CONTROLLER"}
NOT_ASKED = -(1 << 31)
CLUSTER_ALL = 8096
"""Every operation on a cluster, a bit each: without authorization all may all."""


def brokers(image: MetadataImage, listener: str) -> tuple[MetadataResponseBroker, ...]:
    """The live brokers, at the address of the listener that the client came by."""
    found = []
    for alive in image.alive_brokers():
        endpoint = alive.endpoint(listener)
        if endpoint is not None:
            found.append(
                MetadataResponseBroker(
                    node_id=alive.broker_id,
                    host=endpoint.host,
                    port=endpoint.port,
                    rack=alive.rack,
                )
            )
    return tuple(found)


def describe_cluster(request: Request, role: Role, now: Now) -> Message:
    message = request.message
    assert isinstance(message, DescribeClusterRequest)
    is_controllers = role.listener in role.config.controller_names
    here = CONTROLLERS_ENDPOINT if is_controllers else BROKERS_ENDPOINT
    if message.endpoint_type != here:
        return _wrong_endpoint(message.endpoint_type, here, request.version)
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        endpoint_type=here,
        cluster_id=role.cluster_id,
        # Whoever asks a broker is to send it, as any other, what is for the controller.
        controller_id=role.metadata.leader_id if is_controllers else role.node_id,
        brokers=_controllers(role) if is_controllers else _brokers(role, message),
        cluster_authorized_operations=(
            CLUSTER_ALL if message.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


def _wrong_endpoint(asked: int, here: int, version: int) -> DescribeClusterResponse:
    code, text = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {asked}"
    if asked in ENDPOINTS:
        # A client of version 0 would not know the code.
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if version else ErrorCode.INVALID_REQUEST
        text = (
            f"The request was sent to an endpoint of type {ENDPOINTS[here]},"
            f" but we wanted an endpoint of type {ENDPOINTS[asked]}"
        )
    return DescribeClusterResponse(error_code=code, error_message=text, cluster_id="", brokers=())


def _brokers(role: Role, message: DescribeClusterRequest) -> tuple[DescribeClusterBroker, ...]:
    """At the address of the listener that the client came by."""
    return tuple(
        DescribeClusterBroker(
            broker_id=broker.broker_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker in role.image.brokers.values()
        if message.include_fenced_brokers or not broker.fenced
        if (endpoint := broker.endpoint(role.listener)) is not None
    )


def _controllers(role: Role) -> tuple[DescribeClusterBroker, ...]:
    """Those that have registered, at the address of the listener that the client came by."""
    return tuple(
        DescribeClusterBroker(broker_id=controller_id, host=endpoint.host, port=endpoint.port)
        for controller_id, controller in role.image.controllers.items()
        for endpoint in controller.end_points
        if endpoint.name == role.listener
    )
