"""Cases of ops that run in the core: what carries functions, and the order of computation."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import numpy as np

import mlxc as mx

from .cases import Case
from .table import Row


def build(row: Row) -> Iterator[Case]:
    yield from BUILDERS[row.name]()


def _depends() -> Iterator[Case]:
    for label, shape in {"5x6x7": (5, 6, 7), "empty": (3, 0), "0-d": ()}.items():
        yield Case(
            label,
            (shape, (3,)),
            mx.depends,
            lambda a, b: a,
            differentiable=label == "5x6x7",
        )
    yield Case("of two", ((4, 5), (4, 5)), lambda a, b: mx.depends([a, b], [a])[1], lambda a, b: b)


def _call_program() -> Iterator[Case]:
    def whole(a: mx.array, b: mx.array) -> tuple[mx.array, ...]:
        first = mx.concatenate([b, a]).T
        return first, mx.maximum(a, b)[1:], a

    yield Case(
        "of three",
        ((4, 5), (4, 5)),
        mx.compile(whole),
        lambda a, b: (np.concatenate([b, a]).T, np.maximum(a, b)[1:], a),
        result=lambda dtype: dtype,
        dtypes="bif",
    )
    for label, shape in {"6x7": (6, 7), "empty": (3, 0), "0-d": ()}.items():
        yield Case(label, (shape,), mx.compile(lambda a: a), lambda a: a, result=lambda dtype: dtype)
        yield Case(f"abs {label}", (shape,), mx.compile(mx.abs), np.abs, result=lambda dtype: dtype, dtypes="bf")


def _user_kernel() -> Iterator[Case]:
    """Without a C++ compiler there is nothing to judge."""
    if not any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++")):
        return
    kernel = mx.fast.kernel(
        "add_rows",
        ["a", "row"],
        ["out"],
        cpu="const int64_t i = thread_position_in_grid.x; out[i] = a[i] + row[i % row_shape[0]];",
    )

    def call(a: mx.array, row: mx.array) -> mx.array:
        grid = (max(a.size, 1), 1, 1)
        return kernel(inputs=[a, row], output_shapes=[a.shape], output_dtypes=[a.dtype], grid=grid)[0]

    dtypes = ("int8", "float16", "bfloat16", "float32", "complex128")
    yield Case("6x7", ((6, 7), (7,)), call, lambda a, b: a + b, result=lambda dtype: dtype, dtypes=dtypes)


def _custom() -> Iterator[Case]:
    @mx.custom_function
    def product(a: mx.array, b: mx.array) -> mx.array:
        return a * b

    product.vjp(lambda primals, cotangent, output: (cotangent * primals[1], cotangent * primals[0]))
    product.jvp(
        lambda primals, tangents: sum(
            (t * primals[1 - i] for i, t in enumerate(tangents) if t is not None), mx.zeros((4, 5), primals[0].dtype)
        )
    )
    yield Case("product", ((4, 5), (4, 5)), product, lambda a, b: a * b, dtypes="f", differentiable=True)


def _checkpoint() -> Iterator[Case]:
    double = mx.checkpoint(lambda a: mx.square(a) * 2)
    yield Case("twice the square", ((4, 5),), double, lambda a: a * a * 2, dtypes="f", differentiable=True)


def _cond() -> Iterator[Case]:
    def call(a: mx.array, b: mx.array) -> mx.array:
        return mx.cond((a.real > 0).sum() > 8, lambda a, b: a * b, lambda a, b: b * 2, a, b)

    def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return a * b if np.sum(np.real(a) > 0) > 8 else b * 2

    yield Case("chosen", ((4, 5), (4, 5)), call, reference, result=lambda dtype: dtype, dtypes="f", differentiable=True)


def _while_loop() -> Iterator[Case]:
    def call(a: mx.array) -> mx.array:
        return mx.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, a))[1]

    for label, shape in {"4x5": (4, 5), "empty": (3, 0), "0-d": ()}.items():
        first = label == "4x5"
        yield Case(label, (shape,), call, lambda a: a * 8, result=lambda d: d, dtypes="f", differentiable=first)


def _scan_loop() -> Iterator[Case]:
    def call(a: mx.array, b: mx.array) -> tuple[mx.array, mx.array]:
        return mx.scan(lambda carry, x: (mx.maximum(carry, x), carry * 2), a, b)

    def reference(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        before = np.maximum.accumulate(np.concatenate([a[None], b]))
        return before[-1], before[:-1] * 2

    for label, shape in {"4x5": (4, 5), "empty": (3, 0), "vector": (7,)}.items():
        yield Case(
            label,
            (shape[1:], shape),
            call,
            reference,
            result=lambda dtype: dtype,
            dtypes="f",
            differentiable=label == "4x5",
        )


BUILDERS = {
    "depends": _depends,
    "call_program": _call_program,
    "user_kernel": _user_kernel,
    "custom": _custom,
    "checkpoint": _checkpoint,
    "cond": _cond,
    "while_loop": _while_loop,
    "scan": _scan_loop,
}
