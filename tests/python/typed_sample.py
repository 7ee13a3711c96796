"""A program for the type checker: what the stubs say of common calls. test_tools.py runs mypy on it, in strict mode.

Lines that mypy must refuse carry the code of its error; mypy complains of such a comment where there is no error.
"""

from typing import Any, assert_type

import mlxc as mx
import mlxc.optimizers as optim
from mlxc import nn


def loss(w: mx.array, x: mx.array, y: mx.array) -> mx.array:
    prediction = x @ w + 1.0
    assert_type(prediction, mx.array)
    return ((prediction - y) ** 2).mean()


def train(steps: int = 10) -> float:
    x, y, w = mx.random.normal((8, 3)), mx.zeros(8, dtype=mx.float32), mx.zeros([3])
    step = mx.value_and_grad(loss)
    value = mx.array(0.0)
    for _ in range(steps):
        value, gradient = step(w, x, y)
        w = w - 0.1 * gradient
        mx.eval(w)
    return float(value)


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = [nn.Linear(3, width), nn.Linear(width, 1, bias=False)]
        self.norm = nn.RMSNorm(width)

    def __call__(self, x: mx.array) -> mx.array:
        first, second = self.layers
        return second(nn.relu(self.norm(first(x))))


def fit(model: Model, x: mx.array, y: mx.array) -> None:
    optimizer = optim.Adam(1e-3)
    _, gradients = nn.value_and_grad(model, lambda: nn.losses.mse_loss(model(x), y))()
    optimizer.update(model, gradients)
    mx.eval(model.state, optimizer.state)


assert_type(Model(4).freeze().unfreeze(keys="bias").eval(), Model)
assert_type(Model(4)(mx.ones((2, 3))), mx.array)
assert_type(nn.Linear(64, 8).to_quantized(bits=8)(mx.ones(64)), mx.array)
assert_type(Model(4).named_modules(), list[tuple[str, nn.Module]])
nn.Linear("3", 4)  # type: ignore[arg-type]
Model(4).freeze(key="bias")  # type: ignore[call-arg]

a = mx.array([[1, 2], [3, 4]], dtype=mx.int32)
assert_type(a.shape, tuple[int, ...])
assert_type(a.dtype, mx.Dtype)
assert_type(a[0, ::-1], mx.array)
assert_type(a.T.sum(axis=(0, 1), keepdims=True), mx.array)
assert_type(a > 3, mx.array)
assert_type(-a // 2, mx.array)
assert_type(a.at[0].add(1), mx.array)
assert_type(a.item(), Any)
assert_type(len(a), int)
assert_type(divmod(a, 2), tuple[mx.array, mx.array])
assert_type([row for row in a], list[mx.array])
assert_type(mx.where(a > 1, a, 0), mx.array)
assert_type(mx.where(a > 1), tuple[mx.array, ...])
assert_type(mx.split(a, 2), list[mx.array])
assert_type(mx.meshgrid(a[0], a[1]), tuple[mx.array, ...])
assert_type(mx.sort(a, descending=True), mx.array)
assert_type(mx.finfo(mx.float16).eps, float)
assert_type(mx.default_device(), mx.Device)
assert_type(mx.random.split(mx.random.key(0)), mx.array)
assert_type(f"{a[0, 0]:03d}", str)
a[0] = 5
a += 1
with mx.stream(mx.cpu):
    mx.ones((2, 3), stream=mx.cpu)

mx.sum(a, axis="rows")  # type: ignore[arg-type]
mx.zeros()  # type: ignore[call-arg]
mx.matmul(a, "b")  # type: ignore[arg-type]
mx.sin(a, b=2)  # type: ignore[call-arg]
a.reshap(2)  # type: ignore[attr-defined]

model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = optim.MultiOptimizer(
    [optim.Adam(optim.cosine_decay(1e-3, 100), betas=[0.9, 0.99]), optim.SGD(0.1, momentum=0.9)],
    [lambda path, weight: weight.ndim > 1],
)
gradients, norm = optim.clip_grad_norm(model.trainable_parameters(), 1.0)
optimizer.update(model, gradients)
optimizer.learning_rate = 0.5
assert_type(optimizer.learning_rate, mx.array)
assert_type(norm, mx.array)

optim.SGD()  # type: ignore[call-arg]
optim.Lion(0.1, betas=0.9)  # type: ignore[arg-type]
