"""A cluster's life that chance writes: brokers come, stop, die and lose directories, leaders change
ISRs, partitions move."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.unit.config.test_broker import config
from tests.unit.metadata.lives import broker, features, partition, uuid
from tests.unit.metadata.lives import config as config_record

from tidelog.controller import brokers, directories, elections, reassignments
from tidelog.controller.alter_partition import alter_partition
from tidelog.controller.decision import Decision
from tidelog.controller.heartbeat import heartbeat
from tidelog.controller.registration import register_broker
from tidelog.metadata.delta import replay
from tidelog.metadata.image import MetadataImage
from tidelog.metadata.records.brokers import BrokerRegistrationChangeRecord
from tidelog.metadata.records.topics import TopicRecord
from tidelog.slices import Slices, finish
from tidelog.types import Uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages import alter_partition as altering
from tidelog.wire.messages import alter_partition_reassignments as reassigning
from tidelog.wire.messages import assign_replicas_to_dirs as assigning
from tidelog.wire.messages import elect_leaders as electing
from tidelog.wire.messages import list_partition_reassignments as listing
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener

BROKERS = range(1, 6)
TOPICS = range(1, 5)
CONFIG = config()
EVERYTHING = 1 << 40
"""An offset that nobody reaches."""


class Life:
    """Decided by our controller."""

    is_compared = False
    """With Apache's: then it does not go where we know to differ."""

    def __init__(self, seed: int, *, elr: bool) -> None:
        self.rng = random.Random(seed)
        self.image = MetadataImage.empty()
        self.reported: dict[int, int] = {}
        """How far each broker has read, as its last heartbeat said."""
        self.shutdown_offsets: dict[int, int] = {}
        self.incarnation = 10_000
        for record in self.first_records(elr):
            self.write(record)

    def first_records(self, elr: bool) -> Iterator[Message]:
        for record in features():
            if elr or record.name != "eligible.leader.replicas.version":  # type: ignore[attr-defined]
                yield record
        yield config_record(4, "", "min.insync.replicas", "2")
        for number in BROKERS:
            yield broker(number, epoch=number, log_dirs=(uuid(2000 + number), uuid(3000 + number)))
        for number in TOPICS:
            yield TopicRecord(name=f"t{number}", topic_id=uuid(number))
            if number % 2:
                yield config_record(2, f"t{number}", "unclean.leader.election.enable", "true")
            if number > 2:
                yield config_record(2, f"t{number}", "min.insync.replicas", "1")
            for index in range(3):
                replicas = tuple(self.rng.sample(BROKERS, 1 + (number + index) % 3 or 3))
                yield partition(number, index, replicas)

    def write(self, record: Message) -> None:
        """One that nobody decided."""
        self.replay(record)

    def replay(self, record: Message) -> None:
        self.image = replay(self.image, record, self.image.offset + 1, 1)

    def step(self) -> str:
        """One operation, decided by both; what it was."""
        name = self.rng.choice(OPERATIONS)
        operation: Callable[[], None] = getattr(self, name)
        operation()
        return name

    def agree(
        self,
        ours: Slices[Decision[Any]],
        op: str,
        body: Message | None = None,
        broker_id: int = 0,
        *,
        said: Callable[[Any], Any] = lambda response: response,
    ) -> None:
        """Have something decided, and let it happen."""
        self.follow(finish(ours).records)

    def follow(self, records: Sequence[Message]) -> None:
        for record in records:
            self.replay(record)
            if isinstance(record, BrokerRegistrationChangeRecord):
                self.reported[record.broker_id] = -1  # so Kafka starts to count anew

    # Brokers.

    def any_broker(self, *, fenced: bool | None = None) -> int | None:
        found = [
            one.broker_id
            for one in self.image.brokers.values()
            if fenced is None or one.fenced == fenced
        ]
        return self.rng.choice(found) if found else None

    def register(self) -> None:
        broker_id = self.rng.choice(BROKERS)
        known = self.image.brokers.get(broker_id)
        self.incarnation += 1
        previous = -1 if known is None or self.rng.random() < 0.5 else known.broker_epoch
        dirs = [uuid(2000 + broker_id), uuid(3000 + broker_id)]
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="c",
            incarnation_id=uuid(self.incarnation),
            listeners=(Listener(name="PLAINTEXT", host="h", port=1, security_protocol=0),),
            features=tuple(
                Feature(name=name, min_supported_version=0, max_supported_version=30)
                for name in ("metadata.version", *self.image.features)
            )[1:],
            rack=None,
            log_dirs=tuple(dirs[: self.rng.choice((1, 2, 2))]),
            previous_broker_epoch=previous,
        )
        decide = register_broker(
            self.image,
            request,
            CONFIG,
            cluster_id="c",
            next_offset=self.image.offset + 1,
            has_valid_session=False,
        )
        self.agree(decide, "register", request, broker_id, said=lambda one: one.broker_epoch)
        self.reported[broker_id] = -1
        self.shutdown_offsets.pop(broker_id, None)

    def beat(self, broker_id: int, **wants: Any) -> None:
        known = self.image.brokers[broker_id]
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=known.broker_epoch - (self.rng.random() < 0.02),
            current_metadata_offset=wants.pop("offset", self.image.offset),
            want_fence=wants.pop("want_fence", False),
            # Who has begun to stop does not change its mind.
            want_shut_down=known.in_controlled_shutdown or wants.pop("want_shut_down", False),
            offline_log_dirs=wants.pop("offline", ()),
            cordoned_log_dirs=wants.pop("cordoned", None),
        )
        active = [
            one.broker_id
            for one in self.image.brokers.values()
            if not one.fenced and one.broker_id not in self.shutdown_offsets
        ]
        decide = heartbeat(
            self.image,
            request,
            CONFIG,
            shutdown_offset=self.shutdown_offsets.get(broker_id, -1),
            active_offset_min=min((self.reported.get(one, -1) for one in active), default=1 << 62),
        )
        if request.broker_epoch == known.broker_epoch:
            self.reported[broker_id] = request.current_metadata_offset
        self.agree(
            decide,
            "heartbeat",
            request,
            broker_id,
            said=lambda one: [one.is_caught_up, one.is_fenced, one.should_shut_down],
        )
        after = self.image.brokers[broker_id]
        if after.fenced:
            self.shutdown_offsets.pop(broker_id, None)
        elif request.want_shut_down and request.broker_epoch == known.broker_epoch:
            self.shutdown_offsets.setdefault(broker_id, self.image.offset)

    def beat_on(self) -> None:
        broker_id = self.any_broker()
        if broker_id is not None:
            self.beat(broker_id, offset=self.rng.choice((0, self.image.offset, EVERYTHING)))

    def unfence(self) -> None:
        broker_id = self.any_broker(fenced=True)
        if broker_id is not None:
            self.beat(broker_id, offset=EVERYTHING)

    def want(self) -> None:
        broker_id = self.any_broker(fenced=False)
        if broker_id is not None:
            self.beat(
                broker_id,
                want_fence=self.rng.random() < 0.3,
                want_shut_down=self.rng.random() < 0.7,
                offset=EVERYTHING,
            )

    def lose_directory(self) -> None:
        broker_id = self.any_broker()
        if broker_id is not None:
            known = self.image.brokers[broker_id]
            # To fence it as well would write each change twice in Kafka's way.
            if len(known.log_dirs) == 2 and not known.fenced and not known.in_controlled_shutdown:
                self.beat(broker_id, offline=(self.rng.choice(known.log_dirs),))

    def cordon(self) -> None:
        broker_id = self.any_broker(fenced=False)
        if broker_id is not None and not self.image.brokers[broker_id].in_controlled_shutdown:
            known = self.image.brokers[broker_id].log_dirs
            self.beat(broker_id, cordoned=tuple(known[: self.rng.randrange(len(known) + 1)]))

    def fence(self) -> None:
        broker_id = self.any_broker()
        if broker_id is None:
            return

        def decide() -> Slices[Decision[None]]:
            records = yield from brokers.fence(self.image, broker_id, CONFIG)
            return Decision(records, None)

        self.agree(decide(), "fence", None, broker_id)
        self.shutdown_offsets.pop(broker_id, None)

    def unregister(self) -> None:
        broker_id = self.rng.choice(BROKERS)
        if self.rng.random() < 0.3:
            decide = brokers.unregister_broker(self.image, broker_id, CONFIG)
            self.agree(decide, "unregister", None, broker_id)
            self.shutdown_offsets.pop(broker_id, None)

    # Partitions.

    def any_partition(self) -> tuple[str, Uuid, int]:
        number = self.rng.choice(TOPICS)
        return f"t{number}", uuid(number), self.rng.choice((0, 0, 1, 1, 2, 2, 7))

    def alter(self) -> None:
        _, topic_id, index = self.any_partition()
        state = self.image.partition_by_id(topic_id, index)
        if state is None or state.leader == -1:
            return
        isr = tuple(dict.fromkeys((state.leader, *self.some(state.replicas))))
        if self.rng.random() < 0.6:
            isr = tuple(one for one in isr if self.image.is_active(one))
        slip = self.rng.choice((0,) * 12 + (1, -1))
        wanted = altering.PartitionData(
            partition_index=index,
            leader_epoch=state.leader_epoch + (slip if self.rng.random() < 0.5 else 0),
            new_isr_with_epochs=tuple(
                altering.BrokerState(
                    broker_id=one,
                    broker_epoch=self.rng.choice((-1, self.image.broker_epoch(one))) + slip * 0,
                )
                for one in isr
            ),
            leader_recovery_state=self.rng.choice((0,) * 9 + (1,)),
            partition_epoch=state.partition_epoch + slip,
        )
        sender = self.rng.choice((state.leader,) * 15 + tuple(BROKERS))
        request = altering.AlterPartitionRequest(
            broker_id=sender,
            broker_epoch=self.image.broker_epoch(sender),
            topics=(altering.TopicData(topic_id=topic_id, partitions=(wanted,)),),
        )
        self.agree(alter_partition(self.image, request, CONFIG), "alter", request)

    def catch_up(self) -> None:
        """The leader of a partition takes all who are active into the ISR."""
        _, topic_id, index = self.any_partition()
        state = self.image.partition_by_id(topic_id, index)
        if state is None or not self.image.is_active(state.leader):
            return
        wanted = altering.PartitionData(
            partition_index=index,
            leader_epoch=state.leader_epoch,
            new_isr_with_epochs=tuple(
                altering.BrokerState(broker_id=one, broker_epoch=self.image.broker_epoch(one))
                for one in state.replicas
                if self.image.is_active(one)
            ),
            partition_epoch=state.partition_epoch,
        )
        request = altering.AlterPartitionRequest(
            broker_id=state.leader,
            broker_epoch=self.image.broker_epoch(state.leader),
            topics=(altering.TopicData(topic_id=topic_id, partitions=(wanted,)),),
        )
        self.agree(alter_partition(self.image, request, CONFIG), "alter", request)

    def some(self, items: tuple[int, ...] | range) -> tuple[int, ...]:
        return tuple(self.rng.sample(list(items), self.rng.randrange(len(items) + 1)))

    def elect(self) -> None:
        topics = None
        if self.rng.random() < 0.8:
            name, _, index = self.any_partition()
            name = self.rng.choice((name,) * 9 + ("gone",))
            topics = (electing.TopicPartitions(topic=name, partitions=(index, (index + 1) % 3)),)
        request = electing.ElectLeadersRequest(
            election_type=self.rng.randrange(2), topic_partitions=topics
        )
        self.agree(elections.elect_leaders(self.image, request, CONFIG), "elect", request)

    def reassign(self) -> None:
        name, _, index = self.any_partition()
        replicas: tuple[int, ...] | None = tuple(
            self.rng.sample(range(1, 7), self.rng.choice((0, 1, 2, 2, 3, 3, 4)))
        )
        state = self.image.partition(name, index)
        runs = state is not None and state.is_reassigning
        if self.rng.random() < 0.25 or (self.is_compared and runs):
            # To turn a move that runs is where we differ: Kafka's may never end.
            replicas = None
        if self.is_compared and state is not None and set(state.isr) <= set(state.adding_replicas):
            return  # to take it back is unclean; Kafka's has no election then
        request = reassigning.AlterPartitionReassignmentsRequest(
            allow_replication_factor_change=self.rng.random() < 0.8,
            topics=(
                reassigning.ReassignableTopic(
                    name=self.rng.choice((name,) * 9 + ("gone",)),
                    partitions=(
                        reassigning.ReassignablePartition(partition_index=index, replicas=replicas),
                    ),
                ),
            ),
        )
        decide = reassignments.alter_partition_reassignments(self.image, request, CONFIG)
        self.agree(decide, "reassign", request)

    def list_reassignments(self) -> None:
        topics = tuple(
            listing.ListPartitionReassignmentsTopics(name=name, partition_indexes=(0, 1, 2, 7))
            for name in ("t1", "t2", "gone")
        )
        request = listing.ListPartitionReassignmentsRequest(topics=topics)

        def decide() -> Slices[Decision[Any]]:
            listed = yield from reassignments.list_partition_reassignments(self.image, request)
            return Decision([], listed)

        self.agree(decide(), "list", request)

    def assign(self) -> None:
        broker_id = self.any_broker()
        if broker_id is None:
            return
        _, topic_id, index = self.any_partition()
        known = self.image.brokers[broker_id]
        directory = self.rng.choice((uuid(2000 + broker_id), uuid(3000 + broker_id)))
        state = self.image.partition_by_id(topic_id, index)
        if state is not None and broker_id in state.replicas:
            held = state.directory(broker_id)
            if self.is_compared and held not in known.log_dirs and held != directory:
                return  # where we differ: its records are gone with the directory
        request = assigning.AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=known.broker_epoch,
            directories=(
                assigning.DirectoryData(
                    id=directory,
                    topics=(
                        assigning.TopicData(
                            topic_id=topic_id,
                            partitions=(assigning.PartitionData(partition_index=index),),
                        ),
                    ),
                ),
            ),
        )
        decide = directories.assign_replicas_to_dirs(self.image, request, CONFIG)
        self.agree(decide, "assign", request)

    def balance(self) -> None:
        def decide() -> Slices[Decision[int]]:
            places = yield from elections.imbalanced_partitions(self.image, 0)
            return (yield from elections.elect_preferred(self.image, places, CONFIG))

        self.agree(decide(), "balance")

    def unclean(self) -> None:
        self.agree(elections.elect_unclean(self.image, CONFIG), "unclean")


OPERATIONS = (
    *("register", "beat_on", "lose_directory", "cordon", "fence", "unregister"),
    *("unfence",) * 6,
    *("want",) * 2,
    *("alter",) * 4,
    *("catch_up",) * 6,
    *("reassign",) * 3,
    *("elect", "list_reassignments", "assign", "balance", "unclean"),
)
