"""Trees: any nesting of dict, list and tuple, with anything else as leaves. mlxc.utils, as mlx.utils.

Parameters of models, states of optimizers and batches of data are trees; these functions map over them and turn them
into flat lists of (path, leaf) and back. A path is the keys and places with dots between: "layers.0.weight".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["tree_flatten", "tree_map", "tree_map_with_path", "tree_merge", "tree_reduce", "tree_unflatten"]


def _same_form(tree: Any, items: list) -> Any:
    """A list, tuple or named tuple like `tree` with these items."""
    if isinstance(tree, tuple):
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    return items


def tree_map(fn: Callable, tree: Any, *rest: Any, is_leaf: Callable | None = None) -> Any:
    """Applies a function to the leaves of trees of one form.

    Args:
        fn: called with a leaf of `tree` and the parts at the same place of each of `rest`.
        tree: the tree whose form the result has; dicts become plain dicts.
        *rest: further trees that have at least the places of `tree`.
        is_leaf: tells of a part of `tree` whether to take it as a leaf.

    Returns:
        The tree of results.

    Raises:
        ValueError: if one of `rest` lacks a place.

    Example:
        >>> from mlxc.utils import tree_map
        >>> tree_map(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]})
        {'x': [11, 22]}
    """
    if is_leaf is not None and is_leaf(tree):
        return fn(tree, *rest)
    if isinstance(tree, (list, tuple)):
        parts = [[_part(other, i) for other in rest] for i in range(len(tree))]
        return _same_form(
            tree, [tree_map(fn, child, *part, is_leaf=is_leaf) for child, part in zip(tree, parts, strict=True)]
        )
    if isinstance(tree, dict):
        return {
            key: tree_map(fn, child, *(_part(other, key) for other in rest), is_leaf=is_leaf)
            for key, child in tree.items()
        }
    return fn(tree, *rest)


def _part(tree: Any, place: Any) -> Any:
    try:
        return tree[place]
    except (KeyError, IndexError, TypeError):
        raise ValueError(f"the trees differ in form: one of them has nothing at {place!r}") from None


def tree_map_with_path(
    fn: Callable, tree: Any, *rest: Any, is_leaf: Callable | None = None, path: str | None = None
) -> Any:
    """Applies a function to the paths and leaves of trees of one form.

    Args:
        fn: called with the path, a leaf of `tree`, and the parts at the same place of each of `rest`.
        tree: the tree whose form the result has.
        *rest: further trees that have at least the places of `tree`.
        is_leaf: tells of a part of `tree` whether to take it as a leaf.
        path: what the paths begin with.

    Returns:
        The tree of results.

    Raises:
        ValueError: if one of `rest` lacks a place.

    Example:
        >>> from mlxc.utils import tree_map_with_path
        >>> tree_map_with_path(lambda path, leaf: path, {"a": [0, 0]})
        {'a': ['a.0', 'a.1']}
    """
    if is_leaf is not None and is_leaf(tree):
        return fn(path, tree, *rest)
    prefix = f"{path}." if path else ""
    if isinstance(tree, (list, tuple)):
        items = [
            tree_map_with_path(fn, child, *(_part(other, i) for other in rest), is_leaf=is_leaf, path=f"{prefix}{i}")
            for i, child in enumerate(tree)
        ]
        return _same_form(tree, items)
    if isinstance(tree, dict):
        return {
            key: tree_map_with_path(
                fn, child, *(_part(other, key) for other in rest), is_leaf=is_leaf, path=f"{prefix}{key}"
            )
            for key, child in tree.items()
        }
    return fn(path, tree, *rest)


def tree_flatten(
    tree: Any,
    prefix: str = "",
    is_leaf: Callable | None = None,
    destination: list[tuple[str, Any]] | dict[str, Any] | None = None,
) -> list[tuple[str, Any]] | dict[str, Any]:
    """The leaves of a tree with their paths.

    Args:
        tree: the tree.
        prefix: what the paths begin with; its first character is dropped, so it should be a dot.
        is_leaf: tells of a part of the tree whether to take it as a leaf.
        destination: list to append to, or dict to fill in; a new list by default.

    Returns:
        The list of (path, leaf), or the dict.

    Example:
        >>> from mlxc.utils import tree_flatten
        >>> tree_flatten({"a": [1, {"b": 2}]})
        [('a.0', 1), ('a.1.b', 2)]
    """
    if destination is None:
        destination = []
    children: Iterable[tuple[Any, Any]] | None = None
    if is_leaf is None or not is_leaf(tree):
        if isinstance(tree, (list, tuple)):
            children = enumerate(tree)
        elif isinstance(tree, dict):
            children = tree.items()
    if children is not None:
        for key, child in children:
            tree_flatten(child, f"{prefix}.{key}", is_leaf, destination)
    elif isinstance(destination, dict):
        destination[prefix[1:]] = tree
    else:
        destination.append((prefix[1:], tree))
    return destination


def tree_unflatten(tree: list[tuple[str, Any]] | dict[str, Any]) -> Any:
    """Rebuilds a tree from its leaves and their paths.

    Args:
        tree: list of (path, leaf), or dict from path to leaf, as tree_flatten gives it.

    Returns:
        The tree: dicts and lists (where all keys at a place are whole numbers). A number that is missing between
        others leaves an empty dict there.

    Raises:
        ValueError: if a path is both a leaf and the beginning of another one.

    Example:
        >>> from mlxc.utils import tree_unflatten
        >>> tree_unflatten([("a.0", 1), ("a.1.b", 2)])
        {'a': [1, {'b': 2}]}
    """
    items = list(tree.items() if isinstance(tree, dict) else tree)
    if len(items) == 1 and items[0][0] == "":
        return items[0][1]
    below: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    for path, leaf in items:
        key, _, rest = path.partition(".")
        below[key].append((rest, leaf))
    for key, parts in below.items():
        if len(parts) > 1 and any(rest == "" for rest, _ in parts):
            raise ValueError(f"the path {key!r} is that of a leaf and the beginning of another path")
    if all(key.isdecimal() for key in below):
        size = max((int(key) for key in below), default=-1) + 1
        if size > 2 * len(below) + 1000:
            raise ValueError(f"the path beginning with {size - 1} would make a list with {size - len(below)} holes")
        out: list = [{} for _ in range(size)]
        for key, parts in below.items():
            out[int(key)] = tree_unflatten(parts)
        return out
    return {key: tree_unflatten(parts) for key, parts in below.items()}


def tree_reduce(fn: Callable, tree: Any, initializer: Any = None, is_leaf: Callable | None = None) -> Any:
    """Combines the leaves of a tree, from left to right.

    Args:
        fn: called with what has been combined so far and the next leaf.
        tree: the tree.
        initializer: what to begin with; by default the first leaf.
        is_leaf: tells of a part of the tree whether to take it as a leaf.

    Returns:
        The combined value; `initializer` for a tree without leaves.

    Example:
        >>> from mlxc.utils import tree_reduce
        >>> tree_reduce(lambda a, b: a + b, {"x": [1, 2], "y": 3}, 0)
        6
    """
    if is_leaf is None or not is_leaf(tree):
        children = tree if isinstance(tree, (list, tuple)) else tree.values() if isinstance(tree, dict) else None
        if children is not None:
            for child in children:
                initializer = tree_reduce(fn, child, initializer, is_leaf)
            return initializer
    return tree if initializer is None else fn(initializer, tree)


def _is_empty(tree: Any) -> bool:
    return tree is None or (isinstance(tree, (list, tuple, dict)) and len(tree) == 0)


def tree_merge(tree_a: Any, tree_b: Any, merge_fn: Callable | None = None) -> Any:
    """The union of two trees.

    Args:
        tree_a: a tree; None and empty parts give way to what the other has.
        tree_b: another one.
        merge_fn: called with the two leaves where both trees have one.

    Returns:
        The tree that has the places of both.

    Raises:
        ValueError: if both have a leaf at one place and there is no `merge_fn`.

    Example:
        >>> from mlxc.utils import tree_merge
        >>> tree_merge({"a": 1}, {"b": 2})
        {'a': 1, 'b': 2}
    """
    if _is_empty(tree_a):
        return tree_b
    if _is_empty(tree_b):
        return tree_a
    if isinstance(tree_a, (list, tuple)) and isinstance(tree_b, (list, tuple)):
        longest = max(len(tree_a), len(tree_b))
        padded_a = [*tree_a, *[None] * (longest - len(tree_a))]
        padded_b = [*tree_b, *[None] * (longest - len(tree_b))]
        return _same_form(tree_a, [tree_merge(a, b, merge_fn) for a, b in zip(padded_a, padded_b, strict=True)])
    if isinstance(tree_a, dict) and isinstance(tree_b, dict):
        keys = [*tree_a, *(key for key in tree_b if key not in tree_a)]
        return {key: tree_merge(tree_a.get(key), tree_b.get(key), merge_fn) for key in keys}
    if merge_fn is None:
        raise ValueError("the trees have elements at the same place and there is no merge_fn")
    return merge_fn(tree_a, tree_b)
