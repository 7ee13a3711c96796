"""Pooling: the largest value or the mean of each window of sequences, images and volumes, channels last.

Called by users' models. The windows are reduced axis by axis, as the maximum or sum of as many strided slices as the
window is long: these are views, and a chain of element-wise ops over them is one pass.
"""

from __future__ import annotations

import math
from typing import Any

import mlxc as mx
from mlxc.nn.layers._sizes import check_images, size_tuple
from mlxc.nn.layers.base import Module

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d"]


class Pool(Module):
    """What all have in common: sizes, the walk over the axes, and the representation."""

    _axes = 0

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        name, axes = type(self).__name__, self._axes
        self._kernel_size = size_tuple(name, "kernel_size", kernel_size, axes, 1)
        self._stride = self._kernel_size if stride is None else size_tuple(name, "stride", stride, axes, 1)
        self._padding = size_tuple(name, "padding", 0 if padding is None else padding, axes, 0)

    def _extra_repr(self) -> str:
        return f"kernel_size={self._kernel_size}, stride={self._stride}, padding={self._padding}"

    def _windows(self, x: mx.array, fill: float, combine: Any) -> mx.array:
        """The input with the windows of every axis combined; `fill` stands beyond its ends."""
        name = type(self).__name__
        check_images(name, x, self._axes)
        if any(self._padding):
            ends = [(0, 0), *((n, n) for n in self._padding), (0, 0)]
            x = mx.pad(x, ends, constant_values=fill)
        # The last axis first: its slices are near each other in memory.
        for axis in range(self._axes, 0, -1):
            size, kernel, stride = x.shape[axis], self._kernel_size[axis - 1], self._stride[axis - 1]
            if kernel > size:
                raise ValueError(
                    f"[{name}] a window of {self._kernel_size} does not fit into the input of shape {x.shape}, padding "
                    f"included"
                )
            x = _combine_windows(x, axis, kernel, stride, combine)
        return x


def _combine_windows(x: mx.array, axis: int, kernel: int, stride: int, combine: Any) -> Any:
    count = (x.shape[axis] - kernel) // stride + 1
    before = (slice(None),) * axis
    total: Any = None
    for first in range(kernel):
        part = x[(*before, slice(first, first + (count - 1) * stride + 1, stride))]
        total = part if total is None else combine(total, part)
    return total


class MaxPool(Pool):
    """The largest value of each window."""

    def __call__(self, x: mx.array) -> mx.array:
        if mx.issubdtype(x.dtype, mx.floating):
            fill: float = -math.inf
        else:
            fill = False if x.dtype == mx.bool_ else mx.iinfo(x.dtype).min
        return self._windows(x, fill, mx.maximum)


class AvgPool(Pool):
    """The mean of each window."""

    def __call__(self, x: mx.array) -> mx.array:
        dtype = x.dtype if mx.issubdtype(x.dtype, mx.inexact) else mx.float32
        wide = x.astype(mx.float32) if dtype in (mx.float16, mx.bfloat16) or dtype != x.dtype else x
        return (self._windows(wide, 0, mx.add) * (1 / math.prod(self._kernel_size))).astype(dtype)


class MaxPool1d(MaxPool):
    """The largest value of each window of sequences, channel by channel.

    The input has shape (batch, length, channels). Sizes are an int, or a tuple of one.
    Where several values are the largest, they share the gradient.

    Args:
        kernel_size: size of the window.
        stride: steps between the windows; None for the size of the window.
        padding: places added at both ends of an axis: what lies there is less than everything.

    Raises:
        ValueError: if a size is out of range or a tuple has another length; on call, for another input shape, or one
            into which the window does not fit.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.MaxPool1d(2)(mx.array([[[1.0], [5.0], [2.0], [3.0]]])).tolist()
        [[[5.0], [3.0]]]
    """

    _axes = 1

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)


class MaxPool2d(MaxPool):
    """The largest value of each window of images, channel by channel.

    The input has shape (batch, height, width, channels). Sizes are one number for both axes or a tuple of two.
    Where several values are the largest, they share the gradient.

    Args:
        kernel_size: size of the window.
        stride: steps between the windows; None for the size of the window.
        padding: places added at both ends of an axis: what lies there is less than everything.

    Raises:
        ValueError: if a size is out of range or a tuple has another length; on call, for another input shape, or one
            into which the window does not fit.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.MaxPool2d(3, stride=2, padding=1)(mx.ones((1, 9, 9, 4))).shape
        (1, 5, 5, 4)
    """

    _axes = 2

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] | None = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)


class MaxPool3d(MaxPool):
    """The largest value of each window of volumes, channel by channel.

    The input has shape (batch, depth, height, width, channels). Sizes are one number for all axes or a tuple of three.
    Where several values are the largest, they share the gradient.

    Args:
        kernel_size: size of the window.
        stride: steps between the windows; None for the size of the window.
        padding: places added at both ends of an axis: what lies there is less than everything.

    Raises:
        ValueError: if a size is out of range or a tuple has another length; on call, for another input shape, or one
            into which the window does not fit.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.MaxPool3d(2)(mx.ones((1, 4, 4, 6, 2))).shape
        (1, 2, 2, 3, 2)
    """

    _axes = 3

    def __init__(
        self,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] | None = None,
        padding: int | tuple[int, int, int] | None = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)


class AvgPool1d(AvgPool):
    """The mean of each window of sequences, channel by channel.

    The input has shape (batch, length, channels). Sizes are an int, or a tuple of one.

    Args:
        kernel_size: size of the window.
        stride: steps between the windows; None for the size of the window.
        padding: places added at both ends of an axis: zeros, which count.

    Raises:
        ValueError: if a size is out of range or a tuple has another length; on call, for another input shape, or one
            into which the window does not fit.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.AvgPool1d(2)(mx.array([[[1.0], [5.0], [2.0], [4.0]]])).tolist()
        [[[3.0], [3.0]]]
    """

    _axes = 1

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)


class AvgPool2d(AvgPool):
    """The mean of each window of images, channel by channel.

    The input has shape (batch, height, width, channels). Sizes are one number for both axes or a tuple of two.

    Args:
        kernel_size: size of the window.
        stride: steps between the windows; None for the size of the window.
        padding: places added at both ends of an axis: zeros, which count.

    Raises:
        ValueError: if a size is out of range or a tuple has another length; on call, for another input shape, or one
            into which the window does not fit.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.AvgPool2d(2)(mx.ones((1, 9, 9, 4))).shape
        (1, 4, 4, 4)
    """

    _axes = 2

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] | None = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)


class AvgPool3d(AvgPool):
    """The mean of each window of volumes, channel by channel.

    The input has shape (batch, depth, height, width, channels). Sizes are one number for all axes or a tuple of three.

    Args:
        kernel_size: size of the window.
        stride: steps between the windows; None for the size of the window.
        padding: places added at both ends of an axis: zeros, which count.

    Raises:
        ValueError: if a size is out of range or a tuple has another length; on call, for another input shape, or one
            into which the window does not fit.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.AvgPool3d((1, 2, 3))(mx.ones((1, 4, 4, 6, 2))).shape
        (1, 4, 2, 2, 2)
    """

    _axes = 3

    def __init__(
        self,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] | None = None,
        padding: int | tuple[int, int, int] | None = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)
