"""Single element-wise kernels on ten million float32 numbers beside NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from timing import take_turns

import mlxc as mx

SIZE = 10_000_000


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "sqrt", "exp", "sin"])
def test_a_large_kernel_takes_at_most_six_tenths_of_numpys_time(benchmark, keep, name: str) -> None:
    rng = np.random.default_rng(0)
    count = 2 if name in ("add", "multiply", "maximum") else 1
    arrays = [rng.uniform(0.1, 4, SIZE).astype(np.float32) for _ in range(count)]
    ours, theirs = getattr(mx, name), getattr(np, name)
    mine = [mx.array(a) for a in arrays]
    mx.eval(*mine)
    np.testing.assert_allclose(np.array(ours(*mine)), theirs(*arrays), rtol=1e-6)
    seconds = take_turns(
        {"mlxc": lambda: mx.eval(ours(*mine)), "NumPy": lambda: theirs(*arrays)}, rounds=21, number=1, parallel=True
    )
    ratio = seconds["mlxc"] / seconds["NumPy"]
    benchmark.pedantic(lambda: mx.eval(ours(*mine)), rounds=10, iterations=1)
    keep(seconds, ratio)
    assert ratio <= 0.6
