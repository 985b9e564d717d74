"""The life of a cluster of Apache Kafka, lived again in the simulator: the same operations leave
the same records in the metadata log. Uuids, times, NoOps and batch borders aside; and addresses,
the order of what is asked for at the same time, and who of the controllers was elected. Replicas
are placed by hand where Apache's were."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from tests.scenarios.director import PROPERTIES, Director
from tests.unit.metadata.captured import life_records, lowered, shown, type_name

from tidelog.metadata.batches import read_metadata
from tidelog.metadata.format import METADATA_DIRECTORY
from tidelog.metadata.records.cluster import NoOpRecord
from tidelog.sim.cluster import DATA
from tidelog.sim.timeline import SECOND
from tidelog.sim.view import node_of
from tidelog.types import ZERO_UUID
from tidelog.wire.batch import BatchWalk, RecordBatch
from tidelog.wire.batch_reader import Record, read_records
from tidelog.wire.declare import Message
from tidelog.wire.messages import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    elect_leaders,
    incremental_alter_configs,
    init_producer_id,
)

SEGMENT = f"{DATA}/{METADATA_DIRECTORY}/00000000000000000000.log"
SET, DELETE = 0, 1
BROKER, TOPIC = 4, 2
THROTTLES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)

Row = tuple[str, int, dict[str, Any]]
"""A record's type, version and fields."""


def version_of(batch: RecordBatch, raw: Record) -> int:
    assert raw.value is not None
    return 0 if batch.is_control else raw.value[2]


class Names:
    """What differs between two lives, under names that do not."""

    def __init__(self) -> None:
        self._topics: dict[str, str] = {}
        self._directories: dict[str, str] = {}
        self._epochs: dict[tuple[int, int], str] = {}
        self._controllers: set[int] = set()

    def plain(self, kind: str, version: int, data: dict[str, Any]) -> Row:
        data = dict(data)
        if kind == "TopicRecord":
            self._topics[data["topicid"]] = data["name"]
        if kind == "RegisterBrokerRecord":
            for directory in data["~logdirs"]:
                self._directories[directory] = f"disk of {data['brokerid']}"
            lives = sum(broker == data["brokerid"] for broker, _ in self._epochs)
            self._epochs[data["brokerid"], data["brokerepoch"]] = f"life {lives + 1}"
        if kind == "LEADER_CHANGE":
            data = {"voters": data["voters"]}
        if kind == "RegisterControllerRecord":
            is_first = data["controllerid"] not in self._controllers
            self._controllers.add(data["controllerid"])
            data["controllerid"] = data["controllerid"] if is_first else "one of them"
        if "topicid" in data:
            data["topicid"] = self._topics[data["topicid"]]
        if "brokerepoch" in data:
            data["brokerepoch"] = self._epochs[data["brokerid"], data["brokerepoch"]]
        for name in ("directories", "~directories", "~logdirs"):
            if name in data:
                data[name] = [self._directories[one] for one in data[name]]
        data.pop("incarnationid", None)
        for point in data.get("endpoints", ()):
            del point["host"], point["port"]
        if "features" in data:  # Kafka's order is that of a hash table
            data["features"] = sorted(data["features"], key=itemgetter("name"))
        return kind, version, data


def apache_life() -> dict[int, Row]:
    names = Names()
    return {
        row["offset"]: names.plain(row["type"], row["version"], lowered(row["data"]))
        for row in life_records()
    }


class Life(Director):
    """A cluster of three controllers and three brokers."""

    def __init__(self) -> None:
        super().__init__()
        self._names = Names()
        self._end = 0
        self.apache = apache_life()
        self.compared: set[int] = set()

    # What was logged.

    @property
    def active(self) -> int:
        for number in (1, 2, 3):
            node = node_of(self.cluster.machines[number])
            if node is not None and node.controller.is_active:
                return number
        return -1

    def _news(self) -> list[tuple[int, str, int, Message]]:
        """Records behind those that were compared: offset, type, version."""
        if self.active < 0:
            return []
        content = self.cluster.machines[self.active].disk.content(SEGMENT)
        return [
            (logged.offset, type_name(logged.record), version_of(batch, raw), logged.record)
            for batch in BatchWalk(content)
            for logged, raw in zip(read_metadata(batch), read_records(batch), strict=True)
            if logged.offset >= self._end and not isinstance(logged.record, NoOpRecord)
        ]

    def same(self, first: int, last: int, *others: int, ordered: bool = True) -> None:
        """As Apache's records from one offset to another. Those that come of several requests
        have no order."""
        offsets = [*range(first, last + 1), *others]
        theirs = [self.apache[offset] for offset in offsets if offset in self.apache]
        self.until(lambda: len(self._news()) >= len(theirs))
        self.timeline.run(self.timeline.now_us + SECOND)  # and nothing more
        news = self._news()
        ours = [self._names.plain(kind, version, shown(r, version)) for _, kind, version, r in news]
        if not ordered:
            ours.sort(key=repr)
            theirs.sort(key=repr)
        assert ours == theirs
        self._end = news[-1][0] + 1
        self.compared.update(offsets)

    # Operations.

    def create(self, name: str, *replicas: tuple[int, ...], **configs: str) -> None:
        topic = create_topics.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=tuple(
                create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
                for index, ids in enumerate(replicas)
            ),
            configs=tuple(
                create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ),
        )
        self.ask(create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=5000))

    def reassign(self, name: str, *replicas: int) -> None:
        partition = alter_partition_reassignments.ReassignablePartition(
            partition_index=0, replicas=replicas
        )
        topic = alter_partition_reassignments.ReassignableTopic(name=name, partitions=(partition,))
        self.ask(
            alter_partition_reassignments.AlterPartitionReassignmentsRequest(
                topics=(topic,), timeout_ms=5000
            )
        )

    def elect(self, name: str) -> None:
        partitions = elect_leaders.TopicPartitions(topic=name, partitions=(0,))
        self.ask(
            elect_leaders.ElectLeadersRequest(
                election_type=0, topic_partitions=(partitions,), timeout_ms=5000
            )
        )

    def configure(self, kind: int, name: str, operation: int, **configs: str | None) -> None:
        changes = tuple(
            incremental_alter_configs.AlterableConfig(
                name=key.replace("_", "."), config_operation=operation, value=value
            )
            for key, value in configs.items()
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=changes
        )
        self.ask(
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=(resource,), validate_only=False
            ),
            node=name if kind == BROKER else None,
        )

    def add_partition(self, name: str, *replicas: int) -> None:
        assignment = create_partitions.CreatePartitionsAssignment(broker_ids=replicas)
        topic = create_partitions.CreatePartitionsTopic(
            name=name, count=2, assignments=(assignment,)
        )
        self.ask(
            create_partitions.CreatePartitionsRequest(
                topics=(topic,), timeout_ms=5000, validate_only=False
            )
        )

    def initialize_producer(self, broker: str) -> None:
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=1000
        )
        self.ask(request, node=broker)

    def kill(self, node: int) -> None:
        self.cluster.machines[node].kill()

    def start(self, node: int) -> None:
        self.cluster.machines[node].start()

    def change_controller(self, *, cleanly: bool) -> None:
        """The active one goes, and comes back when there is another."""
        before = self.active
        if cleanly:
            self.do_stop(str(before), named={})
        else:
            self.kill(before)
        self.until(lambda: self.active not in (-1, before))
        self.start(before)


def test_it_leaves_the_same_records() -> None:
    life = Life()
    life.begin((101, 102, 103), (1, 2, 3), PROPERTIES, ("rack2", "rack3", "rack1"))
    come_and_go(life)
    change_things(life)
    make_internal_topics(life)
    fall_and_rise(life)
    remove_and_add(life)
    again, credentials, quotas = 413, 1012, 1016
    assert life.apache.keys() - life.compared == {again, credentials, quotas}


def come_and_go(life: Life) -> None:
    life.same(0, 192, ordered=False)
    life.create("t1", (103, 101, 102))
    life.same(236, 237)
    life.kill(103)
    life.same(338, 339)
    life.start(103)
    life.same(358, 363, ordered=False)
    life.do_stop("101", named={})
    life.same(387, 393)  # at 413 Apache's fenced it again, when its session ended
    life.start(101)
    life.same(414, 418, ordered=False)


def change_things(life: Life) -> None:
    life.create("t2", (103,))
    life.same(469, 470)
    life.change_controller(cleanly=False)
    life.same(484, 500)
    life.create("t3", (101, 102))
    life.same(600, 601)
    life.reassign("t3", 102, 103)
    life.same(609, 611)
    for broker in ("102", "103", "101"):
        life.configure(BROKER, broker, DELETE, **dict.fromkeys(THROTTLES))
    life.same(620, 629)
    life.reassign("t1", 101, 102, 103)
    life.same(633, 633)
    life.elect("t1")
    life.same(640, 640)


def make_internal_topics(life: Life) -> None:
    for name, first, last in (
        ("__consumer_offsets", 645, 651),
        ("__transaction_state", 673, 682),
    ):
        records = [life.apache[offset] for offset in range(first, last + 1)]
        partitions = [data for kind, _, data in records if kind == "PartitionRecord"]
        configs = {
            data["name"]: data["value"] for kind, _, data in records if kind == "ConfigRecord"
        }
        life.create(name, *(tuple(data["replicas"]) for data in partitions), **configs)
        life.same(first, last)
    for broker, offset in (("103", 684), ("102", 688)):
        life.initialize_producer(broker)
        life.same(offset, offset)


def fall_and_rise(life: Life) -> None:
    life.change_controller(cleanly=False)
    life.same(753, 768)
    life.change_controller(cleanly=True)
    life.same(856, 870)
    life.create("t4", (101, 102, 103), min_insync_replicas="2")
    life.same(878, 881)
    life.kill(103)
    life.same(902, 912, ordered=False)
    life.kill(102)
    life.same(933, 942, ordered=False)
    life.start(102)
    life.same(953, 958, 962, 965, 966, *range(969, 977), ordered=False)
    life.start(103)
    life.same(960, 961, 963, 967, 968, *range(978, 987), ordered=False)


def remove_and_add(life: Life) -> None:
    topic = delete_topics.DeleteTopicState(name="t2", topic_id=ZERO_UUID)
    life.ask(delete_topics.DeleteTopicsRequest(topics=(topic,), timeout_ms=5000))
    life.same(1000, 1000)
    life.configure(TOPIC, "t1", SET, retention_ms="123456")
    life.same(1007, 1007)
    life.add_partition("t4", 101, 102, 103)
    life.same(1009, 1009)
