"""The command `tidelog`."""

from __future__ import annotations

import sys

from tidelog import __version__


def main() -> None:
    """What the installed script calls."""
    # Scripts ask for the version in loops; click alone would take half of the 100 ms we allow it.
    if sys.argv[1:] == ["--version"]:
        print(f"tidelog {__version__}")
        return
    from tidelog.cli.main import tidelog

    tidelog(prog_name="tidelog")
