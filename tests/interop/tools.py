"""What `make interop` needs beside Python. Run as a script it names what is missing and fails; of
all, or of the commands that it is given."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import NamedTuple


class Tool(NamedTuple):
    """A command, the Debian package that brings it, and the least version that will do."""

    command: str
    package: str
    version_flag: str = ""
    version_min: int = 0


TOOLS = (
    Tool("java", "default-jdk-headless", "-version", 17),
    Tool("mvn", "maven"),
    Tool("go", "golang-go"),
    Tool("kcat", "kcat"),
)


def complaint(tool: Tool) -> str | None:
    """One line that says what to do, or None if the tool is there."""
    install = f"apt install {tool.package}"
    if shutil.which(tool.command) is None:
        return f"{tool.command} is missing: {install}"
    if not tool.version_flag:
        return None
    answer = subprocess.run(
        [tool.command, tool.version_flag], capture_output=True, text=True, check=False
    )
    found = re.search(r'version "?(\d+)', answer.stdout + answer.stderr)
    if found is None or int(found[1]) < tool.version_min:
        version = found[1] if found else "unknown"
        return f"{tool.command} is version {version}, {tool.version_min} or newer needed: {install}"
    return None


def complaints(tools: tuple[Tool, ...] = TOOLS) -> list[str]:
    """All at once, so that one installation mends everything."""
    return [line for tool in tools if (line := complaint(tool)) is not None]


if __name__ == "__main__":
    wanted = sys.argv[1:] or [tool.command for tool in TOOLS]
    lines = complaints(tuple(tool for tool in TOOLS if tool.command in wanted))
    print("\n".join(lines), file=sys.stderr, end="\n" if lines else "")
    sys.exit(bool(lines))
