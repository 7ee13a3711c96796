# Reductions: one op each where the table has one, composed where it does not (var, std, median, count_nonzero).
# `axis` is an int, several, or None for all; `()` reduces nothing. Running forms are in _ops_scan.pyx.
from mlxc._args cimport Axes, to_axes, to_axis
from mlxc._array cimport Array, as_array, wrap
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport is_complex, to_dtype, to_dtype_or
from mlxc._error cimport check
from mlxc._prim cimport (axis_list, axis_mask, cast, dims, float_dtype, merge_axes_last, number, op_argmax, op_argmin,
                         op_conjugate, op_divide, op_equal, op_isnan, op_multiply, op_not_equal, op_real, op_reshape,
                         op_softmax, op_sort, op_sqrt, op_square, op_subtract, op_sum, op_where, ravel, slice_axis)
from mlxc._ops_shape import diagonal

import builtins

__all__ = ["all", "any", "argmax", "argmin", "count_nonzero", "logsumexp", "max", "mean", "median", "min", "minmax",
           "prod", "softmax", "std", "sum", "trace", "var"]

ctypedef mlxc_error* (*reduce_fn)(mlxc_array*, const int32_t*, int32_t, int32_t, mlxc_stream*,
                                  mlxc_array**) noexcept nogil


cdef Array reduce(reduce_fn fn, object a, object axis, bint keepdims, object stream):
    cdef Axes axes
    cdef mlxc_array* out = NULL
    cdef Array x = as_array(a)
    to_axes(axis, &axes)
    check(fn(x.h, axes.v, axes.n, keepdims, to_stream(stream), &out))
    return wrap(out)


cdef Array reduce_in(reduce_fn fn, object a, object axis, bint keepdims, object dtype, object stream):
    """Reduces after a cast to the dtype, and gives that dtype, which the op itself may have widened."""
    if dtype is None:
        return reduce(fn, a, axis, keepdims, stream)
    cdef mlxc_stream* s = to_stream(stream)
    cdef mlxc_dtype own = to_dtype(dtype)
    return cast(reduce(fn, cast(as_array(a), own, s), axis, keepdims, stream), own, s)


def sum(a, /, axis=None, keepdims=False, *, dtype=None, stream=None):
    """Sum over axes.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        dtype: dtype to sum in and of the result, as the array API standard has it.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype asked for, else that of `a`; bool and integers below 32 bits widen to 32 bits. 0 over
        nothing.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> mx.sum(mx.array([[1, 2], [3, 4]]), axis=0)
        array([4, 6], dtype=int32)
    """
    return reduce_in(mlxc_sum, a, axis, keepdims, dtype, stream)


def prod(a, /, axis=None, keepdims=False, *, dtype=None, stream=None):
    """Product over axes.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        dtype: dtype to multiply in and of the result, as the array API standard has it.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype asked for, else that of `a`; bool and integers below 32 bits widen to 32 bits. 1 over
        nothing.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> mx.prod(mx.array([2, 3, 4]))
        array(24, dtype=int32)
    """
    return reduce_in(mlxc_prod, a, axis, keepdims, dtype, stream)


def min(a, /, axis=None, keepdims=False, *, stream=None):
    """Least element over axes; NaN if one is NaN.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ValueError: if an axis is out of range or named twice, or there is nothing to reduce.

    Example:
        >>> mx.min(mx.array([[3, 1], [2, 4]]), axis=1)
        array([1, 2], dtype=int32)
    """
    return reduce(mlxc_min, a, axis, keepdims, stream)


def max(a, /, axis=None, keepdims=False, *, stream=None):
    """Greatest element over axes; NaN if one is NaN. Its gradient is shared evenly among equal elements.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ValueError: if an axis is out of range or named twice, or there is nothing to reduce.

    Example:
        >>> mx.max(mx.array([[3, 1], [2, 4]]), axis=1)
        array([3, 4], dtype=int32)
    """
    return reduce(mlxc_max, a, axis, keepdims, stream)


def minmax(a, /, axis=None, keepdims=False, *, stream=None):
    """Least and greatest element over axes.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        A tuple of two arrays of the dtype of `a`, `(min, max)`.

    Raises:
        ValueError: if an axis is out of range or named twice, or there is nothing to reduce.

    Example:
        >>> mx.minmax(mx.array([3, 1, 2]))
        (array(1, dtype=int32), array(3, dtype=int32))
    """
    return reduce(mlxc_min, a, axis, keepdims, stream), reduce(mlxc_max, a, axis, keepdims, stream)


def mean(a, /, axis=None, keepdims=False, *, stream=None):
    """Mean over axes.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`, or float32 if that is an integer or bool. NaN over nothing.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> mx.mean(mx.array([1, 2, 6]))
        array(3, dtype=float32)
    """
    return reduce(mlxc_mean, a, axis, keepdims, stream)


def all(a, /, axis=None, keepdims=False, *, stream=None):
    """Whether all elements are nonzero over axes.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        A bool array; True over nothing.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> mx.all(mx.array([[True, False], [True, True]]), axis=1)
        array([False, True], dtype=bool)
    """
    return reduce(mlxc_all, a, axis, keepdims, stream)


def any(a, /, axis=None, keepdims=False, *, stream=None):
    """Whether any element is nonzero over axes.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        A bool array; False over nothing.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> mx.any(mx.array([[True, False], [False, False]]), axis=1)
        array([True, False], dtype=bool)
    """
    return reduce(mlxc_any, a, axis, keepdims, stream)


def logsumexp(a, /, axis=None, keepdims=False, *, stream=None):
    """Logarithm of the sum of exponentials over axes, without overflow.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`, or float32 if that is an integer or bool. Minus infinity over nothing.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> mx.logsumexp(mx.array([1000.0, 1000.0]))
        array(1000.69, dtype=float32)
    """
    return reduce(mlxc_logsumexp, a, axis, keepdims, stream)


def count_nonzero(a, /, *, axis=None, keepdims=False, stream=None):
    """How many elements are nonzero over axes.

    Args:
        a: array or scalar, any dtype; NaN counts as nonzero.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An int32 array.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> mx.count_nonzero(mx.array([0, 3, 0, 1]))
        array(2, dtype=int32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    return op_sum(op_not_equal(x, number(0, mlxc_array_dtype(x.h)), s), axis, keepdims, s)


def argmin(a, /, axis=None, keepdims=False, *, stream=None):
    """Index of the first least element along an axis; the first NaN counts as least.

    Args:
        a: array or scalar, any dtype.
        axis: the axis; None takes the index into the flattened array.
        keepdims: whether reduced axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        A uint32 array.

    Raises:
        ValueError: if the axis is out of range, or there is nothing to reduce.

    Example:
        >>> mx.argmin(mx.array([3, 1, 2]))
        array(1, dtype=uint32)
    """
    return arg_reduce(as_array(a), axis, keepdims, True, to_stream(stream))


def argmax(a, /, axis=None, keepdims=False, *, stream=None):
    """Index of the first greatest element along an axis; the first NaN counts as greatest.

    Args:
        a: array or scalar, any dtype.
        axis: the axis; None takes the index into the flattened array.
        keepdims: whether reduced axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        A uint32 array.

    Raises:
        ValueError: if the axis is out of range, or there is nothing to reduce.

    Example:
        >>> mx.argmax(mx.array([[3, 1], [2, 4]]), axis=1)
        array([0, 1], dtype=uint32)
    """
    return arg_reduce(as_array(a), axis, keepdims, False, to_stream(stream))


cdef Array arg_reduce(Array x, object axis, bint keepdims, bint least, mlxc_stream* s):
    cdef int32_t ndim = mlxc_array_ndim(x.h), ax = 0
    cdef bint flat = axis is None
    if flat:
        x = ravel(x, s)
    else:
        ax = to_axis(axis, ndim)
    cdef bint keep = keepdims and not flat
    cdef Array out = op_argmin(x, ax, keep, s) if least else op_argmax(x, ax, keep, s)
    return op_reshape(out, [1] * ndim, s) if flat and keepdims else out


def softmax(a, /, axis=None, *, precise=False, stream=None):
    """Exponentials divided by their sum over axes.

    Args:
        a: array or scalar, any dtype but complex ones.
        axis: axis or axes whose elements add up to one; None is all.
        precise: whether half precision is computed in float32 throughout.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a` and its dtype, or float32 if that is an integer or bool.

    Raises:
        ValueError: if an axis is out of range or named twice.
        TypeError: for a complex dtype.

    Example:
        >>> mx.softmax(mx.array([0.0, 0.0]))
        array([0.5, 0.5], dtype=float32)
    """
    return op_softmax(as_array(a), axis, precise, to_stream(stream))


cdef Array reduced(reduce_fn fn, Array x, Axes* axes, bint keepdims, mlxc_stream* s):
    cdef mlxc_array* out = NULL
    check(fn(x.h, axes.v, axes.n, keepdims, s, &out))
    return wrap(out)


cdef Array variance(Array x, object axis, bint keepdims, object ddof, object correction, mlxc_stream* s):
    """Mean square distance from the mean, in two passes, of float32 at least; in that dtype."""
    cdef mlxc_dtype dtype = mlxc_array_dtype(x.h)
    cdef object lost = ddof if correction is None else correction
    cdef Axes axes
    cdef uint64_t mask
    cdef int64_t count = 1
    cdef int32_t i
    axis_mask(axis, mlxc_array_ndim(x.h), &axes, &mask)
    # Squares of half-precision numbers overflow early.
    if dtype == MLXC_FLOAT16 or dtype == MLXC_BFLOAT16:
        dtype = MLXC_FLOAT32
    x = cast(x, float_dtype(dtype), s)
    cdef Array gap = op_subtract(x, reduced(mlxc_mean, x, &axes, True, s), s), square, total
    if is_complex(mlxc_array_dtype(x.h)):
        square = op_real(op_multiply(gap, op_conjugate(gap, s), s), s)
    else:
        square = op_square(gap, s)
    if lost == 0:
        return reduced(mlxc_mean, square, &axes, keepdims, s)
    for i in range(axes.n):
        count *= mlxc_array_dim(x.h, axes.v[i])
    cdef double free = builtins.max(count - lost, 0)
    total = reduced(mlxc_sum, square, &axes, keepdims, s)
    return op_divide(total, number(free, mlxc_array_dtype(total.h)), s)


cdef Array narrow_as(Array out, Array a, mlxc_stream* s):
    """Back to the half precision of `a`, if it has one."""
    cdef mlxc_dtype dtype = mlxc_array_dtype(a.h)
    return cast(out, dtype, s) if dtype == MLXC_FLOAT16 or dtype == MLXC_BFLOAT16 else out


def var(a, /, axis=None, keepdims=False, ddof=0, *, correction=None, stream=None):
    """Variance over axes: the mean square distance from the mean, computed in two passes.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        ddof: the sum of squares is divided by n - ddof, where n elements are reduced.
        correction: the array API standard's name for `ddof`; wins where given.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`, or of its real part; float32 if that is an integer or bool. Division by a count
        of zero gives infinity or NaN.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> mx.var(mx.array([1.0, 3.0]))
        array(1, dtype=float32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    return narrow_as(variance(x, axis, keepdims, ddof, correction, s), x, s)


def std(a, /, axis=None, keepdims=False, ddof=0, *, correction=None, stream=None):
    """Standard deviation over axes: the square root of the variance. Its gradient at equal elements is 0.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        ddof: the sum of squares is divided by n - ddof, where n elements are reduced.
        correction: the array API standard's name for `ddof`; wins where given.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`, or of its real part; float32 if that is an integer or bool.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> mx.std(mx.array([1.0, 3.0]))
        array(1, dtype=float32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array v = variance(x, axis, keepdims, ddof, correction, s)
    if not mlxc_array_is_traced(v.h):
        return narrow_as(op_sqrt(v, s), x, s)
    # The root has no derivative at 0: there the root of 1 is taken, and thrown away.
    cdef Array zero = number(0, mlxc_array_dtype(v.h)), at_zero = op_equal(v, zero, s)
    cdef Array safe = op_where(at_zero, number(1, mlxc_array_dtype(v.h)), v, s)
    return narrow_as(op_where(at_zero, zero, op_sqrt(safe, s), s), x, s)


def median(a, /, axis=None, keepdims=False, *, stream=None):
    """Middle element over axes, or the mean of the two in the middle; NaN if one is NaN.

    Args:
        a: array or scalar, any dtype but complex ones.
        axis: axis or axes; None is all.
        keepdims: whether reduced axes stay, with size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`, or float32 if that is an integer or bool.

    Raises:
        ValueError: if an axis is out of range or named twice, or there is nothing to reduce.

    Example:
        >>> mx.median(mx.array([3, 1, 2, 10]))
        array(2.5, dtype=float32)
    """
    cdef Array x = as_array(a), row, middle, last
    cdef mlxc_stream* s = to_stream(stream)
    cdef list shape = dims(x)
    cdef list reduced = axis_list(axis, mlxc_array_ndim(x.h))
    if is_complex(mlxc_array_dtype(x.h)):
        raise TypeError("[median] takes any dtype but complex ones")
    row = merge_axes_last(cast(x, float_dtype(mlxc_array_dtype(x.h)), s), axis, s)
    cdef int32_t ax = mlxc_array_ndim(row.h) - 1
    cdef int64_t n = mlxc_array_dim(row.h, ax)
    if n == 0:
        raise ValueError(f"[median] there is nothing to reduce in an array of shape {tuple(shape)} over axis {axis}")
    row = op_sort(row, ax, s)
    last = slice_axis(row, ax, n - 1, 1, 1, s)
    middle = slice_axis(row, ax, (n - 1) // 2, 2 - n % 2, 1, s)
    if n % 2 == 0:
        middle = op_sum(op_multiply(middle, number(0.5, mlxc_array_dtype(row.h)), s), ax, True, s)
    middle = op_where(op_isnan(last, s), last, middle, s)
    if keepdims:
        return op_reshape(middle, [1 if i in reduced else shape[i] for i in range(len(shape))], s)
    return op_reshape(middle, [shape[i] for i in range(len(shape)) if i not in reduced], s)


def trace(a, /, offset=0, axis1=0, axis2=1, dtype=None, *, stream=None):
    """Sum of a diagonal of two axes.

    Args:
        a: array of at least two dimensions, any dtype.
        offset: 0 for the main diagonal, positive above it, negative below.
        axis1: axis of the rows.
        axis2: axis of the columns.
        dtype: dtype to sum in; by default that of `a`, with bool and integers below 32 bits widened to 32 bits.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of two dimensions less.

    Raises:
        ValueError: if an axis is out of range, or both are the same.

    Example:
        >>> mx.trace(mx.array([[1, 2], [3, 4]]))
        array(5, dtype=int32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array x = diagonal(a, offset, axis1, axis2, stream=stream)
    if dtype is None:
        return op_sum(x, -1, False, s)
    cdef mlxc_dtype own = to_dtype_or(dtype, 0)
    return cast(op_sum(cast(x, own, s), -1, False, s), own, s)
