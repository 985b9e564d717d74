"""A client for tests that drive a node in virtual time: real frames in, real frames out."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

from tidelog.config.broker import BrokerConfig
from tidelog.env import FileSlice
from tidelog.loading import load_node, stop_node
from tidelog.replica.partition import Partition
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.shell import SimulatedShell
from tidelog.types import ZERO_UUID, Uuid
from tidelog.wire.api import APIS, response_class
from tidelog.wire.batch import BatchWalk
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import read_records
from tidelog.wire.codec import decoder, encode
from tidelog.wire.compression import Compression
from tidelog.wire.declare import Message
from tidelog.wire.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages import (
    create_topics,
    delete_topics,
    fetch,
    incremental_alter_configs,
    metadata,
    produce,
)

PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "data",
    "metadata.max.idle.interval.ms": "0",  # what a test did not ask for is not in the log
}
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1


def highest_version(key: int) -> int:
    """That a node serves."""
    api = APIS[key]
    return api.versions[1] - api.latest_is_unstable


class Cluster:
    """One node on a simulated disk, and a connection to it."""

    SHELL = SimulatedShell

    def __init__(self, disk: SimulatedDisk | None = None, seed: int = 0, **properties: str) -> None:
        self.properties = PROPERTIES | {
            name.replace("_", "."): value for name, value in properties.items()
        }
        self.shell = self.SHELL(disk or SimulatedDisk(), seed)
        self.start()

    def start(self) -> None:
        config = BrokerConfig.from_properties(self.properties)
        node = load_node(
            config, self.shell.disk, random.Random(self.shell.rng.random()), self.shell.now
        )
        self.shell.run(node)
        self.node, self.broker = node, node.broker
        self.connection = self.shell.connect()
        self.correlation_id = 0

    def stop(self) -> None:
        stop_node(self.node, self.shell.now)
        self.shell.run(None)

    def restart(self) -> None:
        """After a clean stop."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """The process dies, the page cache stays; then it starts again."""
        self.shell.disk = self.shell.disk.copy()
        self.start()

    def crash(
        self,
        keep_bytes: Callable[[str, int], int] = lambda path, unsynced: 0,
        keep_names: Callable[[int], int] = lambda changes: 0,
    ) -> None:
        """The power fails, what was not flushed is lost; then it starts again."""
        self.shell.disk = self.shell.disk.crash(keep_bytes, keep_names)
        self.start()

    def send(self, message: Message, version: int | None = None, connection: int = 0) -> int:
        """A request's bytes, at once; returns its correlation id."""
        self.correlation_id += 1
        frame = request_frame(message, version, self.correlation_id)
        self.shell.send(connection or self.connection, frame)
        return self.correlation_id

    def frames(self, connection: int = 0) -> list[bytes]:
        """The answers so far, as they came."""
        data = self.shell.take(connection or self.connection)
        found = []
        while data:
            (size,) = struct.unpack_from(">i", data)
            found.append(data[4 : 4 + size])
            data = data[4 + size :]
        return found

    def take(self, key: int, version: int | None = None, connection: int = 0) -> list[Any]:
        """The answers so far, all of one API and version."""
        return [parse_response(key, version, frame)[1] for frame in self.frames(connection)]

    def ask(
        self,
        message: Message,
        version: int | None = None,
        *,
        wait_ms: int = 1000,
        connection: int = 0,
    ) -> Any:
        """The one answer, after some virtual time if it takes that."""
        assert message.API_KEY is not None
        self.send(message, version, connection)
        answers = self.take(message.API_KEY, version, connection)
        if not answers:
            self.shell.advance(wait_ms)
            answers = self.take(message.API_KEY, version, connection)
        assert len(answers) == 1, (answers, self.shell.closed, self.shell.stopped)
        return answers[0]

    # What is inside.

    def partition(self, topic: str, index: int = 0) -> Partition:
        return self.broker.hosting.by_name[topic, index]

    def log_end_offset(self, topic: str, index: int = 0) -> int:
        return self.partition(topic, index).log.log_end_offset

    def topic_id(self, topic: str) -> Uuid:
        return self.broker.image.topics[topic].topic_id

    # Shorthands.

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> Any:
        (result,) = self.ask(create_topic_request(name, partitions, **configs)).topics
        assert result.error_code == 0, result
        return result

    def delete_topic(self, name: str) -> Any:
        topic = delete_topics.DeleteTopicState(name=name, topic_id=ZERO_UUID)
        request = delete_topics.DeleteTopicsRequest(topics=(topic,), timeout_ms=1000)
        (result,) = self.ask(request).responses
        return result

    def configure(
        self, kind: int, resource: str, operation: int = SET, **configs: str | None
    ) -> Any:
        """IncrementalAlterConfigs of one resource: its result."""
        changes = tuple(
            incremental_alter_configs.AlterableConfig(
                name=name.replace("_", "."), config_operation=operation, value=value
            )
            for name, value in configs.items()
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=(
                incremental_alter_configs.AlterConfigsResource(
                    resource_type=kind, resource_name=resource, configs=changes
                ),
            ),
            validate_only=False,
        )
        (result,) = self.ask(request).responses
        return result

    def metadata(self, *topics: str, version: int | None = None, **fields: Any) -> Any:
        asked = tuple(metadata.MetadataRequestTopic(name=name) for name in topics)
        return self.ask(metadata.MetadataRequest(topics=asked, **fields), version)

    def batch(self, *values: bytes | None, **fields: Any) -> bytes:
        builder = BatchBuilder()
        timestamp = fields.pop("timestamp", self.shell.now.wall_ms)
        key = fields.pop("key", b"key")
        for value in values:
            builder.append(key, value, timestamp=timestamp)
        compression = fields.pop("compression", Compression.NONE)
        return bytes(builder.build(compression=compression, **fields))

    def produce_request(
        self,
        topic: str,
        records: bytes | None,
        acks: int = -1,
        partition: int = 0,
        timeout_ms: int = 1000,
        transactional_id: str | None = None,
    ) -> Any:
        data = produce.PartitionProduceData(index=partition, records=records)
        return produce.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=(produce.TopicProduceData(name=topic, partition_data=(data,)),),
        )

    def produce_records(
        self, topic: str, records: bytes | None, version: int = 9, **fields: Any
    ) -> Any:
        request = self.produce_request(topic, records, **fields)
        return self.ask(request, version).responses[0].partition_responses[0]

    def produce(self, topic: str, *values: bytes | None, partition: int = 0, **fields: Any) -> Any:
        return self.produce_records(topic, self.batch(*values, **fields), partition=partition)

    def fetch_request(
        self, topic: str, offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1, **fields: Any
    ) -> Any:
        partition = fetch_partition(
            fields.pop("partition", 0),
            offset,
            **{name: fields.pop(name) for name in list(fields) if name in PARTITION_FIELDS},
        )
        return fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            topics=(fetch.FetchTopic(topic=topic, partitions=(partition,)),),
            **fields,
        )

    def fetch(self, topic: str, offset: int, **fields: Any) -> Any:
        version = fields.pop("version", 12)
        request = self.fetch_request(topic, offset, **fields)
        return self.ask(request, version).responses[0].partitions[0]

    def values(self, topic: str, offset: int = 0, partition: int = 0) -> list[bytes | None]:
        """Of all records from an offset on."""
        return [value for _, value in self.records(topic, offset, partition)]

    def records(
        self, topic: str, offset: int = 0, partition: int = 0
    ) -> list[tuple[int, bytes | None]]:
        found: list[tuple[int, bytes | None]] = []
        while True:
            answer = self.fetch(topic, offset, partition=partition)
            assert answer.error_code == 0, answer
            batches = records_of(answer)
            if not batches:
                return found
            found += [record for record in batches if record[0] >= offset]
            offset = found[-1][0] + 1


PARTITION_FIELDS = ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch")


def fetch_partition(index: int, offset: int, **fields: Any) -> Any:
    fields.setdefault("partition_max_bytes", 1 << 20)
    return fetch.FetchPartition(partition=index, fetch_offset=offset, **fields)


def create_topic_request(name: str, partitions: int = 1, **configs: str) -> Any:
    topic = create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=1,
        assignments=(),
        configs=tuple(
            create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
    )
    return create_topics.CreateTopicsRequest(topics=(topic,))


def records_of(answer: Any) -> list[tuple[int, bytes | None]]:
    """Offsets and values of a fetched partition's records."""
    content = answer.records
    if isinstance(content, FileSlice):
        content = content.read()
    walk = BatchWalk(content)
    found = [(record.offset, record.value) for batch in walk for record in read_records(batch)]
    assert walk.flaw is None, walk.flaw
    return found


def request_frame(message: Message, version: int | None, correlation_id: int) -> bytes:
    assert message.API_KEY is not None
    api = APIS[message.API_KEY]
    version = highest_version(api.key) if version is None else version
    header = RequestHeader(
        request_api_key=api.key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id="test",
    )
    body = encode(header, api.request_header_version(version)) + encode(message, version)
    return struct.pack(">i", len(body)) + body


def parse_response(key: int, version: int | None, frame: bytes) -> tuple[int, Any]:
    """The correlation id and the message, which fills the frame."""
    version = highest_version(key) if version is None else version
    view = memoryview(frame)
    header_version = APIS[key].response_header_version(version)
    header, position = decoder(ResponseHeader, header_version)(view, 0)
    message, end = decoder(response_class(key), version)(view, position)
    assert end == len(frame)
    assert isinstance(header, ResponseHeader)
    return header.correlation_id, message
