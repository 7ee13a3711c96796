"""Trees: mapping, flattening with paths, rebuilding, reducing, merging, as mlx.utils does it."""

from __future__ import annotations

from collections import namedtuple

import pytest

import mlxc as mx
from mlxc.utils import tree_flatten, tree_map, tree_map_with_path, tree_merge, tree_reduce, tree_unflatten

Pair = namedtuple("Pair", ["a", "b"])
TREE = {"a": [1, {"b": 2}], "c": (3, 4), "d": [], "e": {}, "f": None}


def test_tree_map_keeps_the_form():
    assert tree_map(lambda x: x + 1, [1, (2, {"a": 3})]) == [2, (3, {"a": 4})]
    assert tree_map(lambda x: x + 1, Pair(1, 2)) == Pair(2, 3)
    assert tree_map(lambda x: x * 2, 5) == 10
    assert tree_map(lambda x: x, TREE) == TREE
    mapped = tree_map(lambda x: (x * 2).tolist(), {"w": mx.array([1, 2])})
    assert mapped == {"w": [2, 4]}


def test_tree_map_takes_several_trees():
    assert tree_map(lambda x, y, z: x + y + z, [1, {"a": 2}], [10, {"a": 20}], [100, {"a": 200}]) == [111, {"a": 222}]
    # The rest may go deeper than the first tree.
    assert tree_map(lambda x, y: (x, y), [1], [[5, 6]]) == [(1, [5, 6])]


@pytest.mark.parametrize(("tree", "other"), [([1, 2], [1]), ({"a": 1}, {"b": 1}), ([1, 2], 5)])
def test_trees_of_different_form_are_refused(tree, other):
    with pytest.raises(ValueError, match="differ in form"):
        tree_map(lambda x, y: x, tree, other)
    with pytest.raises(ValueError, match="differ in form"):
        tree_map_with_path(lambda p, x, y: x, tree, other)


def test_is_leaf_stops_the_descent():
    def is_pair(x):
        return isinstance(x, list) and len(x) == 2

    assert tree_map(len, [[1, 2], [[3, 4]]], is_leaf=lambda x: x in ([1, 2], [3, 4])) == [2, [2]]
    assert tree_flatten({"a": [1, 2], "b": [3]}, is_leaf=is_pair) == [("a", [1, 2]), ("b.0", 3)]
    assert tree_reduce(lambda a, b: a + len(b), {"a": [1, 2], "b": [3, 4]}, 0, is_leaf=is_pair) == 4


def test_tree_map_with_path_gives_dotted_paths():
    assert tree_map_with_path(lambda p, x: p, {"a": [1, 2], "b": 3}) == {"a": ["a.0", "a.1"], "b": "b"}
    assert tree_map_with_path(lambda p, x: p, [1], path="q") == ["q.0"]


def test_flatten_and_unflatten_are_inverse():
    flat = tree_flatten({"a": [1, {"b": 2}], "c": (3, 4)})
    assert flat == [("a.0", 1), ("a.1.b", 2), ("c.0", 3), ("c.1", 4)]
    assert tree_unflatten(flat) == {"a": [1, {"b": 2}], "c": [3, 4]}
    assert tree_flatten(TREE) == [("a.0", 1), ("a.1.b", 2), ("c.0", 3), ("c.1", 4), ("f", None)]
    assert tree_flatten(5) == [("", 5)] and tree_unflatten([("", 5)]) == 5
    assert tree_unflatten([]) == []


def test_flatten_takes_a_destination_and_a_prefix():
    assert tree_flatten({"a": [1]}, destination={}) == {"a.0": 1}
    assert tree_flatten({"a": 1}, prefix=".p") == [("p.a", 1)]
    more = [("z", 0)]
    assert tree_flatten({"a": 1}, destination=more) is more and more == [("z", 0), ("a", 1)]


def test_unflatten_orders_lists_by_number():
    assert tree_unflatten([("a.1", 1), ("a.0", 2)]) == {"a": [2, 1]}
    assert tree_unflatten([("a.2", 1), ("a.0", 2)]) == {"a": [2, {}, 1]}
    assert tree_unflatten({"a.0": 1, "b": 2}) == {"a": [1], "b": 2}
    assert tree_unflatten([("0", 1), ("x", 2)]) == {"0": 1, "x": 2}
    assert tree_unflatten([(str(i), i) for i in range(12)]) == list(range(12))


def test_unflatten_refuses_paths_that_contradict_each_other():
    with pytest.raises(ValueError, match="'a'"):
        tree_unflatten([("a", 1), ("a.b", 2)])
    with pytest.raises(ValueError, match="holes"):
        tree_unflatten([("0", 1), ("123456789", 2)])


def test_reduce_folds_over_the_leaves():
    assert tree_reduce(lambda a, b: a + b, {"a": [1, 2], "b": 3}) == 6
    assert tree_reduce(lambda a, b: a + b, {"a": [1, 2], "b": 3}, 10) == 16
    assert tree_reduce(lambda a, b: a + b, []) is None


def test_merge_unites():
    assert tree_merge({"a": 1}, {"b": 2}) == {"a": 1, "b": 2}
    assert tree_merge({"a": 1}, {"a": 2}, lambda a, b: a + b) == {"a": 3}
    assert tree_merge({"a": [1, {"x": 1}]}, {"a": [2, {"y": 1}]}, max) == {"a": [2, {"x": 1, "y": 1}]}
    assert tree_merge({"a": [1]}, {"a": [None, 2]}) == {"a": [1, 2]}
    assert tree_merge({"a": None}, {"a": 2}) == {"a": 2}
    assert tree_merge(None, 2) == 2
    with pytest.raises(ValueError, match="merge_fn"):
        tree_merge({"a": 1}, {"a": 2})
