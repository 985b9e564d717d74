"""Adds a group's offsets to a transaction."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16, int32, int64


class AddOffsetsToTxnRequest(Message, key=25):
    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    group_id: str


class AddOffsetsToTxnResponse(Message, key=25):
    throttle_time_ms: int32 = 0
    error_code: int16
