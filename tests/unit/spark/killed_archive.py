"""Archives a topic in many small batches until all is there; run by test_archive_kill as a program
of its own, which can be killed.

    python -m tests.unit.spark.killed_archive 127.0.0.1:9092 topic folder parquet
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.unit.spark.test_archive import archive, options
from tests.unit.spark.topics import Topics

OFFSETS_PER_BATCH, OFFSETS_PER_FILE = 30, 5


def main(bootstrap_servers: str, topic: str, folder: str, kind: str) -> None:
    pieces = {"offsets_per_batch": OFFSETS_PER_BATCH, "offsets_per_file": OFFSETS_PER_FILE}
    archive(options(Topics(bootstrap_servers), topic, **pieces), Path(folder), kind)


if __name__ == "__main__":
    main(*sys.argv[1:])
