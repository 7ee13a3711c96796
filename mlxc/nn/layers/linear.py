"""Layers that are linear in their input: Identity, Linear, Bilinear."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import mlxc as mx
from mlxc.nn.layers._checks import check_last, check_size
from mlxc.nn.layers.base import Module

if TYPE_CHECKING:
    from mlxc.nn.layers.quantized import QQLinear, QuantizedLinear

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Gives back its input.

    Args:
        *args: not used, so that the layer can take the place of any other.
        **kwargs: not used.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Identity(8, bias=False)(mx.arange(2))
        array([0, 1], dtype=int32)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __call__(self, x: mx.array) -> mx.array:
        return x


class Linear(Module):
    """An affine map of the last axis: `x @ weight.T + bias`.

    `weight` has shape (output_dims, input_dims), `bias` (output_dims,). Both begin uniform in
    [-1/sqrt(input_dims), 1/sqrt(input_dims)).

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the result.
        bias: whether to add a bias.

    Raises:
        ValueError: if a size is not positive; on call, if the last axis of the input has another size.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.Linear(4, 3)
        >>> layer
        Linear(input_dims=4, output_dims=3, bias=True)
        >>> layer(mx.ones((2, 4))).shape
        (2, 3)
    """

    def __init__(self, input_dims: int, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        input_dims = check_size("Linear", "input_dims", input_dims)
        output_dims = check_size("Linear", "output_dims", output_dims, 0)
        bound = math.sqrt(1.0 / input_dims)
        self.weight = mx.random.uniform(-bound, bound, (output_dims, input_dims))
        if bias:
            self.bias = mx.random.uniform(-bound, bound, (output_dims,))

    def _extra_repr(self) -> str:
        output_dims, input_dims = self.weight.shape
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        weight = self["weight"]
        check_last("Linear", x, weight.shape[-1])
        if "bias" in self:
            return mx.addmm(self["bias"], x, weight.T)
        return x @ weight.T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> QuantizedLinear | QQLinear:
        """A layer of the same weight, quantised.

        Args:
            group_size: how many neighbours share a scale; None is the mode's own, see QuantizedLinear.
            bits: bits an element; None is the mode's own.
            mode: "affine", "mxfp4", "mxfp8" or "nvfp4".
            quantize_input: whether the layer rounds its input too (for nvfp4 and mxfp8).

        Returns:
            A QuantizedLinear, or with `quantize_input` a QQLinear.

        Raises:
            ValueError: if sizes, group size, bits and mode do not fit each other.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Linear(64, 8).to_quantized(bits=8)
            QuantizedLinear(input_dims=64, output_dims=8, bias=True, group_size=64, bits=8, mode=affine)
        """
        from mlxc.nn.layers.quantized import QQLinear, QuantizedLinear

        return (QQLinear if quantize_input else QuantizedLinear).from_linear(self, group_size, bits, mode)


class Bilinear(Module):
    """A bilinear map of two inputs: component i of the result is `x2 @ weight[i] @ x1 + bias[i]`.

    `weight` has shape (output_dims, input2_dims, input1_dims), `bias` (output_dims,). Both begin uniform in
    [-1/sqrt(input1_dims), 1/sqrt(input1_dims)).

    Args:
        input1_dims: size of the last axis of the first input.
        input2_dims: size of the last axis of the second input.
        output_dims: size of the last axis of the result.
        bias: whether to add a bias.

    Raises:
        ValueError: if a size is not positive; on call, if the last axis of an input has another size, or the axes
            before it do not broadcast.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.Bilinear(2, 3, 4)(mx.ones((5, 2)), mx.ones((5, 3))).shape
        (5, 4)
    """

    def __init__(self, input1_dims: int, input2_dims: int, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        input1_dims = check_size("Bilinear", "input1_dims", input1_dims)
        input2_dims = check_size("Bilinear", "input2_dims", input2_dims)
        output_dims = check_size("Bilinear", "output_dims", output_dims, 0)
        bound = math.sqrt(1.0 / input1_dims)
        self.weight = mx.random.uniform(-bound, bound, (output_dims, input2_dims, input1_dims))
        if bias:
            self.bias = mx.random.uniform(-bound, bound, (output_dims,))

    def _extra_repr(self) -> str:
        output_dims, input2_dims, input1_dims = self.weight.shape
        return f"input1_dims={input1_dims}, input2_dims={input2_dims}, output_dims={output_dims}, bias={'bias' in self}"

    def __call__(self, x1: mx.array, x2: mx.array) -> mx.array:
        weight = self["weight"]
        output_dims, input2_dims, input1_dims = weight.shape
        check_last("Bilinear", x1, input1_dims)
        check_last("Bilinear", x2, input2_dims)
        # All maps of x1 in one product: (..., output_dims, input2_dims), each then applied to x2.
        maps = (x1 @ weight.reshape(-1, input1_dims).T).reshape(*x1.shape[:-1], output_dims, input2_dims)
        y = (maps @ x2[..., None]).squeeze(-1)
        return y + self["bias"] if "bias" in self else y
