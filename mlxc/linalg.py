"""Linear algebra: mlxc.linalg. This version has norms of vectors and matrices, and the cross product.

Names of the module that are missing need factorisations, which are ops of their own.
"""

from __future__ import annotations

import math

from . import _ops_create, _ops_elementwise, _ops_join, _ops_plain, _ops_reduce
from ._array import Array
from ._dtype import bfloat16, float16, float32, inexact
from ._promotion import issubdtype

__all__ = ["cross", "norm"]


def _root(total, power, stream):
    """total ** (1 / power) with gradient 0, not NaN, where the total is 0."""
    zero = _ops_plain.equal(total, 0, stream=stream)
    safe = _ops_elementwise.where(zero, 1, total, stream=stream)
    root = _ops_plain.sqrt(safe, stream=stream) if power == 2 else _ops_plain.power(safe, 1 / power, stream=stream)
    return _ops_elementwise.where(zero, 0, root, stream=stream)


def _vector_norm(a, order, axis, keepdims, stream):
    size = _ops_plain.abs(a, stream=stream)
    if order == math.inf:
        return _ops_reduce.max(size, axis, keepdims, stream=stream)
    if order == -math.inf:
        return _ops_reduce.min(size, axis, keepdims, stream=stream)
    if order == 0:
        nonzero = _ops_elementwise.astype(_ops_plain.not_equal(size, 0, stream=stream), size.dtype, stream=stream)
        return _ops_reduce.sum(nonzero, axis, keepdims, stream=stream)
    if order == 1:
        return _ops_reduce.sum(size, axis, keepdims, stream=stream)
    if order == 2:
        # Of complex numbers the parts are squared: the modulus has no derivative at 0.
        squares = _ops_plain.square(_ops_plain.real(a, stream=stream), stream=stream)
        if a.dtype != size.dtype:
            other = _ops_plain.square(_ops_plain.imag(a, stream=stream), stream=stream)
            squares = _ops_plain.add(squares, other, stream=stream)
        return _root(_ops_reduce.sum(squares, axis, keepdims, stream=stream), 2, stream)
    powers = _ops_plain.power(size, float(order), stream=stream)
    return _root(_ops_reduce.sum(powers, axis, keepdims, stream=stream), float(order), stream)


def _matrix_norm(a, order, axes, keepdims, stream):
    if order in ("fro", "f"):
        return _vector_norm(a, 2, axes, keepdims, stream)
    if order in (1, -1, math.inf, -math.inf):
        summed, kept = axes if abs(order) == 1 else axes[::-1]
        sums = _ops_reduce.sum(_ops_plain.abs(a, stream=stream), summed, True, stream=stream)
        pick = _ops_reduce.max if order > 0 else _ops_reduce.min
        out = pick(sums, kept, True, stream=stream)
        return out if keepdims else out.squeeze(axes, stream=stream)
    if order in (2, -2, "nuc"):
        raise ValueError(f"[linalg.norm] the matrix norm {order!r} needs singular values, which this version lacks")
    raise ValueError(f"[linalg.norm] there is no matrix norm {order!r}")


def norm(
    a: Array,
    /,
    ord: int | float | str | None = None,
    axis: int | list[int] | tuple[int, ...] | None = None,
    keepdims: bool = False,
    *,
    stream=None,
) -> Array:
    """Norm of vectors or matrices. The gradient of the 2-norm at zero is zero.

    Args:
        a: array of any dtype; integers are taken as float32.
        ord: None for the 2-norm of all elements over the axes. For vectors any number p, inf, -inf, or 0 (how many
            are nonzero); for matrices "fro", 1, -1, inf or -inf (greatest or least sum of columns or rows).
        axis: an axis for vectors, two for matrices; None takes the whole array.
        keepdims: whether the axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the real dtype that belongs to that of `a`.

    Raises:
        ValueError: for an unknown norm, more than two axes with `ord` given, or an axis out of range.

    Example:
        >>> mx.linalg.norm(mx.array([3.0, 4.0]))
        array(5, dtype=float32)
    """
    given = a.dtype
    # Squares of half-precision numbers overflow early.
    if given in (float16, bfloat16) or not issubdtype(given, inexact):
        a = _ops_elementwise.astype(a, float32, stream=stream)
    if ord is None:
        out = _vector_norm(a, 2, axis, keepdims, stream)
    else:
        axes = list(range(a.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
        if len(axes) == 1 and not isinstance(ord, str):
            out = _vector_norm(a, ord, axes[0], keepdims, stream)
        elif len(axes) == 2:
            out = _matrix_norm(a, ord, tuple(axes), keepdims, stream)
        else:
            raise ValueError(f"[linalg.norm] the norm {ord!r} over {len(axes)} axes is not defined")
    return _ops_elementwise.astype(out, given, stream=stream) if given in (float16, bfloat16) else out


def cross(a: Array, b: Array, axis: int = -1, *, stream=None) -> Array:
    """Cross product of vectors of two or three elements.

    Args:
        a: array whose axis has size 2 or 3.
        b: the same; the other axes broadcast.
        axis: the axis of the vectors, the last by default.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of vectors of three elements; of two vectors of two elements, the third component alone.

    Raises:
        ValueError: if the axis has another size, or shapes do not broadcast.

    Example:
        >>> mx.linalg.cross(mx.array([1, 0, 0]), mx.array([0, 1, 0]))
        array([0, 0, 1], dtype=int32)
    """
    parts = []
    for x in (a, b):
        if x.shape[axis] not in (2, 3):
            raise ValueError(f"[linalg.cross] the vectors must have two or three elements, got shape {x.shape}")
        parts.append(list(_ops_join.unstack(x, axis=axis, stream=stream)))
    if len(parts[0]) == 2 and len(parts[1]) == 2:
        return _minus(_times(parts[0][0], parts[1][1], stream), _times(parts[0][1], parts[1][0], stream), stream)
    for part in parts:
        if len(part) == 2:
            part.append(_ops_create.zeros_like(part[0], stream=stream))
    x, y = parts
    out = [_minus(_times(x[i], y[j], stream), _times(x[j], y[i], stream), stream) for i, j in ((1, 2), (2, 0), (0, 1))]
    return _ops_join.stack(out, axis, stream=stream)


def _times(a, b, stream):
    return _ops_plain.multiply(a, b, stream=stream)


def _minus(a, b, stream):
    return _ops_plain.subtract(a, b, stream=stream)
