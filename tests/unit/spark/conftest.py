"""One real node for all of these tests; no JVM."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.interop.tidelog_node import TidelogNode
from tests.unit.spark.topics import Topics

from tidelog.spark.connections import close_all


@pytest.fixture(scope="session")
def topics() -> Iterator[Topics]:
    with TidelogNode() as node:
        made = Topics(node.bootstrap_servers)
        yield made
        made.client.close()


@pytest.fixture(autouse=True, scope="module")
def _no_connection_is_left() -> Iterator[None]:
    yield
    close_all()
