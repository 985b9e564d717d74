"""A cluster in memory for the commands: what they say of it, and what they ask it to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.unit.client.memory import MemoryBroker, MemoryCluster, MemoryShell

from tidelog.cli.connect import explain
from tidelog.cli.main import tidelog
from tidelog.client import ClientError
from tidelog.wire.api import ApiKey
from tidelog.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

Run = Callable[..., Result]


class CommandCluster(MemoryCluster):
    """With configs: of every resource those in `configs`, as (name, value, source)."""

    def __init__(self) -> None:
        super().__init__(brokers=3)
        self.configs: dict[str, list[tuple[str, str, int]]] = {}
        self.handle(ApiKey.DESCRIBE_CONFIGS, self._describe_configs)
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


def runner(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, module: str) -> Run:
    """Runs commands of a module, whose connections lead to this cluster."""
    shell = MemoryShell(cluster)
    shell.settings = shell.cluster.settings

    @contextmanager
    def connected(*connection: object) -> Iterator[MemoryShell]:
        try:
            yield shell
        except ClientError as error:
            raise click.ClickException(explain(error, shell)) from None

    monkeypatch.setattr(f"tidelog.cli.{module}.connected", connected)

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(tidelog, [module, *arguments])

    return run
