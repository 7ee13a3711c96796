"""The fused ops of mlxc.fast beside the same mathematics in plain ops, forward and with gradients, in
processor time of all threads together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from timing import take_turns

import mlxc as mx

RNG = np.random.default_rng(0)


def draw(*shape: int) -> mx.array:
    return mx.array(RNG.standard_normal(shape).astype(np.float32))


def rms_norm(x: mx.array, w: mx.array) -> mx.array:
    return x * mx.rsqrt(mx.mean(x * x, -1, keepdims=True) + 1e-5) * w


def layer_norm(x: mx.array, w: mx.array) -> mx.array:
    moved = x - mx.mean(x, -1, keepdims=True)
    return moved * mx.rsqrt(mx.mean(moved * moved, -1, keepdims=True) + 1e-5) * w + w


def rope(x: mx.array) -> mx.array:
    half = x.shape[-1] // 2
    angle = mx.arange(x.shape[-2])[:, None] * 10000.0 ** (-mx.arange(half) / half)
    a, b, c, s = x[..., :half], x[..., half:], mx.cos(angle), mx.sin(angle)
    return mx.concatenate([a * c - b * s, a * s + b * c], -1)


def attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    scores = (q * 0.125) @ k.swapaxes(-1, -2)
    seen = mx.arange(q.shape[2])[:, None] + (k.shape[2] - q.shape[2]) >= mx.arange(k.shape[2])
    return mx.softmax(mx.where(seen, scores, -mx.inf), -1) @ v


def cross_entropy(logits: mx.array, targets: mx.array) -> mx.array:
    return mx.logsumexp(logits, -1) - mx.take_along_axis(logits, targets[:, None], -1)[:, 0]


def fused_attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.125, mask="causal")


HEADS, PROMPT = (1, 16, 1, 64), (1, 8, 512, 64)
# The fused form, the plain one, the inputs, how many of them are differentiated, and the ratios not to pass.
CASES: dict[str, tuple[Callable, Callable, Callable[[], tuple], int, float, float]] = {
    "rms_norm": (
        lambda x, w: mx.fast.rms_norm(x, w, 1e-5),
        rms_norm,
        lambda: (draw(4096, 1024), draw(1024)),
        2,
        0.5,
        0.7,
    ),
    "layer_norm": (
        lambda x, w: mx.fast.layer_norm(x, w, w, 1e-5),
        layer_norm,
        lambda: (draw(4096, 1024), draw(1024)),
        2,
        0.5,
        0.7,
    ),
    "rope": (
        lambda x: mx.fast.rope(x, 64, traditional=False, base=10000.0, scale=1.0, offset=0),
        rope,
        lambda: (draw(1, 16, 512, 64),),
        1,
        0.7,
        0.7,
    ),
    "attention, a prompt": (
        fused_attention,
        attention,
        lambda: (draw(*PROMPT), draw(*PROMPT), draw(*PROMPT)),
        3,
        0.7,
        0.8,
    ),
    "attention, one token": (
        fused_attention,
        attention,
        lambda: (draw(*HEADS), draw(1, 16, 2048, 64), draw(1, 16, 2048, 64)),
        0,
        1.2,
        0,
    ),
    "cross_entropy": (
        mx.fast.cross_entropy,
        cross_entropy,
        lambda: (draw(256, 32000), mx.array(RNG.integers(0, 32000, 256))),
        1,
        1.0,
        0.7,
    ),
}


@pytest.mark.parametrize("gradient", [False, True], ids=["forward", "gradient"])
@pytest.mark.parametrize("name", list(CASES))
def test_a_fused_op_is_faster_than_plain_ones(benchmark, keep, name: str, gradient: bool) -> None:
    fused, plain, make, count, forward_budget, gradient_budget = CASES[name]
    if gradient and count == 0:
        pytest.skip("decoding has no gradient")
    inputs = make()
    mx.eval(*inputs)
    if gradient:
        places = tuple(range(count))
        fused, plain = (
            mx.grad(lambda *xs, f=f: mx.square(f(*xs)).sum(), places if count > 1 else 0) for f in (fused, plain)
        )
    seconds = take_turns(
        {"fused": lambda: mx.eval(fused(*inputs)), "plain": lambda: mx.eval(plain(*inputs))},
        rounds=21,
        number=1,
    )
    ratio = seconds["fused"] / seconds["plain"]
    benchmark.pedantic(lambda: mx.eval(fused(*inputs)), rounds=5, iterations=1)
    keep(seconds, ratio)
    assert ratio <= (gradient_budget if gradient else forward_budget)
