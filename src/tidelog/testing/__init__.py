"""What tests import: clusters of real nodes on this machine, and ways to break them.

from tidelog.testing import Cluster

with Cluster(nodes=3) as cluster:
    ...  # any Kafka client, at cluster.bootstrap_servers
    cluster.kill(cluster.leader("orders"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["Cluster", "ClusterError"]

if TYPE_CHECKING:
    from tidelog.testing.cluster import Cluster, ClusterError
else:  # out of a type checker's sight, which would believe that it has every name

    def __getattr__(name: str) -> object:
        """Loaded when asked for: the plugin in this package is part of every run of pytest."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tidelog.testing import cluster

        return getattr(cluster, name)
