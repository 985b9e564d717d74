"""What tests import: clusters of real nodes on this machine, and ways to break them.

from tidelog.testing import Cluster

with Cluster(nodes=3) as cluster:
    ...  # any Kafka client, at cluster.bootstrap_servers
    cluster.kill(cluster.leader("orders"))
"""

from __future__ import annotations

from tidelog.testing.cluster import Cluster, ClusterError

__all__ = ["Cluster", "ClusterError"]
