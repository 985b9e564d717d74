"""The nursery as a test process sees it: commands there, answers back."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

CLOSE_SECONDS_MAX = 30


class NurseryFailed(Exception):
    """It is gone, or could not do what it was told."""


class NurseryProcess:
    """A child process, without threads of its own, that forks nodes."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tidelog.testing.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tell(self, do: str, **arguments: Any) -> Any:
        """Have something done; its result."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            _, complained = process.communicate(timeout=CLOSE_SECONDS_MAX)
            raise NurseryFailed(f"the process that starts nodes is gone: {complained.strip()}")
        answer = json.loads(line)
        if "error" in answer:
            raise NurseryFailed(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """It kills all that it forked, and ends."""
        try:
            self._process.communicate(timeout=CLOSE_SECONDS_MAX)
        finally:
            self._process.kill()
            self._process.wait()
