"""Reads options: every one is text, its name is spelled in any case, a wrong one is named.

`options` is what Spark hands over, a mapping that ignores the case of names; the names here are
spelled as users spell them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches

Options = Mapping[str, str]

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1

DURATION_UNITS_MS = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
"""Of Spark's time strings."""


class OptionError(ValueError):
    """An option that is missing, unknown or wrong; the text says what would be right."""


def refuse_unknown(options: Options, known: Collection[str], what: str) -> None:
    """OptionError for the first option that is neither known nor one of `kafka.*`: a mistyped
    option would else be ignored."""
    names = {name.lower(): name for name in known}
    for name in options:
        lower = name.lower()
        if lower in names or lower.startswith("kafka."):
            continue
        close = get_close_matches(lower, names, 1)
        hint = f" (did you mean {names[close[0]]}?)" if close else ""
        listed = ", ".join(sorted(known))
        raise OptionError(
            f"{what} has no option {name!r}{hint}; its options are {listed}, and kafka.*"
        )


def boolean(options: Options, name: str, default: bool) -> bool:
    """Of `true` or `false`, in any case."""
    text = options.get(name)
    if text is None:
        return default
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise OptionError(f"{name} is {text!r}, and may be true or false")
    return value


def integer(
    options: Options,
    name: str,
    default: int | None = None,
    *,
    minimum: int = 0,
    maximum: int = LONG_MAX,
) -> int | None:
    """A whole number."""
    text = options.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) or not minimum <= int(text) <= maximum:
        raise OptionError(f"{name} is {text!r}: want a whole number from {minimum} to {maximum}")
    return int(text)


def milliseconds(options: Options, name: str, default: int) -> int:
    """A time as Spark writes it: `500ms`, `10s`, `15m`; without a unit, milliseconds."""
    text = options.get(name)
    if text is None:
        return default
    found = re.fullmatch(r"\s*([0-9]+)\s*([a-z]*)\s*", text.lower())
    if found is None or (found[2] or "ms") not in DURATION_UNITS_MS:
        units = ", ".join(DURATION_UNITS_MS)
        raise OptionError(f"{name} is {text!r}: want a number and a unit of {units}, such as 15m")
    return round(int(found[1]) * DURATION_UNITS_MS[found[2] or "ms"])


def choice(options: Options, name: str, default: str, allowed: Collection[str]) -> str:
    """One of a few words, in any case; in lower case."""
    value = options.get(name, default).strip().lower()
    if value not in allowed:
        raise OptionError(f"{name} is {options[name]!r}, and may be {' or '.join(allowed)}")
    return value
