"""The example's Transformer, loss, gradients and optimizer against a PyTorch run on the same text.

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
from model import Config, Transformer, loss
from train import make_optimizer, make_step

import mlxc as mx
from mlxc import nn
from mlxc.utils import tree_flatten, tree_unflatten

HERE = Path(__file__).resolve().parent
TEXT = HERE.parents[1] / "examples" / "data" / "hamlet.txt"
GOLDEN = json.loads((HERE / "data" / "lm_train_hamlet.json").read_text())
CONFIG = Config(vocabulary=128, context=64, width=64, heads=4, blocks=2)
# What PyTorch's program called the parts of the model.
ITS_NAMES = {
    "token": "tok", "position": "pos", "norm": "lnf", "norm1": "ln1", "norm2": "ln2", "query": "q", "key": "k",
    "value": "v", "output": "o", "expand": "fc1", "contract": "fc2",
}  # fmt: skip


def its_name(path: str) -> str:
    return ".".join(ITS_NAMES.get(part, part) for part in path.split(".") if part != "attention")


def make_parameter(path: str, shape: tuple[int, ...]) -> mx.array:
    if len(shape) == 1:
        return mx.ones(shape) if path.endswith("weight") else mx.zeros(shape)
    generator = np.random.RandomState(zlib.crc32(its_name(path).encode()) & 0x7FFFFFFF)
    return mx.array((0.05 * generator.randn(*shape)).astype(np.float32))


def make_model() -> Transformer:
    model = Transformer(CONFIG)
    made = [(path, make_parameter(path, value.shape)) for path, value in tree_flatten(model.parameters())]
    model.update(tree_unflatten(made))
    return model


def draw_windows(text: np.ndarray, step: int) -> mx.array:
    starts = np.random.RandomState(1000 + step).randint(0, len(text) - CONFIG.context - 1, size=16)
    return mx.array(np.stack([text[i : i + CONFIG.context + 1] for i in starts]).astype(np.int32))


@pytest.fixture(scope="module")
def text() -> np.ndarray:
    raw = TEXT.read_bytes()
    assert hashlib.sha256(raw).hexdigest() == GOLDEN["text_sha256"]
    return np.frombuffer(raw, np.uint8)


@pytest.fixture(scope="module")
def losses(text: np.ndarray) -> list[float]:
    """The losses of sixty-one training steps."""
    step = make_step(make_model(), make_optimizer(1e-3))
    return [step(draw_windows(text, number)).item() for number in range(len(GOLDEN["losses"]))]


@pytest.fixture(scope="module")
def gradients(text: np.ndarray) -> dict[str, np.ndarray]:
    """The first step's gradients, under PyTorch's names."""
    model = make_model()
    _, tree = nn.value_and_grad(model, loss)(model, draw_windows(text, 0))
    return {its_name(path): np.array(value) for path, value in tree_flatten(tree)}


def test_first_ten_losses_equal_pytorchs_to_four_decimals(losses: list[float]) -> None:
    np.testing.assert_allclose(losses[:10], GOLDEN["losses"][:10], rtol=0, atol=1e-4)


def test_last_loss_follows_pytorchs(losses: list[float]) -> None:
    assert losses[-1] == pytest.approx(GOLDEN["losses"][-1], abs=2e-2)


@pytest.mark.parametrize("name", sorted(GOLDEN["gradient_norms"]))
def test_first_gradient_has_pytorchs_norm(gradients: dict, name: str) -> None:
    norm = np.linalg.norm(gradients[name].astype(np.float64))
    assert norm == pytest.approx(GOLDEN["gradient_norms"][name], rel=1e-4)


def test_golden_names_every_parameter(gradients: dict) -> None:
    assert sorted(gradients) == sorted(GOLDEN["gradient_norms"])
