"""Replication that leaves room for others: the bytes a second that replicas may take which are
catching up, as Kafka's tools set them for the time of a reassignment.

`leader.replication.throttled.rate` of a broker counts what it sends to replicas that its topics'
`leader.replication.throttled.replicas` name, `follower.…` what it fetches. Replicas that are in
sync are never held up: clients wait for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from tidelog.config.replication_rates import FOLLOWER_RATE, LEADER_RATE

SAMPLE_MS = 1000
SAMPLES_MAX = 11
"""The rate is that of the last eleven seconds: what was not used in one may be in the next."""
ALL = "*"


class ReplicationQuota:
    """One rate, and what has been used of it."""

    def __init__(self) -> None:
        self.bytes_a_second: int | None = None
        """None where nothing limits it."""
        self._samples: deque[list[int]] = deque()
        """When each second began, and the bytes of it."""

    def limit(self, text: str | None) -> None:
        """What the configs say; nonsense, which the controller refuses, limits nothing."""
        try:
            self.bytes_a_second = None if text is None else max(1, int(text))
        except ValueError:
            self.bytes_a_second = None
        if self.bytes_a_second is None:
            self._samples.clear()

    def record(self, size: int, now_ms: int) -> None:
        if self.bytes_a_second is None:
            return
        if not self._samples or now_ms - self._samples[-1][0] >= SAMPLE_MS:
            self._samples.append([now_ms, 0])
        self._samples[-1][1] += size

    def wait_ms(self, now_ms: int) -> int:
        """How long until the rate is kept again; 0 if it is."""
        if self.bytes_a_second is None:
            return 0
        while self._samples and now_ms - self._samples[0][0] > SAMPLES_MAX * SAMPLE_MS:
            self._samples.popleft()
        if not self._samples:
            return 0
        elapsed_ms = max(SAMPLE_MS, now_ms - self._samples[0][0])
        needed_ms = sum(size for _, size in self._samples) * 1000 // self.bytes_a_second
        return max(0, needed_ms - elapsed_ms)


class ReplicationQuotas:
    """A broker's two."""

    def __init__(self) -> None:
        self.leader = ReplicationQuota()
        self.follower = ReplicationQuota()

    def reconfigure(self, cluster: Mapping[str, str], broker: Mapping[str, str]) -> None:
        self.leader.limit(broker.get(LEADER_RATE, cluster.get(LEADER_RATE)))
        self.follower.limit(broker.get(FOLLOWER_RATE, cluster.get(FOLLOWER_RATE)))


def is_named(throttled: tuple[str, ...], index: int, broker_id: int) -> bool:
    """By a topic's list of partition:broker, or all of them."""
    return ALL in throttled or f"{index}:{broker_id}" in throttled
