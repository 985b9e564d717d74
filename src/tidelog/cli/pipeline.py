"""`tidelog pipeline`: data pipelines that run on Spark."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

PIPELINES = {"archive": "Copy topics into a table, each record exactly once."}
"""What each is for. It is `command` in the module `pipeline_<name>`."""


class LazyPipelines(click.Group):
    """Imports a pipeline when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*PIPELINES, *self.commands]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {name: each.get_short_help_str() for name, each in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl(list({**PIPELINES, **own}.items()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in PIPELINES:
            return self.commands.get(cmd_name)
        command: click.Command = import_module(f"tidelog.cli.pipeline_{cmd_name}").command
        return command


@click.group("pipeline", cls=LazyPipelines)
def command() -> None:
    """Run data pipelines on Spark: in this process, or on a cluster by spark-submit.

    \b
    tidelog pipeline archive --topic orders --to archive/orders
    spark-submit --master spark://host:7077 "$(tidelog pipeline submit-file)" archive ...
    """


@command.command("submit-file")
def submit_file() -> None:
    """Print the path of the file that spark-submit takes."""
    from tidelog.cli import pipeline_submit

    click.echo(Path(pipeline_submit.__file__).resolve())
