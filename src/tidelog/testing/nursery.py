"""A process that forks nodes for a test: it imports once, and a node starts in a moment.

Python programs with threads, as tests may be, must not fork themselves. Each line of standard input
is a command in JSON, each line of standard output its answer; at the end of input, which comes with
the end of the test however it ends, all children are killed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from tidelog.config.broker import BrokerConfig
from tidelog.server.forking import fork
from tidelog.server.run import raise_file_limit, run
from tidelog.testing.proxy import Proxy, Route

LINE_BYTES_MAX = 1 << 16


class Nursery:
    """The children, by node; and the proxy between them."""

    def __init__(self) -> None:
        self._nodes: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        """Of nodes that ended: how."""
        self._proxy: int | None = None
        self._control: socket.socket | None = None
        self._temporary: str | None = None

    def obey(self, command: dict[str, Any]) -> Any:
        """Do one thing; its result."""
        commands: dict[str, Callable[..., Any]] = {
            "proxy": self.start_proxy,
            "network": self.change_network,
            "start": self.start,
            "wait": self.wait,
            "ended": self.ended,
            "make_directory": self.make_directory,
        }
        return commands[command.pop("do")](**command)

    def start_proxy(self, routes: list[list[int]], log: str) -> None:
        self._control, theirs = socket.socketpair()
        serve = partial(serve_proxy, [Route(*one) for one in routes], theirs)
        self._proxy = fork(serve, Path(log), orphaned=signal.SIGKILL)
        theirs.close()

    def change_network(self, change: str, nodes: list[int]) -> None:
        """A method of the proxy; it has happened when this returns."""
        assert self._control is not None
        self._control.sendall(f"{json.dumps([change, nodes])}\n".encode())
        if not self._control.recv(1):
            raise RuntimeError("the proxy is gone")

    def start(self, node: int, properties: dict[str, str], cluster_id: str, log: str) -> int:
        config = BrokerConfig.from_properties(properties)
        self._codes.pop(node, None)
        serve = partial(run, config, cluster_id)
        self._nodes[node] = fork(serve, Path(log), orphaned=signal.SIGKILL)
        return self._nodes[node]

    def wait(self, node: int) -> int:
        """Until the node has ended; the exit code, or the signal below zero."""
        if node in self._nodes:
            self._bury(node, os.waitpid(self._nodes[node], 0)[1])
        return self._codes[node]

    def ended(self) -> dict[int, int]:
        """Exit codes of the nodes that ended."""
        for node, process_id in list(self._nodes.items()):
            found, status = os.waitpid(process_id, os.WNOHANG)
            if found:
                self._bury(node, status)
        return self._codes

    def make_directory(self) -> str:
        """That lasts as long as we do."""
        self._temporary = tempfile.mkdtemp(prefix="tidelog-testing-")
        return self._temporary

    def _bury(self, node: int, status: int) -> None:
        del self._nodes[node]
        self._codes[node] = os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """Kill all that is left, standing still or not."""
        left = [*self._nodes.values(), *([] if self._proxy is None else [self._proxy])]
        for process_id in left:
            os.kill(process_id, signal.SIGKILL)
        for process_id in left:
            os.waitpid(process_id, 0)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def serve_proxy(routes: list[Route], control: socket.socket) -> int:
    """Until the nursery is gone."""
    raise_file_limit()
    proxy = Proxy(routes)
    lines = bytearray()
    is_over = False

    def told() -> None:
        nonlocal is_over
        data = control.recv(LINE_BYTES_MAX)
        lines.extend(data)
        is_over = not data
        while b"\n" in lines:
            line, _, rest = lines.partition(b"\n")
            lines[:] = rest
            change, nodes = json.loads(line)
            {"isolate": proxy.set_isolated, "cut": proxy.cut}[change](nodes)
            control.sendall(b".")

    proxy.watch(control, told)
    while not is_over:
        proxy.run_once()
    proxy.close()
    return 0


def serve(commands: TextIO, answers: TextIO) -> None:
    """One answer a command, until there are no more."""
    nursery = Nursery()
    try:
        for line in commands:
            command = json.loads(line)
            number = command.pop("number")
            try:
                answer = {"result": nursery.obey(command)}
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"}
            answers.write(json.dumps({"number": number, **answer}) + "\n")
            answers.flush()
    finally:
        nursery.close()


def main() -> None:
    # Ctrl-C, and what else a whole group is sent, is the test's, whose end is that of our input.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a child may print before it has its log is no answer
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
