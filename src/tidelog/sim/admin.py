"""An administrator: makes and deletes topics, moves leaders and replicas, changes configs."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.errors import ErrorCode, PeerFailure
from tidelog.sim.client import Ask, Client, Flow, Sleep
from tidelog.sim.history import History, Place
from tidelog.sim.plan import TopicPlan
from tidelog.wire.declare import Message
from tidelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from tidelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tidelog.wire.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from tidelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

TIMEOUT_MS = 3000
REPAIR_MS = 1000
TURN_BACK_MS_MAX = 200
TOPIC_RESOURCE = 2
SET = 0
PREFERRED, UNCLEAN = 0, 1
"""Kinds of elections."""
HIGH_WATERMARK = -1
"""As an offset of DeleteRecords."""

Change = Callable[[], Flow]


class Admin:
    """One operation after the other, of a random kind."""

    def __init__(
        self, client: Client, topics: list[TopicPlan], brokers: list[int], history: History
    ) -> None:
        self.client = client
        self.topics = {topic.name: topic for topic in topics}
        self.is_stopping = False
        self.interval_ms = 1500
        self.has_made_topics = False
        self.hopeless: Callable[[], list[tuple[str, int]]] = list
        """Partitions that come back by an unclean election alone."""
        self._brokers = brokers
        self._history = history
        self._changes: list[Change] = [
            self._elect_preferred,
            self._reassign,
            self._cancel_reassignment,
            self._configure,
            self._delete_records,
            self._recreate,
        ]

    def run(self) -> Flow:
        for topic in self.topics.values():
            yield from self._make(topic)
        self.has_made_topics = True
        while not self.is_stopping:
            yield Sleep(self.client.rng.randrange(self.interval_ms))
            change = self.client.rng.choice(self._changes)
            yield from change()
        while True:
            # A deletion that nobody answered may come late.
            yield Sleep(REPAIR_MS)
            for topic in self.topics.values():
                if topic.is_fleeting:
                    yield from self._make(topic)
            for name, index in self.hopeless():
                yield from self._elect(UNCLEAN, (TopicPartitions(topic=name, partitions=(index,)),))

    def _ask(self, request: Message) -> Flow:
        """Of any broker: it forwards what is the controller's. None if there was no answer."""
        answer = yield Ask(self.client.some_server(), request)
        return None if isinstance(answer, PeerFailure) else answer

    def _succeeded(self, kind: str, error_code: int) -> bool:
        if error_code == ErrorCode.NONE:
            self._history.succeeded(kind)
        return error_code == ErrorCode.NONE

    def _make(self, topic: TopicPlan) -> Flow:
        """Until it is there."""
        asked = CreatableTopic(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            assignments=(),
            configs=tuple(CreatableTopicConfig(name=k, value=v) for k, v in topic.configs.items()),
        )
        while True:
            request = CreateTopicsRequest(topics=(asked,), timeout_ms=TIMEOUT_MS)
            answer = yield from self._ask(request)
            if isinstance(answer, CreateTopicsResponse):
                error = answer.topics[0].error_code
                is_made = self._succeeded("CreateTopics", error)
                if is_made or error == ErrorCode.TOPIC_ALREADY_EXISTS:
                    return
            yield self.client.pause()

    def _some_partition(self) -> tuple[str, int]:
        topic = self.client.rng.choice(list(self.topics.values()))
        return topic.name, self.client.rng.randrange(topic.partitions)

    def _elect_preferred(self) -> Flow:
        yield from self._elect(PREFERRED, None)

    def _elect(self, kind: int, partitions: tuple[TopicPartitions, ...] | None) -> Flow:
        request = ElectLeadersRequest(
            election_type=kind, topic_partitions=partitions, timeout_ms=TIMEOUT_MS
        )
        answer = yield from self._ask(request)
        if isinstance(answer, ElectLeadersResponse):
            self._succeeded("ElectLeaders", answer.error_code)

    def _reassign(self) -> Flow:
        name, index = self._some_partition()
        factor = self.topics[name].replication_factor
        replicas = tuple(self.client.rng.sample(self._brokers, factor))
        yield from self._ask_reassignment(name, index, replicas)
        if self.client.rng.randrange(2):
            # Most moves have ended when the next change comes.
            yield Sleep(self.client.rng.randrange(TURN_BACK_MS_MAX))
            yield from self._ask_reassignment(name, index, None)

    def _cancel_reassignment(self) -> Flow:
        name, index = self._some_partition()
        yield from self._ask_reassignment(name, index, None)

    def _ask_reassignment(self, name: str, index: int, replicas: tuple[int, ...] | None) -> Flow:
        partition = ReassignablePartition(partition_index=index, replicas=replicas)
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=TIMEOUT_MS, topics=(ReassignableTopic(name=name, partitions=(partition,)),)
        )
        answer = yield from self._ask(request)
        if isinstance(answer, AlterPartitionReassignmentsResponse) and answer.responses:
            result = answer.responses[0].partitions[0]
            self._succeeded("AlterPartitionReassignments", result.error_code)

    def _configure(self) -> Flow:
        name, _ = self._some_partition()
        value = str(self.client.rng.choice((8, 16, 64)) << 10)
        change = AlterableConfig(name="internal.segment.bytes", config_operation=SET, value=value)
        resource = AlterConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configs=(change,)
        )
        request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
        answer = yield from self._ask(request)
        if isinstance(answer, IncrementalAlterConfigsResponse):
            self._succeeded("IncrementalAlterConfigs", answer.responses[0].error_code)

    def _delete_records(self) -> Flow:
        """Of topics that are made for it: others are to be read from their beginning."""
        trimmed = [topic for topic in self.topics.values() if topic.is_trimmed]
        if not trimmed:
            return
        topic = self.client.rng.choice(trimmed)
        index = self.client.rng.randrange(topic.partitions)
        yield from self.client.refresh([topic.name])
        led = self.client.partitions.get((topic.name, index))
        peer = self.client.leader_of(topic.name, index)
        if led is None or peer is None:
            return
        place = Place(led.topic_id, index)
        self._history.trimmed[place] = None
        asked = DeleteRecordsPartition(partition_index=index, offset=HIGH_WATERMARK)
        request = DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name=topic.name, partitions=(asked,)),),
            timeout_ms=TIMEOUT_MS,
        )
        answer = yield Ask(peer, request)
        if isinstance(answer, DeleteRecordsResponse):
            self._succeeded("DeleteRecords", answer.topics[0].partitions[0].error_code)

    def _recreate(self) -> Flow:
        """Delete a topic and make it again under the same name."""
        fleeting = [topic for topic in self.topics.values() if topic.is_fleeting]
        if not fleeting:
            return
        topic = self.client.rng.choice(fleeting)
        yield from self.client.refresh([topic.name])
        led = self.client.partitions.get((topic.name, 0))
        if led is None:
            return
        self._history.deleted_topics[led.topic_id] = None
        asked = DeleteTopicState(name=None, topic_id=led.topic_id)
        request = DeleteTopicsRequest(topics=(asked,), timeout_ms=TIMEOUT_MS)
        answer = yield from self._ask(request)
        if isinstance(answer, DeleteTopicsResponse):
            self._succeeded("DeleteTopics", answer.responses[0].error_code)
        yield from self._make(topic)
