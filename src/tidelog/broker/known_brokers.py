"""What leaders ask of the metadata, at any time: the image of the moment answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


class KnownBrokers:
    """The brokers of the cluster (replica/isr.py)."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def broker_epoch(self, broker_id: int, /) -> int:
        return self._broker.metadata.image.broker_epoch(broker_id)

    def is_active(self, broker_id: int, /) -> bool:
        return self._broker.metadata.image.is_active(broker_id)

    def is_alive(self, broker_id: int, /) -> bool:
        return self._broker.metadata.image.is_alive(broker_id)
