"""Ports that no other test cluster of this machine takes, for as long as they are held."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

HOST = "127.0.0.1"
PORTS = range(15_000, 32_000)
"""Below those that the system gives to outgoing connections: one of these may hold a node's port
when it starts again."""
BLOCK = 100


class Ports:
    """A block of ports, locked by a file: test runs in parallel keep out of each other's."""

    def __init__(self, count: int) -> None:
        assert count <= BLOCK
        folder = Path(tempfile.gettempdir(), f"tidelog-ports-{os.getuid()}")
        folder.mkdir(exist_ok=True)
        blocks = PORTS[::BLOCK]
        for start in random.SystemRandom().sample(blocks, len(blocks)):
            self._file = (folder / str(start)).open("w")
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._file.close()
                continue
            self.numbers = [port for port in range(start, start + BLOCK) if is_free(port)][:count]
            if len(self.numbers) == count:
                return
            self.release()
        raise OSError(f"no block of ports in {PORTS[0]}-{PORTS[-1]} has {count} free ones")

    def release(self) -> None:
        """Others may have them."""
        self._file.close()


def is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
