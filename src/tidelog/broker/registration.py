"""A broker makes itself known. A new incarnation leads its partitions in new epochs: what was
appended but not flushed may be gone after a crash, and must be told from what takes its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.metadata.features import FEATURES
from tidelog.types import Uuid
from tidelog.wire.messages import broker_registration

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
