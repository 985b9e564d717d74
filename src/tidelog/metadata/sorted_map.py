"""A sorted map that never changes: an update gives a new map that shares all but one path.

A B-tree of plain tuples. Searching and copying a node is bisect and slicing, which run in C; an
update of a map with 100,000 keys copies three nodes, with 100 keys two. Sorted, not hashed, so
that iterating does not depend on the interpreter's hash seed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar, cast, overload

NODE_KEYS_MAX = 32
"""Larger nodes make shallower trees and dearer copies; 32 is where an update is cheapest."""

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

# A leaf is (keys, values). An inner node is (keys, children, None): child i holds the keys from
# keys[i] on; what is below keys[0] belongs to child 0 as well.
Node = tuple[Any, ...]
EMPTY_LEAF: Node = ((), ())


class SortedMap(Generic[K, V]):
    """Keys of one type that can be compared; values of any."""

    __slots__ = ("_root", "_size")

    def __init__(self, _root: Node = EMPTY_LEAF, _size: int = 0) -> None:
        self._root = _root
        self._size = _size

    @staticmethod
    def of(entries: Mapping[K, V] | Iterable[tuple[K, V]]) -> SortedMap[K, V]:
        made: SortedMap[K, V] = SortedMap()
        for key, value in entries.items() if isinstance(entries, Mapping) else entries:
            made = made.set(key, value)
        return made

    def __len__(self) -> int:
        return self._size

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        node = self._root
        while len(node) == 3:
            index = bisect_right(node[0], key) - 1
            node = node[1][index if index > 0 else 0]
        keys = node[0]
        index = bisect_left(keys, key)
        if index < len(keys) and keys[index] == key:
            return node[1][index]
        return default

    def __getitem__(self, key: K) -> V:
        found = self.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(key)
        return cast(V, found)

    def __contains__(self, key: K) -> bool:
        return self.get(key, _MISSING) is not _MISSING

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self.items())

    def keys(self) -> Iterator[K]:
        return iter(self)

    def values(self) -> Iterator[V]:
        return (value for _, value in self.items())

    def items(self) -> Iterator[tuple[K, V]]:
        """In the order of the keys."""
        return _walk(self._root)

    def items_from(self, key: K) -> Iterator[tuple[K, V]]:
        """In the order of the keys, from this one on, whether it is there or not."""
        return _walk_from(self._root, key)

    def set(self, key: K, value: V) -> SortedMap[K, V]:
        """With this key at this value."""
        root, added = _set(self._root, key, value)
        if len(root) == 1:
            nodes = root[0]
            root = (tuple(_first_key(node) for node in nodes), nodes, None)
        return SortedMap(root, self._size + added)

    def remove(self, key: K) -> SortedMap[K, V]:
        """Without this key; KeyError if it is not there."""
        root = _remove(self._root, key)
        while len(root) == 3 and len(root[1]) <= 1:
            root = root[1][0] if root[1] else EMPTY_LEAF
        return SortedMap(root, self._size - 1)

    def discard(self, key: K) -> SortedMap[K, V]:
        """Without this key, which need not be there."""
        return self.remove(key) if key in self else self

    def remove_between(self, first: K, end: K) -> SortedMap[K, V]:
        """Without the keys from first on, below end."""
        root, removed = _remove_between(self._root, first, end)
        while len(root) == 3 and len(root[1]) <= 1:
            root = root[1][0] if root[1] else EMPTY_LEAF
        return SortedMap(root, self._size - removed)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SortedMap):
            return NotImplemented
        return self._size == other._size and all(
            mine == theirs for mine, theirs in zip(self.items(), other.items(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # values need not be hashable

    def __repr__(self) -> str:
        return f"SortedMap.of({dict(self.items())!r})"


_MISSING = object()


def _first_key(node: Node) -> Any:
    return node[0][0]


def _walk(node: Node) -> Iterator[tuple[Any, Any]]:
    if len(node) == 3:
        for child in node[1]:
            yield from _walk(child)
    else:
        yield from zip(node[0], node[1], strict=True)


def _walk_from(node: Node, key: Any) -> Iterator[tuple[Any, Any]]:
    keys = node[0]
    if len(node) == 3:
        index = max(bisect_right(keys, key) - 1, 0)
        yield from _walk_from(node[1][index], key)
        for child in node[1][index + 1 :]:
            yield from _walk(child)
    else:
        index = bisect_left(keys, key)
        yield from zip(keys[index:], node[1][index:], strict=True)


def _set(node: Node, key: Any, value: Any) -> tuple[Node, int]:
    """The node with the key, and how many keys it has more. A node that became too large comes
    back as a tuple of one: the pair of nodes that it was cut into."""
    keys, items = node[0], node[1]
    if len(node) == 2:
        index = bisect_left(keys, key)
        if index < len(keys) and keys[index] == key:
            return (keys, (*items[:index], value, *items[index + 1 :])), 0
        keys = (*keys[:index], key, *keys[index:])
        items = (*items[:index], value, *items[index:])
        if len(keys) <= NODE_KEYS_MAX:
            return (keys, items), 1
        half = len(keys) // 2
        return (((keys[:half], items[:half]), (keys[half:], items[half:])),), 1
    index = bisect_right(keys, key) - 1
    if index < 0:
        index = 0
    child, added = _set(items[index], key, value)
    if len(child) != 1:
        return (keys, (*items[:index], child, *items[index + 1 :]), None), added
    left, right = child[0]
    keys = (*keys[:index], left[0][0], right[0][0], *keys[index + 1 :])
    items = (*items[:index], left, right, *items[index + 1 :])
    if len(keys) <= NODE_KEYS_MAX:
        return (keys, items, None), added
    half = len(keys) // 2
    return (((keys[:half], items[:half], None), (keys[half:], items[half:], None)),), added


def _remove(node: Node, key: Any) -> Node:
    keys, items = node[0], node[1]
    if len(node) == 2:
        index = bisect_left(keys, key)
        if index == len(keys) or keys[index] != key:
            raise KeyError(key)
        return (keys[:index] + keys[index + 1 :], items[:index] + items[index + 1 :])
    index = max(bisect_right(keys, key) - 1, 0)
    children = [*items[:index], _remove(items[index], key), *items[index + 1 :]]
    _mend(children, index)
    return (tuple(_first_key(child) for child in children), tuple(children), None)


def _remove_between(node: Node, first: Any, end: Any) -> tuple[Node, int]:
    """The node without these keys, and how many they were: only the nodes at both ends of the
    range are looked into, those between are dropped as they are."""
    keys, items = node[0], node[1]
    if len(node) == 2:
        start, stop = bisect_left(keys, first), bisect_left(keys, end)
        if start >= stop:
            return node, 0
        return (keys[:start] + keys[stop:], items[:start] + items[stop:]), stop - start
    left = max(bisect_right(keys, first) - 1, 0)
    right = max(bisect_left(keys, end) - 1, left)
    ends = [_remove_between(items[index], first, end) for index in sorted({left, right})]
    removed = sum(count for _, count in ends) + sum(map(_size, items[left + 1 : right]))
    kept = [child for child, _ in ends if child[0]]
    children = (*items[:left], *kept, *items[right + 1 :])
    return (tuple(_first_key(child) for child in children), children, None), removed


def _size(node: Node) -> int:
    return sum(map(_size, node[1])) if len(node) == 3 else len(node[0])


def _mend(children: list[Node], index: int) -> None:
    """Drop a child that is empty, or join it with a neighbour where both fit into one: a map
    that shrinks gets shallow again."""
    if not children[index][0]:
        del children[index]
        return
    for left in (index - 1, index):
        if 0 <= left < len(children) - 1:
            one, two = children[left], children[left + 1]
            if len(one[0]) + len(two[0]) <= NODE_KEYS_MAX // 2:
                children[left : left + 2] = [(one[0] + two[0], one[1] + two[1], *one[2:])]
                return
