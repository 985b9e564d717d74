"""Endpoints in configuration: `name://host:port` listeners, `id@host:port` voters."""

from __future__ import annotations

import re
from typing import NamedTuple

from tidelog.config.definition import InvalidConfig

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Their place in this list is their number on the wire."""


class Endpoint(NamedTuple):
    """A listener's address. An empty host means every interface."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class Voter(NamedTuple):
    """A voter of a static quorum."""

    node_id: int
    host: str
    port: int


LISTENER = re.compile(r"([a-zA-Z][a-zA-Z0-9_]*)://(?:\[([0-9a-fA-F:%.]+)\]|([^\[\]:/]*)):(-?\d+)")
VOTER = re.compile(r"(\d+)@(?:\[([0-9a-fA-F:%.]+)\]|([^\[\]:/]+)):(\d+)")


def parse_protocol_map(text: str) -> dict[str, int]:
    """Listener names, in capitals, to the numbers of their protocols."""
    found: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in item.partition(":"))
        if not colon or protocol.upper() not in SECURITY_PROTOCOLS:
            raise InvalidConfig(
                f"Invalid item {item} in listener.security.protocol.map: want name:protocol,"
                f" the protocol one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        found[name.upper()] = SECURITY_PROTOCOLS.index(protocol.upper())
    return found


def parse_endpoints(key: str, listed: tuple[str, ...], protocols: dict[str, int]) -> list[Endpoint]:
    """The addresses of a list of listeners."""
    endpoints: list[Endpoint] = []
    for item in listed:
        found = LISTENER.fullmatch(item)
        if found is None or not 0 <= int(found[4]) <= 65535:
            raise InvalidConfig(f"Invalid listener {item} in {key}: want name://host:port")
        name = found[1].upper()
        if name not in protocols:
            raise InvalidConfig(
                f"No security protocol defined for listener {name} of {key}:"
                f" add {name}:PLAINTEXT to listener.security.protocol.map"
            )
        if protocols[name] != 0:
            protocol = SECURITY_PROTOCOLS[protocols[name]]
            raise InvalidConfig(
                f"Listener {name} of {key} wants {protocol}: only PLAINTEXT is there so far"
            )
        endpoints.append(Endpoint(name, found[2] or found[3], int(found[4]), protocols[name]))
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) < len(names):
        raise InvalidConfig(
            f"Each listener of {key} must have a different name: {', '.join(names)}"
        )
    ports = [endpoint.port for endpoint in endpoints if endpoint.port]
    if key == "listeners" and len(set(ports)) < len(ports):
        raise InvalidConfig(f"Each listener of {key} must have a different port: {listed}")
    return endpoints


def parse_voters(listed: tuple[str, ...]) -> tuple[Voter, ...]:
    """The voters of controller.quorum.voters, by rising id."""
    voters = []
    for item in listed:
        found = VOTER.fullmatch(item)
        if found is None or not 0 < int(found[4]) <= 65535:
            raise InvalidConfig(
                f"Invalid voter {item} in controller.quorum.voters: want id@host:port"
            )
        voters.append(Voter(int(found[1]), found[2] or found[3], int(found[4])))
    if len({voter.node_id for voter in voters}) < len(voters):
        raise InvalidConfig("Each voter of controller.quorum.voters must have a different id")
    return tuple(sorted(voters))
