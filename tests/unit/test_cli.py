"""The command: what it prints, its exit codes, and that asking for the version is quick."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidelog import __version__
from tidelog.cli.main import COMMANDS, tidelog

SCRIPT = Path(sys.executable).with_name("tidelog")
VERSION_MS_MAX = 100


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)


def test_version_is_the_packages_by_either_way():
    assert run("--version").stdout == f"tidelog {__version__}\n"
    answer = CliRunner().invoke(tidelog, ["--version"], prog_name="tidelog")
    assert answer.output == f"tidelog {__version__}\n"


def test_version_takes_less_than_100_ms():
    """In CPU time: it waits for nothing, and how busy the machine is does not count."""
    best_ms = 1e9
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert run("--version").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best_ms = min(best_ms, spent * 1e3)
    assert 1 < best_ms < VERSION_MS_MAX


@pytest.mark.parametrize("arguments", [["--version"], ["--help"]])
def test_what_only_some_commands_need_is_imported_late(arguments):
    code = (
        f"import sys; sys.argv = ['tidelog', *{arguments!r}]\n"
        "from tidelog.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'asyncio', 'click', 'rich', 'tidelog.wire'} & set(sys.modules)))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    needed = ["click"] if arguments == ["--help"] else []
    assert answer.stdout.splitlines()[-1] == str(needed)


def test_help_names_every_command():
    answer = CliRunner().invoke(tidelog, ["--help"])
    assert answer.exit_code == 0
    for name in COMMANDS:
        assert f"  {name} " in answer.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    answer = CliRunner().invoke(tidelog, [name, "--help"])
    assert answer.exit_code == 0
    assert name in answer.output


def test_a_wrong_command_is_one_line_and_exit_code_2():
    answer = run("nonsense")
    assert answer.returncode == 2
    assert "No such command" in answer.stderr
    assert "Traceback" not in answer.stderr
