# Indexing by arrays as functions: take, take_along_axis, put_along_axis, and slices whose start is in an array.
# Indices may be negative; those out of range raise IndexError when the array is evaluated on the CPU.
from mlxc._args cimport to_axis, to_int
from mlxc._array cimport Array, as_array, as_operand
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport dtype_object, is_integer
from mlxc._prim cimport (cast, count_up, dims, number_int, op_add, op_broadcast_to, op_gather, op_gather_axis,
                         op_maximum, op_minimum, op_reshape, op_scatter, op_scatter_axis, ravel, slice_axis, take_axis)

__all__ = ["put_along_axis", "slice", "slice_update", "take", "take_along_axis"]


cdef Array as_indices(object value, str name):
    cdef Array indices = as_array(value)
    if not is_integer(mlxc_array_dtype(indices.h)):
        raise TypeError(f"[{name}] indices must be integers, got {dtype_object(mlxc_array_dtype(indices.h))}")
    return indices


def take(a, /, indices, axis=None, *, stream=None):
    """Elements, or slices along an axis, picked by index.

    Args:
        a: array, any dtype.
        indices: int or integer array of any shape; negative ones count from the end.
        axis: the axis; None picks from the flattened array.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array in which the axis is replaced by the axes of `indices`, with the dtype of `a`.

    Raises:
        IndexError: on evaluation, for an index out of range.
        ValueError: if the axis is out of range.
        TypeError: if the indices are no integers.

    Example:
        >>> mx.take(mx.array([10, 20, 30]), mx.array([2, -3]))
        array([30, 10], dtype=int32)
    """
    cdef Array x = as_array(a), places = as_indices(indices, "take")
    cdef mlxc_stream* s = to_stream(stream)
    if axis is None:
        return take_axis(ravel(x, s), places, 0, s)
    return take_axis(x, places, to_axis(axis, mlxc_array_ndim(x.h)), s)


def take_along_axis(a, /, indices, axis=-1, *, stream=None):
    """For each place of an index array, the element of a at that index along an axis.

    Args:
        a: array, any dtype.
        indices: integer array with as many dimensions as `a`; its other axes broadcast with those of `a`.
        axis: the axis, the last by default; None flattens both arrays first.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the broadcast shape of `indices`, with the dtype of `a`.

    Raises:
        IndexError: on evaluation, for an index out of range.
        ValueError: if the numbers of dimensions differ, the other axes do not broadcast, or the axis is out of range.
        TypeError: if the indices are no integers.

    Example:
        >>> a = mx.array([[3, 1], [2, 4]])
        >>> mx.take_along_axis(a, mx.argsort(a), axis=-1)
        array([[1, 3],
               [2, 4]], dtype=int32)
    """
    cdef Array x = as_array(a), places = as_indices(indices, "take_along_axis")
    cdef mlxc_stream* s = to_stream(stream)
    if axis is None:
        return op_gather_axis(ravel(x, s), ravel(places, s), 0, s)
    check_dimensions(x, places, "take_along_axis")
    return op_gather_axis(x, places, to_axis(axis, mlxc_array_ndim(x.h)), s)


cdef int check_dimensions(Array x, Array places, str name) except -1:
    if mlxc_array_ndim(places.h) != mlxc_array_ndim(x.h):
        raise ValueError(f"[{name}] array and indices must have equally many dimensions, got the shapes "
                         f"{tuple(dims(x))} and {tuple(dims(places))}")
    return 0


def put_along_axis(a, /, indices, values, axis=None, *, stream=None):
    """a with the elements that take_along_axis would read replaced.

    Args:
        a: array, any dtype.
        indices: integer array with as many dimensions as `a`; its other axes broadcast to those of `a`.
        values: array or scalar that broadcasts to the shape of `indices`; cast to the dtype of `a`.
        axis: the axis; None writes into the flattened array and restores its shape.
        stream: stream or device to compute on; None is the default.

    Returns:
        A new array of the shape and dtype of `a`. Where an index occurs twice, the last value stays.

    Raises:
        IndexError: on evaluation, for an index out of range.
        ValueError: if the numbers of dimensions differ, shapes do not broadcast, or the axis is out of range.
        TypeError: if the indices are no integers.

    Example:
        >>> mx.put_along_axis(mx.array([1, 2, 3]), mx.array([0, 2]), 9, axis=0)
        array([9, 2, 9], dtype=int32)
    """
    cdef Array x = as_array(a), places = as_indices(indices, "put_along_axis"), new
    cdef mlxc_stream* s = to_stream(stream)
    new = cast(as_operand(values, mlxc_array_dtype(x.h)), mlxc_array_dtype(x.h), s)
    if axis is None:
        if mlxc_array_size(new.h) == mlxc_array_size(places.h):
            new = ravel(new, s)
        places = ravel(places, s)
        new = op_broadcast_to(new, dims(places), s)
        return op_reshape(op_scatter_axis(ravel(x, s), places, new, 0, 0, s), dims(x), s)
    check_dimensions(x, places, "put_along_axis")
    return op_scatter_axis(x, places, new, to_axis(axis, mlxc_array_ndim(x.h)), 0, s)


cdef list window_places(Array x, object start, object axes, list sizes, str name, mlxc_stream* s):
    """The index arrays of a window: for each axis, its places shaped so that they broadcast against each other.

    `start` holds the window's first place along the axes named; along the others it begins at 0. A window that
    reaches over an end is moved back inside, as its start is known at evaluation only.
    """
    cdef int32_t ndim = mlxc_array_ndim(x.h), axis
    cdef list shape = dims(x), named = list(axes) if isinstance(axes, (list, tuple)) else [axes]
    cdef list out = []
    named = [to_axis(i, ndim) for i in named]
    cdef Array starts = op_reshape(as_indices(start, name), (-1,), s), places
    if len(sizes) != ndim or any(size < 0 or size > n for size, n in zip(sizes, shape)):
        raise ValueError(f"[{name}] a window of shape {tuple(sizes)} does not fit an array of shape {tuple(shape)}")
    if len(set(named)) != len(named) or mlxc_array_size(starts.h) != len(named):
        raise ValueError(f"[{name}] got {mlxc_array_size(starts.h)} starts for the axes {axes}, which must be "
                         "different")
    starts = cast(starts, MLXC_INT64, s)
    for axis in range(ndim):
        places = count_up(sizes[axis], MLXC_INT64, s)
        if axis in named:
            first = slice_axis(starts, 0, named.index(axis), 1, 1, s)
            first = op_minimum(first, number_int(shape[axis] - sizes[axis], MLXC_INT64), s)
            places = op_add(places, op_maximum(first, number_int(0, MLXC_INT64), s), s)
        out.append(op_reshape(places, [-1] + [1] * (ndim - 1 - axis), s))
    return out


def slice(a, start_indices, axes, slice_size, *, stream=None):
    """A window of fixed size whose start is in an array.

    Args:
        a: array, any dtype.
        start_indices: integer array with one start for each of `axes`.
        axes: the axes that the starts belong to; along the others the window starts at 0.
        slice_size: the window's size along every axis.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape `slice_size` and the dtype of `a`. A window that would reach over an end is moved inside.

    Raises:
        ValueError: if the window is larger than `a`, or numbers of starts and axes differ.
        TypeError: if the starts are no integers.

    Example:
        >>> mx.slice(mx.arange(12).reshape(3, 4), mx.array([1, 2]), (0, 1), (2, 2))
        array([[6, 7],
               [10, 11]], dtype=int32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    cdef list sizes = [to_int(n, "slice_size") for n in slice_size]
    if mlxc_array_ndim(x.h) == 0:
        raise ValueError("[slice] takes an array of at least one dimension")
    places = window_places(x, start_indices, axes, sizes, "slice", s)
    return op_gather(x, places, list(range(mlxc_array_ndim(x.h))), s)


def slice_update(a, update, start_indices, axes, *, stream=None):
    """a with a window, whose start is in an array, replaced.

    Args:
        a: array, any dtype.
        update: the window's new content, with at most as many dimensions as `a`; cast to its dtype.
        start_indices: integer array with one start for each of `axes`.
        axes: the axes that the starts belong to; along the others the window starts at 0.
        stream: stream or device to compute on; None is the default.

    Returns:
        A new array of the shape and dtype of `a`. A window that would reach over an end is moved inside.

    Raises:
        ValueError: if the window is larger than `a`, or numbers of starts and axes differ.
        TypeError: if the starts are no integers.

    Example:
        >>> mx.slice_update(mx.zeros((2, 3)), mx.ones((1, 2)), mx.array([1, 1]), (0, 1))
        array([[0, 0, 0],
               [0, 1, 1]], dtype=float32)
    """
    cdef Array x = as_array(a), new = as_operand(update, mlxc_array_dtype(x.h))
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t ndim = mlxc_array_ndim(x.h)
    cdef list sizes = [1] * (ndim - mlxc_array_ndim(new.h)) + dims(new)
    if ndim == 0:
        raise ValueError("[slice_update] takes an array of at least one dimension")
    places = window_places(x, start_indices, axes, sizes, "slice_update", s)
    new = op_reshape(cast(new, mlxc_array_dtype(x.h), s), sizes, s)
    return op_scatter(x, new, places, list(range(ndim)), 0, s)
