"""A client for tests that drive a node in virtual time: real frames in, real frames out."""

from __future__ import annotations

import random
import struct
from typing import Any, TypeVar

from tidelog.broker.loading import load_broker, stop_broker
from tidelog.config.broker import BrokerConfig
from tidelog.node import Node
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.shell import SimulatedShell
from tidelog.wire.api import APIS, response_class
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.codec import decoder, encode
from tidelog.wire.compression import Compression
from tidelog.wire.declare import Message
from tidelog.wire.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages import create_topics, fetch, produce

M = TypeVar("M", bound=Message)

PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "data",
}


class Cluster:
    """One node on a simulated disk, and a connection to it."""

    def __init__(self, disk: SimulatedDisk | None = None, seed: int = 0, **properties: str) -> None:
        self.properties = PROPERTIES | {
            name.replace("_", "."): value for name, value in properties.items()
        }
        self.shell = SimulatedShell(disk or SimulatedDisk(), seed)
        self.start()

    def start(self) -> None:
        config = BrokerConfig.from_properties(self.properties)
        broker = load_broker(
            config, self.shell.disk, random.Random(self.shell.rng.random()), self.shell.now
        )
        self.shell.node = Node(broker)
        self.broker = broker
        self.connection = self.shell.connect()
        self.correlation_id = 0

    def stop(self) -> None:
        stop_broker(self.broker, self.shell.now)

    def send(self, message: Message, version: int | None = None, connection: int = 0) -> int:
        """A request's bytes, at once; returns its correlation id."""
        assert message.API_KEY is not None
        api = APIS[message.API_KEY]
        version = api.versions[1] if version is None else version
        self.correlation_id += 1
        header = RequestHeader(
            request_api_key=api.key,
            request_api_version=version,
            correlation_id=self.correlation_id,
            client_id="test",
        )
        body = encode(header, api.request_header_version(version)) + encode(message, version)
        frame = struct.pack(">i", len(body)) + body
        self.shell.send(connection or self.connection, frame)
        return self.correlation_id

    def take(self, key: int, version: int, connection: int = 0) -> list[Message]:
        """The answers so far, all of one API and version."""
        data = self.shell.take(connection or self.connection)
        found = []
        while data:
            (size,) = struct.unpack_from(">i", data)
            view = memoryview(data[4 : 4 + size])
            header_version = APIS[key].response_header_version(version)
            _, position = decoder(ResponseHeader, header_version)(view, 0)
            message, end = decoder(response_class(key), version)(view, position)
            assert end == size
            found.append(message)
            data = data[4 + size :]
        return found

    def ask(self, message: Message, version: int | None = None, *, wait_ms: int = 1000) -> Any:
        """The one answer, after some virtual time if it takes that."""
        assert message.API_KEY is not None
        version = APIS[message.API_KEY].versions[1] if version is None else version
        self.send(message, version)
        answers = self.take(message.API_KEY, version)
        if not answers:
            self.shell.advance(wait_ms)
            answers = self.take(message.API_KEY, version)
        assert len(answers) == 1, (answers, self.shell.closed)
        return answers[0]

    # Shorthands.

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> Any:
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
        (result,) = self.ask(create_topics.CreateTopicsRequest(topics=(topic,))).topics
        assert result.error_code == 0, result
        return result

    def batch(self, *values: bytes | None, **fields: Any) -> bytes:
        builder = BatchBuilder()
        for value in values:
            builder.append(b"key", value, timestamp=self.shell.now.wall_ms)
        compression = fields.pop("compression", Compression.NONE)
        return bytes(builder.build(compression=compression, **fields))

    def produce_request(
        self, topic: str, records: bytes, acks: int = -1, partition: int = 0
    ) -> Any:
        data = produce.PartitionProduceData(index=partition, records=records)
        return produce.ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout_ms=1000,
            topic_data=(produce.TopicProduceData(name=topic, partition_data=(data,)),),
        )

    def produce(self, topic: str, *values: bytes | None, **fields: Any) -> Any:
        request = self.produce_request(topic, self.batch(*values, **fields))
        return self.ask(request, 9).responses[0].partition_responses[0]

    def fetch_request(
        self, topic: str, offset: int, *, max_wait_ms: int = 0, min_bytes: int = 1, **fields: Any
    ) -> Any:
        partition = fetch.FetchPartition(
            partition=fields.pop("partition", 0),
            fetch_offset=offset,
            partition_max_bytes=fields.pop("partition_max_bytes", 1 << 20),
            current_leader_epoch=fields.pop("current_leader_epoch", -1),
            last_fetched_epoch=fields.pop("last_fetched_epoch", -1),
        )
        return fetch.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            topics=(fetch.FetchTopic(topic=topic, partitions=(partition,)),),
            **fields,
        )

    def fetch(self, topic: str, offset: int, **fields: Any) -> Any:
        return self.ask(self.fetch_request(topic, offset, **fields), 12).responses[0].partitions[0]
