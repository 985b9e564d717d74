"""Keys that no file may hold: Kafka's tools set them on brokers for the time of a reassignment."""

from __future__ import annotations

from tidelog.config.definition import ConfigKey, ConfigType, UpdateMode
from tidelog.config.valid import AtLeast

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
MOVES_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
"""Of moves between a broker's directories, which there are none of yet."""

RATE_KEYS = {
    name: ConfigKey(
        name,
        ConfigType.LONG,
        (1 << 63) - 1,
        documentation,
        AtLeast(0),
        UpdateMode.PER_BROKER,
    )
    for name, documentation in (
        (LEADER_RATE, "Bytes a second that a broker sends to throttled replicas that lag."),
        (FOLLOWER_RATE, "Bytes a second that a broker fetches for throttled replicas that lag."),
    )
}
