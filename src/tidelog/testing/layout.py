"""Where the nodes of a test cluster listen, and the properties that say so.

A node has three listeners. Clients reach the first directly; the other two, for brokers and for
controllers, are advertised at the ports of the proxy, so that what nodes say to each other runs
through it, and nothing else does.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tidelog.testing.ports import HOST
from tidelog.testing.proxy import Route

PORTS_A_NODE = 5
DEFAULTS = (
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
)
"""What we set and who starts a cluster may set otherwise."""


class OtherData(Exception):
    """A directory holds what is not this cluster's."""


class NodePorts(NamedTuple):
    """A node's ports: its listeners', and those of the proxy that lead to two of them."""

    client: int
    broker: int
    controller: int
    proxied_broker: int
    proxied_controller: int


class Layout:
    """The nodes 1 to N, each of them a broker and a controller."""

    def __init__(self, nodes: int, ports: list[int]) -> None:
        self.ports = {
            node: NodePorts(*ports[(node - 1) * PORTS_A_NODE : node * PORTS_A_NODE])
            for node in range(1, nodes + 1)
        }

    def address(self, node: int) -> str:
        """Where clients find a node."""
        return f"{HOST}:{self.ports[node].client}"

    @property
    def routes(self) -> list[Route]:
        """What the proxy is to carry."""
        return [
            route
            for node, ports in self.ports.items()
            for route in (
                Route(node, ports.proxied_broker, ports.broker),
                Route(node, ports.proxied_controller, ports.controller),
            )
        ]

    def owns(self, name: str) -> bool:
        """Whether a config says who a node is or where, which is for us to choose."""
        return name in self.properties(1, Path(), {}) and name not in DEFAULTS

    def properties(self, node: int, folder: Path, configs: Mapping[str, str]) -> dict[str, str]:
        """A node's server.properties; what is given wins over defaults, not over addresses."""
        ports, replicas = self.ports[node], str(min(len(self.ports), 3))
        client = f"PLAINTEXT://{HOST}:{ports.client}"
        voters = (f"{one}@{HOST}:{its.proxied_controller}" for one, its in self.ports.items())
        defaults = (replicas, replicas, replicas, "2" if len(self.ports) > 2 else "1")
        return {
            **dict(zip(DEFAULTS, defaults, strict=True)),
            **configs,
            "process.roles": "broker,controller",
            "node.id": str(node),
            "listeners": f"{client},BROKER://{HOST}:{ports.broker},"
            f"CONTROLLER://{HOST}:{ports.controller}",
            "advertised.listeners": f"{client},BROKER://{HOST}:{ports.proxied_broker},"
            f"CONTROLLER://{HOST}:{ports.proxied_controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKER:PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "BROKER",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(folder / f"node-{node}"),
        }


def known_cluster_id(directory: Path, nodes: int) -> str:
    """That of the data in a directory, of as many nodes, or a new one."""
    from tidelog.log.checkpoint import parse_meta_properties
    from tidelog.metadata.format import random_uuid
    from tidelog.types import format_uuid

    found = sorted(directory.glob("node-*/meta.properties"))
    if found and len(found) != nodes:
        raise OtherData(f"{directory} holds a cluster of {len(found)} nodes, not {nodes}")
    for path in found:
        return parse_meta_properties(str(path), path.read_bytes()).cluster_id
    return format_uuid(random_uuid(random.SystemRandom()))
