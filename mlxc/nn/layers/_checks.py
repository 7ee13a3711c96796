"""Checks of the arguments of layers, so that a wrong one is named where the layer is made or called."""

from __future__ import annotations

import operator
from typing import Any

import mlxc as mx


def check_size(layer: str, name: str, value: Any, least: int = 1) -> int:
    """A size as an int; TypeError for what is no whole number, ValueError for one below `least`."""
    try:
        size = operator.index(value)
    except TypeError:
        raise TypeError(f"[{layer}] {name} should be an int, got {type(value).__name__}") from None
    if size < least:
        raise ValueError(f"[{layer}] {name} should be at least {least}, got {size}")
    return size


def check_last(layer: str, x: mx.array, size: int) -> None:
    """ValueError unless the last axis of `x` has a size."""
    if x.ndim == 0 or x.shape[-1] != size:
        raise ValueError(f"[{layer}] the last axis of the input should have size {size}, got shape {x.shape}")
