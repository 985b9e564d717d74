"""Commits or aborts a transaction. From version 5 on it also bumps the producer's epoch."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16, int32, int64, since


class EndTxnRequest(Message, key=26):
    transactional_id: str
    producer_id: int64
    producer_epoch: int16
    committed: bool


class EndTxnResponse(Message, key=26):
    throttle_time_ms: int32 = 0
    error_code: int16
    producer_id: int64 = since(5, default=-1, ignorable=True)
    producer_epoch: int16 = since(5, default=-1, ignorable=True)
