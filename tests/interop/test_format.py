"""`tidelog format` and Apache's StorageTool write the same files and refuse the same wishes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.interop.apache import CLUSTER_ID, run_tool
from tests.unit.metadata.captured import without_times
from tidelog.cli.main import tidelog
from tidelog.metadata.batches import walk_metadata
from tidelog.wire.messages.control_records import SnapshotHeaderRecord

pytestmark = pytest.mark.interop

Format = Callable[[Path, str, list[str]], tuple[bool, list[str]]]

FIRST, SECOND = "3Db5QLSqSZieL3rJBUUegA", "L3rJBUUegA3Db5QLSqSZiA"
BOTH = f"1@127.0.0.1:9093:{FIRST},2@h:9094:{SECOND}"
STATIC = {"controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093,127.0.0.1:9094"}
BROKER = {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092"}
DIRECTORIES = {"log.dirs": "{}/a,{}/b", "metadata.log.dir": "{}/m"}

CASES: dict[str, tuple[dict[str, str], list[list[str]]]] = {
    "static": (STATIC, [[]]),
    "static, joining": (STATIC, [["--no-initial-controllers"]]),
    "static, standalone": (STATIC, [["--standalone"]]),
    "dynamic, nothing said": (DYNAMIC, [[]]),
    "standalone": (DYNAMIC, [["--standalone"]]),
    "joining": (DYNAMIC, [["--no-initial-controllers"]]),
    "initial controllers": (DYNAMIC, [["--initial-controllers", BOTH]]),
    "others are initial": (DYNAMIC, [["--initial-controllers", f"2@h:9094:{SECOND}"]]),
    "broker": (DYNAMIC | BROKER, [[]]),
    "broker, standalone": (DYNAMIC | BROKER, [["--standalone"]]),
    "directories": (DYNAMIC | DIRECTORIES, [["--standalone"]]),
    "again": (STATIC, [[], [], ["--ignore-formatted"]]),
}


def by_apache(directory: Path, file: str, flags: list[str]) -> tuple[bool, list[str]]:
    config = ("format", "-t", CLUSTER_ID, "-c", file)
    said = run_tool("kafka.tools.StorageTool", *config, *flags, check=False).splitlines()
    lines = [line for line in sorted(said) if not line.startswith("Bootstrap metadata: ")]
    return lines[0].startswith(("Formatting ", "All of the")), lines


def by_us(directory: Path, file: str, flags: list[str]) -> tuple[bool, list[str]]:
    arguments = ["format", "--cluster-id", CLUSTER_ID, *flags, file]
    answer = CliRunner().invoke(tidelog, arguments)
    lines = [line.removeprefix("Error: ") for line in answer.output.splitlines()]
    return answer.exit_code == 0, sorted(lines)


def form(directory: Path, changed: dict[str, str], calls: list[list[str]], tool: Format) -> list:
    """What the tool says each time, without the directory's name, and whether it succeeds."""
    directory.mkdir()
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "log.dirs": "{}/data",
        **changed,
    }
    file = directory / "server.properties"
    lines = (f"{name}={value}\n" for name, value in properties.items())
    file.write_text("".join(lines).replace("{}", str(directory)))
    answers = [tool(directory, str(file), flags) for flags in calls]
    file.unlink()
    return [(ok, [line.replace(str(directory), "{}") for line in lines]) for ok, lines in answers]


def content(path: Path, ids: dict[str, str]) -> object:
    """Without what no two runs have in common: times, and ids drawn at random."""
    raw = path.read_bytes()
    if path.name == "meta.properties":
        lines = [line for line in raw.decode().splitlines() if not line.startswith("#")]
        return "\n".join(sorted(lines)).replace(ids[str(path.parent)], "ID").encode()
    header = next(walk_metadata(raw)).record
    assert isinstance(header, SnapshotHeaderRecord)
    stamp = header.last_contained_log_timestamp
    return without_times(raw.replace(stamp.to_bytes(8, "big"), bytes(8)))


def written(directory: Path) -> dict[str, object]:
    """Every file; of a checkpoint with a random id in it, under its checksum, only the size."""
    found: dict[str, object] = {}
    ids = {
        str(path.parent): re.findall(r"directory.id=(\S+)", path.read_text())[0]
        for path in directory.rglob("meta.properties")
    }
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name != ".lock":
            is_drawn = path.name.startswith("0") and ids[str(path.parents[1])] != FIRST
            name = str(path.relative_to(directory))
            found[name] = path.stat().st_size if is_drawn else content(path, ids)
    return found


@pytest.mark.parametrize("case", CASES)
def test_both_tools_write_and_say_the_same(case: str, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert form(ours, *CASES[case], by_us) == form(theirs, *CASES[case], by_apache)
    assert written(ours) == written(theirs)


def test_the_ids_that_were_chosen_are_used(tmp_path: Path) -> None:
    form(tmp_path / "ours", DYNAMIC, [["--initial-controllers", BOTH]], by_us)
    text = (tmp_path / "ours/data/meta.properties").read_text()
    assert f"directory.id={FIRST}\n" in text
