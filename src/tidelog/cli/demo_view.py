"""What `tidelog demo` shows: moving on a terminal, lines where output goes to a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

SHOWN_EVERY_SECONDS = 0.05
PLAIN_STEPS = 4
"""Lines of progress for each thing done, where there is no terminal."""

HEADINGS = ("partition", "log start offset", "high watermark", "log end offset", "consumed up to")

Row = tuple[str, int, int, int, int]
"""Of one partition, what the headings say."""
Ask = Callable[[], list[Row]]


class View:
    """The screen of one demo."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def done(self, text: str) -> None:
        self.console.print(Text.assemble(("✓ ", "green"), text))

    def skipped(self, text: str) -> None:
        self.console.print(Text.assemble(("– ", "yellow"), text))

    @contextmanager
    def busy(self, text: str) -> Iterator[Callable[[str], None]]:
        """Something takes seconds; what is yielded says how far it is. Only a terminal shows it."""
        with self.console.status(text) as status:
            yield status.update

    def follow(self, verb: str, progress: Iterator[int], count: int, ask: Ask) -> float:
        """Show how far it is and where the offsets are until it is done; the seconds it took."""
        began = time.perf_counter()
        if self.console.is_terminal:
            self._follow_live(verb, progress, count, ask, began)
        else:
            self._follow_plain(verb, progress, count, ask)
        return time.perf_counter() - began

    def _follow_live(
        self, verb: str, progress: Iterator[int], count: int, ask: Ask, began: float
    ) -> None:
        shown = began
        with Live(console=self.console, auto_refresh=False) as live:
            live.update(self._frame(verb, 0, count, 0, ask()), refresh=True)
            done = 0
            for done in progress:
                now = time.perf_counter()
                if now - shown >= SHOWN_EVERY_SECONDS:
                    shown = now
                    rate = done / (now - began)
                    live.update(self._frame(verb, done, count, rate, ask()), refresh=True)
            rate = done / (time.perf_counter() - began)
            live.update(self._frame(verb, done, count, rate, ask()), refresh=True)

    def _frame(
        self, verb: str, done: int, count: int, rate: float, rows: list[Row]
    ) -> RenderableType:
        bar = Table.grid(padding=(0, 2))
        numbers = f"{done:,} of {count:,}", f"{rate:,.0f} records/s"
        bar.add_row(Text(verb, "bold"), ProgressBar(count, done, width=30), *numbers)
        return Group(bar, offset_table(rows))

    def _follow_plain(self, verb: str, progress: Iterator[int], count: int, ask: Ask) -> None:
        step = 0
        for done in progress:
            if done * PLAIN_STEPS >= (step + 1) * count:
                step = done * PLAIN_STEPS // count
                _, _, *columns = zip(*ask(), strict=True)
                marks, _, consumed = (" ".join(f"{n:,}" for n in column) for column in columns)
                line = f"{verb} {done:,} of {count:,}   high watermarks {marks}"
                self.console.print(f"{line}   consumed up to {consumed}", soft_wrap=True)
        self.console.print(offset_table(ask()))


def offset_table(rows: list[Row]) -> Table:
    """Where each partition begins, where it ends, and how far its reader is."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in HEADINGS:
        is_name = heading == HEADINGS[0]
        table.add_column(
            heading, justify="left" if is_name else "right", style="cyan" if is_name else ""
        )
    for name, *offsets in rows:
        table.add_row(name, *(f"{offset:,}" for offset in offsets))
    return table
