"""`tidelog up` as a process of its own, with what a test asks of one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tidelog.server.forking import with_parent
from tidelog.testing.ports import free_ports

SCRIPT = str(Path(sys.executable).with_name("tidelog"))
SECONDS_MAX = 60


class Up:
    """The command, once it has said that it is ready."""

    def __init__(
        self,
        data_dir: Path,
        port: int,
        *arguments: str,
        program: Sequence[str] = (SCRIPT,),
        stderr: int = subprocess.STDOUT,
    ) -> None:
        self.port = port
        self.servers = f"127.0.0.1:{port}"
        # A session of its own, for a test sends signals to the whole group.
        self.process = subprocess.Popen(
            [*program, "up", "--port", str(port), "--data-dir", str(data_dir), *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            preexec_fn=with_parent(),
        )
        self.ready = self.line()

    def line(self) -> str:
        """What the command says next."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    @property
    def nodes(self) -> dict[str, int]:
        """The process id of each node by the name of its log, in the order of their starts."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = map(int, children.read_text().split())
        return {Path(f"/proc/{child}/fd/1").readlink().stem: child for child in found}

    @property
    def node(self) -> int:
        """The process id of the only one."""
        (child,) = self.nodes.values()
        return child

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; the exit code, and what the command said since it was ready."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=SECONDS_MAX)
        return self.process.returncode, said


@contextmanager
def up(
    data_dir: Path,
    *arguments: str,
    port: int | None = None,
    program: Sequence[str] = (SCRIPT,),
    stderr: int = subprocess.STDOUT,
) -> Iterator[Up]:
    port = free_ports(2)[0] if port is None else port
    command = Up(data_dir, port, *arguments, program=program, stderr=stderr)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(command.process.pid, signal.SIGKILL)
        command.process.communicate(timeout=SECONDS_MAX)


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
