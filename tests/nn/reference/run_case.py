"""Computes a case of layer_cases.py with MLX or with mlxc, which are the same program."""

from __future__ import annotations

from typing import Any

import numpy as np

from .layer_cases import Case, make_inputs, shift


def run(case: Case, number: int, mx: Any, nn: Any, utils: Any) -> dict[str, np.ndarray]:
    """Parameters before and after the call, result, and gradients by parameters and inputs, by name."""
    mx.random.seed(0)
    m = eval(case.make, {"nn": nn, "mx": mx})
    m.train(case.training)
    flat = [(k, shift(k, np.array(v), number)) for k, v in utils.tree_flatten(m.parameters())]
    if flat:
        m.update(utils.tree_unflatten([(k, mx.array(v)) for k, v in flat]))
    x = [mx.array(a) for a in make_inputs(case, number)]
    out = {f"parameter/{k}": v for k, v in flat}

    def weighted(parameters: Any, x: list) -> Any:
        m.update(parameters)
        y = eval(case.call, {"m": m, "x": x})
        return (y * mx.sin(mx.arange(y.size)).reshape(y.shape)).sum()

    mx.random.seed(1)
    y = eval(case.call, {"m": m, "x": x})
    out["y"] = np.array(y.astype(mx.float32))
    out |= {f"after/{k}": np.array(v) for k, v in utils.tree_flatten(m.parameters()) if "running" in k}
    by_input = all(a.dtype == mx.float32 for a in x)
    wanted = [m.trainable_parameters(), x] if by_input else [m.trainable_parameters()]
    for i in (i for i, tree in enumerate(wanted) if utils.tree_flatten(tree)):
        mx.random.seed(1)
        tree = mx.grad(weighted, argnums=i)(m.trainable_parameters(), x)
        out |= {f"gradient/{'x' if i else 'p'}.{k}": np.array(v) for k, v in utils.tree_flatten(tree)}
    return out
