"""A controller makes itself known to the active one, which may be itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.controller.registration import CONTROLLERS_REGISTER_SINCE
from tidelog.env import Now
from tidelog.errors import PeerFailure
from tidelog.metadata.features import FEATURES
from tidelog.metadata.format import random_uuid
from tidelog.wire.declare import Message
from tidelog.wire.messages import controller_registration as wire

if TYPE_CHECKING:
    from tidelog.quorum_controller.controller import QuorumController

PURPOSE = "registration"
RETRY_MS = 1000


class SelfRegistration:
    """Every start of a process is registered once, and again if the metadata forgets it."""

    def __init__(self, controller: QuorumController) -> None:
        self._controller = controller
        self._incarnation_id = random_uuid(controller.runtime.rng)
        self._is_asking = False

    def check(self, now: Now) -> None:
        """Ask, if the metadata does not have this process."""
        image = self._controller.image
        known = image.controllers.get(self._controller.node_id)
        is_known = known is not None and known.incarnation_id == self._incarnation_id
        if is_known or self._is_asking or image.metadata_version < CONTROLLERS_REGISTER_SINCE:
            return
        self._is_asking = True
        self._controller.channel.ask(self._request(), self._answered, now, purpose=PURPOSE)

    def _answered(self, answer: Message | PeerFailure, now: Now) -> None:
        """Whatever it is: the metadata tells, and needs a moment for that."""
        self._controller.runtime.schedule.at(now.monotonic_ms + RETRY_MS, self._check_again)

    def _check_again(self, now: Now) -> None:
        self._is_asking = False
        self.check(now)

    def _request(self) -> wire.ControllerRegistrationRequest:
        config = self._controller.static_config
        return wire.ControllerRegistrationRequest(
            controller_id=config.node_id,
            incarnation_id=self._incarnation_id,
            zk_migration_ready=False,
            listeners=tuple(
                wire.Listener(
                    name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
                )
                for e in config.controller_endpoints
            ),
            features=tuple(
                wire.Feature(
                    name=name,
                    min_supported_version=feature.level_min,
                    max_supported_version=feature.level_max,
                )
                for name, feature in sorted(FEATURES.items())
            ),
        )
