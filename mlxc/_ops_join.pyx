# Functions that join, cut, repeat and reorder along axes: concatenate, stack, split, repeat, tile, pad, roll, flip.
# They are made of slices, broadcasts, gathers and concatenate, and keep the rules of NumPy's functions of these names.
from libc.string cimport memcmp

from mlxc._args cimport Shape, to_axis, to_int, to_shape
from mlxc._array cimport Array, as_array, as_operand, wrap
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport dtype_object, is_integer
from mlxc._error cimport check
from mlxc._prim cimport (alias, array_list, axis_list, cast, count_up, dims, need_values, number_int, op_arange,
                         op_broadcast_to, op_concatenate, op_cumsum, op_maximum, op_min, op_minimum, op_remainder,
                         op_reshape, op_slice, op_subtract, ravel, read_shape, reshaped, slice_axis, stretched,
                         take_axis, with_axis, without_axis)

__all__ = ["concat", "concatenate", "flip", "pad", "repeat", "roll", "split", "stack", "tile", "unstack"]


def concatenate(arrays, axis=0, *, stream=None):
    """Arrays joined along an existing axis.

    Args:
        arrays: list or tuple of arrays that differ in size along `axis` only, any dtypes.
        axis: the axis; None joins the flattened arrays.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype that the arrays promote to.

    Raises:
        ValueError: without arrays, for shapes that do not fit, or an axis out of range.
        TypeError: if `arrays` is no list or tuple of arrays.

    Example:
        >>> mx.concatenate([mx.array([1, 2]), mx.array([3.0])])
        array([1, 2, 3], dtype=float32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef list found = array_list(arrays, "concatenate")
    if not found:
        raise ValueError("[concatenate] needs at least one array")
    if axis is None:
        return op_concatenate([ravel(x, s) for x in found], 0, s)
    return op_concatenate(found, to_axis(axis, mlxc_array_ndim((<Array>found[0]).h)), s)


concat = concatenate


def stack(arrays, axis=0, *, stream=None):
    """Arrays of one shape joined along a new axis.

    Args:
        arrays: list or tuple of arrays of equal shape, any dtypes.
        axis: where the new axis is in the result; None is the front.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of one dimension more, with the dtype that the arrays promote to.

    Raises:
        ValueError: without arrays, for shapes that differ, or an axis out of range.
        TypeError: if `arrays` is no list or tuple of arrays.

    Example:
        >>> mx.stack([mx.array([1, 2]), mx.array([3, 4])], axis=1)
        array([[1, 3],
               [2, 4]], dtype=int32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef list found = array_list(arrays, "stack")
    if not found:
        raise ValueError("[stack] needs at least one array")
    if axis is None:
        axis = 0
    cdef Array first = found[0], x
    cdef int32_t ndim = mlxc_array_ndim(first.h), i
    cdef Shape shape
    for x in found:
        if mlxc_array_ndim(x.h) != ndim or memcmp(mlxc_array_shape(x.h), mlxc_array_shape(first.h),
                                                  ndim * sizeof(int64_t)):
            raise ValueError(f"[stack] all arrays must have the same shape, got {tuple(dims(first))} and "
                             f"{tuple(dims(x))}")
    cdef int32_t ax = to_axis(axis, ndim + 1)
    if ax == ndim or ndim == MLXC_MAX_NDIM:
        return op_concatenate([with_axis(a, ax, s) for a in found], ax, s)
    # Joined along the axis behind the new one, which then is split in two.
    read_shape(first, &shape)
    for i in range(ndim, ax, -1):
        shape.v[i] = shape.v[i - 1]
    shape.v[ax] = len(found)
    shape.n = ndim + 1
    return reshaped(op_concatenate(found, ax, s), &shape, s)


def unstack(x, /, *, axis=0, stream=None):
    """An array cut into its slices along an axis, which is dropped.

    Args:
        x: array of at least one dimension, any dtype.
        axis: the axis.
        stream: stream or device to compute on; None is the default.

    Returns:
        A tuple of arrays, as many as the axis is long.

    Raises:
        ValueError: if the axis is out of range.

    Example:
        >>> mx.unstack(mx.array([[1, 2], [3, 4]]))
        (array([1, 2], dtype=int32), array([3, 4], dtype=int32))
    """
    cdef Array a = as_array(x)
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t ax = to_axis(axis, mlxc_array_ndim(a.h))
    return tuple([without_axis(slice_axis(a, ax, i, 1, 1, s), ax, s) for i in range(mlxc_array_dim(a.h, ax))])


# An axis of size 0 divides into any number of parts; more than this many is surely a mistake.
MOST_PARTS = 65536


def split(a, /, indices_or_sections, axis=0, *, stream=None):
    """An array cut along an axis.

    Args:
        a: array of at least one dimension, any dtype.
        indices_or_sections: number of equal parts, or the places to cut at (negative ones count from the end).
        axis: the axis.
        stream: stream or device to compute on; None is the default.

    Returns:
        A list of arrays.

    Raises:
        ValueError: if the axis cannot be divided into that many equal parts, or the number is not positive.

    Example:
        >>> mx.split(mx.arange(6), 3)
        [array([0, 1], dtype=int32), array([2, 3], dtype=int32), array([4, 5], dtype=int32)]
        >>> mx.split(mx.arange(4), [1])
        [array([0], dtype=int32), array([1, 2, 3], dtype=int32)]
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t ax = to_axis(axis, mlxc_array_ndim(x.h))
    cdef int64_t size = mlxc_array_dim(x.h, ax), parts, begin = 0, end, i
    cdef list out = []
    if isinstance(indices_or_sections, (list, tuple)):
        for cut in indices_or_sections:
            end = to_int(cut, "a place to split at")
            end = min(max(end + size if end < 0 else end, 0), size)
            out.append(slice_axis(x, ax, begin if end > begin else 0, max(end - begin, 0), 1, s))
            begin = end
        out.append(slice_axis(x, ax, begin if size > begin else 0, size - begin, 1, s))
        return out
    parts = to_int(indices_or_sections, "the number of parts")
    if parts <= 0 or size % parts or parts > max(size, <int64_t>MOST_PARTS):
        raise ValueError(f"[split] axis {axis} of size {size} cannot be split into {parts} equal parts")
    size //= parts
    for i in range(parts):
        out.append(slice_axis(x, ax, i * size, size, 1, s))
    return out


def repeat(array, repeats, axis=None, *, stream=None):
    """Each element repeated along an axis.

    Args:
        array: array or scalar, any dtype.
        repeats: how often, not negative; or an integer array with a number for each place along the axis (or one for
            all), which is evaluated.
        axis: the axis; None repeats the elements of the flattened array.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `array`.

    Raises:
        ValueError: if `repeats` is negative or does not fit the axis, or the axis is out of range; inside a function
            transform, if it is an array.
        TypeError: if `repeats` is no integer.

    Example:
        >>> mx.repeat(mx.array([1, 2]), 2)
        array([1, 1, 2, 2], dtype=int32)
        >>> mx.repeat(mx.array([1, 2]), mx.array([1, 3]))
        array([1, 2, 2, 2], dtype=int32)
    """
    cdef Array x = as_array(array)
    cdef mlxc_stream* s = to_stream(stream)
    cdef int64_t times
    if axis is None:
        x = ravel(x, s)
        axis = 0
    cdef int32_t ax = to_axis(axis, mlxc_array_ndim(x.h))
    if type(repeats) is Array and mlxc_array_ndim((<Array>repeats).h) > 0:
        return repeat_each(x, <Array>repeats, ax, s)
    times = to_int(repeats, "repeats")
    if times < 0:
        raise ValueError(f"[repeat] repeats must not be negative, got {times}")
    cdef Shape shape
    cdef int32_t i
    read_shape(x, &shape)
    for i in range(shape.n, ax + 1, -1):
        shape.v[i] = shape.v[i - 1]
    shape.n += 1
    if shape.n > MLXC_MAX_NDIM:
        raise ValueError(f"[repeat] takes an array of at most {MLXC_MAX_NDIM - 1} axes")
    shape.v[ax + 1] = times
    x = stretched(with_axis(x, ax + 1, s), &shape, s)
    shape.v[ax] *= times
    for i in range(ax + 1, shape.n - 1):
        shape.v[i] = shape.v[i + 1]
    shape.n -= 1
    return reshaped(x, &shape, s)


cdef Array repeat_each(Array x, Array repeats, int32_t axis, mlxc_stream* s):
    """Place i of the axis repeats[i] times: each place of the result takes the source whose running sum passes it."""
    cdef int64_t n = mlxc_array_dim(x.h, axis), total, least
    if not is_integer(mlxc_array_dtype(repeats.h)):
        raise TypeError(f"[repeat] repeats must be integers, got {dtype_object(mlxc_array_dtype(repeats.h))}")
    if mlxc_array_ndim(repeats.h) != 1 or mlxc_array_size(repeats.h) not in (1, n):
        raise ValueError(f"[repeat] repeats of shape {tuple(dims(repeats))} do not fit axis {axis} of an array of "
                         f"shape {tuple(dims(x))}")
    need_values(repeats, "repeat")
    if n == 0:
        return alias(x)
    cdef Array ends = op_cumsum(op_broadcast_to(cast(repeats, MLXC_INT64, s), (n,), s), 0, False, True, s)
    least = op_min(repeats, None, False, s).item()
    if least < 0:
        raise ValueError(f"[repeat] repeats must not be negative, got {least}")
    total = slice_axis(ends, 0, n - 1, 1, 1, s).item()
    from mlxc._ops_sort import searchsorted
    return take_axis(x, searchsorted(ends, count_up(total, MLXC_INT64, s), "right"), axis, s)


def tile(a, reps, /, *, stream=None):
    """The whole array repeated along its axes.

    Args:
        a: array or scalar, any dtype.
        reps: how often along each axis, or along the last one; the shorter of shape and `reps` gets ones in front.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ValueError: if a number is negative.

    Example:
        >>> mx.tile(mx.array([1, 2]), (2, 2))
        array([[1, 2, 1, 2],
               [1, 2, 1, 2]], dtype=int32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t ndim = mlxc_array_ndim(x.h), n, i
    cdef int64_t size, count
    cdef Shape times, apart, wide, joined
    cdef const int64_t* sizes = mlxc_array_shape(x.h)
    to_shape(reps, &times)
    n = max(ndim, times.n)
    apart.n = wide.n = 0
    joined.n = n
    for i in range(n):
        size = sizes[i - n + ndim] if i >= n - ndim else 1
        count = times.v[i - n + times.n] if i >= n - times.n else 1
        if count < 0:
            raise ValueError(f"[tile] reps must not be negative, got {reps}")
        # Only axes that are repeated get a second axis, as there is a limit on how many an array has.
        if apart.n + (count != 1) >= MLXC_MAX_NDIM:
            raise ValueError(f"[tile] an array of {ndim} axes has too many to be repeated along {times.n} axes")
        if count != 1:
            apart.v[apart.n] = 1
            wide.v[apart.n] = count
            apart.n += 1
        apart.v[apart.n] = size
        wide.v[apart.n] = size
        apart.n += 1
        joined.v[i] = size * count
    wide.n = apart.n
    if apart.n == n:
        return reshaped(x, &joined, s)
    return reshaped(stretched(reshaped(x, &apart, s), &wide, s), &joined, s)


def flip(a, /, axis=None, *, stream=None):
    """The order of the elements reversed along axes.

    Args:
        a: array or scalar, any dtype.
        axis: axis or axes; None reverses all.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        ValueError: if an axis is out of range or named twice.

    Example:
        >>> mx.flip(mx.array([1, 2, 3]))
        array([3, 2, 1], dtype=int32)
    """
    cdef Array x = as_array(a)
    cdef list shape = dims(x), starts = [0] * len(shape), steps = [1] * len(shape)
    for ax in axis_list(axis, mlxc_array_ndim(x.h)):
        if shape[ax]:
            starts[ax] = shape[ax] - 1
            steps[ax] = -1
    return op_slice(x, starts, steps, shape, to_stream(stream))


def roll(a, /, shift, axis=None, *, stream=None):
    """Elements moved along axes; what leaves one end comes back at the other.

    Args:
        a: array or scalar, any dtype.
        shift: by how many places, any sign; one number, or one for each axis.
        axis: axis or axes; None rolls the flattened array and restores its shape.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        ValueError: if the numbers of shifts and axes differ, or an axis is out of range.

    Example:
        >>> mx.roll(mx.array([1, 2, 3]), 1)
        array([3, 1, 2], dtype=int32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t ndim = mlxc_array_ndim(x.h)
    cdef Shape shape
    if isinstance(shift, (list, tuple)) or isinstance(axis, (list, tuple)):
        return roll_axes(x, shift, axis, s)
    if axis is not None:
        return alias_of(roll_axis(x, to_axis(axis, ndim), to_int(shift, "shift"), s), x)
    if ndim == 1:
        return alias_of(roll_axis(x, 0, to_int(shift, "shift"), s), x)
    read_shape(x, &shape)
    return reshaped(roll_axis(ravel(x, s), 0, to_int(shift, "shift"), s), &shape, s)


cdef Array alias_of(Array out, Array x):
    """What is returned is never the argument itself."""
    return alias(x) if out is x else out


cdef Array roll_axes(Array x, object shift, object axis, mlxc_stream* s):
    cdef int32_t ndim = mlxc_array_ndim(x.h)
    cdef list shifts = [to_int(n, "shift") for n in (shift if isinstance(shift, (list, tuple)) else (shift,))]
    if axis is None:
        return op_reshape(roll_axis(ravel(x, s), 0, sum(shifts), s), dims(x), s)
    cdef list axes = [to_axis(i, ndim) for i in (axis if isinstance(axis, (list, tuple)) else (axis,))]
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    elif len(axes) == 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes):
        raise ValueError(f"[roll] got {len(shifts)} shifts for {len(axes)} axes")
    for ax, n in zip(axes, shifts):
        x = roll_axis(x, ax, n, s)
    return alias(x)


cdef Array roll_axis(Array x, int32_t axis, object shift, mlxc_stream* s):
    cdef int64_t size = mlxc_array_dim(x.h, axis), n = shift % <object>size if size else 0
    if n == 0:
        return x
    return op_concatenate([slice_axis(x, axis, size - n, n, 1, s), slice_axis(x, axis, 0, size - n, 1, s)], axis, s)


cdef int read_pair(object pair, int64_t* low, int64_t* high) except -1:
    """(before, after), or a sequence of one number for both; 1 for a sequence of another length."""
    if not 1 <= len(pair) <= 2:
        return 1
    low[0] = to_int(pair[0], "pad_width")
    high[0] = to_int(pair[len(pair) - 1], "pad_width")
    return 0


cdef int pad_widths(object width, int32_t ndim, Shape* low, Shape* high) except -1:
    """The widths before and behind each axis."""
    cdef int32_t i, n = 0
    cdef bint good = True, nested = False
    if not isinstance(width, (list, tuple)):
        low.v[0] = high.v[0] = to_int(width, "pad_width")
        n = 1
    else:
        nested = True
        for part in width:
            nested = nested and isinstance(part, (list, tuple))
        n = <int32_t>len(width) if nested else 1
        good = n == ndim or n == 1
        if good and nested:
            for i in range(n):
                good = good and read_pair(width[i], &low.v[i], &high.v[i]) == 0
        elif good:
            good = read_pair(width, &low.v[0], &high.v[0]) == 0
    if not good:
        raise ValueError(f"[pad] pad_width {width} is no number, no pair, and no list of {ndim} pairs")
    low.n = high.n = ndim
    for i in range(n, ndim):
        low.v[i] = low.v[0]
        high.v[i] = high.v[0]
    for i in range(ndim):
        if low.v[i] < 0 or high.v[i] < 0:
            raise ValueError(f"[pad] widths must not be negative, got {width}")
    return 0


cdef Array pad_places(str mode, int64_t size, int64_t low, int64_t high, mlxc_stream* s):
    """For each place of the padded axis, the place of the axis that its element comes from."""
    cdef Array places = op_arange(-low, 1, low + size + high, MLXC_INT64, s), zero = number_int(0, MLXC_INT64)
    cdef int64_t period
    if mode == "edge" or size == 1:
        return op_minimum(op_maximum(places, zero, s), number_int(size - 1, MLXC_INT64), s)
    # The pattern repeats with this period; its second half runs backwards.
    period = 2 * size - 2 if mode == "reflect" else 2 * size
    places = op_remainder(places, number_int(period, MLXC_INT64), s)
    cdef int64_t last = period if mode == "reflect" else period - 1
    return op_minimum(places, op_subtract(number_int(last, MLXC_INT64), places, s), s)


def pad(a, pad_width, mode="constant", constant_values=0, *, stream=None):
    """Borders added round an array.

    Args:
        a: array or scalar, any dtype.
        pad_width: how many elements to add: one number for all sides, a pair (before, after) for all axes, or a pair
            for each axis.
        mode: "constant"; "edge" repeats the outermost element; "reflect" mirrors about it, "symmetric" behind it.
        constant_values: value of the border in mode "constant", cast to the dtype of `a`; 0 by default.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `a`.

    Raises:
        ValueError: for a negative width, a wrong number of pairs, an unknown mode, or an empty axis that would have
            to be extended by its own elements.

    Example:
        >>> mx.pad(mx.array([1, 2, 3]), (1, 2))
        array([0, 1, 2, 3, 0, 0], dtype=int32)
        >>> mx.pad(mx.array([1, 2, 3]), 1, mode="reflect")
        array([2, 1, 2, 3, 2], dtype=int32)
    """
    cdef Array x = as_array(a), value
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t ndim = mlxc_array_ndim(x.h), axis
    cdef Shape low, high
    cdef mlxc_array* out = NULL
    low.n = high.n = 0
    if ndim:
        pad_widths(pad_width, ndim, &low, &high)
    if mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(f"[pad] mode is 'constant', 'edge', 'reflect' or 'symmetric', not {mode!r}")
    if mode == "constant":
        value = cast(as_operand(constant_values, mlxc_array_dtype(x.h)), mlxc_array_dtype(x.h), s)
        check(mlxc_pad(x.h, value.h, low.v, ndim, high.v, ndim, s, &out))
        return wrap(out)
    for axis in range(ndim):
        size = mlxc_array_dim(x.h, axis)
        if low.v[axis] == 0 and high.v[axis] == 0:
            continue
        if size == 0:
            raise ValueError(f"[pad] axis {axis} is empty and cannot be extended in mode {mode!r}")
        x = take_axis(x, pad_places(mode, size, low.v[axis], high.v[axis], s), axis, s)
    return alias(x)
