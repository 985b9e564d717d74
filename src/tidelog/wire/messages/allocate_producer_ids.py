"""A broker fetches a block of producer ids from the controller."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16, int32, int64


class AllocateProducerIdsRequest(Message, key=67):
    broker_id: int32
    broker_epoch: int64 = -1


class AllocateProducerIdsResponse(Message, key=67):
    throttle_time_ms: int32 = 0
    error_code: int16
    producer_id_start: int64
    producer_id_len: int32
