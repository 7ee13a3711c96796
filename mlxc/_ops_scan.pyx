# Running sums, products, extremes and differences along an axis; without an axis they run over the flattened array.
from mlxc._args cimport to_axis, to_int
from mlxc._array cimport Array, as_array, as_operand
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport to_dtype_or
from mlxc._prim cimport (alias, cast, dims, float_dtype, number, op_broadcast_to, op_concatenate, op_cummax, op_cummin,
                         op_cumprod, op_cumsum, op_logaddexp, op_not_equal, op_subtract, ravel, slice_axis)
from mlxc._ops_join import flip

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff", "logcumsumexp"]

ctypedef Array (*scan_fn)(Array, int32_t, bint, bint, mlxc_stream*)


cdef Array scan(scan_fn fn, object a, object axis, bint reverse, bint inclusive, object dtype, mlxc_stream* s):
    cdef Array x = as_array(a)
    if dtype is not None:
        x = cast(x, to_dtype_or(dtype, 0), s)
    if axis is None:
        x = ravel(x, s)
        axis = 0
    return fn(x, to_axis(axis, mlxc_array_ndim(x.h)), reverse, inclusive, s)


cdef Array scan_from(scan_fn fn, object a, object axis, bint reverse, bint inclusive, bint include_initial,
                     int initial, object dtype, mlxc_stream* s):
    """A scan that may have the initial value in front, or behind if it runs backwards."""
    cdef Array out
    if not include_initial:
        return scan(fn, a, axis, reverse, inclusive, dtype, s)
    if not inclusive:
        raise ValueError("include_initial=True and inclusive=False would both put the initial value in front")
    out = scan(fn, a, axis, reverse, True, dtype, s)
    cdef int32_t ax = 0 if axis is None else to_axis(axis, mlxc_array_ndim(out.h))
    cdef list shape = dims(out)
    shape[ax] = 1
    cdef Array edge = op_broadcast_to(number(initial, mlxc_array_dtype(out.h)), shape, s)
    return op_concatenate([out, edge] if reverse else [edge, out], ax, s)


def cumsum(a, /, axis=None, *, reverse=False, inclusive=True, include_initial=False, dtype=None, stream=None):
    """Running sum along an axis.

    Args:
        a: array or scalar, any dtype.
        axis: the axis; None runs over the flattened array.
        reverse: whether to run from the end to the beginning.
        inclusive: whether the element at a place counts there; if not, the first result is 0.
        include_initial: whether the result begins with 0 (ends, in reverse) and is longer by one.
        dtype: dtype to sum in; by default that of `a`, or int32 for bool.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`, or of its flattened form.

    Raises:
        ValueError: if the axis is out of range, or `include_initial` meets `inclusive=False`.

    Example:
        >>> mx.cumsum(mx.array([1, 2, 3]))
        array([1, 3, 6], dtype=int32)
        >>> mx.cumsum(mx.array([1, 2, 3]), reverse=True, inclusive=False)
        array([5, 3, 0], dtype=int32)
    """
    return scan_from(op_cumsum, a, axis, reverse, inclusive, include_initial, 0, dtype, to_stream(stream))


def cumprod(a, /, axis=None, *, reverse=False, inclusive=True, include_initial=False, dtype=None, stream=None):
    """Running product along an axis.

    Args:
        a: array or scalar, any dtype.
        axis: the axis; None runs over the flattened array.
        reverse: whether to run from the end to the beginning.
        inclusive: whether the element at a place counts there; if not, the first result is 1.
        include_initial: whether the result begins with 1 (ends, in reverse) and is longer by one.
        dtype: dtype to multiply in; by default that of `a`, or int32 for bool.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`, or of its flattened form.

    Raises:
        ValueError: if the axis is out of range, or `include_initial` meets `inclusive=False`.

    Example:
        >>> mx.cumprod(mx.array([1, 2, 3]))
        array([1, 2, 6], dtype=int32)
    """
    return scan_from(op_cumprod, a, axis, reverse, inclusive, include_initial, 1, dtype, to_stream(stream))


cumulative_sum = cumsum
cumulative_prod = cumprod


def cummax(a, /, axis=None, *, reverse=False, inclusive=True, stream=None):
    """Running maximum along an axis; NaN stays from where it appears.

    Args:
        a: array or scalar, any dtype.
        axis: the axis; None runs over the flattened array.
        reverse: whether to run from the end to the beginning.
        inclusive: whether the element at a place counts there; if not, the first result is the least value there is.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`, or of its flattened form, with its dtype.

    Raises:
        ValueError: if the axis is out of range.

    Example:
        >>> mx.cummax(mx.array([1, 3, 2]))
        array([1, 3, 3], dtype=int32)
    """
    return scan(op_cummax, a, axis, reverse, inclusive, None, to_stream(stream))


def cummin(a, /, axis=None, *, reverse=False, inclusive=True, stream=None):
    """Running minimum along an axis; NaN stays from where it appears.

    Args:
        a: array or scalar, any dtype.
        axis: the axis; None runs over the flattened array.
        reverse: whether to run from the end to the beginning.
        inclusive: whether the element at a place counts there; if not, the first result is the greatest value there is.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`, or of its flattened form, with its dtype.

    Raises:
        ValueError: if the axis is out of range.

    Example:
        >>> mx.cummin(mx.array([3, 1, 2]))
        array([3, 1, 1], dtype=int32)
    """
    return scan(op_cummin, a, axis, reverse, inclusive, None, to_stream(stream))


def logcumsumexp(a, /, axis=None, *, reverse=False, inclusive=True, stream=None):
    """Logarithm of the running sum of exponentials along an axis, without overflow.

    Args:
        a: array or scalar, any dtype.
        axis: the axis; None runs over the flattened array.
        reverse: whether to run from the end to the beginning.
        inclusive: whether the element at a place counts there; if not, the first result is minus infinity.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`, or of its flattened form, with its dtype, or float32 if that is an integer or
        bool.

    Raises:
        ValueError: if the axis is out of range.

    Example:
        >>> mx.logcumsumexp(mx.array([0.0, 0.0, 1000.0]))
        array([0, 0.693147, 1000], dtype=float32)
    """
    cdef Array x = as_array(a), gone
    cdef mlxc_stream* s = to_stream(stream)
    x = cast(x, float_dtype(mlxc_array_dtype(x.h)), s)
    if axis is None:
        x = ravel(x, s)
        axis = 0
    cdef int32_t ax = to_axis(axis, mlxc_array_ndim(x.h))
    cdef int64_t n = mlxc_array_dim(x.h, ax), step = 1
    cdef list shape = dims(x)
    if n == 0:
        return alias(x)
    if reverse:
        x = flip(x, ax, stream=stream)
    # Each round doubles how many elements every place has summed, so nothing is ever scaled by a far maximum.
    while step < n:
        head = slice_axis(x, ax, 0, step, 1, s)
        tail = op_logaddexp(slice_axis(x, ax, step, n - step, 1, s), slice_axis(x, ax, 0, n - step, 1, s), s)
        x = op_concatenate([head, tail], ax, s)
        step *= 2
    if not inclusive:
        shape[ax] = 1
        gone = op_broadcast_to(number(-float("inf"), mlxc_array_dtype(x.h)), shape, s)
        x = op_concatenate([gone, slice_axis(x, ax, 0, n - 1, 1, s)], ax, s)
    return flip(x, ax, stream=stream) if reverse else alias(x)


cdef Array framed(Array x, object prepend, object append, int32_t axis, mlxc_stream* s):
    """x between other arrays along the axis; scalars stand for one place."""
    cdef list parts = [x], shape = dims(x)
    cdef Array edge
    shape[axis] = 1
    for side, first in ((prepend, True), (append, False)):
        if side is None:
            continue
        edge = as_operand(side, mlxc_array_dtype(x.h))
        if mlxc_array_ndim(edge.h) == 0:
            edge = op_broadcast_to(edge, shape, s)
        parts.insert(0 if first else len(parts), edge)
    return op_concatenate(parts, axis, s) if len(parts) > 1 else x


def diff(a, /, n=1, axis=-1, *, prepend=None, append=None, stream=None):
    """The n-th differences of neighbours along an axis.

    Args:
        a: array of at least one dimension, any dtype; of booleans, whether neighbours differ.
        n: how often to take differences, not negative.
        axis: the axis; the last by default.
        prepend: array or scalar to put before `a` along the axis first.
        append: array or scalar to put behind it.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`, shorter by `n` along the axis but not below zero.

    Raises:
        ValueError: if `n` is negative, the axis is out of range, or `prepend` or `append` does not fit beside `a`.

    Example:
        >>> mx.diff(mx.array([1, 4, 9]))
        array([3, 5], dtype=int32)
    """
    cdef Array x = as_array(a), left, right
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t ax = to_axis(axis, mlxc_array_ndim(x.h))
    cdef int64_t times = to_int(n, "n"), length
    if times < 0:
        raise ValueError(f"[diff] n must not be negative, got {times}")
    if times > 0:
        x = framed(x, prepend, append, ax, s)
    for _ in range(times):
        length = mlxc_array_dim(x.h, ax)
        if length == 0:
            break
        right = slice_axis(x, ax, 1 if length > 1 else 0, length - 1, 1, s)
        left = slice_axis(x, ax, 0, length - 1, 1, s)
        x = op_not_equal(right, left, s) if mlxc_array_dtype(x.h) == MLXC_BOOL else op_subtract(right, left, s)
    return alias(x)
