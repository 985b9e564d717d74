"""The documents are true: commands run, links resolve, tables agree with the code and Apache."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tidelog.broker.router import SERVED
from tidelog.cli.demo_node import DemoNode
from tidelog.quorum_controller.router import CONTROLLER_SERVED
from tidelog.testing.ports import free_ports
from tidelog.wire.api import APIS, Listener, request_class, response_class

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
AGAINST_A_NODE = "<!-- run against a node -->"
DOCUMENTED_PORT = "9092"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
REMOVED_IN_KAFKA_4 = range(4, 8)


class Block(NamedTuple):
    """A fenced block: where it is, what it is in, its text, and the line above it."""

    place: str
    language: str
    text: str
    line_above: str


def blocks_of(name: str, text: str) -> Iterator[Block]:
    for found in FENCE.finditer(text):
        before = text[: found.start()].splitlines()
        above = next(iter(before[-1:]), "")
        yield Block(f"{name}:{len(before) + 1}", found[1], found[2], above)


def blocks(language: str) -> list[Block]:
    return [
        block
        for path in DOCUMENTS
        for block in blocks_of(str(path.relative_to(ROOT)), path.read_text())
        if block.language == language
    ]


def commands_of(block: Block) -> list[tuple[str, str]]:
    """Each `$ command` of a console block with the output that the block shows below it."""
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"{block.place} shows output before any command"
    pairs = (part.partition("\n") for part in parts[1:])
    return [(command.partition(" #")[0].strip(), output) for command, _, output in pairs]


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def check_command(command: str, output: str, folder: Path) -> None:
    """`make x` must be a target (running it would run these tests); anything else is run."""
    words = shlex.split(command)
    if words[0] == "make":
        unknown = {word for word in words[1:] if "=" not in word} - make_targets()
        assert not unknown, f"no such make target: {unknown}"
        return
    name = words[0].removeprefix(".venv/bin/")
    program = Path(sys.executable).with_name(name)
    assert name in ("tidelog", "python"), f"a document may show make, tidelog, python: {command}"
    if words[1] == "up":
        check_up([program, *words[1:]], output, folder)
        return
    answer = subprocess.run(
        [program, *words[1:]], cwd=folder, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    assert not output.strip() or answer.stdout.strip() == output.strip()


def check_up(command: list[str | Path], output: str, folder: Path) -> None:
    """`tidelog up` runs until it is told to end; its port may be somebody's on this machine."""
    port = str(free_ports(2)[0])
    with subprocess.Popen(
        [*command, "--port", port], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
    assert line == output.replace(DOCUMENTED_PORT, port)
    assert process.returncode == 0


def broken_links(path: Path, text: str) -> Iterator[str]:
    prose = FENCE.sub("", text)
    for target in LINK.findall(prose):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file) if file else path
        if not there.exists() or (anchor and anchor not in anchors(there.read_text())):
            yield target


def anchors(text: str) -> set[str]:
    """GitHub's: lower case, punctuation gone, spaces as hyphens."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def table_of(text: str, first_column: str) -> list[dict[str, str]]:
    """The rows of the Markdown table whose first column has this title."""
    lines = iter(text.splitlines())
    for line in lines:
        titles = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and titles[0] == first_column:
            next(lines)
            rows = []
            for row in lines:
                if not row.startswith("|"):
                    break
                cells = [cell.strip() for cell in row.strip("|").split("|")]
                rows.append(dict(zip(titles, cells, strict=True)))
            return rows
    raise AssertionError(f"no table with the column {first_column}")


def span(versions: tuple[int, int] | None) -> str:
    """How the table writes versions."""
    if versions is None:
        return "–"
    first, last = versions
    return str(first) if first == last else f"{first}-{last}"


def advertised(listener: str) -> dict[int, tuple[int, int]]:
    """What Apache Kafka 4.3.1 answered to ApiVersions on that listener."""
    with (ROOT / "tests/data/frames.jsonl").open() as frames:
        for frame in map(json.loads, frames):
            if (
                frame["id"].startswith(f"12-apiversions-{listener}/")
                and "ApiKeys" in frame["fields"]
            ):
                keys = frame["fields"]["ApiKeys"]
                return {row["ApiKey"]: (row["MinVersion"], row["MaxVersion"]) for row in keys}
    raise AssertionError(f"no ApiVersions response of a {listener} among the captured frames")


def served(key: int) -> str:
    """On which listeners a node answers it, as the table writes it."""
    words = {(True, True): "both", (True, False): "broker", (False, True): "controller"}
    return words.get((key in SERVED, key in CONTROLLER_SERVED), "no")


@pytest.mark.parametrize("block", blocks("console"), ids=lambda block: block.place)
def test_commands_run(block, tmp_path):
    commands = commands_of(block)
    assert commands
    for command, output in commands:
        check_command(command, output, tmp_path)


def run_python(text: str, folder: Path) -> str:
    """What a program printed."""
    command = [sys.executable, "-W", "error", "-c", text]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.place)
def test_python_runs(block, tmp_path):
    if block.line_above == AGAINST_A_NODE:
        assert f"127.0.0.1:{DOCUMENTED_PORT}" in block.text
        with DemoNode() as node:
            output = run_python(block.text.replace(DOCUMENTED_PORT, str(node.port)), tmp_path)
    else:
        output = run_python(block.text, tmp_path)
    assert output.splitlines() == re.findall(r"^print\(.*\)  # (.*)$", block.text, re.MULTILINE)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_resolve(path):
    assert list(broken_links(path, path.read_text())) == []


def test_the_readme_names_the_two_commands_and_the_gap_list():
    readme = (ROOT / "README.md").read_text()
    for words in ("make demo", "make test", "docs/protocol-support.md", "docs/ARCHITECTURE.md"):
        assert words in readme
    assert len(readme.splitlines()) <= 70, "the README is one screen"


def test_ci_runs_the_readmes_test_command():
    lines = (ROOT / ".ci/run").read_text().splitlines()
    assert os.access(ROOT / ".ci/run", os.X_OK)
    for command in ("make lint", "make test", "make chaos", "make sim", "make interop"):
        assert command in lines
    makefile = (ROOT / "Makefile").read_text()
    assert "--seconds $(or $(SECONDS),180)" in makefile, "chaos for three minutes"
    assert "--seeds $(or $(SEEDS),1-300)" in makefile, "of the simulator 300 seeds"


def test_the_protocol_table_agrees_with_the_registry():
    rows = table_of((ROOT / "docs/protocol-support.md").read_text(), "key")
    assert [int(row["key"]) for row in rows] == list(range(93))
    for row in rows:
        key = int(row["key"])
        if key in REMOVED_IN_KAFKA_4:
            assert key not in APIS
            assert (row["messages"], row["part"]) == ("–", "removed in Kafka 4.0")
            continue
        api = APIS[key]
        flexible = "–" if api.flexible_from is None else f"{api.flexible_from}+"
        assert (row["API"], row["flexible"]) == (api.name, flexible)
        assert row["messages"] == span(api.versions)
        assert row["served"] == served(key)
        assert request_class(key).__name__ == f"{api.name}Request"
        assert response_class(key).__name__ == f"{api.name}Response"


def test_the_protocol_table_agrees_with_apache_kafka():
    rows = table_of((ROOT / "docs/protocol-support.md").read_text(), "key")
    broker, controller = advertised("broker"), advertised("controller")
    assert {int(row["key"]): row["broker"] for row in rows} == {
        key: span(broker.get(key)) for key in range(93)
    }
    assert {int(row["key"]): row["controller"] for row in rows} == {
        key: span(controller.get(key)) for key in range(93)
    }


def test_the_registry_covers_what_apache_kafka_advertises():
    """Produce 0-2 is advertised by Kafka but refused, and so not declared."""
    for name, listener in (("broker", Listener.BROKER), ("controller", Listener.CONTROLLER)):
        for key, (first, last) in advertised(name).items():
            declared = range(APIS[key].versions[0], APIS[key].versions[1] + 1)
            assert listener in APIS[key].listeners
            assert set(range(3 if key == 0 else first, last + 1)) <= set(declared), APIS[key].name


def test_the_architecture_page_says_what_exists():
    rows = table_of((ROOT / "docs/ARCHITECTURE.md").read_text(), "#")
    assert len(rows) > 5
    for row in rows:
        path = row["file"].strip("`")
        assert row["now"] == ("yes" if (ROOT / path).exists() else "later"), path


def test_a_broken_document_is_found(tmp_path):
    text = (
        "```console\n$ make nonsense\n$ tidelog --nonsense\n$ rm -rf x\n```\n"
        "[a](gone.md) [b](#no)\n# B\n[c](#b)\n"
    )
    (block,) = blocks_of("a.md", text)
    page = tmp_path / "a.md"
    page.write_text(text)
    assert list(broken_links(page, text)) == ["gone.md", "#no"]
    commands = commands_of(block)
    assert len(commands) == 3
    for command, output in commands:
        with pytest.raises(AssertionError):
            check_command(command, output, tmp_path)
    with pytest.raises(AssertionError):
        check_command("tidelog --version", "tidelog 99", tmp_path)
