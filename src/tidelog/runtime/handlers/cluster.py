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
    image = role.image
    is_controllers = role.listener in role.config.controller_names
    here = CONTROLLERS_ENDPOINT if is_controllers else BROKERS_ENDPOINT
    if message.endpoint_type != here:
        return _wrong_endpoint(message.endpoint_type, here, request.version)
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        endpoint_type=here,
        cluster_id=role.cluster_id,
        controller_id=role.node_id,
        brokers=tuple(
            DescribeClusterBroker(broker_id=b.node_id, host=b.host, port=b.port, rack=b.rack)
            for b in (_controllers(role) if is_controllers else brokers(image, role.listener))
        ),
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


def _controllers(role: Role) -> list[MetadataResponseBroker]:
    """Those that have registered, at the address of the listener that the client came by."""
    return [
        MetadataResponseBroker(node_id=controller_id, host=endpoint.host, port=endpoint.port)
        for controller_id, controller in role.image.controllers.items()
        for endpoint in controller.end_points
        if endpoint.name == role.listener
    ]
