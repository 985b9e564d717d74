"""How a broker's keys are declared: a field of a dataclass, typed for the reader, whose metadata
is the ConfigKey. The key's name is the field's with dots: log_segment_bytes, log.segment.bytes."""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any

from tidelog.config.definition import ConfigKey, ConfigType, UpdateMode
from tidelog.config.valid import Valid

CLUSTER, BROKER = UpdateMode.CLUSTER_WIDE, UpdateMode.PER_BROKER
REQUIRED: Any = object()


def _declare(
    kind: ConfigType, default: Any, documentation: str, valid: Valid | None, **options: Any
) -> Any:
    metadata = {"key": (kind, documentation, valid, options)}
    return (
        field(metadata=metadata)
        if default is REQUIRED
        else field(default=default, metadata=metadata)
    )


def boolean(default: Any, documentation: str, **options: Any) -> Any:
    return _declare(ConfigType.BOOLEAN, default, documentation, None, **options)


def text(default: Any, documentation: str, valid: Valid | None = None, **options: Any) -> Any:
    return _declare(ConfigType.STRING, default, documentation, valid, **options)


def items(default: Any, documentation: str, valid: Valid | None = None, **options: Any) -> Any:
    return _declare(ConfigType.LIST, default, documentation, valid, **options)


def short(default: Any, documentation: str, valid: Valid | None = None, **options: Any) -> Any:
    return _declare(ConfigType.SHORT, default, documentation, valid, **options)


def integer(default: Any, documentation: str, valid: Valid | None = None, **options: Any) -> Any:
    """32 bits."""
    return _declare(ConfigType.INT, default, documentation, valid, **options)


def long(default: Any, documentation: str, valid: Valid | None = None, **options: Any) -> Any:
    """64 bits."""
    return _declare(ConfigType.LONG, default, documentation, valid, **options)


def double(default: Any, documentation: str, valid: Valid | None = None, **options: Any) -> Any:
    return _declare(ConfigType.DOUBLE, default, documentation, valid, **options)


def keys_of(cls: Any) -> dict[str, ConfigKey]:
    """The keys that a dataclass declares, by name."""
    found = {}
    for declared in fields(cls):
        if "key" not in declared.metadata:
            continue
        kind, documentation, valid, options = declared.metadata["key"]
        name = declared.name.replace("_", ".")
        is_required = declared.default is declared.default_factory  # both are MISSING
        found[name] = ConfigKey(
            name,
            kind,
            None if is_required else declared.default,
            documentation,
            valid,
            is_required=is_required,
            **options,
        )
    return found
