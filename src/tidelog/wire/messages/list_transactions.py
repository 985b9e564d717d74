"""Lists the transactions that a broker coordinates."""

from __future__ import annotations

from tidelog.wire.declare import Message, Struct, int16, int32, int64, since


class ListTransactionsRequest(Message, key=66):
    state_filters: tuple[str, ...]
    producer_id_filters: tuple[int64, ...]
    duration_filter: int64 = since(1, default=-1)
    transactional_id_pattern: str | None = since(2, default=None)


class TransactionState(Struct):
    transactional_id: str
    producer_id: int64
    transaction_state: str


class ListTransactionsResponse(Message, key=66):
    throttle_time_ms: int32 = 0
    error_code: int16
    unknown_state_filters: tuple[str, ...]
    transaction_states: tuple[TransactionState, ...]
