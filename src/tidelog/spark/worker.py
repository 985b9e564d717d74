"""What a Python worker of Spark does once, before its first task."""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle() -> None:
    """Take all that is there now, mostly modules, out of the garbage collector's sight. Spark has
    it collect after every task, which else takes longer than a small micro-batch's reading."""
    gc.freeze()
