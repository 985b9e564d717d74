"""What the build promises: a skip fails in CI, missing tools are named, old Pythons refused."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import conftest
from tests.interop.tools import Tool, complaints

ROOT = Path(__file__).parent.parent
SKIPPING = """
import pytest

def test_passes(): assert True
@pytest.mark.skip(reason="kcat is missing")
def test_marked(): assert True
def test_in_the_middle(): pytest.skip("kcat is missing")
@pytest.mark.xfail(reason="known", strict=False)
def test_expected_to_fail(): assert False
"""
MODULE_SKIPPING = 'import pytest\npytest.importorskip("no_such_module")\n'
OLD_PYTHON = "#!/bin/sh\ncase $1 in --version) echo Python 3.9.2;; *) exit 1;; esac\n"
BARE_PYTHON = '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\n'


def outcomes(folder: Path, text: str, ci: str, *options: str) -> str:
    """The last line of a pytest run over one module, with the project's conftest beside it."""
    shutil.copy(conftest.__file__, folder / "conftest.py")
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, *options, str(folder)]
    environment = os.environ | {"CI": ci}
    environment.pop("PYTEST_XDIST_WORKER", None)
    answer = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert bool(re.search(r"\d (failed|error)", answer.stdout)) == (answer.returncode in (1, 2))
    return answer.stdout.strip().splitlines()[-1]


@pytest.mark.slow
def test_elsewhere_a_skip_is_a_skip(tmp_path):
    assert outcomes(tmp_path, SKIPPING, "").startswith("1 passed, 2 skipped, 1 xfailed in")


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["-n", "1"]])
def test_in_ci_a_skip_is_a_failure(tmp_path, options):
    assert outcomes(tmp_path, SKIPPING, "true", *options).startswith(
        "2 failed, 1 passed, 1 error in"
    )


@pytest.mark.slow
def test_in_ci_a_skipped_module_is_a_failure(tmp_path):
    assert outcomes(tmp_path, MODULE_SKIPPING, "").startswith("1 skipped in")
    assert outcomes(tmp_path, MODULE_SKIPPING, "true").startswith("1 error in")


def test_a_listed_reason_is_allowed(monkeypatch):
    monkeypatch.setitem(conftest.SKIPS_ALLOWED, "kcat is missing", "for this test")
    assert conftest.refusal("kcat is missing: apt install kcat") is None
    assert "apt install java" in (conftest.refusal("apt install java") or "")


def test_every_missing_tool_is_named_with_its_package(tmp_path):
    old_java = tmp_path / "java"
    old_java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old_java.chmod(0o755)
    tools = (
        Tool(str(old_java), "openjdk-17-jdk-headless", "-version", 17),
        Tool(str(tmp_path / "kcat"), "kcat"),
        Tool("sh", "dash"),
    )
    java, kcat = complaints(tools)
    assert "is version 11, 17 or newer needed: apt install openjdk-17-jdk-headless" in java
    assert kcat.endswith("kcat is missing: apt install kcat")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (OLD_PYTHON, "3.9.2 is too old"),
        (BARE_PYTHON, "apt install python3-venv"),
        (None, "not found: Tidelog needs Python 3.11 or newer"),
    ],
)
def test_make_says_what_python_it_needs(tmp_path, script, words):
    python = tmp_path / "python"
    if script is not None:
        python.write_text(script)
        python.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "setup.py", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    answer = subprocess.run(
        ["make", f"PYTHON={python}", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode != 0
    assert words in answer.stdout
    assert not (tmp_path / ".venv").exists()


def test_requirements_are_exact_and_say_no_host():
    text = (ROOT / "requirements.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for line in lines:
        name, _, version = line.partition("==")
        assert name.replace("-", "").replace("_", "").isalnum(), line
        assert version.replace(".", "").isalnum(), line
