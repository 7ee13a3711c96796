# Functions that join, cut, repeat and reorder along axes: concatenate, stack, split, repeat, tile, pad, roll, flip.
# They are made of slices, broadcasts, gathers and concatenate, and keep the rules of NumPy's functions of these names.
from mlxc._args cimport to_axis, to_int
from mlxc._array cimport Array, as_array, as_operand
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport dtype_object, is_integer
from mlxc._prim cimport (alias, array_list, axis_list, cast, count_up, dims, need_values, number_int, op_arange,
                         op_broadcast_to, op_concatenate, op_cumsum, op_expand_dims, op_maximum, op_min, op_minimum,
                         op_pad, op_remainder, op_reshape,
                         op_slice, op_squeeze, op_subtract, ravel, slice_axis, take_axis)

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
    cdef list shape = dims(found[0])
    for x in found:
        if dims(x) != shape:
            raise ValueError(f"[stack] all arrays must have the same shape, got {tuple(shape)} and {tuple(dims(x))}")
    cdef int32_t ax = to_axis(axis, <int32_t>len(shape) + 1)
    return op_concatenate([op_expand_dims(x, ax, s) for x in found], ax, s)


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
    return tuple([op_squeeze(slice_axis(a, ax, i, 1, 1, s), ax, s) for i in range(mlxc_array_dim(a.h, ax))])


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
    cdef int64_t size = mlxc_array_dim(x.h, ax), parts
    cdef list cuts = [0], out = []
    if isinstance(indices_or_sections, (list, tuple)):
        for cut in indices_or_sections:
            place = to_int(cut, "a place to split at")
            cuts.append(min(max(place + size if place < 0 else place, 0), size))
        cuts.append(size)
    else:
        parts = to_int(indices_or_sections, "the number of parts")
        if parts <= 0 or size % parts or parts > max(size, <int64_t>MOST_PARTS):
            raise ValueError(f"[split] axis {axis} of size {size} cannot be split into {parts} equal parts")
        cuts = [size // parts * i for i in range(parts + 1)]
    for begin, end in zip(cuts, cuts[1:]):
        out.append(slice_axis(x, ax, begin if end > begin else 0, max(end - begin, 0), 1, s))
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
    cdef list shape = dims(x)
    x = op_broadcast_to(op_expand_dims(x, ax + 1, s), shape[:ax + 1] + [times] + shape[ax + 1:], s)
    return op_reshape(x, shape[:ax] + [shape[ax] * times] + shape[ax + 1:], s)


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
    cdef list times = [to_int(n, "reps") for n in (reps if isinstance(reps, (list, tuple)) else (reps,))]
    cdef list shape = dims(x), apart = [], wide = [], joined = []
    if min(times, default=0) < 0:
        raise ValueError(f"[tile] reps must not be negative, got {reps}")
    shape = [1] * (len(times) - len(shape)) + shape
    times = [1] * (len(shape) - len(times)) + times
    if all(n == 1 for n in times):
        return op_reshape(x, shape, s)
    # Only axes that are repeated get a second axis, as there is a limit on how many an array has.
    for size, n in zip(shape, times):
        if n != 1:
            apart.append(1)
            wide.append(n)
        apart.append(size)
        wide.append(size)
        joined.append(size * n)
    return op_reshape(op_broadcast_to(op_reshape(x, apart, s), wide, s), joined, s)


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
    cdef object size = mlxc_array_dim(x.h, axis)
    cdef int64_t n = shift % size if size else 0
    if n == 0:
        return x
    return op_concatenate([slice_axis(x, axis, size - n, n, 1, s), slice_axis(x, axis, 0, size - n, 1, s)], axis, s)


cdef list pad_pairs(object width, int32_t ndim):
    """The (before, after) widths of each axis."""
    if not isinstance(width, (list, tuple)):
        width = (width,)
    cdef list pairs
    if all(isinstance(w, (list, tuple)) for w in width):
        pairs = [tuple(w) if len(w) == 2 else (w[0], w[0]) if len(w) == 1 else () for w in width]
    elif len(width) == 1:
        pairs = [(width[0], width[0])]
    else:
        pairs = [tuple(width)]
    if len(pairs) == 1:
        pairs = pairs * ndim
    if len(pairs) != ndim or any(len(p) != 2 for p in pairs):
        raise ValueError(f"[pad] pad_width {width} is no number, no pair, and no list of {ndim} pairs")
    pairs = [(to_int(low, "pad_width"), to_int(high, "pad_width")) for low, high in pairs]
    if any(low < 0 or high < 0 for low, high in pairs):
        raise ValueError(f"[pad] widths must not be negative, got {width}")
    return pairs


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
    cdef list pairs = pad_pairs(pad_width, ndim) if ndim else []
    if mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError(f"[pad] mode is 'constant', 'edge', 'reflect' or 'symmetric', not {mode!r}")
    if mode == "constant":
        value = cast(as_operand(constant_values, mlxc_array_dtype(x.h)), mlxc_array_dtype(x.h), s)
        return op_pad(x, value, [low for low, _ in pairs], [high for _, high in pairs], s)
    for axis in range(ndim):
        low, high = pairs[axis]
        size = mlxc_array_dim(x.h, axis)
        if low == 0 and high == 0:
            continue
        if size == 0:
            raise ValueError(f"[pad] axis {axis} is empty and cannot be extended in mode {mode!r}")
        x = take_axis(x, pad_places(mode, size, low, high, s), axis, s)
    return alias(x)
