"""`tidelog reassign`: moves partitions to other brokers, as kafka-reassign-partitions does."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import click

from tidelog.cli.connect import Connection, connected, controller_options

ACTIONS = ("generate", "execute", "verify", "cancel", "list")
ONLY_WITH = {
    "additional": ("execute",),
    "throttle": ("execute",),
    "disallow_replication_factor_change": ("execute",),
    "preserve_throttles": ("verify", "cancel"),
    "timeout": ("execute", "cancel"),
}
TIMEOUT_MS_MAX = 2**31 - 1
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class Wanted(NamedTuple):
    """The command line."""

    reassignment_json_file: Path | None
    topics_to_move_json_file: Path | None
    broker_list: str | None
    disable_rack_aware: bool
    additional: bool
    throttle: int | None
    replica_alter_log_dirs_throttle: int | None
    preserve_throttles: bool
    disallow_replication_factor_change: bool
    timeout: int | None
    json: bool


@click.command("reassign")
@controller_options
@click.option("--generate", "action", flag_value="generate", help="Propose where to put topics.")
@click.option("--execute", "action", flag_value="execute", help="Begin to move partitions.")
@click.option("--verify", "action", flag_value="verify", help="Say how far that is.")
@click.option("--cancel", "action", flag_value="cancel", help="Take a move back that is going on.")
@click.option("--list", "action", flag_value="list", help="Show all that is going on.")
@click.option(
    "--reassignment-json-file",
    metavar="FILE",
    type=FILE,
    help='{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}: what'
    " --generate proposes. The first replica is the preferred leader.",
)
@click.option(
    "--topics-to-move-json-file",
    metavar="FILE",
    type=FILE,
    help='With --generate: {"version": 1, "topics": [{"topic": "t"}]}.',
)
@click.option("--broker-list", metavar="1,2,...", help="With --generate: the brokers to use.")
@click.option("--disable-rack-aware", is_flag=True, help="With --generate: ignore racks.")
@click.option(
    "--additional", is_flag=True, help="With --execute: although other moves are going on."
)
@click.option(
    "--throttle",
    metavar="BYTES",
    type=click.IntRange(min=0),
    help="With --execute: how many bytes a second a broker may send, and get, for this. With"
    " --additional it changes that of a move that is going on. --verify takes it away at the end.",
)
@click.option(
    "--replica-alter-log-dirs-throttle",
    metavar="BYTES",
    type=click.IntRange(min=0),
    help="Refused: replicas stay in their log directories.",
)
@click.option(
    "--preserve-throttles",
    is_flag=True,
    help="With --verify and --cancel: do not take throttles away.",
)
@click.option(
    "--disallow-replication-factor-change",
    is_flag=True,
    help="With --execute: refuse partitions that would have more replicas, or fewer.",
)
@click.option(
    "--timeout",
    metavar="MS",
    type=click.IntRange(1, TIMEOUT_MS_MAX),
    help="With --execute and --cancel: how long to wait until it has begun.",
)
@click.option("--json", is_flag=True, help="Print JSON, for scripts.")
def command(connection: Connection, action: str | None, **options: object) -> None:
    """Move partitions to other brokers: propose, begin, look, take back.

    \b
    tidelog reassign --generate --topics-to-move-json-file topics.json --broker-list 1,2,3 \\
        --json > moves.json
    tidelog reassign --execute --reassignment-json-file moves.json
    tidelog reassign --verify --reassignment-json-file moves.json
    """
    wanted = Wanted(**options)  # type: ignore[arg-type]  # click makes them what they are
    if action is None:
        raise click.UsageError("say what to do: " + ", ".join(f"--{name}" for name in ACTIONS))
    _check(action, wanted)
    if connection.are_controllers:
        _check_of_controllers(action, wanted)
    from tidelog.cli import reassigning

    with connected(*connection) as client:
        match action:
            case "generate":
                reassigning.generate(client, wanted)
            case "execute":
                reassigning.execute(client, wanted)
            case "verify":
                reassigning.verify(client, wanted)
            case "cancel":
                reassigning.cancel(client, wanted)
            case _:
                reassigning.show_all(client, wanted)


def _check(action: str, wanted: Wanted) -> None:
    if wanted.replica_alter_log_dirs_throttle is not None:
        raise click.UsageError(
            "--replica-alter-log-dirs-throttle is not supported: replicas stay in their log"
            " directories, so there is nothing to slow down; --throttle is for moves between"
            " brokers"
        )
    for name, actions in ONLY_WITH.items():
        value = getattr(wanted, name)
        if value is not None and value is not False and action not in actions:
            listed = " or ".join(f"--{one}" for one in actions)
            raise click.UsageError(f"--{name.replace('_', '-')} goes with {listed}")
    if action == "generate":
        if wanted.topics_to_move_json_file is None or not wanted.broker_list:
            raise click.UsageError(
                "--generate needs --topics-to-move-json-file FILE and --broker-list 1,2,..."
            )
    elif action != "list" and wanted.reassignment_json_file is None:
        raise click.UsageError(f"--{action} needs --reassignment-json-file FILE")


def _check_of_controllers(action: str, wanted: Wanted) -> None:
    if action not in ("cancel", "list"):
        raise click.UsageError("--bootstrap-controller goes with --cancel or --list")
    if action == "cancel" and not wanted.preserve_throttles:
        raise click.UsageError(
            "--cancel by way of a controller needs --preserve-throttles: brokers take throttles"
            " away, with --bootstrap-server"
        )
