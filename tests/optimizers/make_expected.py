"""Records what MLX and PyTorch compute for optimizer_cases.py and for the schedules: data/expected.npz.

    python tests/optimizers/make_expected.py

Needs `mlx[cpu]` and `torch`, which the tests themselves don't. Values were made with MLX 0.32.4 and PyTorch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import mlx.optimizers as optim
import numpy as np
import torch
from optimizer_cases import CASES, DTYPES, STEPS, gradients_of, run, starting_values
from schedule_cases import SCHEDULES, STEPS_OF_SCHEDULES


def torch_optimizers() -> dict[str, Callable]:
    """The cases in which PyTorch's definition is the same; eps is MLX's default where the two differ."""
    plain = torch.optim
    return {
        "sgd": lambda p: plain.SGD(p, 0.1),
        "sgd_decay": lambda p: plain.SGD(p, 0.1, weight_decay=0.1),
        "sgd_momentum": lambda p: plain.SGD(p, 0.1, momentum=0.9, weight_decay=0.01),
        "sgd_nesterov": lambda p: plain.SGD(p, 0.1, momentum=0.9, nesterov=True),
        "rmsprop": lambda p: plain.RMSprop(p, 0.01),
        "rmsprop_settings": lambda p: plain.RMSprop(p, 0.01, alpha=0.8, eps=1e-3),
        "adagrad": lambda p: plain.Adagrad(p, 0.1, eps=1e-8),
        "adadelta": lambda p: plain.Adadelta(p, 1.0),
        "adadelta_settings": lambda p: plain.Adadelta(p, 0.5, rho=0.7, eps=1e-4),
        "adam_corrected": lambda p: plain.Adam(p, 0.01, betas=(0.8, 0.95)),
        "adamw_corrected": lambda p: plain.AdamW(p, 0.01, weight_decay=0.1),
        # PyTorch corrects the mean of gradients, MLX doesn't: a rate that undoes it makes the two alike.
        "adamax": lambda p: plain.Adamax(p, 0.01),
    }


def run_torch(make: Callable) -> np.ndarray:
    """The parameters after the last step. In float64, so that it is the definition and not one rounding of it."""
    values = {name: torch.tensor(value).double().requires_grad_() for name, value in starting_values().items()}
    optimizer = make(list(values.values()))
    for step in range(STEPS):
        for group in optimizer.param_groups:
            if isinstance(optimizer, torch.optim.Adamax):
                group["lr"] = 0.01 * (1 - 0.9 ** (step + 1))
        for name, gradient in gradients_of(step).items():
            values[name].grad = torch.tensor(gradient).double()
        optimizer.step()
    return np.concatenate([value.detach().numpy().ravel() for value in values.values()])


def main() -> None:
    recorded = {}
    for case, (kind, arguments) in CASES.items():
        for dtype in DTYPES:
            recorded[f"mlx/{case}/{dtype}"] = run(mx, getattr(optim, kind)(**arguments), dtype)
    for case, make in torch_optimizers().items():
        recorded[f"torch/{case}"] = run_torch(make)
    for case, make in SCHEDULES.items():
        schedule = make(optim)
        rates = [np.array(schedule(mx.array(step, mx.uint64))) for step in STEPS_OF_SCHEDULES]
        recorded[f"schedule/{case}"] = np.array(rates, np.float32)
    np.savez_compressed(Path(__file__).resolve().parent / "data" / "expected.npz", **recorded)


if __name__ == "__main__":
    main()
