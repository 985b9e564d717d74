"""docs/configuration.md is what the definitions say. Run as a module, this writes it anew."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidelog.config.broker import BROKER_KEYS
from tidelog.config.definition import ConfigKey
from tidelog.config.topic import TOPIC_KEYS
from tidelog.config.unused import UNUSED

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
INTRODUCTION = """\
# Configuration

Made from the definitions in `src/tidelog/config` by `python -m tests.unit.config.test_documented`;
do not edit. Names, types, ranges and defaults are those of Apache Kafka 4.3.1, which a test
compares. One default differs: without `listeners` a node listens on 127.0.0.1 only, because there
is no authentication yet.

A value that is out of its range, or a name that nobody knows, is refused with a message that says
what is allowed.
"""


def cell(text: str | None) -> str:
    return "" if text is None else f"`{text}`" if text else "empty"


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
        lines.append(
            f"| `{key.name}` | {kind} | {default} | {valid} | {extra} | {key.documentation} |"
        )
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
            " read-only ones are read at the start.\n",
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
    assert PAGE.read_text(encoding="utf-8") == render()


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
