"""The quorum's settings, from a node's configuration."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.config.broker import BrokerConfig
from tidelog.raft.types import Address
from tidelog.wire.messages.control_records import Endpoint


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class RaftConfig:
    """What a node knows of the quorum before it has read anything."""

    static_voters: tuple[tuple[int, Address], ...] = ()
    """controller.quorum.voters; empty where the voters are in the log."""
    bootstrap_servers: tuple[Address, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    """Where this node's own controller listeners are found; none for a broker alone."""
    listener_name: str = "CONTROLLER"
    """The listener by which nodes of the quorum talk."""
    is_controller: bool = True
    """Whether it may be a voter."""
    auto_join: bool = False
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_bytes_max: int = 1 << 20
    fetch_snapshot_bytes_max: int = 1 << 20
    retention_bytes: int = 100 << 20
    retention_ms: int = 7 * 24 * 3600 * 1000
    """Of the metadata log with its snapshots; below 0 for ever."""
    snapshot_bytes_between: int = 20 << 20
    snapshot_interval_ms: int = 3600 * 1000
    """When a snapshot is taken; by time only above 0."""

    @property
    def check_quorum_timeout_ms(self) -> int:
        """A leader that hears of no majority for so long resigns."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_interval_ms(self) -> int:
        """How long a voter may be silent before the leader makes itself known to it again."""
        return self.fetch_timeout_ms // 2


def raft_config(config: BrokerConfig) -> RaftConfig:
    """What a node's configuration says."""
    names = [name.upper() for name in config.controller_listener_names]
    return RaftConfig(
        static_voters=tuple((v.node_id, Address(v.host, v.port)) for v in config.voters),
        bootstrap_servers=tuple(map(_address, config.controller_quorum_bootstrap_servers)),
        endpoints=tuple(
            Endpoint(name=point.name, host=point.host, port=point.port)
            for point in config.controller_endpoints
        ),
        listener_name=names[0] if names else "CONTROLLER",
        is_controller=config.is_controller,
        auto_join=config.controller_quorum_auto_join_enable,
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        fetch_bytes_max=config.controller_quorum_fetch_max_bytes,
        fetch_snapshot_bytes_max=config.controller_quorum_fetch_snapshot_max_bytes,
        retention_bytes=config.metadata_max_retention_bytes,
        retention_ms=config.metadata_max_retention_ms,
        snapshot_bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
        snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
    )


def _address(server: str) -> Address:
    host, _, port = server.rpartition(":")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))
