"""A node makes itself known: as a controller, as a broker, and then as a broker in service.

These are the requests that it will send when the active controller is another node; here it
asks itself. A new incarnation leads its partitions in new epochs: what was appended but not
flushed may be gone after a crash, and what takes its place must be told from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.metadata.features import FEATURES
from tidelog.metadata.format import random_uuid
from tidelog.types import Uuid
from tidelog.wire.messages import broker_registration, controller_registration

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker


def broker_request(
    broker: Broker, incarnation_id: Uuid
) -> broker_registration.BrokerRegistrationRequest:
    config = broker.config
    return broker_registration.BrokerRegistrationRequest(
        broker_id=config.node_id,
        cluster_id=broker.cluster_id,
        incarnation_id=incarnation_id,
        listeners=tuple(
            broker_registration.Listener(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in config.advertised_endpoints
        ),
        features=tuple(
            broker_registration.Feature(
                name=name,
                min_supported_version=feature.level_min,
                max_supported_version=feature.level_max,
            )
            for name, feature in sorted(FEATURES.items())
        ),
        rack=config.broker_rack,
        log_dirs=broker.log_dirs.ids,
        previous_broker_epoch=broker.log_dirs.last_broker_epoch,
    )


def controller_request(broker: Broker) -> controller_registration.ControllerRegistrationRequest:
    config = broker.config
    return controller_registration.ControllerRegistrationRequest(
        controller_id=config.node_id,
        incarnation_id=random_uuid(broker.rng),
        zk_migration_ready=False,
        listeners=tuple(
            controller_registration.Listener(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in config.controller_endpoints
        ),
        features=tuple(
            controller_registration.Feature(
                name=name,
                min_supported_version=feature.level_min,
                max_supported_version=feature.level_max,
            )
            for name, feature in sorted(FEATURES.items())
        ),
    )
