"""Runs a function on many items: here, or in the tasks of a Spark job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from tidelog.spark.pipelines.session import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")
R = TypeVar("R")


class TaskFailed(Exception):
    """A task failed as often as Spark lets it; the text is what it raised last."""


class Run(Protocol):
    """Calls a function with each item; the answers in the items' order."""

    def __call__(self, function: Callable[[T], R], items: Sequence[T], /) -> list[R]: ...


def run_here(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """One after the other."""
    return [function(item) for item in items]


class SparkRun:
    """A task for each item. Of one that was tried again, the last answer counts. Spark is started
    by the first call: where there is nothing to do it is not needed."""

    def __init__(
        self, name: str, master: str | None = None, conf: dict[str, str] | None = None
    ) -> None:
        self._name = name
        self._master = master
        self._conf = conf or {}
        self._spark: SparkSession | None = None

    def __call__(self, function: Callable[[T], R], items: Sequence[T], /) -> list[R]:
        if not items:
            return []
        if self._spark is None:
            self._spark = open_session(self._name, self._master, self._conf)
        return _run(self._spark, function, items)

    def close(self) -> None:
        """End the session, and the tasks that still run."""
        if self._spark is not None:
            self._spark.stop()
        self._spark = None


def _run(spark: SparkSession, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        answers: list[R] = spark.sparkContext.parallelize(items, len(items)).map(function).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise TaskFailed(reason_of(str(error))) from error
    assert len(answers) == len(items)
    return answers


def reason_of(text: str) -> str:
    """What the Python code in a task raised: the last line of its traceback."""
    _, found, rest = text.partition("Traceback (most recent call last):\n")
    if not found:
        return text.strip().partition("\n")[0]
    for line in rest.splitlines():
        if line and not line.startswith((" ", "\t")):
            return line.strip()
    return text.strip().partition("\n")[0]
