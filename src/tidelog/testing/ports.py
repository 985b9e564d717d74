"""Ports that no other test cluster of this machine takes, for as long as they are held."""

from __future__ import annotations

import os
import random
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

HOST = "127.0.0.1"
PORTS = range(15_000, 32_000)
"""Below those that the system gives to outgoing connections: one of these may hold a node's port
when it starts again, or a client that tries it meanwhile may even reach itself there."""
BLOCK = 100


class Ports:
    """A block of ports, locked by a file: test runs in parallel keep out of each other's."""

    def __init__(self, count: int) -> None:
        assert count <= BLOCK
        blocks = PORTS[::BLOCK]
        for start in random.SystemRandom().sample(blocks, len(blocks)):
            if not self._lock(start):
                continue
            self.numbers = [port for port in range(start, start + BLOCK) if is_free(port)][:count]
            if len(self.numbers) == count:
                return
            self.release()
        raise OSError(f"no block of ports in {PORTS[0]}-{PORTS[-1]} has {count} free ones")

    def _lock(self, start: int) -> bool:
        self._path = Path(tempfile.gettempdir(), f"tidelog-ports-{os.getuid()}", str(start))
        try:
            self._path.parent.mkdir(exist_ok=True)
            self._file = self._path.open("w")
        except OSError:  # somebody has just removed the directory
            return False
        import fcntl  # not everywhere, and where it is not we say more than that

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Or whoever had it until now has removed it, and the next one locks another file.
            if os.path.samestat(os.fstat(self._file.fileno()), self._path.stat()):
                return True
        except OSError:
            pass
        self._file.close()
        return False

    def release(self) -> None:
        """Others may have them."""
        self._path.unlink()
        with suppress(OSError):  # others are in there
            self._path.parent.rmdir()
        self._file.close()


def free_ports(count: int) -> list[int]:
    """Ports that follow each other and that nobody listens on; not locked, for who starts at
    once."""
    for start in random.SystemRandom().sample(PORTS, len(PORTS)):
        found = list(range(start, start + count))
        if all(map(is_free, found)):
            return found
    raise OSError(f"no {count} ports in {PORTS[0]}-{PORTS[-1]} are free")


def is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
