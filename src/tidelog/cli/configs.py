"""`tidelog configs`: show and change configs, as kafka-configs does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidelog.cli.connect import Connection, connected, connection_options
from tidelog.cli.properties import read_properties

if TYPE_CHECKING:
    from tidelog.client import Client
    from tidelog.client.configs import Change, ConfigEntry, Resource

ENTITY_TYPES = ("topics", "brokers", "groups", "client-metrics", "broker-loggers")


@click.command("configs")
@connection_options
@click.option("--describe", "action", flag_value="describe", help="Show configs.")
@click.option("--alter", "action", flag_value="alter", help="Change configs.")
@click.option("--entity-type", type=click.Choice(ENTITY_TYPES), help="What has the configs.")
@click.option("--entity-name", metavar="NAME", help="The topic, the broker's id, the group.")
@click.option("--entity-default", is_flag=True, help="The default of all brokers.")
@click.option("--topic", metavar="NAME", help="Short for --entity-type topics --entity-name NAME.")
@click.option("--broker", metavar="ID", help="Short for --entity-type brokers --entity-name ID.")
@click.option("--broker-defaults", is_flag=True, help="The default of all brokers.")
@click.option("--group", metavar="NAME", help="Short for --entity-type groups --entity-name NAME.")
@click.option(
    "--add-config",
    metavar="K1=V1,K2=[V1,V2],...",
    help="Configs to set; brackets hold values with commas.",
)
@click.option(
    "--add-config-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A properties file of configs to set.",
)
@click.option("--delete-config", metavar="K1,K2,...", help="Configs that shall have their default.")
@click.option("--all", "show_all", is_flag=True, help="With --describe: defaults too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def command(
    connection: Connection,
    action: str | None,
    entity_type: str | None,
    entity_name: str | None,
    entity_default: bool,
    topic: str | None,
    broker: str | None,
    broker_defaults: bool,
    group: str | None,
    add_config: str | None,
    add_config_file: Path | None,
    delete_config: str | None,
    show_all: bool,
    as_json: bool,
) -> None:
    """Show or change configs of topics, brokers and groups.

    \b
    tidelog configs --describe --topic orders --all
    tidelog configs --alter --topic orders --add-config retention.ms=3600000
    """
    if action is None:
        raise click.UsageError("say what to do: --describe or --alter")
    for value, kind in ((topic, "topics"), (broker, "brokers"), (group, "groups")):
        if value is not None:
            entity_type, entity_name = kind, value
    if broker_defaults or (entity_default and entity_type in (None, "brokers")):
        entity_type, entity_name = "brokers", ""
    if entity_type is None:
        raise click.UsageError("name what has the configs: --topic NAME, --broker ID, --group NAME")
    with connected(*connection) as client:
        if action == "describe":
            _describe(client, entity_type, entity_name, show_all, as_json)
        else:
            changes = _changes(add_config, add_config_file, delete_config)
            _alter(client, entity_type, entity_name, changes)


def _resource(entity_type: str, name: str) -> Resource:
    from tidelog.client.configs import Resource, ResourceType

    return Resource(ResourceType[entity_type.removesuffix("s").replace("-", "_").upper()], name)


def _changes(add: str | None, file: Path | None, delete: str | None) -> list[Change]:
    from tidelog.client.configs import Change, ConfigOperation

    added = read_properties(file) if file is not None else {}
    added |= parse_configs(add or "")
    deleted = [name.strip() for name in (delete or "").split(",") if name.strip()]
    if not added and not deleted:
        raise click.UsageError("--alter needs --add-config, --add-config-file or --delete-config")
    return [
        *(Change(name, ConfigOperation.SET, value) for name, value in added.items()),
        *(Change(name, ConfigOperation.DELETE) for name in deleted),
    ]


def parse_configs(text: str) -> dict[str, str]:
    """`k1=v1,k2=[v1,v2]` as names and values."""
    configs = {}
    rest = text
    while rest:
        name, separator, rest = rest.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(
                f"{name!r} has no value: want K1=V1,K2=[V1,V2]", param_hint="--add-config"
            )
        if rest.startswith("["):
            value, bracket, rest = rest[1:].partition("]")
            rest = rest.lstrip()
            if not bracket or (rest and not rest.startswith(",")):
                raise click.BadParameter(
                    f"the brackets of {name.strip()} do not close", param_hint="--add-config"
                )
            rest = rest[1:]
        else:
            value, _, rest = rest.partition(",")
        configs[name.strip()] = value.strip()
    return configs


def _alter(client: Client, entity_type: str, name: str | None, changes: list[Change]) -> None:
    from tidelog.client.configs import alter_configs

    if name is None:
        raise click.UsageError("--alter needs --entity-name NAME (or --entity-default for brokers)")
    resource = _resource(entity_type, name)
    for error in client.run(alter_configs, {resource: changes}).values():
        if error is not None:
            raise error
    if name:
        click.echo(f"Completed updating config for {entity_type.removesuffix('s')} {name}.")
    else:
        click.echo("Completed updating default config for brokers in the cluster.")


def _describe(
    client: Client, entity_type: str, name: str | None, show_all: bool, as_json: bool
) -> None:
    from tidelog.client.configs import describe_configs

    names = _names(client, entity_type) if name is None else [name]
    shown = []
    for part in names:
        resource = _resource(entity_type, part)
        (entries,) = client.run(describe_configs, [resource]).values()
        if not isinstance(entries, tuple):
            raise entries
        if not show_all:
            entries = tuple(e for e in entries if e.source.name == _own_source(entity_type, part))
        shown.append((resource, entries))
    if as_json:
        _print_json(shown)
        return
    for resource, entries in shown:
        click.echo(_title(entity_type, resource.name, show_all))
        if sys.stdout.isatty():
            _print_table(entries)
        else:
            for entry in entries:
                click.echo(entry_line(entry))


def _names(client: Client, entity_type: str) -> list[str]:
    """All of this type."""
    from tidelog.client.admin import describe_cluster
    from tidelog.client.configs import list_config_resources
    from tidelog.client.topics import list_topics

    if entity_type == "topics":
        return list(client.run(list_topics))
    if entity_type in ("brokers", "broker-loggers"):
        brokers = client.run(describe_cluster).brokers
        ids = [str(broker.node_id) for broker in brokers if not broker.is_fenced]
        return [*ids, ""] if entity_type == "brokers" else ids
    kind = _resource(entity_type, "").type
    return sorted(resource.name for resource in client.run(list_config_resources, [kind]))


def _own_source(entity_type: str, name: str) -> str:
    """Where a value that was set on this very entity comes from."""
    if entity_type == "brokers" and not name:
        return "DYNAMIC_DEFAULT_BROKER_CONFIG"
    kind = entity_type.removesuffix("s").replace("-", "_").upper()
    return f"DYNAMIC_{kind}_CONFIG"


def _title(entity_type: str, name: str, show_all: bool) -> str:
    if entity_type == "brokers" and not name:
        return "Default configs for brokers in the cluster are:"
    which = "All" if show_all else "Dynamic"
    return f"{which} configs for {entity_type.removesuffix('s')} {name} are:"


def entry_line(entry: ConfigEntry) -> str:
    """Kafka's line: scripts read it."""
    synonyms = ", ".join(f"{s.source.name}:{s.name}={_value(s.value)}" for s in entry.synonyms)
    sensitive = str(entry.is_sensitive).lower()
    return f"  {entry.name}={_value(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}"


def _value(value: str | None) -> str:
    return "null" if value is None else value


def _print_table(entries: tuple[ConfigEntry, ...]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("name", "value", "source", box=None, pad_edge=False)
    for entry in entries:
        source = entry.source.name.removesuffix("_CONFIG").replace("_", " ").lower()
        value = "(hidden)" if entry.is_sensitive else escape(_value(entry.value))
        table.add_row(entry.name, value, source, style="dim" if source == "default" else "")
    Console(highlight=False).print(table)


def _print_json(shown: list[tuple[Resource, tuple[ConfigEntry, ...]]]) -> None:
    import json

    printed = [
        {
            "type": resource.type.name.lower(),
            "name": resource.name,
            "configs": [
                {
                    "name": entry.name,
                    "value": entry.value,
                    "source": entry.source.name,
                    "is_read_only": entry.is_read_only,
                    "is_sensitive": entry.is_sensitive,
                }
                for entry in entries
            ],
        }
        for resource, entries in shown
    ]
    click.echo(json.dumps(printed, indent=2))
