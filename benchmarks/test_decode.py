"""What generating text one token at a time is made of: beside NumPy, and beside reading the same bytes.

A matrix that meets one row is read once, so its product can take no less than reading it; the read is the sum of as
many float32, by the same backend on the same threads, in the same run. Sizes are SmolLM2-135M's and one that no cache
holds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from timing import take_turns

import mlxc as mx

ROUNDS = 21
SMALL, LARGE = (1536, 576), (49152, 576)


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape, np.float32)


def compare(benchmark, keep: Callable, rivals: dict[str, Callable[[], object]], budget: float) -> None:
    seconds = take_turns(rivals, ROUNDS, 3, parallel=True)
    benchmark.pedantic(next(iter(rivals.values())), rounds=10, iterations=1)
    first, second = seconds.values()
    keep(seconds, first / second)
    assert first / second <= budget


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=str)
def test_one_row_times_a_float32_matrix_beside_numpy(benchmark, keep, shape: tuple[int, int]) -> None:
    w, x = draw(*shape), draw(1, shape[1])
    a, b = mx.array(x), mx.array(w)
    mx.eval(a, b)
    compare(benchmark, keep, {"mlxc": lambda: mx.eval(a @ b.T), "numpy": lambda: x @ w.T}, 1.2)


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "8 bits", "4 bits"])
def test_one_row_times_a_large_matrix_beside_reading_it(benchmark, keep, kind: str) -> None:
    w, x = mx.array(draw(*LARGE)), mx.array(draw(1, LARGE[1]))
    if kind.endswith("bits"):
        bits = int(kind[0])
        codes, scales, biases = mx.quantize(w, group_size=32, bits=bits)
        packed = codes, scales.astype(mx.float16), biases.astype(mx.float16)
        x = x.astype(mx.float16)
        nbytes = sum(part.nbytes for part in packed)
    else:
        packed = w.astype(getattr(mx, kind))
        x = x.astype(packed.dtype)
        nbytes = packed.nbytes
    as_floats = mx.random.normal((nbytes // 4,))
    mx.eval(x, packed, as_floats)
    del w

    def multiply() -> None:
        if isinstance(packed, tuple):
            mx.eval(mx.quantized_matmul(x, *packed, group_size=32, bits=bits))
        else:
            mx.eval(x @ packed.T)

    compare(benchmark, keep, {kind: multiply, "read": lambda: mx.eval(mx.sum(as_floats))}, 1.6)


@pytest.mark.parametrize("rows", [2, 4, 16])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_few_rows_times_a_matrix_beside_numpy(benchmark, keep, dtype: str, rows: int) -> None:
    w, x = draw(4096, 4096), draw(rows, 4096)
    a, b = mx.array(x).astype(getattr(mx, dtype)), mx.array(w).astype(getattr(mx, dtype))
    mx.eval(a, b)
    compare(benchmark, keep, {dtype: lambda: mx.eval(a @ b.T), "numpy, float32": lambda: x @ w.T}, 1.2)


@pytest.mark.parametrize("rows", [2, 4, 11])
def test_a_few_rows_times_4_bits_beside_float32(benchmark, keep, rows: int) -> None:
    w, x = mx.array(draw(4096, 4096)), mx.array(draw(rows, 4096))
    packed = mx.quantize(w, group_size=32, bits=4)
    mx.eval(w, x, packed)
    rivals = {
        "4 bits": lambda: mx.eval(mx.quantized_matmul(x, *packed, group_size=32, bits=4)),
        "float32": lambda: mx.eval(x @ w.T),
    }
    compare(benchmark, keep, rivals, 1.5)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("keys", [128, 2048])
def test_one_query_over_a_cache_beside_numpy(benchmark, keep, keys: int, dtype: str) -> None:
    q, k, v = draw(1, 9, 1, 64), draw(1, 3, keys, 64), draw(1, 3, keys, 64)
    ours = [mx.array(a).astype(getattr(mx, dtype)) for a in (q, k, v)]
    mx.eval(ours)
    grouped = q.reshape(1, 3, 3, 64)

    def attend() -> np.ndarray:
        scores = grouped @ k.swapaxes(-1, -2) * 0.125
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)) @ v

    rivals = {
        dtype: lambda: mx.eval(mx.fast.scaled_dot_product_attention(*ours, scale=0.125)),
        "numpy, float32": attend,
    }
    compare(benchmark, keep, rivals, 1.0)
