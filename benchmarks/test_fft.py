"""Fourier transforms of float32 lines beside NumPy's and SciPy's, in processor time of all threads together."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft
from timing import take_turns

import mlxc as mx


@pytest.mark.parametrize("lines, n", [(4096, 64), (256, 1024), (256, 1000), (8, 65536), (1, 1 << 20), (64, 1009)])
@pytest.mark.parametrize("name", ["fft", "rfft"])
def test_a_transform_takes_little_longer_than_numpys(benchmark, keep, name: str, lines: int, n: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((lines, n)).astype(np.float32)
    if name == "fft":
        x = (x + 1j * rng.standard_normal((lines, n))).astype(np.complex64)
    mine = mx.array(x)
    mx.eval(mine)
    ours, numpys, scipys = (getattr(module, name) for module in (mx.fft, np.fft, scipy.fft))
    np.testing.assert_allclose(np.array(ours(mine)), numpys(x), atol=1e-5 * n)
    seconds = take_turns(
        {
            "mlxc": lambda: mx.eval(ours(mine)),
            "NumPy": lambda: numpys(x),
            "SciPy, two workers": lambda: scipys(x, workers=2),
        },
        rounds=21,
        number=1,
    )
    ratio = seconds["mlxc"] / seconds["NumPy"]
    benchmark.pedantic(lambda: mx.eval(ours(mine)), rounds=10, iterations=1)
    keep(seconds, ratio)
    # A prime goes by way of a convolution in double.
    assert ratio <= (2.5 if n == 1009 else 1.0 if name == "fft" else 1.5)
