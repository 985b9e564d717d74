"""Which function of a controller handles which API. What is not here is not served, and not
advertised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.env import Now
from tidelog.quorum_controller.handlers import configs, features, producer_ids, topics
from tidelog.runtime.answers import Answer
from tidelog.runtime.handlers import api_versions, cluster
from tidelog.runtime.handlers import configs as described_configs
from tidelog.slices import Slices
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.request import Request, Served

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController

ControllerHandler = Callable[[Request, "QuorumController", Now], Answer | Slices[Answer]]

CONTROLLER_HANDLERS: dict[int, ControllerHandler] = {
    ApiKey.API_VERSIONS: api_versions.api_versions,
    ApiKey.CREATE_TOPICS: topics.create_topics,
    ApiKey.DELETE_TOPICS: topics.delete_topics,
    ApiKey.DESCRIBE_CONFIGS: described_configs.describe_configs,
    ApiKey.ALTER_CONFIGS: configs.alter_configs,
    ApiKey.CREATE_PARTITIONS: topics.create_partitions,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.incremental_alter_configs,
    ApiKey.UPDATE_FEATURES: features.update_features,
    ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
    ApiKey.ALLOCATE_PRODUCER_IDS: producer_ids.allocate_producer_ids,
}

CONTROLLER_SERVED: Served = {
    key: (APIS[key].versions[0], APIS[key].versions[1] - APIS[key].latest_is_unstable)
    for key in CONTROLLER_HANDLERS
}
