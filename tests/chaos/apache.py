"""Apache Kafka in Tidelog's place: the same trouble shows what clients make of any Kafka."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.interop.apache import LOGGED, broker_classes, run_tool
from tests.interop.jvm import TOOL_OPTIONS, classpath
from tidelog.server.forking import with_parent
from tidelog.testing import Cluster


class ApacheCluster(Cluster):
    """Its nodes are Apache Kafka's; ports, proxy and all that is asked of them are the same."""

    def __init__(self, nodes: int, *, configs: Mapping[str, str], data_dir: Path) -> None:
        super().__init__(nodes, configs=configs, data_dir=data_dir)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def close(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        super().close()

    def _launch(self, node: int, properties: Mapping[str, str]) -> int:
        path = self.directory / f"node-{node}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        if not (self.directory / f"node-{node}" / "meta.properties").exists():
            run_tool("kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", str(path))
        options = (*TOOL_OPTIONS, f"-XX:SharedArchiveFile={broker_classes()}", *LOGGED)
        with self.log(node).open("ab") as log:
            self._processes[node] = subprocess.Popen(
                ["java", *options, "-cp", classpath(), "kafka.Kafka", str(path)],
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=with_parent(),
            )
        return self._processes[node].pid

    def _bury(self, node: int) -> None:
        self._processes.pop(node).wait()

    def _ended(self) -> dict[int, int]:
        codes = {node: process.poll() for node, process in self._processes.items()}
        return {node: code for node, code in codes.items() if code is not None}
