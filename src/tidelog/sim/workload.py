"""The clients of a simulated cluster, each on a machine of its own."""

from __future__ import annotations

import random
from collections.abc import Callable

from tidelog.sim.admin import Admin
from tidelog.sim.client import Client
from tidelog.sim.consumer import Consumer
from tidelog.sim.history import History
from tidelog.sim.machine import Boot, Machine, Watch
from tidelog.sim.network import Network
from tidelog.sim.plan import BROKER_PORT, Plan, TopicPlan, host
from tidelog.sim.producer import Producer, ProducerPlan
from tidelog.sim.replicas import ReplicaInvariants
from tidelog.sim.timeline import Clock

ADMIN = "admin"
READER = "reader"
"""Reads everything at the end."""


class Workload:
    """An admin that makes the topics, then producers and consumers of all of them."""

    def __init__(
        self, plan: Plan, network: Network, watch: Watch, invariants: ReplicaInvariants
    ) -> None:
        self.plan = plan
        self.history = History()
        self.machines: list[Machine] = []
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self._network = network
        self._watch = watch
        self._invariants = invariants
        self._servers = [(host(broker), BROKER_PORT) for broker in plan.brokers]
        admin = self._client(ADMIN)
        self.admin = Admin(admin, list(plan.topics), list(plan.brokers), self.history)
        admin.start(self.admin.run())
        for topic in plan.topics:
            for partition in range(topic.partitions):
                self._write(topic, partition)
        for number in range(plan.consumers):
            client = self._client(f"consumer{number}")
            for topic in plan.topics:
                self._read(client, topic, self._rack(number))

    def start(self) -> None:
        for machine in self.machines:
            machine.start()

    def stop(self) -> None:
        """No more is written; what is under way is finished."""
        self.admin.is_stopping = True
        for producer in self.producers:
            producer.is_stopping = True

    def start_reader(self) -> list[Consumer]:
        """One consumer of everything, from its beginning."""
        client = self._client(READER)
        before = len(self.consumers)
        for topic in self.plan.topics:
            self._read(client, topic, "")
        self.machines[-1].start()
        return self.consumers[before:]

    def _client(self, name: str) -> Client:
        rng = random.Random(f"{name}/{self.plan.seed}")
        client = Client(name, self._servers, rng)
        clock = Clock(self._network.timeline)

        def boot(machine: Machine) -> Boot:
            return Boot(client, {})

        machine = Machine(name, self._network, clock, rng, self._watch, boot)
        self.machines.append(machine)
        return client

    def _rack(self, number: int) -> str:
        racks = self.plan.racks
        return racks[number % len(racks)] if racks else ""

    def _write(self, topic: TopicPlan, partition: int) -> None:
        """An idempotent producer with acks=all for each partition; others here and there."""
        rng = random.Random(f"writers/{self.plan.seed}/{topic.name}/{partition}")
        kinds = [(True, -1)]
        if rng.randrange(2):
            acks = rng.choice((-1, 1, 1, 0))
            kinds.append((acks != 0 and rng.randrange(2) == 0, acks))
        for number, (is_idempotent, acks) in enumerate(kinds):
            client = self._client(f"producer-{topic.name}-{partition}-{number}")
            plan = ProducerPlan(
                topic.name,
                partition,
                acks,
                is_idempotent,
                self.plan.interval_ms,
                topic.is_durable,
            )
            acknowledged: Callable[..., None] = self._invariants.acknowledged
            producer = Producer(client, plan, self.history, acknowledged)
            client.start(producer.run())
            self.producers.append(producer)

    def _read(self, client: Client, topic: TopicPlan, rack: str) -> None:
        for partition in range(topic.partitions):
            consumer = Consumer(client, topic.name, partition, self.history, self._invariants)
            consumer.rack = rack
            client.start(consumer.run())
            self.consumers.append(consumer)
