"""Which value of a config counts, and where it comes from: the topic's own, what was set on this
broker, on all brokers, in the file, or nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from tidelog.config.broker import BROKER_KEYS, BrokerConfig, attribute, broker_synonyms
from tidelog.config.definition import ConfigKey, InvalidConfig
from tidelog.config.topic import TOPIC_KEYS
from tidelog.config.valid import Value, format_value
from tidelog.metadata.image import MetadataImage


class ConfigSource(IntEnum):
    """Kafka's numbers."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class SourcedValue(NamedTuple):
    """A value under the name and in the place that it was given."""

    name: str
    value: str | None
    source: ConfigSource


class Entry(NamedTuple):
    """A config that counts, and all places that have a say in it, the first of which does."""

    key: ConfigKey
    value: str | None
    synonyms: Sequence[SourcedValue]

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def source(self) -> ConfigSource:
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT


def current_config(image: MetadataImage, config: BrokerConfig) -> BrokerConfig:
    """The file's configuration with what was changed since."""
    return config.with_dynamic(image.cluster_configs(), image.broker_configs(config.node_id))


def effective_topic_configs(
    image: MetadataImage,
    own: Mapping[str, str],
    config: BrokerConfig,
    *,
    as_described: bool = True,
) -> Iterator[Entry]:
    """Every config of a topic that has these of its own, by name."""
    defaults = current_config(image, config).topic_defaults()
    for name in sorted(TOPIC_KEYS):
        key = TOPIC_KEYS[name]
        if key.is_internal:
            continue
        found = broker_values(image, topic_synonym_names(key), config)
        if as_described:
            found = described(found, topic_synonym_names(key))
        value = defaults[name]
        if name in own:
            value = parsed_or_text(key, own[name])
            found.insert(0, SourcedValue(name, format_value(value), ConfigSource.TOPIC))
        yield Entry(key, format_value(value), found)


def synonyms_from(name: str) -> Sequence[str]:
    """The name itself first, then what else may stand for it."""
    names = broker_synonyms(name)
    return (name, *(other for other in names if other != name))


def topic_synonym_names(key: ConfigKey) -> Sequence[str]:
    return synonyms_from(key.synonyms[0].name) if key.synonyms else ()


def effective_broker_configs(image: MetadataImage, config: BrokerConfig) -> Iterator[Entry]:
    """Every config of this broker, by name."""
    current = current_config(image, config)
    for name in sorted(BROKER_KEYS):
        key = BROKER_KEYS[name]
        if key.is_internal:
            continue
        found = described(broker_values(image, synonyms_from(name), config), synonyms_from(name))
        if key.is_sensitive:
            found = [synonym._replace(value=None) for synonym in found]
            yield Entry(key, None, found)
        else:
            yield Entry(key, format_value(getattr(current, attribute(name))), found)


def cluster_default_configs(image: MetadataImage) -> Iterator[Entry]:
    """What was set on all brokers together."""
    for name, text in image.cluster_configs().items():
        key = BROKER_KEYS.get(name)
        if key is not None:
            value = None if key.is_sensitive else text
            source = ConfigSource.DYNAMIC_DEFAULT_BROKER
            yield Entry(key, value, [SourcedValue(name, value, source)])


def broker_values(
    image: MetadataImage, names: Sequence[str], config: BrokerConfig
) -> list[SourcedValue]:
    """All values under these names, the ones that count more first."""
    places: tuple[tuple[Mapping[str, str | None] | Mapping[str, str], ConfigSource], ...] = (
        (image.broker_configs(config.node_id), ConfigSource.DYNAMIC_BROKER),
        (image.cluster_configs(), ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (config.properties, ConfigSource.STATIC_BROKER),
        ({name: BROKER_KEYS[name].default_text for name in names}, ConfigSource.DEFAULT),
    )
    found: list[SourcedValue] = []
    for values, source in places:
        for name in names:
            value = values.get(name)
            if value is not None:
                found.append(SourcedValue(name, value, source))
    return found


def described(found: list[SourcedValue], names: Sequence[str]) -> list[SourcedValue]:
    """As Kafka's DescribeConfigs has it, which leaves out what comes before the first name's own
    values: a retention.ms that log.retention.hours gives is shown as a default. CreateTopics
    answers with the true source."""
    for index, value in enumerate(found):
        if value.name == names[0]:
            return found[index:]
    return []


def parsed_or_text(key: ConfigKey, text: str) -> Value:
    """A value that does not parse came from elsewhere; it is shown as it is."""
    try:
        return key.parse(text)
    except InvalidConfig:
        return text
