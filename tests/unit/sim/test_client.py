"""What a simulated client believes of what brokers tell it."""

from __future__ import annotations

import random

import pytest
from tests.unit.metadata.lives import uuid

from tidelog.sim.client import Client
from tidelog.types import Uuid
from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

OLD, NEW = uuid(1), uuid(2)


@pytest.fixture
def client() -> Client:
    """It was told that 1 leads in epoch 1, and forgot it because 1 did not answer."""
    client = Client("consumer", [("node1", 9092)], random.Random(1))
    tell(client, leader=1, epoch=1)
    assert client.leader_of("t", 0) is not None
    del client.partitions["t", 0]
    return client


def tell(client: Client, *, leader: int, epoch: int, topic_id: Uuid = OLD) -> None:
    partition = MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=(1, 2),
        isr_nodes=(leader,),
    )
    topic = MetadataResponseTopic(
        error_code=0, name="t", topic_id=topic_id, partitions=(partition,)
    )
    brokers = tuple(
        MetadataResponseBroker(node_id=id_, host=f"node{id_}", port=9092) for id_ in (1, 2)
    )
    flow = client.refresh(["t"])
    next(flow)
    with pytest.raises(StopIteration):
        flow.send(MetadataResponse(brokers=brokers, topics=(topic,)))


def test_a_leader_of_old_is_not_believed(client: Client) -> None:
    tell(client, leader=2, epoch=0)
    assert client.leader_of("t", 0) is None


@pytest.mark.parametrize("epoch", [1, 2])
def test_the_same_or_a_later_one_is(client: Client, epoch: int) -> None:
    tell(client, leader=2, epoch=epoch)
    assert client.partitions["t", 0].leader == 2


def test_another_topic_of_that_name_begins_anew(client: Client) -> None:
    tell(client, leader=2, epoch=0, topic_id=NEW)
    assert client.partitions["t", 0].topic_id == NEW
