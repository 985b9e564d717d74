"""A broker tells the controller that it lives, and asks to be unfenced or shut down."""

from __future__ import annotations

from tidelog.types import Uuid
from tidelog.wire.declare import Message, int16, int32, int64, tagged


class BrokerHeartbeatRequest(Message, key=63):
    broker_id: int32
    broker_epoch: int64 = -1
    current_metadata_offset: int64
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: tuple[Uuid, ...] = tagged(0, since=1, default=())
    cordoned_log_dirs: tuple[Uuid, ...] | None = tagged(1, since=2, default=None)


class BrokerHeartbeatResponse(Message, key=63):
    throttle_time_ms: int32 = 0
    error_code: int16
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool
