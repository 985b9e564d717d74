"""Apache Kafka's tools for clusters, against three nodes of ours; and our commands say the same."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click
import pytest

from tests.interop.apache import run_tool
from tests.interop.jars import kafka_jar
from tests.interop.jvm import classpath
from tests.interop.suite import eventually, new_topic
from tidelog.cli.leader_election import OTHER_NAMES, exception_name
from tidelog.cli.main import tidelog
from tidelog.errors import ErrorCode
from tidelog.metadata.batches import walk_metadata
from tidelog.testing import Cluster

pytestmark = pytest.mark.interop

CONFIG = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
SCRIPT = str(Path(sys.executable).with_name("tidelog"))
CONFIGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    # Every few kilobytes, so that there are snapshots to look at.
    "metadata.log.max.record.bytes.between.snapshots": "8000",
}
Tool = Callable[..., str]


NO_MOVES = "None of the specified partition moves are active."
CLUSTER_ACTIONS = ("cluster-id", "unregister", "list-endpoints")


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster(nodes=3, configs=CONFIGS) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """With every node in service, whatever a test before did."""
    shared.start(*shared.down)
    return shared


@pytest.fixture
def tool(cluster: Cluster) -> Tool:
    """A tool of Apache's, with its address first."""

    def run(class_name: str, *arguments: str, check: bool = True) -> str:
        server = ("--bootstrap-server", cluster.bootstrap_servers)
        return run_tool(class_name, *server, *arguments, check=check)

    return run


@pytest.fixture
def ours(cluster: Cluster) -> Tool:
    """A command of ours."""

    def run(*arguments: str) -> str:
        finished = ran(*arguments, "--bootstrap-server", cluster.bootstrap_servers)
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    return run


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of ours that may fail."""
    return subprocess.run([SCRIPT, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def moves(tmp_path: Path) -> Callable[..., str]:
    """A file of reassignments: of each partition the replicas."""

    def write(topic: str, *replicas: list[int]) -> str:
        partitions = [
            {"topic": topic, "partition": index, "replicas": listed}
            for index, listed in enumerate(replicas)
        ]
        file = tmp_path / "moves.json"
        file.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return str(file)

    return write


def placed(tool: Tool, topic: str, assignment: str, *more: str) -> None:
    """A new topic with these replicas."""
    tool("TopicCommand", "--create", "--topic", topic, "--replica-assignment", assignment, *more)


def test_topic_command_finds_partitions_in_trouble(
    cluster: Cluster, tool: Tool, ours: Tool
) -> None:
    topic, strict, alone = new_topic(), new_topic(), new_topic()
    down = next(node for node in cluster.nodes if node != cluster.controller())
    placed(tool, topic, "1:2:3,2:3:1,3:1:2")
    placed(tool, strict, "1:2:3", "--config", "min.insync.replicas=3")
    placed(tool, alone, str(down))
    cluster.wait_isr(topic)
    assert tool("TopicCommand", "--describe", "--under-replicated-partitions") == ""
    cluster.kill(down)
    cluster.wait_isr(topic, isr=set(cluster.nodes) - {down})
    in_trouble = {
        "--under-replicated-partitions": {topic: 3, strict: 1, alone: 1},
        "--unavailable-partitions": {alone: 1},
        "--under-min-isr-partitions": {strict: 1, alone: 1},
        "--at-min-isr-partitions": {},
    }
    for flag, expected in in_trouble.items():
        found = tool("TopicCommand", "--describe", flag)
        assert Counter(re.findall(r"Topic: (\S+)", found)) == expected
        # Apache's tool has no order of topics.
        assert sorted(ours("topics", "--describe", flag).splitlines()) == sorted(found.splitlines())
    overrides = ("--describe", "--topics-with-overrides")
    for flag in in_trouble:
        said = f'Option "[{flag[2:]}]" can\'t be used with option "[topics-with-overrides]"'
        assert said in tool("TopicCommand", *overrides, flag, check=False)
        assert ran("topics", *overrides, flag).returncode == 2
    found = tool("TopicCommand", *overrides)
    assert f"Topic: {strict}\t" in found
    assert sorted(ours("topics", *overrides).splitlines()) == sorted(found.splitlines())
    for name in (topic, strict, alone):
        described = tool("TopicCommand", "--describe", "--topic", name)
        assert ours("topics", "--describe", "--topic", name) == described


def test_leader_election_command(cluster: Cluster, tool: Tool, ours: Tool) -> None:
    topic = new_topic()
    placed(tool, topic, "1:2:3,2:3:1,3:1:2")
    cluster.wait_isr(topic)
    moved = next(node for node in cluster.nodes if node != cluster.controller())
    index = moved - 1
    for elect in (
        lambda: tool(
            "LeaderElectionCommand", "--election-type", "preferred", "--topic", topic,
            "--partition", str(index),
        ),
        lambda: ours("leader-election", "--election-type", "preferred", "--topic", topic),
    ):  # fmt: skip
        cluster.kill(moved)
        assert cluster.leader(topic, index) != moved
        cluster.start(moved)
        cluster.wait_isr(topic)
        said = elect()
        line = f"Successfully completed leader election (PREFERRED) for partitions {topic}-{index}"
        assert line in said.splitlines()
        eventually(lambda: cluster.leader(topic, index) == moved)
    everywhere = ("--election-type", "preferred", "--all-topic-partitions")
    tool("LeaderElectionCommand", *everywhere)
    assert tool("LeaderElectionCommand", *everywhere) == ""
    unclean = ("--election-type", "unclean", "--topic", topic, "--partition", "0")
    valid = f"Valid replica already elected for partitions {topic}-0\n"
    assert tool("LeaderElectionCommand", *unclean) == valid
    assert ours("leader-election", *unclean) == valid


def test_an_election_that_fails_says_why_as_apaches_tool_does(
    cluster: Cluster, tool: Tool, tmp_path: Path
) -> None:
    topic, alone = new_topic(), new_topic()
    down = next(node for node in cluster.nodes if node != cluster.controller())
    others = ":".join(str(node) for node in cluster.nodes if node != down)
    placed(tool, topic, f"{down}:{others}")
    placed(tool, alone, str(down))
    cluster.wait_isr(topic)
    cluster.kill(down)
    cluster.wait_isr(topic, isr=set(cluster.nodes) - {down})
    for kind, name, index, error in (
        ("preferred", topic, 9, "UnknownTopicOrPartitionException"),
        ("unclean", new_topic(), 0, "UnknownTopicOrPartitionException"),
        ("preferred", topic, 0, "PreferredLeaderNotAvailableException"),
        ("unclean", alone, 0, "EligibleLeadersNotAvailableException"),
    ):
        wish = ("--election-type", kind, "--topic", name, "--partition", str(index))
        theirs = tool("LeaderElectionCommand", *wish, check=False).splitlines()
        server = ("--bootstrap-server", cluster.bootstrap_servers)
        mine = ran("leader-election", *wish, *server)
        assert f"org.apache.kafka.common.errors.{error}: " in theirs[0]
        assert (mine.returncode, mine.stdout.splitlines()) == (1, theirs[:1])
        assert mine.stderr == f"Error: {theirs[1]}\n"


def test_errors_of_elections_are_named_as_kafkas_exceptions() -> None:
    with zipfile.ZipFile(kafka_jar("kafka-clients")) as jar:
        classes = set(jar.namelist())
    for name in (*OTHER_NAMES, "NOT_CONTROLLER", "INVALID_REQUEST", "UNSUPPORTED_VERSION"):
        assert f"{exception_name(ErrorCode[name]).replace('.', '/')}.class" in classes


def test_partitions_are_reassigned(
    cluster: Cluster, tool: Tool, ours: Tool, moves: Callable[..., str]
) -> None:
    topic = new_topic()
    placed(tool, topic, "1:2,2:3")
    cluster.wait_isr(topic)  # every node has heard of it
    file = ("--reassignment-json-file", moves(topic, [3, 1], [2, 3, 1]))
    started = tool(REASSIGN, "--execute", *file)
    assert f"Successfully started partition reassignments for {topic}-0,{topic}-1" in started
    done = [f"Reassignment of partition {topic}-{index} is completed." for index in (0, 1)]
    eventually(lambda: tool(REASSIGN, "--verify", *file).splitlines()[1:3] == done)
    assert ours("reassign", "--verify", *file).splitlines()[1:3] == done
    cluster.wait_isr(topic, 0, {1, 3})
    cluster.wait_isr(topic, 1, {1, 2, 3})
    assert tool(REASSIGN, "--list") == "No partition reassignments found.\n"
    assert "Clearing broker-level throttles on brokers 1,2,3" in tool(REASSIGN, "--verify", *file)


def test_a_reassignment_that_cannot_end_is_shown_and_taken_back(
    cluster: Cluster, tool: Tool, ours: Tool, moves: Callable[..., str]
) -> None:
    topic = new_topic()
    down = next(node for node in cluster.nodes if node != cluster.controller())
    first, second = sorted(set(cluster.nodes) - {down})
    placed(tool, topic, f"{first}:{second}")
    cluster.wait_isr(topic)  # every node has heard of it
    file = ("--reassignment-json-file", moves(topic, [first, down]))
    cluster.kill(down)
    assert f"partition reassignment for {topic}-0" in ours("reassign", "--execute", *file)
    going_on = f"{topic}-0: replicas: {first},{down},{second}. adding: {down}. removing: {second}."
    assert going_on in tool(REASSIGN, "--list").splitlines()
    assert ours("reassign", "--list") == tool(REASSIGN, "--list")
    verified = tool(REASSIGN, "--verify", *file, "--preserve-throttles")
    assert f"Reassignment of partition {topic}-0 is still in progress." in verified
    assert ours("reassign", "--verify", *file) == verified
    described = tool("TopicCommand", "--describe", "--topic", topic)
    assert f"Adding Replicas: {down}\tRemoving Replicas: {second}" in described
    assert ours("topics", "--describe", "--topic", topic) == described
    lagging = ("--describe", "--topic", topic, "--under-replicated-partitions")
    assert ours("topics", *lagging) == tool("TopicCommand", *lagging) == ""
    wish = ("--cancel", *file, "--preserve-throttles")
    said = []
    for run in (partial(tool, REASSIGN), partial(ours, "reassign")):
        said.append((lines_of(run(*wish)), lines_of(run(*wish))))
        assert tool(REASSIGN, "--list") == "No partition reassignments found.\n"
        cluster.wait_isr(topic, 0, {first, second})
        ours("reassign", "--execute", *file)
    theirs, mine = said
    assert theirs == (
        [f"Successfully cancelled partition reassignment for: {topic}-0", NO_MOVES],
        ["None of the specified partition reassignments are active.", NO_MOVES],
    )
    assert mine == theirs
    ours("reassign", *wish)


def lines_of(cancelled: str) -> list[str]:
    """Apache's tool does not end the line about directories, ours does."""
    return re.sub(f"{re.escape(NO_MOVES)}(?=.)", f"{NO_MOVES}\n", cancelled).splitlines()


def test_a_throttled_reassignment_is_cancelled_with_its_throttle(
    cluster: Cluster, tool: Tool, ours: Tool, moves: Callable[..., str]
) -> None:
    topic = new_topic()
    placed(tool, topic, "1:2")
    cluster.wait_isr(topic)  # every node has heard of it
    server = ("--bootstrap-server", cluster.bootstrap_servers)
    megabytes = "x" * 500_000 + "\n"
    produce = [SCRIPT, "produce", "--topic", topic, *server]
    subprocess.run(produce, input=megabytes * 20, text=True, check=True)
    file = ("--reassignment-json-file", moves(topic, [1, 3]))
    said = []
    for run in (partial(tool, REASSIGN), partial(ours, "reassign")):
        ours("reassign", "--execute", *file, "--throttle", "1000")
        assert f"{topic}-0: " in tool(REASSIGN, "--list")
        said.append(lines_of(run("--cancel", *file)))
        cluster.wait_isr(topic, 0, {1, 2})
        described = tool(CONFIG, "--describe", "--entity-type", "topics", "--entity-name", topic)
        described += tool(CONFIG, "--describe", "--entity-type", "brokers")
        assert "throttled" not in described
    theirs, mine = said
    assert theirs == [
        f"Successfully cancelled partition reassignment for: {topic}-0",
        NO_MOVES,
        "Clearing broker-level throttles on brokers 1,2,3",
        f"Clearing topic-level throttles on topic {topic}",
    ]
    assert mine == theirs


def test_a_throttle_is_set_and_taken_away_as_apaches_tool_does(
    cluster: Cluster, tool: Tool, ours: Tool, moves: Callable[..., str]
) -> None:
    def said_by(run: Tool) -> list[str]:
        topic = new_topic()
        placed(tool, topic, "1:2,2:1")
        cluster.wait_isr(topic)  # every node has heard of it
        file = ("--reassignment-json-file", moves(topic, [1, 3], [2, 1]))
        names = [("topics", topic), *(("brokers", str(node)) for node in sorted(cluster.nodes))]

        def configs() -> str:
            return "".join(
                tool(CONFIG, "--describe", "--entity-type", kind, "--entity-name", name)
                for kind, name in names
            )

        said = [run("--execute", *file, "--throttle", "20000000"), configs()]
        verify = ("--verify", *file)
        done = f"Reassignment of partition {topic}-0 is completed."
        eventually(lambda: done in run(*verify, "--preserve-throttles"))
        said += [run(*verify, "--preserve-throttles"), configs(), run(*verify), configs()]
        # Apache's tells the directories, which a broker of ours would not be asked to go back to.
        said[0] = re.sub(r'"log_dirs":\[[^\]]*\]', '"log_dirs":["any","any"]', said[0])
        return [text.replace(topic, "T") for text in said]

    theirs = said_by(partial(tool, REASSIGN))
    assert said_by(partial(ours, "reassign")) == theirs
    executed, throttled, _, still_throttled, cleared, at_the_end = theirs
    assert "The inter-broker throttle limit was set to 20000000 B/s" in executed
    assert "leader.replication.throttled.replicas=0:1,0:2,1:1,1:2 " in throttled
    assert still_throttled == throttled
    assert "Clearing topic-level throttles on topic T\n" in cleared
    assert "throttled" not in at_the_end


def test_a_proposal_of_apaches_and_of_ours_can_be_executed(
    cluster: Cluster, tool: Tool, ours: Tool, tmp_path: Path
) -> None:
    topic = new_topic()
    placed(tool, topic, "1:2:3,2:3:1,3:1:2,1:2:3")
    cluster.wait_isr(topic)  # every node has heard of it
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    wish = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3")
    proposed = tmp_path / "proposed.json"
    for generate in (lambda: tool(REASSIGN, *wish), lambda: ours("reassign", *wish)):
        said = generate().splitlines()
        assert said[0] == "Current partition replica assignment"
        assert said[3] == "Proposed partition reassignment configuration"
        partitions = json.loads(said[4])["partitions"]
        assert [sorted(one["replicas"]) for one in partitions] == [[1, 2, 3]] * 4
        proposed.write_text(said[4])
        ours("reassign", "--execute", "--reassignment-json-file", str(proposed))
        tool(REASSIGN, "--verify", "--reassignment-json-file", str(proposed))


def test_metadata_quorum_command(cluster: Cluster, tool: Tool, ours: Tool) -> None:
    status = tool("MetadataQuorumCommand", "describe", "--status")
    assert f"LeaderId:               {cluster.controller()}" in status
    assert status.count("CONTROLLER://127.0.0.1:") == 3

    def without_numbers(text: str) -> str:
        return re.sub(r"(HighWatermark|MaxFollowerLag\w*): +\d+", r"\1", text)

    assert without_numbers(ours("quorum", "describe", "--status")) == without_numbers(status)
    table = tool("MetadataQuorumCommand", "describe", "--replication").splitlines()
    theirs = [line.split("\t") for line in table]
    mine = [line.split("\t") for line in ours("quorum", "describe", "--replication").splitlines()]
    assert [row[:2] + row[6:] for row in mine] == [row[:2] + row[6:] for row in theirs]
    assert [cell.strip() for cell in mine[0]] == [cell.strip() for cell in theirs[0]]

    readable = ("describe", "--replication", "--human-readable")

    def since(text: str) -> list[list[str]]:
        """Its cells, but for what moves on between two looks."""
        rows = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines()]
        cells = [[*row[:2], *row[4:]] for row in rows]
        return [[re.sub(r"^\d+ ms ago$", "N ms ago", cell) for cell in row] for row in cells]

    shown = since(tool("MetadataQuorumCommand", *readable))
    assert [row[2:4] for row in shown[2:]] == [["N ms ago"] * 2] * 2
    assert since(ours("quorum", *readable)) == shown


def test_cluster_tool(cluster: Cluster, ours: Tool) -> None:
    server = ("--bootstrap-server", cluster.bootstrap_servers)
    for arguments in (("cluster-id",), ("list-endpoints",)):
        assert ours("cluster", *arguments) == run_tool("ClusterTool", *arguments, *server)
    fenced = ("list-endpoints", "--include-fenced-brokers")
    for unregister in (
        lambda *which: run_tool("ClusterTool", "unregister", *which, *server),
        lambda *which: ours("cluster", "unregister", *which),
    ):
        down = next(node for node in cluster.nodes if node != cluster.controller())
        cluster.kill(down)
        eventually(lambda: " fenced " in run_tool("ClusterTool", *fenced, *server))
        listed = run_tool("ClusterTool", *fenced, *server)
        assert ours("cluster", *fenced) == listed
        assert len(listed.splitlines()) == 4
        assert unregister("--id", str(down)) == f"Broker {down} is no longer registered.\n"
        eventually(lambda: len(ours("cluster", *fenced).splitlines()) == 3)
        cluster.start(down)
        eventually(lambda: len(ours("cluster", "list-endpoints").splitlines()) == 4)
    missing = ("unregister", "--id", "99")
    theirs = run_tool("ClusterTool", *missing, *server, check=False)
    mine = ran("cluster", *missing, *server)
    assert (mine.returncode, mine.stdout) == (1, "")
    error = "Broker ID 99 is not currently registered"
    assert f"BrokerIdNotRegisteredException: {error}\n" in theirs
    assert mine.stderr == f"Error: broker 99: {error}\n"


def test_feature_command(tool: Tool) -> None:
    described = tool("FeatureCommand", "describe")
    assert re.search(r"metadata.version .*FinalizedVersionLevel: 4.3-IV0", described)
    for level, verb in ((0, "downgrade"), (1, "upgrade")):
        said = tool("FeatureCommand", verb, "--feature", f"group.version={level}")
        assert said == f"group.version was {verb}d to {level}.\n"
        eventually(
            lambda level=level: (
                re.search(
                    rf"group.version .*FinalizedVersionLevel: {level}",
                    tool("FeatureCommand", "describe"),
                )
                is not None
            )
        )


def test_feature_command_puts_the_voters_into_the_log(
    cluster: Cluster, tool: Tool, ours: Tool
) -> None:
    assert "kraft.version" in tool("FeatureCommand", "describe")
    said: list[str] = []

    def is_upgraded() -> bool:
        """As soon as every voter has described itself to this leader."""
        upgrade = ("upgrade", "--feature", "kraft.version=1")
        said.append(tool("FeatureCommand", *upgrade, check=False))
        return said[-1] == "kraft.version was upgraded to 1.\n"

    eventually(is_upgraded)
    described = tool("FeatureCommand", "describe")
    assert re.search(r"kraft.version .*FinalizedVersionLevel: 1", described)
    status = tool("MetadataQuorumCommand", "describe", "--status")
    voters = re.search(r"CurrentVoters: +(.*)", status)
    assert voters is not None
    assert len(set(re.findall(r'"directoryId": "(\S{22})"', voters[1]))) == 3
    for node in cluster.nodes:
        cluster.restart(node)
    back = tool("FeatureCommand", "downgrade", "--feature", "kraft.version=0", check=False)
    assert "can only be raised" in back


CONTROL_RECORDS = frozenset(
    {
        "LeaderChangeMessage",
        "SnapshotHeaderRecord",
        "SnapshotFooterRecord",
        "KRaftVersionRecord",
        "VotersRecord",
    }
)


def test_apache_reads_our_metadata_logs_and_snapshots(cluster: Cluster, ours: Tool) -> None:
    """Every record of all that the tests before this one did, on every node. It comes last: the
    cluster is not needed any more."""
    for _ in range(60):  # enough for a snapshot
        ours("topics", "--create", "--topic", new_topic(), "--partitions", "3")
    folders = [cluster.directory / f"node-{node}" / "__cluster_metadata-0" for node in (1, 2, 3)]
    eventually(lambda: all(list(folder.glob("*.checkpoint")) for folder in folders))
    for node in cluster.nodes:
        cluster.kill(node)
    for folder in folders:
        for path in sorted([*folder.glob("*.log"), *folder.glob("*.checkpoint")]):
            dumped = run_tool("DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path))
            assert not re.search("nreadable|Could not|Unknown|unknown", dumped), path
            named = [type(one.record).__name__ for one in walk_metadata(path.read_bytes())]
            expected = [name for name in named if name not in CONTROL_RECORDS]
            types = re.findall(r'payload: {"type":"(\w+)"', dumped)
            assert [name.replace("_", "") for name in types] == [name.upper() for name in expected]
            assert len(types) > 10


@pytest.mark.parametrize(
    ("tool_name", "arguments", "command"),
    [
        ("TopicCommand", (), ("topics",)),
        ("LeaderElectionCommand", (), ("leader-election",)),
        ("reassign.ReassignPartitionsCommand", (), ("reassign",)),
        *(
            ("MetadataQuorumCommand", ("--bootstrap-server", "h:1", name), ("quorum", name))
            for name in ("describe", "add-controller", "remove-controller")
        ),
        *(("ClusterTool", (name,), ("cluster", name)) for name in CLUSTER_ACTIONS),
    ],
)
def test_a_command_has_every_option_of_kafkas(tool_name, arguments, command):
    # By a process of its own: one that is asked for help may end its JVM.
    java = ["java", "-cp", classpath(), f"org.apache.kafka.tools.{tool_name}", *arguments, "--help"]
    helped = subprocess.run(java, capture_output=True, text=True, check=False)
    theirs = options(helped.stdout + helped.stderr) - {"--help", "--version"}
    assert len(theirs) > 1
    assert theirs <= taken(*command)


def taken(*path: str) -> set[str]:
    """The options of a command of ours, with those that its help does not show."""
    command: click.Command = tidelog
    context = click.Context(command, **command.context_settings)
    for name in path:
        assert isinstance(command, click.Group)
        found = command.get_command(context, name)
        assert found is not None
        command, context = found, click.Context(found, parent=context)
    return {name for parameter in command.get_params(context) for name in parameter.opts}


def options(helped: str) -> set[str]:
    """Those that a help explains, each at the beginning of a line."""
    found: set[str] = set()
    for line in helped.splitlines():
        if re.match(" {0,2}-", line):
            names, *_ = re.split(r"\s{2,}", line.strip())
            found.update(re.findall(r"(?<!\S)--?[a-zA-Z][\w.-]*", names))
    return found
