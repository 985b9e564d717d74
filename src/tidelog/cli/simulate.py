"""`tidelog simulate`: whole clusters in virtual time, with faults, one seed or many."""

from __future__ import annotations

import sys

import click


class SeedRange(click.ParamType[range]):
    """`A-B`, both included."""

    name = "A-B"

    def convert(
        self, value: str | range, param: click.Parameter | None, ctx: click.Context | None
    ) -> range:
        if isinstance(value, range):
            return value
        first, dash, last = value.partition("-")
        if not dash or not first.isdecimal() or not last.isdecimal() or int(first) > int(last):
            self.fail(f"{value!r} is no range of seeds; write 1-300 for example", param, ctx)
        return range(int(first), int(last) + 1)


@click.command("simulate")
@click.option("--seed", metavar="N", type=click.IntRange(min=0), help="Run this one seed.")
@click.option("--seeds", metavar="A-B", type=SeedRange(), help="Run all of these, on all cores.")
@click.option("--trace", is_flag=True, help="Print all that happens; for a single seed.")
@click.option(
    "--nodes",
    metavar="N",
    type=click.IntRange(1, 5),
    help="How many nodes the cluster has; unless given, the seed decides: most often 3.",
)
@click.option(
    "--seconds",
    metavar="S",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="How long faults are injected, in virtual time.",
)
def command(
    seed: int | None, seeds: range | None, trace: bool, nodes: int | None, seconds: int
) -> None:
    """Run clusters in virtual time, and break them on purpose.

    A seed decides everything: delays, faults, what clients do. After every step invariants are
    checked, and at the end that nothing is lost that was acknowledged. The same seed does the
    same on every machine. Exits with 1 if something was violated, and says how to see it again.
    """
    from tidelog.cli.simulating import run_many, run_one

    if seed is not None and seeds is not None:
        raise click.UsageError("give --seed or --seeds, not both")
    if seeds is None:
        sys.exit(run_one(1 if seed is None else seed, nodes, seconds, is_traced=trace))
    if trace:
        raise click.UsageError("--trace shows one seed: give it with --seed")
    sys.exit(run_many(seeds, nodes, seconds))
