"""A decoder-only Transformer language model in plain mlxc.

The parameters are a tree of dicts and lists of arrays; the model is a function of that tree, so
mx.value_and_grad differentiates it with respect to the whole tree at once. Blocks are pre-norm:
LayerNorm, causal self-attention, LayerNorm, a GELU network four times as wide; learned positions.
train.py trains it on a text, tests/examples/test_lm_golden.py on formula-made weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import mlxc as mx

Params = dict[str, Any]


@dataclass(frozen=True)
class Config:
    vocabulary: int = 128  # bytes of ASCII text
    context: int = 64  # bytes the model looks back on
    width: int = 64
    heads: int = 4
    blocks: int = 2


def parameter_shapes(config: Config) -> Params:
    """The tree of the parameters' shapes. Weights are (outputs, inputs), vectors scale or shift."""
    width, hidden = config.width, 4 * config.width

    def norm() -> Params:
        return {"weight": (width,), "bias": (width,)}

    def block() -> Params:
        return {
            "ln1": norm(),
            **{name: {"weight": (width, width)} for name in "qkvo"},
            "ln2": norm(),
            "fc1": {"weight": (hidden, width), "bias": (hidden,)},
            "fc2": {"weight": (width, hidden), "bias": (width,)},
        }

    return {
        "tok": {"weight": (config.vocabulary, width)},
        "pos": {"weight": (config.context, width)},
        "blocks": [block() for _ in range(config.blocks)],
        "lnf": norm(),
        "head": {"weight": (config.vocabulary, width)},
    }


def initialise(config: Config, key: mx.array) -> Params:
    """Random parameters: matrices normal with a small spread, norm weights one, biases zero."""
    # Each block adds to the residual stream; shrinking what it adds keeps the sum's spread level.
    residual_scale = 1 / math.sqrt(2 * config.blocks)

    def make(path: tuple[str, ...], shape: tuple[int, ...]) -> mx.array:
        nonlocal key
        if len(shape) == 1:
            return mx.ones(shape) if path[-1] == "weight" else mx.zeros(shape)
        key, drawn = mx.random.split(key)
        scale = 0.05 if path[0] in ("tok", "pos", "head") else 1 / math.sqrt(shape[1])
        if path[-2] in ("o", "fc2"):
            scale *= residual_scale
        return scale * mx.random.normal(shape, key=drawn)

    return fill_tree(parameter_shapes(config), make)


def fill_tree(shapes: Any, make: Any, path: tuple[str, ...] = ()) -> Any:
    """The tree `shapes` with make(path, shape) for each shape; a path is keys and list positions."""
    if isinstance(shapes, dict):
        return {name: fill_tree(branch, make, (*path, name)) for name, branch in shapes.items()}
    if isinstance(shapes, list):
        return [fill_tree(branch, make, (*path, str(i))) for i, branch in enumerate(shapes)]
    return make(path, shapes)


def layer_norm(x: mx.array, p: Params) -> mx.array:
    centred = x - mx.mean(x, axis=-1, keepdims=True)
    variance = mx.mean(mx.square(centred), axis=-1, keepdims=True)
    return centred * mx.rsqrt(variance + 1e-5) * p["weight"] + p["bias"]


def linear(x: mx.array, p: Params) -> mx.array:
    y = x @ p["weight"].T
    return y + p["bias"] if "bias" in p else y


def gelu(x: mx.array) -> mx.array:
    return 0.5 * x * (1 + mx.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def attention(x: mx.array, p: Params, heads: int) -> mx.array:
    """Causal self-attention: each position mixes the values of itself and those before it."""
    batch, time, width = x.shape

    def split_heads(y: mx.array) -> mx.array:
        return y.reshape(batch, time, heads, width // heads).transpose(0, 2, 1, 3)

    q, k, v = (split_heads(linear(x, p[name])) for name in "qkv")
    scores = (q @ k.transpose(0, 1, 3, 2)) * (1 / math.sqrt(width // heads))
    position = mx.arange(time)
    may_see = position[:, None] >= position[None, :]
    weights = mx.softmax(mx.where(may_see, scores, -math.inf), axis=-1)
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(batch, time, width)
    return linear(mixed, p["o"])


def forward(params: Params, tokens: mx.array, heads: int) -> mx.array:
    """Scores (batch, time, vocabulary) of the byte after each of tokens (batch, time)."""
    x = params["tok"]["weight"][tokens] + params["pos"]["weight"][: tokens.shape[1]]
    for p in params["blocks"]:
        x = x + attention(layer_norm(x, p["ln1"]), p, heads)
        x = x + linear(gelu(linear(layer_norm(x, p["ln2"]), p["fc1"])), p["fc2"])
    return linear(layer_norm(x, params["lnf"]), params["head"])


def loss(params: Params, windows: mx.array, heads: int) -> mx.array:
    """Mean cross-entropy, in nats a byte, of predicting windows[:, 1:] from windows[:, :-1]."""
    logits = forward(params, windows[:, :-1], heads)
    targets = windows[:, 1:]
    of_target = mx.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return mx.mean(mx.logsumexp(logits, axis=-1) - of_target)


def generate(
    params: Params, prompt: mx.array, count: int, config: Config, *, temperature: float, key: mx.array
) -> list[int]:
    """`count` further bytes after the 1-d prompt, each drawn from the model's prediction."""
    tokens = prompt
    drawn = []
    for _ in range(count):
        logits = forward(params, tokens[None, -config.context :], config.heads)[0, -1]
        key, step_key = mx.random.split(key)
        token = mx.random.categorical(logits / temperature, key=step_key)
        drawn.append(int(token.item()))
        tokens = mx.concatenate([tokens, token.reshape(1).astype(tokens.dtype)])
    return drawn
