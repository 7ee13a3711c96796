"""Convolutions with learnt kernels over sequences, images and volumes, channels last.

Called by users' models. The convolutions themselves are mx.conv1d, mx.conv2d and mx.conv3d.
"""

from __future__ import annotations

import math
from typing import Any

import mlxc as mx
from mlxc.nn.layers._checks import check_size
from mlxc.nn.layers._sizes import check_images, size_tuple
from mlxc.nn.layers.base import Module

__all__ = ["Conv1d", "Conv2d", "Conv3d"]

Size = int | tuple[int, ...]


class Convolution(Module):
    """What the three have in common: the initial parameters and the representation."""

    # The number of axes of an image, and whether there can be groups of channels.
    _axes = 0
    _has_groups = True

    def _begin(  # noqa: PLR0917 (the order of the constructors)
        self,
        channels: tuple[int, int],
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        name, axes = type(self).__name__, self._axes
        in_channels = check_size(name, "in_channels", channels[0])
        out_channels = check_size(name, "out_channels", channels[1])
        groups = check_size(name, "groups", groups)
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"[{name}] in_channels and out_channels should be multiples of groups={groups}, got {in_channels} and "
                f"{out_channels}"
            )
        kernel = size_tuple(name, "kernel_size", kernel_size, axes, 1)
        strides = size_tuple(name, "stride", stride, axes, 1)
        paddings = size_tuple(name, "padding", padding, axes, 0)
        dilations = size_tuple(name, "dilation", dilation, axes, 1)
        bound = math.sqrt(groups / (in_channels * math.prod(kernel)))
        self.weight = mx.random.uniform(-bound, bound, (out_channels, *kernel, in_channels // groups))
        if bias:
            self.bias = mx.zeros((out_channels,))
        self.stride: Size = strides if axes > 1 else strides[0]
        self.padding: Size = paddings if axes > 1 else paddings[0]
        # One number stays one, as it is shown.
        self.dilation: Size = dilations if axes > 1 and isinstance(dilation, (tuple, list)) else dilations[0]
        if self._has_groups:
            self.groups = groups

    def _extra_repr(self) -> str:
        out_channels, *kernel, in_channels = self["weight"].shape
        groups = f", groups={self.groups}" if self._has_groups else ""
        size = tuple(kernel) if self._axes > 1 else kernel[0]
        return (
            f"{in_channels * (self.groups if self._has_groups else 1)}, {out_channels}, kernel_size={size}, "
            f"stride={self.stride}, padding={self.padding}, dilation={self.dilation}{groups}, bias={'bias' in self}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        weight = self["weight"]
        groups = self.groups if self._has_groups else 1
        check_images(type(self).__name__, x, self._axes, weight.shape[-1] * groups)
        convolve = (mx.conv1d, mx.conv2d, mx.conv3d)[self._axes - 1]
        y = convolve(x, weight, self.stride, self.padding, self.dilation, groups)
        return y + self["bias"] if "bias" in self else y


class Conv1d(Convolution):
    """Convolution of sequences.

    `weight` has shape (out_channels, kernel_size, in_channels / groups) and begins uniform in [-b, b) with b the root
    of 1 / (number of weights of an output); `bias` has shape (out_channels,) and begins as zeros. The input has shape
    (batch, length, in_channels).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: length of the kernel.
        stride: steps between the kernel's places.
        padding: zeros added at both ends.
        dilation: steps between the kernel's elements.
        groups: into how many groups the channels are divided; each sees its own inputs only.
        bias: whether to add a bias.

    Raises:
        ValueError: if a size is out of range, or channels do not divide into groups; on call, for another input shape.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.Conv1d(4, 8, kernel_size=3, padding=1)
        >>> layer
        Conv1d(4, 8, kernel_size=3, stride=1, padding=1, dilation=1, groups=1, bias=True)
        >>> layer(mx.ones((2, 10, 4))).shape
        (2, 10, 8)
    """

    _axes = 1

    def __init__(  # noqa: PLR0917 (the order is MLX's)
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._begin((in_channels, out_channels), kernel_size, stride, padding, dilation, groups, bias)


class Conv2d(Convolution):
    """Convolution of images.

    `weight` has shape (out_channels, height, width, in_channels / groups) and begins uniform in [-b, b) with b the root
    of 1 / (number of weights of an output); `bias` has shape (out_channels,) and begins as zeros. The input has shape
    (batch, height, width, in_channels). Sizes are one number for both axes or a tuple of two.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the kernel.
        stride: steps between the kernel's places.
        padding: zeros added at both ends of an axis.
        dilation: steps between the kernel's elements.
        groups: into how many groups the channels are divided; each sees its own inputs only.
        bias: whether to add a bias.

    Raises:
        ValueError: if a size is out of range, a tuple has another length, or channels do not divide into groups; on
            call, for another input shape.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.Conv2d(3, 8, kernel_size=3, stride=2)
        >>> layer
        Conv2d(3, 8, kernel_size=(3, 3), stride=(2, 2), padding=(0, 0), dilation=1, groups=1, bias=True)
        >>> layer(mx.ones((1, 9, 11, 3))).shape
        (1, 4, 5, 8)
    """

    _axes = 2

    def __init__(  # noqa: PLR0917 (the order is MLX's)
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._begin((in_channels, out_channels), kernel_size, stride, padding, dilation, groups, bias)


class Conv3d(Convolution):
    """Convolution of volumes.

    `weight` has shape (out_channels, depth, height, width, in_channels) and begins uniform in [-b, b) with b the root
    of 1 / (number of weights of an output); `bias` has shape (out_channels,) and begins as zeros. The input has shape
    (batch, depth, height, width, in_channels). Sizes are one number for all axes or a tuple of three.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the kernel.
        stride: steps between the kernel's places.
        padding: zeros added at both ends of an axis.
        dilation: steps between the kernel's elements.
        bias: whether to add a bias.

    Raises:
        ValueError: if a size is out of range or a tuple has another length; on call, for another input shape.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Conv3d(2, 3, kernel_size=(1, 3, 3))(mx.ones((1, 4, 5, 6, 2))).shape
        (1, 4, 3, 4, 3)
    """

    _axes = 3
    _has_groups = False

    def __init__(  # noqa: PLR0917 (the order is MLX's)
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] = 0,
        dilation: int | tuple[int, int, int] = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self._begin((in_channels, out_channels), kernel_size, stride, padding, dilation, bias=bias)
