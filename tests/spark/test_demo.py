"""The end of `tidelog demo`: what it says of Spark it has compared."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from io import StringIO

import pytest
from rich.console import Console

from tidelog.cli.demo_clients import DemoFailed
from tidelog.cli.demo_node import DemoNode
from tidelog.cli.demo_orders import COUNT, Orders
from tidelog.cli.demo_spark import TotalsTable, archive, stream
from tidelog.cli.demo_view import View

COLUMNS = 80


@pytest.fixture(scope="module")
def demo_node() -> Iterator[DemoNode]:
    with DemoNode() as node:
        yield node


@pytest.fixture
def view() -> View:
    return View(Console(file=StringIO(), width=COLUMNS))


def said(view: View) -> str:
    assert isinstance(view.console.file, StringIO)
    return " ".join(view.console.file.getvalue().split())


def test_orders_become_windows_in_a_table_and_in_a_topic(spark, demo_node, view):
    orders = Orders(time.time_ns() // 1_000_000)  # older ones, retention would delete
    stream(view, demo_node, spark, orders)
    assert f"{COUNT:,} orders flowed through topic orders into windows of a minute" in said(view)
    assert "the same in a Delta table and in topic orders-per-minute" in said(view)
    assert re.search(r" \d\d:\d\d 1,546: 155,758 € 1,487: 149,643 € ", said(view))
    totals = TotalsTable(spark, demo_node)
    assert totals.read() == totals.read_topic() == orders.totals()


def test_the_archive_is_proven(spark, demo_node, view):
    archive(view, demo_node)
    assert f"archived as Parquet: {COUNT:,} rows" in said(view)
    assert "coverage proven, no gap and no record twice: orders-0 0 to" in said(view)


def test_an_archive_that_lacks_orders_is_not_proven(spark, demo_node, view, monkeypatch):
    monkeypatch.setattr("tidelog.cli.demo_spark.COUNT", COUNT + 1)
    with pytest.raises(DemoFailed, match=f"is not proven: {COUNT}"):
        archive(view, demo_node)
