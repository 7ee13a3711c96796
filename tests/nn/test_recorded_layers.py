"""Layers against recorded values of MLX and PyTorch: results, gradients, running averages, initial values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlxc as mx
from mlxc import nn, optimizers, utils
from mlxc.utils import tree_flatten

from .reference.layer_cases import CASES, INITIAL
from .reference.run_case import run
from .reference.training import train

HERE = Path(__file__).parent / "reference"
FILES = {"mlx": "layers.npz", "torch": "layers_torch.npz"}


@pytest.fixture(scope="module")
def recorded() -> dict:
    return {peer: dict(np.load(HERE / file)) for peer, file in FILES.items()}


def assert_near(name: str, got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    assert got.shape == want.shape, name
    scale = max(float(np.abs(want).max(initial=0)), 1e-2)
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * scale, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_a_layer_and_its_gradients(name, recorded):
    number = list(CASES).index(name)
    got = run(CASES[name], number, mx, nn, utils)
    want = {k.removeprefix(f"{name}/"): v for k, v in recorded["mlx"].items() if k.startswith(f"{name}/")}
    assert set(got) == set(want)
    for key, value in want.items():
        if value.dtype.kind in "iu":
            np.testing.assert_array_equal(got[key], value, err_msg=key)
        else:
            # The angles of full turns reach 30, of which float32 keeps 1e-6.
            assert_near(key, got[key], value, 3e-5 if name == "sinusoidal_turns" else 3e-6)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.torch])
def test_a_layer_and_its_gradients_are_those_of_pytorch(name, recorded):
    got = run(CASES[name], list(CASES).index(name), mx, nn, utils)
    want = {k.removeprefix(f"{name}/"): v for k, v in recorded["torch"].items() if k.startswith(f"{name}/")}
    assert "y" in want
    for key, value in want.items():
        assert_near(key, got[key], value, 1e-5)


def test_initial_values_are_those_of_mlx_for_the_same_seed(recorded):
    mx.random.seed(42)
    for text in INITIAL:
        layer = eval(text, {"nn": nn})
        for path, value in tree_flatten(layer.parameters()):
            assert_near(f"{text} {path}", np.array(value), recorded["mlx"][f"initial/{text}/{path}"], 5e-7)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_training_loop_goes_as_with_mlx(compiled, recorded):
    losses = train(mx, nn, optimizers, compiled)
    np.testing.assert_allclose(losses, recorded["mlx"]["training/losses"], rtol=2e-5)
    assert losses[-1] < 0.8 * losses[0]
