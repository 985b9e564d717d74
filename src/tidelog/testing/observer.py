"""Looks at a cluster as its clients do, and waits until it looks as it should."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from tidelog.client import Client, ClientError, ClientSettings, parse_servers
from tidelog.client.admin import describe_cluster
from tidelog.client.quorum import describe_quorum
from tidelog.client.topics import DescribedPartition, NewTopic, create_topics, describe_topics

POLL_SECONDS = 0.02
ANSWER_MS_MAX = 2_000
"""A node that does not answer in this time is asked again, or another is."""

T = TypeVar("T")


class Observer:
    """Asks these nodes. Connections are not kept: what was true a moment ago may not be."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._settings = settings(addresses)
        self._each = [settings([address]) for address in addresses]

    def are_serving(self, nodes: set[int]) -> bool:
        """Whether every one of these brokers is in service; waits a moment if not."""
        try:
            with Client(self._settings) as client:
                brokers = client.run(describe_cluster).brokers
        except ClientError:
            time.sleep(POLL_SECONDS)
            return False
        if nodes <= {broker.node_id for broker in brokers if not broker.is_fenced}:
            return True
        time.sleep(POLL_SECONDS)
        return False

    def create_topic(
        self, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        new = NewTopic(topic, partitions, replication_factor, (), configs)
        with Client(self._settings) as client:
            error = client.run(create_topics, [new], timeout_ms=30_000)[topic]
        if error is not None:
            raise error

    def views(self, topic: str) -> list[dict[int, DescribedPartition]]:
        """The partitions as each node knows them; none, where the topic is unknown. A node that
        was away until now has yet to hear the news, so that one alone is not to be believed."""
        views = []
        for one in self._each:
            with Client(one) as client:
                found = client.run(describe_topics, [topic]).get(topic)
            views.append({} if found is None else {one.partition: one for one in found.partitions})
        return views

    def leader(self, topic: str, partition: int, down: Collection[int], timeout: float) -> int:
        """The one that all name. Of nodes that are down it takes a moment until all know."""

        def look() -> tuple[int | None, str]:
            found = [view[partition] for view in self.views(topic) if partition in view]
            if len(found) < len(self._each):
                return None, f"there is no partition {topic}-{partition}"
            leaders = sorted({one.leader_id for one in found})
            is_led = len(leaders) == 1 and leaders[0] >= 0 and leaders[0] not in down
            isr = list(found[0].isr)
            instead = f"{topic}-{partition} has no leader that runs: {leaders}; its ISR is {isr}"
            return (leaders[0] if is_led else None), instead

        return self._until(look, timeout)

    def isr(self, topic: str, partition: int, timeout: float) -> set[int]:
        """As the first of the nodes knows it."""

        def look() -> tuple[set[int] | None, str]:
            found = self.views(topic)[0].get(partition)
            instead = f"there is no partition {topic}-{partition}"
            return (None if found is None else set(found.isr)), instead

        return self._until(look, timeout)

    def controller(self, timeout: float) -> int:
        def look() -> tuple[int | None, str]:
            with Client(self._settings) as client:
                leader_id = client.run(describe_quorum).leader_id
            return (leader_id if leader_id >= 0 else None), "there is no active controller"

        return self._until(look, timeout)

    def wait_isr(
        self, topic: str, partition: int | None, isr: Collection[int] | None, timeout: float
    ) -> None:
        def look() -> tuple[bool | None, str]:
            views = self.views(topic)
            chosen = [
                one for view in views for index, one in view.items() if partition in (None, index)
            ]
            for one in chosen:
                wanted = set(one.replicas if isr is None else isr)
                if set(one.isr) != wanted:
                    seen = f"the ISR of {topic}-{one.partition} is {sorted(one.isr)}"
                    return None, f"{seen}, not {sorted(wanted)}"
            which = topic if partition is None else f"{topic}-{partition}"
            return (bool(chosen) and all(views)) or None, f"there is no {which}"

        self._until(look, timeout)

    def _until(self, look: Callable[[], tuple[T | None, str]], timeout: float) -> T:
        """Look again and again until there is something to see; what it was instead, if not."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                found, instead = look()
            except ClientError as error:
                found, instead = None, str(error)
            if found is not None:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {timeout} s {instead}")
            time.sleep(POLL_SECONDS)


def settings(addresses: Sequence[str]) -> ClientSettings:
    return ClientSettings(
        bootstrap_servers=parse_servers(",".join(addresses)),
        client_id="tidelog-testing",
        bootstrap_timeout_ms=1,
        timeout_ms=ANSWER_MS_MAX,
        request_timeout_ms=ANSWER_MS_MAX,
    )
