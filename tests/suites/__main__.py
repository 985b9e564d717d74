"""`make suites`: a small suite on each version of PySpark that is supported, in an environment of
its own under .cache/suites. All else comes from the environment that runs this.

    python -m tests.suites [VERSION ...]
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

VERSIONS = ("4.1.4", "4.2.1", "4.3.0")
"""The newest of each line."""
ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".cache" / "suites"
SUITE = Path(__file__).with_name("spark_versions.py")
EXPECTED = "TIDELOG_SUITE_PYSPARK"
COMMAND = """\
#!{python}
from tidelog.cli import main

main()
"""


def make_environment(version: str) -> Path:
    """Its interpreter. What is complete has a stamp; what is not is made anew."""
    folder = ENVIRONMENTS / version
    python = folder / "bin" / "python"
    stamp = folder / "complete"
    if stamp.exists():
        return python
    print(f"== making {folder.relative_to(ROOT)}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"pyspark=={version}"], check=True)
    own = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    # Behind its own packages, so that its PySpark is found first.
    shared = sysconfig.get_path("purelib")
    (own / "shared.pth").write_text(f"import site; site.addsitedir({shared!r})\n")
    command = folder / "bin" / "tidelog"
    command.write_text(COMMAND.format(python=python))
    command.chmod(0o755)
    stamp.touch()
    return python


def run(version: str) -> bool:
    """Whether the suite passed."""
    python = make_environment(version)
    print(f"== PySpark {version}", flush=True)
    environment = os.environ | {EXPECTED: version}
    # Sockets that are left to the collector are PySpark's own, in 4.1.
    lenient = [
        "-W",
        "ignore::ResourceWarning",
        "-W",
        "ignore::pytest.PytestUnraisableExceptionWarning",
    ]
    suite = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *lenient, str(SUITE)]
    return subprocess.run(suite, cwd=ROOT, env=environment, check=False).returncode == 0


def main(versions: tuple[str, ...]) -> int:
    failed = [version for version in versions if not run(version)]
    if failed:
        print(f"failed on PySpark {', '.join(failed)}", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or VERSIONS))
