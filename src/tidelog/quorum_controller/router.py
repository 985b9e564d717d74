"""Which function of a controller handles which API. What is not here is not served, and not
advertised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.env import Now
from tidelog.quorum_controller.decisions import DECIDERS
from tidelog.quorum_controller.handlers import brokers, deciding, envelope, quorum
from tidelog.runtime.answers import Answer
from tidelog.runtime.handlers import api_versions, cluster, configs
from tidelog.slices import Slices
from tidelog.wire.api import APIS, ApiKey
from tidelog.wire.request import Request, Served

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController

ControllerHandler = Callable[[Request, "QuorumController", Now], Answer | Slices[Answer]]

CONTROLLER_HANDLERS: dict[int, ControllerHandler] = {
    ApiKey.API_VERSIONS: api_versions.api_versions,
    ApiKey.DESCRIBE_CONFIGS: configs.describe_configs,
    ApiKey.DESCRIBE_CLUSTER: cluster.describe_cluster,
    ApiKey.ENVELOPE: envelope.envelope,
    ApiKey.BROKER_REGISTRATION: brokers.broker_registration,
    ApiKey.BROKER_HEARTBEAT: brokers.broker_heartbeat,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: deciding.list_partition_reassignments,
    **dict.fromkeys(DECIDERS, deciding.decide),
    **dict.fromkeys(quorum.RAFT_METHODS, quorum.quorum),
}

CONTROLLER_SERVED: Served = {
    key: (APIS[key].versions[0], APIS[key].versions[1] - APIS[key].latest_is_unstable)
    for key in CONTROLLER_HANDLERS
}
