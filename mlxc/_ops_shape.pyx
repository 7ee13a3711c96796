# Functions that give the elements of an array another shape or order of axes: reshape, transpose, broadcast and
# their kin. Most are views, so they cost no copy. Joining and cutting is in _ops_join.pyx.
from mlxc._args cimport Axes, Shape, to_axes, to_axis, to_int
from mlxc._array cimport Array, as_array, wrap
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._error cimport check
from mlxc._prim cimport (alias, count_up, dims, need_values, number_int, op_add, op_broadcast_to, op_expand_dims,
                         op_gather, op_multiply, op_reshape, op_squeeze, op_transpose, ravel, reshaped, stretched,
                         transposed)

from mlxc._error import AxisError

__all__ = ["as_strided", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes",
           "broadcast_to", "diagonal", "expand_dims", "flatten", "matrix_transpose", "moveaxis", "permute_dims",
           "reshape", "squeeze", "swapaxes", "transpose", "unflatten"]


def reshape(a, /, shape, *, copy=None, stream=None):
    """The same elements, in row-major order, in another shape.

    Args:
        a: array or scalar, any shape and dtype.
        shape: sizes of the result; one may be -1 and is worked out from the rest.
        copy: False evaluates `a` and refuses a shape that its memory cannot be seen in without a copy. Arrays never
            change under a reader, so True needs no copy either.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape, with the dtype of `a`.

    Raises:
        ValueError: if the number of elements differs, two sizes are -1, or copy=False would need a copy.

    Example:
        >>> mx.reshape(mx.arange(6), (2, -1))
        array([[0, 1, 2],
               [3, 4, 5]], dtype=int32)
    """
    cdef Array x = as_array(a), out
    if copy is None or copy is True:
        return op_reshape(x, shape, to_stream(stream))
    if copy is not False:
        raise TypeError(f"[reshape] copy is True, False or None, got {copy!r}")
    if mlxc_array_is_traced(x.h):
        return op_reshape(x, shape, to_stream(stream))
    need_values(x, "reshape")
    out = op_reshape(x, shape, to_stream(stream))
    if mlxc_array_status(out.h) != 1:
        raise ValueError(f"[reshape] copy=False, but the memory of this array of shape {tuple(dims(x))} cannot be seen "
                         f"in the shape {tuple(dims(out))}")
    return out


def flatten(a, /, start_axis=0, end_axis=-1, *, stream=None):
    """A range of axes merged into one.

    Args:
        a: array or scalar, any dtype.
        start_axis: first axis to merge; 0 by default.
        end_axis: last axis to merge; the last one by default. Axes past the ends are clamped.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`; of a 0-d array its one element in one dimension.

    Raises:
        ValueError: if `start_axis` lies behind `end_axis`.

    Example:
        >>> mx.flatten(mx.zeros((2, 3, 4)), 1).shape
        (2, 12)
    """
    cdef Array x = as_array(a)
    cdef int64_t ndim = mlxc_array_ndim(x.h), first = to_int(start_axis, "start_axis")
    cdef int64_t last = to_int(end_axis, "end_axis"), i
    cdef Shape shape
    cdef const int64_t* sizes = mlxc_array_shape(x.h)
    if ndim == 0:
        shape.n = 1
        shape.v[0] = 1
        return reshaped(x, &shape, to_stream(stream))
    first = max(first + ndim if first < 0 else first, 0)
    last = min(last + ndim if last < 0 else last, ndim - 1)
    if first > last or first >= ndim or last < 0:
        raise AxisError(f"[flatten] start_axis {start_axis} and end_axis {end_axis} name no axes of an array of "
                        f"{ndim} dimensions in this order")
    shape.n = <int32_t>(ndim - (last - first))
    shape.v[first] = 1
    for i in range(ndim):
        if first <= i <= last:
            shape.v[first] *= sizes[i]
        else:
            shape.v[i if i < first else i - (last - first)] = sizes[i]
    return reshaped(x, &shape, to_stream(stream))


def unflatten(a, /, axis, shape, *, stream=None):
    """One axis split into several.

    Args:
        a: array, any dtype.
        axis: the axis to split.
        shape: sizes of the new axes; one may be -1. Their product is the size of the axis.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ValueError: if the sizes do not make up the axis, or `shape` is empty.

    Example:
        >>> mx.unflatten(mx.zeros((2, 12)), 1, (3, -1)).shape
        (2, 3, 4)
    """
    cdef Array x = as_array(a)
    cdef int32_t ndim = mlxc_array_ndim(x.h), ax = to_axis(axis, ndim), i, n, open_place = -1, n_open = 0
    cdef object known = 1, size = mlxc_array_dim(x.h, ax)
    cdef Shape out
    cdef const int64_t* sizes = mlxc_array_shape(x.h)
    cdef bint fits = True
    cdef tuple parts = tuple(shape)
    n = <int32_t>len(parts)
    if n == 0:
        raise ValueError("[unflatten] shape must name at least one size")
    if n + ndim - 1 > MLXC_MAX_NDIM:
        raise ValueError(f"[unflatten] an array has at most {MLXC_MAX_NDIM} axes, not {n + ndim - 1}")
    out.n = n + ndim - 1
    for i in range(ndim):
        out.v[i if i <= ax else i + n - 1] = sizes[i]
    for i in range(n):
        out.v[ax + i] = to_int(parts[i], "a shape's size")
        if out.v[ax + i] == -1:
            open_place = ax + i
            n_open += 1
        else:
            fits = fits and out.v[ax + i] >= 0
            known *= out.v[ax + i]
    if n_open == 1 and known > 0 and size % known == 0:
        out.v[open_place] = size // known
        known = size
    if not fits or known != size or n_open > 1:
        raise ValueError(f"[unflatten] axis {axis} of size {size} cannot be split into {parts}")
    return reshaped(x, &out, to_stream(stream))


def squeeze(a, /, axis=None, *, stream=None):
    """Axes of size one removed.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes to remove; None removes all of size one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ValueError: if a named axis is not of size one or is out of range.

    Example:
        >>> mx.squeeze(mx.zeros((1, 3, 1)), 0).shape
        (3, 1)
    """
    return op_squeeze(as_array(a), axis, to_stream(stream))


def expand_dims(a, /, axis, *, stream=None):
    """Axes of size one inserted.

    Args:
        a: array or scalar, any dtype.
        axis: where the new axes are in the result; an int or several.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ValueError: if an axis is out of range or given twice.

    Example:
        >>> mx.expand_dims(mx.zeros((2, 3)), (0, -1)).shape
        (1, 2, 3, 1)
    """
    return op_expand_dims(as_array(a), () if axis is None else axis, to_stream(stream))


def moveaxis(a, /, source, destination, *, stream=None):
    """Axes moved to other places, the rest in their old order.

    Args:
        a: array, any dtype.
        source: the axis to move, or several.
        destination: where each goes.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ValueError: if an axis is out of range or named twice, or the two arguments differ in length.

    Example:
        >>> mx.moveaxis(mx.zeros((2, 3, 4)), 0, 2).shape
        (3, 4, 2)
    """
    cdef Array x = as_array(a)
    cdef int32_t ndim = mlxc_array_ndim(x.h), i, n
    cdef Axes moved, places, order
    to_axes(source, &moved)
    to_axes(destination, &places)
    if source is None or destination is None:
        to_int(None, "an axis")
    cdef uint64_t taken = 0, filled = 0
    cdef bint good = moved.n == places.n
    for i in range(moved.n):
        moved.v[i] = to_axis(moved.v[i], ndim)
        good = good and not taken >> moved.v[i] & 1
        taken |= <uint64_t>1 << moved.v[i]
    for i in range(places.n):
        places.v[i] = to_axis(places.v[i], ndim)
        good = good and not filled >> places.v[i] & 1
        filled |= <uint64_t>1 << places.v[i]
    if not good:
        raise ValueError(f"[moveaxis] source {source} and destination {destination} must name equally many axes, "
                         "none of them twice")
    order.n = ndim
    for i in range(moved.n):
        order.v[places.v[i]] = moved.v[i]
    n = 0
    for i in range(ndim):
        if not taken >> i & 1:
            while filled >> n & 1:
                n += 1
            order.v[n] = i
            n += 1
    return transposed(x, &order, to_stream(stream))


def swapaxes(a, /, axis1, axis2, *, stream=None):
    """Two axes exchanged.

    Args:
        a: array, any dtype.
        axis1: one axis.
        axis2: the other.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ValueError: if an axis is out of range.

    Example:
        >>> mx.swapaxes(mx.zeros((2, 3, 4)), 0, 2).shape
        (4, 3, 2)
    """
    cdef Array x = as_array(a)
    cdef int32_t ndim = mlxc_array_ndim(x.h), i = to_axis(axis1, ndim), j = to_axis(axis2, ndim), k
    cdef Axes order
    order.n = ndim
    for k in range(ndim):
        order.v[k] = j if k == i else i if k == j else k
    return transposed(x, &order, to_stream(stream))


def transpose(a, /, axes=None, *, stream=None):
    """Axes permuted.

    Args:
        a: array or scalar, any dtype.
        axes: for each axis of the result, the axis of `a` that it is; None reverses the order.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ValueError: if `axes` is not a permutation of the axes.

    Example:
        >>> mx.transpose(mx.zeros((2, 3, 4)), (1, 0, 2)).shape
        (3, 2, 4)
    """
    return op_transpose(as_array(a), axes, to_stream(stream))


permute_dims = transpose


def matrix_transpose(a, /, *, stream=None):
    """The last two axes exchanged.

    Args:
        a: array of at least two dimensions, any dtype.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ValueError: if `a` has fewer than two dimensions.

    Example:
        >>> mx.matrix_transpose(mx.zeros((5, 2, 3))).shape
        (5, 3, 2)
    """
    cdef Array x = as_array(a)
    if mlxc_array_ndim(x.h) < 2:
        raise ValueError(f"[matrix_transpose] takes an array of at least two dimensions, got shape {tuple(dims(x))}")
    return swapaxes(x, -2, -1, stream=stream)


def broadcast_to(a, /, shape, *, stream=None):
    """a stretched to a shape by NumPy's rules, without a copy.

    Args:
        a: array or scalar, any dtype.
        shape: the shape of the result.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and the dtype of `a`.

    Raises:
        ValueError: if the shape of `a` does not broadcast to `shape`.

    Example:
        >>> mx.broadcast_to(mx.array([1, 2]), (2, 2))
        array([[1, 2],
               [1, 2]], dtype=int32)
    """
    return op_broadcast_to(as_array(a), shape, to_stream(stream))


def broadcast_arrays(*arrays, stream=None):
    """Arrays stretched to their common shape.

    Args:
        *arrays: arrays or scalars of any dtype.
        stream: stream or device to compute on; None is the default.

    Returns:
        A tuple of arrays of the common shape, each with its own dtype.

    Raises:
        ValueError: if the shapes do not broadcast.

    Example:
        >>> [x.shape for x in mx.broadcast_arrays(mx.zeros((2, 1)), mx.zeros(3))]
        [(2, 3), (2, 3)]
    """
    return stretch_all([as_array(a) for a in arrays], to_stream(stream))


cdef tuple stretch_all(list arrays, mlxc_stream* s):
    """The arrays broadcast to their common shape."""
    cdef Shape shape
    cdef mlxc_error* error
    shape.n = 0
    for x in arrays:
        error = mlxc_broadcast_shapes(shape.n, shape.v, mlxc_array_ndim((<Array>x).h), mlxc_array_shape((<Array>x).h),
                                      &shape.n, shape.v)
        if error is not NULL:
            mlxc_error_free(error)
            broadcast_shapes(*[dims(y) for y in arrays])  # raises, naming all of them
    return tuple([stretched(x, &shape, s) for x in arrays])


def broadcast_shapes(*shapes):
    """The common shape of several shapes.

    Args:
        *shapes: sequences of sizes.

    Returns:
        The shape as a tuple; `()` without arguments.

    Raises:
        ValueError: if the shapes do not broadcast.

    Example:
        >>> mx.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    cdef list out = []
    for shape in shapes:
        sizes = [to_int(n, "a shape's size") for n in shape]
        if min(sizes, default=0) < 0:
            raise ValueError(f"[broadcast_shapes] sizes must not be negative, got {tuple(sizes)}")
        missing = len(sizes) - len(out)
        out = [1] * missing + out
        sizes = [1] * -missing + sizes
        for i, n in enumerate(sizes):
            if out[i] == 1:
                out[i] = n
            elif n != 1 and n != out[i]:
                raise ValueError("[broadcast_shapes] the shapes "
                                 f"{', '.join(str(tuple(t)) for t in shapes)} do not broadcast")
    return tuple(out)


def atleast_1d(*arys, stream=None):
    """Arrays with axes added until they have one dimension.

    Args:
        *arys: arrays or scalars of any dtype.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array for one argument, else a list of arrays.

    Example:
        >>> mx.atleast_1d(mx.array(3))
        array([3], dtype=int32)
    """
    return at_least(1, arys, to_stream(stream))


def atleast_2d(*arys, stream=None):
    """Arrays with axes added in front until they have two dimensions.

    Args:
        *arys: arrays or scalars of any dtype.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array for one argument, else a list of arrays.

    Example:
        >>> mx.atleast_2d(mx.array([1, 2])).shape
        (1, 2)
    """
    return at_least(2, arys, to_stream(stream))


def atleast_3d(*arys, stream=None):
    """Arrays with axes added until they have three dimensions: N becomes (1, N, 1), (M, N) becomes (M, N, 1).

    Args:
        *arys: arrays or scalars of any dtype.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array for one argument, else a list of arrays.

    Example:
        >>> mx.atleast_3d(mx.array([1, 2])).shape
        (1, 2, 1)
    """
    return at_least(3, arys, to_stream(stream))


cdef object at_least(int32_t want, tuple arrays, mlxc_stream* s):
    cdef list out = [add_axes(as_array(a), want, s) for a in arrays]
    return out[0] if len(out) == 1 else out


cdef Array add_axes(Array a, int32_t want, mlxc_stream* s):
    cdef int32_t ndim = mlxc_array_ndim(a.h)
    if ndim >= want:
        return alias(a)
    cdef list shape = dims(a)
    if ndim == 2:
        return op_reshape(a, shape + [1], s)
    if ndim == 1:
        return op_reshape(a, [1] + shape + [1] * (want - 2), s)
    return op_reshape(a, [1] * want, s)


def diagonal(a, offset=0, axis1=0, axis2=1, stream=None):
    """A diagonal of two axes, which becomes the last axis.

    Args:
        a: array of at least two dimensions, any dtype.
        offset: 0 for the main diagonal, positive above it, negative below.
        axis1: axis of the rows.
        axis2: axis of the columns.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of one dimension less, with the dtype of `a`; empty where the offset leaves the matrix.

    Raises:
        ValueError: if an axis is out of range, or both are the same.

    Example:
        >>> mx.diagonal(mx.arange(9).reshape(3, 3), 1)
        array([1, 5], dtype=int32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t ndim = mlxc_array_ndim(x.h)
    if ndim < 2:
        raise ValueError(f"[diagonal] takes an array of at least two dimensions, got shape {tuple(dims(x))}")
    cdef int32_t i = to_axis(axis1, ndim), j = to_axis(axis2, ndim)
    if i == j:
        raise ValueError(f"[diagonal] axis1 and axis2 are both axis {i}")
    cdef const int64_t* sizes = mlxc_array_shape(x.h)
    cdef int64_t rows = sizes[i], columns = sizes[j], k = to_int(offset, "offset")
    cdef int64_t length = min(rows, columns - k) if k >= 0 else min(rows + k, columns)
    cdef Shape outer, start, step
    cdef Axes order
    cdef mlxc_array* out = NULL
    cdef int32_t d, n = 0
    for d in range(ndim):
        if d != i and d != j:
            order.v[n] = d
            outer.v[n] = sizes[d]
            start.v[n] = 0
            step.v[n] = 1
            n += 1
    order.v[n] = i
    order.v[n + 1] = j
    order.n = ndim
    # Neighbours on the diagonal are a row and a column apart.
    outer.n = n + 1
    outer.v[n] = rows * columns
    x = reshaped(x if ndim == 2 and i == 0 else transposed(x, &order, s), &outer, s)
    outer.v[n] = length if length > 0 else 0
    start.v[n] = (k if k >= 0 else -k * columns) if length > 0 else 0
    step.v[n] = columns + 1
    check(mlxc_slice(x.h, start.v, outer.n, step.v, outer.n, outer.v, outer.n, s, &out))
    return wrap(out)


def as_strided(a, /, shape=None, strides=None, offset=0, *, stream=None):
    """The elements of a, row-major, read with any shape and strides.

    Args:
        a: array or scalar, any shape and dtype.
        shape: shape of the result; None is that of `a`.
        strides: for each axis of the result, how many elements lie between neighbours, any sign; None is row-major.
        offset: place of the first element.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and the dtype of `a`: a copy, so elements that appear twice are apart.

    Raises:
        ValueError: if an element would lie outside `a`, or shape and strides differ in length.

    Example:
        >>> mx.as_strided(mx.arange(5), (3, 3), (1, 1))
        array([[0, 1, 2],
               [1, 2, 3],
               [2, 3, 4]], dtype=int32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    cdef list sizes = dims(x) if shape is None else [to_int(n, "a shape's size") for n in shape]
    cdef list steps = [1] * len(sizes)
    cdef object low = to_int(offset, "offset"), high = low, length = mlxc_array_size(x.h)
    if min(sizes, default=0) < 0:
        raise ValueError(f"[as_strided] sizes must not be negative, got {tuple(sizes)}")
    if strides is not None:
        steps = [to_int(n, "a stride") for n in strides]
    else:
        for k in range(len(sizes) - 2, -1, -1):
            steps[k] = steps[k + 1] * sizes[k + 1]
    if len(steps) != len(sizes):
        raise ValueError(f"[as_strided] shape {tuple(sizes)} and strides {tuple(steps)} differ in length")
    if 0 not in sizes:
        for size, step in zip(sizes, steps):
            low += min((size - 1) * step, 0)
            high += max((size - 1) * step, 0)
        if low < 0 or high >= length:
            raise ValueError(f"[as_strided] shape {tuple(sizes)}, strides {tuple(steps)} and offset {offset} reach the "
                             f"places {low} to {high} of an array of {length} elements")
    else:
        steps = [0] * len(sizes)
        offset = 0
    cdef Array places = op_broadcast_to(number_int(offset, MLXC_INT64), sizes, s)
    cdef int32_t ndim = <int32_t>len(sizes), d
    for d in range(ndim):
        if sizes[d] == 0:
            continue
        along = op_multiply(count_up(sizes[d], MLXC_INT64, s), number_int(steps[d], MLXC_INT64), s)
        places = op_add(places, op_reshape(along, [-1] + [1] * (ndim - 1 - d), s), s)
    return op_gather(ravel(x, s), [places], 0, s)
