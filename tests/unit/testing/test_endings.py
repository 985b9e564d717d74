"""However a test ends, and whatever it did wrong: no process and no file is left behind."""

from __future__ import annotations

import os
import re
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidelog.testing import Cluster, ClusterError
from tidelog.testing.processes import NurseryProcess

SECONDS_MAX = 60

PROGRAM = """
import sys
from tidelog.testing import Cluster


def say(cluster):
    nursery = cluster._nursery._process.pid
    print(cluster.directory, nursery, *cluster._process_ids.values(), flush=True)
    sys.stdin.read()


class Starting(Cluster):
    def _wait_until_serving(self, wanted, timeout):
        say(self)


if sys.argv[1] == "starting":
    with Starting(nodes=2):
        pass
with Cluster(nodes=2) as cluster:
    say(cluster)
    raise ValueError("told to")
"""


def wait_until_ended(process_ids: list[int], waits: list[int]) -> None:
    for process_id, wait in zip(process_ids, waits, strict=True):
        ended, _, _ = select.select([wait], [], [], SECONDS_MAX)
        assert ended, f"process {process_id} lives on"
        os.close(wait)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, None])
@pytest.mark.parametrize("when", ["starting", "started"])
def test_nothing_outlives_a_test(when, number):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, when],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    directory, *listed = process.stdout.readline().split()
    process_ids = [int(one) for one in listed]
    assert len(process_ids) == 3
    assert Path(directory).is_dir()
    waits = [os.pidfd_open(one) for one in process_ids]
    if number is signal.SIGKILL:
        process.kill()
    elif number is not None:
        os.killpg(process.pid, number)  # as a terminal does, or a CI's time limit
    process.communicate(timeout=SECONDS_MAX)
    assert process.returncode != 0 or (when, number) == ("starting", None)
    wait_until_ended(process_ids, waits)
    assert not Path(directory).exists()


@pytest.mark.slow
def test_ctrl_c_in_pytest_ends_the_fixture(tmp_path):
    """In a project that knows nothing of ours."""
    (tmp_path / "test_it.py").write_text(
        "import os, pathlib, signal\n"
        "def test_it(tidelog):\n"
        "    ids = list(tidelog._process_ids.values())\n"
        "    pathlib.Path('told').write_text(f'{tidelog.directory} {ids[0]}')\n"
        "    os.killpg(0, signal.SIGINT)\n"
    )
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
        start_new_session=True,
    )
    assert answer.returncode == 2, answer.stdout
    directory, process_id = (tmp_path / "told").read_text().split()
    assert not Path(directory).exists()
    assert not Path(f"/proc/{process_id}").exists()


@pytest.fixture
def alone() -> Iterator[Cluster]:
    with Cluster(nodes=1) as cluster:
        yield cluster


def children(cluster: Cluster) -> list[int]:
    assert cluster._nursery is not None
    return forked_by(cluster._nursery)


def forked_by(nursery: NurseryProcess) -> list[int]:
    process_id = nursery._process.pid
    return [
        int(one)
        for one in Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    ]


@pytest.mark.slow
def test_a_node_that_ended_by_itself_is_down(alone):
    ended = os.pidfd_open(alone._process_ids[1])
    os.kill(alone._process_ids[1], signal.SIGKILL)
    wait_until_ended([alone._process_ids[1]], [ended])
    assert alone.down == (1,)
    with pytest.raises(ClusterError, match="node 1 is down"):
        alone.kill(1)
    alone.start(1)
    assert children(alone) == [alone._process_ids[1]]


@pytest.mark.slow
def test_a_node_that_is_named_twice_is_started_once(alone):
    alone.kill(1)
    alone.start(1, 1)
    assert children(alone) == [alone._process_ids[1]]


@pytest.mark.slow
def test_a_cluster_is_started_once_at_a_time(alone):
    with pytest.raises(ClusterError, match="is started already"):
        alone.__enter__()
    assert alone.controller() == 1
    alone.close()
    alone.close()
    with alone:
        assert alone.controller() == 1


@pytest.mark.slow
def test_a_second_start_knows_nothing_of_isolated_nodes():
    cluster = Cluster(nodes=2)
    with cluster:
        cluster.isolate(1)
    with cluster:
        assert len(cluster._observer()._each) == 2, "both are believed"


def test_a_cluster_that_is_not_started_says_so():
    cluster = Cluster()
    for call in (cluster.log, cluster.tail, cluster.address, cluster.isolate):
        with pytest.raises(ClusterError, match="use it in a with block"):
            call(1)
    with pytest.raises(ClusterError, match="use it in a with block"):
        _ = cluster.directory
    cluster.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"configs": {"node.id": "7"}}, "config node.id: the cluster sets it itself"),
        ({"configs": {"log.dirs": "x"}}, "config log.dirs: the cluster sets it itself"),
        ({"data_dir": "/dev/null/x"}, "Not a directory: '/dev/null/x'"),
    ],
)
def test_what_cannot_be_started_is_said_and_holds_no_ports(given, said):
    cluster = Cluster(nodes=1, **given)
    with pytest.raises(ClusterError, match=said):
        cluster.__enter__()
    assert cluster._ports is None
    assert cluster._nursery is None


def test_a_random_py_where_tests_are_run_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "random.py").write_text("raise ImportError('not the one you want')\n")
    monkeypatch.chdir(tmp_path)
    nursery = NurseryProcess()
    assert nursery.tell("ended") == {}
    nursery.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_paused", [False, True])
def test_no_node_outlives_the_nursery(tmp_path, is_paused):
    with Cluster(nodes=2, data_dir=tmp_path) as cluster:
        process_ids = children(cluster)
        assert len(process_ids) == 3, "the proxy is one"
        waits = [os.pidfd_open(one) for one in process_ids]
        if is_paused:
            cluster.pause(1)
        assert cluster._nursery is not None
        cluster._nursery._process.kill()
        wait_until_ended(process_ids, waits)
        with pytest.raises(ClusterError, match="the process that starts nodes is gone"):
            cluster.kill(1)


@pytest.mark.slow
def test_threads_share_a_cluster():
    """One of them ends and starts nodes, the other looks."""
    outcomes: list[object] = []

    def trouble(cluster: Cluster) -> None:
        for _ in range(3):
            cluster.kill(2)
            outcomes.append(cluster.down)
            cluster.start(2)
            outcomes.append(cluster.down)

    with Cluster(nodes=2) as cluster:
        cluster.create_topic("t", configs={"min.insync.replicas": "1"})
        address = cluster.address(1)
        thread = threading.Thread(target=trouble, args=(cluster,), daemon=True)
        thread.start()
        while thread.is_alive():
            assert cluster.address(1) == address
            assert set(cluster.down) <= {2}
            assert cluster.address(2) != address
        assert outcomes == [(2,), ()] * 3
        cluster.wait_isr("t")
        assert cluster.isr("t") == {1, 2}


@pytest.mark.slow
def test_a_stop_that_takes_long_keeps_no_other_thread_waiting(alone):
    process_id = alone._process_ids[1]
    os.kill(process_id, signal.SIGSTOP)
    thread = threading.Thread(target=alone.stop, args=(1,), daemon=True)
    thread.start()
    while not has_pending(process_id, signal.SIGTERM):
        assert thread.is_alive()
    assert alone.down == ()
    assert thread.is_alive()
    os.kill(process_id, signal.SIGCONT)
    thread.join(SECONDS_MAX)
    assert alone.down == (1,)


@pytest.mark.slow
def test_nodes_that_are_stopped_together_are_all_told_before_one_is_waited_for():
    with Cluster(nodes=2) as cluster:
        process_ids = list(cluster._process_ids.values())
        for process_id in process_ids:
            os.kill(process_id, signal.SIGSTOP)
        thread = threading.Thread(target=cluster.stop, args=(1, 2), daemon=True)
        thread.start()
        while not all(has_pending(one, signal.SIGTERM) for one in process_ids):
            assert thread.is_alive()
        cluster.kill(1, 2)
        thread.join(SECONDS_MAX)
        assert not thread.is_alive()
        assert cluster.down == (1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("end", [Cluster.stop, Cluster.restart])
def test_a_stop_that_is_given_up_leaves_a_node_that_can_be_killed(alone, end):
    os.kill(alone._process_ids[1], signal.SIGSTOP)
    said = f"within 0.2 s of SIGTERM: node 1: {alone.last_line(1)}; use kill(1)"
    with pytest.raises(TimeoutError, match=re.escape(said)):
        end(alone, 1, timeout=0.2)
    assert alone.down == ()
    alone.kill(1)
    assert alone.down == (1,)
    alone.start(1)
    assert alone.controller() == 1


@pytest.mark.slow
def test_a_kill_that_has_no_effect_is_given_up(alone, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(alone, "_signal", lambda node, number: None)
        with pytest.raises(TimeoutError, match=r"within 0\.1 s of SIGKILL: node 1: .*; a process "):
            alone.kill(1, timeout=0.1)
    assert alone.down == ()
    alone.kill(1)
    assert alone.down == (1,)


def test_a_restart_has_one_deadline(monkeypatch):
    now, left = [100.0], []

    class Slow(Cluster):
        def stop(self, *nodes: int, timeout: float = 0) -> None:
            left.append(timeout)
            now[0] += 20

        def start(self, *nodes: int, timeout: float = 0) -> None:
            left.append(timeout)

    cluster = Slow()
    monkeypatch.setattr(Slow, "down", ())
    monkeypatch.setattr("tidelog.testing.cluster.time", SimpleNamespace(monotonic=lambda: now[0]))
    cluster.restart(1, timeout=30)
    assert left == [30, 10]


def test_the_proxy_gets_all_descriptors_that_it_may_have(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        nursery = NurseryProcess()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    nursery.tell("proxy", routes=[], log=str(tmp_path / "log"))
    nursery.tell("network", change="isolate", nodes=[])
    (proxy,) = forked_by(nursery)
    assert resource.prlimit(proxy, resource.RLIMIT_NOFILE) == (hard, hard)
    nursery.close()


def has_pending(process_id: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{process_id}/status").read_text()
    (pending,) = (line for line in status.splitlines() if line.startswith("ShdPnd:"))
    return bool(int(pending.split()[1], 16) >> (number - 1) & 1)


def test_data_of_another_number_of_nodes_is_refused(tmp_path):
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1" / "meta.properties").write_text("version=1\n")
    with pytest.raises(ClusterError, match="holds a cluster of 1 nodes, not 3"):
        Cluster(nodes=3, data_dir=tmp_path).__enter__()


@pytest.mark.parametrize("nodes", ["3", 2.5, 0, 21, None])
def test_a_number_of_nodes_that_is_none(nodes):
    with pytest.raises(ValueError, match="1 to 20 nodes, not "):
        Cluster(nodes=nodes)


def test_an_answer_that_nobody_waited_for_is_not_taken_for_another():
    nursery = NurseryProcess()
    assert nursery._process.stdin is not None
    nursery._process.stdin.write('{"number": 0, "do": "wait", "node": 9}\n')
    assert nursery.tell("ended") == {}
    directory = nursery.tell("make_directory")
    assert Path(directory).is_dir()
    nursery.close()
    assert not Path(directory).exists()
