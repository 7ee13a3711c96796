"""Gradients of batched functions and batches of gradients, for every op that has both: against a loop.

A cotangent for each example is pulled back through vmap(f), and by vmap of the pullback of f. Both must give what the
examples give one after the other: an input that is not batched gets the sum of theirs, or each its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np

import mlxc as mx

from .batching import SIZE, Axes, draw_examples, find_difference, is_large
from .cases import Case, cases_of
from .dtypes import accepted_dtypes, dtype_of
from .gradients import draw_like
from .run import Failure, Report
from .table import read_table

Arrays = list[mx.array]


def check_vmap_gradients(op: str) -> Report:
    """All checks of one op, on its differentiable cases in float64 or complex128."""
    row = read_table()[op]
    report = Report(0, [])
    for case in cases_of(op):
        if not case.differentiable or case.raises or not case.shapes or is_large(case):
            continue
        for dtype in accepted_dtypes(row.accepts):
            if dtype.name not in ("float64", "complex128") or not case.takes(dtype):
                continue
            examples = draw_examples(row, case, dtype)
            for axes in _combine(case, _find_floats(examples[0])):
                report.checks += 1
                message = _check_pullbacks(case, examples, axes, f"{op} {case.label} {dtype.name}")
                if message:
                    report.failures.append(Failure(op, case.label, dtype.name, f"axes {axes}", message))
    return report


def needs_vmap_gradient(op: str) -> bool:
    """Whether the op has both a batching rule and derivatives that can be judged together."""
    row = read_table()[op]
    return row.has_vjp and row.has_vmap


def _find_floats(inputs: Arrays) -> list[int]:
    return [i for i, a in enumerate(inputs) if dtype_of(a).is_float]


def _combine(case: Case, floats: list[int]) -> Iterator[Axes]:
    count = len(case.shapes)
    yield (0,) * count
    if count > 1:
        for j in floats:
            yield tuple(0 if i == j else None for i in range(count))


def _listed(results: object) -> Arrays:
    return list(results) if isinstance(results, (tuple, list)) else [results]


def _pull_back(function, inputs: Arrays, places: list[int], cotangents: Arrays) -> Arrays:
    """The vjp of a function of all inputs with respect to those at the places."""

    def varied(*some: mx.array) -> Arrays:
        given = list(inputs)
        for i, a in zip(places, some, strict=True):
            given[i] = a
        return _listed(function(*given))

    return mx.vjp(varied, [inputs[i] for i in places], cotangents)[1]


def _check_pullbacks(case: Case, examples: list[Arrays], axes: Axes, seed: str) -> str | None:
    places = _find_floats(examples[0])
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    shared = examples[0]
    given = [shared[i] if axis is None else mx.stack([e[i] for e in examples]) for i, axis in enumerate(axes)]
    single = [[e[i] if axis is not None else shared[i] for i, axis in enumerate(axes)] for e in examples]
    try:
        batched = mx.vmap(lambda *inputs: _listed(case.call(*inputs)), in_axes=axes)
        cotangents = [draw_like(y, rng) for y in batched(*given)]
        looped = [_pull_back(case.call, single[b], places, [c[b] for c in cotangents]) for b in range(SIZE)]
        through = _pull_back(batched, given, places, cotangents)
        each = mx.vmap(
            lambda *parts: _pull_back(case.call, list(parts[: len(axes)]), places, list(parts[len(axes) :])),
            in_axes=(*axes, *([0] * len(cotangents))),
        )(*given, *cotangents)
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"
    for k, i in enumerate(places):
        stacked = mx.stack([pulled[k] for pulled in looped])
        message = find_difference(each[k], stacked, 1e5)
        if message:
            return f"vmap of the vjp, input {i}: {message}"
        message = find_difference(through[k], stacked if axes[i] is not None else mx.sum(stacked, axis=0), 1e5)
        if message:
            return f"vjp of the vmap, input {i}: {message}"
    return None
