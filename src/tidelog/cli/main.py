"""The group of commands. A command's module is imported when the command is, one file a command."""

from __future__ import annotations

from importlib import import_module

import click

from tidelog import __version__

COMMANDS = {
    "up": "Start a local cluster, and run it until Ctrl-C.",
    "start": "Start one node as a server.properties configures it.",
    "format": "Format the directories of a node of a larger cluster.",
    "topics": "Create, delete, describe, list or extend topics.",
    "leader-election": "Elect leaders of partitions.",
    "reassign": "Move partitions to other brokers.",
    "quorum": "Show the quorum of controllers, add or remove one.",
    "cluster": "Show the cluster's id and brokers, forget a broker.",
    "configs": "Show or change configs of topics, brokers and groups.",
    "produce": "Write each line of standard input as a record.",
    "consume": "Print the records of a topic until Ctrl-C.",
    "pipeline": "Run data pipelines on Spark: archive topics into tables.",
    "dump-log": "Show what the files of a log say.",
    "repair-log": "Check a partition's files, and cut them where they are damaged.",
    "simulate": "Run clusters in virtual time, and break them on purpose.",
    "demo": "Start a node, write and read records, clean up.",
}
"""What each is for. It is `command` in the module of its name, with `-` as `_`; the list of
commands imports none of them."""


class LazyGroup(click.Group):
    """Knows its commands' names from the first moment and their options when asked for one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"tidelog.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def tidelog() -> None:
    """A partitioned, replicated commit log that speaks Kafka's protocol."""
