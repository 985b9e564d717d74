"""What runs on a simulated machine, and what it needs of it."""

from __future__ import annotations

import random
from typing import Protocol

from tidelog.env import Now
from tidelog.events import ConnectionId, Effect, Event
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.network import Host, Network
from tidelog.sim.timeline import Clock
from tidelog.wire.request import Served


class Program(Protocol):
    """A node, or a client."""

    @property
    def next_deadline_ms(self) -> int: ...

    @property
    def waits_for_more(self) -> bool:
        """Whether it wants to be told when what arrives together is handled."""

    def step(self, event: Event, now: Now, /) -> list[Effect]: ...

    def served_at(self, listener: str, /) -> Served:
        """Asked of programs that listen."""


class Surroundings(Protocol):
    """What a process needs of its machine."""

    name: str
    host: Host
    disk: SimulatedDisk
    clock: Clock
    network: Network
    rng: random.Random
    flush_us: tuple[int, int]
    """How long the disk takes to make something durable, at least and at most."""

    def before_step(self, event: Event, frame: memoryview | None, /) -> Now:
        """What its clocks show."""

    def after_step(self) -> None: ...

    def sent(self, connection: ConnectionId, frame: bytes, /) -> None: ...

    def stopped(self, reason: str, /) -> None:
        """The program asked for its end."""

    def power_failed(self) -> None:
        """In the middle of a call of the disk."""
