"""A training loop whose losses are recorded: record_layers.py runs it with MLX, a test with mlxc."""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS = 12


def train(mx: Any, nn: Any, optimizers: Any, compiled: bool) -> list[float]:
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
