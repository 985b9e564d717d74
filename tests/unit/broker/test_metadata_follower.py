"""When a broker begins to go by the metadata."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.node_client import Cluster

from tidelog.errors import ErrorCode
from tidelog.replica.partition import Partition


def test_a_process_takes_up_nothing_that_was_given_to_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one before may have had records that this one lacks; the registration of this one takes
    all leaderships away first."""
    cluster = Cluster()
    cluster.create_topic("t")
    before = cluster.partition("t").leader_epoch
    led = []
    become_leader = Partition.become_leader

    def noted(partition: Partition, *args: Any, **fields: Any) -> bool:
        led.append(fields["leader_epoch"])
        return become_leader(partition, *args, **fields)

    monkeypatch.setattr(Partition, "become_leader", noted)
    cluster.kill()
    assert led
    assert min(led) > before


def test_nobody_is_served_by_what_the_metadata_said_before() -> None:
    cluster = Cluster()
    cluster.create_topic("t")
    cluster.produce("t", b"a")
    hosting = cluster.broker.hosting
    hosting.by_name.clear()
    hosting.by_id.clear()
    hosting.is_open = False
    assert cluster.fetch("t", 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not hosting.by_name
