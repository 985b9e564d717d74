"""One node of Tidelog, as a process."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.interop.process import NodeProcess


class TidelogNode(NodeProcess):
    """By `tidelog start`, which formats an empty directory itself."""

    def command(self, config: str) -> list[str]:
        return [str(Path(sys.executable).with_name("tidelog")), "start", config]
