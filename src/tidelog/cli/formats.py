"""How a consumed record is printed: Kafka's line, or a JSON object."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from tidelog.wire.batch import NO_TIMESTAMP, RecordBatch, TimestampType
from tidelog.wire.batch_reader import Record

DEFAULTS = {
    "print.timestamp": "false",
    "print.partition": "false",
    "print.offset": "false",
    "print.epoch": "false",
    "print.headers": "false",
    "print.key": "false",
    "print.value": "true",
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
TIMESTAMP_NAMES = {
    TimestampType.CREATE_TIME: b"CreateTime:",
    TimestampType.LOG_APPEND_TIME: b"LogAppendTime:",
}


class Formatter(Protocol):
    """Makes the bytes to print of a record."""

    def format(self, topic: str, partition: int, batch: RecordBatch, record: Record) -> bytes: ...


class LineFormatter(NamedTuple):
    """The rules of Kafka's DefaultMessageFormatter. Bytes are printed as they are."""

    print_timestamp: bool
    print_partition: bool
    print_offset: bool
    print_epoch: bool
    print_headers: bool
    print_key: bool
    print_value: bool
    key_separator: bytes
    line_separator: bytes
    headers_separator: bytes
    null_literal: bytes

    @classmethod
    def from_properties(cls, given: Mapping[str, str]) -> LineFormatter:
        """ValueError if there is no such property."""
        unknown = sorted(given.keys() - DEFAULTS.keys())
        if unknown:
            raise ValueError(
                f"there is no formatter property {unknown[0]}; there are {', '.join(DEFAULTS)}"
            )
        values = {**DEFAULTS, **given}
        flags = (values[name].lower() == "true" for name in list(DEFAULTS)[:7])
        texts = (
            values[name].replace("\\t", "\t").replace("\\n", "\n") for name in list(DEFAULTS)[7:]
        )
        return cls._make([*flags, *(text.encode() for text in texts)])

    def format(self, topic: str, partition: int, batch: RecordBatch, record: Record) -> bytes:
        fields = []
        if self.print_timestamp:
            known = record.timestamp != NO_TIMESTAMP
            kind = TIMESTAMP_NAMES[batch.timestamp_type]
            fields.append(kind + b"%d" % record.timestamp if known else b"NO_TIMESTAMP")
        if self.print_partition:
            fields.append(b"Partition:%d" % partition)
        if self.print_offset:
            fields.append(b"Offset:%d" % record.offset)
        if self.print_epoch:
            fields.append(b"Epoch:%d" % batch.partition_leader_epoch)
        if self.print_headers:
            fields.append(self._headers(record))
        if self.print_key:
            fields.append(self._nullable(record.key))
        if self.print_value:
            fields.append(self._nullable(record.value))
        return self.key_separator.join(fields) + self.line_separator

    def _headers(self, record: Record) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self.headers_separator.join(
            name + b":" + self._nullable(value) for name, value in record.headers
        )

    def _nullable(self, field: bytes | None) -> bytes:
        return self.null_literal if field is None else field


class JsonFormatter:
    """Everything about a record. Bytes that are not UTF-8 come as base64 under another name, so
    that none is lost."""

    def format(self, topic: str, partition: int, batch: RecordBatch, record: Record) -> bytes:
        shown: dict[str, object] = {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": batch.timestamp_type.name,
            "leader_epoch": batch.partition_leader_epoch,
        }
        _add(shown, "key", record.key)
        _add(shown, "value", record.value)
        headers = []
        for name, value in record.headers:
            header: dict[str, object] = {"name": name.decode(errors="replace")}
            _add(header, "value", value)
            headers.append(header)
        shown["headers"] = headers
        return json.dumps(shown, ensure_ascii=False).encode() + b"\n"


def _add(shown: dict[str, object], name: str, field: bytes | None) -> None:
    try:
        shown[name] = None if field is None else field.decode()
    except UnicodeDecodeError:
        import base64

        assert field is not None
        shown[f"{name}_base64"] = base64.b64encode(field).decode()
