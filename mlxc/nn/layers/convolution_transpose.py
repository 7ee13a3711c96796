"""Transposed convolutions, which enlarge what a convolution of the same arguments made smaller, channels last.

Called by users' models. The convolutions themselves are mx.conv_transpose1d, mx.conv_transpose2d, mx.conv_transpose3d.
"""

from __future__ import annotations

from typing import Any

import mlxc as mx
from mlxc.nn.layers._sizes import check_images, size_tuple
from mlxc.nn.layers.convolution import Convolution, Size

__all__ = ["ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]


class TransposedConvolution(Convolution):
    """What the three have in common: a convolution's parameters, and padding of the result."""

    _has_groups = False

    def _begin_transposed(
        self, channels: tuple[int, int], kernel_size: Any, *, output_padding: Any, bias: bool, **steps: Any
    ) -> None:
        name, axes = type(self).__name__, self._axes
        paddings = size_tuple(name, "output_padding", output_padding, axes, 0)
        self._begin(channels, kernel_size, bias=bias, **steps)
        self.output_padding: Size = paddings if axes > 1 else paddings[0]

    def _extra_repr(self) -> str:
        return super()._extra_repr().replace(", bias=", f", output_padding={self.output_padding}, bias=")

    def __call__(self, x: mx.array) -> mx.array:
        weight = self["weight"]
        check_images(type(self).__name__, x, self._axes, weight.shape[-1])
        convolve = (mx.conv_transpose1d, mx.conv_transpose2d, mx.conv_transpose3d)[self._axes - 1]
        y = convolve(x, weight, self.stride, self.padding, self.dilation, self.output_padding)
        return y + self["bias"] if "bias" in self else y


class ConvTranspose1d(TransposedConvolution):
    """Transposed convolution of sequences.

    `weight` has shape (out_channels, kernel_size, in_channels) and begins uniform in [-b, b) with b the root of
    1 / (in_channels * kernel_size); `bias` has shape (out_channels,) and begins as zeros. The input has shape
    (batch, length, in_channels).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: length of the kernel.
        stride: how many elements of the result an element of the input is apart from the next.
        padding: how many elements of the result to cut off at both ends.
        dilation: steps between the kernel's elements.
        output_padding: how many elements the result has more at its end.
        bias: whether to add a bias.

    Raises:
        ValueError: if a size is out of range; on call, for another input shape.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.ConvTranspose1d(4, 8, kernel_size=3, stride=2)(mx.ones((2, 5, 4))).shape
        (2, 11, 8)
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
        output_padding: int = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        channels = in_channels, out_channels
        self._begin_transposed(
            channels, kernel_size, output_padding=output_padding, bias=bias, stride=stride, padding=padding,
            dilation=dilation,
        )  # fmt: skip


class ConvTranspose2d(TransposedConvolution):
    """Transposed convolution of images.

    `weight` has shape (out_channels, height, width, in_channels) and begins uniform in [-b, b) with b the root of
    1 / (in_channels * height * width); `bias` has shape (out_channels,) and begins as zeros. The input has shape
    (batch, height, width, in_channels). Sizes are one number for both axes or a tuple of two.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the kernel.
        stride: how many elements of the result an element of the input is apart from the next.
        padding: how many elements of the result to cut off at both ends of an axis.
        dilation: steps between the kernel's elements.
        output_padding: how many elements the result has more at the end of an axis.
        bias: whether to add a bias.

    Raises:
        ValueError: if a size is out of range or a tuple has another length; on call, for another input shape.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.ConvTranspose2d(4, 2, kernel_size=3, stride=2, padding=1, output_padding=1)(mx.ones((1, 5, 6, 4))).shape
        (1, 10, 12, 2)
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
        output_padding: int | tuple[int, int] = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        channels = in_channels, out_channels
        self._begin_transposed(
            channels, kernel_size, output_padding=output_padding, bias=bias, stride=stride, padding=padding,
            dilation=dilation,
        )  # fmt: skip


class ConvTranspose3d(TransposedConvolution):
    """Transposed convolution of volumes.

    `weight` has shape (out_channels, depth, height, width, in_channels) and begins uniform in [-b, b) with b the root
    of 1 / (in_channels * depth * height * width); `bias` has shape (out_channels,) and begins as zeros. The input has
    shape (batch, depth, height, width, in_channels). Sizes are one number for all axes or a tuple of three.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the result.
        kernel_size: size of the kernel.
        stride: how many elements of the result an element of the input is apart from the next.
        padding: how many elements of the result to cut off at both ends of an axis.
        dilation: steps between the kernel's elements.
        output_padding: how many elements the result has more at the end of an axis.
        bias: whether to add a bias.

    Raises:
        ValueError: if a size is out of range or a tuple has another length; on call, for another input shape.
        TypeError: if a size is no int.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.ConvTranspose3d(2, 3, kernel_size=2, stride=2)(mx.ones((1, 2, 3, 4, 2))).shape
        (1, 4, 6, 8, 3)
    """

    _axes = 3

    def __init__(  # noqa: PLR0917 (the order is MLX's)
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] = 0,
        dilation: int | tuple[int, int, int] = 1,
        output_padding: int | tuple[int, int, int] = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        channels = in_channels, out_channels
        self._begin_transposed(
            channels, kernel_size, output_padding=output_padding, bias=bias, stride=stride, padding=padding,
            dilation=dilation,
        )  # fmt: skip
