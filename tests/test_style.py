"""The style as a test: a rule takes the sources and yields complaints, and is fed a bad sample."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tidelog.cli.main import COMMANDS
from tidelog.cli.pipeline import PIPELINES
from tidelog.wire.api import APIS, DATA_MODULES

ROOT = Path(__file__).parent.parent
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
SHELLS = ("tidelog.server", "tidelog.client", "tidelog.console", "tidelog.cli")
ABOVE_THE_NODE = frozenset(
    {"cli", "client", "console", "disk", "server", "sim", "spark", "testing"}
)
FORBIDDEN_WORDS = frozenset({"Manager", "Helper", "Util", "Utils", "Impl", "Info", "Base"})
KAFKA_NAMES = frozenset({"CredentialInfo", "ReplicaInfo", "TopicInfo"})
"""Structs that Kafka's message definitions name so; messages keep the names verbatim."""

USED_BY_TESTS = {
    "tidelog.sim.shell": "tests drive nodes by it; a command will too",
}
"""Modules that ship before what uses them does, with the reason."""

TEXT_SUFFIXES = frozenset(
    {"", ".go", ".h", ".java", ".json", ".md", ".mod", ".py", ".pxd", ".pxi", ".pyi", ".pyx"}
    | {".properties", ".sh", ".toml", ".txt", ".xml", ".yaml", ".yml"}
)


class Source(NamedTuple):
    """One file: its path from the project's root, and its text."""

    path: str
    text: str

    @property
    def module(self) -> str:
        """The dotted name by which it is imported."""
        parts = Path(self.path).with_suffix("").parts[1:]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def tree(self) -> ast.Module:
        return parsed(self.text)


@cache
def parsed(text: str) -> ast.Module:
    """Each rule looks at the same few hundred files."""
    return ast.parse(text)


def tracked() -> list[Source]:
    """Every text file that is, or is about to be, in the repository."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = sorted(set(listing.stdout.splitlines()))
    return [
        Source(path, (ROOT / path).read_text(encoding="utf-8"))
        for path in paths
        if (ROOT / path).is_file() and Path(path).suffix in TEXT_SUFFIXES
    ]


def code(sources: Iterable[Source], *suffixes: str) -> Iterator[Source]:
    """What ships: the files of the package."""
    return (s for s in sources if s.path.startswith("src/") and s.path.endswith(suffixes))


def long_modules(sources: Iterable[Source]) -> Iterator[str]:
    for source in code(sources, ".py", ".pyx", ".pxi"):
        lines = len(source.text.splitlines())
        if lines > MODULE_LINES_MAX:
            yield f"{source.path} has {lines} lines"


def long_functions(sources: Iterable[Source]) -> Iterator[str]:
    for source in code(sources, ".py"):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                lines = node.end_lineno - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    yield f"{source.path}:{node.lineno} {node.name} has {lines} lines"


def long_compiled_functions(sources: Iterable[Source]) -> Iterator[str]:
    """Cython is not Python's grammar: a function ends where the next line of its indent begins."""
    head = re.compile(r"( *)(?:cdef|cpdef|def)\b(?!.*\bextern\b).*\(")
    for source in code(sources, ".pyx", ".pxi"):
        start, name, indent, last = 0, "", -1, 0
        for number, line in enumerate([*source.text.splitlines(), "end"], 1):
            if not line.strip():
                continue
            depth = len(line) - len(line.lstrip())
            closes = line.lstrip().startswith((")", "]", "}"))
            if indent >= 0 and depth <= indent and not closes:
                if last - start + 1 > FUNCTION_LINES_MAX:
                    yield f"{source.path}:{start} {name} has {last - start + 1} lines"
                indent = -1
            found = head.match(line)
            if found and indent < 0:
                start, name, indent = number, line.strip(), len(found[1])
            last = number


def async_below_the_shells(sources: Iterable[Source]) -> Iterator[str]:
    kinds = ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith
    for source in code(sources, ".py"):
        if any(f"{source.module}.".startswith(f"{shell}.") for shell in SHELLS):
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, kinds):
                yield f"{source.path}:{node.lineno} {type(node).__name__}"


def imports(source: Source) -> Iterator[str]:
    """Every name that this module may import: `from a import b` may mean a module a.b."""
    package = source.module.split(".")
    if not source.path.endswith("__init__.py"):
        package.pop()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def entry_points() -> set[str]:
    """What is reached from outside, or by name through a lazy table."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    scripts = {target.split(":")[0] for target in project["scripts"].values()}
    commands = {f"tidelog.cli.{name.replace('-', '_')}" for name in COMMANDS}
    commands |= {f"tidelog.cli.pipeline_{name}" for name in PIPELINES}
    messages = {api.module for api in APIS.values()}
    plugins = set(project["entry-points"]["pytest11"].values())
    found_by_name = {"tidelog", "pyspark_tidelog", "tidelog.spark.lag", "tidelog.testing.nursery"}
    found_by_name |= plugins
    return found_by_name | scripts | commands | messages | set(DATA_MODULES) | set(USED_BY_TESTS)


def dead_modules(sources: Iterable[Source], entries: set[str]) -> Iterator[str]:
    """Modules that nothing in the package imports. A package lives if a module of it does."""
    shipped = list(code(sources, ".py"))
    used = set(entries)
    for source in shipped:
        used.update(name for name in imports(source) if name != source.module)
    for name in list(used):
        parts = name.split(".")
        used.update(".".join(parts[:end]) for end in range(1, len(parts)))
    yield from (f"{s.path} is imported by nothing" for s in shipped if s.module not in used)


def forbidden_names(sources: Iterable[Source]) -> Iterator[str]:
    for source in code(sources, ".py"):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                if source.module.startswith("tidelog.wire.messages.") and node.name in KAFKA_NAMES:
                    continue
                words = set(re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*", node.name))
                for word in sorted(words & FORBIDDEN_WORDS):
                    yield f"{source.path}:{node.lineno} {node.name}: {word} says nothing"


def matches(sources: Iterable[Source], pattern: str) -> Iterator[str]:
    compiled = re.compile(pattern)
    for source in sources:
        for number, line in enumerate(source.text.splitlines(), 1):
            if compiled.search(line):
                yield f"{source.path}:{number} {line.strip()[:100]}"


def left_for_later(sources: Iterable[Source]) -> Iterator[str]:
    return matches(sources, r"\b(?:TO[D]O|FIX[M]E|XX[X]|HAC[K])\b")


def machine_paths(sources: Iterable[Source]) -> Iterator[str]:
    return matches(sources, r"(?<![\w.])/(?:home|root|work|Users|opt)/\w")


def registry_hosts(sources: Iterable[Source]) -> Iterator[str]:
    """Where packages come from is each machine's own setting."""
    hosts = r"pypi\.org|pythonhosted\.org|maven\.org|repo\.maven\.|proxy\.golang\.|npmjs\.org"
    return matches(sources, hosts)


def real_time_in_tests(sources: Iterable[Source]) -> Iterator[str]:
    """But in tests/chaos: trouble has to last."""
    tests = (s for s in sources if s.path.startswith("tests/"))
    return matches((s for s in tests if not s.path.startswith("tests/chaos/")), r"\btime\.sleep\(")


RULES = [
    (long_modules, Source("src/tidelog/a.py", "x = 1\n" * 401)),
    (long_modules, Source("src/tidelog/a.pyx", "x = 1\n" * 401)),
    (long_functions, Source("src/tidelog/a.py", "def f():\n" + "    x = 1\n" * 50)),
    (
        long_compiled_functions,
        Source("src/tidelog/a.pyx", "cdef int f(int x):\n" + "    x = 1\n" * 50 + "\ny = 1\n"),
    ),
    (
        long_compiled_functions,
        Source("src/tidelog/a.pyx", "class A:\n    def f(x):\n" + "        x = 1\n" * 50),
    ),
    (async_below_the_shells, Source("src/tidelog/wire/a.py", "async def f(): ...")),
    (async_below_the_shells, Source("src/tidelog/clients.py", "async def f(): ...")),
    (forbidden_names, Source("src/tidelog/a.py", "class OffsetManager: ...")),
    (forbidden_names, Source("src/tidelog/a.py", "class BaseLog: ...")),
    (forbidden_names, Source("src/tidelog/wire/a.py", "class TopicInfo: ...")),
    (left_for_later, Source("Makefile", "# TO" + "DO: later")),
    (machine_paths, Source("docs/a.md", "see /ho" + "me/me/tidelog")),
    (registry_hosts, Source("requirements.txt", "--index-url https://py" + "pi.org/simple")),
    (real_time_in_tests, Source("tests/test_a.py", "time.sle" + "ep(1)")),
]


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    found = tracked()
    assert any(s.path == "src/tidelog/cli/main.py" for s in found)
    return found


@pytest.mark.parametrize("rule", dict.fromkeys(rule for rule, _ in RULES))
def test_the_project_keeps_the_rule(rule, sources):
    assert list(rule(sources)) == []


@pytest.mark.parametrize(("rule", "bad"), RULES)
def test_the_rule_finds_a_bad_sample(rule, bad):
    assert len(list(rule([bad]))) == 1


def test_the_budgets_include_their_last_line():
    at_the_limit = "def f():\n" + "    x = 1\n" * 49
    assert not list(long_functions([Source("src/tidelog/a.py", at_the_limit)]))
    assert not list(long_compiled_functions([Source("src/tidelog/a.pyx", at_the_limit)]))
    assert not list(long_modules([Source("src/tidelog/a.py", "x = 1\n" * 400)]))


def test_a_shell_may_await():
    shell = Source("src/tidelog/server/a.py", "async def f(): ...")
    assert not list(async_below_the_shells([shell]))


def test_no_module_is_dead(sources):
    assert list(dead_modules(sources, entry_points())) == []


def test_a_dead_module_is_found():
    used = Source("src/tidelog/a.py", "from . import b")
    dead = Source("src/tidelog/b.py", "from tidelog import b")
    nested = Source("src/tidelog/c/__init__.py", "from .d import e")
    inner = Source("src/tidelog/c/d.py", "e = 1")
    root = {"tidelog"}
    assert list(dead_modules([used, dead], root)) == ["src/tidelog/a.py is imported by nothing"]
    assert list(dead_modules([dead], root)) == ["src/tidelog/b.py is imported by nothing"]
    assert not list(dead_modules([nested, inner], root))
    stray = Source("src/tidelog/wire/messages/stray.py", "")
    assert list(dead_modules([stray], entry_points())) == [
        "src/tidelog/wire/messages/stray.py is imported by nothing"
    ]


def unguarded(top: set[str], contracts: list[dict[str, Any]]) -> set[str]:
    """Modules that may import a clock although they are neither a shell nor above one."""
    (contract,) = (c for c in contracts if "random" in c.get("forbidden_modules", ()))
    return {f"tidelog.{name}" for name in top - ABOVE_THE_NODE} - set(contract["source_modules"])


def test_everything_below_the_node_is_kept_from_the_clock(sources):
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    modules = {tuple(source.module.split(".")) for source in code(sources, ".py")}
    top = {parts[1] for parts in modules if len(parts) > 1}
    assert unguarded(top, linter["contracts"]) == set()
    assert unguarded({"cli", "newcomer"}, linter["contracts"]) == {"tidelog.newcomer"}


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    environment = {"PYTHONPATH": str(folder / "src")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


BAD_IMPORTS = {
    "wire/declare.py": ("time", "tidelog.env"),
    "errors.py": ("tidelog.wire.api",),
    "types.py": ("tidelog.errors",),
    "log/index.py": ("random", "tidelog.metadata.image"),
    "config/valid.py": ("tidelog.metadata.image",),
    "metadata/image.py": ("tidelog.log.log",),
    "controller/decision.py": ("tidelog.log.log", "tidelog.replica.partition"),
    "events.py": ("tidelog.metadata.image",),
    "runtime/schedule.py": ("tidelog.disk", "threading"),
    "node.py": ("tidelog.server.run",),
    "sim/disk.py": ("tidelog.server.run", "time"),
    "client/errors.py": ("tidelog.log.log", "tidelog.node"),
    "server/outbox.py": ("tidelog.client",),
    "spark/schema.py": ("tidelog.node", "tidelog.server.run"),
}
"""More than the architecture allows, by module."""


def test_the_import_contracts_hold_the_architecture(tmp_path):
    """On a copy of the package, broken in every way at once."""
    kept = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=kept)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for path, imported in BAD_IMPORTS.items():
        with (tmp_path / "src/tidelog" / path).open("a") as file:
            file.writelines(f"\nimport {name}\n" for name in imported)
    (tmp_path / "src/tidelog/newcomer.py").touch()
    answer = lint_imports(tmp_path)
    assert answer.returncode == 1, answer.stdout + answer.stderr
    for path, imported in BAD_IMPORTS.items():
        importer = f"tidelog.{path.removesuffix('.py').replace('/', '.')}"
        for name in imported:
            assert f"{importer} -> {name} " in answer.stdout
    assert "- tidelog.newcomer" in answer.stdout, "a package needs a place in the contracts"
