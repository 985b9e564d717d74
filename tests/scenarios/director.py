"""Plays a scenario in the simulator: commands in, what happened out.

A file is a row of blocks: commands, a line `----`, what is said of them, an empty line. Lines with
`#` are for the reader. The commands are the methods of `Director` that begin with `do_`; values
like `acks=all` are given by name. What happens by itself is said when it happens: who leads, who is
in sync, whose log is cut, what clients are answered.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidelog.errors import ErrorCode, PeerFailure
from tidelog.metadata.image import PartitionState
from tidelog.replica.partition import Partition
from tidelog.sim.client import Ask, Client, Flow
from tidelog.sim.cluster import CleanStop, Cluster
from tidelog.sim.counters import Counters
from tidelog.sim.machine import Boot, Machine
from tidelog.sim.network import Network
from tidelog.sim.observer import Observer
from tidelog.sim.plan import BROKER_PORT, QUIET, NetworkPlan, Plan, host
from tidelog.sim.timeline import MS, SECOND, Clock, Timeline
from tidelog.sim.trace import Trace
from tidelog.sim.view import metadata_of, node_of, partitions_of
from tidelog.wire.batch import BatchWalk
from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.batch_reader import read_records
from tidelog.wire.messages import (
    create_topics,
    delete_records,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    produce,
)

TOPIC = "t"
WAIT_SECONDS_MAX = 60
ACKS = {"all": -1, "1": 1, "0": 0}
ELECTIONS = {"preferred": 0, "unclean": 1}
PROPERTIES = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.fetch.backoff.ms": "50",
}


class Noticing(Observer):
    """An observer that also tells the director."""

    notice: Callable[[Machine], None] = staticmethod(lambda machine: None)
    checks = True

    def after_step(self, machine: Machine) -> None:
        if self.checks:
            super().after_step(machine)
        self.notice(machine)

    def started(self, machine: Machine) -> None:
        if self.checks:
            super().started(machine)

    def ended(self, machine: Machine, reason: str) -> None:
        if self.checks:
            super().ended(machine, reason)

    def sent(self, machine: Machine, connection: int, frame: bytes) -> None:
        if self.checks:
            super().sent(machine, connection, frame)


class Director:
    """One cluster with one topic `t`, of one partition, and one client."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.timeline = Timeline()
        self.observer = Noticing(Trace(self.timeline), Counters())
        self.observer.notice = self._notice
        self._ends: dict[tuple[str, Any], int] = {}
        self._epochs: dict[tuple[str, Any], tuple[int, int]] = {}
        self._state: PartitionState | None = None
        self._controller = -1
        self._waiting = 0
        self._killed = -1
        self._since_us = 0

    def play(self, line: str) -> None:
        """One command."""
        command, *words = line.split()
        named = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        getattr(self, f"do_{command.replace('-', '_')}")(*plain, named=named)

    def say(self, line: str) -> None:
        self.said.append(line)

    # The cluster.

    def do_nodes(self, count: str, *, named: dict[str, str]) -> None:
        """Brokers 1 to N and a controller of its own, so that the brokers' links may be cut; with
        controllers=all every node is both. racks=a,b,c is where they stand."""
        brokers = tuple(range(1, int(count) + 1))
        racks = tuple(named.pop("racks").split(",")) if "racks" in named else ()
        is_combined = named.pop("controllers", "one") == "all"
        voters = brokers if is_combined else (len(brokers) + 1,)
        self.begin(brokers, voters, PROPERTIES | named, racks[-1:] + racks[:-1])
        self.until(lambda: all(self.is_in_service(broker) for broker in brokers))

    def begin(
        self,
        brokers: tuple[int, ...],
        voters: tuple[int, ...],
        properties: dict[str, str],
        racks: tuple[str, ...] = (),
    ) -> None:
        plan = Plan(
            seed=0,
            seconds=0,
            voters=voters,
            brokers=brokers,
            is_dynamic=False,
            properties=properties,
            topics=(),
            consumers=0,
            interval_ms=0,
            faults=QUIET,
            network=NetworkPlan(),
            racks=racks,
        )
        self.network = Network(self.timeline, random.Random(0))
        self.network.base_us, self.network.jitter_us = (200, 201), (1, 2)
        self.cluster = Cluster(plan, self.network, self.observer)
        self.cluster.start()
        servers = [(host(broker), BROKER_PORT) for broker in brokers]
        self.client = Client("client", servers, random.Random(0))
        machine = Machine(
            "client",
            self.network,
            Clock(self.timeline),
            random.Random(0),
            self.observer,
            lambda machine: Boot(self.client, {}),
        )
        machine.start()
        self._client_machine = machine

    def is_in_service(self, broker: int) -> bool:
        node = node_of(self.cluster.machines[broker])
        return node is not None and not node.broker.lifecycle.is_fenced

    def do_topic(self, *, named: dict[str, str]) -> None:
        """Of one partition, on replicas=1,2,3; other words are configs."""
        replicas = tuple(map(int, named.pop("replicas").split(",")))
        assignment = create_topics.CreatableReplicaAssignment(
            partition_index=0, broker_ids=replicas
        )
        topic = create_topics.CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=(assignment,),
            configs=tuple(
                create_topics.CreatableTopicConfig(name=name, value=value)
                for name, value in named.items()
            ),
        )
        request = create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=5000)
        self.ask(request, lambda answer: self._check(answer.topics[0]))
        self.until(lambda: all(self._find(node) is not None for node in replicas))

    def _check(self, result: Any) -> None:
        assert result.error_code == 0, result

    def do_without_invariants(self, *, named: dict[str, str]) -> None:
        """For what is planted wrongly: see where it leads."""
        self.observer.checks = False

    # Machines and network.

    def _machine(self, node: str) -> Machine:
        return self.cluster.machines[int(node)]

    def do_kill(self, node: str, *, named: dict[str, str]) -> None:
        """The process dies; what it wrote is in the page cache."""
        self._since_us = self.timeline.now_us
        self._machine(node).kill()

    def do_kill_controller(self, *, named: dict[str, str]) -> None:
        """Whichever node is the active one."""
        self._killed = self._controller
        self.do_kill(str(self._controller), named=named)

    def do_until_controller(self, *, named: dict[str, str]) -> None:
        """Until another one is active."""
        self.until(lambda: self._controller != self._killed)

    def do_until_led(self, *, named: dict[str, str]) -> None:
        """Until the partition has a leader that lives."""
        self.until(lambda: self._state is not None and self._state.leader != self._killed)

    def do_elapsed(self, *, named: dict[str, str]) -> None:
        """Since the last kill."""
        self.say(f"{(self.timeline.now_us - self._since_us) // MS} ms after the kill")

    def do_power_off(self, node: str, *, named: dict[str, str]) -> None:
        """What was not flushed is gone."""
        machine = self._machine(node)
        disk = machine.disk
        machine.power_off()
        machine.disk = disk.crash()
        if self.observer.checks:
            self.observer.replicas.lost(machine.name, machine.disk, "power")

    def do_start(self, *nodes: str, named: dict[str, str]) -> None:
        for node in nodes:
            self._machine(node).start()

    def do_stop(self, node: str, *, named: dict[str, str]) -> None:
        """Cleanly."""
        machine = self._machine(node)
        CleanStop(machine)
        self.until(lambda: not machine.is_running)

    def do_pause(self, node: str, *, named: dict[str, str]) -> None:
        self._machine(node).pause()

    def do_resume(self, node: str, *, named: dict[str, str]) -> None:
        self._machine(node).resume()

    def do_cut(self, here: str, there: str, *, named: dict[str, str]) -> None:
        """Nothing that here sends arrives there."""
        self.network.block(self._machine(here).host, self._machine(there).host)

    def do_join(self, here: str, there: str, *, named: dict[str, str]) -> None:
        """Undo a cut."""
        self.network.unblock(self._machine(here).host, self._machine(there).host)

    def do_isolate(self, node: str, *, named: dict[str, str]) -> None:
        """From all other nodes, not from the client."""
        for here, there in self._pairs(node):
            self.network.block(here.host, there.host)

    def do_heal(self, node: str, *, named: dict[str, str]) -> None:
        for here, there in self._pairs(node):
            self.network.unblock(here.host, there.host)

    def _pairs(self, node: str) -> list[tuple[Machine, Machine]]:
        one = self._machine(node)
        others = [machine for machine in self.cluster.machines.values() if machine is not one]
        return [(one, other) for other in others] + [(other, one) for other in others]

    # Clients.

    def do_produce(self, *values: str, named: dict[str, str]) -> None:
        """A batch of these values, or of count=N; to the leader or to=NODE."""
        count = int(named.get("count", "0"))
        builder = BatchBuilder()
        for value in values or [f"r{number}" for number in range(count)]:
            builder.append(b"k", value.encode(), timestamp=self.client.now.wall_ms)
        acks = ACKS[named.get("acks", "all")]
        data = produce.PartitionProduceData(index=0, records=bytes(builder.build()))
        name = " ".join(values) or f"{count} records"

        def answered(answer: produce.ProduceResponse | PeerFailure) -> None:
            if isinstance(answer, PeerFailure):
                self.say(f"produce {name}: {answer.value}")
                return
            result = answer.responses[0].partition_responses[0]
            error = ErrorCode(result.error_code)
            told = f"offset {result.base_offset}" if error is ErrorCode.NONE else error.name
            self.say(f"produce {name}: {told}")

        def flow() -> Flow:
            node = named.get("to")
            if node is None:
                yield from self._know_leader()
            topic_id = self.client.partitions[TOPIC, 0].topic_id
            topic = produce.TopicProduceData(topic_id=topic_id, partition_data=(data,))
            timeout_ms = int(named.get("timeout", "1000"))
            request = produce.ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=(topic,))
            peer = self._peer(node)
            answered((yield Ask(peer, request)))
            self._waiting -= 1

        self._start(flow())

    def do_fetch(self, *, named: dict[str, str]) -> None:
        """What a consumer sees from offset=N on, of the leader or from=NODE; it may tell its
        rack=NAME."""
        offset = int(named.get("offset", "0"))

        def flow() -> Flow:
            node = named.get("from")
            if node is None:
                yield from self._know_leader()
            topic_id = self.client.partitions[TOPIC, 0].topic_id
            asked = fetch.FetchPartition(
                partition=0, fetch_offset=offset, partition_max_bytes=1 << 20
            )
            request = fetch.FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                topics=(fetch.FetchTopic(topic_id=topic_id, partitions=(asked,)),),
                rack_id=named.get("rack", ""),
            )
            answer: Any = PeerFailure.LOST
            while answer is PeerFailure.LOST:  # a connection to the process before
                answer = yield Ask(self._peer(node, "/reader"), request)
            self._waiting -= 1
            if isinstance(answer, PeerFailure):
                self.say(f"fetch: {answer.value}")
                return
            data = answer.responses[0].partitions[0]
            if data.error_code:
                self.say(f"fetch: {ErrorCode(data.error_code).name}")
                return
            if data.preferred_read_replica >= 0:
                self.say(f"fetch: to be had from {data.preferred_read_replica}")
                return
            values = [
                (record.value or b"").decode()
                for batch in BatchWalk(data.records or b"")
                for record in read_records(batch)
                if record.offset >= offset
            ]
            shown = " ".join(values) if len(values) <= 12 else f"{len(values)} records"
            self.say(f"fetch: {shown or 'nothing'}, high watermark {data.high_watermark}")

        said = len(self.said)
        self._start(flow())
        self.until(lambda: any(line.startswith("fetch: ") for line in self.said[said:]))

    def _know_leader(self) -> Flow:
        while True:
            self.client.partitions.clear()
            yield from self.client.refresh([TOPIC])
            known = self.client.partitions.get((TOPIC, 0))
            if known is not None and self._leads(known.leader):
                return
            yield self.client.pause()

    def _leads(self, node_id: int) -> bool:
        """By what the controller says, and itself."""
        partition = self._find(node_id) if node_id >= 0 else None
        is_latest = self._state is not None and self._state.leader == node_id
        return is_latest and partition is not None and partition.is_leader

    def _peer(self, node: str | None, purpose: str = "") -> Any:
        """A reader has a connection of its own: on one, answers come in order."""
        if node is not None:
            return self.client.peer(host(int(node)), BROKER_PORT, purpose)
        return self.client.leader_of(TOPIC, 0, purpose)

    def do_elect(self, kind: str, *, named: dict[str, str]) -> None:
        self.observer.metadata.is_unclean_asked_for = kind == "unclean"
        partitions = elect_leaders.TopicPartitions(topic=TOPIC, partitions=(0,))
        request = elect_leaders.ElectLeadersRequest(
            election_type=ELECTIONS[kind], topic_partitions=(partitions,), timeout_ms=5000
        )

        def told(answer: elect_leaders.ElectLeadersResponse) -> None:
            result = answer.replica_election_results[0].partition_result[0]
            self.say(f"elect {kind}: {ErrorCode(result.error_code).name}")

        self.ask(request, told)

    def do_delete_records(self, *, named: dict[str, str]) -> None:
        """Below before=N."""
        offset = int(named["before"])
        partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=offset)
        topic = delete_records.DeleteRecordsTopic(name=TOPIC, partitions=(partition,))
        request = delete_records.DeleteRecordsRequest(topics=(topic,), timeout_ms=2000)

        def flow() -> Flow:
            yield from self._know_leader()
            answer = yield Ask(self._peer(None), request)
            result = answer.topics[0].partitions[0]
            error = ErrorCode(result.error_code)
            told = f"low watermark {result.low_watermark}"
            self.say(f"delete-records: {told if error is ErrorCode.NONE else error.name}")
            self._waiting -= 1

        self._start(flow())

    def do_configure(self, *, named: dict[str, str]) -> None:
        """The topic."""
        changes = tuple(
            incremental_alter_configs.AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in named.items()
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=2, resource_name=TOPIC, configs=changes
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=(resource,), validate_only=False
        )
        self.ask(request, lambda answer: self._check(answer.responses[0]))

    def ask(
        self, request: Any, then: Callable[[Any], None] = lambda _: None, *, node: str | None = None
    ) -> None:
        """This broker, or any that runs; until it has answered."""

        def flow() -> Flow:
            while True:
                asked = self.client.some_server() if node is None else self._peer(node)
                answer = yield Ask(asked, request)
                if not isinstance(answer, PeerFailure):
                    break
            then(answer)
            self._waiting -= 1

        self._start(flow())
        self.until(lambda: not self._waiting)

    def _start(self, flow: Flow) -> None:
        self._waiting += 1
        process = self._client_machine.process
        assert process is not None
        self.client.start(flow)
        process.first_step()

    # Time.

    def do_run(self, milliseconds: str, *, named: dict[str, str]) -> None:
        self.timeline.run(self.timeline.now_us + int(milliseconds) * MS)

    def do_until(self, *words: str, named: dict[str, str]) -> None:
        """`until answered`; `until leader=2 isr=1,2`; `until 1 log_end_offset=10`."""
        self.until(lambda: self._is_so(words, named))

    def _is_so(self, words: tuple[str, ...], named: dict[str, str]) -> bool:
        if words == ("answered",):
            return not self._waiting
        if words:
            partition = self._find(int(words[0]))
            return partition is not None and all(
                str(_value(partition, name)) == value for name, value in named.items()
            )
        state = self._state
        return state is not None and all(
            _shown(getattr(state, name)) == value for name, value in named.items()
        )

    def until(self, is_so: Callable[[], bool]) -> None:
        until_us = self.timeline.now_us + WAIT_SECONDS_MAX * SECOND
        while not is_so():
            if self.timeline.now_us > until_us:
                self.say(f"not within {WAIT_SECONDS_MAX} seconds")
                return
            self.timeline.step()

    # What there is to see.

    def _find(self, node_id: int) -> Partition | None:
        node = node_of(self.cluster.machines[node_id])
        if node is None or not node.config.is_broker:
            return None
        return node.broker.hosting.by_name.get((TOPIC, 0))

    def do_show(self, *, named: dict[str, str]) -> None:
        """Every replica, as it is."""
        for node_id in self.cluster.plan.brokers:
            if not self.cluster.machines[node_id].is_running:
                self.say(f"{node_id} is down")
                continue
            partition = self._find(node_id)
            if partition is None:
                continue
            role = "leader  " if partition.is_leader else "follower"
            line = (
                f"{node_id} {role} high_watermark={partition.high_watermark}"
                f" log_end_offset={partition.log.log_end_offset}"
            )
            if partition.log.log_start_offset:
                line += f" log_start_offset={partition.log.log_start_offset}"
            if partition.followers is not None:
                remote = partition.followers.remote.items()
                ends = (f"{node}:{known.log_end_offset}" for node, known in remote)
                line += f" remote={','.join(ends)}"
            self.say(line)

    def do_epochs(self, *nodes: str, named: dict[str, str]) -> None:
        """What leader-epoch-checkpoint lists."""
        for node in nodes:
            partition = self._find(int(node))
            assert partition is not None
            entries = partition.log.leader_epochs.entries()
            shown = ", ".join(f"{epoch} from {start}" for epoch, start in entries)
            self.say(f"{node} epochs: {shown}")

    def do_log(self, *nodes: str, named: dict[str, str]) -> None:
        """The values in a replica's log, committed or not, from offset=N on."""
        offset = int(named.get("offset", "0"))
        for node in nodes:
            partition = self._find(int(node))
            assert partition is not None
            found = partition.log.read(offset, partition.log.log_end_offset, 1 << 20)
            data = b"" if found is None else found.read()
            values = [
                f"{record.offset}:{(record.value or b'').decode()}/{batch.partition_leader_epoch}"
                for batch in BatchWalk(data)
                for record in read_records(batch)
                if record.offset >= offset
            ]
            self.say(f"{node} log: {' '.join(values) or 'empty'}")

    def _notice(self, machine: Machine) -> None:
        node = node_of(machine)
        if node is None:
            return
        self._notice_quorum(machine)
        topic = metadata_of(node).image.topic(TOPIC)
        if topic is not None:
            state = topic.partitions[0]
            known = self._state
            if known is None or state.partition_epoch > known.partition_epoch:
                self._state = state
                self.say(_words(state))
        number = self.cluster.node_id(machine)
        for partition in partitions_of(node):
            key = machine.name, partition
            end = partition.log.log_end_offset
            if end < self._ends.get(key, 0):
                self.say(f"{number} truncates to {end}, from {self._ends[key]}")
            self._ends[key] = end
            epoch = partition.leader_epoch, partition.leader_id
            if self._epochs.get(key) != epoch:
                self._epochs[key] = epoch
                if partition.is_leader:
                    start = partition.epoch_start_offset
                    self.say(
                        f"{number} leads in epoch {partition.leader_epoch} from offset {start}"
                    )

    def _notice_quorum(self, machine: Machine) -> None:
        if len(self.cluster.plan.voters) == 1:
            return
        node = node_of(machine)
        assert node is not None
        if node.config.is_controller and node.controller.is_active:
            number = self.cluster.node_id(machine)
            if number != self._controller:
                self._controller = number
                self.say(f"{number} is the active controller, epoch {metadata_of(node).raft.epoch}")


def _words(state: PartitionState) -> str:
    leader = "no leader" if state.leader < 0 else f"leader {state.leader}"
    line = f"controller: {leader}, isr {_shown(state.isr) or 'empty'}"
    if state.eligible_leader_replicas:
        line += f", elr {_shown(state.eligible_leader_replicas)}"
    if state.leader_recovery_state:
        line += ", recovering"
    return f"{line}, leader epoch {state.leader_epoch}"


def _shown(value: Any) -> str:
    return ",".join(map(str, sorted(value))) if isinstance(value, tuple) else str(value)


def _value(partition: Partition, name: str) -> Any:
    if name.startswith("remote."):
        assert partition.followers is not None
        return partition.followers.remote[int(name.removeprefix("remote."))].log_end_offset
    return getattr(partition if hasattr(partition, name) else partition.log, name)


def perform(path: Path) -> str:
    """The file with what is said now."""
    director = Director()
    written: list[str] = []
    is_expected = False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line == "----":
            written += [line, *director.said]
            director.said = []
            is_expected = True
        elif not line:
            is_expected = False
            written.append(line)
        elif not is_expected:
            written.append(line)
            if not line.startswith("#"):
                director.play(line)
    return "\n".join(written) + "\n"
