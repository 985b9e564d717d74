"""A simulated machine: a disk, clocks, a place in the network, and the program that it runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, Protocol

from tidelog.env import Now
from tidelog.events import ConnectionId, Event
from tidelog.loading import CannotLoad
from tidelog.sim.disk import Crashed, SimulatedDisk
from tidelog.sim.network import Network
from tidelog.sim.process import Process
from tidelog.sim.program import Program
from tidelog.sim.timeline import Clock

FLUSH_US = (200, 4000)

# Why a process has ended: where the disk is not what it was, and where all of it is durable.
LOST_POWER = "lost its power"
NEW_DISK = "got a new disk"
STOPPED = "stopped"


class Boot(NamedTuple):
    """A program that is ready for its first step, and where it listens: a listener's name for
    each port."""

    program: Program
    ports: dict[int, str]
    ports_later: Mapping[int, str] = MappingProxyType({})
    is_ready: Callable[[], bool] = bool
    """Whether it listens at the later ones too; until then who connects there is refused."""


class Watch(Protocol):
    """Who looks at all that happens: the trace, and the invariants."""

    def before_step(self, machine: Machine, event: Event, frame: memoryview | None, /) -> None: ...

    def after_step(self, machine: Machine, /) -> None: ...

    def sent(self, machine: Machine, connection: ConnectionId, frame: bytes, /) -> None: ...

    def started(self, machine: Machine, /) -> None:
        """A process runs; it has not made a step yet."""

    def ended(self, machine: Machine, reason: str, /) -> None:
        """Its process is gone. What lies on the disk is what there is now."""


class Machine:
    """At most one process at a time."""

    def __init__(
        self,
        name: str,
        network: Network,
        clock: Clock,
        rng: random.Random,
        watch: Watch,
        boot: Callable[[Machine], Boot],
    ) -> None:
        self.name = name
        self.network = network
        self.host = network.host(name)
        self.clock = clock
        self.rng = rng
        """Of the machine; a program has its own."""
        self.disk = SimulatedDisk()
        self.flush_us = FLUSH_US
        self.process: Process | None = None
        self.lives = 0
        """How many processes there were."""
        self._watch = watch
        self._boot = boot
        # Of every step and frame: without a call in between.
        self.after_step = partial(watch.after_step, self)
        self.sent = partial(watch.sent, self)

    def __repr__(self) -> str:
        return self.name

    @property
    def program(self) -> Program | None:
        return None if self.process is None else self.process.program

    @property
    def is_running(self) -> bool:
        return self.process is not None

    @property
    def is_paused(self) -> bool:
        return self.process is not None and self.process.is_paused

    # What happens to it.

    def start(self) -> bool:
        """Turn it on and start the program; whether that runs."""
        assert self.process is None
        if not self.host.is_on:
            self.network.power_on(self.host)
        self.lives += 1
        self.disk.wall_ms = self.clock.now().wall_ms
        try:
            boot = self._boot(self)
        except CannotLoad as error:
            self.disk.release_locks()
            self._watch.ended(self, f"cannot start: {error}")
            return False
        except Crashed:
            self.power_failed()
            return False
        self.process = Process(self, boot.program)
        self.process.listen(boot.ports)
        self.process.listen_later(boot.ports_later, boot.is_ready)
        self._watch.started(self)
        self.process.happen(self.process.first_step)
        return self.is_running

    def kill(self, reason: str = "killed") -> None:
        """The process is gone; what it wrote is in the page cache."""
        assert self.process is not None
        process, self.process = self.process, None
        process.end()
        self.disk.release_locks()
        self._watch.ended(self, reason)

    def pause(self) -> None:
        assert self.process is not None
        self.process.pause()

    def resume(self) -> None:
        assert self.process is not None
        self.process.resume()

    def power_off(self) -> None:
        """The process is gone, and what was not flushed is lost, torn or there, as chance has
        it. Also of a machine that runs nothing."""
        process, self.process = self.process, None
        if process is not None:
            process.end(is_power_failure=True)
        self.network.power_off(self.host)
        self.disk = after_power_failure(self.disk, self.rng)
        self._watch.ended(self, LOST_POWER)

    def wipe(self) -> None:
        """Somebody put a new disk in, while nothing ran."""
        assert self.process is None
        self.disk = SimulatedDisk(self.disk.capacity_bytes)
        self._watch.ended(self, NEW_DISK)

    # What its process tells.

    def before_step(self, event: Event, frame: memoryview | None) -> Now:
        now = self.clock.now()
        self.disk.wall_ms = now.wall_ms
        self._watch.before_step(self, event, frame)
        return now

    def stopped(self, reason: str) -> None:
        self.kill(f"stopped itself: {reason}")

    def power_failed(self) -> None:
        self.power_off()


def after_power_failure(disk: SimulatedDisk, rng: random.Random) -> SimulatedDisk:
    """Each file keeps some of what was not flushed: nothing, all, or up to some byte; what is
    lost may read as zeros. Of changed names a first part is there."""

    def keep_bytes(path: str, unsynced: int) -> int:
        kept = rng.randrange(3)
        return (0, unsynced, rng.randrange(unsynced + 1))[kept]

    def zeros(path: str, lost: int) -> int:
        return rng.randrange(lost + 1) if lost and rng.randrange(4) == 0 else 0

    return disk.crash(
        keep_bytes,
        lambda changes: rng.randrange(changes + 1),
        zeros,
        keep_cuts=rng.randrange(2) == 0,
    )
