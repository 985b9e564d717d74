"""Which leader epoch began at which offset: how replicas find where their logs diverge."""

from __future__ import annotations

from bisect import bisect_right

from tidelog.log.checkpoint import MalformedFile, format_lines, parse_lines
from tidelog.types import Offset

UNDEFINED = (-1, -1)
NO_EPOCH = -1


class LeaderEpochs:
    """Epochs and their start offsets, both strictly rising."""

    __slots__ = ("epochs", "is_dirty", "latest", "start_offsets")

    def __init__(self, entries: list[tuple[int, Offset]] | None = None) -> None:
        self.epochs = [epoch for epoch, _ in entries or ()]
        self.start_offsets = [start for _, start in entries or ()]
        self.latest = self.epochs[-1] if self.epochs else NO_EPOCH
        self.is_dirty = False
        """Whether the file says something else."""

    def entries(self) -> list[tuple[int, Offset]]:
        """As the file lists them."""
        return list(zip(self.epochs, self.start_offsets, strict=True))

    def assign(self, epoch: int, start_offset: Offset) -> bool:
        """The epoch begins here, with a batch or an election; whether that is news."""
        if epoch == self.latest and start_offset >= self.start_offsets[-1]:
            return False
        while self.epochs and (self.latest >= epoch or self.start_offsets[-1] >= start_offset):
            self._pop()
        self.epochs.append(epoch)
        self.start_offsets.append(start_offset)
        self.latest = epoch
        self.is_dirty = True
        return True

    def _pop(self) -> None:
        self.epochs.pop()
        self.start_offsets.pop()
        self.latest = self.epochs[-1] if self.epochs else NO_EPOCH
        self.is_dirty = True

    def truncate_from_end(self, end_offset: Offset) -> None:
        """Forget epochs that begin at or above: also one of ours that never had a record."""
        while self.start_offsets and self.start_offsets[-1] >= end_offset:
            self._pop()

    def truncate_from_start(self, start_offset: Offset) -> None:
        """Forget epochs that ended below; the one that holds start_offset now begins there."""
        below = bisect_right(self.start_offsets, start_offset)
        if below == 0 or (below == 1 and self.start_offsets[0] == start_offset):
            return
        del self.epochs[: below - 1], self.start_offsets[: below - 1]
        self.start_offsets[0] = start_offset
        self.is_dirty = True

    def clear(self) -> None:
        """Nothing is known any more."""
        while self.epochs:
            self._pop()

    def epoch_for_offset(self, offset: Offset) -> int:
        """In which epoch it was or will be written; -1 if that is unknown."""
        index = bisect_right(self.start_offsets, offset) - 1
        return self.epochs[index] if index >= 0 else NO_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: Offset) -> tuple[int, Offset]:
        """The greatest known epoch not above, and where it ends; (-1, -1) if undefined."""
        if epoch == NO_EPOCH or epoch > self.latest:
            return UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        index = bisect_right(self.epochs, epoch)
        if index == 0:
            return epoch, self.start_offsets[0]
        return self.epochs[index - 1], self.start_offsets[index]

    def to_bytes(self) -> bytes:
        """The content of leader-epoch-checkpoint."""
        return format_lines(f"{epoch} {start}" for epoch, start in self.entries())


def parse_leader_epochs(name: str, content: bytes | None) -> LeaderEpochs:
    """Raises MalformedFile."""
    epochs = LeaderEpochs()
    for line in parse_lines(name, content):
        try:
            epoch, start_offset = map(int, line.split(" "))
        except ValueError as error:
            raise MalformedFile(name, f"{line!r}: want epoch and start offset") from error
        if epochs.epochs and (epoch <= epochs.latest or start_offset <= epochs.start_offsets[-1]):
            raise MalformedFile(name, f"{line!r} does not rise")
        epochs.assign(epoch, start_offset)
    epochs.is_dirty = False
    return epochs
