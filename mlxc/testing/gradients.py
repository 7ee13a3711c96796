"""Gradients of every op that has them: vjp and jvp against central differences, and against each other.

All in float64 (complex128 for ops that take complex numbers), on the differentiable cases of the case table.
With y = f(x), a random direction v and a random cotangent c:

    jvp(f)(v) is the central difference (f(x + h v) - f(x - h v)) / 2 h,
    Re <c, jvp(f)(v)> is Re <vjp(f)(c), v>.

Second order: the same two checks for the function x -> vjp(f)(c) at x.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

import mlxc as mx

from .cases import Case, cases_of
from .dtypes import DTYPES, Dtype, accepted_dtypes, dtype_of
from .layouts import CONTIGUOUS, lay_out
from .run import Failure, Report, draw_inputs
from .table import Row, read_table

STEP = 2.0**-17
Function = Callable[..., tuple[mx.array, ...]]

# Ops whose second derivative is checked too: the smooth ones that training differentiates twice.
SECOND_ORDER = frozenset(
    "square sqrt rsqrt reciprocal exp expm1 log log1p sin cos tan arctan sinh cosh tanh sigmoid erf add subtract "
    "multiply divide power logaddexp arctan2 hypot sum prod mean logsumexp softmax cumsum cumprod matmul conv "
    "cholesky qr lu_factor inverse tri_inverse solve solve_triangular det slogdet eigh eigvalsh eig eigvals svd "
    "svdvals pinv reshape transpose broadcast_to slice slice_update concatenate gather gather_axis scatter where "
    "fft rfft irfft rms_norm layer_norm rope scaled_dot_product_attention cross_entropy".split()
)


def check_gradients(op: str) -> Report:
    """All gradient checks of one op."""
    row = read_table()[op]
    report = Report(0, [])
    for case in cases_of(op):
        if not case.differentiable or case.raises:
            continue
        for dtype in accepted_dtypes(row.accepts):
            if dtype.name not in ("float64", "complex128") or not case.takes(dtype):
                continue
            report.checks += 1
            message = check_case_gradient(row, case, dtype)
            if message:
                report.failures.append(Failure(op, case.label, dtype.name, "gradient", message))
    return report


def needs_gradient(op: str) -> bool:
    """Whether an op has derivatives that there is something to check of."""
    row = read_table()[op]
    return row.has_vjp or row.has_jvp


def check_case_gradient(row: Row, case: Case, dtype: Dtype) -> str | None:
    """What is wrong with the derivatives of one case, or None."""
    inputs = draw_inputs(row, case, dtype)
    arrays = [lay_out(stored, own, CONTIGUOUS).array for stored, own in inputs]
    places = [i for i, (_, own) in enumerate(inputs) if own.is_float]
    rng = np.random.default_rng(zlib.crc32(f"gradient {row.name} {case.label} {dtype.name}".encode()))

    def function(*varied: mx.array) -> tuple[mx.array, ...]:
        given = list(arrays)
        for i, array in zip(places, varied, strict=True):
            given[i] = array
        results = case.call(*given)
        return tuple(results) if isinstance(results, (tuple, list)) else (results,)

    primals = [arrays[i] for i in places]
    try:
        message = check_function(function, primals, rng, row.has_vjp, row.has_jvp)
        if message or not (row.has_vjp and row.name in SECOND_ORDER):
            return message
        cotangents = [draw_like(y, rng) for y in function(*primals)]
        message = check_function(
            lambda *xs: tuple(mx.vjp(lambda *zs: list(function(*zs)), list(xs), cotangents)[1]),
            primals,
            rng,
            True,
            True,
        )
        return message and f"second order: {message}"
    except Exception as error:
        return f"raised {type(error).__name__}: {error}"


def check_function(
    function: Function, primals: list[mx.array], rng: np.random.Generator, vjp: bool, jvp: bool
) -> str | None:
    def listed(*xs: mx.array) -> list[mx.array]:
        return list(function(*xs))

    tangents = [draw_like(x, rng) for x in primals]
    outputs = function(*primals)
    floats = [i for i, y in enumerate(outputs) if dtype_of(y).is_float]
    differences = _central_difference(function, primals, tangents)
    pushed = None
    if jvp:
        pushed = [np.array(t) for t in mx.jvp(listed, primals, tangents)[1]]
        for i in floats:
            message = _find_difference("jvp", pushed[i], differences[i])
            if message:
                return message
    if vjp:
        cotangents = [draw_like(y, rng) for y in outputs]
        pulled = [np.array(g) for g in mx.vjp(listed, primals, cotangents)[1]]
        for g, x in zip(pulled, primals, strict=True):
            if g.shape != tuple(x.shape):
                return f"vjp has shape {g.shape}, its primal {tuple(x.shape)}"
        # Of two exact forms the sums agree closely; beside differences only to their own error.
        forward = sum(_inner(np.array(cotangents[i]), (pushed or differences)[i]) for i in floats)
        backward = sum(_inner(g, np.array(v)) for g, v in zip(pulled, tangents, strict=True))
        size = sum(float(np.sum(np.abs(np.array(cotangents[i]) * differences[i]))) for i in floats)
        size += sum(float(np.sum(np.abs(g * np.array(v)))) for g, v in zip(pulled, tangents, strict=True))
        allowed = (1e-11 if pushed else 1e-6) * (size + 1)
        if not abs(forward - backward) <= allowed:
            name = "jvp" if pushed else "central differences"
            return f"<vjp, v> = {backward:.9g}, but by {name} {forward:.9g}"
    return None


def draw_like(array: mx.array, rng: np.random.Generator) -> mx.array:
    """A random tangent or cotangent: same shape and dtype."""
    shape, dtype = tuple(array.shape), dtype_of(array)
    values = rng.uniform(-1, 1, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(-1, 1, shape)
    return mx.array(np.asarray(values).astype(dtype.stored), dtype=dtype.mx)


def _central_difference(function: Function, primals: list[mx.array], tangents: list[mx.array]) -> list[np.ndarray]:
    def at(h: float) -> list[np.ndarray]:
        moved = []
        for x, v in zip(primals, tangents, strict=True):
            dtype = DTYPES[dtype_of(x).name]
            moved.append(mx.array(np.asarray(np.array(x) + h * np.array(v)).astype(dtype.stored), dtype=dtype.mx))
        return [np.array(y) for y in function(*moved)]

    return [(after - before) / (2 * STEP) for after, before in zip(at(STEP), at(-STEP), strict=True)]


def _inner(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.sum(np.conj(a) * b).real)


def _find_difference(what: str, got: np.ndarray, expected: np.ndarray) -> str | None:
    if got.shape != expected.shape:
        return f"{what} has shape {got.shape}, expected {expected.shape}"
    size = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
    wrong = ~(np.abs(got - expected) <= 1e-5 * np.abs(expected) + 1e-7 * size)
    if not wrong.any():
        return None
    at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    return f"{what} is {got[at]} at {tuple(map(int, at))}, central differences give {expected[at]}"
