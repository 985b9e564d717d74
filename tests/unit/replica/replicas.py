"""Replicas of one partition in memory: their logs on simulated disks, no wire between them."""

from __future__ import annotations

from tests.unit.log.log_samples import built, open_log, read_all, valid

from tidelog.env import Now
from tidelog.log.config import LogConfig
from tidelog.log.results import Appended
from tidelog.replica.following import append_as_follower, leader_told
from tidelog.replica.isr import IsrChange
from tidelog.replica.partition import Partition
from tidelog.types import Uuid

TOPIC_ID = Uuid(b"t" * 16)
LAG_MS = 30_000
WALL_MS = 1_800_000_000_000


class Brokers:
    """What the metadata says."""

    def __init__(self, *ids: int) -> None:
        self.epochs = {id_: id_ * 10 for id_ in ids}
        self.fenced: set[int] = set()
        self.stopping: set[int] = set()

    def broker_epoch(self, broker_id: int, /) -> int:
        return self.epochs.get(broker_id, -1)

    def is_alive(self, broker_id: int, /) -> bool:
        return broker_id in self.epochs and broker_id not in self.fenced

    def is_active(self, broker_id: int, /) -> bool:
        return self.is_alive(broker_id) and broker_id not in self.stopping


class Replicas:
    """A partition on brokers 1, 2, 3; broker 1 leads it in epoch 0."""

    def __init__(self, *ids: int, min_isr: int = 2, lead: bool = True) -> None:
        self.ids = ids or (1, 2, 3)
        self.brokers = Brokers(*self.ids)
        self.now = Now(1_000_000, WALL_MS)
        self.config = LogConfig(min_insync_replicas=min_isr)
        self.partitions = {id_: self.make(id_) for id_ in self.ids}
        self.leader_id, self.leader_epoch, self.partition_epoch = -1, -1, -1
        if lead:
            self.elect(1, isr=self.ids)

    def make(self, broker_id: int, high_watermark: int = 0) -> Partition:
        return Partition(
            "t",
            TOPIC_ID,
            0,
            open_log(config=self.config),
            node_id=broker_id,
            high_watermark=high_watermark,
            brokers=self.brokers,
            lag_time_max_ms=LAG_MS,
        )

    def __getitem__(self, broker_id: int) -> Partition:
        return self.partitions[broker_id]

    @property
    def leader(self) -> Partition:
        return self.partitions[self.leader_id]

    def advance(self, ms: int) -> None:
        self.now = Now(self.now.monotonic_ms + ms, self.now.wall_ms + ms)

    def elect(self, leader_id: int, isr: tuple[int, ...], *, only: tuple[int, ...] = ()) -> None:
        """A new epoch, which all learn of, or only some."""
        self.leader_id, self.leader_epoch = leader_id, self.leader_epoch + 1
        self.change(isr, only=only)

    def change(self, isr: tuple[int, ...], *, only: tuple[int, ...] = ()) -> None:
        """A PartitionChangeRecord."""
        self.partition_epoch += 1
        for id_ in only or self.ids:
            self.tell(id_, isr)

    def tell(
        self, broker_id: int, isr: tuple[int, ...], partition_epoch: int | None = None
    ) -> bool:
        partition = self.partitions[broker_id]
        epochs = {
            "leader_epoch": self.leader_epoch,
            "partition_epoch": self.partition_epoch if partition_epoch is None else partition_epoch,
            "replicas": self.ids,
        }
        if broker_id == self.leader_id:
            return partition.become_leader(**epochs, isr=isr, now=self.now)
        return partition.become_follower(leader_id=self.leader_id, **epochs)

    def append(self, count: int = 1, **fields: int) -> Appended:
        appended = self.leader.append(valid(built(count, **fields)), self.now)
        assert isinstance(appended, Appended)
        return appended

    def fetch(
        self, follower_id: int, *, offset: int | None = None, broker_epoch: int | None = None
    ) -> IsrChange | None:
        """One fetch: what it tells the leader, then what it brings the follower."""
        leader, follower = self.leader, self.partitions[follower_id]
        fetch_offset = follower.log.log_end_offset if offset is None else offset
        told = leader.high_watermark, leader.log.log_start_offset
        piece = leader.log.read(fetch_offset, leader.log.log_end_offset, 1 << 20)
        change = leader.follower_fetched(
            follower_id,
            fetch_offset=fetch_offset,
            log_start_offset=follower.log.log_start_offset,
            broker_epoch=self.brokers.epochs[follower_id] if broker_epoch is None else broker_epoch,
            now=self.now,
        )
        if offset is None:
            if piece is not None:
                append_as_follower(follower, memoryview(piece.read()), self.now)
            leader_told(follower, *told)
        return change

    def replicate(self, *ids: int) -> None:
        """Until the leader knows that they have all, and they know that it does."""
        for _ in range(3):
            for id_ in ids or [id_ for id_ in self.ids if id_ != self.leader_id]:
                self.fetch(id_)

    def watermarks(self) -> dict[int, int]:
        return {id_: partition.high_watermark for id_, partition in self.partitions.items()}

    def ends(self) -> dict[int, int]:
        return {id_: partition.log.log_end_offset for id_, partition in self.partitions.items()}


def content(partition: Partition) -> list[bytes]:
    return [bytes(batch.to_view()) for batch in read_all(partition.log)]
