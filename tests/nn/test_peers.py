"""Functions and layers give the initial values, results and gradients that MLX and PyTorch gave.

The values are recorded by tools/compare_nn.py --record.
"""

from __future__ import annotations

from functools import cache

import pytest
from peer_cases import arguments, differences, run
from peer_values import FILES, cases_of, load

import mlxc as mx
from mlxc import nn, utils

CASES = [pytest.param(file, case, id=case.name) for file in FILES for case in cases_of(file)]
_load = cache(load)


@pytest.mark.parametrize(("file", "case"), CASES)
def test_the_values_are_those_of_mlx_and_pytorch(file, case):
    found = run(mx, nn, utils, case, arguments(case))
    recorded = _load(file)
    by_mlx, by_torch = recorded.get((case.name, "mlx"), {}), recorded.get((case.name, "torch"), {})
    assert by_mlx, "no values are recorded"
    assert bool(by_torch) == (case.torch is not None)
    if not case.mlx_gradient:
        by_mlx = {key: value for key, value in by_mlx.items() if not key.startswith("gradient")}
    assert differences(found, by_mlx, case.mlx_tolerance) == {}
    assert differences(found, by_torch, case.torch_tolerance) == {}
