"""Commands with subcommands: Kafka's tools take the address before them, ours behind as well."""

from __future__ import annotations

from collections.abc import Sequence

import click

BEFORE = (
    "--bootstrap-server",
    "--bootstrap-servers",
    "--bootstrap-controller",
    "--command-config",
    "--command-property",
)


class ConnectedGroup(click.Group):
    """`tool --bootstrap-server X sub` is `tool sub --bootstrap-server X`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        before, rest = split(args)
        return super().parse_args(ctx, [*rest[:1], *before, *rest[1:]])


def split(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of the connection that stand first, and the rest."""
    end = 0
    while end < len(args) and args[end].partition("=")[0] in BEFORE:
        end += 1 if "=" in args[end] else 2
    return list(args[:end]), list(args[end:])
