"""Linear algebra beside NumPy, both on LAPACK: one large matrix, and many small ones.

NumPy's OpenBLAS has threads of its own, mlxc's runs on one and shares out batches. One large matrix is timed by the
clock, many small ones in processor time, which neighbours disturb less.
"""

from __future__ import annotations

import numpy as np
import pytest
from timing import take_turns

import mlxc as mx

SIDE = 512
RNG = np.random.default_rng(0)
GENERAL = RNG.standard_normal((SIDE, SIDE), dtype=np.float32)
DEFINITE = GENERAL @ GENERAL.T + SIDE * np.eye(SIDE, dtype=np.float32)
SMALL = RNG.standard_normal((4096, 3, 3), dtype=np.float32) + 3 * np.eye(3, dtype=np.float32)
# At most so many times as long as NumPy: one thread beside two, and the share of the copies.
LARGE = {
    "svd": (GENERAL, 2.2),
    "qr": (GENERAL, 2.2),
    "eigh": (DEFINITE, 2.2),
    "cholesky": (DEFINITE, 2.2),
    "inv": (GENERAL, 2.2),
    "det": (GENERAL, 2.2),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_matrix_takes_about_numpys_time(name: str, benchmark, keep) -> None:
    matrix, limit = LARGE[name]
    x = mx.array(matrix)
    mx.eval(x)
    ours, theirs = getattr(mx.linalg, name), getattr(np.linalg, name)
    seconds = take_turns(
        {"mlxc": lambda: mx.eval(ours(x)), "NumPy": lambda: theirs(matrix)}, rounds=7, number=1, parallel=True
    )
    benchmark.pedantic(lambda: mx.eval(ours(x)), rounds=3, iterations=1)
    ratio = seconds["mlxc"] / seconds["NumPy"]
    keep(seconds, ratio)
    assert ratio <= limit


def test_equations_take_about_numpys_time(benchmark, keep) -> None:
    right = RNG.standard_normal((SIDE, 8), dtype=np.float32)
    a, b = mx.array(GENERAL), mx.array(right)
    mx.eval(a, b)
    seconds = take_turns(
        {"mlxc": lambda: mx.eval(mx.linalg.solve(a, b)), "NumPy": lambda: np.linalg.solve(GENERAL, right)},
        rounds=9, number=2, parallel=True,
    )  # fmt: skip
    benchmark.pedantic(lambda: mx.eval(mx.linalg.solve(a, b)), rounds=5, iterations=1)
    ratio = seconds["mlxc"] / seconds["NumPy"]
    keep(seconds, ratio)
    assert ratio <= 2.2


@pytest.mark.parametrize("name", ["inv", "det", "svd", "eigh"])
def test_many_small_matrices_take_about_numpys_time(name: str, benchmark, keep) -> None:
    x = mx.array(SMALL)
    mx.eval(x)
    ours, theirs = getattr(mx.linalg, name), getattr(np.linalg, name)
    seconds = take_turns({"mlxc": lambda: mx.eval(ours(x)), "NumPy": lambda: theirs(SMALL)}, rounds=15, number=2)
    benchmark.pedantic(lambda: mx.eval(ours(x)), rounds=5, iterations=1)
    ratio = seconds["mlxc"] / seconds["NumPy"]
    keep(seconds, ratio)
    assert ratio <= 1.3
