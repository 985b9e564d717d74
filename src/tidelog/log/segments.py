"""The segments of a log in the order of their base offsets, and reading across them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tidelog.env import FileSlice
from tidelog.log.names import DELETED
from tidelog.log.segment import Segment
from tidelog.types import Offset


class Segments:
    """Never empty. The last one is the active one."""

    __slots__ = ("_bases", "_deleted", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        assert segments
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        assert self._bases == sorted(set(self._bases))
        self._deleted: list[str] = []
        """Renamed files, which are still to be removed."""
        self.active = segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, index: int) -> Segment:
        return self._segments[index]

    def append(self, segment: Segment) -> None:
        """The new active one."""
        assert not self._bases or segment.base_offset > self._bases[-1]
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def delete_oldest(self, count: int) -> list[Offset]:
        """The first ones, the oldest first; returns their base offsets."""
        assert count < len(self._segments)
        for segment in self._segments[:count]:
            self._delete(segment)
        bases = self._bases[:count]
        del self._segments[:count], self._bases[:count]
        return bases

    def delete_from(self, offset: Offset) -> None:
        """Those whose base offset is not below, but for the first segment."""
        self._delete_last(max(1, bisect_left(self._bases, offset)))
        self.active = self._segments[-1]

    def delete_all(self) -> None:
        """The next append begins anew."""
        self._delete_last(0)

    def _delete_last(self, kept: int) -> None:
        # The last ones first: a crash in between leaves a log without a hole.
        while len(self._segments) > kept:
            self._delete(self._segments.pop())
            self._bases.pop()

    def _delete(self, segment: Segment) -> None:
        self._deleted += segment.rename_files(DELETED)
        segment.let_go()

    def take_deleted(self) -> list[str]:
        """See Log.take_deleted."""
        deleted, self._deleted = self._deleted, []
        return deleted

    def from_offset(self, offset: Offset) -> list[Segment]:
        """The one that may hold the offset, and all after it."""
        return self._segments[max(0, bisect_right(self._bases, offset) - 1) :]

    def end_of(self, index: int, log_end_offset: Offset) -> Offset:
        """Where the segment of that index ends: the next one's base."""
        following = index + 1
        return self._bases[following] if following < len(self._bases) else log_end_offset

    def read(
        self,
        start_offset: Offset,
        end_offset_max: Offset,
        log_end_offset: Offset,
        bytes_max: int,
        at_least_one: bool,
    ) -> FileSlice | None:
        """See Log.read, which has checked the offsets."""
        segment = self.active
        if start_offset >= segment.base_offset:
            position, end_offset = segment.locate(start_offset), log_end_offset
        else:
            segment, position, end_offset = self._locate(start_offset, log_end_offset)
        end = segment.size if end_offset <= end_offset_max else segment.locate(end_offset_max)
        if end - position > bytes_max:
            end = segment.boundary_below(position, position + bytes_max)
            if end <= position and at_least_one:
                end = segment.batch_end(position)
        return FileSlice(segment.file, position, end - position) if end > position else None

    def _locate(self, offset: Offset, log_end_offset: Offset) -> tuple[Segment, int, Offset]:
        """The batch that holds the offset or, if compaction took it, the next one."""
        index = max(0, bisect_right(self._bases, offset) - 1)
        while True:
            segment = self._segments[index]
            position = segment.locate(offset)
            if position < segment.size or index == len(self._segments) - 1:
                return segment, position, self.end_of(index, log_end_offset)
            index += 1
