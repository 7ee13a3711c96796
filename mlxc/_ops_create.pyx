# Functions that make arrays: constant, stepped and triangular ones, identity, grids, diagonals.
# The default dtype is float32, as everywhere; `device=` is the array API standard's word for `stream=`.
from libc.math cimport ceil, isfinite

from mlxc._args cimport Shape, to_int
from mlxc._array cimport Array, as_array, as_operand, wrap
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport dtype_object, is_complex, is_integer, to_dtype_or
from mlxc._error cimport check
from mlxc._scalar cimport KIND_FLOAT, KIND_NONE, plain_number, scalar_array, scalar_kind
from mlxc._prim cimport (cast, count_up, dims, number, op_add, op_arange, op_astype, op_broadcast_to, op_contiguous,
                         op_equal, op_full, op_greater_equal, op_multiply, op_slice_update, op_where, reshaped,
                         stretched)
from mlxc._dtype import float32
from mlxc._ops_shape import diagonal

__all__ = ["arange", "diag", "empty", "empty_like", "eye", "full", "full_like", "identity", "linspace", "meshgrid",
           "ones", "ones_like", "tri", "tril", "triu", "zeros", "zeros_like"]


cdef mlxc_stream* pick_stream(object stream, object device) except? NULL:
    if stream is not None and device is not None:
        raise TypeError("give stream or device, not both")
    return to_stream(device if stream is None else stream)


cdef Array fill(object shape, double value, mlxc_dtype dtype, mlxc_stream* s):
    return op_full(number(value, dtype), shape, s)


def zeros(shape, dtype=float32, *, stream=None, device=None):
    """An array of zeros.

    Args:
        shape: an int or a sequence of sizes.
        dtype: dtype of the result; float32 by default.
        stream: stream or device to compute on; None is the default.
        device: the same, as the array API standard calls it.

    Returns:
        An array of the shape and dtype.

    Raises:
        ValueError: if a size is negative, or their product too large.

    Example:
        >>> mx.zeros((2, 2))
        array([[0, 0],
               [0, 0]], dtype=float32)
    """
    return fill(shape, 0, to_dtype_or(dtype, MLXC_FLOAT32), pick_stream(stream, device))


def ones(shape, dtype=float32, *, stream=None, device=None):
    """An array of ones.

    Args:
        shape: an int or a sequence of sizes.
        dtype: dtype of the result; float32 by default.
        stream: stream or device to compute on; None is the default.
        device: the same, as the array API standard calls it.

    Returns:
        An array of the shape and dtype.

    Raises:
        ValueError: if a size is negative, or their product too large.

    Example:
        >>> mx.ones(3, mx.int32)
        array([1, 1, 1], dtype=int32)
    """
    return fill(shape, 1, to_dtype_or(dtype, MLXC_FLOAT32), pick_stream(stream, device))


empty = zeros


def full(shape, vals, dtype=None, *, stream=None, device=None):
    """An array filled with a value.

    Args:
        shape: an int or a sequence of sizes.
        vals: scalar, or array that broadcasts to the shape.
        dtype: dtype of the result; that of `vals` by default.
        stream: stream or device to compute on; None is the default.
        device: the same, as the array API standard calls it.

    Returns:
        An array of the shape and dtype.

    Raises:
        ValueError: if `vals` does not broadcast to the shape.

    Example:
        >>> mx.full((2,), 1.5)
        array([1.5, 1.5], dtype=float32)
    """
    cdef mlxc_stream* s = pick_stream(stream, device)
    return fill_with(shape, vals, -1 if dtype is None else to_dtype_or(dtype, 0), s)


cdef Array fill_with(object shape, object vals, mlxc_dtype dtype, mlxc_stream* s):
    # A Python number is made in the dtype itself: 0.1 as float64, 2**63 as uint64.
    cdef int kind = scalar_kind(vals)
    cdef Array value
    if dtype >= 0 and kind != KIND_NONE:
        value = wrap(scalar_array(plain_number(vals, kind), kind, dtype))
    else:
        value = as_array(vals) if dtype < 0 else cast(as_array(vals), dtype, s)
    if mlxc_array_ndim(value.h) == 0:
        return op_full(value, shape, s)
    return op_contiguous(op_broadcast_to(value, shape, s), s)


def zeros_like(a, /, dtype=None, *, stream=None, device=None):
    """Zeros in the shape of another array.

    Args:
        a: array or scalar.
        dtype: dtype of the result; that of `a` by default.
        stream: stream or device to compute on; None is the default.
        device: the same, as the array API standard calls it.

    Returns:
        An array of the shape of `a`.

    Example:
        >>> mx.zeros_like(mx.array([1, 2]))
        array([0, 0], dtype=int32)
    """
    cdef Array x = as_array(a)
    return fill(dims(x), 0, to_dtype_or(dtype, mlxc_array_dtype(x.h)), pick_stream(stream, device))


def ones_like(a, /, dtype=None, *, stream=None, device=None):
    """Ones in the shape of another array.

    Args:
        a: array or scalar.
        dtype: dtype of the result; that of `a` by default.
        stream: stream or device to compute on; None is the default.
        device: the same, as the array API standard calls it.

    Returns:
        An array of the shape of `a`.

    Example:
        >>> mx.ones_like(mx.array([1, 2]))
        array([1, 1], dtype=int32)
    """
    cdef Array x = as_array(a)
    return fill(dims(x), 1, to_dtype_or(dtype, mlxc_array_dtype(x.h)), pick_stream(stream, device))


empty_like = zeros_like


def full_like(a, vals, dtype=None, *, stream=None, device=None):
    """A value in the shape of another array.

    Args:
        a: array or scalar.
        vals: scalar, or array that broadcasts to the shape of `a`.
        dtype: dtype of the result; that of `a` by default.
        stream: stream or device to compute on; None is the default.
        device: the same, as the array API standard calls it.

    Returns:
        An array of the shape of `a`.

    Raises:
        ValueError: if `vals` does not broadcast to the shape of `a`.

    Example:
        >>> mx.full_like(mx.array([1, 2]), 7)
        array([7, 7], dtype=int32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = pick_stream(stream, device)
    return fill_with(dims(x), vals, to_dtype_or(dtype, mlxc_array_dtype(x.h)), s)


cdef object step_number(object value, str name):
    """A Python int or float out of a scalar argument."""
    if type(value) is int or type(value) is float:
        return value
    if type(value) is Array and mlxc_array_ndim((<Array>value).h) == 0:
        return step_number(value.item(), name)
    if scalar_kind(value) == KIND_FLOAT or hasattr(value, "numerator") and not hasattr(value, "__index__"):
        return float(value)
    if hasattr(value, "__index__") and type(value) is not Array:
        return value.__index__()
    raise TypeError(f"[{name}] takes integers and floats, got {value!r} of type {type(value).__name__}")


cdef int64_t count_steps(object start, object stop, object step, str name) except -1:
    """How many of start, start + step, ... lie before stop. Exact for integers."""
    if step == 0:
        raise ValueError(f"[{name}] step must not be zero")
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        length = max(-((start - stop) // step), 0)
    else:
        span = (float(stop) - float(start)) / float(step)
        if not isfinite(<double>span):
            raise ValueError(f"[{name}] from {start} to {stop} in steps of {step} is no finite number of values")
        length = max(int(ceil(<double>span)), 0)
    if length >= 2**60:
        raise ValueError(f"[{name}] {length} values are more than an array can hold")
    return length


def arange(start=None, stop=None, step=None, dtype=None, *, stream=None, device=None):
    """Evenly stepped values from start up to, but without, stop.

    Args:
        start: first value, 0 by default; a single argument is `stop`.
        stop: end of the range, not contained.
        step: distance between values, 1 by default, any sign but not zero.
        dtype: dtype of the result; by default int32 for integers (int64 where they need it), float32 where a float
            takes part. Values are worked out before they are cast.
        stream: stream or device to compute on; None is the default.
        device: the same, as the array API standard calls it.

    Returns:
        A 1-D array; empty where `stop` does not lie ahead of `start`.

    Raises:
        ValueError: for a step of zero, a range without a finite length or too long for an array, bool as dtype.
        TypeError: if an argument is no integer or float.

    Example:
        >>> mx.arange(1, 6, 2)
        array([1, 3, 5], dtype=int32)
        >>> mx.arange(0, 1, 0.25)
        array([0, 0.25, 0.5, 0.75], dtype=float32)
    """
    cdef mlxc_stream* s = pick_stream(stream, device)
    if stop is None:
        start, stop = 0, start
    if stop is None:
        raise TypeError("[arange] needs at least the end of the range")
    first = step_number(0 if start is None else start, "arange")
    last = step_number(stop, "arange")
    by = step_number(1 if step is None else step, "arange")
    whole = isinstance(first, int) and isinstance(last, int) and isinstance(by, int)
    cdef int64_t length = count_steps(first, last, by, "arange")
    extremes = (first, first + (length - 1) * by if length else first)
    cdef mlxc_dtype own = MLXC_FLOAT32
    if whole:
        own = MLXC_INT32 if -2**31 <= min(first, last) and max(first, last) < 2**31 else MLXC_INT64
    own = to_dtype_or(dtype, own)
    if own == MLXC_BOOL or is_complex(own):
        raise ValueError(f"[arange] makes integers and floats, not {dtype_object(own)}")
    if is_integer(own) and whole and max(abs(extremes[0]), abs(extremes[1]), abs(by)) > 2**53:
        return long_range(first, by, length, own, s)
    # A float step with an integer dtype: the values are rounded towards zero one by one.
    if is_integer(own) and not whole:
        return op_astype(op_arange(first, by, length, MLXC_FLOAT64, s), own, s)
    return op_arange(first, by, length, own, s)


cdef Array long_range(object first, object by, int64_t length, mlxc_dtype dtype, mlxc_stream* s):
    """Integers that a double does not hold: computed modulo 2**64 in integers."""
    cdef Array steps = op_multiply(count_up(length, MLXC_UINT64, s), as_operand(by % 2**64, MLXC_UINT64), s)
    return op_astype(op_add(steps, as_operand(first % 2**64, MLXC_UINT64), s), dtype, s)


def linspace(start, stop, num=50, endpoint=True, dtype=float32, stream=None, *, device=None):
    """A number of evenly spaced values from start to stop.

    Args:
        start: first value, a number; complex ones need a complex dtype, or None.
        stop: last value, the same.
        num: how many values, 50 by default.
        endpoint: whether `stop` is the last value, or the one that would follow.
        dtype: dtype of the result; float32 by default. Integers are rounded towards zero. None is float32, or
            complex64 between complex numbers.
        stream: stream or device to compute on; None is the default.
        device: the same, as the array API standard calls it.

    Returns:
        A 1-D array of `num` values.

    Raises:
        ValueError: if `num` is negative.
        TypeError: if `start` or `stop` is no integer or float.

    Example:
        >>> mx.linspace(0, 1, 5)
        array([0, 0.25, 0.5, 0.75, 1], dtype=float32)
    """
    cdef mlxc_stream* s = pick_stream(stream, device)
    cdef int64_t n = 50 if num is None else to_int(num, "num")
    if n < 0:
        raise ValueError(f"[linspace] num must not be negative, got {n}")
    first, last = [x.item() if type(x) is Array else x for x in (start, stop)]
    if not isinstance(first, complex) and not isinstance(last, complex):
        return space_between(step_number(first, "linspace"), step_number(last, "linspace"), n, endpoint,
                             to_dtype_or(dtype, MLXC_FLOAT32), s)
    cdef mlxc_dtype own = to_dtype_or(dtype, MLXC_COMPLEX64)
    if not is_complex(own):
        raise TypeError(f"[linspace] numbers from {first} to {last} need a complex dtype, not {dtype_object(own)}")
    first, last = complex(first), complex(last)
    cdef Array re = space_between(first.real, last.real, n, endpoint, MLXC_COMPLEX128, s)
    cdef Array im = space_between(first.imag, last.imag, n, endpoint, MLXC_COMPLEX128, s)
    return cast(op_add(re, op_multiply(im, as_operand(1j, MLXC_COMPLEX128), s), s), own, s)


cdef Array space_between(double first, double last, int64_t n, bint endpoint, mlxc_dtype own, mlxc_stream* s):
    cdef mlxc_dtype wide = MLXC_FLOAT64
    cdef double by
    cdef int64_t gaps = n - 1 if endpoint else n
    by = (last - first) / gaps if gaps > 0 else 0
    if own == MLXC_FLOAT32 or own == MLXC_FLOAT16 or own == MLXC_BFLOAT16:
        return op_arange(first, by, n, own, s)
    cdef Array out = op_arange(first, by, n, wide, s)
    if endpoint and n > 1:
        # first + (n - 1) * by can miss the last value by an ulp.
        out = op_slice_update(out, number(last, wide), (n - 1,), (1,), (1,), s)
    return cast(out, own, s)


def eye(n, m=None, k=0, dtype=float32, *, stream=None, device=None):
    """A matrix with ones on one diagonal and zeros elsewhere.

    Args:
        n: number of rows.
        m: number of columns; `n` by default.
        k: which diagonal: 0 the main one, positive above it, negative below.
        dtype: dtype of the result; float32 by default.
        stream: stream or device to compute on; None is the default.
        device: the same, as the array API standard calls it.

    Returns:
        An array of shape (n, m).

    Raises:
        ValueError: if a size is negative.

    Example:
        >>> mx.eye(2, 3, 1)
        array([[0, 1, 0],
               [0, 0, 1]], dtype=float32)
    """
    cdef mlxc_stream* s = pick_stream(stream, device)
    cdef mlxc_dtype own = to_dtype_or(dtype, MLXC_FLOAT32)
    rows, columns = argument_grids(n, n if m is None else m, k, s)
    return op_astype(op_equal(rows, columns, s), own, s)


cdef tuple place_grids(int64_t rows, int64_t columns, int64_t k, mlxc_stream* s):
    """Row numbers plus k as a column, and column numbers as a row."""
    cdef Shape column
    if rows < 0 or columns < 0:
        raise ValueError(f"a matrix cannot have the shape {(rows, columns)}")
    column.n = 2
    column.v[0], column.v[1] = rows, 1
    return reshaped(op_arange(k, 1, rows, MLXC_INT64, s), &column, s), count_up(columns, MLXC_INT64, s)


cdef tuple argument_grids(object n, object m, object k, mlxc_stream* s):
    cdef int64_t rows = to_int(n, "the number of rows"), columns = to_int(m, "the number of columns")
    return place_grids(rows, columns, to_int(k, "k"), s)


def identity(n, dtype=float32, *, stream=None):
    """The identity matrix.

    Args:
        n: number of rows and columns.
        dtype: dtype of the result; float32 by default.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (n, n).

    Raises:
        ValueError: if `n` is negative.

    Example:
        >>> mx.identity(2)
        array([[1, 0],
               [0, 1]], dtype=float32)
    """
    return eye(n, dtype=dtype, stream=stream)


def tri(n, m=None, k=0, dtype=None, *, stream=None):
    """Ones at and below a diagonal, zeros above it.

    Args:
        n: number of rows.
        m: number of columns; `n` by default.
        k: which diagonal: 0 the main one, positive above it, negative below.
        dtype: dtype of the result; float32 by default.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (n, m).

    Raises:
        ValueError: if a size is negative.

    Example:
        >>> mx.tri(2, 3)
        array([[1, 0, 0],
               [1, 1, 0]], dtype=float32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef mlxc_dtype own = to_dtype_or(dtype, MLXC_FLOAT32)
    rows, columns = argument_grids(n, n if m is None else m, k, s)
    return op_astype(op_greater_equal(rows, columns, s), own, s)


def tril(x, k=0, *, stream=None):
    """The lower triangle of matrices; zeros above the diagonal.

    Args:
        x: array of at least two dimensions, any dtype.
        k: the last diagonal that is kept: 0 the main one, positive above it, negative below.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `x`.

    Raises:
        ValueError: if `x` has fewer than two dimensions.

    Example:
        >>> mx.tril(mx.ones((2, 2)))
        array([[1, 0],
               [1, 1]], dtype=float32)
    """
    return keep_triangle(as_array(x), to_int(k, "k"), True, "tril", to_stream(stream))


def triu(x, k=0, *, stream=None):
    """The upper triangle of matrices; zeros below the diagonal.

    Args:
        x: array of at least two dimensions, any dtype.
        k: the first diagonal that is kept: 0 the main one, positive above it, negative below.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `x`.

    Raises:
        ValueError: if `x` has fewer than two dimensions.

    Example:
        >>> mx.triu(mx.ones((2, 2)))
        array([[1, 1],
               [0, 1]], dtype=float32)
    """
    return keep_triangle(as_array(x), to_int(k, "k"), False, "triu", to_stream(stream))


cdef Array keep_triangle(Array x, int64_t k, bint lower, str name, mlxc_stream* s):
    cdef int32_t ndim = mlxc_array_ndim(x.h)
    if ndim < 2:
        raise ValueError(f"[{name}] takes an array of at least two dimensions, got shape {tuple(dims(x))}")
    cdef Array rows, columns, mask
    rows, columns = place_grids(mlxc_array_dim(x.h, ndim - 2), mlxc_array_dim(x.h, ndim - 1), k, s)
    mask = op_greater_equal(rows, columns, s) if lower else op_greater_equal(columns, rows, s)
    return op_where(mask, x, number(0, mlxc_array_dtype(x.h)), s)


def meshgrid(*arrays, sparse=False, indexing="xy", stream=None):
    """Coordinate grids from coordinate vectors.

    Args:
        *arrays: arrays of at most one dimension.
        sparse: whether to leave the grids unstretched, to be broadcast later.
        indexing: "xy" (columns first, as in plots) or "ij" (rows first, as in matrices).
        stream: stream or device to compute on; None is the default.

    Returns:
        A tuple of arrays, one a vector.

    Raises:
        ValueError: for an array of two or more dimensions, or another `indexing`.

    Example:
        >>> x, y = mx.meshgrid(mx.arange(3), mx.arange(2))
        >>> y
        array([[0, 0, 0],
               [1, 1, 1]], dtype=int32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef list found = [as_array(a) for a in arrays], out = []
    cdef int32_t n = <int32_t>len(found), i, k, place
    cdef Shape shape, common
    if n > MLXC_MAX_NDIM:
        raise ValueError(f"[meshgrid] makes arrays of at most {MLXC_MAX_NDIM} axes, got {n} vectors")
    shape.n = common.n = n
    if indexing not in ("xy", "ij"):
        raise ValueError(f"[meshgrid] indexing is 'xy' or 'ij', not {indexing!r}")
    for i in range(n):
        if mlxc_array_ndim((<Array>found[i]).h) > 1:
            raise ValueError(f"[meshgrid] takes arrays of one dimension, got shape {tuple(dims(found[i]))}")
        place = 1 - i if indexing == "xy" and n > 1 and i < 2 else i
        for k in range(n):
            shape.v[k] = 1
        shape.v[place] = mlxc_array_size((<Array>found[i]).h)
        out.append(reshaped(found[i], &shape, s))
        common.v[place] = shape.v[place]
    if sparse:
        return tuple(out)
    return tuple([stretched(x, &common, s) for x in out])


def diag(a, /, k=0, *, stream=None):
    """A matrix with a vector on its diagonal, or the diagonal of a matrix.

    Args:
        a: array of one or two dimensions, any dtype.
        k: which diagonal: 0 the main one, positive above it, negative below.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`, a matrix for a vector and a vector for a matrix.

    Raises:
        ValueError: if `a` has neither one nor two dimensions.

    Example:
        >>> mx.diag(mx.array([1, 2]))
        array([[1, 0],
               [0, 2]], dtype=int32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    cdef int64_t offset = to_int(k, "k"), length, size
    if mlxc_array_ndim(x.h) == 2:
        return diagonal(x, offset, stream=stream)
    if mlxc_array_ndim(x.h) != 1:
        raise ValueError(f"[diag] takes an array of one or two dimensions, got shape {tuple(dims(x))}")
    length = mlxc_array_size(x.h)
    size = length + (offset if offset > 0 else -offset)
    cdef Shape shape
    cdef mlxc_array* out = NULL
    cdef Array flat = number(0, mlxc_array_dtype(x.h)), square
    shape.n = 1
    shape.v[0] = size * size
    check(mlxc_full(flat.h, shape.v, 1, s, &out))
    square = wrap(out)
    if length:
        offset = offset if offset > 0 else -offset * size
        shape.v[0] = size + 1
        check(mlxc_slice_update(square.h, x.h, &offset, 1, shape.v, 1, &length, 1, s, &out))
        square = wrap(out)
    shape.n = 2
    shape.v[0] = shape.v[1] = size
    return reshaped(square, &shape, s)
