"""Makes things go wrong, as a plan says: begins faults at random times, and ends them."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from functools import partial

from tidelog.log.names import LOG, OFFSET_INDEX, TIME_INDEX
from tidelog.sim.counters import Counters
from tidelog.sim.disk import SimulatedDisk
from tidelog.sim.machine import Machine
from tidelog.sim.network import Host, Network, Socket
from tidelog.sim.plan import FaultPlan
from tidelog.sim.timeline import MS, Action, Timeline

SLOW_US = (20 * MS, 300 * MS)
SLOW_FLUSH_US = (50 * MS, 1500 * MS)
FREE_BYTES_MAX = 2000
"""What a full disk has left at most."""
OPERATIONS_MAX = 30
"""Within so many calls the power fails during a write."""
TORN_BYTES_MAX = 200
CLOCK_JUMP_MS_MAX = 300_000
RESTART_US_MAX = 200 * MS
"""Within which a process is killed, and started again by somebody who watches it."""
LAST_WORDS_US = 1500 * MS
"""What it said last may come later than that: when the next process is registered."""
STALLED = 3
"""One in so many connections of a machine stalls."""
UNREADABLE = 4
"""One in so many reads of a log fails."""


class Nemesis:
    """Ends what it began, at the latest when it is told to heal all."""

    def __init__(
        self,
        plan: FaultPlan,
        nodes: list[Machine],
        clients: list[Machine],
        network: Network,
        rng: random.Random,
        counters: Counters,
        stop: Callable[[Machine], object],
        is_wipeable: Callable[[Machine], bool],
        tell: Callable[[str], None],
    ) -> None:
        self.plan = plan
        self.is_active = False
        self._nodes, self._clients = nodes, clients
        self._network = network
        self._timeline: Timeline = network.timeline
        self._rng = rng
        self._counters = counters
        self._stop = stop
        self._is_wipeable = is_wipeable
        self._tell = tell
        self._undo: dict[int, Action] = {}
        self._count = 0
        self._down: dict[Machine, int] = {}
        """How many faults keep a machine from its work."""
        self._faults: dict[str, Callable[[], bool]] = {
            "kill": self._kill,
            "restart": self._restart,
            "pause": self._pause,
            "power loss": self._power_loss,
            "power loss during a write": self._power_loss_during_a_write,
            "clean stop": self._clean_stop,
            "partition": self._partition,
            "one-way partition": self._one_way_partition,
            "isolated client": self._isolated_client,
            "slow link": self._slow_link,
            "broken connection": self._network.break_one,
            "stalled connections": self._stalled_connections,
            "slow disk": self._slow_disk,
            "failing flush": self._failing_flush,
            "failing reads": self._failing_reads,
            "full disk": self._full_disk,
            "clock jump": self._clock_jump,
            "bit rot in an index": self._bit_rot,
            "wiped disk": self._wiped_disk,
        }
        assert not plan.weights.keys() - self._faults.keys()

    def start(self) -> None:
        if any(self.plan.weights.values()):
            self.is_active = True
            self._plan_next()

    def heal(self) -> None:
        """From now on nothing is wrong, and all machines run."""
        self.is_active = False
        for undo in list(self._undo.values()):
            undo()
        self._undo.clear()
        for machine in self._nodes:
            if not machine.is_running:
                self._start(machine)

    def ended(self, machine: Machine) -> None:
        """A process is gone, for whatever reason: somebody starts it again, after a while."""
        if machine in self._nodes:
            self._timeline.after(self._duration_us(), partial(self._start, machine))

    def _start(self, machine: Machine) -> None:
        if not machine.is_running:
            self._tell(f"{machine} starts")
            machine.start()

    def _plan_next(self) -> None:
        delay_us = self._rng.randrange(2 * self.plan.mean_interval_ms * MS)
        self._timeline.after(delay_us, self._strike)

    def _strike(self) -> None:
        if not self.is_active:
            return
        names = list(self.plan.weights)
        (name,) = self._rng.choices(names, list(self.plan.weights.values()))
        if self._faults[name]():
            self._counters.injected(name)
        self._plan_next()

    # What a fault needs.

    def _duration_us(self) -> int:
        return self._rng.randrange(*self.plan.duration_ms) * MS

    def _until_healed(self, undo: Action, least_us: int = 0) -> None:
        """Undone after some time, or when all is healed."""
        self._count += 1
        number = self._count
        self._undo[number] = undo

        def end() -> None:
            if self._undo.pop(number, None) is not None:
                undo()

        self._timeline.after(max(self._duration_us(), least_us), end)

    def _victim(self) -> Machine | None:
        """A machine that works, if another may be kept from it."""
        working = [m for m in self._nodes if m.is_running and not self._down.get(m)]
        if len(self._nodes) - len(working) >= self.plan.down_max or not working:
            return None
        return self._rng.choice(working)

    def _set_down(self, machines: list[Machine], by: int) -> None:
        for machine in machines:
            self._down[machine] = self._down.get(machine, 0) + by

    # Processes and power.

    def _kill(self) -> bool:
        victim = self._victim()
        if victim is not None:
            self._tell(f"{victim} is killed")
            victim.kill()
        return victim is not None

    def _restart(self) -> bool:
        """At once: before others know that it was gone, or have heard its last words. To some it
        has said them, the controller perhaps, which so lets the next process in."""
        victim = self._victim()
        if victim is None:
            return False
        some = [socket for socket in victim.host.sockets if self._rng.randrange(2)]
        self._stall(victim, some, LAST_WORDS_US)
        self._soon(partial(self._restart_now, victim))
        return True

    def _restart_now(self, victim: Machine) -> None:
        if self.is_active and victim.is_running and not self._down.get(victim):
            self._tell(f"{victim} is killed, and started again")
            victim.kill()
            self._soon(partial(self._start, victim))

    def _soon(self, action: Action) -> None:
        self._timeline.after(self._rng.randrange(RESTART_US_MAX), action)

    def _pause(self) -> bool:
        victim = self._victim()
        if victim is None:
            return False
        self._tell(f"{victim} is paused")
        process = victim.process
        assert process is not None
        victim.pause()
        self._set_down([victim], 1)

        def resume() -> None:
            self._tell(f"{victim} goes on")
            self._set_down([victim], -1)
            process.resume()

        self._until_healed(resume)
        return True

    def _power_loss(self) -> bool:
        victim = self._victim()
        if victim is not None:
            self._tell(f"{victim} loses its power")
            victim.power_off()
        return victim is not None

    def _power_loss_during_a_write(self) -> bool:
        victim = self._victim()
        if victim is None:
            return False
        disk = victim.disk
        disk.crash_at = disk.operations + self._rng.randrange(1, OPERATIONS_MAX)
        disk.torn_bytes = self._rng.randrange(TORN_BYTES_MAX)
        self._tell(f"{victim} will lose its power at its disk's operation {disk.crash_at}")
        self._until_healed(partial(setattr, disk, "crash_at", None))
        return True

    def _clean_stop(self) -> bool:
        victim = self._victim()
        if victim is not None:
            self._tell(f"{victim} is told to stop")
            self._stop(victim)
        return victim is not None

    # The network.

    def _block(self, pairs: list[tuple[Host, Host]], down: list[Machine]) -> None:
        for pair in pairs:
            self._network.block(*pair)
        self._set_down(down, 1)

        def heal() -> None:
            self._tell("a partition of the network is healed")
            self._set_down(down, -1)
            for pair in pairs:
                self._network.unblock(*pair)

        self._until_healed(heal)

    def _partition(self) -> bool:
        """Some nodes and clients do not reach the others."""
        victim = self._victim()
        if victim is None:
            return False
        here = [victim]
        there = [machine for machine in self._nodes if machine is not victim]
        for client in self._clients:
            (here if self._rng.randrange(2) else there).append(client)
        self._tell(f"{', '.join(map(repr, here))} cut off from the rest")
        pairs = [(a.host, b.host) for a in here for b in there]
        self._block(pairs + [(b, a) for a, b in pairs], [victim])
        return True

    def _one_way_partition(self) -> bool:
        """A node's words reach others, or theirs reach it, but not both."""
        victim = self._victim()
        if victim is None:
            return False
        others = [m.host for m in (*self._nodes, *self._clients) if m is not victim]
        others = self._rng.sample(others, self._rng.randint(1, len(others)))
        pairs = [(victim.host, other) for other in others]
        if self._rng.randrange(2):
            pairs = [(there, here) for here, there in pairs]
        shown = ", ".join(f"{a.name} -> {b.name}" for a, b in pairs)
        self._tell(f"nothing arrives: {shown}")
        self._block(pairs, [victim])
        return True

    def _isolated_client(self) -> bool:
        client = self._rng.choice(self._clients)
        pairs = [(client.host, node.host) for node in self._nodes]
        self._tell(f"{client} is cut off")
        self._block(pairs + [(b, a) for a, b in pairs], [])
        return True

    def _slow_link(self) -> bool:
        here, there = self._rng.sample([*self._nodes, *self._clients], 2)
        link = self._network.link(here.host, there.host)
        slow_us = self._rng.randrange(*SLOW_US)
        link.slow_us += slow_us
        self._tell(f"slow: {here} -> {there}, {slow_us // MS} ms")

        def heal() -> None:
            link.slow_us -= slow_us

        self._until_healed(heal)
        return True

    def _stalled_connections(self) -> bool:
        """What a machine sends on some of its connections comes late, behind all the rest."""
        victim = self._rng.choice([*self._nodes, *self._clients])
        sockets = [s for s in victim.host.sockets if self._rng.randrange(STALLED) == 0]
        self._stall(victim, sockets)
        return bool(sockets)

    def _stall(self, victim: Machine, chosen: list[Socket], least_us: int = 0) -> None:
        sockets = [one for one in chosen if not one.is_stalled]
        self._tell(f"{len(sockets)} connections of {victim} stall")
        for socket in sockets:
            socket.is_stalled = True

        def heal() -> None:
            for socket in sockets:
                socket.is_stalled = False
            self._network.retransmit()

        self._until_healed(heal, least_us)

    # Disks and clocks.

    def _slow_disk(self) -> bool:
        victim = self._rng.choice(self._nodes)
        before = victim.flush_us
        if before == SLOW_FLUSH_US:
            return False
        victim.flush_us = SLOW_FLUSH_US
        self._tell(f"{victim} has a slow disk")
        self._until_healed(partial(setattr, victim, "flush_us", before))
        return True

    def _failing_flush(self) -> bool:
        victim = self._victim()
        if victim is None or victim.disk.is_faulty:
            return False
        self._fail_disk(victim.disk, lambda operation, path: operation == "flush")
        self._tell(f"{victim}'s disk fails to flush")
        return True

    def _failing_reads(self) -> bool:
        """Some of a log's sectors cannot be read; once more, and they can."""
        victim = self._victim()
        if victim is None or victim.disk.is_faulty:
            return False

        def fails(operation: str, path: str) -> bool:
            is_read = operation == "read" and path.endswith(LOG)
            if not is_read or self._rng.randrange(UNREADABLE):
                return False
            self._counters.reached("a log could not be read")
            return True

        self._fail_disk(victim.disk, fails)
        self._tell(f"{victim}'s disk fails to read")
        return True

    def _fail_disk(self, disk: SimulatedDisk, fails: Callable[[str, str], bool]) -> None:
        def fault(operation: str, path: str) -> OSError | None:
            return OSError(errno.EIO, "simulated", path) if fails(operation, path) else None

        disk.fault = fault
        self._until_healed(disk.heal)

    def _full_disk(self) -> bool:
        victim = self._victim()
        if victim is None or victim.disk.is_limited:
            return False
        disk, unlimited = victim.disk, victim.disk.capacity_bytes
        disk.capacity_bytes -= disk.free_bytes - self._rng.randrange(FREE_BYTES_MAX)
        self._tell(f"{victim}'s disk is full")

        def heal() -> None:
            disk.capacity_bytes = victim.disk.capacity_bytes = unlimited

        self._until_healed(heal)
        return True

    def _clock_jump(self) -> bool:
        victim = self._rng.choice(self._nodes)
        jump_ms = self._rng.randint(-CLOCK_JUMP_MS_MAX, CLOCK_JUMP_MS_MAX)
        victim.clock.wall_skew_ms += jump_ms
        self._tell(f"{victim}'s clock jumps by {jump_ms} ms")
        return True

    def _bit_rot(self) -> bool:
        """While nothing runs: what is in memory does not rot."""
        victim = self._victim()
        if victim is None:
            return False
        disk = victim.disk
        indexes = [p for p in disk.paths() if p.endswith((OFFSET_INDEX, TIME_INDEX))]
        indexes = [path for path in indexes if disk.size(path)]
        if not indexes:
            return False
        path = self._rng.choice(indexes)
        victim.kill("killed, and a bit of an index flips")
        position = self._rng.randrange(disk.size(path) or 1)
        disk.flip_bit(path, position, self._rng.randrange(8))
        self._tell(f"{victim}: a bit of {path} flips at {position}")
        return True

    def _wiped_disk(self) -> bool:
        victim = self._victim()
        if victim is None or not self._is_wipeable(victim):
            return False
        self._tell(f"{victim} gets a new disk")
        victim.power_off()
        victim.wipe()
        return True
