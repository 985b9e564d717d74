"""`tidelog format`: Kafka's files, Kafka's lines, and one line where it cannot."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.unit.metadata.captured import DISK, without_times

from tidelog.cli.main import tidelog
from tidelog.disk import RealDisk
from tidelog.log.checkpoint import MetaProperties, parse_meta_properties
from tidelog.metadata.batches import walk_metadata
from tidelog.types import format_uuid, parse_uuid
from tidelog.wire.messages.control_records import VotersRecord

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
OTHER_ID = "AkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY_ID = "3Db5QLSqSZieL3rJBUUegA"
CHECKPOINT = f"__cluster_metadata-0/{0:020}-{0:010}.checkpoint"
STATIC = {"controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094"}
DYNAMIC = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093,127.0.0.1:9094"}

Format = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Format:
    """Formats node 1, by default of a static quorum, in the directory `data`."""

    def run(*arguments: str, cluster_id: str = CLUSTER_ID, **changed: str) -> Result:
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.listener.names": "CONTROLLER",
            "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
            "log.dirs": f"{tmp_path}/data",
            **{name.replace("_", "."): value for name, value in changed.items()},
        }
        if not {*STATIC, *DYNAMIC} & set(properties):
            properties |= STATIC
        file = tmp_path / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        arguments = ("format", "--cluster-id", cluster_id, *arguments, str(file))
        return CliRunner().invoke(tidelog, arguments)

    return run


def files(directory: Path) -> list[str]:
    found = (path for path in directory.rglob("*") if path.is_file() and path.name != ".lock")
    return sorted(str(path.relative_to(directory)) for path in found)


def properties(directory: Path) -> MetaProperties:
    return parse_meta_properties("it", (directory / "meta.properties").read_bytes())


def voters(directory: Path) -> dict[int, str]:
    """Of each voter in the checkpoint the directory's id."""
    logged = walk_metadata((directory / CHECKPOINT).read_bytes())
    (record,) = [one.record for one in logged if isinstance(one.record, VotersRecord)]
    return {v.voter_id: format_uuid(v.voter_directory_id) for v in record.voters}


def refused(answer: Result) -> str:
    assert answer.exit_code == 1
    (line,) = answer.output.splitlines()
    return line.removeprefix("Error: ")


def test_a_node_of_a_static_quorum_gets_two_files(run, tmp_path):
    answer = run()
    data = tmp_path / "data"
    line = f"Formatting metadata directory {data} with metadata.version 4.3-IV0.\n"
    assert (answer.exit_code, answer.output) == (0, line)
    assert files(data) == ["bootstrap.checkpoint", "meta.properties"]
    captured = (DISK / "static-controller.bootstrap.checkpoint").read_bytes()
    assert without_times((data / "bootstrap.checkpoint").read_bytes()) == without_times(captured)
    assert properties(data)[:2] == (CLUSTER_ID, 1)
    kinds = [r"#", r"#.* UTC \d{4}", "node.id=1", r"directory.id=\S{22}", "version=1"]
    lines = (data / "meta.properties").read_text().splitlines()
    for kind, found in zip([*kinds, f"cluster.id={CLUSTER_ID}"], lines, strict=True):
        assert re.fullmatch(kind, found), found


def test_a_controller_alone_begins_a_dynamic_quorum(run, tmp_path):
    answer = run("--standalone", **DYNAMIC)
    data = tmp_path / "data"
    assert answer.output.startswith(f"Formatting dynamic metadata voter directory {data} with ")
    assert voters(data) == {1: format_uuid(properties(data).directory_id)}
    captured = (DISK / "standalone.00000000000000000000-0000000000.checkpoint").read_bytes()
    assert len((data / CHECKPOINT).read_bytes()) == len(captured)


def test_initial_controllers_name_each_others_directories(run, tmp_path):
    other = "L3rJBUUegA3Db5QLSqSZiA"
    listed = f"2@h:9094:{other},1@127.0.0.1:9093:{DIRECTORY_ID}"
    assert run("--initial-controllers", listed, **DYNAMIC).exit_code == 0
    data = tmp_path / "data"
    assert properties(data).directory_id == parse_uuid(DIRECTORY_ID)
    assert voters(data) == {1: DIRECTORY_ID, 2: other}


def test_who_is_not_among_the_initial_controllers_observes_them(run, tmp_path):
    listed = f"2@[::1]:9094:{DIRECTORY_ID}"
    answer = run("--initial-controllers", listed, **DYNAMIC)
    assert answer.output.startswith("Formatting dynamic metadata directory ")
    assert voters(tmp_path / "data") == {2: DIRECTORY_ID}
    assert properties(tmp_path / "data").directory_id != parse_uuid(DIRECTORY_ID)


@pytest.mark.parametrize("roles", ["broker", "controller"])
def test_who_joins_later_gets_no_voters(run, tmp_path, roles):
    listeners = {
        "broker": "PLAINTEXT://127.0.0.1:9092",
        "controller": "CONTROLLER://127.0.0.1:9093",
    }
    flags = ["--no-initial-controllers"] if roles == "controller" else []
    answer = run(*flags, process_roles=roles, listeners=listeners[roles], **DYNAMIC)
    assert answer.output.startswith("Formatting metadata directory ")
    assert files(tmp_path / "data") == ["bootstrap.checkpoint", "meta.properties"]


def test_every_directory_gets_an_id_and_only_the_metadatas_gets_voters(run, tmp_path):
    dirs = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b", "metadata.log.dir": f"{tmp_path}/m"}
    answer = run("--standalone", **DYNAMIC, **dirs)
    kinds = [line.split(" directory ")[0] for line in answer.output.splitlines()]
    data, metadata = "Formatting data", "Formatting dynamic metadata voter"
    assert kinds == [data, data, metadata]
    assert len({properties(tmp_path / name).directory_id for name in "abm"}) == 3
    assert files(tmp_path / "a") == ["bootstrap.checkpoint", "meta.properties"]


def test_what_is_formatted_is_left_alone(run, tmp_path):
    run()
    before = properties(tmp_path / "data")
    assert refused(run()) == (
        f"Log directory {tmp_path}/data is already formatted. Use --ignore-formatted to ignore this"
        " directory and format the others."
    )
    answer = run("--ignore-formatted")
    assert answer.output == "All of the log directories are already formatted.\n"
    more = {"log.dirs": f"{tmp_path}/data,{tmp_path}/more"}
    answer = run("--ignore-formatted", **more)
    assert answer.output.startswith(f"Formatting data directory {tmp_path}/more with ")
    assert properties(tmp_path / "data") == before
    assert properties(tmp_path / "more").directory_id != before.directory_id


def test_a_directory_of_another_cluster_or_node_is_refused(run, tmp_path):
    run()
    assert "belongs to cluster" in refused(run("--ignore-formatted", cluster_id=OTHER_ID))
    other = {"node.id": "2", "listeners": "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9094"}
    assert "belongs to node 1, not to node 2" in refused(run("--ignore-formatted", **other))


def test_nothing_is_formatted_where_one_directory_cannot_be(run, tmp_path):
    (tmp_path / "file").write_text("")
    line = refused(run(log_dirs=f"{tmp_path}/data,{tmp_path}/file"))
    assert line.startswith(f"{tmp_path}/file: ")
    assert files(tmp_path / "data") == []


def test_a_directory_in_use_is_refused(run, tmp_path):
    disk = RealDisk()
    disk.make_directory(f"{tmp_path}/data")
    disk.lock(f"{tmp_path}/data/.lock")
    assert "is in use by another process" in refused(run())
    disk.unlock(f"{tmp_path}/data/.lock")
    assert run().exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "you must specify one of the following: --standalone, --initial-controllers, or"),
        (["--initial-controllers", "1@h:9093"], "'1@h:9093': want ID@HOST:PORT:DIRECTORY"),
        (["--initial-controllers", "1@h:9093:x"], "'1@h:9093:x': 'x' is not a uuid"),
        (["--initial-controllers", f"1@h:99999:{DIRECTORY_ID}"], "want ID@HOST:PORT:DIRECTORY"),
        (["--initial-controllers", ","], "there are no initial controllers"),
        (
            ["--initial-controllers", f"1@h:1:{DIRECTORY_ID},1@h:2:{DIRECTORY_ID}"],
            "node 1 is twice among the initial controllers",
        ),
    ],
)
def test_a_dynamic_quorum_must_begin_somehow(run, tmp_path, arguments, said):
    assert said in refused(run(*arguments, **DYNAMIC))
    assert not (tmp_path / "data").exists()


def test_flags_that_contradict_the_configuration_are_refused(run):
    assert "You cannot specify controller.quorum.voters" in refused(run("--standalone"))
    broker = {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092", **DYNAMIC}
    assert (
        refused(run("--standalone", **broker)) == "You can only use --standalone on a controller."
    )
    both = run("--standalone", "--no-initial-controllers", **DYNAMIC)
    assert (both.exit_code, "exclude each other" in both.output) == (2, True)


def test_without_an_id_or_a_file_the_command_says_where_to_get_one(run):
    answer = CliRunner().invoke(tidelog, ["format"])
    assert answer.exit_code == 2
    assert "--random-uuid prints a new ID" in answer.output
    printed = CliRunner().invoke(tidelog, ["format", "--random-uuid"]).output
    parse_uuid(printed.removesuffix("\n"))
