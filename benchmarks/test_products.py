"""The large products of training steps and long prompts, in every form, beside NumPy's of float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from timing import take_turns

import mlxc as mx

ROUNDS = 21
RNG = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


def beside(benchmark, keep: Callable, rivals: dict[str, Callable[[], object]], budget: float) -> None:
    seconds = take_turns(rivals, ROUNDS, 1, parallel=True)
    benchmark.pedantic(next(iter(rivals.values())), rounds=10, iterations=1)
    first, second = seconds.values()
    ratio = first / second
    keep(seconds, ratio)
    assert ratio <= budget


@pytest.mark.parametrize("columns", [192, 576, 1536])
@pytest.mark.parametrize("kind", ["float32", "float16", "4 bits"])
def test_a_prompt_of_512_rows_times_a_weight_beside_numpy(benchmark, keep, kind: str, columns: int) -> None:
    x, w = draw(512, 576), draw(columns, 576)
    if kind == "4 bits":
        left, packed = mx.array(x), mx.quantize(mx.array(w), group_size=32, bits=4)
        product = lambda: mx.eval(mx.quantized_matmul(left, *packed, group_size=32, bits=4))  # noqa: E731
        mx.eval(left, *packed)
    else:
        left, right = (mx.array(a).astype(getattr(mx, kind)) for a in (x, w))
        product = lambda: mx.eval(left @ right.T)  # noqa: E731
        mx.eval(left, right)
    beside(benchmark, keep, {kind: product, "numpy float32": lambda: x @ w.T}, 1.2 if kind == "float32" else 1.5)


def test_the_gradient_of_a_convolution_s_weight_beside_the_product_in_numpy(benchmark, keep) -> None:
    x, g, w = draw(64, 16, 16, 64), draw(64, 16, 16, 64), draw(64, 3, 3, 64)
    patches, rows = draw(64 * 16 * 16, 9 * 64), g.reshape(-1, 64)
    a, b, c = mx.array(x), mx.array(g), mx.array(w)
    grad = mx.grad(lambda w: mx.sum(mx.conv2d(a, w, padding=1) * b))
    beside(benchmark, keep, {"gradient": lambda: mx.eval(grad(c)), "numpy": lambda: rows.T @ patches}, 2.0)


def test_the_gradient_of_a_strided_convolution_s_input_beside_the_product_in_numpy(benchmark, keep) -> None:
    x, g, w = draw(64, 32, 32, 32), draw(64, 16, 16, 64), draw(64, 3, 3, 32)
    rows, filters = g.reshape(-1, 64), w.reshape(64, -1)
    a, b, c = mx.array(x), mx.array(g), mx.array(w)
    grad = mx.grad(lambda x: mx.sum(mx.conv2d(x, c, stride=2, padding=1) * b))
    beside(benchmark, keep, {"gradient": lambda: mx.eval(grad(a)), "numpy": lambda: rows @ filters}, 3.0)
