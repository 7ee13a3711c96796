"""Attention of several heads, and the encoder and decoder of the Transformer that are made of it.

Called by users' models. The attention itself is mx.fast.scaled_dot_product_attention, which never holds the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mlxc as mx
from mlxc.nn.layers._checks import check_size
from mlxc.nn.layers.activations import relu
from mlxc.nn.layers.base import Module
from mlxc.nn.layers.dropout import Dropout
from mlxc.nn.layers.linear import Linear
from mlxc.nn.layers.normalization import LayerNorm
from mlxc.nn.utils import checkpoint as checkpointed

__all__ = [
    "MultiHeadAttention",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = Callable[[Any], Any]
Mask = mx.array | str | None


class MultiHeadAttention(Module):
    """Attention of several heads: `softmax(q k^T / sqrt(d) + mask) v` for each, with projections before and after.

    A call takes queries of shape (batch, length, query_input_dims), keys and values of shape (batch, length of these,
    ...), and a mask: None, "causal", or an array that broadcasts to (batch, heads, length, length of the keys), of
    numbers that are added to the scores or of bools, true where a key is seen. It returns an array of shape
    (batch, length, value_output_dims). The projections are Linear layers `query_proj`, `key_proj`, `value_proj` and
    `out_proj`.

    Args:
        dims: size of all heads' queries and keys together.
        num_heads: number of heads.
        query_input_dims: size of the last axis of the queries; `dims` by default.
        key_input_dims: that of the keys; `dims` by default.
        value_input_dims: that of the values; `key_input_dims` by default.
        value_dims: size of all heads' values together; `dims` by default.
        value_output_dims: size of the last axis of the result; `dims` by default.
        bias: whether the projections have biases.

    Raises:
        ValueError: if `dims` or `value_dims` is no multiple of `num_heads`; on call, if shapes do not fit.

    Source:
        Vaswani et al. 2017, Attention Is All You Need, arXiv 1706.03762.

    Example:
        >>> import mlxc.nn as nn
        >>> attention = nn.MultiHeadAttention(8, num_heads=2)
        >>> x = mx.ones((1, 5, 8))
        >>> attention(x, x, x, mask="causal").shape
        (1, 5, 8)
    """

    def __init__(  # noqa: PLR0917 (the order is MLX's)
        self,
        dims: int,
        num_heads: int,
        query_input_dims: int | None = None,
        key_input_dims: int | None = None,
        value_input_dims: int | None = None,
        value_dims: int | None = None,
        value_output_dims: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        name = "MultiHeadAttention"
        dims = check_size(name, "dims", dims)
        num_heads = check_size(name, "num_heads", num_heads)
        key_input_dims = key_input_dims or dims
        value_dims = value_dims or dims
        if dims % num_heads or value_dims % num_heads:
            raise ValueError(
                f"[{name}] dims and value_dims should be multiples of num_heads={num_heads}, got {dims} and "
                f"{value_dims}"
            )
        self.num_heads = num_heads
        self.query_proj = Linear(query_input_dims or dims, dims, bias=bias)
        self.key_proj = Linear(key_input_dims, dims, bias=bias)
        self.value_proj = Linear(value_input_dims or key_input_dims, value_dims, bias=bias)
        self.out_proj = Linear(value_dims, value_output_dims or dims, bias=bias)

    def __call__(self, queries: mx.array, keys: mx.array, values: mx.array, mask: Mask = None) -> mx.array:
        for name, array in (("queries", queries), ("keys", keys), ("values", values)):
            if array.ndim != 3:
                raise ValueError(
                    f"[MultiHeadAttention] {name} should have shape (batch, length, dims), got {array.shape}"
                )
        if keys.shape[1] != values.shape[1]:
            raise ValueError(
                f"[MultiHeadAttention] keys and values should have the same length, got {keys.shape} and {values.shape}"
            )
        q = self._heads(self.query_proj(queries))
        k = self._heads(self.key_proj(keys))
        v = self._heads(self.value_proj(values))
        if isinstance(mask, mx.array) and mask.dtype != mx.bool_:
            mask = mask.astype(q.dtype)
        out = mx.fast.scaled_dot_product_attention(q, k, v, scale=1 / math.sqrt(q.shape[-1]), mask=mask)
        return self.out_proj(mx.flatten(mx.swapaxes(out, 1, 2), -2, -1))

    def _heads(self, x: mx.array) -> mx.array:
        """From (batch, length, dims) to (batch, heads, length, dims of a head)."""
        return mx.swapaxes(mx.unflatten(x, -1, (self.num_heads, x.shape[-1] // self.num_heads)), 1, 2)

    @staticmethod
    def create_additive_causal_mask(N: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """A mask that keeps each query from the keys after it: numbers to add to the scores.

        Args:
            N: number of queries and of keys.
            dtype: floating dtype of the mask.

        Returns:
            Array of shape (N, N): the least number of the dtype above the diagonal, 0 elsewhere.

        Example:
            >>> import mlxc.nn as nn
            >>> nn.MultiHeadAttention.create_additive_causal_mask(3) < 0
            array([[False,  True,  True],
                   [False, False,  True],
                   [False, False, False]], dtype=bool)
        """
        places = mx.arange(N)
        hidden = mx.expand_dims(places, 1) < mx.expand_dims(places, 0)
        return mx.where(hidden, mx.array(mx.finfo(dtype).min, dtype=dtype), mx.zeros((), dtype=dtype))


class TransformerEncoderLayer(Module):
    """Self-attention and two linear layers with an activation between, each added to its normalised input.

    A call takes an array of shape (batch, length, dims) and a mask as MultiHeadAttention has it.

    Args:
        dims: size of the last axis.
        num_heads: number of heads of the attention.
        mlp_dims: size between the two linear layers; 4 dims by default.
        dropout: share of elements that is left out after the attention and the activation in training.
        activation: function between the two linear layers.
        norm_first: whether to normalise what goes into attention and linear layers; else the sums are normalised.

    Raises:
        ValueError: if `dims` is no multiple of `num_heads`; on call, if shapes do not fit.

    Source:
        Vaswani et al. 2017, arXiv 1706.03762; Xiong et al. 2020, On Layer Normalization, arXiv 2002.04745.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.TransformerEncoderLayer(8, num_heads=2)(mx.ones((1, 5, 8)), None).shape
        (1, 5, 8)
    """

    def __init__(  # noqa: PLR0917 (the order is MLX's)
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Activation = relu,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        mlp_dims = mlp_dims or 4 * dims
        self.attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def __call__(self, x: mx.array, mask: Mask) -> mx.array:
        if self.norm_first:
            y = self.ln1(x)
            x = x + self.dropout1(self.attention(y, y, y, mask))
            return x + self._feed_forward(self.ln2(x))
        x = self.ln1(x + self.dropout1(self.attention(x, x, x, mask)))
        return self.ln2(x + self._feed_forward(x))

    def _feed_forward(self, x: mx.array) -> mx.array:
        return self.linear2(self.dropout2(self.activation(self.linear1(x))))


class TransformerEncoder(Module):
    """Encoder layers one after the other, and a layer norm.

    A call takes an array of shape (batch, length, dims) and a mask as MultiHeadAttention has it.

    Args:
        num_layers: number of layers.
        dims: size of the last axis.
        num_heads: number of heads of each attention.
        mlp_dims: size between the two linear layers of each; 4 dims by default.
        dropout: share of elements that is left out in training.
        activation: function between the two linear layers.
        norm_first: whether to normalise what goes into attention and linear layers.
        checkpoint: whether to keep only the layers' inputs for the gradient and compute the rest again.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.TransformerEncoder(2, 8, num_heads=2)(mx.ones((1, 5, 8)), "causal").shape
        (1, 5, 8)
    """

    def __init__(  # noqa: PLR0917 (the order is MLX's)
        self,
        num_layers: int,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Activation = relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        self.layers = [
            TransformerEncoderLayer(dims, num_heads, mlp_dims, dropout, activation, norm_first)
            for _ in range(num_layers)
        ]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def __call__(self, x: mx.array, mask: Mask) -> mx.array:
        for layer in self.layers:
            x = (checkpointed(layer) if self.checkpoint else layer)(x, mask)
        return self.ln(x)


class TransformerDecoderLayer(Module):
    """Self-attention, attention to an encoder's result, and two linear layers, each added to its normalised input.

    A call takes an array of shape (batch, length, dims), the encoder's result of shape (batch, its length, dims), and a
    mask for each of the two as MultiHeadAttention has it.

    Args:
        dims: size of the last axis.
        num_heads: number of heads of the attentions.
        mlp_dims: size between the two linear layers; 4 dims by default.
        dropout: share of elements that is left out after the attentions and the activation in training.
        activation: function between the two linear layers.
        norm_first: whether to normalise what goes into attentions and linear layers; else the sums are normalised.

    Raises:
        ValueError: if `dims` is no multiple of `num_heads`; on call, if shapes do not fit.

    Source:
        Vaswani et al. 2017, arXiv 1706.03762.

    Example:
        >>> import mlxc.nn as nn
        >>> layer = nn.TransformerDecoderLayer(8, num_heads=2)
        >>> layer(mx.ones((1, 5, 8)), mx.ones((1, 7, 8)), "causal", None).shape
        (1, 5, 8)
    """

    def __init__(  # noqa: PLR0917 (the order is MLX's)
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Activation = relu,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        mlp_dims = mlp_dims or 4 * dims
        self.self_attention = MultiHeadAttention(dims, num_heads)
        self.cross_attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.ln3 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def __call__(self, x: mx.array, memory: mx.array, x_mask: Mask, memory_mask: Mask) -> mx.array:
        if self.norm_first:
            y = self.ln1(x)
            x = x + self.dropout1(self.self_attention(y, y, y, x_mask))
            x = x + self.dropout2(self.cross_attention(self.ln2(x), memory, memory, memory_mask))
            return x + self._feed_forward(self.ln3(x))
        x = self.ln1(x + self.dropout1(self.self_attention(x, x, x, x_mask)))
        x = self.ln2(x + self.dropout2(self.cross_attention(x, memory, memory, memory_mask)))
        return self.ln3(x + self._feed_forward(x))

    def _feed_forward(self, x: mx.array) -> mx.array:
        return self.linear2(self.dropout3(self.activation(self.linear1(x))))


class TransformerDecoder(Module):
    """Decoder layers one after the other, and a layer norm.

    A call takes what a call of TransformerDecoderLayer takes.

    Args:
        num_layers: number of layers.
        dims: size of the last axis.
        num_heads: number of heads of each attention.
        mlp_dims: size between the two linear layers of each; 4 dims by default.
        dropout: share of elements that is left out in training.
        activation: function between the two linear layers.
        norm_first: whether to normalise what goes into attentions and linear layers.
        checkpoint: whether to keep only the layers' inputs for the gradient and compute the rest again.

    Example:
        >>> import mlxc.nn as nn
        >>> nn.TransformerDecoder(2, 8, num_heads=2)(mx.ones((1, 5, 8)), mx.ones((1, 7, 8)), "causal", None).shape
        (1, 5, 8)
    """

    def __init__(  # noqa: PLR0917 (the order is MLX's)
        self,
        num_layers: int,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Activation = relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        self.layers = [
            TransformerDecoderLayer(dims, num_heads, mlp_dims, dropout, activation, norm_first)
            for _ in range(num_layers)
        ]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def __call__(self, x: mx.array, memory: mx.array, x_mask: Mask, memory_mask: Mask) -> mx.array:
        for layer in self.layers:
            x = (checkpointed(layer) if self.checkpoint else layer)(x, memory, x_mask, memory_mask)
        return self.ln(x)


class Transformer(Module):
    """An encoder of a source sequence and a decoder of a target sequence that sees the encoder's result.

    A call takes the two sequences, of shape (batch, length, dims), and three masks as MultiHeadAttention has them: for
    the source, for the target, and for what the target sees of the source. Embeddings and positions are up to the user.

    Args:
        dims: size of the last axis.
        num_heads: number of heads of each attention.
        num_encoder_layers: number of layers of the encoder.
        num_decoder_layers: number of layers of the decoder.
        mlp_dims: size between the two linear layers of each; 4 dims by default.
        dropout: share of elements that is left out in training.
        activation: function between the two linear layers.
        custom_encoder: a module to take as the encoder.
        custom_decoder: a module to take as the decoder.
        norm_first: whether to normalise what goes into attentions and linear layers.
        checkpoint: whether to keep only the layers' inputs for the gradient and compute the rest again.

    Source:
        Vaswani et al. 2017, Attention Is All You Need, arXiv 1706.03762.

    Example:
        >>> import mlxc.nn as nn
        >>> model = nn.Transformer(8, 2, num_encoder_layers=1, num_decoder_layers=1)
        >>> model(mx.ones((1, 7, 8)), mx.ones((1, 5, 8)), None, "causal", None).shape
        (1, 5, 8)
    """

    def __init__(  # noqa: PLR0917 (the order is MLX's)
        self,
        dims: int = 512,
        num_heads: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Activation = relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        # A module without parameters is an empty dict, so "or" would not do.
        if custom_encoder is None:
            custom_encoder = TransformerEncoder(
                num_encoder_layers, dims, num_heads, mlp_dims, dropout, activation, norm_first, checkpoint
            )
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(
                num_decoder_layers, dims, num_heads, mlp_dims, dropout, activation, norm_first, checkpoint
            )
        self.encoder = custom_encoder
        self.decoder = custom_decoder

    def __call__(self, src: mx.array, tgt: mx.array, src_mask: Mask, tgt_mask: Mask, memory_mask: Mask) -> mx.array:
        memory = self.encoder(src, src_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask)
