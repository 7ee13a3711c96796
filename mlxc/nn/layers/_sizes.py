"""Sizes of windows and kernels: one number for all axes of an image, or a tuple of one for each.

Called by convolution.py, convolution_transpose.py and pooling.py, so that all name a wrong argument in one way.
"""

from __future__ import annotations

from typing import Any

import mlxc as mx
from mlxc.nn.layers._checks import check_size


def size_tuple(layer: str, name: str, value: Any, axes: int, least: int) -> tuple[int, ...]:
    """The sizes along the axes; ValueError for a wrong number of them or one below `least`, TypeError for no ints."""
    if isinstance(value, (tuple, list)):
        if len(value) != axes:
            raise ValueError(f"[{layer}] {name} should be an int or {axes} of them, got {value}")
        return tuple(check_size(layer, name, size, least) for size in value)
    return (check_size(layer, name, value, least),) * axes


def check_images(layer: str, x: mx.array, axes: int, channels: int | None = None) -> None:
    """ValueError unless `x` has a batch axis, `axes` axes of an image, and the channels."""
    if x.ndim != axes + 2 or (channels is not None and x.shape[-1] != channels):
        places = {1: "length", 2: "height, width", 3: "depth, height, width"}[axes]
        last = "channels" if channels is None else channels
        raise ValueError(f"[{layer}] the input should have shape (batch, {places}, {last}), got {x.shape}")
