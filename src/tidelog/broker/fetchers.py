"""All that a broker follows: which fetcher has which partition."""

from __future__ import annotations

from collections.abc import Callable
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
        """Those that were truncated, as often as the disk does not know it yet, whoever leads:
        none of them may grow."""

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
                self.follow(partition, self._broker.jobs.fresh(now))
            yield FOLLOW_COST

    def unfollow(self, partition: Partition) -> None:
        fetcher = self._following.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def idle(self, fetcher: Fetcher) -> None:
        """It has nobody to follow, and its leader knows: that one may be gone for ever."""
        key = fetcher.leader_id, fetcher.index
        if self._fetchers.get(key) is fetcher:
            del self._fetchers[key]

    def forget(self, partition: Partition) -> None:
        """It is not hosted any more."""
        self.unfollow(partition)
        self.cut.pop(partition, None)

    def when_durable(self, partition: Partition, then: Callable[[Now], None], now: Now) -> None:
        """Its log was cut: call then when the disk knows."""
        log_dir = self._broker.log_dirs.holding((partition.topic, partition.index))
        if log_dir is None:
            return

        def written(now: Now) -> None:
            if partition not in self.cut:
                return
            self.cut[partition] -= 1
            if not self.cut[partition]:
                del self.cut[partition]
                self._broker.hosting.look_again(partition, now)  # it may have been elected
            then(now)

        self.cut[partition] = self.cut.get(partition, 0) + 1
        self._broker.checkpoints.write(log_dir, now, written, partition.log)

    def state_of(self, partition: Partition) -> State | None:
        """None if it follows nobody."""
        fetcher = self._following.get(partition)
        return None if fetcher is None else fetcher.state_of(partition)
