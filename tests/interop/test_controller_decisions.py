"""Our decisions about brokers and partitions against Apache's controller, over lives that chance
writes: brokers come, stop, die and lose directories, leaders change ISRs, partitions move."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.interop.jvm import QUIET, TOOL_OPTIONS, classpath, compiled
from tests.unit.controller.chance import OPERATIONS, Life
from tidelog.controller.decision import Decision
from tidelog.metadata.delta_topics import merge
from tidelog.metadata.frame import decode_record, encode_record
from tidelog.metadata.image import MetadataImage, PartitionState, TopicPartition
from tidelog.metadata.records.brokers import BrokerRegistrationChangeRecord
from tidelog.metadata.records.topics import PartitionChangeRecord
from tidelog.slices import Slices, finish
from tidelog.wire.codec import decode, encode
from tidelog.wire.declare import Message
from tidelog.wire.messages.elect_leaders import ElectLeadersResponse

pytestmark = pytest.mark.interop

MAIN = "org.apache.kafka.controller.ControllerDecisions"
STEPS = 1500


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


class ComparedLife(Life):
    """What Apache decides happens, if it is what we decide."""

    is_compared = True

    def __init__(self, apache: Apache, seed: int, *, elr: bool) -> None:
        self.apache = apache
        super().__init__(seed, elr=elr)

    def write(self, record: Message) -> None:
        self.apache.ask("record", record)
        self.replay(record)

    def agree(
        self,
        ours: Slices[Decision[Any]],
        op: str,
        body: Message | None = None,
        broker_id: int = 0,
        *,
        said: Callable[[Any], Any] = lambda response: response,
    ) -> None:
        """Ask both."""
        answer = self.apache.ask(op, body, broker_id)
        theirs = [decode_record(bytes.fromhex(text)) for text in answer["records"]]
        decision = finish(ours)
        context = f"{op} {body} {broker_id}\n{list(decision.records)}\n{theirs}"
        assert effect(self.image, decision.records) == effect(self.image, theirs), context
        response = answer.get("response")
        if isinstance(response, str):
            kind = type(decision.response)
            version = kind.VERSIONS[1]
            theirs_said = decode(kind, version, memoryview(bytes.fromhex(response)))
            ours_said = decode(kind, version, memoryview(encode(decision.response, version)))
            assert in_any_order(ours_said) == in_any_order(theirs_said), context
        elif answer.get("error") is not None:
            assert decision.response.error_code == answer["error"], context
        elif response is not None:
            assert said(decision.response) == response, context
        self.follow(theirs)

    def follow(self, records: Sequence[Message]) -> None:
        """Afterwards no ELR has who was moved away, or the two would not decide on the same; nor
        is such a one the last leader, which Apache dies of."""
        super().follow(records)
        for record in records:
            if isinstance(record, PartitionChangeRecord):
                state = self.image.partition_by_id(record.topic_id, record.partition_id)
                assert state is not None
                elr, last = state.eligible_leader_replicas, state.last_known_elr
                if not {*elr, *last} <= set(state.replicas):
                    self.write(
                        PartitionChangeRecord(
                            topic_id=record.topic_id,
                            partition_id=record.partition_id,
                            eligible_leader_replicas=tuple(
                                one for one in elr if one in state.replicas
                            ),
                            last_known_elr=tuple(one for one in last if one in state.replicas),
                        )
                    )


def in_any_order(response: Any) -> Any:
    """Where all topics are asked for, Kafka's order is that of a hash table."""
    if not isinstance(response, ElectLeadersResponse):
        return response
    return response.error_code, {
        result.topic: sorted(map(repr, result.partition_result))
        for result in response.replica_election_results
    }


@pytest.mark.parametrize("elr", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_decisions_agree(apache: Apache, seed: int, elr: bool) -> None:
    life = ComparedLife(apache, seed, elr=elr)
    done: list[str] = []
    for number in range(STEPS):
        try:
            done.append(life.step())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, step {number}: {error}") from error
    assert set(done) == set(OPERATIONS)
    assert life.image.offset > STEPS // 3, "most of it changed nothing"
