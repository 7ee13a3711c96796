"""A training loop over layers, dropout, batch norm and an optimizer goes step by step as with MLX, compiled or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlxc as mx
from mlxc import nn, optimizers

STEPS = 12
# What the same lines print with MLX 0.32.4.
LOSSES_OF_MLX = [
    1.22191238,
    1.08910859,
    0.947527111,
    1.01408374,
    0.944219053,
    0.907352328,
    0.923631549,
    0.790530324,
    0.808952093,
    0.774975479,
    0.889519513,
    0.818938971,
    0.854023576,
]


def train(compiled: bool) -> list[float]:
    """Losses of a small network with batch norm and dropout, on random data; all from seed 0."""
    rng = np.random.default_rng(5)
    x = mx.array(rng.standard_normal((32, 4)).astype(np.float32))
    y = mx.array(rng.integers(0, 3, 32).astype(np.int32))
    mx.random.seed(0)
    # No bias before the batch norm: its gradient would be nothing but rounding, which AdamW scales up.
    head = [nn.Linear(4, 16, bias=False), nn.BatchNorm(16), mx.tanh, nn.Dropout(0.2)]
    model = nn.Sequential(*head, nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 3))
    model.layers[4].freeze(keys="bias")
    optimizer = optimizers.AdamW(learning_rate=0.02, weight_decay=0.1)

    def loss_fn(x: Any, y: Any) -> Any:
        logits = model(x)
        chosen = mx.take_along_axis(logits, y[:, None], axis=1).squeeze(1)
        return (mx.logsumexp(logits, axis=1) - chosen).mean()

    value_and_grad = nn.value_and_grad(model, loss_fn)

    def step(x: Any, y: Any) -> Any:
        loss, grads = value_and_grad(x, y)
        optimizer.update(model, grads)
        return loss

    if compiled:
        state = [model.state, optimizer.state, mx.random.state]
        step = mx.compile(step, inputs=state, outputs=state)
    losses = [step(x, y).item() for _ in range(STEPS)]
    model.eval()
    return [*losses, loss_fn(x, y).item()]


@pytest.mark.parametrize("compiled", [False, True])
def test_the_losses_are_those_of_mlx(compiled):
    losses = train(compiled)
    assert losses == pytest.approx(LOSSES_OF_MLX, rel=2e-5)
    assert losses[-1] < 0.8 * losses[0]
