"""A cluster in memory for the commands: what they say of it, and what they ask it to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.unit.client.memory import MemoryBroker, MemoryCluster, MemoryShell

from tidelog.cli.connect import explain
from tidelog.cli.main import tidelog
from tidelog.client import ClientError
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from tidelog.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

Run = Callable[..., Result]


class CommandCluster(MemoryCluster):
    """With configs: of every resource those in `configs`, as (name, value, source). With moves:
    reassignments that are going on."""

    def __init__(self) -> None:
        super().__init__(brokers=3)
        self.configs: dict[str, list[tuple[str, str, int]]] = {}
        self.moves: dict[tuple[str, int], OngoingPartitionReassignment] = {}
        self.fenced: set[int] = set()
        self.racks: dict[int, str] = {}
        self.are_controllers = False
        self.handle(ApiKey.DESCRIBE_CONFIGS, self._describe_configs)
        self.handle(ApiKey.LIST_PARTITION_REASSIGNMENTS, self._list_reassignments)
        self.handle(ApiKey.DESCRIBE_CLUSTER, self._describe_cluster)
        for broker in self.brokers.values():
            del broker.served[ApiKey.DESCRIBE_TOPIC_PARTITIONS]

    def _describe_configs(self, broker: MemoryBroker, request: Any) -> DescribeConfigsResponse:
        return DescribeConfigsResponse(
            results=tuple(
                DescribeConfigsResult(
                    error_code=0 if resource.resource_name in self.configs else 3,
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=tuple(
                        DescribeConfigsResourceResult(
                            name=name,
                            value=value,
                            read_only=False,
                            config_source=source,
                            is_sensitive=False,
                            synonyms=(
                                DescribeConfigsSynonym(name=name, value=value, source=source),
                            ),
                        )
                        for name, value, source in self.configs.get(resource.resource_name, [])
                    ),
                )
                for resource in request.resources
            )
        )

    def move(self, topic: str, index: int, **replicas: tuple[int, ...]) -> None:
        """Let a reassignment be going on."""
        fields = {"replicas": (), "adding_replicas": (), "removing_replicas": ()} | replicas
        move = OngoingPartitionReassignment(partition_index=index, **fields)
        self.moves[topic, index] = move

    def _list_reassignments(
        self, broker: MemoryBroker, request: Any
    ) -> ListPartitionReassignmentsResponse:
        asked = {
            (topic.name, index)
            for topic in request.topics or ()
            for index in topic.partition_indexes
        }
        topics = tuple(
            OngoingTopicReassignment(name=key[0], partitions=(move,))
            for key, move in self.moves.items()
            if request.topics is None or key in asked
        )
        return ListPartitionReassignmentsResponse(error_code=0, error_message=None, topics=topics)

    def _describe_cluster(self, broker: MemoryBroker, request: Any) -> DescribeClusterResponse:
        if (request.endpoint_type == 2) is not self.are_controllers:
            return DescribeClusterResponse(
                error_code=114, error_message="of another type", cluster_id="", brokers=()
            )
        brokers = tuple(
            DescribeClusterBroker(
                broker_id=node_id,
                host=one.address.host,
                port=one.address.port,
                rack=self.racks.get(node_id),
                is_fenced=node_id in self.fenced,
            )
            for node_id, one in self.brokers.items()
        )
        return DescribeClusterResponse(
            error_code=0, cluster_id="memory", brokers=brokers, controller_id=2
        )

    def become_controllers(self) -> None:
        """Nodes that are asked at their controllers' listeners, of which 2 is active."""
        self.are_controllers = True
        for broker in self.brokers.values():
            del broker.served[ApiKey.METADATA]


def asked(cluster: MemoryCluster, key: int) -> Any:
    """The one request of this API that a command sent."""
    (found,) = [message for broker in cluster.brokers.values() for message in broker.asked(key)]
    return found


def runner(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, module: str) -> Run:
    """Runs commands of a module, whose connections lead to this cluster."""
    shell = MemoryShell(cluster)
    shell.settings = shell.cluster.settings

    @contextmanager
    def connected(
        servers: str, properties: object = None, are_controllers: bool = False
    ) -> Iterator[MemoryShell]:
        shell.settings = replace(shell.settings, are_controllers=are_controllers)
        shell.cluster.settings = shell.settings
        try:
            yield shell
        except ClientError as error:
            raise click.ClickException(explain(error, shell)) from None

    monkeypatch.setattr(f"tidelog.cli.{module}.connected", connected)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(tidelog, [module.replace("_", "-"), *arguments])

    return run
