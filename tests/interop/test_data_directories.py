"""Whole data directories change hands between running nodes: ours, Apache Kafka's, ours again."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.apache import CLUSTER_ID, ApacheNode, run_tool
from tests.interop.exchange import Exchange
from tests.interop.process import NodeProcess
from tests.interop.suite import eventually
from tests.interop.test_every_version import BROKER_RESOURCE, TOPIC_RESOURCE, creation
from tests.interop.tidelog_node import TidelogNode
from tidelog.types import ZERO_UUID
from tidelog.wire.batch import BatchWalk
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import read_records
from tidelog.wire.compression import Compression
from tidelog.wire.messages import (
    api_versions,
    create_partitions,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    list_offsets,
    metadata,
    produce,
)

pytestmark = pytest.mark.interop

PARTITIONS = 3
BEGIN_MS = time.time_ns() // 1_000_000 - 600_000
"""Of the first records: producers that wrote nothing for a day are forgotten."""
PROPERTIES = {"log.flush.start.offset.checkpoint.interval.ms": "100"}
DYNAMIC_SOURCES = (1, 2, 3)
"""Of a topic, of one broker, of all brokers."""
Place = tuple[str, int]
Asked = Any


class Batches:
    """What one idempotent producer sends to one partition, and may send again."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.sequence = 0
        self.last = b""

    def next(self, records: int, codec: Compression = Compression.NONE) -> bytes:
        builder = BatchBuilder()
        for i in range(self.sequence, self.sequence + records):
            value = None if i % 7 == 0 else b"value %d " % i * (i % 90)
            headers = ((b"h", b"%d" % i), (b"none", None))
            builder.append(b"%d" % i, value, headers=headers, timestamp=BEGIN_MS + 10 * i)
        self.last = bytes(
            builder.build(
                producer_id=self.producer_id,
                producer_epoch=0 if self.producer_id >= 0 else -1,
                base_sequence=self.sequence if self.producer_id >= 0 else -1,
                compression=codec,
            )
        )
        self.sequence += records
        return self.last


class Talk:
    """The requests of this module to one node."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange

    def send(self, place: Place, records: bytes) -> int:
        """The offset at which the records are, now or already."""
        topic, index = place
        data = (produce.PartitionProduceData(index=index, records=records),)
        there = produce.TopicProduceData(name=topic, topic_id=ZERO_UUID, partition_data=data)
        request = produce.ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(there,))
        answer: Asked = self.exchange.ask_until(
            request, 9, lambda a: a.responses[0].partition_responses[0].error_code == 0
        )
        offset: int = answer.responses[0].partition_responses[0].base_offset
        return offset

    def producer_id(self) -> int:
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1000
        )
        answer: Asked = self.exchange.ask_until(request, 4, lambda a: a.error_code == 0)
        producer_id: int = answer.producer_id
        return producer_id

    def create(self, topic: str, partitions: int, **configs: str) -> None:
        answer: Asked = self.exchange.ask(creation(topic, partitions, **configs), 7)
        assert answer.topics[0].error_code == 0, answer
        self.exchange.topic_id(topic)

    def grow(self, topic: str, count: int) -> None:
        wanted = create_partitions.CreatePartitionsTopic(name=topic, count=count, assignments=None)
        request = create_partitions.CreatePartitionsRequest(
            topics=(wanted,), timeout_ms=10_000, validate_only=False
        )
        answer: Asked = self.exchange.ask(request, 3)
        assert answer.results[0].error_code == 0, answer

    def delete_topic(self, topic: str) -> None:
        state = delete_topics.DeleteTopicState(name=topic, topic_id=ZERO_UUID)
        request = delete_topics.DeleteTopicsRequest(topics=(state,), timeout_ms=10_000)
        answer: Asked = self.exchange.ask(request, 6)
        assert answer.responses[0].error_code == 0, answer
        eventually(lambda: topic not in self.topics())

    def configure(self, kind: int, name: str, key: str, value: str) -> None:
        entry = incremental_alter_configs.AlterableConfig(name=key, config_operation=0, value=value)
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=(entry,)
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=(resource,), validate_only=False
        )
        answer: Asked = self.exchange.ask(request, 1)
        assert answer.responses[0].error_code == 0, answer
        eventually(lambda: self.configs(kind, name).get(key) == value)

    def delete_below(self, place: Place, offset: int) -> None:
        asked = delete_records.DeleteRecordsPartition(partition_index=place[1], offset=offset)
        there = delete_records.DeleteRecordsTopic(name=place[0], partitions=(asked,))
        request = delete_records.DeleteRecordsRequest(topics=(there,), timeout_ms=10_000)
        answer: Asked = self.exchange.ask(request, 2)
        assert answer.topics[0].partitions[0].error_code == 0, answer

    # What is compared.

    def topics(self) -> dict[str, tuple[bytes, list[int]]]:
        answer: Asked = self.exchange.ask(metadata.MetadataRequest(topics=None), 12)
        return {
            topic.name: (topic.topic_id, sorted(p.partition_index for p in topic.partitions))
            for topic in answer.topics
        }

    def directories(self, places: list[Place]) -> dict[Place, str]:
        """In which directory each partition lies; Apache makes new ones in its own time."""
        request = describe_log_dirs.DescribeLogDirsRequest(topics=None)

        def found(answer: Asked) -> dict[Place, str]:
            return {
                (topic.name, partition.partition_index): result.log_dir
                for result in answer.results
                for topic in result.topics
                for partition in topic.partitions
            }

        answer = self.exchange.ask_until(request, 4, lambda a: found(a).keys() >= set(places))
        return {place: found(answer)[place] for place in places}

    def features(self) -> dict[str, int]:
        request = api_versions.ApiVersionsRequest(
            client_software_name="test", client_software_version="1"
        )
        answer: Asked = self.exchange.ask(request, 4)
        return {one.name: one.max_version_level for one in answer.finalized_features}

    def configs(self, kind: int, name: str) -> dict[str, str]:
        resource = describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        request = describe_configs.DescribeConfigsRequest(resources=(resource,))
        answer: Asked = self.exchange.ask(request, 4)
        return {
            config.name: config.value
            for config in answer.results[0].configs
            if config.config_source in DYNAMIC_SOURCES
        }

    def offset(self, place: Place, timestamp: int) -> tuple[int, int]:
        asked = list_offsets.ListOffsetsPartition(partition_index=place[1], timestamp=timestamp)
        there = list_offsets.ListOffsetsTopic(name=place[0], partitions=(asked,))
        request = list_offsets.ListOffsetsRequest(replica_id=-1, topics=(there,))
        answer: Asked = self.exchange.ask_until(
            request, 7, lambda a: a.topics[0].partitions[0].error_code == 0
        )
        found = answer.topics[0].partitions[0]
        return found.timestamp, found.offset

    def producers(self, place: Place) -> list[tuple[int, int, int]]:
        there = describe_producers.TopicRequest(name=place[0], partition_indexes=(place[1],))
        request = describe_producers.DescribeProducersRequest(topics=(there,))
        answer: Asked = self.exchange.ask(request, 0)
        return sorted(
            (p.producer_id, p.producer_epoch, p.last_sequence)
            for p in answer.topics[0].partitions[0].active_producers
        )

    def records(self, place: Place) -> list[Any]:
        """Every record with its batch's codec and producer."""
        offset, end = self.offset(place, -2)[1], self.offset(place, -1)[1]
        found: list[Any] = []
        while offset < end:
            asked = fetch.FetchPartition(
                partition=place[1], fetch_offset=offset, partition_max_bytes=1 << 20
            )
            there = fetch.FetchTopic(topic=place[0], partitions=(asked,))
            request = fetch.FetchRequest(max_wait_ms=0, min_bytes=1, topics=(there,))
            answer: Asked = self.exchange.ask(request, 11)
            data = answer.responses[0].partitions[0]
            assert data.error_code == 0, data
            for batch in BatchWalk(data.records):
                of_batch = (batch.attributes, batch.producer_id, batch.base_sequence)
                found += [
                    (of_batch, *record) for record in read_records(batch) if record.offset >= offset
                ]
                offset = batch.next_offset
        return found

    def committed(self, place: Place) -> tuple[int, list[tuple[int, int]]]:
        """The last stable offset, and which transactions a reader leaves out."""
        asked = fetch.FetchPartition(
            partition=place[1], fetch_offset=0, partition_max_bytes=1 << 20
        )
        there = fetch.FetchTopic(topic=place[0], partitions=(asked,))
        request = fetch.FetchRequest(max_wait_ms=0, min_bytes=1, isolation_level=1, topics=(there,))
        answer: Asked = self.exchange.ask(request, 11)
        data = answer.responses[0].partitions[0]
        assert data.error_code == 0
        aborted = [(one.producer_id, one.first_offset) for one in data.aborted_transactions or ()]
        return data.last_stable_offset, aborted

    def everything(self) -> dict[str, Any]:
        """All that must survive a change of hands."""
        topics = self.topics()
        places = [(name, index) for name, (_, indexes) in topics.items() for index in indexes]
        times = (-1, -2, -3, BEGIN_MS + 333, BEGIN_MS + 10**9)
        return {
            "features": self.features(),
            "topics": topics,
            "directories": self.directories(places),
            "configs": {name: self.configs(TOPIC_RESOURCE, name) for name in topics},
            "broker": self.configs(BROKER_RESOURCE, "1"),
            "cluster": self.configs(BROKER_RESOURCE, ""),
            "offsets": {place: [self.offset(place, time) for time in times] for place in places},
            "records": {place: self.records(place) for place in places},
            "producers": {place: self.producers(place) for place in places},
        }


class Life:
    """What is done to the directory, whoever serves it: each owner adds something."""

    def __init__(self) -> None:
        self.producers: dict[Place, Batches] = {}

    def begin(self, talk: Talk) -> None:
        talk.create("tides", PARTITIONS, retention_ms="-1", segment_bytes=str(1 << 20))
        talk.create("gone", 2)
        talk.create("grown", 1)
        talk.grow("grown", 2)
        talk.create("deleted-from", 1)
        talk.configure(TOPIC_RESOURCE, "grown", "max.message.bytes", "2000000")
        talk.configure(BROKER_RESOURCE, "1", "log.cleaner.threads", "2")
        talk.configure(BROKER_RESOURCE, "", "message.max.bytes", "3000000")
        for index in range(PARTITIONS):
            self.producers["tides", index] = Batches(talk.producer_id())
        for place in (("grown", 0), ("grown", 1), ("gone", 0), ("deleted-from", 0)):
            self.producers[place] = Batches(-1)
        self.go_on(talk)
        talk.delete_below(("deleted-from", 0), 33)
        talk.delete_topic("gone")
        del self.producers["gone", 0]

    def go_on(self, talk: Talk) -> None:
        for place, batches in self.producers.items():
            for number, codec in enumerate(Compression):
                talk.send(place, batches.next(20 + number, codec))

    def is_known_twice(self, talk: Talk) -> bool:
        """Whether each idempotent producer's last batch is known when it comes again."""
        known = []
        for place, batches in self.producers.items():
            if batches.producer_id >= 0:
                end = talk.offset(place, -1)[1]
                known.append(talk.send(place, batches.last) < end == talk.offset(place, -1)[1])
        return all(known)


def log_dirs(node: NodeProcess) -> list[Path]:
    return [Path(path) for path in node.properties["log.dirs"].split(",")]


def wait_for_log_start(folders: list[Path]) -> None:
    files = [folder / "log-start-offset-checkpoint" for folder in folders]
    eventually(lambda: any(f.exists() and "deleted-from" in f.read_text() for f in files))


def change_hands(
    owners: Iterator[NodeProcess], *, ending: str, features: Mapping[str, int] | None = None
) -> None:
    """Each owner finds what the one before left, and adds to it."""
    life = Life()
    left: dict[str, Any] | None = None
    for node in owners:
        with node, Exchange(node.bootstrap_servers) as exchange:
            talk = Talk(exchange)
            if left is None:
                life.begin(talk)
            else:
                found = talk.everything()
                for kind, expected in left.items():
                    assert found[kind] == expected, (type(node).__name__, kind)
                assert life.is_known_twice(talk)
                new_id = talk.producer_id()
                assert new_id not in {b.producer_id for b in life.producers.values()}
                life.go_on(talk)
                talk.create(f"made-by-{type(node).__name__.lower()}-{len(left['topics'])}", 2)
            left = talk.everything()
            assert left["features"].items() >= (features or {}).items()
            folders = log_dirs(node)
            wait_for_log_start(folders)
            getattr(node, ending)()
            strays = [p.name for f in folders for p in f.iterdir() if p.name.endswith("-stray")]
            assert strays == []


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_apache_takes_over_what_ours_wrote(tmp_path: Path, ending: str) -> None:
    """And ours what Apache has made of it."""
    owners = (TidelogNode, ApacheNode, TidelogNode)
    change_hands((owner(tmp_path, properties=PROPERTIES) for owner in owners), ending=ending)


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_ours_takes_over_what_apache_wrote(tmp_path: Path, ending: str) -> None:
    """And Apache what ours has made of it."""
    owners = (ApacheNode, TidelogNode, ApacheNode)
    change_hands((owner(tmp_path, properties=PROPERTIES) for owner in owners), ending=ending)


class Formatted(TidelogNode):
    """Ours, on a directory that Apache's tool has formatted."""

    options: tuple[str, ...] = ()

    def format(self) -> None:
        config = ("-t", CLUSTER_ID, "-c", self.write_config())
        run_tool("kafka.tools.StorageTool", "format", *config, *self.options)


def static(node: NodeProcess) -> NodeProcess:
    return node


def dynamic(node: NodeProcess) -> NodeProcess:
    """Without controller.quorum.voters: the voters stand in the log (KIP-853)."""
    del node.properties["controller.quorum.voters"]
    address = node.properties["listeners"].rpartition("//")[2]
    node.properties["controller.quorum.bootstrap.servers"] = address
    return node


FORMATS: dict[str, tuple[tuple[str, ...], Any, dict[str, int]]] = {
    "oldest": (("--release-version", "3.3"), static, {"metadata.version": 7}),
    "older": (("--release-version", "3.9"), static, {"metadata.version": 21}),
    "features": (("--feature", "transaction.version=1"), static, {"transaction.version": 1}),
    "standalone": (("--standalone",), dynamic, {"kraft.version": 1}),
}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("first", ["ours", "apache"])
def test_a_directory_of_another_format(tmp_path: Path, form: str, first: str) -> None:
    options, quorum, features = FORMATS[form]

    def owners() -> Iterator[NodeProcess]:
        begin = Formatted(tmp_path, properties=PROPERTIES)
        begin.options = options
        quorum(begin).format()
        kinds = [TidelogNode, ApacheNode, TidelogNode, ApacheNode]
        for owner in kinds[:3] if first == "ours" else kinds[1:]:
            yield quorum(owner(tmp_path, properties=PROPERTIES))

    change_hands(owners(), ending="stop", features=features)


def test_what_groups_and_transactions_have_left(tmp_path: Path) -> None:
    """Ours serves neither yet, but what they wrote stays what it is."""
    few = {"offsets.topic.num.partitions": "2", "transaction.state.log.num.partitions": "2"}
    place = ("t", 0)

    def found(talk: Talk) -> Any:
        return talk.everything(), talk.committed(place)

    with ApacheNode(tmp_path, properties=PROPERTIES | few) as node:
        with Exchange(node.bootstrap_servers) as exchange:
            talk = Talk(exchange)
            talk.create("t", 1)
            use_groups_and_transactions(node.bootstrap_servers, "t")
            left = found(talk)
        stable, aborted = left[1]
        assert len(aborted) == 1
        assert stable < left[0]["offsets"][place][0][1], "a transaction is open"
        node.kill()
    with TidelogNode(tmp_path, properties=PROPERTIES | few) as node:
        with Exchange(node.bootstrap_servers) as exchange:
            assert found(Talk(exchange)) == left
        node.stop()
    with ApacheNode(tmp_path, properties=PROPERTIES | few) as node:
        with Exchange(node.bootstrap_servers) as exchange:
            assert found(Talk(exchange)) == left
        consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "readers"})
        (committed,) = consumer.committed([TopicPartition("t", 0)], timeout=30)
        assert committed.offset == 2
        consumer.close()


def use_groups_and_transactions(servers: str, topic: str) -> None:
    """One transaction that is committed, one that is aborted, one that stays open."""
    producers = []
    for ending in ("commit", "abort", "leave"):
        settings = {"bootstrap.servers": servers, "transactional.id": ending}
        producer = Producer({**settings, "transaction.timeout.ms": 900_000})
        producer.init_transactions(60)
        producer.begin_transaction()
        for i in range(5):
            producer.produce(topic, f"{ending} {i}", "key")
        producer.flush(60)
        if ending == "commit":
            producer.commit_transaction(60)
        elif ending == "abort":
            producer.abort_transaction(60)
        producers.append(producer)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()


@pytest.mark.parametrize("first", [TidelogNode, ApacheNode])
def test_several_directories(tmp_path: Path, first: type[NodeProcess]) -> None:
    second = ApacheNode if first is TidelogNode else TidelogNode
    paths = ",".join(str(tmp_path / name) for name in ("data", "more", "third"))
    properties = PROPERTIES | {"log.dirs": paths}
    owners = (owner(tmp_path, properties=properties) for owner in (first, second, first))
    change_hands(owners, ending="stop")
    assert all(list((tmp_path / name).glob("tides-*")) for name in ("data", "more", "third"))


def test_apache_takes_over_a_dynamic_quorum_that_ours_made(tmp_path: Path) -> None:
    owners = (TidelogNode, ApacheNode, TidelogNode)
    change_hands(
        (dynamic(owner(tmp_path, properties=PROPERTIES)) for owner in owners),
        ending="stop",
        features={"kraft.version": 1},
    )


def test_a_metadata_log_that_begins_with_a_snapshot(tmp_path: Path) -> None:
    """As it is once Apache has snapshots enough to delete what lies before them."""
    often = {
        "metadata.log.max.record.bytes.between.snapshots": "1",
        "metadata.log.segment.ms": "100",
        "metadata.max.idle.interval.ms": "100",
    }

    def owners() -> Iterator[NodeProcess]:
        yield ApacheNode(tmp_path, properties=PROPERTIES | often)
        cut_below_newest_snapshot(tmp_path / "data" / "__cluster_metadata-0")
        yield TidelogNode(tmp_path, properties=PROPERTIES)
        yield ApacheNode(tmp_path, properties=PROPERTIES)
        yield TidelogNode(tmp_path, properties=PROPERTIES)

    change_hands(owners(), ending="stop")


def cut_below_newest_snapshot(directory: Path) -> None:
    newest = max(directory.glob("*.checkpoint"))
    end_offset = int(newest.name[:20])
    bases = sorted(int(path.stem) for path in directory.glob("*.log"))
    gone = [base for base, following in itertools.pairwise(bases) if following <= end_offset]
    assert gone, f"no segment lies below {newest.name}"
    for base in gone:
        for path in directory.glob(f"{base:020}.*"):
            path.unlink()
