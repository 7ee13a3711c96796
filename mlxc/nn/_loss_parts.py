"""What all losses do: check arguments, widen half precision, reduce. Called by losses.py.

Rule: nothing is computed before all arguments are checked; the result is rounded once.
"""

from __future__ import annotations

from typing import Any, Literal

import mlxc as mx

Reduction = Literal["none", "mean", "sum"]

REDUCTIONS = ("none", "mean", "sum")
HALF = (mx.float16, mx.bfloat16)


def check_reduction(name: str, reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"[{name}] reduction must be one of {', '.join(map(repr, REDUCTIONS))}, got {reduction!r}")


def check_same(name: str, **arrays: mx.array) -> None:
    if len({array.shape for array in arrays.values()}) > 1:
        shapes = ", ".join(f"{key} of shape {array.shape}" for key, array in arrays.items())
        raise ValueError(f"[{name}] shapes must be equal, got {shapes}")


def check_axis(name: str, array: mx.array, axis: int) -> int:
    """The axis from the front."""
    if not -array.ndim <= axis < array.ndim:
        raise mx.AxisError(f"[{name}] there is no axis {axis} in shape {array.shape}")
    return axis % array.ndim


def widen(*arrays: mx.array) -> Any:
    """The dtype of the result, and the arrays to compute with."""
    dtype = mx.result_type(*arrays)
    if dtype in HALF:
        return dtype, *(array.astype(mx.float32) if array.dtype in HALF else array for array in arrays)
    return dtype, *arrays


def difference(predictions: mx.array, targets: mx.array) -> mx.array:
    """The difference. Unsigned integers have no negative ones."""
    if mx.issubdtype(mx.result_type(predictions, targets), mx.unsignedinteger):
        predictions, targets = predictions.astype(mx.float32), targets.astype(mx.float32)
    return predictions - targets


def reduce(loss: mx.array, reduction: str, dtype: mx.Dtype | None = None) -> mx.array:
    if reduction == "mean":
        loss = mx.mean(loss)
    elif reduction == "sum":
        loss = mx.sum(loss)
    return loss.astype(dtype) if dtype in HALF else loss
