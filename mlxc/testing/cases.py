"""What a conformance case is, and the table of all cases.

A case says how one op is called through mlxc, what NumPy says the answer is, which shapes and layouts its inputs
have and how exact the answer must be. The builders of a family (cases_<family>.py) turn a row of the op table into
its cases; run.py multiplies them by dtypes and layouts, gradients.py differentiates the differentiable ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from .dtypes import Dtype
from .layouts import CONTIGUOUS, STRIDED
from .table import Row, read_table

Shape = tuple[int, ...]
Draw = Callable[[np.random.Generator, Dtype, Shape], np.ndarray]


@dataclass(frozen=True)
class Case:
    label: str
    shapes: Sequence[Shape]
    call: Callable[..., Any]  # mlxc arrays in, an array or a tuple of them out
    reference: Callable[..., Any] | None = None  # the same on wide NumPy values
    layouts: Sequence[str] = STRIDED
    dtypes: str | Sequence[str] | None = None  # kind letters or names that narrow what the row accepts
    fixed: Sequence[str | None] = ()  # the dtype of inputs that do not take the case's
    draw: Sequence[Draw | None] | Draw | None = None  # values of the inputs, where not uniform in the domain
    domain: tuple[float, float] | None = None  # in place of the row's
    result: str | Callable[[Dtype], Dtype] | None = None  # the result's dtype, where no general rule gives it
    scale: Callable[..., Any] | None = None  # of wide inputs: the magnitude errors are measured at
    slack: float = 1.0  # times the row's tolerance
    accumulates: bool = False  # many roundings in the result's own precision, half precision excepted: four times more
    double_slack: float = 0.0  # ulp more for float64 results, where the reference is no better
    zero_sign: bool = False
    on_stored: bool = False  # the reference takes (dtype, *stored values) and returns stored values
    raises: type[BaseException] | None = None  # the call must fail with this
    differentiable: bool = False

    def takes(self, dtype: Dtype) -> bool:
        if self.dtypes is None:
            return True
        if isinstance(self.dtypes, str):
            return dtype.kind in self.dtypes
        return dtype.name in self.dtypes


def draw_uniform(domain: tuple[float, float] | None) -> Draw:
    """Floats uniform in the domain. Integers too, or over their whole range, small ones often, without one."""

    def draw(rng: np.random.Generator, dtype: Dtype, shape: Shape) -> np.ndarray:
        low, high = domain or (-4.0, 4.0)
        if dtype.kind == "b":
            return rng.integers(0, 2, shape).astype(bool)
        if dtype.kind == "f":
            return rng.uniform(low, high, shape)
        if dtype.kind == "c":
            return rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)
        limits = np.iinfo(dtype.stored)
        least, greatest = max(int(np.ceil(low)), limits.min), min(int(np.floor(high)), limits.max)
        small = rng.integers(least, greatest, shape, dtype=dtype.stored, endpoint=True)
        if domain is not None:
            return small
        whole = rng.integers(limits.min, limits.max, shape, dtype=dtype.stored, endpoint=True)
        return np.where(rng.random(shape) < 0.5, whole, small)

    return draw


def draw_index(size: int, negative: bool = True) -> Draw:
    """Indices into an axis of the size, from both ends."""

    def draw(rng: np.random.Generator, dtype: Dtype, shape: Shape) -> np.ndarray:
        return rng.integers(-size if negative and dtype.kind == "i" else 0, size, shape)

    return draw


def draw_these(values: np.ndarray | Sequence) -> Draw:
    """Given values, the same for every dtype."""
    return lambda rng, dtype, shape: np.asarray(values).reshape(shape)


# Values at which floats go wrong: special ones, ties of rounding, the ends of the range.
def special_values(dtype: Dtype) -> np.ndarray:
    smallest = 2.0**dtype.least_exponent
    subnormal = 2.0 ** (dtype.least_exponent - dtype.mantissa)
    positive = [0.0, subnormal, smallest, 1e-3, 0.5, 1.0, 1.5, 2.0, 2.5, 100.0, 2.0**15, dtype.greatest, np.inf]
    return np.array([*positive, *(-v for v in positive), np.nan])


FAMILY_MODULES = {
    "linalg_det": "cases_linalg",
    "linalg_eigen": "cases_linalg",
    "linalg_factor": "cases_linalg",
    "linalg_solve": "cases_linalg",
    "linalg_svd": "cases_linalg",
    "unary": "cases_elementwise",
    "binary": "cases_elementwise",
    "compare": "cases_elementwise",
    "select": "cases_elementwise",
    "reduce": "cases_reduce",
    "argreduce": "cases_reduce",
    "softmax": "cases_reduce",
    "scan": "cases_reduce",
    "sort": "cases_reduce",
    "matmul": "cases_contract",
    "conv": "cases_contract",
    "copy": "cases_shape",
    "create": "cases_shape",
    "shape": "cases_shape",
    "slice": "cases_shape",
    "join": "cases_shape",
    "index": "cases_index",
    "random": "cases_index",
    "fft": "cases_fft",
    **dict.fromkeys(("norm", "rope", "attention", "cross_entropy", "gated_delta"), "cases_fused"),
    "depends": "cases_transform",
    "program": "cases_transform",
    "user_kernel": "cases_transform",
    "quantize": "cases_quantize",
    "quantized_matmul": "cases_quantize",
    "grouped_matmul": "cases_grouped",
    "hadamard": "cases_grouped",
    "custom": "cases_transform",
    "cond": "cases_transform",
    "while_loop": "cases_transform",
    "scan_loop": "cases_transform",
    "checkpoint": "cases_transform",
}


@cache
def cases_of(op: str) -> tuple[Case, ...]:
    """All cases of the op; KeyError for an op that is not in the table or whose family has no builder."""
    if op not in read_table():
        raise KeyError(f"{op} is not in the op table of the installed mlxc; install it again after adding an op")
    row = read_table()[op]
    module = import_module(f".{FAMILY_MODULES[row.family]}", __package__)
    cases = tuple(module.build(row))
    if not cases:
        raise LookupError(f"the op {op} has no conformance case")
    return cases


def only_contiguous(row: Row, label: str, shapes: Sequence[Shape], call: Callable, **rest: Any) -> Case:
    return Case(label, shapes, call, layouts=(CONTIGUOUS,), **rest)
