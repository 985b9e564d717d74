"""Topics on a real node for the source's tests: made, filled, cut off at the front, deleted."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.client import Client, ClientSettings, TopicPartition, parse_servers
from tidelog.client.offsets import delete_records
from tidelog.client.produce import produce
from tidelog.client.topics import (
    MorePartitions,
    NewTopic,
    create_partitions,
    create_topics,
    delete_topics,
)
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.compression import Compression

START_MS = 1_700_000_000_000


class Topics:
    """A client with the few things that tests do to topics."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.client = Client(ClientSettings(bootstrap_servers=parse_servers(bootstrap_servers)))

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        done = self.client.run(create_topics, [NewTopic(name, partitions, configs=dotted)])
        assert done == {name: None}

    def delete(self, name: str) -> None:
        assert self.client.run(delete_topics, [name]) == {name: None}

    def extend(self, name: str, partitions: int) -> None:
        assert self.client.run(create_partitions, [MorePartitions(name, partitions)]) == {
            name: None
        }

    def fill(
        self,
        name: str,
        values: Iterable[int],
        partition: int = 0,
        compression: Compression = Compression.NONE,
    ) -> None:
        """A batch of records "0", "1" and so on, a second apart."""
        builder = BatchBuilder()
        for n in values:
            text = str(n).encode()
            builder.append(b"k" + text, text, timestamp=START_MS + n * 1000)
        batch = builder.build(compression=compression)
        self.client.run(produce, {TopicPartition(name, partition): batch})

    def cut(self, name: str, offset: int, partition: int = 0) -> None:
        """Delete the records before an offset."""
        self.client.run(delete_records, {TopicPartition(name, partition): offset})
