"""The pytest plugin, and the page about it: its examples are run by pytest as a reader would."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_docs import Block, blocks

RUN_BY_PYTEST = "<!-- run by pytest -->"
SECONDS_MAX = 300
EXAMPLES = [block for block in blocks("python") if block.line_above == RUN_BY_PYTEST]


def run(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The tests in a file, in a project that knows nothing of ours."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )


@pytest.mark.slow
@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.place)
def test_examples_pass(block: Block, tmp_path: Path) -> None:
    answer = run(tmp_path, block.text)
    assert answer.returncode == 0, answer.stdout
    assert " passed" in answer.stdout


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 3


def test_a_test_that_fails_shows_what_its_nodes_said(tmp_path: Path) -> None:
    text = (
        "import pytest\n"
        "@pytest.mark.tidelog_cluster(1, configs={'num.partitions': '4'})\n"
        "def test_it(tidelog_cluster):\n"
        "    assert tidelog_cluster.nodes == ()\n"
    )
    answer = run(tmp_path, text)
    assert answer.returncode == 1
    assert "tidelog_cluster: node 1" in answer.stdout
    assert "tidelog_cluster: node 2" not in answer.stdout
    assert "this broker is in service" in answer.stdout


def test_the_plugin_is_light_and_loads_anywhere() -> None:
    """Every run of pytest imports it, on Windows too, where there is no fcntl."""
    program = (
        "import sys\n"
        "sys.modules['fcntl'] = None\n"
        "import tidelog.testing.plugin\n"
        "assert 'tidelog.client' not in sys.modules\n"
        "sys.platform = 'win32'\n"
        "from tidelog.testing import Cluster, ClusterError\n"
        "try:\n"
        "    Cluster()\n"
        "except ClusterError as error:\n"
        "    print(error)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
    )
    assert answer.stdout == "a cluster needs Linux, and this is win32\n", answer.stderr


def test_what_the_package_does_not_have_is_said() -> None:
    with pytest.raises(ImportError, match="cannot import name 'Clutter'"):
        from tidelog.testing import Clutter  # noqa: F401


def test_fixtures_are_told_by_pytest(tmp_path: Path) -> None:
    told = run(tmp_path, "", "--fixtures").stdout
    assert "tidelog [session scope]" in told
    assert "tidelog_cluster --" in told
