"""Enlarging and reducing images: nearest, linear and cubic interpolation of the axes between batch and channels.

Called by users' models. Each axis is done by itself: an element of the result is a weighted sum of a few elements of
the input, its taps, whose places and weights depend on sizes alone and are kept for the next call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import mlxc as mx
from mlxc.nn.layers.base import Module

__all__ = ["Upsample", "upsample_cubic", "upsample_linear", "upsample_nearest"]

_MODES = ("nearest", "linear", "cubic")


def upsample_nearest(x: mx.array, scale_factor: tuple[float, ...]) -> mx.array:
    """Resizes by repeating or leaving out elements.

    Args:
        x: array of shape (batch, ..., channels).
        scale_factor: for each axis between batch and channels, by what its size is multiplied, rounded down.

    Returns:
        Array of the dtype of `x`. Element i of an axis that grows from n to m is element `(i + 0.5) * n / m - 0.5`,
        rounded, of the input; one that shrinks has element `i * n / m`, rounded down.

    Raises:
        ValueError: if there are not as many factors as axes, or a factor leaves nothing of an axis.

    Example:
        >>> from mlxc.nn.layers.upsample import upsample_nearest
        >>> upsample_nearest(mx.array([[[1], [2]]]), (2,)).tolist()
        [[[1], [1], [2], [2]]]
    """
    for axis, (size, scale) in enumerate(_sizes(x, scale_factor), 1):
        if scale == 1:
            continue
        if scale == int(scale):
            x = mx.repeat(x, int(scale), axis=axis)
        else:
            x = mx.take(x, mx.array(_nearest_places(x.shape[axis], size, scale)), axis=axis)
    return x


def upsample_linear(
    x: mx.array, scale_factor: tuple[float, ...], align_corners: bool = False, antialias: bool = False
) -> mx.array:
    """Resizes by linear interpolation.

    Args:
        x: array of shape (batch, ..., channels); integers give float32.
        scale_factor: for each axis between batch and channels, by what its size is multiplied, rounded down.
        align_corners: whether the first and last elements are those of the input; else the middles of the two agree.
        antialias: whether an axis that shrinks takes means over as many elements as become one.

    Returns:
        Array of the resized shape.

    Raises:
        ValueError: if there are not as many factors as axes, a factor leaves nothing of an axis, or both
            `align_corners` and `antialias` are true.

    Example:
        >>> from mlxc.nn.layers.upsample import upsample_linear
        >>> upsample_linear(mx.array([[[1.0], [2.0]]]), (2,)).tolist()
        [[[1.0], [1.25], [1.75], [2.0]]]
    """
    return _interpolate("linear", x, scale_factor, align_corners, antialias)


def upsample_cubic(
    x: mx.array, scale_factor: tuple[float, ...], align_corners: bool = False, antialias: bool = False
) -> mx.array:
    """Resizes by cubic convolution.

    Args:
        x: array of shape (batch, ..., channels); integers give float32.
        scale_factor: for each axis between batch and channels, by what its size is multiplied, rounded down.
        align_corners: whether the first and last elements are those of the input; else the middles of the two agree.
        antialias: whether an axis that shrinks takes means over as many elements as become one. The kernel's parameter
            is then -0.5, else -0.75.

    Returns:
        Array of the resized shape.

    Raises:
        ValueError: if there are not as many factors as axes, a factor leaves nothing of an axis, or both
            `align_corners` and `antialias` are true.

    Source:
        Keys 1981, Cubic Convolution Interpolation for Digital Image Processing.

    Example:
        >>> from mlxc.nn.layers.upsample import upsample_cubic
        >>> upsample_cubic(mx.array([[[1.0], [2.0]]]), (2,)).tolist()
        [[[0.89453125], [1.2265625], [1.7734375], [2.10546875]]]
    """
    return _interpolate("cubic", x, scale_factor, align_corners, antialias)


class Upsample(Module):
    """Resizes the axes between batch and channels.

    Args:
        scale_factor: by what the sizes are multiplied, rounded down; one number for all axes, or a tuple.
        mode: "nearest", "linear" or "cubic".
        align_corners: whether the first and last elements are those of the input; else the middles of the two agree.
            It does not matter to "nearest".
        antialias: whether an axis that shrinks takes means over as many elements as become one.

    Raises:
        ValueError: for another mode, if a factor is not positive, for `antialias` with "nearest" or `align_corners`; on
            call, if there are not as many factors as axes.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.Upsample(scale_factor=2, mode="linear")
        >>> layer
        Upsample(scale_factor=2.0, mode='linear', align_corners=False)
        >>> layer(mx.ones((1, 4, 5, 3))).shape
        (1, 8, 10, 3)
    """

    def __init__(
        self,
        scale_factor: float | tuple[float, ...],
        mode: Literal["nearest", "linear", "cubic"] = "nearest",
        align_corners: bool = False,
        antialias: bool = False,
    ) -> None:
        super().__init__()
        if mode not in _MODES:
            raise ValueError(f"[Upsample] mode should be one of {', '.join(map(repr, _MODES))}, got {mode!r}")
        if antialias and (mode == "nearest" or align_corners):
            raise ValueError("[Upsample] antialias is for modes 'linear' and 'cubic' without align_corners")
        self.scale_factor: float | tuple[float, ...]
        if isinstance(scale_factor, (list, tuple)):
            self.scale_factor = tuple(map(float, scale_factor))
        else:
            self.scale_factor = float(scale_factor)
        factors = self.scale_factor if isinstance(self.scale_factor, tuple) else (self.scale_factor,)
        if not all(factor > 0 and math.isfinite(factor) for factor in factors):
            raise ValueError(f"[Upsample] scale_factor should be positive, got {scale_factor}")
        self.mode = mode
        self.align_corners = align_corners
        self.antialias = antialias

    def _extra_repr(self) -> str:
        return f"scale_factor={self.scale_factor}, mode={self.mode!r}, align_corners={self.align_corners}"

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 3:
            raise ValueError(f"[Upsample] the input should have shape (batch, ..., channels), got {x.shape}")
        factors = self.scale_factor if isinstance(self.scale_factor, tuple) else (self.scale_factor,) * (x.ndim - 2)
        if self.mode == "nearest":
            return upsample_nearest(x, factors)
        return _interpolate(self.mode, x, factors, self.align_corners, self.antialias)


# ---- places and weights ------------------------------------------------------------------------------


def _sizes(x: mx.array, factors: Any) -> list[tuple[int, float]]:
    """New sizes of the axes between batch and channels, with the factors."""
    if len(factors) != x.ndim - 2:
        raise ValueError(
            f"[Upsample] there should be a scale factor for each axis between batch and channels, got {factors} for "
            f"shape {x.shape}"
        )
    sizes = [int(size * factor) for size, factor in zip(x.shape[1:-1], factors, strict=True)]
    if any(new <= 0 < old for new, old in zip(sizes, x.shape[1:-1], strict=True)):
        raise ValueError(f"[Upsample] a scale factor of {factors} leaves nothing of shape {x.shape}")
    return list(zip(sizes, factors, strict=True))


@lru_cache(maxsize=256)
def _nearest_places(old: int, new: int, scale: float) -> tuple[int, ...]:
    step = mx.array(old / new, dtype=mx.float32)
    i = mx.arange(new, dtype=mx.float32)
    places = mx.floor(i * step) if scale < 1 else mx.round((i + 0.5) * step - 0.5)
    return tuple(mx.clip(places, 0, old - 1).astype(mx.int32).tolist())


def _linear_kernel(distance: float) -> float:
    return max(1 - abs(distance), 0.0)


def _cubic_kernel(a: float) -> Callable[[float], float]:
    def kernel(distance: float) -> float:
        d = abs(distance)
        if d <= 1:
            return ((a + 2) * d - (a + 3)) * d * d + 1
        return (((d - 5) * d + 8) * d - 4) * a if d < 2 else 0.0

    return kernel


Taps = tuple[tuple[tuple[int, ...], tuple[float, ...]], ...]


@lru_cache(maxsize=256)
def _taps(  # noqa: PLR0917 (a key of the cache)
    mode: str, old: int, new: int, scale: float, align_corners: bool, antialias: bool
) -> Taps:
    """For each tap its places in the input and its weights, one for every element of the result."""
    reach = 1 if mode == "linear" else 2
    kernel = _linear_kernel if mode == "linear" else _cubic_kernel(-0.5 if antialias else -0.75)
    widened = max(1 / scale, 1.0) if antialias else 1.0
    rows = []
    for i in range(new):
        if align_corners:
            place = i * (old - 1) / (new - 1) if new > 1 else 0.0
        else:
            place = i / scale + ((old - 1) - (new - 1) / scale) / 2
        if mode == "linear":
            place = min(max(place, 0.0), old - 1.0)
        if antialias:
            first, last = math.ceil(place - reach * widened), math.floor(place + reach * widened)
        else:
            first = math.floor(place) - reach + 1
            last = first + 2 * reach - 1
        row: dict[int, float] = {}
        for tap in range(first, last + 1):
            weight = kernel((tap - place) / widened)
            # Beyond the ends the input goes on as it ends; with antialias it has nothing there.
            inside = min(max(tap, 0), old - 1)
            if weight and (inside == tap or not antialias):
                row[inside] = row.get(inside, 0.0) + weight
        total = sum(row.values()) if antialias else 1.0
        rows.append([(tap, weight / total) for tap, weight in sorted(row.items())])
    count = max((len(row) for row in rows), default=0)
    padded = [row + [(row[-1][0], 0.0)] * (count - len(row)) for row in rows]
    return tuple((tuple(row[k][0] for row in padded), tuple(row[k][1] for row in padded)) for k in range(count))


def _interpolate(mode: str, x: mx.array, factors: tuple[float, ...], align_corners: bool, antialias: bool) -> mx.array:
    if align_corners and antialias:
        raise ValueError(f"[upsample_{mode}] antialias is not for align_corners")
    sizes = _sizes(x, factors)
    dtype = x.dtype if mx.issubdtype(x.dtype, mx.inexact) else mx.float32
    work = mx.float32 if dtype in (mx.float16, mx.bfloat16) else dtype
    x = x.astype(work)
    for axis, (size, scale) in enumerate(sizes, 1):
        if scale == 1 or x.shape[axis] == 0:
            continue
        shape = [1] * x.ndim
        shape[axis] = size
        total: Any = None
        for places, weights in _taps(mode, x.shape[axis], size, scale, align_corners, antialias):
            part = mx.take(x, mx.array(places), axis=axis) * mx.array(weights, dtype=work).reshape(shape)
            total = part if total is None else total + part
        x = total
    return x.astype(dtype)
