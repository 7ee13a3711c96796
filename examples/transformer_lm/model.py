"""A decoder-only Transformer language model.

Blocks are pre-norm: LayerNorm, causal self-attention, LayerNorm, a GELU network four times as wide; positions are
learned. train.py trains it on a text, tests/examples/test_lm_golden.py on weights made by a formula.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlxc as mx
from mlxc import nn


@dataclass(frozen=True)
class Config:
    vocabulary: int = 128  # bytes of ASCII text
    context: int = 64  # bytes the model looks back on
    width: int = 64
    heads: int = 4
    blocks: int = 2
    dropout: float = 0.0


class Attention(nn.Module):
    """Causal self-attention: each position mixes the values of itself and those before it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        batch, time, width = x.shape

        def split_heads(y: mx.array) -> mx.array:
            return y.reshape(batch, time, self.heads, width // self.heads).transpose(0, 2, 1, 3)

        q, k, v = (split_heads(layer(x)) for layer in (self.query, self.key, self.value))
        mixed = mx.fast.scaled_dot_product_attention(q, k, v, scale=(width // self.heads) ** -0.5, mask="causal")
        return self.output(mixed.transpose(0, 2, 1, 3).reshape(batch, time, width))


class Block(nn.Module):
    """Adds to each position what attention finds in the others, then what a small network makes of that."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config.width, config.heads)
        self.norm2 = nn.LayerNorm(config.width)
        self.expand = nn.Linear(config.width, 4 * config.width)
        self.contract = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def __call__(self, x: mx.array) -> mx.array:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.contract(nn.gelu_approx(self.expand(self.norm2(x)))))


class Transformer(nn.Module):
    """Gives each of tokens (batch, time) the scores (batch, time, vocabulary) of the byte after it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.blocks = [Block(config) for _ in range(config.blocks)]
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)

    def __call__(self, tokens: mx.array) -> mx.array:
        x = self.token(tokens) + self.position(mx.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss(model: Transformer, windows: mx.array) -> mx.array:
    """Mean cross-entropy, in nats a byte, of predicting windows[:, 1:] from windows[:, :-1]."""
    return nn.losses.cross_entropy(model(windows[:, :-1]), windows[:, 1:], reduction="mean")


def generate(model: Transformer, prompt: bytes, count: int, temperature: float) -> bytes:
    """The prompt and `count` bytes after it, each drawn from the model's prediction."""
    tokens = mx.array(list(prompt), dtype=mx.int32)
    for _ in range(count):
        scores = model(tokens[None, -model.config.context :])[0, -1]
        drawn = mx.random.categorical(scores / temperature)
        tokens = mx.concatenate([tokens, drawn.reshape(1).astype(tokens.dtype)])
        mx.eval(tokens)
    return bytes(tokens.tolist())
