"""Apache Kafka in the same cluster: its broker under our controllers, ours under its.

Each follows the other's leaders and leads the other's followers; a leader of each kind dies, and
nothing that was acknowledged is lost or there twice.
"""

from __future__ import annotations

import pytest

from tests.interop.mixed import APACHE, TIDELOG, MixedCluster
from tests.interop.process import NodeProcess

pytestmark = pytest.mark.interop

RECORDS = 6000
PARTITIONS = 6


@pytest.mark.parametrize(
    ("controllers", "ours", "theirs"),
    [
        pytest.param(TIDELOG, (101, 102), (103,), id="an Apache broker under our controllers"),
        pytest.param(APACHE, (101,), (102, 103), id="our broker under Apache's controllers"),
    ],
)
def test_each_leads_and_follows_the_other(
    controllers: type[NodeProcess], ours: tuple[int, ...], theirs: tuple[int, ...]
) -> None:
    kinds = dict.fromkeys(ours, TIDELOG) | dict.fromkeys(theirs, APACHE)
    with MixedCluster(controllers, dict(sorted(kinds.items()))) as cluster:
        cluster.create("t", PARTITIONS)
        leaders = {leader for leader, _ in cluster.partitions("t").values()}
        assert leaders == set(cluster.brokers), "every broker leads something"
        acked = []
        for turn, victim in enumerate((ours[0], theirs[0])):
            node = cluster.nodes[victim]
            assert victim in {leader for leader, _ in cluster.partitions("t").values()}
            acked += cluster.write("t", turn * RECORDS, RECORDS, node.kill)
            survivors = tuple(broker for broker in cluster.brokers if broker != victim)
            cluster.until_in_sync("t", survivors)
            node.launch()
            cluster.until_in_sync("t")
        found = cluster.read("t")
        assert len(acked) == 2 * RECORDS
        for one in acked:
            assert found[one.value] == [(one.partition, one.offset)]
        assert len(found) == len(acked)
