"""A node's configuration: every key with its type, and what several keys say together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidelog.config.broker_log import CleanerSettings, LogSettings, ReplicationSettings
from tidelog.config.broker_server import CoordinatorSettings, QuorumSettings, ServerSettings
from tidelog.config.declare import keys_of
from tidelog.config.definition import ConfigKey, InvalidConfig
from tidelog.config.listeners import (
    Endpoint,
    Voter,
    parse_endpoints,
    parse_protocol_map,
    parse_voters,
)
from tidelog.config.nearest import allowed_names
from tidelog.config.topic import TOPIC_KEYS
from tidelog.config.unused import UNUSED
from tidelog.config.valid import Value


@dataclass(frozen=True, kw_only=True, init=False, repr=False, eq=False)
class BrokerConfig(
    ServerSettings,
    QuorumSettings,
    CoordinatorSettings,
    LogSettings,
    CleanerSettings,
    ReplicationSettings,
):
    """All keys, typed, under their names in snake case: `config.log_segment_bytes`."""

    properties: Mapping[str, str]
    """What the file said, for those who ask where a value comes from."""
    unused: tuple[str, ...] = ()
    """Kafka's keys in the file that have no meaning here; whoever starts the node says so."""
    host_name: str = "localhost"
    """What an advertised listener without a host is called."""

    def __init__(self, **values: Any) -> None:
        # One written for 250 fields takes a start longer to make than to use. A field without
        # a value has the class's.
        vars(self).update(values)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, host_name: str = "localhost"
    ) -> BrokerConfig:
        """InvalidConfig, in one line, if the properties do not make a node."""
        given = dict(properties)
        if "node.id" not in given and "broker.id" in given:
            given["node.id"] = given["broker.id"]
        values: dict[str, Any] = {}
        for name, text in given.items():
            if name in BROKER_KEYS:
                values[attribute(name)] = BROKER_KEYS[name].parse(text)
            elif not is_unused(name):
                raise InvalidConfig(unknown(name, UNUSED))
        for key in BROKER_KEYS.values():
            if key.is_required and key.name not in given:
                raise InvalidConfig(f'Missing required configuration "{key.name}"')
        unused = tuple(sorted(name for name in given if name not in BROKER_KEYS))
        config = cls(**values, properties=given, unused=unused, host_name=host_name)
        config.validate()
        return config

    def with_dynamic(
        self, cluster: Mapping[str, str], broker: Mapping[str, str] | None = None
    ) -> BrokerConfig:
        """With what was changed while running: for the whole cluster, and for this broker.

        Only keys that may change so count, and only values that parse: the controller refused
        others, but a log may come from elsewhere.
        """
        changed: dict[str, Any] = {}
        for name, text in {**cluster, **(broker or {})}.items():
            key = BROKER_KEYS.get(name)
            if key is None or key.mode.value == "read-only":
                continue
            try:
                changed[attribute(name)] = key.parse(text)
            except InvalidConfig:
                continue
        if not changed:
            return self
        # dataclasses.replace would run over every field by name; this is what it does.
        values = {**vars(self), **changed}
        values.pop("_topic_defaults", None)  # those of the values before
        return type(self)(**values)

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def data_dirs(self) -> tuple[str, ...]:
        return self.log_dir if self.log_dirs is None else self.log_dirs

    @property
    def metadata_dir(self) -> str:
        return self.metadata_log_dir or self.data_dirs[0]

    @property
    def security_protocols(self) -> dict[str, int]:
        found = parse_protocol_map(self.listener_security_protocol_map)
        if "listener.security.protocol.map" not in self.properties:
            # As in Kafka: a controller's listener needs no entry as long as nobody wrote a map.
            for name in self.controller_listener_names:
                found.setdefault(name.upper(), found["PLAINTEXT"])
        return found

    @property
    def bound_endpoints(self) -> tuple[Endpoint, ...]:
        """Where this node listens, brokers' and controllers' listeners alike."""
        return tuple(parse_endpoints("listeners", self.listeners, self.security_protocols))

    @property
    def controller_names(self) -> frozenset[str]:
        return frozenset(name.upper() for name in self.controller_listener_names)

    @property
    def advertised_endpoints(self) -> tuple[Endpoint, ...]:
        """What a broker registers: where clients and other brokers find it."""
        listed = self._advertised
        return tuple(
            endpoint._replace(host=endpoint.host or self.host_name)
            for endpoint in (self.bound_endpoints if listed is None else listed)
            if endpoint.name not in self.controller_names
        )

    @property
    def _advertised(self) -> list[Endpoint] | None:
        if self.advertised_listeners is None:
            return None
        return parse_endpoints(
            "advertised.listeners", self.advertised_listeners, self.security_protocols
        )

    @property
    def controller_endpoints(self) -> tuple[Endpoint, ...]:
        """What a controller registers: what is advertised, or else where it listens."""
        advertised = {endpoint.name: endpoint for endpoint in self._advertised or ()}
        found = (
            advertised.get(endpoint.name, endpoint)
            for endpoint in self.bound_endpoints
            if endpoint.name in self.controller_names
        )
        return tuple(point._replace(host=point.host or self.host_name) for point in found)

    @property
    def inter_broker_name(self) -> str:
        return (self.inter_broker_listener_name or "PLAINTEXT").upper()

    @property
    def voters(self) -> tuple[Voter, ...]:
        return parse_voters(self.controller_quorum_voters)

    def validate(self) -> None:
        """What must hold between keys; InvalidConfig says what does not."""
        names = {endpoint.name for endpoint in self.bound_endpoints}
        if not self.controller_quorum_voters and not self.controller_quorum_bootstrap_servers:
            raise InvalidConfig(
                "Either controller.quorum.voters or controller.quorum.bootstrap.servers"
                " must name the controllers"
            )
        if self.is_controller and not names & self.controller_names:
            raise InvalidConfig(
                "A controller must listen: listeners lacks the name"
                f" {', '.join(sorted(self.controller_names))} of controller.listener.names"
            )
        if not self.is_controller and names & self.controller_names:
            raise InvalidConfig(
                "A node that is only a broker has no controller listener: take"
                f" {', '.join(sorted(names & self.controller_names))} out of listeners"
            )
        voters = {voter.node_id for voter in self.voters}
        if voters and self.is_controller and self.node_id not in voters:
            raise InvalidConfig(
                f"A controller must be a voter: node.id {self.node_id} is not among the ids"
                f" {sorted(voters)} of controller.quorum.voters"
            )
        if voters and not self.is_controller and self.node_id in voters:
            raise InvalidConfig(
                f"A node that is only a broker cannot be a voter: node.id {self.node_id} is in"
                " controller.quorum.voters"
            )
        if self.is_broker:
            self._validate_broker()

    def _validate_broker(self) -> None:
        self.validate_cordons()
        advertised = {endpoint.name for endpoint in self.advertised_endpoints}
        if self.inter_broker_name in self.controller_names:
            raise InvalidConfig("inter.broker.listener.name must not be a controller listener")
        if self.inter_broker_name not in advertised:
            raise InvalidConfig(
                f"inter.broker.listener.name is {self.inter_broker_name}, which is not among the"
                f" advertised listeners {', '.join(sorted(advertised))}"
            )
        nonsense = [e for e in self.advertised_endpoints if e.host in ("0.0.0.0", "::")]
        if nonsense:
            raise InvalidConfig(
                "advertised.listeners cannot use 0.0.0.0: nobody can connect to it;"
                " name an address that clients reach"
            )

    def validate_cordons(self) -> None:
        """Of a broker's directories, or all by *; in Kafka's words."""
        cordoned = self.cordoned_log_dirs
        if "*" in cordoned and len(cordoned) > 1:
            raise InvalidConfig(
                "When cordoned.log.dirs is set to *, it must not contain other values"
            )
        missing = [path for path in cordoned if path not in (*self.data_dirs, "*")]
        if missing:
            raise InvalidConfig(
                "All entries in cordoned.log.dirs must be present in log.dirs or log.dir."
                f" Missing entries : {', '.join(missing)}"
                f" (allowed: {', '.join(self.data_dirs)} or *)"
            )

    def topic_defaults(self) -> dict[str, Value]:
        """What this broker gives a topic that says nothing itself, by the topic's names."""
        return dict(self._topic_defaults)

    @cached_property
    def _topic_defaults(self) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for key in TOPIC_KEYS.values():
            found[key.name] = key.default
            for synonym in key.synonyms:
                value = getattr(self, attribute(synonym.name))
                if value is not None:
                    # Factors are for whole numbers; -1 hours is still "for ever".
                    scaled = synonym.factor != 1 and value >= 0
                    found[key.name] = value * synonym.factor if scaled else value
                    break
        return found


BROKER_KEYS: Mapping[str, ConfigKey] = keys_of(BrokerConfig)
READ_AT_START = ("listeners", "listener.security.protocol.map")
"""Kafka lets these change while a broker runs; nothing here would follow, yet."""


def attribute(name: str) -> str:
    """A key's name as that of its field."""
    return name.replace(".", "_")


def is_unused(name: str) -> bool:
    """Whether a key is Kafka's, but without meaning here. `listener.name.` keys belong to a
    protocol that is not there yet, as do plugins' own."""
    return name in UNUSED or name.startswith("listener.name.")


def unknown(name: str, also_allowed: Iterable[str] = ()) -> str:
    """Why a name is refused, and what is allowed instead."""
    names = (key.name for key in BROKER_KEYS.values() if not key.is_internal)
    return f"Unknown configuration {name}{allowed_names(name, (*names, *also_allowed))}"


def broker_synonyms(name: str) -> tuple[str, ...]:
    """The keys that say the same in other units, the one that counts most first: itself alone
    for most."""
    return _SYNONYMS.get(name, (name,))


_SYNONYMS = {
    member.name: tuple(synonym.name for synonym in key.synonyms)
    for key in TOPIC_KEYS.values()
    for member in key.synonyms
    # How often flushing is looked at is a key of its own; it only stands in where none is.
    if member.name != "log.flush.scheduler.interval.ms"
}
