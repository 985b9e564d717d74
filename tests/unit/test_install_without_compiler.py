"""Without a C compiler the install works, warns once, and passes the tests with the pure twin."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "docs", "setup.py", "pyproject.toml", "README.md", "LICENSE")
USE_RECORDS = (
    *("wire", "log", "broker", "client"),
    *(f"spark/test_{name}.py" for name in ("archive", "arrow", "encode", "scan")),
)
NEEDS_THE_COMPILED_MODULE = (
    "test_the_compiled_module_is_in_use or test_the_twin_can_be_forced_without_a_warning"
)


def copy_tree(target: Path) -> None:
    """Only sources: what was built in place must neither be used nor be touched."""
    ignored = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, target / name)


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    finished = subprocess.run(
        command, cwd=cwd, env=kept | environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-3000:]
    return finished


@pytest.mark.slow
def test_install_without_compiler(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "installed"
    source.mkdir()
    copy_tree(source)
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation")
    run(*pip, "--target", str(target), str(source), cwd=tmp_path, CC="/nonexistent")
    assert not list(target.rglob("*.so"))

    program = (
        "import tidelog.wire.batch_validation, tidelog.wire.batch_reader\n"
        "from tidelog.wire import records\n"
        "print(records.implementation.__name__, records.__file__)"
    )
    shown = run(sys.executable, "-c", program, cwd=tmp_path, PYTHONPATH=str(target))
    name, file = shown.stdout.split()
    assert name == "tidelog.wire.records_twin"
    assert file.startswith(str(target))
    assert shown.stderr.count("RuntimeWarning") == 1, shown.stderr

    # From the copy: its tests, but the installed package. Slow tests are left out, this one too.
    shutil.rmtree(source / "src")
    run(
        *(sys.executable, "-m", "pytest", "-q"),
        *(f"tests/unit/{name}" for name in USE_RECORDS),
        "-m",
        "not slow",
        "-k",
        f"not ({NEEDS_THE_COMPILED_MODULE})",
        "-W",
        "ignore:tidelog runs without:RuntimeWarning",
        cwd=source,
        PYTHONPATH=str(target),
        TIDELOG_QUICK="1",
    )
