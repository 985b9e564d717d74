"""DumpLogSegments reads our files without complaint, and prints what `tidelog dump-log` prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.interop.apache import run_tool
from tests.interop.test_log_apache import NOW, WALL_MS, Ours, workload
from tidelog.cli.dump_log import command
from tidelog.wire.batch import LOG_APPEND_TIME
from tidelog.wire.batch_builder import BatchBuilder

pytestmark = pytest.mark.interop

COMPLAINTS = ("isvalid: false", "Found ", "Mismatches", "not found in", "Exception")


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    """A log with all that a log may hold, closed."""
    path = tmp_path_factory.mktemp("dump") / "tides-0"
    ours = Ours(path)
    for line in workload(6):
        ours.answer(line)
    odd = BatchBuilder()
    odd.append(None, None, timestamp=WALL_MS)
    odd.append(b"", b"", timestamp=WALL_MS, headers=((b"h1", None), (b"h2", b"x")))
    odd.append("ключ".encode(), "значение".encode(), timestamp=WALL_MS - 5)
    ours.log.append_built(odd.build(), 3, NOW)
    ours.log.append_built(odd.build(attributes=LOG_APPEND_TIME), 3, NOW)
    ours.log.truncate_to(ours.log.log_end_offset - 3)
    ours.log.append_built(odd.build(), 4, NOW)
    ours.log.close(NOW)
    return path


def paths(directory: Path, *suffixes: str) -> str:
    found = [str(path) for path in sorted(directory.iterdir()) if path.suffix in suffixes]
    assert found
    return ",".join(found)


def apache(*arguments: str) -> str:
    printed = run_tool("DumpLogSegments", *arguments)
    assert not [line for line in printed.splitlines() if any(c in line for c in COMPLAINTS)]
    return printed


EVERYTHING = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@pytest.mark.parametrize("flags", [("--deep-iteration", "--print-data-log"), ()])
def test_both_tools_print_the_same(directory, flags):
    arguments = ["--files", paths(directory, *EVERYTHING), *flags]
    ours = CliRunner().invoke(command, arguments)
    assert ours.exit_code == 0, ours.output
    assert ours.stdout.splitlines() == apache(*arguments).splitlines()


def test_indexes_pass_the_sanity_check_and_the_comparison(directory):
    files = paths(directory, ".index", ".timeindex")
    passed = apache("--files", paths(directory, ".index"), "--index-sanity-check")
    assert passed.count("passed sanity check") + passed.count("is empty") == files.count(".index")
    assert "offset" not in apache("--files", files, "--verify-index-only")
