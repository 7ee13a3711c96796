"""What is compared with MLX and PyTorch: functions and layers with arguments, and how to run them.

Used by test_peers.py, which compares with recorded values, and by tools/compare_nn.py, which records them and compares
on other random arguments. `build(mx, nn)` is called with mlxc or with MLX, `torch` with PyTorch's modules, the
parameters and the inputs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """Something to compare: a function, a loss, or a layer with parameters."""

    name: str
    build: Callable[..., Any]
    inputs: Callable[[np.random.Generator], list[np.ndarray]]
    torch: Callable[..., Any] | None = None
    # Differences allowed to MLX and to PyTorch, as parts of max(1, |value|).
    mlx_tolerance: float = 4e-6
    torch_tolerance: float = 4e-6
    # Gradients only differ from MLX's where that is wrong; then they are not compared.
    mlx_gradient: bool = True


def floats(*shapes: tuple[int, ...], low: float = -4.0, high: float = 4.0) -> Callable[..., list[np.ndarray]]:
    return lambda rng: [rng.uniform(low, high, shape).astype(np.float32) for shape in shapes]


def arguments(case: Case, seed: int = 0) -> list[np.ndarray]:
    return case.inputs(np.random.default_rng([seed, zlib.crc32(case.name.encode())]))


def cotangent(shape: tuple[int, ...]) -> np.ndarray:
    """Weights of the result's elements in the sum whose gradient is taken."""
    return np.cos(np.arange(int(np.prod(shape)), dtype=np.float32)).reshape(shape)


def run(mx: Any, nn: Any, utils: Any, case: Case, inputs: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Parameters, values and gradients by name. mx, nn and utils are mlxc's or MLX's."""

    def numbers(array: Any) -> np.ndarray:
        # NumPy has no bfloat16.
        return np.array(array.astype(mx.float32))

    mx.random.seed(0)
    built = case.build(mx, nn)
    arrays = [mx.array(value) for value in inputs]
    places = [i for i, value in enumerate(inputs) if value.dtype == np.float32]
    parameters, trainable = {}, {}
    if isinstance(built, nn.Module):
        parameters = dict(utils.tree_flatten(built.parameters()))
        trainable = dict(utils.tree_flatten(built.trainable_parameters()))

    def outputs(parameters: dict[str, Any], given: list[Any]) -> list[Any]:
        if parameters:
            built.update(utils.tree_unflatten(list(parameters.items())))
        every = list(arrays)
        for place, value in zip(places, given, strict=True):
            every[place] = value
        result = built(*every)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    def total(parameters: dict[str, Any], given: list[Any]) -> Any:
        results = [r for r in outputs(parameters, given) if mx.issubdtype(r.dtype, mx.floating)]
        return sum((mx.sum(r * mx.array(cotangent(r.shape))) for r in results), mx.array(0.0))

    given = [arrays[place] for place in places]
    found = {f"parameter {name}": numbers(value) for name, value in parameters.items()}
    for i, result in enumerate(outputs(trainable, given)):
        found[f"value {i}"] = numbers(result)
    if places or trainable:
        by_parameter, by_input = mx.grad(total, argnums=(0, 1))(trainable, given)
        found |= {f"gradient {name}": numbers(value) for name, value in by_parameter.items()}
        found |= {f"gradient {place}": numbers(value) for place, value in zip(places, by_input, strict=True)}
    return found


def run_torch(torch: Any, case: Case, inputs: list[np.ndarray], parameters: dict[str, np.ndarray]) -> dict[str, Any]:
    """Values and gradients by PyTorch, with the parameters of the other run; {} if there is no such function."""
    if case.torch is None:
        return {}
    given = [torch.tensor(value, requires_grad=value.dtype == np.float32) for value in inputs]
    weights = {name: torch.tensor(value, requires_grad=True) for name, value in parameters.items()}
    results = case.torch(torch, torch.nn.functional, weights, *given)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    total = sum((r * torch.tensor(cotangent(tuple(r.shape)))).sum() for r in results)
    found = {f"value {i}": result.detach().numpy() for i, result in enumerate(results)}
    if getattr(total, "requires_grad", False):
        total.backward()
    for name, value in [*weights.items(), *((str(i), value) for i, value in enumerate(given))]:
        if value.grad is not None:
            found[f"gradient {name}"] = value.grad.numpy()
    return found


def differences(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray], tolerance: float) -> dict[str, float]:
    """By how much values differ, where that is more than the tolerance; NaN where shapes or NaNs do."""
    far = {}
    for name, value in wanted.items():
        if name not in found or found[name].shape != value.shape:
            far[name] = float("nan")
            continue
        off = np.abs(found[name].astype(np.float64) - value) / np.maximum(1.0, np.abs(value))
        off = np.where((found[name] == value) | (np.isnan(found[name]) & np.isnan(value)), 0.0, off)
        if off.size and not off.max() <= tolerance:
            far[name] = float(off.max())
    return far
