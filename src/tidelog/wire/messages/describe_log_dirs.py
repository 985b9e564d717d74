"""Shows a broker's log directories and the replicas in them."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, int64, since


class DescribableLogDirTopic(Struct):
    topic: str
    partitions: tuple[int32, ...]


class DescribeLogDirsRequest(Message, key=35):
    topics: tuple[DescribableLogDirTopic, ...] | None


class DescribeLogDirsPartition(Struct):
    partition_index: int32
    partition_size: int64
    offset_lag: int64
    is_future_key: bool


class DescribeLogDirsTopic(Struct):
    name: str
    partitions: tuple[DescribeLogDirsPartition, ...]


class DescribeLogDirsResult(Struct):
    error_code: int16
    log_dir: str
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: int64 = since(4, default=-1, ignorable=True)
    usable_bytes: int64 = since(4, default=-1, ignorable=True)
    is_cordoned: bool = since(5, default=False, ignorable=True)


class DescribeLogDirsResponse(Message, key=35):
    throttle_time_ms: int32 = 0
    error_code: int16 = since(3, default=0, ignorable=True)
    results: tuple[DescribeLogDirsResult, ...]
