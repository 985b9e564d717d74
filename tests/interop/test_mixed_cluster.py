"""Apache Kafka in the same cluster: its broker under our controllers, ours under its.

Each follows the other's leaders and leads the other's followers; a leader of each kind dies and one
of the other kind takes over, and nothing that was acknowledged is lost, there twice or out of
order. In the end every replica is the same, byte by byte.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.chaos.replicas import differences
from tests.interop.mixed import APACHE, TIDELOG, WAIT_SECONDS_MAX, Acked, MixedCluster
from tests.interop.process import NodeProcess

pytestmark = pytest.mark.interop

RECORDS = 6000


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
        # Whoever leads a partition and whoever is next to lead it: there is one of each pair.
        assignments = list(permutations(cluster.brokers))
        cluster.create("t", assignments)
        assert set(leaders(cluster).values()) == set(cluster.brokers), "every broker leads"
        acked: list[Acked] = []
        for turn, (victim, others) in enumerate(((ours[0], theirs), (theirs[0], ours))):
            node = cluster.nodes[victim]
            led = {index for index, leader in leaders(cluster).items() if leader == victim}
            acked += cluster.write("t", turn * RECORDS, RECORDS, node.kill)
            survivors = tuple(broker for broker in cluster.brokers if broker != victim)
            cluster.until_in_sync("t", survivors)
            heirs = {leader for index, leader in leaders(cluster).items() if index in led}
            assert heirs & set(others), "one of the other kind has taken over"
            node.launch()
            cluster.until_in_sync("t")
        found = cluster.read("t")
        assert len(acked) == 2 * RECORDS
        for one in acked:
            assert found[one.value] == [(one.partition, one.offset)]
        assert len(found) == len(acked)
        assert_in_order(acked)
        directories = [cluster.nodes[broker].log_dir for broker in cluster.brokers]
        assert differences(directories, "t", len(assignments), WAIT_SECONDS_MAX) == []


def leaders(cluster: MixedCluster) -> dict[int, int]:
    return {index: leader for index, (leader, _) in cluster.partitions("t").items()}


def assert_in_order(acked: list[Acked]) -> None:
    """A producer's records are numbers that rise."""
    last: dict[int, int] = {}
    for one in sorted(acked, key=lambda one: int(one.value)):
        assert one.offset > last.get(one.partition, -1)
        last[one.partition] = one.offset
