"""Which function handles which API. What is not here is not served, and not advertised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.broker.handlers import (
    alter_configs,
    fetch,
    inspection,
    metadata,
    offsets,
    produce,
    producer_ids,
)
from tidelog.env import Now
from tidelog.runtime.answers import Answer
from tidelog.runtime.handlers import api_versions, cluster, configs
from tidelog.slices import Slices
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.request import Request, Served

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

Handler = Callable[[Request, "Broker", Now], Answer | Slices[Answer]]
"""A generator where the work grows with what is asked for: it takes as many steps as it needs."""


def forward(request: Request, broker: Broker, now: Now) -> Answer | Slices[Answer]:
    """What only the active controller can answer."""
    return broker.controller.forward(request, now)


HANDLERS: dict[int, Handler] = {
    ApiKey.PRODUCE: produce.produce,
    ApiKey.FETCH: fetch.fetch,
    ApiKey.LIST_OFFSETS: offsets.list_offsets,
    ApiKey.METADATA: metadata.metadata,
    ApiKey.FIND_COORDINATOR: inspection.find_coordinator,
    ApiKey.API_VERSIONS: api_versions.api_versions,
    ApiKey.CREATE_TOPICS: forward,
    ApiKey.DELETE_TOPICS: forward,
    ApiKey.DELETE_RECORDS: offsets.delete_records,
    ApiKey.INIT_PRODUCER_ID: producer_ids.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.offset_for_leader_epoch,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.ALTER_CONFIGS: alter_configs.alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: inspection.describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: forward,
    ApiKey.ELECT_LEADERS: forward,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: alter_configs.alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: forward,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: forward,
    ApiKey.DESCRIBE_QUORUM: forward,
    ApiKey.UPDATE_FEATURES: forward,
    ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: inspection.describe_producers,
    ApiKey.UNREGISTER_BROKER: forward,
    ApiKey.LIST_CONFIG_RESOURCES: configs.list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.describe_topic_partitions,
    ApiKey.ADD_RAFT_VOTER: forward,
    ApiKey.REMOVE_RAFT_VOTER: forward,
}

LARGE_HANDLERS: dict[int, Handler] = HANDLERS | {
    ApiKey.PRODUCE: produce.produce_in_slices,
    ApiKey.FETCH: fetch.fetch_in_slices,
}
"""For requests of very many elements: the two that are not written as generators, because they
have to be fast where there are few, have others for those."""

SERVED: Served = {
    key: (APIS[key].versions[0], APIS[key].versions[1] - APIS[key].latest_is_unstable)
    for key in HANDLERS
}
