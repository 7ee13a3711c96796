"""Cases of linear algebra: every factorisation is put together again, or compared where there is only one answer.

Signs and phases of vectors are LAPACK's choice, so results are made independent of them before they are compared:
u diag(s) vh is the matrix itself, q q^H the identity. Errors are measured beside the size of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mlxc as mx

from .cases import Case, Draw, Shape
from .dtypes import DTYPES, Dtype
from .layouts import CONTIGUOUS, STRIDED
from .table import Row

ONE = (CONTIGUOUS,)
# A matrix that repeats a row or a column is singular.
LAYOUTS = tuple(name for name in STRIDED if name != "broadcast")
REAL = {"complex64": "float32", "complex128": "float64"}
# The two axes of the matrices; the batch is in front.
SQUARE: tuple[Shape, ...] = ((4, 4), (2, 3, 3), (1, 1), (13, 13))
EMPTY: tuple[Shape, ...] = ((0, 0), (0, 3, 3), (2, 0, 0))
OBLONG: tuple[Shape, ...] = ((5, 3), (3, 5), (2, 4, 3), (4, 4), (1, 7), (7, 1))


def build(row: Row) -> Iterator[Case]:
    yield from BUILDERS[row.name](row)
    bad = dict(layouts=ONE, dtypes=("float32",), raises=ValueError)
    function = {"inverse": "inv", "tri_inverse": "tri_inv", "cofactor": "det"}.get(row.name, row.name)
    call = getattr(mx.linalg, function)
    if len(row.inputs) == 1:
        yield Case("a vector", ((4,),), call, **bad)
    elif row.name != "pinv":
        yield Case("sides differ", ((3, 3), (4, 2)), call, **bad)
        yield Case("a vector for a matrix", ((4,), (4,)), call, **bad)


def adjoint(a: Any) -> Any:
    return a.mT.conj() if isinstance(a, mx.array) else np.conj(np.swapaxes(a, -1, -2))


def _identity(a: np.ndarray, n: int) -> np.ndarray:
    return np.broadcast_to(np.eye(n, dtype=a.dtype), (*a.shape[:-2], n, n))


def _sized(a: np.ndarray) -> np.ndarray:
    """Frobenius norms, to broadcast against matrices."""
    return np.sqrt(np.sum(np.abs(a) ** 2, (-2, -1), keepdims=True)) + 1


def _in_double(function: Callable) -> Callable:
    """NumPy's linear algebra has no extended precision."""

    def reference(*arrays: np.ndarray) -> Any:
        narrow = [a.astype(np.complex128 if a.dtype.kind == "c" else np.float64) for a in arrays]
        return function(*narrow)

    return reference


def draw_conditioned(hermitian: bool = False, definite: bool = False) -> Draw:
    """Matrices with singular values, all different, between 1 and 3."""

    def draw(rng: np.random.Generator, dtype: Dtype, shape: Shape) -> np.ndarray:
        def gauss(*sizes: int) -> np.ndarray:
            values = rng.normal(size=sizes)
            return values + 1j * rng.normal(size=sizes) if dtype.kind == "c" else values

        if not dtype.is_float:
            # Integers: dominated by their diagonal.
            values = rng.integers(0, 2, shape) if dtype.kind != "b" else np.zeros(shape, int)
            values = values + np.swapaxes(values, -1, -2) if hermitian else values
            return values + (7 if dtype.kind != "b" else 1) * np.eye(shape[-2], shape[-1], dtype=int)
        if 0 in shape:
            return np.zeros(shape)
        *batch, m, n = shape
        k = min(m, n)
        left = np.linalg.qr(gauss(*batch, m, k))[0]
        right = left if hermitian else np.linalg.qr(gauss(*batch, n, k))[0]
        values = np.linspace(3, 1, k)
        if hermitian and not definite:
            values = values * (-1.0) ** np.arange(k)
        return (left * values) @ adjoint(right)

    return draw


def _matrices(  # noqa: PLR0917
    row: Row,
    label: str,
    call: Callable,
    reference: Callable,
    shapes: tuple[Shape, ...],
    draw: Draw,
    *,
    differentiable: bool = True,
    layouts: bool = True,
    real: bool = False,
    scale: Callable | None = None,
    **rest: Any,
) -> Iterator[Case]:
    """One function of one matrix, in several shapes."""
    if real:
        rest["result"] = lambda dtype: DTYPES[REAL.get(dtype.name, dtype.name if dtype.is_float else "float32")]
    elif row.dtype not in ("float", "promote_float"):
        rest.setdefault("result", lambda dtype: dtype if dtype.is_float else DTYPES["float32"])
    for shape in shapes:
        empty = 0 in shape
        keywords = {"layouts": LAYOUTS if layouts and not empty else ONE}
        yield Case(
            f"{label} {'x'.join(map(str, shape))}",
            (shape,),
            call,
            _in_double(reference),
            draw=draw,
            scale=scale,
            differentiable=differentiable and not empty and max(shape) < 10,
            double_slack=row.tolerance,
            **keywords,
            **rest,
        )


def _hermitian(a: mx.array) -> mx.array:
    """So that every direction is one among Hermitian matrices, as the derivatives are."""
    return (a + adjoint(a)) / 2 if mx.issubdtype(a.dtype, mx.inexact) else a


# ---- factors ------------------------------------------------------------------------------------


def _cholesky(row: Row) -> Iterator[Case]:
    definite = draw_conditioned(hermitian=True, definite=True)
    for upper in (False, True):
        reference = (lambda a: adjoint(np.linalg.cholesky(a))) if upper else np.linalg.cholesky
        yield from _matrices(
            row,
            "upper" if upper else "lower",
            lambda a, upper=upper: mx.linalg.cholesky(_hermitian(a), upper),
            reference,
            SQUARE + EMPTY,
            definite,
            scale=_sized,
        )
    yield Case(
        "not positive definite", ((3, 3),), mx.linalg.cholesky, layouts=ONE, dtypes=("float32", "complex128"),
        draw=lambda rng, dtype, shape: np.diag([1.0, -1.0, 1.0]), raises=ValueError,
    )  # fmt: skip


def _qr(row: Row) -> Iterator[Case]:
    draw = draw_conditioned()
    shapes = tuple(shape for shape in OBLONG if shape[-1] > 1)

    def factors(a: mx.array) -> list[mx.array]:
        q, r = mx.linalg.qr(a)
        turn = mx.sign(mx.real((r * mx.eye(*r.shape[-2:], dtype=r.dtype)).sum(-1)))
        return [q * turn[..., None, :], r * turn[..., :, None]]

    def reference(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        q, r = np.linalg.qr(a)
        turn = np.sign(np.diagonal(r, axis1=-2, axis2=-1).real)
        return q * turn[..., None, :], r * turn[..., :, None]

    yield from _matrices(row, "factors", factors, reference, shapes, draw, scale=lambda a: np.max(_sized(a)))
    for mode in ("reduced", "complete"):

        def columns(a: mx.array, mode: str = mode) -> mx.array:
            q, r = mx.linalg.qr(a, mode=mode)
            k = min(a.shape[-2:])
            return q[..., k:] @ adjoint(q[..., k:]) if q.shape[-1] > k else q @ r

        yield from _matrices(
            row,
            f"{mode} product",
            columns,
            lambda a, mode=mode: _beyond(a) if mode == "complete" and a.shape[-2] > a.shape[-1] else a,
            OBLONG + EMPTY,
            draw,
            scale=_sized,
        )


def _beyond(a: np.ndarray) -> np.ndarray:
    """The projector on what is outside of the columns' space."""
    q = np.linalg.qr(a)[0]
    return _identity(a, a.shape[-2]) - q @ adjoint(q)


def _lu_factor(row: Row) -> Iterator[Case]:
    def product(a: mx.array) -> mx.array:
        place, lower, upper = mx.linalg.lu(a)
        whole = lower @ upper
        return mx.take_along_axis(whole, mx.broadcast_to(place[..., None], whole.shape), axis=-2)

    def factors(a: mx.array) -> mx.array:
        return mx.linalg.lu_factor(a)[0]

    draw = draw_conditioned()
    yield from _matrices(row, "product", product, lambda a: a, OBLONG + EMPTY, draw, scale=_sized)
    yield from _matrices(row, "factors without exchanges", factors, _packed, OBLONG, _dominant, scale=_sized)


def _packed(a: np.ndarray) -> np.ndarray:
    from scipy import linalg

    return np.stack([linalg.lu_factor(x)[0] for x in a.reshape(-1, *a.shape[-2:])]).reshape(a.shape)


# ---- inverses and equations ---------------------------------------------------------------------


def _inverses(row: Row) -> Iterator[Case]:
    draw = draw_conditioned()
    if row.name == "inverse":
        yield from _matrices(row, "inverse", mx.linalg.inv, np.linalg.inv, SQUARE + EMPTY, draw, scale=_sized)
        singular = lambda rng, dtype, shape: np.ones(shape)  # noqa: E731
        yield Case("singular", ((2, 3, 3),), mx.linalg.inv, layouts=ONE, dtypes="fc", draw=singular, raises=ValueError)
        return
    for upper in (False, True):
        part = np.triu if upper else np.tril
        yield from _matrices(
            row,
            "upper" if upper else "lower",
            lambda a, upper=upper: mx.linalg.tri_inv(a, upper),
            lambda a, part=part: np.linalg.inv(part(a)),
            SQUARE + EMPTY,
            _dominant,
            scale=_sized,
        )


def _dominant(rng: np.random.Generator, dtype: Dtype, shape: Shape) -> np.ndarray:
    if dtype.kind == "b":
        return np.broadcast_to(np.eye(shape[-2], shape[-1]) > 0, shape)
    values = rng.uniform(-1, 1, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.uniform(-1, 1, shape)
    if not dtype.is_float:
        values = rng.integers(0, 2, shape)
    return values + 3 * np.eye(shape[-2], shape[-1])


def _solves(row: Row) -> Iterator[Case]:
    pairs = (((4, 4), (4, 2)), ((4, 4), (4,)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 1)), ((13, 13), (13, 5)))
    empty = (((0, 0), (0, 2)), ((3, 3), (3, 0)), ((0, 3, 3), (3, 2)))
    for upper in (False, True) if row.name == "solve_triangular" else (None,):
        part = {None: lambda a: a, False: np.tril, True: np.triu}[upper]

        def call(a: mx.array, b: mx.array, upper: bool | None = upper) -> mx.array:
            if upper is None:
                return mx.linalg.solve(a, b)
            return mx.linalg.solve_triangular(a, b, upper=upper)

        for a, b in pairs + empty:
            nothing = 0 in (*a, *b)
            yield Case(
                f"{'' if upper is None else 'upper ' if upper else 'lower '}{a} {b}",
                (a, b),
                call,
                _in_double(lambda a, b, part=part: np.linalg.solve(part(a), b)),
                draw=[_dominant if row.name == "solve_triangular" else draw_conditioned(), None],
                scale=lambda a, b: np.sqrt(np.sum(np.abs(b) ** 2)) + 1,
                differentiable=not nothing and max(a) < 10,
                double_slack=row.tolerance,
                layouts=ONE if nothing else LAYOUTS,
            )
    zeros = lambda rng, dtype, shape: np.zeros(shape)  # noqa: E731
    call = getattr(mx.linalg, row.name)
    yield Case("singular", ((3, 3), (3, 1)), call, layouts=ONE, dtypes="fc", draw=zeros, raises=ValueError)


# ---- determinants -------------------------------------------------------------------------------


def _determinants(row: Row) -> Iterator[Case]:
    draw = draw_conditioned()
    if row.name == "det":
        size = lambda a: np.abs(np.linalg.det(a)) * a.shape[-1]  # noqa: E731
        yield from _matrices(row, "det", mx.linalg.det, np.linalg.det, SQUARE + EMPTY, draw, scale=_in_double(size))
        yield from _matrices(
            row, "det singular", mx.linalg.det, lambda a: np.zeros(a.shape[:-2]), ((3, 3), (2, 2)), _rank_one,
            scale=lambda a: _sized(a)[..., 0, 0] ** 3,
        )  # fmt: skip
        return
    yield from _matrices(
        row, "log", lambda a: mx.linalg.slogdet(a)[1], lambda a: np.linalg.slogdet(a)[1], SQUARE + EMPTY, draw,
        scale=lambda a: np.ones(a.shape[:-2]) * (a.shape[-1] + 1), real=True,
    )  # fmt: skip
    yield from _matrices(
        row, "sign", lambda a: mx.linalg.slogdet(a)[0], lambda a: np.linalg.slogdet(a)[0], SQUARE + EMPTY, draw,
        scale=lambda a: np.ones(a.shape[:-2]) * (a.shape[-1] + 1),
    )  # fmt: skip


def _rank_one(rng: np.random.Generator, dtype: Dtype, shape: Shape) -> np.ndarray:
    return np.outer(np.arange(1, shape[0] + 1), np.arange(2, shape[1] + 2))


def _cofactors(row: Row) -> Iterator[Case]:
    shapes = ((4, 4), (2, 3, 3), (1, 1))
    yield from _matrices(
        row, "regular", _cofactors_by_grad, _minors, shapes, draw_conditioned(), scale=lambda a: _sized(a) ** 3
    )
    yield from _matrices(
        row, "singular", _cofactors_by_grad, _minors, ((2, 2), (3, 3)), _rank_one, dtypes="fc",
        scale=lambda a: _sized(a) ** 2,
    )  # fmt: skip


def _cofactors_by_grad(a: mx.array) -> mx.array:
    """The gradient of the determinant, conjugated."""
    ones = mx.ones(a.shape[:-2], dtype=mx.linalg.det(a).dtype)
    floats = a if mx.issubdtype(a.dtype, mx.inexact) else a.astype(mx.float32)
    return mx.vjp(lambda x: [mx.linalg.det(x)], [floats], [ones])[1][0].conj()


def _minors(a: np.ndarray) -> np.ndarray:
    n = a.shape[-1]
    out = np.empty_like(a)
    for i in range(n):
        for j in range(n):
            minor = np.delete(np.delete(a, i, -2), j, -1)
            out[..., i, j] = (-1) ** (i + j) * np.linalg.det(minor)
    return out


# ---- eigenvalues and singular values ------------------------------------------------------------


def _hermitian_eigen(row: Row) -> Iterator[Case]:
    draw = draw_conditioned(hermitian=True)
    size = lambda a: _sized(a)[..., 0]  # noqa: E731
    for triangle in ("L", "U"):
        if row.name == "eigvalsh":
            yield from _matrices(
                row, triangle, lambda a, t=triangle: mx.linalg.eigvalsh(_hermitian(a), t), np.linalg.eigvalsh,
                SQUARE + EMPTY, draw, real=True, scale=size,
            )  # fmt: skip
            continue

        def values(a: mx.array, t: str = triangle) -> mx.array:
            return mx.linalg.eigh(_hermitian(a), t)[0]

        def squared(a: mx.array, t: str = triangle) -> mx.array:
            w, v = mx.linalg.eigh(_hermitian(a), t)
            return (v * (w * w)[..., None, :]) @ adjoint(v)

        yield from _matrices(row, f"values {triangle}", values, np.linalg.eigvalsh, SQUARE, draw, real=True, scale=size)
        yield from _matrices(
            row, f"square {triangle}", squared, lambda a: a @ a, SQUARE + EMPTY, draw, scale=lambda a: _sized(a) ** 2
        )


def _general_eigen(row: Row) -> Iterator[Case]:
    result = lambda dtype: DTYPES["complex128" if dtype.name in ("float64", "complex128") else "complex64"]  # noqa: E731
    rest: dict[str, Any] = dict(result=result)
    dominant, symmetric = _dominant, draw_conditioned(hermitian=True)

    def draw(rng: np.random.Generator, dtype: Dtype, shape: Shape) -> np.ndarray:
        # Integers often lack a full set of vectors.
        return (dominant if dtype.is_float else symmetric)(rng, dtype, shape)

    if row.name == "eigvals":
        call = lambda a: mx.stack([(mx.linalg.eigvals(a) ** k).sum(-1) for k in (1, 2, 3)])  # noqa: E731
        powers = lambda a: np.stack(  # noqa: E731
            [np.trace(np.linalg.matrix_power(a, k), axis1=-2, axis2=-1) for k in (1, 2, 3)]
        )
        yield from _matrices(
            row, "power sums", call, powers, SQUARE, draw, scale=lambda a: np.max(_sized(a)) ** 3, **rest
        )
        return

    def squared(a: mx.array) -> mx.array:
        w, v = mx.linalg.eig(a)
        return mx.linalg.solve(v.mT, ((w * w)[..., None, :] * v).mT).mT

    yield from _matrices(row, "square", squared, lambda a: a @ a, SQUARE, draw, scale=lambda a: _sized(a) ** 3, **rest)
    yield from _matrices(
        row, "lengths", lambda a: (mx.linalg.eig(a)[1] * mx.linalg.eig(a)[1].conj()).sum(-2),
        lambda a: np.ones(a.shape[:-1]), SQUARE, draw, **rest,
    )  # fmt: skip


def _singular(row: Row) -> Iterator[Case]:
    draw = draw_conditioned()
    size = lambda a: _sized(a)[..., 0]  # noqa: E731
    values = lambda a: np.linalg.svd(a, compute_uv=False)  # noqa: E731
    if row.name == "svdvals":
        yield from _matrices(row, "values", mx.linalg.svdvals, values, OBLONG + EMPTY, draw, real=True, scale=size)
        return
    yield from _matrices(
        row, "values", lambda a: mx.linalg.svd(a).S, values, OBLONG + EMPTY, draw, real=True, scale=size
    )
    for full in (False, True):

        def product(a: mx.array, full: bool = full) -> mx.array:
            u, s, vh = mx.linalg.svd(a, full_matrices=full)
            k = s.shape[-1]
            return (u[..., :k] * (s * s * s)[..., None, :]) @ vh[..., :k, :]

        def projector(a: mx.array, full: bool = full) -> mx.array:
            u, _, vh = mx.linalg.svd(a, full_matrices=full)
            k = min(a.shape[-2:])
            rows = u[..., k:] if full else u
            return rows @ adjoint(rows) if a.shape[-2] > a.shape[-1] else adjoint(vh[..., k:, :]) @ vh[..., k:, :]

        name = "full" if full else "thin"
        yield from _matrices(
            row, f"{name} cube", product, lambda a: a @ adjoint(a) @ a, OBLONG + EMPTY, draw,
            scale=lambda a: _sized(a) ** 3,
        )  # fmt: skip
        if full:
            yield from _matrices(
                row, "full rest", projector, lambda a: _beyond(a if a.shape[-2] > a.shape[-1] else adjoint(a)),
                ((5, 3), (3, 5), (2, 4, 3)), draw, scale=_sized,
            )  # fmt: skip


def _pinv(row: Row) -> Iterator[Case]:
    yield from _matrices(
        row, "pinv", mx.linalg.pinv, np.linalg.pinv, OBLONG + EMPTY, draw_conditioned(),
        scale=lambda a: np.swapaxes(_sized(a), -1, -2),
    )  # fmt: skip


BUILDERS: dict[str, Callable[[Row], Iterator[Case]]] = {
    "cholesky": _cholesky,
    "qr": _qr,
    "lu_factor": _lu_factor,
    "inverse": _inverses,
    "tri_inverse": _inverses,
    "solve": _solves,
    "solve_triangular": _solves,
    "det": _determinants,
    "slogdet": _determinants,
    "cofactor": _cofactors,
    "eigh": _hermitian_eigen,
    "eigvalsh": _hermitian_eigen,
    "eig": _general_eigen,
    "eigvals": _general_eigen,
    "svd": _singular,
    "svdvals": _singular,
    "pinv": _pinv,
}
