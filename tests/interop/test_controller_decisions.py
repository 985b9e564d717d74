"""Our decisions about brokers and partitions against Apache's controller, over lives that chance
writes: brokers come, stop, die and lose directories, leaders change ISRs, partitions move."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.interop.jvm import QUIET, TOOL_OPTIONS, classpath, compiled
from tests.unit.config.test_broker import config
from tests.unit.metadata.lives import broker, features, partition, uuid
from tests.unit.metadata.lives import config as config_record
from tidelog.controller import brokers, directories, elections, reassignments
from tidelog.controller.alter_partition import alter_partition
from tidelog.controller.decision import Decision
from tidelog.controller.heartbeat import heartbeat
from tidelog.controller.registration import register_broker
from tidelog.metadata.delta import replay
from tidelog.metadata.delta_topics import merge
from tidelog.metadata.frame import decode_record, encode_record
from tidelog.metadata.image import MetadataImage, PartitionState, TopicPartition
from tidelog.metadata.records.brokers import BrokerRegistrationChangeRecord
from tidelog.metadata.records.topics import PartitionChangeRecord, TopicRecord
from tidelog.slices import Slices, finish
from tidelog.types import Uuid
from tidelog.wire.codec import decode, encode
from tidelog.wire.declare import Message
from tidelog.wire.messages import alter_partition as altering
from tidelog.wire.messages import alter_partition_reassignments as reassigning
from tidelog.wire.messages import assign_replicas_to_dirs as assigning
from tidelog.wire.messages import elect_leaders as electing
from tidelog.wire.messages import list_partition_reassignments as listing
from tidelog.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tidelog.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener

pytestmark = pytest.mark.interop

MAIN = "org.apache.kafka.controller.ControllerDecisions"
BROKERS = range(1, 6)
TOPICS = range(1, 5)
STEPS = 1500
CONFIG = config()
EVERYTHING = 1 << 40
"""An offset that nobody reaches."""


class Apache:
    """A controller that answers line by line."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["java", *TOOL_OPTIONS, QUIET, "-cp", classpath(compiled()), MAIN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def ask(self, op: str, body: Message | None = None, broker_id: int = 0) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        line: dict[str, Any] = {"op": op, "id": broker_id}
        if op == "record":
            assert body is not None
            line["body"] = encode_record(body).hex()
        elif body is not None:
            line["version"] = type(body).VERSIONS[1]
            line["body"] = encode(body, line["version"]).hex()
        self.process.stdin.write(json.dumps(line) + "\n")
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@pytest.fixture
def apache() -> Iterator[Apache]:
    made = Apache()
    yield made
    made.process.kill()
    made.process.communicate()


def effect(image: MetadataImage, records: Sequence[Message]) -> Any:
    """What becomes of partitions, in no order, because Kafka's is that of a hash table, and what
    else is written. ELRs are sets; Kafka's may have replicas that were moved away, and it
    remembers "nobody" as the last leader of a partition that had none. The partition epoch counts
    records, which Kafka may need one more of for that."""
    after: dict[TopicPartition, PartitionState] = {}
    others = []
    for record in records:
        if isinstance(record, PartitionChangeRecord):
            place = TopicPartition(record.topic_id, record.partition_id)
            state = after.get(place) or image.partition_by_id(*place)
            assert state is not None
            after[place] = merge(state, record)
        else:
            fields = {name: getattr(record, name) for name in type(record).FIELDS}
            if isinstance(record, BrokerRegistrationChangeRecord) and record.log_dirs:
                fields["log_dirs"] = sorted(record.log_dirs)
            others.append((type(record).__name__, fields))
    changed = {}
    for place, state in sorted(after.items()):
        before = image.partition_by_id(*place)
        assert before is not None
        if normal(before) != normal(state):
            changed[place] = normal(state)
    return changed, others


def normal(state: PartitionState) -> PartitionState:
    return state._replace(
        partition_epoch=0,
        eligible_leader_replicas=tuple(
            sorted(set(state.eligible_leader_replicas) & set(state.replicas))
        ),
        last_known_elr=() if state.last_known_elr == (-1,) else state.last_known_elr,
    )


class Life:
    """A cluster that both controllers decide about."""

    def __init__(self, apache: Apache, seed: int, *, elr: bool) -> None:
        self.apache = apache
        self.rng = random.Random(seed)
        self.image = MetadataImage.empty()
        self.reported: dict[int, int] = {}
        """How far each broker has read, as its last heartbeat said."""
        self.shutdown_offsets: dict[int, int] = {}
        self.incarnation = 10_000
        for record in self.first_records(elr):
            apache.ask("record", record)
            self.replay(record)

    def first_records(self, elr: bool) -> Iterator[Message]:
        for record in features():
            if elr or record.name != "eligible.leader.replicas.version":  # type: ignore[attr-defined]
                yield record
        yield config_record(4, "", "min.insync.replicas", "2")
        for number in BROKERS:
            yield broker(number, log_dirs=(uuid(2000 + number), uuid(3000 + number)))
        for number in TOPICS:
            yield TopicRecord(name=f"t{number}", topic_id=uuid(number))
            if number % 2:
                yield config_record(2, f"t{number}", "unclean.leader.election.enable", "true")
            if number > 2:
                yield config_record(2, f"t{number}", "min.insync.replicas", "1")
            for index in range(3):
                replicas = tuple(self.rng.sample(BROKERS, 1 + (number + index) % 3 or 3))
                yield partition(number, index, replicas)

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
        """Ask both; theirs is what happens."""
        answer = self.apache.ask(op, body, broker_id)
        theirs = [decode_record(bytes.fromhex(text)) for text in answer["records"]]
        decision = finish(ours)
        context = f"{op} {body} {broker_id}\n{list(decision.records)}\n{theirs}"
        assert effect(self.image, decision.records) == effect(self.image, theirs), context
        response = answer.get("response")
        if isinstance(response, str):
            kind = type(decision.response)
            response = decode(kind, kind.VERSIONS[1], memoryview(bytes.fromhex(response)))
            sent = encode(decision.response, kind.VERSIONS[1])
            assert decode(kind, kind.VERSIONS[1], memoryview(sent)) == response, context
        elif answer.get("error") is not None:
            assert decision.response.error_code == answer["error"], context
        elif response is not None:
            assert said(decision.response) == response, context
        self.follow(theirs)

    def follow(self, theirs: Sequence[Message]) -> None:
        """What Apache has decided happens. Afterwards no ELR has who was moved away, or the two
        would not decide on the same; nor is such a one the last leader, which Apache dies of."""
        for record in theirs:
            self.replay(record)
            if isinstance(record, BrokerRegistrationChangeRecord):
                self.reported[record.broker_id] = -1  # so Kafka starts to count anew
        for record in theirs:
            if isinstance(record, PartitionChangeRecord):
                state = self.image.partition_by_id(record.topic_id, record.partition_id)
                assert state is not None
                elr, last = state.eligible_leader_replicas, state.last_known_elr
                if not {*elr, *last} <= set(state.replicas):
                    cleaned = PartitionChangeRecord(
                        topic_id=record.topic_id,
                        partition_id=record.partition_id,
                        eligible_leader_replicas=tuple(one for one in elr if one in state.replicas),
                        last_known_elr=tuple(one for one in last if one in state.replicas),
                    )
                    self.apache.ask("record", cleaned)
                    self.replay(cleaned)

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
        if topics is not None:
            self.agree(elections.elect_leaders(self.image, request, CONFIG), "elect", request)
            return
        # All topics: Kafka's order is that of a hash table.
        decision = finish(elections.elect_leaders(self.image, request, CONFIG))
        answer = self.apache.ask("elect", request)
        theirs = [decode_record(bytes.fromhex(text)) for text in answer["records"]]
        assert effect(self.image, decision.records) == effect(self.image, theirs)
        response = decode(
            electing.ElectLeadersResponse, 2, memoryview(bytes.fromhex(answer["response"]))
        )

        def by_topic(one: Any) -> Any:
            return {
                result.topic: sorted(map(repr, result.partition_result))
                for result in one.replica_election_results
            }

        sent = memoryview(encode(decision.response, 2))
        assert by_topic(decode(electing.ElectLeadersResponse, 2, sent)) == by_topic(response)
        self.follow(theirs)

    def reassign(self) -> None:
        name, _, index = self.any_partition()
        replicas: tuple[int, ...] | None = tuple(
            self.rng.sample(range(1, 7), self.rng.choice((0, 1, 2, 2, 3, 3, 4)))
        )
        state = self.image.partition(name, index)
        if self.rng.random() < 0.25 or (state is not None and state.is_reassigning):
            # To turn a move that runs is where we differ: Kafka's may never end.
            replicas = None
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
            if held not in known.log_dirs and held != directory:
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
            places = yield from elections.imbalanced_partitions(self.image)
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


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_decisions_agree(apache: Apache, seed: int, elr: bool) -> None:
    life = Life(apache, seed, elr=elr)
    done: list[str] = []
    for number in range(STEPS):
        try:
            done.append(life.step())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {number}: {error}") from error
    assert set(done) == set(OPERATIONS)
    assert life.image.offset > STEPS // 3, "most of it changed nothing"
