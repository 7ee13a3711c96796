"""Layers that normalise: LayerNorm and RMSNorm over the last axis."""

from __future__ import annotations

import mlxc as mx
from mlxc.nn.layers._checks import check_last, check_size
from mlxc.nn.layers.base import Module

__all__ = ["LayerNorm", "RMSNorm"]


class LayerNorm(Module):
    """Layer normalisation of the last axis: `(x - mean) / sqrt(variance + eps) * weight + bias`.

    `weight` begins as ones, `bias` as zeros, both of shape (dims,). Computed in float32 at least. From Ba, Kiros and
    Hinton, Layer Normalization, arXiv:1607.06450.

    Args:
        dims: size of the last axis.
        eps: added to the variance.
        affine: whether there is a weight, and a bias if wanted.
        bias: whether there is a bias beside the weight.

    Raises:
        ValueError: on call, if the last axis of the input has another size.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.LayerNorm(2, eps=0.0)(mx.array([[1.0, 3.0]]))
        array([[-1, 1]], dtype=float32)
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = True, bias: bool = True) -> None:
        super().__init__()
        self.dims = check_size("LayerNorm", "dims", dims)
        self.eps = eps
        if affine:
            self.weight = mx.ones((self.dims,))
            if bias:
                self.bias = mx.zeros((self.dims,))

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        check_last("LayerNorm", x, self.dims)
        return mx.fast.layer_norm(x, self.get("weight"), self.get("bias"), self.eps)


class RMSNorm(Module):
    """Root-mean-square normalisation of the last axis: `x / sqrt(mean(x ** 2) + eps) * weight`.

    `weight` begins as ones, of shape (dims,). Computed in float32 at least. From Zhang and Sennrich, Root Mean Square
    Layer Normalization, arXiv:1910.07467.

    Args:
        dims: size of the last axis.
        eps: added to the mean square.

    Raises:
        ValueError: on call, if the last axis of the input has another size.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.RMSNorm(2, eps=0.0)(mx.array([[1.0, 7.0]]))
        array([[0.2, 1.4]], dtype=float32)
    """

    def __init__(self, dims: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = mx.ones((check_size("RMSNorm", "dims", dims),))
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"

    def __call__(self, x: mx.array) -> mx.array:
        weight = self["weight"]
        check_last("RMSNorm", x, weight.shape[0])
        return mx.fast.rms_norm(x, weight, self.eps)
