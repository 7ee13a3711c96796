"""Norms of vectors and matrices, as mlxc.linalg has them: norm (MLX's), vector_norm and matrix_norm (the array API
standard's).

Rule: where a norm has no derivative the gradient is a subgradient, zero at the zero vector and the zero matrix.
"""

import math as _math

from . import _ops_elementwise, _ops_linalg, _ops_plain, _ops_reduce, _ops_shape
from ._checks import need_array
from ._dtype import bfloat16, float16, float32, inexact
from ._promotion import issubdtype

__all__ = ["matrix_norm", "norm", "vector_norm"]


def _root(total, power, stream):
    """total ** (1 / power) with gradient 0, not NaN, where the total is 0."""
    zero = _ops_plain.equal(total, 0, stream=stream)
    safe = _ops_elementwise.where(zero, 1, total, stream=stream)
    root = _ops_plain.sqrt(safe, stream=stream) if power == 2 else _ops_plain.power(safe, 1 / power, stream=stream)
    return _ops_elementwise.where(zero, 0, root, stream=stream)


def _powers(size, order, stream):
    """size ** order, where a size of 0 passes no gradient on."""
    zero = _ops_plain.equal(size, 0, stream=stream)
    safe = _ops_elementwise.where(zero, 1, size, stream=stream)
    at_zero = 0.0 if order > 0 else _math.inf
    return _ops_elementwise.where(zero, at_zero, _ops_plain.power(safe, order, stream=stream), stream=stream)


def _vector(a, order, axis, keepdims, stream):
    size = _ops_plain.abs(a, stream=stream)
    if order == _math.inf:
        return _ops_reduce.max(size, axis, keepdims, stream=stream)
    if order == -_math.inf:
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
    total = _ops_reduce.sum(_powers(size, float(order), stream), axis, keepdims, stream=stream)
    return _root(total, float(order), stream)


def _matrix(a, order, axes, keepdims, *, name, stream):
    if order in ("fro", "f"):
        return _vector(a, 2, axes, keepdims, stream)
    if order in (1, -1, _math.inf, -_math.inf):
        summed, kept = axes if abs(order) == 1 else axes[::-1]
        sums = _ops_reduce.sum(_ops_plain.abs(a, stream=stream), summed, True, stream=stream)
        pick = _ops_reduce.max if order > 0 else _ops_reduce.min
        out = pick(sums, kept, True, stream=stream)
        return out if keepdims else out.squeeze(axes, stream=stream)
    if order not in (2, -2, "nuc"):
        raise ValueError(f"[linalg.{name}] there is no matrix norm {order!r}")
    values = _ops_linalg.svdvals(_ops_shape.moveaxis(a, axes, (-2, -1), stream=stream), stream=stream)
    # Of the value 0, at which the gradient of the vectors is arbitrary, the magnitude passes none on.
    values = _ops_plain.abs(values, stream=stream)
    pick = {2: _ops_reduce.max, -2: _ops_reduce.min, "nuc": _ops_reduce.sum}[order]
    out = pick(values, -1, stream=stream)
    return _ops_shape.expand_dims(out, sorted(axis % a.ndim for axis in axes), stream=stream) if keepdims else out


def _widen(a, stream):
    """Squares of half-precision numbers overflow early, and integers have no roots."""
    if a.dtype in (float16, bfloat16) or not issubdtype(a.dtype, inexact):
        return _ops_elementwise.astype(a, float32, stream=stream)
    return a


def _narrow(out, given, stream):
    return _ops_elementwise.astype(out, given, stream=stream) if given in (float16, bfloat16) else out


def norm(a, /, ord=None, axis=None, keepdims=False, *, stream=None):
    """Norm of vectors or matrices. The gradient of a norm at zero is zero.

    Args:
        a: array of any dtype; integers are taken as float32.
        ord: None for the 2-norm of all elements over the axes. For vectors any number p, inf, -inf, or 0 (how many
            are nonzero); for matrices "fro", "nuc" (sum of the singular values), 2 or -2 (greatest or least singular
            value), 1, -1, inf or -inf (greatest or least sum of columns or rows).
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
    given = need_array(a, "linalg.norm").dtype
    a = _widen(a, stream)
    if ord is None:
        out = _vector(a, 2, axis, keepdims, stream)
    else:
        axes = list(range(a.ndim)) if axis is None else [axis] if isinstance(axis, int) else list(axis)
        if len(axes) == 1 and not isinstance(ord, str):
            out = _vector(a, ord, axes[0], keepdims, stream)
        elif len(axes) == 2:
            out = _matrix(a, ord, tuple(axes), keepdims, name="norm", stream=stream)
        else:
            raise ValueError(f"[linalg.norm] the norm {ord!r} over {len(axes)} axes is not defined")
    return _narrow(out, given, stream)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2, stream=None):
    """Norm of vectors; several axes together are taken as one vector.

    Args:
        x: array of any dtype; integers are taken as float32.
        axis: an axis or several; None takes the whole array.
        keepdims: whether the axes stay, with size one.
        ord: any number p, inf, -inf, or 0 (how many elements are nonzero).
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the real dtype that belongs to that of `x`.

    Raises:
        ValueError: if an axis is out of range.
        TypeError: if `ord` is no number.

    Example:
        >>> mx.linalg.vector_norm(mx.array([[3.0, -4.0], [0.0, 0.0]]), ord=1)
        array(7, dtype=float32)
    """
    if not isinstance(ord, (int, float)):
        raise TypeError(f"[linalg.vector_norm] ord must be a number, not {ord!r}")
    need_array(x, "linalg.vector_norm")
    return _narrow(_vector(_widen(x, stream), ord, axis, keepdims, stream), x.dtype, stream)


def matrix_norm(x, /, *, keepdims=False, ord="fro", stream=None):
    """Norm of matrices, the last two axes.

    Args:
        x: array of at least two dimensions, any dtype; integers are taken as float32.
        keepdims: whether the axes stay, with size one.
        ord: "fro", "nuc" (sum of the singular values), 2 or -2 (greatest or least singular value), 1, -1, inf or -inf
            (greatest or least sum of columns or rows).
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the real dtype that belongs to that of `x`.

    Raises:
        ValueError: for an unknown norm or an array of fewer than two dimensions.

    Example:
        >>> mx.linalg.matrix_norm(mx.array([[3.0, 0.0], [0.0, -4.0]]), ord="nuc")
        array(7, dtype=float32)
    """
    if need_array(x, "linalg.matrix_norm").ndim < 2:
        raise ValueError(f"[linalg.matrix_norm] takes arrays of at least two dimensions, got shape {x.shape}")
    out = _matrix(_widen(x, stream), ord, (-2, -1), keepdims, name="matrix_norm", stream=stream)
    return _narrow(out, x.dtype, stream)
