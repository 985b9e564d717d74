"""The map behaves as a dict that is sorted and copied at each change, at the price of one path."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import examples

from tidelog.metadata.sorted_map import NODE_KEYS_MAX, SortedMap

changes = st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=400)


@examples(60)
@given(changes)
def test_it_is_a_sorted_dict(steps):
    model: dict[int, int] = {}
    made: SortedMap[int, int] = SortedMap()
    for number, (key, removes) in enumerate(steps):
        before, old = made, dict(model)
        if removes:
            made = made.discard(key)
            model.pop(key, None)
        else:
            made = made.set(key, number)
            model[key] = number
        assert made.get(key) == model.get(key)
        assert len(made) == len(model)
        if number % 50 == 0:
            assert dict(before.items()) == old, "an older map is as it was"
    assert list(made.items()) == sorted(model.items())
    for start in (-1, 0, 57, 200, 201):
        expected = [item for item in sorted(model.items()) if item[0] >= start]
        assert list(made.items_from(start)) == expected


def test_a_large_map_filled_in_any_order_and_emptied_again():
    keys = list(range(5000))
    random.Random(1).shuffle(keys)
    made = SortedMap.of((key, str(key)) for key in keys)
    assert list(made) == sorted(keys)
    assert list(made.values()) == [str(key) for key in sorted(keys)]
    assert made == SortedMap.of({key: str(key) for key in reversed(keys)})
    random.Random(2).shuffle(keys)
    for left, key in enumerate(reversed(keys)):
        made = made.remove(key)
        assert len(made) == len(keys) - left - 1
        assert key not in made
    assert made == SortedMap()
    assert made._root == SortedMap()._root, "shallow again"


@examples(60)
@given(st.sets(st.integers(0, 3000), max_size=600), st.integers(0, 3000), st.integers(0, 3000))
def test_a_range_is_removed(keys, first, end):
    made = SortedMap.of((key, key) for key in sorted(keys))
    left = made.remove_between(first, end)
    kept = sorted(key for key in keys if not first <= key < end)
    assert (list(left), len(left)) == (kept, len(kept))
    assert list(made) == sorted(keys), "an older map is as it was"
    for key in sorted(keys):
        left = left.set(key, key)
    assert left == made


def test_absent_keys():
    made = SortedMap.of({"a": 1})
    assert made.get("b") is None
    assert made.get("b", 7) == 7
    assert made["a"] == 1
    with pytest.raises(KeyError):
        made["b"]
    with pytest.raises(KeyError):
        made.remove("b")
    assert made.discard("b") is made


def nodes(made):
    found, left = {}, [made._root]
    while left:
        node = left.pop()
        found[id(node)] = node
        if len(node) == 3:
            left += node[1]
    return found


def copied(size):
    """How many entries are copied by an update, an insert and a removal in a map of this size."""
    made = SortedMap.of((key, key) for key in range(0, 2 * size, 2))
    shared = nodes(made)
    changed = [made.set(size, -1), made.set(size + 1, -1), made.remove(size)]
    fresh = [
        sum(len(node[0]) for key, node in nodes(one).items() if key not in shared)
        for one in changed
    ]
    return max(fresh)


def test_a_change_copies_one_path_however_large_the_map():
    assert copied(100) <= 3 * NODE_KEYS_MAX
    assert copied(20_000) <= 4 * (NODE_KEYS_MAX + 1)
