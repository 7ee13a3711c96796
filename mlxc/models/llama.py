"""The model: a decoder-only Transformer of the Llama family on mlxc.nn, made by a ModelConfig.

load.py builds it and puts weights in, generate.py runs it. Parameters have the names and shapes of Hugging Face
checkpoints, so that files need no map of names. What the members of the family do differently is decided when a layer
is made; a call goes one way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlxc as mx
from mlxc import nn

from .cache import KVCache, RotatingKVCache
from .config import ModelConfig

__all__ = ["Llama"]


class OffsetRMSNorm(nn.Module):
    """RMS norm whose weights are stored less a number: Gemma's differ from 1 by what is in the file."""

    def __init__(self, dims: int, eps: float, offset: float) -> None:
        super().__init__()
        self.weight = mx.zeros((dims,))
        self.eps = eps
        self.offset = offset

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self.weight.astype(mx.float32) + self.offset, self.eps).astype(x.dtype)


def make_norm(config: ModelConfig, dims: int) -> nn.RMSNorm | OffsetRMSNorm:
    if config.norm_offset:
        return OffsetRMSNorm(dims, config.rms_norm_eps, config.norm_offset)
    return nn.RMSNorm(dims, config.rms_norm_eps)


class Rope(nn.Module):
    """Rotary embedding of queries and keys, with stretched wavelengths if the configuration asks for them."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.dims = config.rope_dims or config.head_dim
        self.traditional = config.rope_traditional
        self.base: float | None = config.rope_theta
        self._freqs = None
        if config.local_rope_theta is not None and config.layer_windows[layer] is not None:
            self.base = config.local_rope_theta
        elif config.rope_scaling is not None:
            self._freqs = mx.array(config.rope_scaling.wavelengths(self.dims, config.rope_theta))
            self.base = None

    def __call__(self, x: mx.array, offset: int | mx.array) -> mx.array:
        return mx.fast.rope(
            x, self.dims, traditional=self.traditional, base=self.base, scale=1.0, offset=offset, freqs=self._freqs
        )


def split_heads(x: mx.array, heads: int) -> mx.array:
    """(batch, length, heads * width) as (batch, heads, length, width). A single position needs no exchange of axes."""
    batch, length, _ = x.shape
    if length == 1:
        return x.reshape(batch, heads, 1, -1)
    return x.reshape(batch, length, heads, -1).swapaxes(1, 2)


def soft_cap(x: mx.array, cap: float) -> mx.array:
    """Close to x where it is small, never beyond the cap."""
    return mx.tanh(x / cap) * cap


def capped_attention(
    q: mx.array, k: mx.array, v: mx.array, *, scale: float, mask: mx.array | str | None, cap: float
) -> mx.array:
    """Attention whose scores are bounded before the mask, which the fused one cannot do."""
    batch, heads, length, width = q.shape
    groups = k.shape[1]
    q = (q * scale).reshape(batch, groups, heads // groups, length, width)
    scores = soft_cap((q @ mx.expand_dims(k, 2).swapaxes(-1, -2)).astype(mx.float32), cap)
    if isinstance(mask, str):
        total = k.shape[2]
        mask = mx.arange(total) <= mx.arange(total - length, total)[:, None]
    if mask is not None:
        masks = mask if mask.ndim < 4 else mx.expand_dims(mask, 2)
        scores = mx.where(masks, scores, mx.array(-mx.inf)) if masks.dtype == mx.bool_ else scores + masks
    weights = mx.softmax(scores, axis=-1).astype(v.dtype)
    # A row of padding sees no key at all; nothing of it is used.
    weights = mx.where(mx.isnan(weights), mx.array(0, dtype=weights.dtype), weights)
    return (weights @ mx.expand_dims(v, 2)).reshape(batch, heads, length, v.shape[-1])


class Attention(nn.Module):
    """Grouped-query attention with rotary positions."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        width, head_dim = config.hidden_size, config.head_dim
        self.heads = config.num_heads
        self.kv_heads = config.num_kv_heads
        self.scale = head_dim**-0.5 if config.query_scale is None else config.query_scale
        self.cap = config.attention_softcap
        self.q_proj = nn.Linear(width, self.heads * head_dim, bias=config.qkv_bias)
        self.k_proj = nn.Linear(width, self.kv_heads * head_dim, bias=config.qkv_bias)
        self.v_proj = nn.Linear(width, self.kv_heads * head_dim, bias=config.qkv_bias)
        self.o_proj = nn.Linear(self.heads * head_dim, width, bias=config.output_bias)
        self.has_qk_norm = config.qk_norm
        if config.qk_norm:
            self.q_norm = make_norm(config, head_dim)
            self.k_norm = make_norm(config, head_dim)
        self.rope = Rope(config, layer)

    def __call__(self, x: mx.array, mask: mx.array | str | None, cache: Any, offset: int | mx.array) -> mx.array:
        batch, length, _ = x.shape
        q = split_heads(self.q_proj(x), self.heads)
        k = split_heads(self.k_proj(x), self.kv_heads)
        v = split_heads(self.v_proj(x), self.kv_heads)
        if self.has_qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = self.rope(q, offset), self.rope(k, offset)
        if cache is not None:
            k, v = cache.update_and_fetch(k, v)
        if self.cap is None:
            out = mx.fast.scaled_dot_product_attention(q, k, v, scale=self.scale, mask=mask)
        else:
            out = capped_attention(q, k, v, scale=self.scale, mask=mask, cap=self.cap)
        out = out if length == 1 else out.swapaxes(1, 2)
        return self.o_proj(out.reshape(batch, length, -1))


class FeedForward(nn.Module):
    """The gated feed-forward block."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, inner, bias = config.hidden_size, config.intermediate_size, config.mlp_bias
        self.gate_proj = nn.Linear(width, inner, bias=bias)
        self.up_proj = nn.Linear(width, inner, bias=bias)
        self.down_proj = nn.Linear(inner, width, bias=bias)
        self._activate = {"silu": nn.silu, "gelu": nn.gelu, "gelu_tanh": nn.gelu_approx}[config.activation]

    def __call__(self, x: mx.array) -> mx.array:
        return self.down_proj(self._activate(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """Attention and feed-forward, each added to the residual stream."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.self_attn = Attention(config, layer)
        self.mlp = FeedForward(config)
        self.has_post_norms = config.post_norms
        self.input_layernorm = make_norm(config, config.hidden_size)
        self.post_attention_layernorm = make_norm(config, config.hidden_size)
        if config.post_norms:
            self.pre_feedforward_layernorm = make_norm(config, config.hidden_size)
            self.post_feedforward_layernorm = make_norm(config, config.hidden_size)

    def __call__(self, x: mx.array, mask: mx.array | str | None, cache: Any, offset: int | mx.array) -> mx.array:
        attended = self.self_attn(self.input_layernorm(x), mask, cache, offset)
        if not self.has_post_norms:
            x = x + attended
            return x + self.mlp(self.post_attention_layernorm(x))
        x = x + self.post_attention_layernorm(attended)
        return x + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(x)))


def make_mask(cache: Any, length: int, window: int | None, padding: mx.array | None) -> mx.array | str | None:
    """Which keys the new positions see: those before them, in the window, that are not padding."""
    if padding is None and cache is not None:
        return cache.make_mask(length, window)
    offset = 0 if cache is None else cache.offset
    if padding is None and (window is None or length <= window):
        return "causal" if length > 1 else None
    keys = mx.arange(offset + length)
    queries = mx.arange(offset, offset + length)[:, None]
    seen = keys <= queries
    if window is not None:
        seen = seen & (keys > queries - window)
    return seen if padding is None else seen & (keys >= padding[:, None, None, None])


class Decoder(nn.Module):
    """Embedding, blocks and the last norm: tokens to hidden states."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self._config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = [Block(config, layer) for layer in range(config.num_layers)]
        self.norm = make_norm(config, config.hidden_size)

    def __call__(
        self, tokens: mx.array, cache: Sequence[Any] | None = None, padding: mx.array | None = None
    ) -> mx.array:
        x = self.embed_tokens(tokens)
        if self._config.embedding_scale != 1:
            x = x * mx.array(self._config.embedding_scale, dtype=x.dtype)
        caches = [None] * len(self.layers) if cache is None else cache
        offset = 0 if caches[0] is None else caches[0].offset
        positions = offset if padding is None else offset - padding
        masks: dict[int | None, mx.array | str | None] = {}
        for window, layer_cache in zip(self._config.layer_windows, caches, strict=True):
            if window not in masks:
                masks[window] = make_mask(layer_cache, tokens.shape[1], window, padding)
        for layer, window, layer_cache in zip(self.layers, self._config.layer_windows, caches, strict=True):
            x = layer(x, masks[window], layer_cache, positions)
        return self.norm(x)


class Llama(nn.Module):
    """A language model of the Llama family: Llama, Mistral, Qwen 2 and 3, SmolLM, Gemma 1 to 3 (text).

    Weights are random until load_weights or mlxc.models.load puts real ones in. `model` turns tokens into hidden
    states, `project` these into logits; a call does both.

    Args:
        config: what the model is made of.

    Source:
        Touvron et al. 2023, LLaMA: Open and Efficient Foundation Language Models, arXiv 2302.13971.

    Example:
        >>> from mlxc.models import Llama, ModelConfig
        >>> config = ModelConfig("llama", vocab_size=256, hidden_size=64, intermediate_size=128, num_layers=2,
        ...                      num_heads=4, num_kv_heads=2, head_dim=16)
        >>> Llama(config)(mx.array([[1, 2, 3]])).shape
        (1, 3, 256)
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        if not config.tie_word_embeddings:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    @property
    def layers(self) -> list[Block]:
        """The blocks, for which a cache has one part each."""
        return self.model.layers

    def make_cache(self) -> list[KVCache]:
        """An empty cache: for each layer an object that grows, or one that keeps the window that the layer sees.

        Returns:
            The list, one object a layer.

        Example:
            >>> from mlxc.models import Llama, ModelConfig
            >>> config = ModelConfig("llama", vocab_size=256, hidden_size=64, intermediate_size=128, num_layers=2,
            ...                      num_heads=4, num_kv_heads=2, head_dim=16)
            >>> [part.offset for part in Llama(config).make_cache()]
            [0, 0]
        """
        return [KVCache() if window is None else RotatingKVCache(window) for window in self.config.layer_windows]

    def project(self, hidden: mx.array) -> mx.array:
        """Logits of hidden states.

        Args:
            hidden: floating-point array of shape (..., hidden_size).

        Returns:
            An array of shape (..., vocab_size).

        Example:
            >>> from mlxc.models import Llama, ModelConfig
            >>> config = ModelConfig("llama", vocab_size=256, hidden_size=64, intermediate_size=128, num_layers=2,
            ...                      num_heads=4, num_kv_heads=2, head_dim=16)
            >>> Llama(config).project(mx.zeros((1, 64))).shape
            (1, 256)
        """
        tied = self.config.tie_word_embeddings
        logits = self.model.embed_tokens.as_linear(hidden) if tied else self.lm_head(hidden)
        return logits if self.config.logit_softcap is None else soft_cap(logits, self.config.logit_softcap)

    def __call__(
        self, tokens: mx.array, cache: Sequence[Any] | None = None, padding: mx.array | None = None
    ) -> mx.array:
        """Logits of the next token, at each position.

        Args:
            tokens: integers of shape (batch, length).
            cache: keys and values of the positions before, one object a layer as make_cache gives them; they get
                those of `tokens` too.
            padding: for each row of the batch how many positions at the beginning, of all that were given since the
                cache was empty, are padding that nothing sees.

        Returns:
            An array of shape (batch, length, vocab_size).

        Raises:
            ValueError: if tokens are no (batch, length) array, or the cache has not one object a layer.
            IndexError: when it is evaluated, if a token is not in the vocabulary.
        """
        if tokens.ndim != 2:
            raise ValueError(f"[Llama] tokens must have shape (batch, length), got {tokens.shape}")
        if cache is not None and len(cache) != len(self.layers):
            raise ValueError(f"[Llama] a cache for {len(cache)} layers was given, the model has {len(self.layers)}")
        return self.project(self.model(tokens, cache, padding))
