"""Ops that have a decomposition give the same values when they are computed by it.

libmlxc reads MLXC_DECOMPOSE once, so the kit runs in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys

from mlxc.testing.table import read_table

# The decomposition computes in float32, which shows in the memory that it takes.
PEAK_OF_HALF_PRECISION_SOFTMAX = """
import mlxc as mx
x = mx.ones((1000, 1000), dtype=mx.float16)
mx.eval(x)
before = mx.get_active_memory()
mx.reset_peak_memory()
mx.eval(mx.softmax(x, axis=-1))
print((mx.get_peak_memory() - before) // 1_000_000)
"""


def run(*arguments: str, decompose: str = "1") -> str:
    environment = {**os.environ, "MLXC_DECOMPOSE": decompose}
    result = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr
    return result.stdout


def test_decompositions_agree_with_the_references() -> None:
    names = [row.name for row in read_table().values() if row.decompose]
    assert "softmax" in names
    assert ", 0 failed" in run("-m", "mlxc.testing", "--no-gradients", "--ops", *names)


def test_the_environment_prefers_decompositions() -> None:
    peaks = [int(run("-c", PEAK_OF_HALF_PRECISION_SOFTMAX, decompose=value)) for value in ("0", "1")]
    assert peaks[0] == 2
    assert peaks[1] >= 4
