"""Training steps and optimizers: against the same written in NumPy by hand, and compiled against plain."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
from timing import take_turns

import mlxc as mx
import mlxc.optimizers as optim
from mlxc import nn

RATE, BETA1, BETA2, EPS = 1e-3, 0.9, 0.999, 1e-8


class NumpyAdam:
    """Adam with every array updated in place and one scratch array for each."""

    def __init__(self, parameters: list[np.ndarray]) -> None:
        self.parameters = parameters
        self.means, self.squares, self.scratch = ([np.zeros_like(p) for p in parameters] for _ in range(3))

    def update(self, gradients: list[np.ndarray]) -> None:
        for p, g, m, v, t in zip(self.parameters, gradients, self.means, self.squares, self.scratch, strict=True):
            np.multiply(m, BETA1, out=m)
            np.multiply(g, 1 - BETA1, out=t)
            np.add(m, t, out=m)
            np.multiply(v, BETA2, out=v)
            np.multiply(g, g, out=t)
            np.multiply(t, 1 - BETA2, out=t)
            np.add(v, t, out=v)
            np.sqrt(v, out=t)
            np.add(t, EPS, out=t)
            np.divide(m, t, out=t)
            np.multiply(t, RATE, out=t)
            np.subtract(p, t, out=p)


def numpy_mlp_step(sizes: list[int], x: np.ndarray, labels: np.ndarray):
    """A function that takes one step of an MLP with ReLU and cross-entropy, gradients written out."""
    random = np.random.default_rng(0)
    weights = [(random.standard_normal((i, o)) / np.sqrt(i)).astype(np.float32) for i, o in pairwise(sizes)]
    biases = [np.zeros(o, np.float32) for o in sizes[1:]]
    adam = NumpyAdam([*weights, *biases])
    rows = np.arange(len(labels))

    def step() -> float:
        inputs = [x]
        for w, b in zip(weights, biases, strict=True):
            inputs.append(inputs[-1] @ w + b)
            if len(inputs) < len(sizes):
                np.maximum(inputs[-1], 0, out=inputs[-1])
        scores = inputs.pop()
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        loss = -np.log(scores[rows, labels]).mean()
        scores[rows, labels] -= 1
        scores /= len(labels)
        slope, of_weights, of_biases = scores, [], []
        for w, inner in zip(reversed(weights), reversed(inputs), strict=True):
            of_weights.insert(0, inner.T @ slope)
            of_biases.insert(0, slope.sum(axis=0))
            if inner is not x:
                slope = (slope @ w.T) * (inner > 0)
        adam.update([*of_weights, *of_biases])
        return loss

    return step


def compile_step(model: nn.Module, optimizer: optim.Optimizer, loss):
    """The same step, plain and compiled; both train the one model."""
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]
    loss_and_gradients = nn.value_and_grad(model, loss)

    def step(*data: mx.array) -> mx.array:
        value, gradients = loss_and_gradients(*data)
        optimizer.update(model, gradients)
        return value

    def evaluated(function, *data: mx.array) -> None:
        mx.eval(function(*data), model.state, optimizer.state)

    compiled = mx.compile(step, inputs=state, outputs=state)
    return partial(evaluated, step), partial(evaluated, compiled)


def test_an_mlps_step_takes_less_than_in_numpy(benchmark, keep) -> None:
    """Budget: a compiled step of a 784-256-128-10 network takes at most what NumPy takes."""
    sizes = [784, 256, 128, 10]
    random = np.random.default_rng(1)
    x, labels = random.standard_normal((64, 784)).astype(np.float32), random.integers(0, 10, 64)
    layers = [layer for i, o in pairwise(sizes) for layer in (nn.Linear(i, o), nn.ReLU())][:-1]
    model = nn.Sequential(*layers)
    plain, compiled = compile_step(
        model, optim.Adam(RATE), lambda x, y: nn.losses.cross_entropy(model(x), y, reduction="mean")
    )
    data = mx.array(x), mx.array(labels)
    rivals = {
        "compiled": lambda: compiled(*data),
        "plain": lambda: plain(*data),
        "numpy": numpy_mlp_step(sizes, x, labels),
    }
    seconds = take_turns(rivals, 51, 4, parallel=True)
    benchmark.pedantic(rivals["compiled"], rounds=30, iterations=4)
    keep(seconds, seconds["compiled"] / seconds["numpy"])
    assert seconds["compiled"] <= seconds["numpy"]


def test_adam_over_100_arrays_takes_less_than_in_numpy(benchmark, keep) -> None:
    """Budget: a compiled update of 100 arrays of 100 x 100 takes at most what NumPy takes in place."""
    random = np.random.default_rng(1)
    values = [random.standard_normal((100, 100)).astype(np.float32) for _ in range(100)]
    gradients = [random.standard_normal((100, 100)).astype(np.float32) for _ in range(100)]
    adam = NumpyAdam([value.copy() for value in values])
    parameters, optimizer = {"w": [mx.array(value) for value in values]}, optim.Adam(RATE)
    slopes = {"w": [mx.array(value) for value in gradients]}
    optimizer.init(parameters)
    state = [parameters, optimizer.state]

    def update() -> None:
        parameters.update(optimizer.apply_gradients(slopes, parameters))

    compiled = mx.compile(update, inputs=state, outputs=state)

    def evaluated(function) -> None:
        function()
        mx.eval(parameters, optimizer.state)

    rivals = {
        "compiled": lambda: evaluated(compiled),
        "plain": lambda: evaluated(update),
        "numpy": lambda: adam.update(gradients),
    }
    seconds = take_turns(rivals, 31, 2, parallel=True)
    benchmark.pedantic(rivals["compiled"], rounds=30, iterations=2)
    keep(seconds, seconds["compiled"] / seconds["numpy"])
    assert seconds["compiled"] <= seconds["numpy"]


class Block(nn.Module):
    """A pre-norm Transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inwards, self.outwards = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: mx.array) -> mx.array:
        batch, time, width = x.shape
        parts = self.inwards(self.norm1(x)).reshape(batch, time, 3, self.heads, width // self.heads)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        mixed = mx.fast.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5, mask="causal")
        x = x + self.outwards(mixed.transpose(0, 2, 1, 3).reshape(x.shape))
        return x + self.contract(nn.gelu_approx(self.expand(self.norm2(x))))


def test_a_transformers_step_takes_less_compiled(benchmark, keep) -> None:
    """Budget: compiled at most what it takes plain, three blocks of width 128 on 16 windows of 64."""
    model = nn.Sequential(nn.Embedding(128, 128), *(Block(128, 4) for _ in range(3)), nn.Linear(128, 128))
    plain, compiled = compile_step(
        model,
        optim.AdamW(RATE, bias_correction=True),
        lambda tokens: nn.losses.cross_entropy(model(tokens[:, :-1]), tokens[:, 1:], reduction="mean"),
    )
    tokens = mx.random.randint(0, 128, (16, 65))
    seconds = take_turns({"compiled": lambda: compiled(tokens), "plain": lambda: plain(tokens)}, 21, 1, parallel=True)
    benchmark.pedantic(lambda: compiled(tokens), rounds=20, iterations=1)
    keep(seconds, seconds["compiled"] / seconds["plain"])
    assert seconds["compiled"] <= seconds["plain"]
