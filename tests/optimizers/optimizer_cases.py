"""The optimizers and settings that are compared with MLX and PyTorch, and the parameters and gradients for that.

Read by the tests, and by make_expected.py, which records what the other two compute from the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STEPS = 5
SHAPES = {"vector": (7,), "matrix": (4, 6), "tall": (5, 3), "filters": (3, 2, 1, 2), "scalar": ()}

# Name of the case: class, arguments.
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "sgd": ("SGD", {"learning_rate": 0.1}),
    "sgd_decay": ("SGD", {"learning_rate": 0.1, "weight_decay": 0.1}),
    "sgd_momentum": ("SGD", {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "sgd_dampening": ("SGD", {"learning_rate": 0.1, "momentum": 0.9, "dampening": 0.3}),
    "sgd_nesterov": ("SGD", {"learning_rate": 0.1, "momentum": 0.9, "nesterov": True}),
    "rmsprop": ("RMSprop", {"learning_rate": 0.01}),
    "rmsprop_settings": ("RMSprop", {"learning_rate": 0.01, "alpha": 0.8, "eps": 1e-3}),
    "adagrad": ("Adagrad", {"learning_rate": 0.1}),
    "adadelta": ("AdaDelta", {"learning_rate": 1.0}),
    "adadelta_settings": ("AdaDelta", {"learning_rate": 0.5, "rho": 0.7, "eps": 1e-4}),
    "adam": ("Adam", {"learning_rate": 0.01}),
    "adam_corrected": ("Adam", {"learning_rate": 0.01, "betas": [0.8, 0.95], "bias_correction": True}),
    "adamw": ("AdamW", {"learning_rate": 0.01, "weight_decay": 0.1}),
    "adamw_corrected": ("AdamW", {"learning_rate": 0.01, "weight_decay": 0.1, "bias_correction": True}),
    "adamax": ("Adamax", {"learning_rate": 0.01}),
    "lion": ("Lion", {"learning_rate": 0.01}),
    "lion_decay": ("Lion", {"learning_rate": 0.01, "betas": [0.8, 0.95], "weight_decay": 0.1}),
    "adafactor": ("Adafactor", {}),
    "adafactor_warmup": ("Adafactor", {"warmup_init": True, "weight_decay": 0.1}),
    "adafactor_rate": (
        "Adafactor",
        {"learning_rate": 0.01, "relative_step": False, "scale_parameter": False, "beta_1": 0.9, "clip_threshold": 0.5},
    ),
    "muon": ("Muon", {"learning_rate": 0.1}),
    "muon_plain": ("Muon", {"learning_rate": 0.1, "nesterov": False, "weight_decay": 0.0, "ns_steps": 3}),
}
DTYPES = ("float32", "float16", "bfloat16")


def starting_values() -> dict[str, np.ndarray]:
    random = np.random.RandomState(0)
    return {name: np.asarray(random.randn(*shape), np.float32) for name, shape in SHAPES.items()}


def gradients_of(step: int) -> dict[str, np.ndarray]:
    random = np.random.RandomState(100 + step)
    return {name: np.asarray(random.randn(*shape), np.float32) for name, shape in SHAPES.items()}


def run(mx: Any, optimizer: Any, dtype: str) -> np.ndarray:
    """All numbers of the parameters after the first and the last step, and of the state; `mx` is mlxc or mlx.core."""
    kind = getattr(mx, dtype)
    values = {name: mx.array(value).astype(kind) for name, value in starting_values().items()}
    found = []
    for step in range(STEPS):
        gradients = {name: mx.array(value).astype(kind) for name, value in gradients_of(step).items()}
        values = optimizer.apply_gradients(gradients, values)
        assert all(value.dtype == kind for value in values.values())
        if step in (0, STEPS - 1):
            found += [values[name] for name in SHAPES]
    found += [optimizer.state[name][key] for name in SHAPES for key in sorted(optimizer.state[name])]
    return np.concatenate([np.array(value.astype(mx.float32)).ravel() for value in found])
