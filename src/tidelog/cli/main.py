"""The group of commands. A command's module is imported when the command is, one file a command."""

from __future__ import annotations

from importlib import import_module

import click

from tidelog import __version__

COMMANDS = ("up", "start", "topics", "configs", "produce", "consume", "demo")
"""Each is `command` in the module of its name, with `-` as `_`."""


class LazyGroup(click.Group):
    """Knows its commands' names from the first moment and their options when asked for one."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

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
