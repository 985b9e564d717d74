"""Elections that nobody asks for: leadership goes back to the preferred replicas, and to whoever is
alive where nobody leads and the topic prefers that to waiting."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.controller.elections import (
    ELECTIONS_MAX,
    elect_preferred,
    elect_unclean,
    imbalanced_partitions,
)
from tidelog.env import Now
from tidelog.errors import ErrorCode
from tidelog.metadata.image import TopicPartition
from tidelog.slices import Slices
from tidelog.wire.declare import Message

if TYPE_CHECKING:
    from tidelog.quorum_controller.active import Active

log = logging.getLogger("tidelog.controller")


class LeaderBalance:
    """Both come again and again."""

    def __init__(self, active: Active) -> None:
        self._active = active
        self._is_looking = False
        """Whether the last look for imbalance is still under way."""

    def start(self, now: Now) -> None:
        config = self._active.controller.config
        self._is_looking = False
        if config.auto_leader_rebalance_enable:
            seconds = config.leader_imbalance_check_interval_seconds
            self._active.every(seconds * 1000, self._balance, now)
        self._active.every(config.unclean_leader_election_interval_ms, self._elect_unclean, now)

    def _balance(self, now: Now) -> None:
        """All partitions are looked at without keeping other decisions waiting; those that were
        found are looked at once more when it is decided."""
        if self._is_looking:
            return
        self._is_looking = True
        controller = self._active.controller
        percentage = controller.config.leader_imbalance_per_broker_percentage
        look = imbalanced_partitions(controller.latest, percentage)
        controller.runtime.jobs.start(look, now, lambda places: self._elect_preferred(places, now))

    def _elect_preferred(self, places: list[TopicPartition], now: Now) -> None:
        """Some of these, then the others."""
        if not places:
            self._is_looking = False
            return
        controller = self._active.controller

        def decide() -> Slices[Sequence[Message]]:
            some = places[:ELECTIONS_MAX]
            decision = yield from elect_preferred(controller.latest, some, controller.config)
            if decision.response:
                log.info("%d partitions are led by their preferred replica", decision.response)
            return decision.records

        def written(error: ErrorCode, now: Now) -> None:
            rest = places[ELECTIONS_MAX:] if error is ErrorCode.NONE else []
            self._active.at(now.monotonic_ms, lambda now: self._elect_preferred(rest, now))

        self._active.write(decide, now, written)

    def _elect_unclean(self, now: Now) -> None:
        controller = self._active.controller
        elected = 0

        def decide() -> Slices[Sequence[Message]]:
            nonlocal elected
            decision = yield from elect_unclean(controller.latest, controller.config)
            elected = decision.response
            return decision.records

        def written(error: ErrorCode, now: Now) -> None:
            if error is ErrorCode.NONE and elected == ELECTIONS_MAX:
                self._active.at(now.monotonic_ms, self._elect_unclean)

        self._active.write(decide, now, written)
