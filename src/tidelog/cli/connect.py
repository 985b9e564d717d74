"""What the commands that talk to brokers share: the address, and errors of one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tidelog.cli.properties import parse_assignments, read_properties

if TYPE_CHECKING:
    from tidelog.client import Client, ClientError

BOOTSTRAP_SERVER = "127.0.0.1:9092"
BOOTSTRAP_TIMEOUT_MS = 3_000
"""A person waits: a broker that cannot be reached is said soon."""


BOOTSTRAP_OPTION = click.option(
    "--bootstrap-server",
    "--bootstrap-servers",
    "-b",
    metavar="HOST:PORT,...",
    default=BOOTSTRAP_SERVER,
    envvar="TIDELOG_BOOTSTRAP_SERVER",
    show_default=True,
    help="The brokers to connect to; one of them is enough.",
)


CONTROLLER_OPTION = click.option(
    "--bootstrap-controller",
    "-C",
    metavar="HOST:PORT,...",
    help="Controllers to connect to, in place of brokers.",
)


PROPERTIES_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class Connection(NamedTuple):
    """What the command line says about it."""

    bootstrap_server: str
    properties: dict[str, str]
    are_controllers: bool = False


def connection_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options that every one of these commands has, as its argument `connection`."""

    @BOOTSTRAP_OPTION
    @click.option(
        "--command-config",
        "-c",
        type=PROPERTIES_FILE,
        help="A properties file for the client, under Kafka's names.",
    )
    @click.option(
        "--command-property",
        metavar="NAME=VALUE",
        multiple=True,
        help="A property for the client, such as request.timeout.ms; may be repeated.",
    )
    @wraps(function)
    def command(
        bootstrap_server: str,
        command_config: Path | None,
        command_property: tuple[str, ...],
        deprecated_config: Path | None = None,
        **options: Any,
    ) -> None:
        if command_config is not None and deprecated_config is not None:
            raise click.UsageError("--command-config and its old name cannot be given together")
        command_config = command_config or deprecated_config
        properties = {}
        if command_config is not None:
            properties = read_properties(command_config)
        properties |= parse_assignments(command_property)
        function(connection=Connection(bootstrap_server, properties), **options)

    return command


def deprecated_config_option(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The old name of --command-config, which a tool of Kafka's still takes."""

    def warn(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
        if value is not None:
            click.echo(
                f"Option {name} has been deprecated and will be removed in a future version."
                " Use --command-config instead.",
                err=True,
            )
        return value

    return click.option(name, "deprecated_config", type=PROPERTIES_FILE, hidden=True, callback=warn)


def controller_options(function: Callable[..., None]) -> Callable[..., None]:
    """The same, of commands that controllers serve as well."""

    @connection_options
    @CONTROLLER_OPTION
    @wraps(function)
    def command(connection: Connection, bootstrap_controller: str | None, **options: Any) -> None:
        function(connection=choose(connection, bootstrap_controller), **options)

    return command


def choose(connection: Connection, bootstrap_controller: str | None) -> Connection:
    """To controllers, where they are named."""
    if bootstrap_controller is None:
        return connection
    source = click.get_current_context().get_parameter_source("bootstrap_server")
    if source is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("name --bootstrap-server or --bootstrap-controller, not both")
    return Connection(bootstrap_controller, connection.properties, are_controllers=True)


@contextmanager
def connected(
    bootstrap_server: str,
    properties: Mapping[str, str] | None = None,
    are_controllers: bool = False,
) -> Iterator[Client]:
    """A client for the time of a command; what it raises ends the command with one line."""
    from tidelog.client import (
        Client,
        ClientError,
        ClientSettings,
        parse_servers,
        settings_from_properties,
    )

    try:
        defaults = ClientSettings(
            bootstrap_servers=parse_servers(bootstrap_server),
            are_controllers=are_controllers,
            client_id="tidelog-cli",
            bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS,
        )
    except ValueError as error:
        hint = f"--bootstrap-{'controller' if are_controllers else 'server'}"
        raise click.BadParameter(str(error), param_hint=hint) from None
    try:
        settings = settings_from_properties(properties or {}, defaults)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
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
        if client.settings.are_controllers:
            return (
                f"cannot reach a controller at {servers} ({cause}); name another with"
                " --bootstrap-controller"
            )
        return (
            f"cannot reach a broker at {servers} ({cause}); "
            "start one with `tidelog up`, or name another with --bootstrap-server"
        )
    return str(error)
