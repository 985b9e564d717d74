"""Lag is what a query's progress says: the latest offsets less its own."""

from __future__ import annotations

import json
from types import SimpleNamespace

from tidelog.client import TopicPartition
from tidelog.spark.lag import LagListener, lag_of

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def progress(*sources, batch=3):
    """As Spark's, of (end, latest) for each source."""
    made = [SimpleNamespace(endOffset=end, latestOffset=latest) for end, latest in sources]
    return SimpleNamespace(id="q", name="orders", batchId=batch, sources=made)


def test_the_lag_of_every_partition():
    end, latest = json.dumps({"a": {"0": 7}}), json.dumps({"a": {"0": 10, "1": 4}})
    lag = lag_of(progress((end, latest)))
    assert lag == ("q", "orders", 3, {A0: 3, A1: 4})
    assert lag.total == 7
    assert lag.metrics() == {
        "minOffsetsBehindLatest": "3",
        "maxOffsetsBehindLatest": "4",
        "avgOffsetsBehindLatest": "3.5",
    }


def test_other_sources_have_none():
    rate, files = ("5", "9"), ('{"logOffset": 3}', '{"logOffset": 4}')
    lag = lag_of(progress(rate, files, (None, None), ("nonsense", "{")))
    assert lag.partitions == {}
    assert lag.metrics() == {}


def test_a_listener_keeps_the_newest_and_tells_it():
    told = []
    listener = LagListener(told.append)
    for batch, end in enumerate((4, 10)):
        source = json.dumps({"a": {"0": end}}), json.dumps({"a": {"0": 10}})
        listener.onQueryProgress(SimpleNamespace(progress=progress(source, batch=batch)))
    listener.onQueryProgress(SimpleNamespace(progress=progress(("5", "9"))))
    assert [lag.total for lag in told] == [6, 0]
    assert listener.latest == {"q": told[1]}
