"""Source, sink and scan on a cluster of separate worker processes."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.interop.tidelog_node import TidelogNode
from tests.spark.jvm import need_java
from tests.unit.spark.topics import Topics
from tests.unit.spark.written import read_all

SECONDS_MAX = 600
PARTITIONS, RECORDS = 4, 500


def test_executors_read_scan_and_write_by_themselves(tmp_path):
    need_java()
    with TidelogNode() as node:
        topics = Topics(node.bootstrap_servers)
        for topic in ("tides", "copy"):
            topics.create(topic, PARTITIONS)
        for partition in range(PARTITIONS):
            topics.fill("tides", range(RECORDS), partition)
        topics.client.close()
        command = [sys.executable, "-m", "tests.spark.cluster_copy", node.bootstrap_servers]
        finished = subprocess.run(
            [*command, str(node.log_dir), "tides", "copy", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr[-4000:]
        copied = read_all(node.bootstrap_servers, "copy", PARTITIONS)
        assert copied == read_all(node.bootstrap_servers, "tides", PARTITIONS)
    rows = PARTITIONS * RECORDS
    assert json.loads(finished.stdout.splitlines()[-1]) == {
        "batch": rows,
        "executors": 2,
        "scan": rows,
        "batches": rows // 500,
    }
