"""Cases of matrices picked by index, of cut inner axes, and of Hadamard matrices.

Errors of products are measured beside the sum of the products' magnitudes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import mlxc as mx

from .cases import Case, Shape
from .layouts import CONTIGUOUS
from .table import Row

ONE = (CONTIGUOUS,)


def build(row: Row) -> Iterator[Case]:
    yield from BUILDERS[row.name]()


def _gather_mm() -> Iterator[Case]:
    def make(label: str, a: Shape, b: Shape, lhs: Any, rhs: Any, **rest: Any) -> Case:
        def pick(x: np.ndarray, indices: Any) -> np.ndarray:
            return x if indices is None else x.reshape(-1, *x.shape[-2:])[np.asarray(indices)]

        def call(x: mx.array, y: mx.array) -> mx.array:
            left, right = (None if i is None else mx.array(i) for i in (lhs, rhs))
            return mx.gather_mm(x, y, left, right)

        def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return np.matmul(pick(x, lhs), pick(y, rhs))

        def scale(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return reference(np.abs(x), np.abs(y))

        return Case(label, (a, b), call, reference, scale=scale, accumulates=True, **rest)

    yield make("right", (4, 2, 5), (3, 5, 6), None, [2, 0, 1, 2], differentiable=True)
    yield make("left", (2, 2, 5), (3, 5, 6), [1, 0, 1], None, differentiable=True)
    yield make("both, broadcast", (2, 2, 3, 5), (3, 5, 6), [[3], [0]], [0, 0, 2], differentiable=True)
    yield make("from the end", (2, 2, 5), (3, 5, 6), [-1, 0], [-3, -1], differentiable=True)
    yield make("sorted", (9, 1, 5), (3, 5, 6), None, [0, 0, 0, 0, 1, 1, 2, 2, 2], differentiable=True)
    yield make("one matrix", (4, 2, 5), (5, 6), [3, 1], None, differentiable=True)
    yield make("no indices", (3, 2, 5), (3, 5, 6), None, None)
    yield make("no products", (4, 2, 5), (3, 5, 6), np.zeros(0, np.int32), np.zeros(0, np.int32), layouts=ONE)
    yield make("nothing to sum", (4, 2, 0), (4, 0, 6), None, None, layouts=ONE)
    yield make("prime", (5, 7, 13), (3, 13, 11), None, [2, 2, 0, 1, 1])
    bad = {"dtypes": ("float32",), "layouts": ONE}
    beyond = lambda x, y: mx.gather_mm(x, y, None, mx.array([0, 3]))  # noqa: E731
    yield Case("index out of range", ((2, 2, 5), (3, 5, 6)), beyond, raises=IndexError, **bad)
    before = lambda x, y: mx.gather_mm(x, y, mx.array([-3]), mx.array([0]))  # noqa: E731
    yield Case("index before the start", ((2, 2, 5), (3, 5, 6)), before, raises=IndexError, **bad)
    real = lambda x, y: mx.gather_mm(x, y, mx.array([1.0]), None)  # noqa: E731
    yield Case("indices of floats", ((2, 2, 5), (3, 5, 6)), real, raises=TypeError, **bad)
    yield Case("inner sizes differ", ((2, 2, 5), (2, 4, 6)), mx.gather_mm, raises=ValueError, **bad)


def _segmented_mm() -> Iterator[Case]:
    def make(label: str, a: Shape, b: Shape, segments: Any, **rest: Any) -> Case:
        bounds = np.asarray(segments, np.int32)

        def reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            each = [np.matmul(x[:, i:j], y[i:j]) for i, j in bounds.reshape(-1, 2)]
            return np.reshape(each, (*bounds.shape[:-1], x.shape[0], y.shape[1])).astype(x.dtype)

        def scale(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return reference(np.abs(x), np.abs(y))

        call = lambda x, y: mx.segmented_mm(x, y, mx.array(bounds))  # noqa: E731
        return Case(label, (a, b), call, reference, scale=scale, accumulates=True, **rest)

    yield make("parts", (4, 7), (7, 5), [[0, 3], [3, 5], [5, 7]], differentiable=True)
    yield make("overlap and gaps", (4, 7), (7, 5), [[[0, 3], [2, 5]], [[6, 7], [1, 1]]], differentiable=True)
    yield make("one pair", (4, 7), (7, 5), [2, 6], differentiable=True)
    yield make("no segments", (4, 7), (7, 5), np.zeros((0, 2)), layouts=ONE)
    yield make("prime", (13, 101), (101, 11), [[0, 50], [50, 101]])
    bad = {"dtypes": ("float32",), "layouts": ONE}
    beyond = lambda x, y: mx.segmented_mm(x, y, mx.array([[0, 8]]))  # noqa: E731
    yield Case("segment too long", ((4, 7), (7, 5)), beyond, raises=IndexError, **bad)
    triple = lambda x, y: mx.segmented_mm(x, y, mx.array([[0, 1, 2]]))  # noqa: E731
    yield Case("segments no pairs", ((4, 7), (7, 5)), triple, raises=ValueError, **bad)


def hadamard(n: int) -> np.ndarray:
    """The matrix of size n, by the transform of the identity: only its properties are known here."""
    return np.array(mx.hadamard_transform(mx.eye(n, dtype=mx.float64), 1.0)).T


def _hadamard() -> Iterator[Case]:
    def make(shape: Shape, scale: float | None = None, **rest: Any) -> Case:
        n = shape[-1] if shape else 1
        factor = 1 / np.sqrt(n) if scale is None else scale
        small = n // (n & -n)
        small = 1 if small == 1 else 4 * small

        def reference(x: np.ndarray) -> np.ndarray:
            matrix = hadamard(small) if small > 1 else np.ones((1, 1))
            while len(matrix) < n:
                matrix = np.kron(matrix, [[1, 1], [1, -1]])
            return (np.atleast_1d(x) @ matrix.T.astype(x.dtype)).reshape(shape) * factor

        def size(x: np.ndarray) -> np.ndarray:
            return np.broadcast_to(np.abs(x).sum(-1, keepdims=bool(shape)) * abs(factor), shape)

        call = lambda x: mx.hadamard_transform(x, scale)  # noqa: E731
        return Case(str(shape), (shape,), call, reference, scale=size, domain=(-4, 4), **rest)

    for n in (1, 2, 8, 12, 20, 28, 40):
        yield make((3, n), differentiable=True)
    yield make((2, 3, 64), 0.5, differentiable=True)
    yield make((56,), -2.0)
    yield make(())
    yield make((2, 4096), layouts=ONE, dtypes="f")
    bad = {"dtypes": ("float32",), "layouts": ONE, "raises": ValueError}
    for n in (0, 3, 6, 7, 24 * 3):
        yield Case(f"size {n}", ((2, n),), mx.hadamard_transform, **bad)


BUILDERS = {"gather_mm": _gather_mm, "segmented_mm": _segmented_mm, "hadamard_transform": _hadamard}
