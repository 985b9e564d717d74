"""The node that the suites talk to: Tidelog's, or Apache Kafka's with INTEROP_SERVER=apache.

A test that passes on Apache and fails on Tidelog has found something; one that fails on both is
wrong.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterator

import pytest

from tests.interop.apache import ApacheNode
from tests.interop.process import NodeProcess
from tests.interop.tidelog_node import TidelogNode

# kafka-python reads its schemas by a function that Python 3.11 deprecates; done once, here, it
# does not fail the modules that import it.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    importlib.import_module("kafka")


SERVERS: dict[str, type[NodeProcess]] = {"tidelog": TidelogNode, "apache": ApacheNode}


@pytest.fixture(scope="session")
def server_name() -> str:
    name = os.environ.get("INTEROP_SERVER", "tidelog")
    assert name in SERVERS, f"INTEROP_SERVER is {name}, and may be {' or '.join(SERVERS)}"
    return name


@pytest.fixture(scope="session")
def server(server_name: str) -> Iterator[NodeProcess]:
    """One node for all suites: a broker lives with many clients, and so should the tests'.

    It looks at retention every second, not in five minutes, so that a record that it would delete
    is missed in every run and not in one of many.
    """
    eager = {"log.initial.task.delay.ms": "0", "log.retention.check.interval.ms": "1000"}
    with SERVERS[server_name](properties=eager) as node:
        yield node


@pytest.fixture(scope="session")
def bootstrap_servers(server: NodeProcess) -> str:
    return server.bootstrap_servers


@pytest.fixture
def tidelog_node() -> Iterator[TidelogNode]:
    """A Tidelog node of this test's own, to stop, kill and start again."""
    with TidelogNode() as node:
        yield node
