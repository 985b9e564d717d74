"""What a broker does with the metadata: takes up its partitions, then follows every change."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.env import Now
from tidelog.log.log_dir import LogDir
from tidelog.slices import Slices
from tidelog.wire.declare import Message

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

log = logging.getLogger("tidelog.start")

ADOPT_COST = 20
"""Microseconds for a partition whose log is open (slices.py)."""


class MetadataFollower:
    """A MetadataActor. Until the metadata knows this process nothing is acted upon: what it says
    before is meant for the process that was here earlier, which may have had records that this
    one lacks. Its registration takes all leaderships from it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._is_adopting = False
        self._is_adopted = False

    def apply(self, records: Sequence[Message], now: Now) -> Slices[None]:
        if self._is_adopted:
            yield from self._broker.moved_leaders.apply(records, now)
            yield from self._broker.hosting.apply(records, now)
            self._broker.lifecycle.metadata_changed(self._broker.jobs.fresh(now))

    def reload(self, now: Now) -> Slices[None]:
        if self._is_adopted:
            self._broker.moved_leaders.begin()
            self._broker.reconfigure()
            yield from self._broker.fetchers.share_out(now)
            yield from self._broker.hosting.reload(now)
            self._broker.lifecycle.metadata_changed(self._broker.jobs.fresh(now))

    def caught_up(self, now: Now) -> None:
        broker = self._broker
        broker.lifecycle.caught_up(now)
        own = broker.image.brokers.get(broker.node_id)
        is_known = own is not None and own.incarnation_id == broker.lifecycle.incarnation_id
        if is_known and not self._is_adopting:
            self._is_adopting = True
            broker.jobs.start(self._adopt(now), now)

    def leader_changed(self, now: Now) -> None:
        self._broker.controller.leader_changed(now)

    def _adopt(self, now: Now) -> Slices[None]:
        """Everything that the metadata places here; then this broker may serve."""
        broker = self._broker
        for log_dir in list(broker.log_dirs.online):
            yield from self._set_strays_aside(log_dir)
        broker.hosting.is_open = True
        image = None
        while image is not broker.image:  # or it changed meanwhile
            image = broker.image
            broker.reconfigure()
            yield from broker.fetchers.share_out(now)
            yield from broker.hosting.reload(now)
        self._is_adopted = True
        broker.moved_leaders.begin()
        now = broker.jobs.fresh(now)
        broker.start(now)
        broker.lifecycle.adopted(now)

    def _set_strays_aside(self, log_dir: LogDir) -> Slices[None]:
        """A directory that the metadata does not place here is kept, under another name."""
        broker = self._broker
        for topic, index in [*log_dir.logs, *log_dir.damaged]:
            known = broker.image.topic(topic)
            state = None if known is None else known.partitions.get(index)
            is_placed = state is not None and broker.node_id in state.replicas
            opened = log_dir.logs.get((topic, index))
            if known is not None and opened is not None and opened.topic_id != known.topic_id:
                is_placed = False
            if not is_placed:
                path = log_dir.set_aside(topic, index, broker.rng.randbytes(16))
                log.warning("no topic has partition %s-%d: kept as %s", topic, index, path)
            yield ADOPT_COST
