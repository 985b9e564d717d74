"""Shows the cluster's id, controller and brokers, or its controllers."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int8, int16, int32, since


class DescribeClusterRequest(Message, key=60):
    include_cluster_authorized_operations: bool
    endpoint_type: int8 = since(1, default=1)
    include_fenced_brokers: bool = since(2, default=False)


class DescribeClusterBroker(Struct):
    broker_id: int32
    host: str
    port: int32
    rack: str | None = None
    is_fenced: bool = since(2, default=False)


class DescribeClusterResponse(Message, key=60):
    throttle_time_ms: int32 = 0
    error_code: int16
    error_message: str | None = None
    endpoint_type: int8 = since(1, default=1)
    cluster_id: str
    controller_id: int32 = -1
    brokers: tuple[DescribeClusterBroker, ...]
    cluster_authorized_operations: int32 = -2147483648
