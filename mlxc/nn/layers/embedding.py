"""Embedding: a table of vectors that is indexed by whole numbers."""

from __future__ import annotations

import math

import mlxc as mx
from mlxc.nn.layers._checks import check_last, check_size
from mlxc.nn.layers.base import Module

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
