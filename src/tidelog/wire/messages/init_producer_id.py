"""Gives a producer its id and epoch; with a transactional id, fences its predecessors."""

from __future__ import annotations

from tidelog.wire.declare import Message, int16, int32, int64, since


class InitProducerIdRequest(Message, key=22):
    transactional_id: str | None
    transaction_timeout_ms: int32
    producer_id: int64 = since(3, default=-1)
    producer_epoch: int16 = since(3, default=-1)
    enable2_pc: bool = since(6, default=False)
    keep_prepared_txn: bool = since(6, default=False)


class InitProducerIdResponse(Message, key=22):
    throttle_time_ms: int32 = 0
    error_code: int16
    producer_id: int64 = -1
    producer_epoch: int16
    ongoing_txn_producer_id: int64 = since(6, default=-1)
    ongoing_txn_producer_epoch: int16 = since(6, default=-1)
