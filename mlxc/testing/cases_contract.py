"""Cases of matmul and convolution: sums of products.

Errors are measured beside the sum of the products' magnitudes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

import mlxc as mx

from .cases import Case, Shape
from .layouts import CONTIGUOUS
from .table import Row

ONE = (CONTIGUOUS,)


def build(row: Row) -> Iterator[Case]:
    yield from _matmuls() if row.name == "matmul" else _convolutions()


def _matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "b":
        return np.matmul(a.astype(np.int64), b.astype(np.int64)) > 0
    return np.matmul(a, b)


def _matmuls() -> Iterator[Case]:
    def make(label: str, a: Shape, b: Shape, **rest: Any) -> Case:
        def scale(x: np.ndarray, y: np.ndarray) -> np.ndarray:
            return np.matmul(np.abs(x), np.abs(y))

        return Case(label, (a, b), mx.matmul, _matmul, scale=scale, accumulates=True, **rest)

    yield make("matrices", (4, 5), (5, 6), differentiable=True)
    yield make("vectors", (5,), (5,), differentiable=True)
    yield make("matrix, vector", (4, 5), (5,), differentiable=True)
    yield make("vector, matrix", (5,), (5, 6), differentiable=True)
    yield make("batch", (3, 4, 5), (3, 5, 6), differentiable=True)
    yield make("batch, matrix", (3, 4, 5), (5, 6), differentiable=True)
    yield make("batches that broadcast", (2, 1, 4, 5), (3, 5, 6), differentiable=True)
    yield make("prime", (13, 31), (31, 17))
    yield make("row, column", (1, 129), (129, 1))
    yield make("column, row", (31, 1), (1, 17))
    yield make("long sum", (3, 2049), (2049, 2), layouts=ONE, dtypes="fc")
    yield make("no inner", (3, 0), (0, 4), layouts=ONE)
    yield make("no rows", (0, 5), (5, 6), layouts=ONE)
    yield make("no batch", (0, 4, 5), (5, 6), layouts=ONE)
    # Extended precision has no fast product: the large case leaves float64 out.
    large = ("float32", "float16", "bfloat16", "complex64")
    yield make("large", (257, 129), (129, 131), dtypes=large)
    yield Case("inner sizes differ", ((3, 4), (5, 6)), mx.matmul, layouts=ONE, dtypes=("float32",), raises=ValueError)
    yield Case("0-d", ((), (5, 6)), mx.matmul, layouts=ONE, dtypes=("float32",), raises=ValueError)


def convolve(
    x: np.ndarray,
    w: np.ndarray,
    *,
    stride: Shape,
    low: Shape,
    high: Shape,
    kernel_dilation: Shape,
    input_dilation: Shape,
    groups: int,
    flip: bool,
) -> np.ndarray:
    """Correlation (convolution if flip) of x (N, ..., C) with w (O, ..., C / groups), channels last."""
    axes = range(len(stride))
    if flip:
        w = np.flip(w, [1 + i for i in axes])
    spread = [(n - 1) * d + 1 for n, d in zip(x.shape[1:-1], input_dilation, strict=True)]
    padded = np.zeros(
        [x.shape[0], *(n + lo + hi for n, lo, hi in zip(spread, low, high, strict=True)), x.shape[-1]], x.dtype
    )
    inner = tuple(slice(lo, lo + n, d) for lo, n, d in zip(low, spread, input_dilation, strict=True))
    padded[(slice(None), *inner)] = x
    kernel = w.shape[1:-1]
    sizes = [(padded.shape[1 + i] - (kernel[i] - 1) * kernel_dilation[i] - 1) // stride[i] + 1 for i in axes]
    per_in, per_out = x.shape[-1] // groups, w.shape[0] // groups
    result = np.zeros([x.shape[0], *sizes, w.shape[0]], x.dtype)
    for place in itertools.product(*map(range, kernel)):
        starts = [place[i] * kernel_dilation[i] for i in axes]
        window = tuple(slice(starts[i], starts[i] + (sizes[i] - 1) * stride[i] + 1, stride[i]) for i in axes)
        seen = padded[(slice(None), *window)]
        for g in range(groups):
            inputs = slice(g * per_in, (g + 1) * per_in)
            outputs = slice(g * per_out, (g + 1) * per_out)
            result[..., outputs] += seen[..., inputs] @ w[(outputs, *place)].T
    return result


def _convolutions() -> Iterator[Case]:
    def make(
        label: str,
        x: Shape,
        w: Shape,
        *,
        stride: Shape | None = None,
        low: Shape | None = None,
        high: Shape | None = None,
        kernel_dilation: Shape | None = None,
        input_dilation: Shape | None = None,
        groups: int = 1,
        flip: bool = False,
        **rest: Any,
    ) -> Case:
        n = len(x) - 2
        stride = stride or (1,) * n
        low = low or (0,) * n
        high = high or low
        kernel_dilation = kernel_dilation or (1,) * n
        input_dilation = input_dilation or (1,) * n

        def call(a: mx.array, b: mx.array) -> mx.array:
            return mx.conv_general(
                a,
                b,
                stride=stride,
                padding=(low, high),
                kernel_dilation=kernel_dilation,
                input_dilation=input_dilation,
                groups=groups,
                flip=flip,
            )

        def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
            return convolve(
                a,
                b,
                stride=stride,
                low=low,
                high=high,
                kernel_dilation=kernel_dilation,
                input_dilation=input_dilation,
                groups=groups,
                flip=flip,
            )

        scale = lambda a, b: reference(np.abs(a), np.abs(b))  # noqa: E731
        return Case(label, (x, w), call, reference, scale=scale, accumulates=True, **rest)

    yield make("1-d", (2, 9, 3), (4, 3, 3), differentiable=True)
    yield make("2-d", (2, 7, 8, 3), (4, 3, 2, 3), differentiable=True)
    yield make("3-d", (1, 4, 5, 6, 2), (3, 2, 3, 2, 2), differentiable=True)
    yield make("stride", (2, 7, 8, 3), (4, 3, 2, 3), stride=(2, 3), differentiable=True)
    yield make("padding", (2, 7, 8, 3), (4, 3, 3, 3), low=(1, 2), differentiable=True)
    yield make("uneven padding", (2, 7, 8, 3), (4, 3, 3, 3), low=(0, 2), high=(3, 1), differentiable=True)
    yield make("kernel dilation", (1, 9, 8, 2), (3, 3, 2, 2), kernel_dilation=(2, 3), differentiable=True)
    yield make("input dilation", (1, 5, 4, 2), (3, 3, 2, 2), input_dilation=(2, 3), low=(1, 1), differentiable=True)
    yield make("groups", (2, 6, 7, 6), (4, 3, 3, 3), groups=2, differentiable=True)
    yield make("depthwise", (2, 6, 7, 5), (5, 3, 3, 1), groups=5, low=(1, 1), differentiable=True)
    yield make("flip", (2, 9, 3), (4, 3, 3), flip=True, differentiable=True)
    yield make("1x1", (2, 5, 4, 3), (6, 1, 1, 3), layouts=ONE, differentiable=True)
    yield make(
        "everything",
        (2, 7, 6, 4),
        (6, 3, 2, 2),
        stride=(2, 1),
        low=(2, 1),
        high=(1, 3),
        kernel_dilation=(1, 2),
        input_dilation=(2, 1),
        groups=2,
        flip=True,
        differentiable=True,
    )
    yield make("large", (4, 33, 31, 16), (24, 3, 3, 16), low=(1, 1), layouts=ONE, dtypes=("float32", "bfloat16"))
    yield make("no batch", (0, 9, 3), (4, 3, 3), layouts=ONE)
    bad = dict(layouts=ONE, dtypes=("float32",), raises=ValueError)
    yield Case("channels differ", ((2, 9, 3), (4, 3, 2)), mx.conv_general, **bad)
    yield Case("groups do not divide", ((2, 9, 4), (4, 3, 4)), lambda a, b: mx.conv_general(a, b, groups=3), **bad)
    yield Case("kernel larger than input", ((2, 2, 3), (4, 3, 3)), mx.conv_general, **bad)
