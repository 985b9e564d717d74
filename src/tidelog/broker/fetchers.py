"""All that a broker follows: which fetcher has which partition."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from tidelog.broker.fetcher import Fetcher
from tidelog.broker.followed import State
from tidelog.env import Now
from tidelog.replica.partition import NO_LEADER, Partition
from tidelog.slices import Slices

if TYPE_CHECKING:
    from tidelog.broker.broker import Broker

FOLLOW_COST = 20
"""Microseconds for a partition that gets another fetcher (slices.py)."""


class Fetchers:
    """One for each leader, or several (num.replica.fetchers)."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._count = broker.config.num_replica_fetchers
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._following: dict[Partition, Fetcher] = {}
        self.cut: dict[Partition, int] = {}
        """Those that were truncated, as often as the disk does not know it yet, whoever leads."""

    def follow(self, partition: Partition, now: Now) -> None:
        """Its leader, in the epoch that it has now; nobody, if there is none."""
        self.unfollow(partition)
        if partition.leader_id == NO_LEADER or partition.is_leader:
            return
        share = crc32(partition.topic.encode()) + partition.index
        key = partition.leader_id, share % self._count
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = Fetcher(self._broker, *key)
        self._following[partition] = fetcher
        fetcher.add(partition, now)

    def share_out(self, now: Now) -> Slices[None]:
        """Anew, after num.replica.fetchers may have changed."""
        count = self._broker.config.num_replica_fetchers
        if count == self._count:
            return
        self._count = count
        for partition in list(self._following):
            if partition in self._following:
                self.follow(partition, now)
            yield FOLLOW_COST

    def unfollow(self, partition: Partition) -> None:
        fetcher = self._following.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def state_of(self, partition: Partition) -> State | None:
        """None if it follows nobody."""
        fetcher = self._following.get(partition)
        return None if fetcher is None else fetcher.state_of(partition)
