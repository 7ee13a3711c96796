"""Cases of the Fourier transforms, beside NumPy's in double or, for double, sums in extended precision.

An error is measured beside the root of the sum of the squares that go into it: that is what a transform rounds at.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import mlxc as mx

from .cases import Case, Shape
from .dtypes import DTYPES, Dtype
from .layouts import CONTIGUOUS, STRIDED
from .table import Row


def build(row: Row) -> Iterator[Case]:
    yield from {"fft": _complex, "rfft": _forward, "irfft": _inverse}[row.name]()


def transform_axis(a: np.ndarray, axis: int, inverse: bool) -> np.ndarray:
    """The definition, in the precision of the input; angles are reduced in whole numbers."""
    n = a.shape[axis]
    wide = np.result_type(a.dtype, np.complex128)
    turns = np.arange(n)[:, None] * np.arange(n) % n
    pi = np.longdouble("3.14159265358979323846264338327950288")
    angle = (2 * pi / n * turns).astype(np.longdouble if wide == np.clongdouble else np.float64)
    matrix = np.cos(angle) + (1j if inverse else -1j) * np.sin(angle)
    return np.moveaxis(np.tensordot(matrix.astype(wide), a.astype(wide), (1, axis)), 0, axis)


def transform(a: np.ndarray, axes: Sequence[int], inverse: bool) -> np.ndarray:
    for axis in axes:
        a = transform_axis(a, axis, inverse)
    return a


def fill_spectrum(a: np.ndarray, axis: int, n: int) -> np.ndarray:
    """The whole spectrum of real numbers from its half, of which the ends count as real."""
    a = np.moveaxis(a, axis, -1)
    whole = np.zeros((*a.shape[:-1], n), a.dtype)
    whole[..., : n // 2 + 1] = a
    whole[..., 0] = a[..., 0].real
    if n % 2 == 0:
        whole[..., n // 2] = a[..., n // 2].real
    for k in range(1, (n + 1) // 2):
        whole[..., n - k] = np.conj(a[..., k])
    return np.moveaxis(whole, -1, axis)


def _spectrum_dtype(dtype: Dtype) -> Dtype:
    return DTYPES["complex128" if dtype.name in ("float64", "complex128") else "complex64"]


def _real_dtype(dtype: Dtype) -> Dtype:
    return DTYPES["float64" if dtype.name in ("float64", "complex128") else "float32"]


def _rounding(axes: Sequence[int]):
    """The magnitude that a transform over the axes rounds at."""

    def scale(a: np.ndarray) -> np.ndarray:
        total = np.sqrt(np.sum(np.abs(a.astype(np.complex128)) ** 2, axis=tuple(axes), keepdims=True))
        count = math.prod(a.shape[axis] for axis in axes)
        return total * max(1.0, math.log2(count) ** 0.5)

    return scale


SHAPES: list[tuple[str, Shape, Shape]] = [
    ("one", (3, 1), (1,)),
    ("even", (3, 4, 6), (2,)),
    ("odd", (3, 4, 9), (2,)),
    ("first axis", (8, 3, 5), (0,)),
    ("middle axis", (3, 15, 5), (1,)),
    ("prime", (3, 13), (1,)),
    ("large prime", (2, 127), (1,)),
    ("two axes", (3, 4, 6), (1, 2)),
    ("axes in another order", (3, 4, 6), (2, 0)),
    ("three axes", (3, 4, 5), (0, 1, 2)),
    ("long", (2, 480), (1,)),
    ("no lines", (0, 5), (1,)),
]


def _complex() -> Iterator[Case]:
    for inverse in (False, True):
        name = "ifftn" if inverse else "fftn"
        call = mx.fft.ifftn if inverse else mx.fft.fftn
        for label, shape, axes in SHAPES:
            rounding = _rounding(axes)
            yield Case(
                f"{name} {label}",
                (shape,),
                lambda a, call=call, axes=axes: call(a, axes=axes, norm="forward" if call is mx.fft.ifftn else None),
                lambda a, axes=axes, inverse=inverse: transform(a, axes, inverse),
                layouts=STRIDED if label == "two axes" else (CONTIGUOUS,),
                scale=rounding,
                result=_spectrum_dtype,
                differentiable=label in ("odd", "two axes", "prime"),
            )
    yield _refused("no points", mx.fft.fft, (3, 0))
    yield _refused("an axis twice", lambda a: mx.fft.fftn(a, axes=(0, 0)), (3, 4))
    yield _refused("no such axis", lambda a: mx.fft.fft(a, axis=2), (3, 4))


def _forward() -> Iterator[Case]:
    for label, shape, axes in SHAPES:
        half = shape[axes[-1]] // 2 + 1
        rounding = _rounding(axes)
        yield Case(
            label,
            (shape,),
            lambda a, axes=axes: mx.fft.rfftn(a, axes=axes),
            lambda a, axes=axes, half=half: transform(a, axes, False).take(range(half), axes[-1]),
            layouts=STRIDED if label == "two axes" else (CONTIGUOUS,),
            scale=rounding,
            result=_spectrum_dtype,
            differentiable=label in ("even", "odd", "two axes", "axes in another order"),
        )
    yield _refused("no points", mx.fft.rfft, (3, 0))


def _inverse() -> Iterator[Case]:
    for label, shape, axes in SHAPES:
        n = shape[axes[-1]]
        sizes = [shape[axis] for axis in axes]
        given = list(shape)
        given[axes[-1]] = n // 2 + 1
        rounding = _rounding(axes)

        def reference(a: np.ndarray, axes: Sequence[int] = axes, n: int = n) -> np.ndarray:
            others = transform(a.astype(np.result_type(a.dtype, np.complex128)), axes[:-1], True)
            return transform_axis(fill_spectrum(others, axes[-1], n), axes[-1], True).real

        yield Case(
            label,
            (tuple(given),),
            lambda a, axes=axes, sizes=sizes: mx.fft.irfftn(a, sizes, axes, norm="forward"),
            reference,
            layouts=STRIDED if label == "two axes" else (CONTIGUOUS,),
            scale=lambda a, rounding=rounding: 2 * rounding(a),
            result=_real_dtype,
            differentiable=label in ("even", "odd", "two axes", "axes in another order"),
        )
    yield _refused("no points", lambda a: mx.fft.irfft(a, 0), (3, 4))


def _refused(label: str, call: Any, shape: Shape) -> Case:
    return Case(label, (shape,), call, layouts=(CONTIGUOUS,), dtypes=("float32",), raises=ValueError)
