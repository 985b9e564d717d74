"""The pytest plugin: `tidelog` is a node for the whole session, `tidelog_cluster` three for a test.

It is imported by every run of pytest where Tidelog is installed, so it imports nothing heavy.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tidelog.testing import Cluster

MARKER = "tidelog_cluster"
FIXTURES = ("tidelog", MARKER)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{MARKER}(nodes=3, configs=None): what the fixture of this name starts"
    )


@pytest.fixture(scope="session")
def tidelog() -> Iterator[Cluster]:
    """One node that all tests of the session share: name topics so that they do not meet."""
    from tidelog.testing import Cluster

    with Cluster(nodes=1) as cluster:
        yield cluster


@pytest.fixture
def tidelog_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A cluster of three nodes for one test, to break; the marker says what else it is to be."""
    from tidelog.testing import Cluster

    marker = request.node.get_closest_marker(MARKER)
    args, kwargs = ((), {}) if marker is None else (marker.args, marker.kwargs)
    with Cluster(*args, **kwargs) as cluster:
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that fails shows what its nodes said last."""
    report = yield
    if report.failed:
        for name in FIXTURES:
            cluster: Cluster | None = getattr(item, "funcargs", {}).get(name)
            if cluster is None:
                continue
            for node in cluster.nodes:
                report.sections.append((f"{name}: node {node}", "\n".join(cluster.tail(node))))
    return report
