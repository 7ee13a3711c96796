"""The example's Transformer, loss, gradients and AdamW against a PyTorch run on the same text.

Weights come from a formula (NumPy's generator seeded with the CRC-32 of the parameter's name) and
so do the batches; the numbers in data/lm_train_hamlet.json were made by PyTorch from both.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path

import numpy as np
import pytest
from adamw import AdamW
from model import Config, fill_tree, initialise, loss, parameter_shapes

import mlxc as mx

HERE = Path(__file__).resolve().parent
TEXT = HERE.parents[1] / "examples" / "data" / "hamlet.txt"
GOLDEN = json.loads((HERE / "data" / "lm_train_hamlet.json").read_text())
CONFIG = Config(vocabulary=128, context=64, width=64, heads=4, blocks=2)


def make_parameter(path: tuple[str, ...], shape: tuple[int, ...]) -> mx.array:
    if len(shape) == 1:
        return mx.ones(shape) if path[-1] == "weight" else mx.zeros(shape)
    generator = np.random.RandomState(zlib.crc32(".".join(path).encode()) & 0x7FFFFFFF)
    return mx.array((0.05 * generator.randn(*shape)).astype(np.float32))


def draw_windows(text: np.ndarray, step: int) -> mx.array:
    starts = np.random.RandomState(1000 + step).randint(0, len(text) - CONFIG.context - 1, size=16)
    return mx.array(np.stack([text[i : i + CONFIG.context + 1] for i in starts]).astype(np.int32))


@pytest.fixture(scope="module")
def run() -> dict:
    """Sixty-one training steps: the loss of each, and the first step's gradients."""
    raw = TEXT.read_bytes()
    assert hashlib.sha256(raw).hexdigest() == GOLDEN["text_sha256"]
    text = np.frombuffer(raw, np.uint8)
    params = fill_tree(parameter_shapes(CONFIG), make_parameter)
    optimizer = AdamW(beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1)
    state = optimizer.start(params)
    loss_and_gradients = mx.value_and_grad(lambda params, windows: loss(params, windows, CONFIG.heads))
    losses, first_gradients = [], None
    for step in range(len(GOLDEN["losses"])):
        value, gradients = loss_and_gradients(params, draw_windows(text, step))
        params, state = optimizer.update(params, gradients, state, 1e-3)
        mx.eval(value, params, state)
        losses.append(value.item())
        first_gradients = first_gradients or gradients
    return {"losses": losses, "gradients": first_gradients}


def test_first_ten_losses_equal_pytorchs_to_four_decimals(run: dict) -> None:
    np.testing.assert_allclose(run["losses"][:10], GOLDEN["losses"][:10], rtol=0, atol=1e-4)


def test_last_loss_follows_pytorchs(run: dict) -> None:
    assert run["losses"][-1] == pytest.approx(GOLDEN["losses"][-1], abs=2e-2)


@pytest.mark.parametrize("name", sorted(GOLDEN["gradient_norms"]))
def test_first_gradient_has_pytorchs_norm(run: dict, name: str) -> None:
    gradient = run["gradients"]
    for part in name.split("."):
        gradient = gradient[int(part) if part.isdigit() else part]
    norm = np.linalg.norm(np.array(gradient).astype(np.float64))
    assert norm == pytest.approx(GOLDEN["gradient_norms"][name], rel=1e-4)


def test_golden_names_every_parameter() -> None:
    names: list[str] = []
    fill_tree(parameter_shapes(CONFIG), lambda path, shape: names.append(".".join(path)))
    assert sorted(names) == sorted(GOLDEN["gradient_norms"])


def test_initialisation_is_a_function_of_the_key() -> None:
    first, again = (initialise(CONFIG, mx.random.key(3)) for _ in range(2))
    other = initialise(CONFIG, mx.random.key(4))
    assert np.array_equal(np.array(first["head"]["weight"]), np.array(again["head"]["weight"]))
    assert not np.array_equal(np.array(first["head"]["weight"]), np.array(other["head"]["weight"]))
