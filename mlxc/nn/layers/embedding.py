"""Embedding: a table of vectors that is indexed by whole numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mlxc as mx
from mlxc.nn.layers._checks import check_last, check_size
from mlxc.nn.layers.base import Module

if TYPE_CHECKING:
    from mlxc.nn.layers.quantized import QuantizedEmbedding

__all__ = ["Embedding"]


class Embedding(Module):
    """Looks up vectors by number: tokens, users, positions.

    `weight` has shape (num_embeddings, dims) and begins normal with standard deviation 1/sqrt(dims).

    Args:
        num_embeddings: how many vectors there are.
        dims: their size.

    Raises:
        ValueError: if a size is not positive.
        IndexError: on call, for a number out of range (on the CPU).

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.Embedding(10, 4)
        >>> layer
        Embedding(10, 4)
        >>> layer(mx.array([[1, 2, 3]])).shape
        (1, 3, 4)
    """

    def __init__(self, num_embeddings: int, dims: int) -> None:
        super().__init__()
        num_embeddings = check_size("Embedding", "num_embeddings", num_embeddings, 0)
        dims = check_size("Embedding", "dims", dims)
        self.weight = mx.random.normal((num_embeddings, dims), scale=math.sqrt(1.0 / dims))

    def _extra_repr(self) -> str:
        return ", ".join(str(size) for size in self.weight.shape)

    def __call__(self, x: mx.array) -> mx.array:
        return self["weight"][x]

    def as_linear(self, x: mx.array) -> mx.array:
        """Uses the table as the weight of a linear map, as language models do for their output: `x @ weight.T`.

        Args:
            x: array whose last axis has size dims.

        Returns:
            An array whose last axis has size num_embeddings.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Embedding(10, 4).as_linear(mx.ones((2, 4))).shape
            (2, 10)
        """
        weight = self["weight"]
        check_last("Embedding.as_linear", x, weight.shape[-1])
        return x @ weight.T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> QuantizedEmbedding:
        """A layer of the same table, quantised.

        Args:
            group_size: how many neighbours share a scale; None is the mode's own, see QuantizedLinear.
            bits: bits an element; None is the mode's own.
            mode: "affine", "mxfp4", "mxfp8" or "nvfp4".
            quantize_input: must be False, as the input is whole numbers.

        Returns:
            A QuantizedEmbedding.

        Raises:
            ValueError: if sizes, group size, bits and mode do not fit each other, and for `quantize_input`.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.Embedding(10, 64).to_quantized()
            QuantizedEmbedding(10, 64, group_size=64, bits=4, mode=affine)
        """
        from mlxc.nn.layers.quantized import QuantizedEmbedding

        if quantize_input:
            raise ValueError("[Embedding.to_quantized] Quantized input is not supported: it is whole numbers")
        return QuantizedEmbedding.from_embedding(self, group_size, bits, mode)
