"""What tells a model the order of its input: RoPE, SinusoidalPositionalEncoding, ALiBi."""

from __future__ import annotations

import math

import mlxc as mx
from mlxc.nn.layers._checks import check_size
from mlxc.nn.layers.base import Module

__all__ = ["ALiBi", "RoPE", "SinusoidalPositionalEncoding"]


class RoPE(Module):
    """Rotary position embedding: turns pairs of features by angles that grow with the position.

    Inputs are (N, ..., L, D) with the positions on the last axis but one. From Su et al., RoFormer, arXiv:2104.09864.

    Args:
        dims: how many features are turned; those behind them stay.
        traditional: whether a pair is two neighbours, rather than features half of `dims` apart.
        base: pair i turns by the angle `position / base ** (2 i / dims)`.
        scale: factor on the positions.

    Raises:
        ValueError: if `dims` is odd or not positive.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.RoPE(2)(mx.array([[[1.0, 0.0], [1.0, 0.0]]]))
        array([[[1, 0],
                [0.540302, 0.841471]]], dtype=float32)
    """

    def __init__(self, dims: int, traditional: bool = False, base: float = 10000, scale: float = 1.0) -> None:
        super().__init__()
        self.dims = check_size("RoPE", "dims", dims)
        if self.dims % 2:
            raise ValueError(f"[RoPE] dims should be even, got {dims}")
        self.traditional = traditional
        self.base = base
        self.scale = scale

    def _extra_repr(self) -> str:
        return f"{self.dims}, traditional={self.traditional}"

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        return mx.fast.rope(x, self.dims, traditional=self.traditional, base=self.base, scale=self.scale, offset=offset)


class SinusoidalPositionalEncoding(Module):
    """Sines and cosines of positions, at frequencies that fall geometrically from max_freq to min_freq.

    Maps an array of positions of any shape to one with a further last axis of size dims: all sines, then all cosines.
    From Vaswani et al., Attention Is All You Need, arXiv:1706.03762.

    Args:
        dims: size of the encoding.
        min_freq: the lowest frequency.
        max_freq: the highest frequency.
        scale: factor on the result; by default `sqrt(2 / dims)`, which makes vectors of length one.
        cos_first: whether the cosines come first.
        full_turns: whether to multiply the frequencies by 2 pi.

    Raises:
        ValueError: if `dims` is odd or not positive.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.SinusoidalPositionalEncoding(4)(mx.array([0.0, 1.0])).shape
        (2, 4)
    """

    def __init__(  # noqa: PLR0917 (MLX's signature)
        self,
        dims: int,
        min_freq: float = 0.0001,
        max_freq: float = 1,
        scale: float | None = None,
        cos_first: bool = False,
        full_turns: bool = False,
    ) -> None:
        super().__init__()
        dims = check_size("SinusoidalPositionalEncoding", "dims", dims)
        if dims % 2:
            raise ValueError(f"[SinusoidalPositionalEncoding] dims must be positive and even but got {dims}.")
        half = dims // 2
        # From 1 for the highest frequency to 0 for the lowest; a single one is the highest.
        share = 1 - mx.arange(half) / max(half - 1, 1)
        low, high = math.log(min_freq), math.log(max_freq)
        sigmas = mx.exp(share * (high - low) + low)
        self._sigmas = sigmas * (2 * math.pi) if full_turns else sigmas
        self.scale = math.sqrt(2 / dims) if scale is None else scale
        self.cos_first = cos_first

    def __call__(self, x: mx.array) -> mx.array:
        angles = x[..., None] * self._sigmas
        sines, cosines = mx.sin(angles), mx.cos(angles)
        y = mx.concatenate([cosines, sines] if self.cos_first else [sines, cosines], axis=-1)
        return y if self.scale == 1 else y * self.scale


class ALiBi(Module):
    """Attention with linear biases: subtracts from attention scores what grows with the distance of query and key.

    Called with scores of shape (..., heads, queries, keys); `offset` is the position of the first query, and `mask`
    is added as well. From Press, Smith and Lewis, Train Short, Test Long, arXiv:2108.12409.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.ALiBi()(mx.zeros((1, 1, 2, 2)))[0, 0]
        array([[0, -0.00390625],
               [-0.00390625, 0]], dtype=float32)
    """

    @staticmethod
    def create_alibi_matrix(
        q_sequence_length: int, k_sequence_length: int, num_heads: int, offset: int = 0, dtype: mx.Dtype = mx.float32
    ) -> mx.array:
        """The biases for all pairs of positions.

        Args:
            q_sequence_length: the position behind the last query.
            k_sequence_length: how many keys there are.
            num_heads: how many heads, each with a slope of its own.
            offset: the position of the first query.
            dtype: dtype of the result.

        Returns:
            An array of shape (1, num_heads, q_sequence_length - offset, k_sequence_length), zero or negative.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.ALiBi.create_alibi_matrix(2, 3, 1)
            array([[[[0, -0.00390625, -0.0078125],
                     [-0.00390625, 0, -0.00390625]]]], dtype=float32)
        """
        queries = mx.arange(offset, q_sequence_length)
        keys = mx.arange(k_sequence_length)
        nearness = -mx.abs(queries[:, None] - keys)
        return (nearness * ALiBi.create_alibi_slope(num_heads))[None].astype(dtype)

    @staticmethod
    def create_alibi_slope(num_heads: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """The slope of each head: powers of 2 ** (-8 / num_heads); the paper says which if num_heads is no power of 2.

        Args:
            num_heads: how many heads.
            dtype: dtype of the result.

        Returns:
            An array of shape (num_heads, 1, 1).

        Example:
            >>> import mlxc.nn as nn
            >>> nn.ALiBi.create_alibi_slope(4).squeeze()
            array([0.25, 0.0625, 0.015625, 0.00390625], dtype=float32)
        """
        num_heads = check_size("ALiBi", "num_heads", num_heads)
        power = 2 ** (num_heads.bit_length() - 1)
        slopes = [2 ** (-8 * (i + 1) / power) for i in range(power)]
        # The rest: every second slope of twice as many heads.
        slopes += [2 ** (-8 * (2 * i + 1) / (2 * power)) for i in range(num_heads - power)]
        return mx.array(slopes, dtype=dtype)[:, None, None]

    def __call__(self, attention_scores: mx.array, offset: int = 0, mask: mx.array | None = None) -> mx.array:
        heads, queries, keys = attention_scores.shape[-3:]
        biases = self.create_alibi_matrix(queries + offset, keys, heads, offset, attention_scores.dtype)
        if mask is not None:
            biases = biases + mask
        return attention_scores + (biases[0] if attention_scores.ndim == 3 else biases)
