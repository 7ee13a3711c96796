"""Cases of the element-wise ops: one value in, one out, whatever the shape.

Each op meets a plain shape in every layout, shapes that broadcast, an empty, a 0-d, a prime-sized and a large
array, and the special values of each float type.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import mlxc as mx

from .cases import Case, Draw, draw_these, draw_uniform, special_values
from .dtypes import DTYPES, Dtype, promote
from .layouts import CONTIGUOUS
from .reference import DOUBLE_SLACK, REFERENCE, SIGNED_ZERO, nextafter_stored
from .table import Row, result_dtype

SHAPES = {"4x5x6": (4, 5, 6), "empty": (3, 0, 2), "0-d": (), "prime": (13, 31)}
LARGE = (1031, 257)
ONE = (CONTIGUOUS,)

# The exact sign or size of these depends on rules that differ between libraries at infinity.
_FINITE_ONLY = {"floor_divide", "divmod", "remainder"}


def build(row: Row) -> Iterator[Case]:
    if row.name == "where":
        yield from _where_cases()
        return
    count = len(row.inputs)
    make = partial(_case, row)
    for label, shape in SHAPES.items():
        yield make(label, (shape,) * count, differentiable=label in ("4x5x6", "0-d"))
    yield make("large", (LARGE,) * count, layouts=ONE, dtypes=("float32", "int32", "bfloat16"))
    yield from _special_cases(row)
    if count == 2:
        yield make("broadcast rows", ((4, 1, 6), (5, 1)), differentiable=True)
        yield make("0-d with array", ((), (3, 4)), differentiable=True)
        yield make("array with 0-d", ((3, 4), ()))
        yield make("empty with one", ((0, 3), (1, 3)), layouts=ONE)
        yield Case("shapes that do not broadcast", ((3, 4), (2, 4)), _call(row), layouts=ONE, raises=ValueError)
        if row.dtype in ("promote", "promote_float", "bool") and row.accepts == "any":
            yield from _mixed_dtype_cases(row)


def _call(row: Row):
    return getattr(mx, row.name)


def _case(row: Row, label: str, shapes: tuple, **rest) -> Case:
    reference = _nextafter if row.name == "nextafter" else REFERENCE[row.name]
    rest.setdefault("draw", _draws(row))
    return Case(
        label,
        shapes,
        _call(row),
        reference,
        zero_sign=row.name in SIGNED_ZERO,
        on_stored=row.name == "nextafter",
        scale=_scale(row),
        slack=3.0 if row.name == "power" else 1.0,
        double_slack=DOUBLE_SLACK.get(row.name, 0.0),
        **rest,
    )


def _nextafter(dtype: Dtype, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if not dtype.is_float:
        a, b = a.astype(np.float32), b.astype(np.float32)
    return nextafter_stored(a, b, dtype.name == "bfloat16")


def _scale(row: Row):
    if row.name == "logaddexp":  # log(exp(a) + exp(b)) may be near zero where a and b are not
        return lambda a, b: np.maximum(np.abs(a), np.abs(b)) + 1
    return None


def _draws(row: Row) -> list[Draw] | None:
    """Integer division and powers and shifts need operands of their own."""
    if row.name in ("floor_divide", "remainder", "divmod"):
        whole = draw_uniform(None)

        def divisor(rng, dtype, shape):
            if dtype.is_float or dtype.kind == "b":
                return draw_uniform(row.domain)(rng, dtype, shape)
            return rng.choice(np.array([0, 1, 2, 3, 7] + ([-1, -3] if dtype.kind == "i" else [])), shape)

        def dividend(rng, dtype, shape):
            values = (draw_uniform(row.domain) if dtype.is_float else whole)(rng, dtype, shape)
            if dtype.kind == "i" and values.size:
                values.reshape(-1)[0] = np.iinfo(dtype.stored).min
            return values

        return [dividend, divisor]
    if row.name == "power":
        return [_power_base, _power_exponent]
    if row.name in ("left_shift", "right_shift"):

        def amount(rng, dtype, shape):
            return rng.integers(0, 2 if dtype.kind == "b" else 8 * dtype.stored.itemsize + 3, shape)

        return [draw_uniform(None), amount]
    return None


def _power_base(rng: np.random.Generator, dtype: Dtype, shape: tuple) -> np.ndarray:
    return draw_uniform((-5, 5) if dtype.kind == "i" else (0.1, 4.0))(rng, dtype, shape)


def _power_exponent(rng: np.random.Generator, dtype: Dtype, shape: tuple) -> np.ndarray:
    if dtype.kind in "iu":
        return rng.integers(-3 if dtype.kind == "i" else 0, 9, shape)
    return draw_uniform((0.1, 3.0))(rng, dtype, shape)


def _special_cases(row: Row) -> Iterator[Case]:
    """Each special value, or each pair of them, in each float type."""
    if row.accepts == "integer":
        return

    def values(dtype: Dtype) -> np.ndarray:
        special = special_values(dtype)
        return special[np.isfinite(special)] if row.name in _FINITE_ONLY else special

    def first(rng: np.random.Generator, dtype: Dtype, shape: tuple) -> np.ndarray:
        special = values(dtype)
        return special if len(row.inputs) == 1 else np.repeat(special, len(special))

    def second(rng: np.random.Generator, dtype: Dtype, shape: tuple) -> np.ndarray:
        special = values(dtype)
        return np.tile(special, len(special))

    for name in ("float16", "bfloat16", "float32", "float64"):
        size = len(values(DTYPES[name])) ** len(row.inputs)
        draws = [first, second][: len(row.inputs)]
        yield _case(row, f"special {name}", ((size,),) * len(row.inputs), layouts=ONE, dtypes=(name,), draw=draws)


def _mixed_dtype_cases(row: Row) -> Iterator[Case]:
    """The first input in the case's dtype, the second in each other one."""
    for other in DTYPES.values():
        draws = [draw_uniform((1, 4)), draw_uniform((1, 4))]

        def result(dtype: Dtype, other: Dtype = other) -> Dtype:
            return result_dtype(row.dtype, [dtype, other])

        fits = [d.name for d in DTYPES.values() if d != other and _promotes(d, other)]
        clashing = [d.name for d in DTYPES.values() if not _promotes(d, other)]
        shared = dict(shapes=((7,), (7,)), fixed=(None, other.name), draw=draws, layouts=ONE)
        yield Case(
            f"with {other.name}",
            call=_call(row),
            reference=_promoted_reference(row),
            dtypes=fits,
            result=result,
            slack=3.0 if row.name == "power" else 1.0,
            **shared,
        )
        if clashing:
            yield Case(
                f"no common dtype with {other.name}", call=_call(row), dtypes=clashing, raises=TypeError, **shared
            )


def _promotes(a: Dtype, b: Dtype) -> bool:
    try:
        promote(a, b)
    except TypeError:
        return False
    return True


def _promoted_reference(row: Row):
    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        common = np.result_type(a.dtype, b.dtype)
        if row.dtype == "promote_float" and common.kind in "bui":
            common = np.dtype(np.float64)
        return REFERENCE[row.name](a.astype(common), b.astype(common))

    return reference


def _where_cases() -> Iterator[Case]:
    def make(label: str, shapes: tuple, **rest) -> Case:
        return Case(label, shapes, mx.where, np.where, fixed=("bool", None, None), result=lambda d: d, **rest)

    for label, shape in SHAPES.items():
        yield make(label, (shape,) * 3, differentiable=label == "4x5x6")
    yield make("large", (LARGE,) * 3, layouts=ONE, dtypes=("float32", "uint8"))
    yield make("broadcast", ((4, 1, 1), (5, 1), (6,)), differentiable=True)
    yield make("0-d condition", ((), (3, 4), (4,)))
    specials = [draw_these(np.arange(27) % 2 == 0), *[lambda rng, dtype, shape: special_values(dtype)] * 2]
    yield make("special", ((27,),) * 3, layouts=ONE, dtypes="f", draw=specials, zero_sign=True)
