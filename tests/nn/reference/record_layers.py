"""Records what MLX and PyTorch compute for the cases of layer_cases.py, in layers.npz and layers_torch.npz:

    python -m tests.nn.reference.record_layers mlx|torch

run from the repository's root, with mlx[cpu] 0.32.4 or PyTorch 2.13 installed. The tests need neither.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .layer_cases import CASES, INITIAL

HERE = Path(__file__).parent


def record_mlx() -> dict[str, np.ndarray]:
    from .run_case import run
    from .training import train

    mx, nn, utils, optimizers = (import_module(f"mlx.{name}") for name in ("core", "nn", "utils", "optimizers"))
    found = {}
    for number, (name, case) in enumerate(CASES.items()):
        found |= {f"{name}/{key}": value for key, value in run(case, number, mx, nn, utils).items()}
    mx.random.seed(42)
    for text in INITIAL:
        layer = eval(text, {"nn": nn})
        found |= {f"initial/{text}/{k}": np.array(v) for k, v in utils.tree_flatten(layer.parameters())}
    found["training/losses"] = np.array(train(mx, nn, optimizers, False))
    return found


def record_torch() -> dict[str, np.ndarray]:
    from .layer_cases import make_inputs

    torch = import_module("torch")
    functional = torch.nn.functional
    recorded = np.load(HERE / "layers.npz")
    found = {}

    def last(fn: Any, x: Any, *args: Any) -> Any:
        """Calls what has channels second with channels last."""
        return fn(x.movedim(-1, 1), *args).movedim(1, -1)

    for number, (name, case) in enumerate(CASES.items()):
        if not case.torch:
            continue
        prefix = f"{name}/parameter/"
        p = {key.removeprefix(prefix): torch.tensor(recorded[key]) for key in recorded if key.startswith(prefix)}
        x = [torch.tensor(a) for a in make_inputs(case, number)]
        for key, value in p.items():
            value.requires_grad_("running" not in key)
        for value in x:
            value.requires_grad_(value.is_floating_point())

        def batch_norm(x: Any, p: dict, momentum: float = 0.1, training: bool = True) -> Any:
            statistics = p["running_mean"], p["running_var"]
            return last(functional.batch_norm, x, *statistics, p["weight"], p["bias"], training, momentum)

        names = {"x": x, "p": p, "F": functional, "last": last, "batch_norm": batch_norm}
        y = eval(case.torch, names)
        (y * torch.sin(torch.arange(y.numel(), dtype=torch.float32)).reshape(y.shape)).sum().backward()
        found[f"{name}/y"] = y.detach().numpy()
        found |= {f"{name}/after/{k}": v.numpy() for k, v in p.items() if "running" in k}
        found |= {f"{name}/gradient/p.{k}": v.grad.numpy() for k, v in p.items() if v.grad is not None}
        found |= {f"{name}/gradient/x.{i}": v.grad.numpy() for i, v in enumerate(x) if v.grad is not None}
    return found


if __name__ == "__main__":
    if sys.argv[1] == "mlx":
        np.savez_compressed(HERE / "layers.npz", **record_mlx())
    else:
        np.savez_compressed(HERE / "layers_torch.npz", **record_torch())
