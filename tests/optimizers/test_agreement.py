"""Each optimizer and schedule against what MLX and PyTorch compute from the same gradients (data/expected.npz)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import optimizer_cases
import pytest
from schedule_cases import SCHEDULES, STEPS_OF_SCHEDULES

import mlxc as mx
import mlxc.optimizers as optim

EXPECTED = np.load(Path(__file__).resolve().parent / "data" / "expected.npz")
OF_TORCH = sorted(name.removeprefix("torch/") for name in EXPECTED.files if name.startswith("torch/"))
EPSILON = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def make(case: str) -> optim.Optimizer:
    kind, arguments = optimizer_cases.CASES[case]
    return getattr(optim, kind)(**arguments)


def assert_within_4_roundings(found: np.ndarray, expected: np.ndarray, epsilon: float) -> None:
    """Four roundings of numbers as large as the parameters, which are about one."""
    np.testing.assert_allclose(found, expected, rtol=4 * epsilon, atol=4 * epsilon)


@pytest.mark.parametrize("dtype", optimizer_cases.DTYPES)
@pytest.mark.parametrize("case", optimizer_cases.CASES)
def test_parameters_and_state_are_mlxs(case, dtype):
    found = optimizer_cases.run(mx, make(case), dtype)
    assert_within_4_roundings(found, EXPECTED[f"mlx/{case}/{dtype}"], EPSILON[dtype])


@pytest.mark.parametrize("case", OF_TORCH)
def test_parameters_are_pytorchs(case):
    size = sum(value.size for value in optimizer_cases.starting_values().values())
    found = optimizer_cases.run(mx, make(case), "float32")[size : 2 * size]
    assert_within_4_roundings(found, EXPECTED[f"torch/{case}"], EPSILON["float32"])


@pytest.mark.parametrize("case", SCHEDULES)
def test_rates_are_mlxs(case):
    schedule = SCHEDULES[case](optim)
    rates = [schedule(mx.array(step, mx.uint64)).item() for step in STEPS_OF_SCHEDULES]
    np.testing.assert_allclose(rates, EXPECTED[f"schedule/{case}"], rtol=4 * EPSILON["float32"], atol=1e-9)
