"""The node of `tidelog demo`: `tidelog up` in a directory of its own, gone when the demo is."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tidelog.cli.local_cluster import HOST, STOP_SECONDS_MAX
from tidelog.server.forking import with_parent
from tidelog.testing.ports import free_ports


class NodeFailed(Exception):
    """It did not start; its own words."""


class DemoNode:
    """A child process. It ends with the demo, even if that is killed."""

    def __init__(self) -> None:
        self.port = free_ports(2)[0]
        self.directory = Path(tempfile.mkdtemp(prefix="tidelog-demo-"))
        self._arguments = ["up", "--port", str(self.port), "--data-dir", str(self.directory / "up")]

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        # Told to end by whom ever, it cleans up as at Ctrl-C.
        self._old_handler = signal.signal(signal.SIGTERM, signal.default_int_handler)
        # A process group of its own: Ctrl-C is the demo's, which then stops the node.
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tidelog.cli import main; main()", *self._arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
            preexec_fn=with_parent(signal.SIGTERM),
        )
        try:
            assert self._process.stdout is not None
            if not self._process.stdout.readline():
                assert self._process.stderr is not None
                raise NodeFailed(self._process.stderr.read().strip())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=STOP_SECONDS_MAX)
        finally:
            self._process.kill()
            self._process.communicate()
            shutil.rmtree(self.directory, ignore_errors=True)
            signal.signal(signal.SIGTERM, self._old_handler)

    def files(self, topic: str) -> dict[str, list[int]]:
        """Of each kind of file that the topic's partitions have, the sizes."""
        found: dict[str, list[int]] = {}
        for path in self.directory.glob(f"up/node-1/{topic}-*/*"):
            found.setdefault(path.suffix or path.name, []).append(path.stat().st_size)
        return found
