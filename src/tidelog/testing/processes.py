"""The nursery as a test process sees it: commands there, answers back; and the ends of nodes."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from typing import IO, Any

CLOSE_SECONDS_MAX = 30
POLL_MS_MAX = 1 << 30


class NurseryFailed(Exception):
    """It is gone, or could not do what it was told."""


class NurseryProcess:
    """A child process, without threads of its own, that forks nodes. One command is under way at
    a time: threads that share it take turns."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            # -P: a random.py where the tests are run is not ours to import.
            [sys.executable, "-P", "-m", "tidelog.testing.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._number = 0

    def tell(self, do: str, **arguments: Any) -> Any:
        """Have something done; its result."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        self._number += 1
        try:
            command = {"number": self._number, "do": do, **arguments}
            process.stdin.write(json.dumps(command) + "\n")
            process.stdin.flush()
            answer = self._answer(process.stdout)
        except BrokenPipeError:
            answer = None
        if answer is None:
            _, complained = process.communicate(timeout=CLOSE_SECONDS_MAX)
            raise NurseryFailed(f"the process that starts nodes is gone: {complained.strip()}")
        if "error" in answer:
            raise NurseryFailed(answer["error"])
        return answer["result"]

    def _answer(self, lines: IO[str]) -> dict[str, Any] | None:
        """To the last command. A test may have been broken off, by Ctrl-C or a time limit, while it
        waited for that to another one."""
        for line in lines:
            answer: dict[str, Any] = json.loads(line)
            if answer["number"] == self._number:
                return answer
        return None

    def close(self) -> None:
        """It kills all that it forked, cleans up and ends, even where nobody waits for that."""
        try:
            self._process.communicate(timeout=CLOSE_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def has_ended(process: int, deadline: float) -> bool:
    """Waits until a process has, by its pidfd, or until the deadline."""
    ending = select.poll()
    ending.register(process, select.POLLIN)
    left_ms = max(0.0, deadline - time.monotonic()) * 1000
    return bool(ending.poll(min(left_ms, POLL_MS_MAX)))
