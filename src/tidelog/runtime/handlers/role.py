"""What handlers need to know of whoever answers: a broker or a controller."""

from __future__ import annotations

from typing import Protocol

from tidelog.config.broker import BrokerConfig
from tidelog.metadata.image import MetadataImage
from tidelog.runtime.metadata import Metadata
from tidelog.wire.request import Served


class Role(Protocol):
    """A role of a node, at the listener that the request came by."""

    metadata: Metadata
    listener: str
    static_config: BrokerConfig
    cluster_id: str

    @property
    def image(self) -> MetadataImage: ...
    @property
    def config(self) -> BrokerConfig: ...
    @property
    def node_id(self) -> int: ...
    @property
    def served(self) -> Served: ...
