"""A Spark session for a pipeline: of its own, or the one that spark-submit prepared."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*,4]"
"""All cores. A task is tried four times, as on a cluster: without that number, local means once."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""spark-submit says by it where its JVM listens."""
DEFAULTS = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Without spark-submit, whose user has configured Spark."""


class NoSpark(Exception):
    """What Spark needs is not there; the text says what to install."""


def open_session(name: str, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Raises NoSpark."""
    try:
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise NoSpark("install Spark with tidelog: pip install 'tidelog[spark]'") from error
    is_submitted = SUBMITTED in os.environ
    if not is_submitted:
        require_java()
        master = master or LOCAL
    if master is not None and master.startswith("local"):
        # The workers import this package, so they are this interpreter.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**({} if is_submitted else DEFAULTS), **conf}.items():
        builder = builder.config(key, value)
    interrupt = signal.getsignal(signal.SIGINT)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise NoSpark(f"Spark did not start: {str(error).partition(chr(10))[0]}") from error
    finally:
        # Spark sets a handler of its own; but what Ctrl-C does is the pipeline's decision.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt)


def require_java() -> None:
    """Raises NoSpark; whether it is new enough, Spark says itself."""
    home = os.environ.get("JAVA_HOME")
    if not (home and Path(home, "bin/java").exists()) and shutil.which("java") is None:
        raise NoSpark(
            "Spark needs Java 17 or newer, and there is no java in the PATH: install it (Debian: "
            "apt install openjdk-17-jre-headless), or set JAVA_HOME"
        )
