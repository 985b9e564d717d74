"""docs/configuration.md is what the definitions say. Run as a module, this writes it anew."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import tidelog
from tidelog.config.broker import BROKER_KEYS, READ_AT_START, attribute
from tidelog.config.definition import ConfigKey
from tidelog.config.topic import TOPIC_KEYS
from tidelog.config.unused import UNUSED

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "configuration.md"
SOURCE = Path(tidelog.__file__).parent
INTRODUCTION = """\
# Configuration

Made from the definitions in `src/tidelog/config` by `python -m tests.unit.config.test_documented`;
do not edit. Names, types, ranges and defaults are those of Apache Kafka 4.3.1, which a test
compares. One default differs: without `listeners` a node listens on 127.0.0.1 only, because there
is no authentication yet. One name is older: `leader.imbalance.per.broker.percentage`, which Kafka
4.0 dropped.

A value that is out of its range, or a name that nobody knows, is refused with a message that says
what is allowed.

Where a meaning ends with *No effect.*, no code reads the key so far: it is accepted, kept and
shown, and that is all.
"""
NO_EFFECT = " *No effect.*"


def cell(text: str | None) -> str:
    return "" if text is None else f"`{text}`" if text else "empty"


@cache
def names_in_code() -> frozenset[str]:
    """Attributes and strings of all that may read a config. Where configs are declared and handed
    on only what is asked of an object counts."""
    declared = SOURCE / "log" / "config.py"
    found: set[str] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text("utf-8")
        if path.parent == SOURCE / "config" or path == declared:
            found.update(re.findall(r"\bself\.(\w+)", text))
            found.update(re.findall(r'\bvalue\("([a-z.]+)"\)', text))
        else:
            found.update(re.findall(r"(?<=\w)\.(\w+)", text))
            found.update(re.findall(r'"([a-z0-9.]+)"', text))
    return frozenset(found)


def is_read(key: ConfigKey) -> bool:
    """Whether code asks for it by its attribute or by its name; or for the topics' config that
    the broker's gives a default."""
    if {attribute(key.name), key.name} & names_in_code():
        return True
    given = (
        topic
        for topic in TOPIC_KEYS.values()
        if topic is not key and key.name in {synonym.name for synonym in topic.synonyms}
    )
    return any(is_read(topic) for topic in given)


def rows(keys: Iterable[ConfigKey], last: str) -> list[str]:
    lines = []
    for key in sorted(keys, key=lambda key: key.name):
        if key.is_internal:
            continue
        default = "required" if key.is_required else cell(key.default_text)
        valid = key.valid.words() if key.valid is not None else ""
        extra = (
            key.mode.value
            if last == "changes"
            else ", else ".join(f"`{synonym.name}`" for synonym in key.synonyms)
        )
        kind = key.type.name.lower()
        meaning = key.documentation + ("" if is_read(key) else NO_EFFECT)
        lines.append(f"| `{key.name}` | {kind} | {default} | {valid} | {extra} | {meaning} |")
    return lines


def render() -> str:
    head = "| name | type | default | allowed | {} | meaning |\n|---|---|---|---|---|---|"
    return "\n".join(
        [
            INTRODUCTION,
            "## Topics\n",
            "The default of a topic's config is what the broker has under the synonym.\n",
            head.format("synonym of the broker"),
            *rows(TOPIC_KEYS.values(), "synonym"),
            "\n## Brokers and controllers\n",
            "Keys that are cluster-wide or per-broker may be changed while the node runs;"
            " read-only ones are read at the start, and so are, unlike Kafka's,"
            f" {' and '.join(f'`{name}`' for name in READ_AT_START)}.\n",
            head.format("changes"),
            *rows(BROKER_KEYS.values(), "changes"),
            "\n## Accepted and not used\n",
            "Keys of Kafka that have no meaning here, yet. A node that finds one in its file says"
            " so and starts.\n",
            ", ".join(f"`{name}`" for name in sorted(UNUSED)) + ".",
            "",
        ]
    )


def test_the_page_is_what_the_definitions_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run this file as a module, it says how"


def test_what_is_read_is_known_from_what_is_not() -> None:
    read = ("log.segment.bytes", "log.retention.hours", "num.partitions", "process.roles")
    assert all(is_read(BROKER_KEYS[name]) for name in read)
    assert is_read(TOPIC_KEYS["retention.ms"])
    assert not is_read(TOPIC_KEYS["preallocate"])
    assert not is_read(BROKER_KEYS["log.preallocate"])


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
