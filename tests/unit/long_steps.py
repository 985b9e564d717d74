"""Drives a node through all that could take long, and times each of its steps.

A step is what keeps the event loop from others: decoding a request, or `node.step`. What effects
do is not: a real shell sends from buffers and has files written by threads.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.unit.node_client import (
    BROKER,
    SET,
    TOPIC,
    Cluster,
    fetch_partition,
)

from tidelog.events import Effect, Event
from tidelog.loading import stop_node
from tidelog.sim.shell import SimulatedShell
from tidelog.types import ZERO_UUID
from tidelog.wire.messages import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)

WIDE = "wide"
"""The topic with very many partitions."""
LONG_POLLS = 500
ELEMENTS = 90_000
"""In one request; a few more are refused."""


class Stopwatch:
    """Milliseconds of this thread's CPU time: others on the machine do not count."""

    def __init__(self) -> None:
        self.longest_ms = self.total_ms = 0.0
        self.steps = 0

    @contextmanager
    def step(self) -> Iterator[None]:
        begin = time.thread_time_ns()
        yield
        passed_ms = (time.thread_time_ns() - begin) / 1e6
        self.longest_ms = max(self.longest_ms, passed_ms)
        self.total_ms += passed_ms
        self.steps += 1


class MeasuredShell(SimulatedShell):
    """The simulated shell with a stopwatch around what a real one does on its event loop."""

    watch = Stopwatch()

    def _stepped(self, event: Event) -> list[Effect]:
        with self.watch.step():
            return super()._stepped(event)

    def _decoded(self, connection: int, frame: memoryview) -> Event:
        with self.watch.step():
            return super()._decoded(connection, frame)


class MeasuredCluster(Cluster):
    SHELL = MeasuredShell
    shell: MeasuredShell


class LongSteps:
    """A node with some thousand partitions, and what to do to it."""

    def __init__(self, cluster: MeasuredCluster, partitions: int, topics: int) -> None:
        self.cluster = cluster
        self.shell = cluster.shell
        self.partitions = partitions
        self.names = [f"topic-{number:05}" for number in range(topics)]
        self.found: dict[str, Stopwatch] = {}

    @contextmanager
    def kind(self, name: str) -> Iterator[None]:
        """Time the steps of one kind of work."""
        gc.collect()
        self.shell.watch = self.found[name] = Stopwatch()
        yield

    def ask(self, name: str, message: Any, version: int | None = None) -> Any:
        # What is generated on first use was used before.
        with self.kind(name):
            return self.cluster.ask(message, version, wait_ms=20_000)

    def run(self) -> dict[str, Stopwatch]:
        gc.disable()
        try:
            for work in (
                self.creating,
                self.describing,
                self.asking_by_partition,
                self.configuring,
                self.producing,
                self.fetching,
                self.polling,
                self.decoding,
                self.upkeep,
                self.restarting,
                self.deleting,
            ):
                work()
        finally:
            gc.enable()
        return self.found

    # Topics.

    def creating(self) -> None:
        self.ask("CreateTopics, one wide topic", self._creation([WIDE], self.partitions))
        with self.kind("making partitions"):
            self.shell.advance(1000)
        assert len(self.cluster.broker.hosting.by_name) == self.partitions
        answer = self.ask("CreateTopics, many topics", self._creation(self.names, 1))
        assert {topic.error_code for topic in answer.topics} == {0}
        self.shell.advance(1000)
        wanted = create_partitions.CreatePartitionsTopic(
            name=WIDE, count=2 * self.partitions, assignments=None
        )
        request = create_partitions.CreatePartitionsRequest(
            topics=(wanted,), timeout_ms=60_000, validate_only=False
        )
        (result,) = self.ask("CreatePartitions", request).results
        assert result.error_code == 0
        self.shell.advance(1000)

    def _creation(self, names: list[str], partitions: int) -> Any:
        return create_topics.CreateTopicsRequest(
            topics=tuple(
                create_topics.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=1,
                    assignments=(),
                    configs=(),
                )
                for name in names
            ),
            timeout_ms=60_000,
        )

    def deleting(self) -> None:
        request = delete_topics.DeleteTopicsRequest(
            topics=tuple(
                delete_topics.DeleteTopicState(name=name, topic_id=ZERO_UUID)
                for name in [WIDE, *self.names]
            ),
            timeout_ms=60_000,
        )
        answer = self.ask("DeleteTopics", request)
        assert {result.error_code for result in answer.responses} == {0}
        with self.kind("removing files"):
            self.shell.advance(120_000)
        assert not self.cluster.broker.hosting.by_name

    # Answers about all there is.

    def describing(self) -> None:
        answer = self.ask("Metadata, all topics", metadata.MetadataRequest(topics=None))
        assert sum(len(topic.partitions) for topic in answer.topics) > 2 * self.partitions
        named = tuple(metadata.MetadataRequestTopic(name=name) for name in self.names)
        self.ask("Metadata, by name", metadata.MetadataRequest(topics=named))
        self.ask(
            "DescribeTopicPartitions",
            describe_topic_partitions.DescribeTopicPartitionsRequest(topics=()),
        )
        self.ask("DescribeLogDirs", describe_log_dirs.DescribeLogDirsRequest(topics=None))
        self.ask("ListConfigResources", list_config_resources.ListConfigResourcesRequest())
        resources = tuple(
            describe_configs.DescribeConfigsResource(
                resource_type=TOPIC, resource_name=name, configuration_keys=None
            )
            for name in self.names
        )
        self.ask(
            "DescribeConfigs",
            describe_configs.DescribeConfigsRequest(
                resources=resources, include_synonyms=True, include_documentation=True
            ),
        )
        keys = tuple(f"group-{number}" for number in range(self.partitions))
        self.ask(
            "FindCoordinator",
            find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=keys),
        )

    def asking_by_partition(self) -> None:
        indexes = range(self.partitions)
        asked = tuple(
            list_offsets.ListOffsetsPartition(partition_index=index, timestamp=0)
            for index in indexes
        )
        topic: Any = list_offsets.ListOffsetsTopic(name=WIDE, partitions=asked)
        self.ask("ListOffsets", list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,)))
        epochs = tuple(
            offset_for_leader_epoch.OffsetForLeaderPartition(partition=index, leader_epoch=0)
            for index in indexes
        )
        topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=WIDE, partitions=epochs)
        self.ask(
            "OffsetForLeaderEpoch",
            offset_for_leader_epoch.OffsetForLeaderEpochRequest(topics=(topic,)),
        )
        deleted = tuple(
            delete_records.DeleteRecordsPartition(partition_index=index, offset=-1)
            for index in indexes
        )
        topic = delete_records.DeleteRecordsTopic(name=WIDE, partitions=deleted)
        self.ask(
            "DeleteRecords",
            delete_records.DeleteRecordsRequest(topics=(topic,), timeout_ms=1000),
        )
        topic = describe_producers.TopicRequest(name=WIDE, partition_indexes=tuple(indexes))
        self.ask("DescribeProducers", describe_producers.DescribeProducersRequest(topics=(topic,)))

    def configuring(self) -> None:
        change = incremental_alter_configs.AlterableConfig(
            name="retention.ms", config_operation=SET, value="86400000"
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=tuple(
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=TOPIC, resource_name=name, configs=(change,)
                )
                for name in [WIDE, *self.names]
            ),
            validate_only=False,
        )
        self.ask("IncrementalAlterConfigs, topics", request)
        change = incremental_alter_configs.AlterableConfig(
            name="log.retention.bytes", config_operation=SET, value="1000000000"
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=BROKER, resource_name="1", configs=(change,)
        )
        request = request.replace(resources=(resource,))
        self.ask("IncrementalAlterConfigs, broker", request)
        assert self.cluster.partition(WIDE).log.config.retention_bytes == 1000000000

    # Records.

    def producing(self) -> None:
        batch = self.cluster.batch(b"x" * 50)
        data = tuple(
            produce.PartitionProduceData(index=index, records=batch)
            for index in range(self.partitions)
        )
        request = produce.ProduceRequest(
            acks=-1,
            timeout_ms=60_000,
            topic_data=(produce.TopicProduceData(name=WIDE, partition_data=data),),
        )
        (topic,) = self.ask("Produce, many partitions", request, 9).responses
        assert {one.error_code for one in topic.partition_responses} == {0}

    def _fetch(self, offset: int = 0, **fields: Any) -> Any:
        asked = tuple(fetch_partition(index, offset) for index in range(self.partitions))
        fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20} | fields
        return fetch.FetchRequest(
            topics=(fetch.FetchTopic(topic=WIDE, partitions=asked),), **fields
        )

    def fetching(self) -> None:
        none = {"session_id": 0, "session_epoch": -1}
        answer = self.ask("Fetch without a session", self._fetch(**none), 12)
        assert len(answer.responses[0].partitions) == self.partitions
        answer = self.ask("Fetch, first of a session", self._fetch(1, session_epoch=0), 12)
        session = answer.session_id
        request = self._fetch(1).replace(topics=(), session_id=session, session_epoch=1)
        self.ask("Fetch of a session, nothing new", request, 12)
        request = self._fetch(0).replace(session_id=session, session_epoch=2)
        answer = self.ask("Fetch of a session, all new", request, 12)
        assert len(answer.responses[0].partitions) == self.partitions
        # Few bytes of each, so that all of them still have something to tell.
        request = request.replace(topics=(), session_epoch=3, max_wait_ms=5000, min_bytes=40 << 20)
        other = self.shell.connect()
        with self.kind("Fetch, a long poll for more than there is"):
            self.cluster.send(request, 12, other)
            self.shell.advance(1000)
            self.cluster.produce(WIDE, b"more")
            self.shell.advance(10_000)
        assert len(self.cluster.take(1, 12, other)) == 1
        forgotten = fetch.ForgottenTopic(topic=WIDE, partitions=tuple(range(self.partitions)))
        request = self._fetch(0).replace(
            topics=(), forgotten_topics_data=(forgotten,), session_id=session, session_epoch=4
        )
        self.ask("Fetch of a session, all forgotten", request, 12)

    def polling(self) -> None:
        """Very many readers of one partition."""
        name = self.names[0]
        readers = [self.shell.connect() for _ in range(LONG_POLLS)]
        poll = self.cluster.fetch_request(name, 0, max_wait_ms=5000)
        for reader in readers:
            self.cluster.send(poll, 12, reader)
        with self.kind("one record for many long polls"):
            self.cluster.produce(name, b"x")
            self.shell.advance(100)
        assert all(len(self.cluster.take(1, 12, reader)) == 1 for reader in readers)
        poll = self.cluster.fetch_request(name, 1, max_wait_ms=5000)
        for reader in readers:
            self.cluster.send(poll, 12, reader)
        with self.kind("many long polls end at once"):
            self.shell.advance(5001)
        assert all(len(self.cluster.take(1, 12, reader)) == 1 for reader in readers)
        for reader in readers:
            self.shell.disconnect(reader)

    def decoding(self) -> None:
        names = tuple(
            metadata.MetadataRequestTopic(name=f"no-{number}") for number in range(ELEMENTS)
        )
        request = metadata.MetadataRequest(topics=names, allow_auto_topic_creation=False)
        self.ask("decoding a request of many elements", request)

    # Time.

    def upkeep(self) -> None:
        with self.kind("checkpoints, flushes, retention"):
            self.shell.advance(400_000)

    def restarting(self) -> None:
        with self.kind("clean stop (not a step)"), self.shell.watch.step():
            stop_node(self.cluster.node, self.shell.now)
        self.shell.run(None)
        watch = Stopwatch()
        with watch.step():
            self._start_uncounted()
        self.found["load (not a step)"] = watch
        with self.kind("after the start"):
            self.shell.advance(1000)

    def _start_uncounted(self) -> None:
        self.shell.watch = Stopwatch()
        self.cluster.start()


def measured(
    make: Callable[[], MeasuredCluster], partitions: int, topics: int
) -> dict[str, Stopwatch]:
    """The longest steps by kind of work. What is generated on first use is so before."""
    LongSteps(make(), 5, 5).run()
    return LongSteps(make(), partitions, topics).run()
