"""Source text in the making: what the decoder's and the encoder's generators share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STRING_BYTES_MAX = 32767
"""As Kafka has it: a compact length could say more, but an older version's answer could not."""
SMALL_ARRAY_MAX = 16
"""Arrays of numbers up to this many have their packings ready: replicas come in such counts."""

ELEMENT_COST = 2
"""Microseconds, some, for an element of an array (slices.py)."""


class Source:
    """Lines of a function to be, and the constants that they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self._depth = 0
        self._names = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, stem: str) -> str:
        """A name that this function does not have yet."""
        self._names += 1
        return f"{stem}_{self._names}"

    def constant(self, stem: str, value: Any) -> str:
        """A name for a value that the generated code needs; the same value, the same name."""
        for name, known in self.constants.items():
            if known is value:
                return name
        name = self.name(stem)
        self.constants[name] = value
        return name

    def compile(self, name: str, title: str) -> Callable[..., Any]:
        text = "\n".join(self.lines)
        exec(compile(text, f"<{title}>", "exec"), self.constants)
        function: Callable[..., Any] = self.constants[name]
        return function
