"""Shared by all tests: a skip fails in continuous integration, a busy machine fails nothing."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

QUICK_SHARE = 5


def examples(count: int) -> settings:
    """How many a random test tries: `make check` (TIDELOG_QUICK) tries a share of them."""
    return settings(max_examples=count // QUICK_SHARE if os.environ.get("TIDELOG_QUICK") else count)


# How long an example takes says something about the machine's other work, not about the code.
settings.register_profile(
    "patient",
    examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("patient")


SKIPS_ALLOWED: dict[str, str] = {}
"""Beginning of a skip's reason -> why CI cannot run that test. All others hide a missing tool."""


def refusal(reason: str) -> str | None:
    """What CI says to a test that was skipped for this reason; None if the table allows it."""
    if any(reason.startswith(allowed) for allowed in SKIPS_ALLOWED):
        return None
    return f"skipped, which CI only allows for a reason listed in SKIPS_ALLOWED: {reason}"


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip (an expected failure is one too) into a failure, where CI=true."""
    if not report.skipped or os.environ.get("CI") != "true":
        return
    if isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
    else:
        reason = f"expected to fail: {getattr(report, 'wasxfail', 'no reason given')}"
    complaint = refusal(reason)
    if complaint is not None:
        report.outcome = "failed"
        report.longrepr = complaint
        vars(report).pop("wasxfail", None)


def pytest_configure() -> None:
    """A shell starts what runs in its background with Ctrl-C ignored, and children inherit that:
    the commands that tests start must hear it all the same."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


gc.disable()  # what is collected stays, thousands of tests and their modules


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_if_skipped(report)
    return report
