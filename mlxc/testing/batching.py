"""vmap of every op against a loop over the batch.

Each case is drawn several times, as the examples of a batch. Batched are all inputs, and each alone; the batch is the
first axis of every input, the last, or one that differs from input to input. The examples one after the other, stacked,
are what vmap must give.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import mlxc as mx

from .cases import Case, cases_of
from .dtypes import Dtype, accepted_dtypes, dtype_of, from_mlxc, widen
from .layouts import CONTIGUOUS, lay_out
from .run import Failure, Report, draw_inputs
from .table import Row, read_table

SIZE = 3
LARGE = 20000  # elements; such cases are there for the kernels' threads, not for the rules
PREFERRED = ("float64", "complex128", "int32", "uint32", "bool")

Axes = tuple[int | None, ...]


def check_vmap(op: str) -> Report:
    """All batching checks of one op."""
    row = read_table()[op]
    report = Report(0, [])
    for case in cases_of(op):
        if case.raises or not case.shapes or is_large(case):
            continue
        for dtype in _choose_dtypes(row, case):
            examples = draw_examples(row, case, dtype)
            for axes in combine_axes(case):
                report.checks += 1
                message = _check_batch(case, examples, axes)
                if message:
                    report.failures.append(Failure(op, case.label, dtype.name, f"axes {axes}", message))
    return report


def is_large(case: Case) -> bool:
    return sum(int(np.prod(shape)) for shape in case.shapes) > LARGE


def needs_vmap(op: str) -> bool:
    """Whether the op has a batching rule that can be judged."""
    return read_table()[op].has_vmap


def combine_axes(case: Case) -> Iterator[Axes]:
    """Which inputs are batched, along which axis."""
    ends = [len(shape) for shape in case.shapes]
    count = len(ends)
    yield (0,) * count
    yield tuple(ends)
    if count > 1:
        yield tuple(end if i % 2 else 0 for i, end in enumerate(ends))
        for i, end in enumerate(ends):
            yield tuple(0 if i == j else None for j in range(count))
            yield tuple(end if i == j else None for j in range(count))
            if count > 2:
                yield tuple(None if i == j else 0 for j in range(count))


def _choose_dtypes(row: Row, case: Case) -> list[Dtype]:
    """One of floats and one of integers: a rule moves axes and asks for no dtype."""
    taken = [dtype for dtype in accepted_dtypes(row.accepts) if case.takes(dtype)]
    ordered = sorted(taken, key=lambda d: PREFERRED.index(d.name) if d.name in PREFERRED else len(PREFERRED))
    floats, others = [d for d in ordered if d.is_float], [d for d in ordered if not d.is_float]
    return floats[:1] + others[:1]


def draw_examples(row: Row, case: Case, dtype: Dtype) -> list[list[mx.array]]:
    return [
        [lay_out(stored, own, CONTIGUOUS).array for stored, own in draw_inputs(row, case, dtype, f"example {b}")]
        for b in range(SIZE)
    ]


def _check_batch(case: Case, examples: list[list[mx.array]], axes: Axes) -> str | None:
    def listed(*inputs: mx.array) -> list[mx.array]:
        results = case.call(*inputs)
        return list(results) if isinstance(results, (tuple, list)) else [results]

    shared = examples[0]
    given = [
        shared[i] if axis is None else mx.stack([example[i] for example in examples], axis=axis)
        for i, axis in enumerate(axes)
    ]
    try:
        looped = [
            listed(*[example[i] if axis is not None else shared[i] for i, axis in enumerate(axes)])
            for example in examples
        ]
        for out_axes in (0, -1):
            batched = mx.vmap(listed, in_axes=axes, out_axes=out_axes)(*given)
            for k, result in enumerate(batched):
                message = find_difference(result, mx.stack([results[k] for results in looped], axis=out_axes))
                if message:
                    return f"result {k}, out_axes {out_axes}: {message}" if out_axes else f"result {k}: {message}"
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    return None


def find_difference(got: mx.array, expected: mx.array, slack: float = 16) -> str | None:
    """Sums may be taken in another order, for which `slack` ulp of the largest are allowed; else they are equal."""
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype} of shape {got.shape}, a loop gives {expected.dtype} of shape {expected.shape}"
    dtype = dtype_of(expected)
    a, b = (widen(from_mlxc(x), dtype) for x in (got, expected))
    with np.errstate(all="ignore"):
        equal = (a == b) | (np.isnan(a) & np.isnan(b))
        if dtype.is_float:
            size = np.max(np.abs(b), where=np.isfinite(b), initial=0)
            equal |= np.abs(a - b) <= slack * 2.0**-dtype.mantissa * size
    if np.all(equal):
        return None
    at = np.unravel_index(int(np.argmin(equal)), equal.shape)
    return f"{a[at]} at {tuple(map(int, at))}, a loop gives {b[at]}"
