"""Cases of reductions, scans, softmax and sorting: ops that go along axes.

Errors of sums are measured beside the sum of magnitudes, those of products beside the number of factors: no float
arithmetic does better where terms cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mlxc as mx

from .cases import Case, Shape, draw_these
from .layouts import CONTIGUOUS
from .table import Row

CUBE = (5, 6, 7)
LARGE = (1031, 257)
ONE = (CONTIGUOUS,)
AXES = [None, 0, 1, -1, (0, 2), (1, 2), (0, 1, 2), ()]
NAN = np.nan
INF = np.inf


def build(row: Row) -> Iterator[Case]:
    builder = {
        "reduce": _reductions,
        "argreduce": _argreductions,
        "softmax": _softmaxes,
        "scan": _scans,
        "sort": {"topk": _topks, "partition": _partitions, "argpartition": _partitions}.get(row.name, _sorts),
    }
    yield from builder[row.family](row)


# ---- reductions ---------------------------------------------------------------------------------


def _logsumexp(a: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    if a.dtype.kind == "c":
        return np.log(np.sum(np.exp(a), axis=axis, keepdims=keepdims))
    top = np.max(a, axis=axis, keepdims=True, initial=-np.inf)
    finite = np.where(np.isfinite(top), top, 0)
    total = np.log(np.sum(np.exp(a - finite), axis=axis, keepdims=True)) + finite
    return total if keepdims else np.squeeze(total, axis=tuple(range(a.ndim)) if axis is None else axis)


def _count(a: np.ndarray, axis: Any) -> int:
    axes = range(a.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return int(np.prod([a.shape[i] for i in axes]))


def _mean(a: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    return np.true_divide(np.sum(a, axis=axis, keepdims=keepdims), _count(a, axis))


_REDUCTION = {
    "sum": lambda a, axis, keepdims: np.sum(a, axis=axis, keepdims=keepdims, dtype=a.dtype),
    "prod": lambda a, axis, keepdims: np.prod(a, axis=axis, keepdims=keepdims, dtype=a.dtype),
    "min": lambda a, axis, keepdims: np.min(a, axis=axis, keepdims=keepdims),
    "max": lambda a, axis, keepdims: np.max(a, axis=axis, keepdims=keepdims),
    "mean": _mean,
    "all": lambda a, axis, keepdims: np.all(a, axis=axis, keepdims=keepdims),
    "any": lambda a, axis, keepdims: np.any(a, axis=axis, keepdims=keepdims),
    "logsumexp": _logsumexp,
}
_REDUCTION_DOMAIN = {"mean": (-100.0, 100.0), "logsumexp": (-4.0, 4.0), "prod": (0.8, 1.25)}


def _reduction_scale(name: str, axis: Any, keepdims: bool) -> Callable | None:
    def summed(a: np.ndarray) -> np.ndarray:
        return np.sum(np.abs(a), axis=axis, keepdims=keepdims)

    def averaged(a: np.ndarray) -> np.ndarray:
        return _mean(np.abs(a), axis, keepdims)

    def largest(a: np.ndarray) -> np.ndarray:
        return np.max(np.abs(a), axis=axis, keepdims=keepdims, initial=1.0) + 0 * summed(a)

    def multiplied(a: np.ndarray) -> np.ndarray:
        value = np.abs(np.prod(a, axis=axis, keepdims=keepdims))
        return value * max(1, a.size // max(value.size, 1) // 8)

    return {"sum": summed, "mean": averaged, "logsumexp": largest, "prod": multiplied}.get(name)


def _reductions(row: Row) -> Iterator[Case]:
    function = getattr(mx, row.name)

    def make(label: str, shape: Shape, axis: Any, keepdims: bool = False, **rest: Any) -> Case:
        rest.setdefault("domain", _REDUCTION_DOMAIN.get(row.name))
        return Case(
            label,
            (shape,),
            lambda a: function(a, axis=axis, keepdims=keepdims),
            lambda a: _REDUCTION[row.name](a, axis, keepdims),
            scale=_reduction_scale(row.name, axis, keepdims),
            accumulates=row.name in ("sum", "mean", "prod"),
            **rest,
        )

    for axis in AXES:
        differentiable = axis in (None, 1, (0, 2))
        yield make(f"axis={axis}", CUBE, axis, differentiable=differentiable)
    yield make("keepdims", CUBE, (0, 2), True, differentiable=True)
    yield make("keepdims of all", CUBE, None, True, layouts=ONE)
    yield make("0-d", (), None)
    yield make("prime rows", (13, 31), 0)
    yield make("prime columns", (13, 31), 1)
    for axis in (0, 1, None):
        domain = (0.99, 1.01) if row.name == "prod" else _REDUCTION_DOMAIN.get(row.name)
        yield make(f"large axis={axis}", LARGE, axis, layouts=ONE, dtypes=("float32", "int32"), domain=domain)
    long_domain = (0.999, 1.001) if row.name == "prod" else _REDUCTION_DOMAIN.get(row.name)
    yield make("long", (70001,), None, layouts=ONE, dtypes=("float32", "float16", "bfloat16"), domain=long_domain)
    if row.name in ("sum", "mean"):
        # Terms of one sign: a sum that just adds them one after another drifts away.
        yield make("long of one sign", (70001,), None, layouts=ONE, dtypes=("float32", "float64"), domain=(0.5, 1.5))
        yield make("tall of one sign", (30011, 3), 0, layouts=ONE, dtypes=("float32", "float64"), domain=(0.5, 1.5))
    yield make("empty beside axis", (0, 3), 1, layouts=ONE)
    if row.name in ("min", "max"):
        yield Case("empty axis", ((0, 3),), lambda a: function(a, axis=0), layouts=ONE, raises=ValueError)
        yield Case("empty", ((0,),), function, layouts=ONE, raises=ValueError)
    else:
        yield make("empty axis", (0, 3), 0, layouts=ONE)
        yield make("empty", (0,), None, layouts=ONE)
    specials = [NAN, 1, 2, 3, INF, 1, -INF, INF, -INF, 2, -INF, -INF, -INF, 0.0, -0.0]
    yield make("special", (5, 3), 1, layouts=ONE, dtypes="f", draw=draw_these(specials))
    yield Case(
        "no such axis", (CUBE,), lambda a: function(a, axis=3), layouts=ONE, dtypes=("float32",), raises=IndexError
    )
    yield Case(
        "axis twice", (CUBE,), lambda a: function(a, axis=(0, -3)), layouts=ONE, dtypes=("float32",), raises=ValueError
    )


def _argreductions(row: Row) -> Iterator[Case]:
    function, reference = getattr(mx, row.name), getattr(np, row.name)

    def make(label: str, shape: Shape, axis: int | None, keepdims: bool = False, **rest: Any) -> Case:
        return Case(
            label,
            (shape,),
            lambda a: function(a, axis=axis, keepdims=keepdims),
            lambda a: reference(a, axis=axis, keepdims=keepdims),
            **rest,
        )

    for axis in (None, 0, 1, -1):
        yield make(f"axis={axis}", CUBE, axis)
        yield make(f"ties axis={axis}", CUBE, axis, domain=(0.0, 2.0), dtypes="bui", layouts=ONE)
    yield make("keepdims", CUBE, 1, True)
    yield make("0-d", (), None)
    yield make("large", LARGE, 1, layouts=ONE, dtypes=("float32", "int32"))
    yield make("long", (70001,), None, layouts=ONE, dtypes=("float32", "uint8"))
    yield make("empty beside axis", (0, 3), 1, layouts=ONE)
    yield Case("empty axis", ((0, 3),), lambda a: function(a, axis=0), layouts=ONE, raises=ValueError)
    specials = [1, NAN, INF, NAN, NAN, -INF, INF, -INF, INF, 0.0, -0.0, 0.0]
    yield make("special", (4, 3), 1, layouts=ONE, dtypes="f", draw=draw_these(specials))


# ---- softmax ------------------------------------------------------------------------------------


def _softmax(a: np.ndarray, axis: Any) -> np.ndarray:
    e = np.exp(a - np.max(a, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def _softmaxes(row: Row) -> Iterator[Case]:
    def make(label: str, shape: Shape, axis: Any, precise: bool = False, **rest: Any) -> Case:
        rest.setdefault("domain", (-4.0, 4.0))
        return Case(
            label,
            (shape,),
            lambda a: mx.softmax(a, axis=axis, precise=precise),
            lambda a: _softmax(a, axis),
            slack=2.0,  # subtracting the maximum rounds before the exponential
            **rest,
        )

    for axis in (None, 0, 1, -1, (0, 2)):
        yield make(f"axis={axis}", CUBE, axis, differentiable=True)
    yield make("precise", CUBE, -1, True)
    yield make("0-d", (), None)
    yield make("empty beside axis", (0, 3), 1, layouts=ONE)
    yield make("prime", (13, 31), 1)
    yield make("large", LARGE, 1, layouts=ONE, dtypes=("float32", "float16"))
    masked = [0, -INF, 1, -INF, -INF, 2, NAN, 0, 1, 1e4, -1e4, 1e4]
    yield make("special", (4, 3), 1, layouts=ONE, dtypes="f", draw=draw_these(masked))


# ---- scans --------------------------------------------------------------------------------------


def _scan(name: str, a: np.ndarray, axis: int | None, reverse: bool, inclusive: bool) -> np.ndarray:
    ufunc = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}[name]
    if axis is None:
        a, axis = a.reshape(-1), 0
    if name in ("cumsum", "cumprod") and a.dtype.kind == "b":
        a = a.astype(np.int32)
    if reverse:
        a = np.flip(a, axis)
    result = ufunc.accumulate(a, axis=axis, dtype=a.dtype)
    if not inclusive and result.shape[axis]:
        start = np.full_like(np.take(result, [0], axis), _identity(name, a.dtype))
        result = np.concatenate([start, np.take(result, range(result.shape[axis] - 1), axis)], axis)
    return np.flip(result, axis) if reverse else result


def _identity(name: str, dtype: np.dtype) -> Any:
    if name in ("cumsum", "cumprod"):
        return 0 if name == "cumsum" else 1
    lowest = name == "cummax"
    if dtype.kind == "b":
        return not lowest
    if dtype.kind in "ui":
        return np.iinfo(dtype).min if lowest else np.iinfo(dtype).max
    return -np.inf if lowest else np.inf


def _scan_scale(name: str, axis: int | None, reverse: bool, inclusive: bool) -> Callable | None:
    if name == "cumsum":
        return lambda a: _scan("cumsum", np.abs(a), axis, reverse, inclusive)
    if name == "cumprod":
        return lambda a: np.abs(_scan(name, a, axis, reverse, inclusive)) * max(1, a.size // 32)
    return None


def _scans(row: Row) -> Iterator[Case]:
    function = getattr(mx, row.name)
    usual = (0.8, 1.25) if row.name == "cumprod" else None

    def make(
        label: str, shape: Shape, axis: int | None, reverse: bool = False, inclusive: bool = True, **rest: Any
    ) -> Case:
        rest.setdefault("domain", usual)
        return Case(
            label,
            (shape,),
            lambda a: function(a, axis=axis, reverse=reverse, inclusive=inclusive),
            lambda a: _scan(row.name, a, axis, reverse, inclusive),
            scale=_scan_scale(row.name, axis, reverse, inclusive),
            accumulates=True,
            **rest,
        )

    for axis in (None, 0, 1, -1):
        yield make(f"axis={axis}", CUBE, axis, differentiable=axis in (None, 1))
    # An exclusive running extremum of complex numbers would start from no number there is.
    exclusive = None if row.name in ("cumsum", "cumprod") else "buif"
    yield make("reverse", CUBE, 1, True, differentiable=True)
    yield make("exclusive", CUBE, 1, False, False, differentiable=row.name in ("cumsum", "cumprod"), dtypes=exclusive)
    yield make("reverse exclusive", CUBE, -1, True, False, dtypes=exclusive)
    yield make("prime", (13, 31), 0)
    yield make("empty", (0, 3), 0, layouts=ONE)
    yield make("empty beside axis", (0, 3), 1, layouts=ONE)
    near_one = (0.99, 1.01) if row.name == "cumprod" else None
    yield make("large", LARGE, 1, layouts=ONE, dtypes=("float32", "int32"), domain=near_one)
    yield make("large columns", LARGE, 0, layouts=ONE, dtypes=("float32", "int32"), domain=near_one)
    near_one = (0.999, 1.001) if row.name == "cumprod" else None
    yield make("long", (70001,), 0, layouts=ONE, dtypes=("float32",), domain=near_one)
    specials = [1, NAN, 2, INF, -INF, 1, -INF, 3, INF]
    yield make("special", (3, 3), 1, layouts=ONE, dtypes="f", draw=draw_these(specials))


# ---- sorting ------------------------------------------------------------------------------------


def _sorts(row: Row) -> Iterator[Case]:
    function = getattr(mx, row.name)
    reference = np.sort if row.name == "sort" else lambda a, axis: np.argsort(a, axis=axis, kind="stable")

    def make(label: str, shape: Shape, axis: int | None, **rest: Any) -> Case:
        return Case(label, (shape,), lambda a: function(a, axis=axis), lambda a: reference(a, axis=axis), **rest)

    for axis in (None, 0, 1, -1):
        yield make(f"axis={axis}", CUBE, axis, differentiable=row.name == "sort")
    yield make("ties", CUBE, 1, domain=(0.0, 2.0), dtypes="bui", layouts=ONE)
    yield make("prime", (13, 31), 0)
    yield make("one", (1,), 0, layouts=ONE)
    yield make("empty", (0, 3), 0, layouts=ONE)
    yield make("empty beside axis", (0, 3), 1, layouts=ONE)
    yield make("large", LARGE, 1, layouts=ONE, dtypes=("float32", "int32", "float16"))
    yield make("long", (70001,), 0, layouts=ONE, dtypes=("float32", "uint8", "int64", "float64"))
    yield make(
        "special",
        (12,),
        0,
        layouts=ONE,
        dtypes="f",
        draw=draw_these([1, NAN, -INF, 0.0, -0.0, INF, NAN, 3, 2, -1, -2, 1]),
    )


def _partitions(row: Row) -> Iterator[Case]:
    """What lies before, at and after the place, each in order: together that is the sorted array."""

    def make(label: str, shape: Shape, k: int, axis: int, **rest: Any) -> Case:
        def call(a: mx.array) -> mx.array:
            if row.name == "partition":
                parted = mx.partition(a, k, axis=axis)
            else:
                parted = mx.take_along_axis(a, mx.argpartition(a, k, axis=axis), axis=axis)
            place = k % shape[axis]
            before, at, after = mx.split(parted, [place, place + 1], axis=axis)
            return mx.concatenate([mx.sort(before, axis), at, mx.sort(after, axis)], axis=axis)

        return Case(label, (shape,), call, lambda a: np.sort(a, axis=axis), result=lambda dtype: dtype, **rest)

    for axis, k in ((0, 2), (1, -1), (-1, 3), (-1, 0)):
        yield make(f"place {k}, axis={axis}", CUBE, k, axis, differentiable=row.name == "partition")
    yield make("ties", (4, 600), 300, 1, domain=(0.0, 2.0), dtypes="bui", layouts=ONE)
    yield make("prime", (13, 31), 7, 0)
    yield make("one", (1,), 0, 0, layouts=ONE)
    yield make("empty beside axis", (0, 3), 1, 1, layouts=ONE)
    yield make("long", (70001,), 35000, 0, layouts=ONE, dtypes=("float32", "uint8", "int64", "float64", "complex64"))
    special = draw_these([1, NAN, -INF, 0.0, -0.0, INF, NAN, 3, 2, -1, -2, 1])
    yield make("special", (12,), 5, 0, layouts=ONE, dtypes="f", draw=special)
    function = getattr(mx, row.name)
    for k in (5, -6):
        yield Case(f"place {k} of 5", ((5,),), lambda a, k=k: function(a, k), dtypes=("float32",), layouts=ONE,
                   raises=ValueError)  # fmt: skip


def _topks(row: Row) -> Iterator[Case]:
    def make(label: str, shape: Shape, k: int, axis: int | None, **rest: Any) -> Case:
        def reference(a: np.ndarray) -> np.ndarray:
            ordered = np.sort(a, axis=axis)
            at = 0 if axis is None else axis
            return np.take(ordered, range(ordered.shape[at] - k, ordered.shape[at]), axis=at)

        return Case(label, (shape,), lambda a: mx.topk(a, k, axis=axis), reference, **rest)

    for axis in (None, 0, 1, -1):
        yield make(f"axis={axis}", CUBE, 3, axis, differentiable=True)
    yield make("all", (4, 5), 5, 1)
    yield make("one", (13, 31), 1, 1)
    yield make("empty beside axis", (0, 3), 2, 1, layouts=ONE)
    yield make("large", LARGE, 8, 1, layouts=ONE, dtypes=("float32", "int32"))
    yield make("special", (7,), 3, 0, layouts=ONE, dtypes="f", draw=draw_these([1, NAN, INF, 5, -INF, 3, 2]))
    yield Case(
        "k too large", (CUBE,), lambda a: mx.topk(a, 8, axis=-1), layouts=ONE, dtypes=("float32",), raises=ValueError
    )
