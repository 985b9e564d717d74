"""What librdkafka says about its sequences: why a producer raised its epoch.

A batch that is refused leaves those behind it without their turn, and Apache Kafka answers them
OUT_OF_ORDER_SEQUENCE_NUMBER. librdkafka then raises its epoch for all partitions, and sends again
under the new one whatever it has no answer for, written or not (its issue 4953). Tidelog gives it
no reason to (ADR 13), so that here it is a complaint.
"""

from __future__ import annotations

import logging
from typing import Any

SETTINGS: dict[str, Any] = {"debug": "eos", "log_level": 7}


class Sequences(logging.Handler):
    """Of one producer."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.logger = logging.Logger(f"chaos.{name}", logging.DEBUG)
        self.logger.addHandler(self)
        self.raised: list[str] = []
        """Each new epoch, after the answers that led to it."""

    def emit(self, record: logging.LogRecord) -> None:
        if isinstance(record.args, tuple):
            kind, _, text = map(str, record.args)
            if kind == "ERRSEQ" or (kind == "DRAIN" and "bumped epoch" in text):
                self.raised.append(text)
