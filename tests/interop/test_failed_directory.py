"""A log directory that goes away under a running node: what clients then see, beside Apache's."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.interop.apache import ApacheNode
from tests.interop.exchange import Exchange, comparable
from tests.interop.process import NodeProcess
from tests.interop.test_data_directories import Place, Talk
from tests.interop.test_every_version import batch
from tests.interop.tidelog_node import TidelogNode
from tidelog.errors import ErrorCode
from tidelog.types import ZERO_UUID
from tidelog.wire.declare import Message
from tidelog.wire.messages import (
    describe_log_dirs,
    describe_producers,
    fetch,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)

pytestmark = pytest.mark.interop
PROPERTIES = {"replica.high.watermark.checkpoint.interval.ms": "200"}
"""A checkpoint that cannot be written is how a node learns of it."""


def requests_for(place: Place) -> list[tuple[Message, int]]:
    topic, index = place
    data = (produce.PartitionProduceData(index=index, records=batch(1)),)
    asked = fetch.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    latest = list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1)
    epoch = offset_for_leader_epoch.OffsetForLeaderPartition(partition=index, leader_epoch=0)
    return [
        (
            produce.ProduceRequest(
                acks=-1,
                timeout_ms=5000,
                topic_data=(
                    produce.TopicProduceData(name=topic, topic_id=ZERO_UUID, partition_data=data),
                ),
            ),
            9,
        ),
        (
            fetch.FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                topics=(fetch.FetchTopic(topic=topic, partitions=(asked,)),),
            ),
            11,
        ),
        (
            list_offsets.ListOffsetsRequest(
                replica_id=-1,
                topics=(list_offsets.ListOffsetsTopic(name=topic, partitions=(latest,)),),
            ),
            7,
        ),
        (
            offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                replica_id=-1,
                topics=(
                    offset_for_leader_epoch.OffsetForLeaderTopic(topic=topic, partitions=(epoch,)),
                ),
            ),
            4,
        ),
        (
            describe_producers.DescribeProducersRequest(
                topics=(describe_producers.TopicRequest(name=topic, partition_indexes=(index,)),)
            ),
            0,
        ),
    ]


def partition_of(exchange: Exchange, place: Place) -> Any:
    named = (metadata.MetadataRequestTopic(name=place[0]),)
    answer: Any = exchange.ask(metadata.MetadataRequest(topics=named), 12)
    return next(p for p in answer.topics[0].partitions if p.partition_index == place[1])


def after_a_failure(kind: type[NodeProcess], folder: Path) -> dict[str, Any]:
    """What is answered for a partition that is lost and one that is not, while the node runs."""
    paths = f"{folder}/data,{folder}/more"
    with kind(folder, properties=PROPERTIES | {"log.dirs": paths}) as node:
        with Exchange(node.bootstrap_servers) as exchange:
            talk = Talk(exchange)
            # One at a time, so that each goes where the fewest are.
            places: list[Place] = [("first", 0), ("second", 0)]
            for topic, _ in places:
                talk.create(topic, 1)
                talk.send((topic, 0), batch(5))
                talk.directories([(topic, 0)])
            where = talk.directories(places)
            (lost,) = [place for place in places if where[place].endswith("more")]
            (kept,) = [place for place in places if place != lost]
            shutil.rmtree(folder / "more")
            request = describe_log_dirs.DescribeLogDirsRequest(topics=None)
            described: Any = exchange.ask_until(
                request, 4, lambda answer: any(result.error_code == 56 for result in answer.results)
            )
            wait_until_leaderless(exchange, lost)
            answers = {
                "dirs": sorted(
                    (Path(r.log_dir).name, r.error_code, len(r.topics), r.total_bytes >= 0)
                    for r in described.results
                ),
                "lost": [exchange.ask(*one) for one in requests_for(lost)],
                "kept": [exchange.ask(*one) for one in requests_for(kept)],
                "lost partition": partition_of(exchange, lost),
                "kept partition": partition_of(exchange, kept),
            }
            talk.create("third", 2)
            talk.send(("third", 1), batch(1))
            answers["new"] = sorted(
                Path(path).name for path in talk.directories([("third", 0), ("third", 1)]).values()
            )
        node.kill()
    return {
        name: value if name in ("dirs", "new") else _without_names(value, lost, kept)
        for name, value in answers.items()
    }


def _without_names(value: Any, lost: Place, kept: Place) -> Any:
    """Which of the two is lost depends on the node."""
    if isinstance(value, list):
        return [_without_names(one, lost, kept) for one in value]
    text = str(comparable(value))
    return text.replace(repr(lost[0]), "lost").replace(repr(kept[0]), "kept")


def wait_until_leaderless(exchange: Exchange, place: Place) -> None:
    named = (metadata.MetadataRequestTopic(name=place[0]),)
    exchange.ask_until(
        metadata.MetadataRequest(topics=named),
        12,
        lambda answer: answer.topics[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE,
    )


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    expected = after_a_failure(ApacheNode, tmp_path / "apache")
    found = after_a_failure(TidelogNode, tmp_path / "ours")
    for name, answer in expected.items():
        assert found[name] == answer, name
    assert expected["dirs"] == [("data", 0, 1, True), ("more", 56, 0, False)]
