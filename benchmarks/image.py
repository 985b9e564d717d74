"""The metadata image with 100 partitions and with 100,000: what one change costs to replay, and
what it costs to answer Metadata for one topic. The larger cluster may cost no more than noise and
one more level of the trees. Exits 1 if it does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rich.console import Console
from rich.table import Table

from tidelog.broker.handlers.metadata import metadata
from tidelog.broker.leader_checks import LeaderChecks
from tidelog.broker.moved_leaders import MovedLeaders
from tidelog.env import Now
from tidelog.metadata.delta import replay
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.brokers import BrokerEndpoint, RegisterBrokerRecord
from tidelog.metadata.records.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from tidelog.runtime.alarm import Alarm
from tidelog.runtime.jobs import Jobs
from tidelog.slices import finish
from tidelog.types import Uuid
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.request import Request, encode_response

SIZES = (100, 100_000)
PARTITIONS_A_TOPIC = 10
TOPICS = SIZES[0] // PARTITIONS_A_TOPIC
ROUNDS = 15
CALLS = 400
RATIO_MAX = 1.5
BROKERS = (1, 2, 3)
NOW = Now(0, 0)


def topic_id(number: int) -> Uuid:
    return Uuid((number + 1000).to_bytes(16, "big"))


def cluster(partitions: int) -> MetadataImage:
    image, offset = MetadataImage.empty(), 0
    for broker_id in BROKERS:
        endpoint = BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)
        record = RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=topic_id(broker_id),
            broker_epoch=broker_id,
            end_points=(endpoint,),
            features=(),
            rack=None,
            fenced=False,
            log_dirs=(topic_id(-broker_id),),
        )
        image = replay(image, record, offset, 1)
    for number in range(partitions // PARTITIONS_A_TOPIC):
        record = TopicRecord(name=f"topic-{number:05}", topic_id=topic_id(number))
        image = replay(image, record, offset, 1)
        for index in range(PARTITIONS_A_TOPIC):
            offset += 1
            made = PartitionRecord(
                partition_id=index,
                topic_id=topic_id(number),
                replicas=BROKERS,
                isr=BROKERS,
                removing_replicas=(),
                adding_replicas=(),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=(topic_id(-1), topic_id(-2), topic_id(-3)),
            )
            image = replay(image, made, offset, 1)
    return image


def changing(image: MetadataImage) -> Callable[[int], object]:
    """A leader moves, by turns in as many topics as the small cluster has: what is compared is
    the work, not how much of a large cluster fits into a processor's cache."""
    step = len(image.topics) // TOPICS

    def change(number: int) -> object:
        record = PartitionChangeRecord(
            partition_id=number % PARTITIONS_A_TOPIC,
            topic_id=topic_id(number % TOPICS * step),
            leader=2,
            isr=(2, 3),
        )
        return replay(image, record, 1, 1)

    return change


def answering(image: MetadataImage) -> Callable[[int], object]:
    step = len(image.topics) // TOPICS
    broker: Any = SimpleNamespace(image=image, listener="PLAINTEXT", connection=1)
    broker.cluster_id, broker.node_id, broker.jobs = "c", 1, Jobs(Alarm())
    broker.leader_checks, broker.moved_leaders = LeaderChecks(broker), MovedLeaders(broker)

    def answer(number: int) -> object:
        asked = MetadataRequestTopic(name=f"topic-{number % TOPICS * step:05}")
        request = Request(3, 12, 1, None, MetadataRequest(topics=(asked,)))
        return encode_response(request, finish(metadata(request, broker, NOW)))

    return answer


def seconds(calls: list[Callable[[int], object]]) -> list[float]:
    """Of CPU that each takes at best."""
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):  # by turns: the machine's mood is the same for all
        for which, call in enumerate(calls):
            started = time.process_time()
            for number in range(CALLS):
                call(number)
            best[which] = min(best[which], (time.process_time() - started) / CALLS)
    return best


def main() -> int:
    console = Console()
    console.print("making images ...")
    images = [cluster(size) for size in SIZES]
    table = Table("", *(f"{size:,} partitions, us" for size in SIZES), "ratio", "at most")
    missed = False
    for name, make in (("replay one change", changing), ("Metadata of one topic", answering)):
        best = seconds([make(image) for image in images])
        ratio = best[1] / best[0]
        missed |= ratio > RATIO_MAX
        micros = (f"{one * 1e6:.1f}" for one in best)
        table.add_row(name, *micros, f"{ratio:.2f}", str(RATIO_MAX))
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
