"""The compiled module under gcc's address sanitizer: no hostile input makes it read astray."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROUNDS = 4000


def libasan() -> str | None:
    """The sanitizer's runtime, which has to be loaded before Python's own code."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    found = subprocess.run([gcc, "-print-file-name=libasan.so"], capture_output=True, text=True)
    path = found.stdout.strip()
    return path if Path(path).is_absolute() and Path(path).exists() else None


def build(source: Path) -> None:
    for name in ("src", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).is_dir():
            ignored = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=source,
        env={**os.environ, "CC": "gcc", "TIDELOG_SANITIZE": "address"},
        check=True,
        capture_output=True,
    )
    assert list((source / "src/tidelog/wire").glob("_records*.so")), "nothing was built"


@pytest.mark.slow
def test_no_read_goes_astray(tmp_path: Path) -> None:
    runtime = libasan()
    if runtime is None:
        # conftest.py makes a skip a failure where CI=true
        pytest.skip("the address sanitizer needs gcc and its libasan")
    build(tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "tests.unit.wire.fuzz_records", str(ROUNDS)],
        cwd=ROOT,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(tmp_path / "src"),
            "PYTHONMALLOC": "malloc",  # else small objects share blocks that hide a bad read
            "LD_PRELOAD": runtime,
            "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter itself frees not all at its end
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    tried, module = run.stdout.split()
    assert int(tried) > ROUNDS
    assert module.startswith(str(tmp_path))
