"""One token through a 4-bit matrix: beside the product with the same matrix in float32, and beside mlx where it is
installed. Both are bound by reading the matrix, of which 4 bits with float32 scales for 64 numbers are a sixth.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from timing import take_turns

import mlxc as mx

SIZE = 4096
ROUNDS = 21


@pytest.fixture(scope="module")
def operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((1, SIZE), np.float32), rng.standard_normal((SIZE, SIZE), np.float32)


def beside(benchmark, keep: Callable, rivals: dict[str, Callable[[], None]], budget: float) -> None:
    seconds = take_turns(rivals, ROUNDS, 3, parallel=True)
    benchmark.pedantic(next(iter(rivals.values())), rounds=10, iterations=1)
    first, second = seconds.values()
    ratio = first / second
    keep(seconds, ratio)
    assert ratio <= budget


@pytest.mark.parametrize("bits, budget", [(4, 0.5), (8, 0.7), (3, 0.8)])
def test_vector_times_packed_matrix_beside_float32(benchmark, operands, keep, bits: int, budget: float) -> None:
    x, w = (mx.array(a) for a in operands)
    packed = mx.quantize(w, bits=bits)
    mx.eval(x, w, *packed)
    beside(
        benchmark,
        keep,
        {
            f"{bits} bits": lambda: mx.eval(mx.quantized_matmul(x, *packed, bits=bits)),
            "float32": lambda: mx.eval(x @ w.T),
        },
        budget,
    )


@pytest.mark.parametrize("transpose", [True, False])
def test_vector_times_packed_matrix_beside_mlx(benchmark, operands, keep, transpose: bool) -> None:
    mlx = pytest.importorskip("mlx.core")
    mlx.set_default_device(mlx.cpu)
    x, w = (mx.array(a) for a in operands)
    packed = mx.quantize(w)
    theirs = mlx.quantize(mlx.array(operands[1]))
    y = mlx.array(operands[0])
    mx.eval(x, *packed)
    mlx.eval(y, *theirs)
    beside(
        benchmark,
        keep,
        {
            "mlxc": lambda: mx.eval(mx.quantized_matmul(x, *packed, transpose=transpose)),
            "mlx": lambda: mlx.eval(mlx.quantized_matmul(y, *theirs, transpose=transpose)),
        },
        0.7,
    )
