"""Which part of an array a process of a group has: cutting weights, and the functions that join results and gradients.

Called by the layers in distributed.py. A weight may consist of several segments side by side (query, key and value in
one matrix): then each segment is cut, so that a process has its part of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import mlxc as mx
from mlxc.utils import tree_map_with_path

Segments = int | Sequence[int | float | Fraction]
# Of a path and an array: the axis to cut, or that and the segments, or None to leave it whole.
Rule = Callable[[str, mx.array], Any]

KINDS = ("all-to-sharded", "sharded-to-all")


def group_or_all(group: mx.distributed.Group | None) -> mx.distributed.Group:
    return mx.distributed.init() if group is None else group


def rule_of(sharding: str, segments: Segments) -> Rule:
    """Outputs are cut ("all-to-sharded"), which a bias shares, or inputs ("sharded-to-all"), where it stays whole."""
    if sharding not in KINDS:
        raise ValueError(f"Sharding type {sharding=} not supported, choose one of 'all-to-sharded' or 'sharded-to-all'")

    def cut_outputs(path: str, weight: mx.array) -> Any:
        return (-1 if path.endswith("bias") else max(weight.ndim - 2, 0)), segments

    def cut_inputs(path: str, weight: mx.array) -> Any:
        return None if path.endswith("bias") else (-1, segments)

    return cut_outputs if sharding == "all-to-sharded" else cut_inputs


def segment_bounds(path: str, size: int, segments: Segments) -> list[int]:
    """Where the segments of an axis begin and end: 0, ..., size."""
    if isinstance(segments, int):
        if segments < 1 or size % segments:
            raise ValueError(f"[sharding] the axis of size {size} of {path} cannot be divided into {segments} segments")
        return [size // segments * i for i in range(segments + 1)]
    inner = [place if isinstance(place, int) else int(place * size) for place in segments]
    bounds = [0, *inner, size]
    if bounds != sorted(bounds):
        raise ValueError(
            f"[sharding] segments {list(segments)} of {path} are not within its axis of size {size}, in order"
        )
    return bounds


def cut(path: str, weight: mx.array, axis: int, segments: Segments, group: mx.distributed.Group) -> mx.array:
    """This process's part of a weight."""
    count, rank = group.size(), group.rank()
    if not -weight.ndim <= axis < weight.ndim:
        raise ValueError(f"[sharding] {path} of shape {weight.shape} has no axis {axis}")
    bounds = segment_bounds(path, weight.shape[axis], segments)
    parts = []
    for begin, end in pairwise(bounds):
        if (end - begin) % count:
            raise ValueError(
                f"[sharding] Cannot shard {path} of shape {weight.shape}: its segment {begin} to {end} of axis {axis} "
                f"cannot be divided among {count} processes"
            )
        step = (end - begin) // count
        index = [slice(None)] * weight.ndim
        index[axis] = slice(begin + rank * step, begin + (rank + 1) * step)
        parts.append(weight[tuple(index)])
    if count == 1:
        return weight
    # A part of its own, that does not keep the whole weight in memory.
    return mx.contiguous(parts[0] if len(parts) == 1 else mx.concatenate(parts, axis=axis))


def cut_tree(parameters: Any, rule: Rule, group: mx.distributed.Group) -> Any:
    """This process's part of a tree of weights."""

    def one(path: str, weight: mx.array) -> mx.array:
        decision = rule(path, weight)
        if decision is None:
            return weight
        axis, segments = decision if isinstance(decision, tuple) else (decision, 1)
        return cut(path, weight, axis, segments, group)

    return tree_map_with_path(one, parameters)


@lru_cache
def sum_gradients(group: mx.distributed.Group) -> Callable[[mx.array], mx.array]:
    """The identity, whose gradient is summed over the processes of a group.

    For an input that all of them have and each uses for a part of the result.

    Args:
        group: the processes.

    Returns:
        A function of an array.

    Example:
        >>> from mlxc.nn.layers.distributed import sum_gradients
        >>> sum_gradients(mx.distributed.init())(mx.array([1.0, 2.0]))
        array([1, 2], dtype=float32)
    """
    if group.size() == 1:
        return lambda x: x

    @mx.custom_function
    def identity(x: mx.array) -> mx.array:
        return x

    @identity.vjp
    def sum_cotangent(x: mx.array, cotangent: mx.array, _: mx.array) -> mx.array:
        return mx.distributed.all_sum(cotangent, group=group)

    return identity


@lru_cache
def sum_outputs(group: mx.distributed.Group) -> Callable[[mx.array], mx.array]:
    """The sum over the processes, whose gradient goes to each part as it is."""
    if group.size() == 1:
        return lambda x: x

    @mx.custom_function
    def total(x: mx.array) -> mx.array:
        return mx.distributed.all_sum(x, group=group)

    @total.vjp
    def same_cotangent(x: mx.array, cotangent: mx.array, _: mx.array) -> mx.array:
        return cotangent

    return total
