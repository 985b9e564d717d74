"""What the commands that talk to brokers share: the address, and errors of one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from tidelog.client import Client, ClientError

BOOTSTRAP_SERVER = "127.0.0.1:9092"
BOOTSTRAP_TIMEOUT_MS = 3_000
"""A person waits: a broker that cannot be reached is said soon."""

F = TypeVar("F", bound=Callable[..., Any])


def bootstrap_option(function: F) -> F:
    """The option that every one of these commands has."""
    return click.option(
        "--bootstrap-server",
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        default=BOOTSTRAP_SERVER,
        envvar="TIDELOG_BOOTSTRAP_SERVER",
        show_default=True,
        help="The brokers to connect to; one of them is enough.",
    )(function)


@contextmanager
def connected(bootstrap_server: str, *, timeout_ms: int = 60_000) -> Iterator[Client]:
    """A client for the time of a command; what it raises ends the command with one line."""
    from tidelog.client import Client, ClientError, ClientSettings, parse_servers

    try:
        settings = ClientSettings(
            bootstrap_servers=parse_servers(bootstrap_server),
            client_id="tidelog-cli",
            timeout_ms=timeout_ms,
            bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS,
        )
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--bootstrap-server") from None
    with Client(settings) as client:
        try:
            yield client
        except ClientError as error:
            raise click.ClickException(explain(error, client)) from None


def explain(error: ClientError, client: Client) -> str:
    """The error and, where we know it, what to do."""
    from tidelog.client import ConnectionFailed, TimedOut

    if isinstance(error, ConnectionFailed | TimedOut) and not client.cluster.brokers:
        servers = ",".join(map(str, client.settings.bootstrap_servers))
        cause = error.__cause__ or error
        return (
            f"cannot reach a broker at {servers} ({cause}); "
            "start one with `tidelog up`, or name another with --bootstrap-server"
        )
    return str(error)
