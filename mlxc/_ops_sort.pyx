# Sorting and searching: sort, partition, topk, searchsorted, the unique family, isin. NaN counts as greatest; sorts
# keep the order of equal elements. Functions whose result shape depends on values evaluate their argument.
from mlxc._args cimport to_axis, to_int
from mlxc._array cimport Array, as_array
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._prim cimport (cast, count_up, dims, need_values, number, number_int, op_argpartition, op_argsort,
                         op_broadcast_to, op_concatenate, op_cumsum, op_equal, op_full, op_gather, op_greater_equal,
                         op_less, op_logical_not, op_minimum, op_not_equal, op_partition, op_reshape, op_scatter,
                         op_sort, op_subtract, op_sum, op_topk, op_where, operands, promote, ravel, slice_axis,
                         take_axis)

__all__ = ["argpartition", "argsort", "isin", "partition", "searchsorted", "sort", "topk", "unique", "unique_all",
           "unique_counts", "unique_inverse", "unique_values"]


cdef tuple along(object a, object axis, mlxc_stream* s):
    """The array and the axis as a non-negative int; without an axis, the flattened array and 0."""
    cdef Array x = as_array(a)
    if axis is None:
        return ravel(x, s), 0
    return x, to_axis(axis, mlxc_array_ndim(x.h))


def sort(a, /, axis=-1, *, descending=False, stable=True, stream=None):
    """Elements in ascending order along an axis, NaN last.

    Args:
        a: array, any dtype; complex numbers are ordered by real, then imaginary part.
        axis: the axis, the last by default; None sorts the flattened array.
        descending: whether the greatest comes first.
        stable: accepted as in the array API standard; equal elements keep their order either way.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`, or of its flattened form, with its dtype.

    Raises:
        ValueError: if the axis is out of range.

    Example:
        >>> mx.sort(mx.array([3, 1, 2]))
        array([1, 2, 3], dtype=int32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    x, ax = along(a, axis, s)
    cdef Array out = op_sort(x, ax, s)
    return reverse_axis(out, ax, s) if descending else out


def argsort(a, /, axis=-1, *, descending=False, stable=True, stream=None):
    """Indices that sort along an axis; equal elements keep their order.

    Args:
        a: array, any dtype.
        axis: the axis, the last by default; None sorts the flattened array.
        descending: whether the greatest comes first.
        stable: accepted as in the array API standard; equal elements keep their order either way.
        stream: stream or device to compute on; None is the default.

    Returns:
        A uint32 array of the shape of `a`, or of its flattened form.

    Raises:
        ValueError: if the axis is out of range.

    Example:
        >>> mx.argsort(mx.array([3, 1, 2]))
        array([1, 2, 0], dtype=uint32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    x, ax = along(a, axis, s)
    if not descending:
        return op_argsort(x, ax, s)
    # Both ways back, so that equal elements keep their order.
    cdef Array found = reverse_axis(op_argsort(reverse_axis(x, ax, s), ax, s), ax, s)
    cdef int64_t last = mlxc_array_dim(found.h, ax) - 1
    return found if last < 0 else op_subtract(number_int(last, MLXC_UINT32), found, s)


cdef Array reverse_axis(Array x, int32_t axis, mlxc_stream* s):
    cdef int64_t n = mlxc_array_dim(x.h, axis)
    return slice_axis(x, axis, n - 1, n, -1, s) if n else x


def partition(a, /, kth, axis=-1, *, stream=None):
    """Elements ordered so that the kth is where sorting would put it, with none greater before it.

    Args:
        a: array, any dtype.
        kth: the place; negative ones count from the end.
        axis: the axis, the last by default; None takes the flattened array.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`, or of its flattened form, with its dtype. The order before and after the kth is
        not specified; NaN counts as greatest.

    Raises:
        ValueError: if `kth` or the axis is out of range.

    Example:
        >>> mx.partition(mx.array([3, 1, 2]), 1)[1]
        array(2, dtype=int32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    x, ax = along(a, axis, s)
    return op_partition(x, ax, to_int(kth, "kth"), s)


def argpartition(a, /, kth, axis=-1, *, stream=None):
    """Indices that partition along an axis.

    Args:
        a: array, any dtype.
        kth: the place; negative ones count from the end.
        axis: the axis, the last by default; None takes the flattened array.
        stream: stream or device to compute on; None is the default.

    Returns:
        A uint32 array of the shape of `a`, or of its flattened form.

    Raises:
        ValueError: if `kth` or the axis is out of range.

    Example:
        >>> mx.argpartition(mx.array([3, 1, 2]), 0)[0]
        array(1, dtype=uint32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    x, ax = along(a, axis, s)
    return op_argpartition(x, ax, to_int(kth, "kth"), s)


def topk(a, /, k, axis=-1, *, stream=None):
    """The k greatest elements along an axis; NaN counts as greatest.

    Args:
        a: array, any dtype.
        k: how many.
        axis: the axis, the last by default; None takes the flattened array.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array with `k` elements along the axis, in ascending order, with the dtype of `a`.

    Raises:
        ValueError: if `k` is negative or greater than the axis, or the axis is out of range.

    Example:
        >>> mx.topk(mx.array([3, 1, 2]), 2)
        array([2, 3], dtype=int32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    x, ax = along(a, axis, s)
    return op_topk(x, to_int(k, "k"), ax, s)


cdef Array scatter_to(Array values, Array places, mlxc_stream* s):
    """A 1-D array that has values[i] at places[i]; places is a permutation."""
    cdef Array base = op_full(number(0, mlxc_array_dtype(values.h)), (mlxc_array_size(values.h),), s)
    return op_scatter(base, values, [places], 0, 0, s)


cdef Array insertion_points(Array sequence, Array values, bint right, mlxc_stream* s):
    """searchsorted of 1-D arrays: both are sorted together, and each value counts the sequence's elements before it.

    The sort keeps the order of equal elements, so whichever comes first in the joined array wins ties.
    """
    cdef mlxc_dtype dtype = promote(mlxc_array_dtype(sequence.h), mlxc_array_dtype(values.h))
    cdef int64_t n = mlxc_array_size(sequence.h), m = mlxc_array_size(values.h)
    cdef Array first = cast(sequence if right else values, dtype, s)
    cdef Array second = cast(values if right else sequence, dtype, s)
    cdef Array order = op_argsort(op_concatenate([first, second], 0, s), 0, s)
    cdef Array edge = number(n if right else m, MLXC_UINT32)
    cdef Array from_sequence = op_less(order, edge, s) if right else op_greater_equal(order, edge, s)
    cdef Array before = op_cumsum(cast(from_sequence, MLXC_UINT32, s), 0, False, True, s)
    return slice_axis(scatter_to(before, order, s), 0, n if right else 0, m, 1, s)


def searchsorted(sorted_sequence, values, /, side="left", *, sorter=None, stream=None):
    """Where values would have to be inserted to keep a sequence sorted.

    Args:
        sorted_sequence: 1-D array in ascending order, any dtype.
        values: array or scalar, any shape.
        side: "left" for the place before equal elements, "right" for the place after them.
        sorter: indices that sort the sequence, where it is not in order itself.
        stream: stream or device to compute on; None is the default.

    Returns:
        A uint32 array of the shape of `values`.

    Raises:
        ValueError: if the sequence is not 1-D, or `side` is another word.

    Example:
        >>> mx.searchsorted(mx.array([1, 2, 3]), mx.array([0, 2, 9]))
        array([0, 1, 3], dtype=uint32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    x, y = operands(sorted_sequence, values)
    cdef Array sequence = x, wanted = y
    if mlxc_array_ndim(sequence.h) != 1:
        raise ValueError(f"[searchsorted] the sequence must be 1-D, got shape {tuple(dims(sequence))}")
    if side not in ("left", "right"):
        raise ValueError(f"[searchsorted] side is 'left' or 'right', not {side!r}")
    if sorter is not None:
        sequence = take_axis(sequence, as_array(sorter), 0, s)
    return op_reshape(insertion_points(sequence, ravel(wanted, s), side == "right", s), dims(wanted), s)


def isin(x1, x2, /, *, invert=False, stream=None):
    """For each element of x1, whether it occurs in x2.

    Args:
        x1: array or scalar, any shape and dtype.
        x2: array or scalar, any shape and dtype. NaN occurs nowhere.
        invert: whether to tell where elements do not occur.
        stream: stream or device to compute on; None is the default.

    Returns:
        A bool array of the shape of `x1`.

    Example:
        >>> mx.isin(mx.array([1, 2, 3]), mx.array([3, 1]))
        array([True, False, True], dtype=bool)
    """
    cdef mlxc_stream* s = to_stream(stream)
    x, y = operands(x1, x2)
    cdef Array wanted = ravel(x, s), pool = ravel(y, s), found, places
    cdef int64_t n = mlxc_array_size(pool.h)
    if n == 0:
        found = op_full(number(0, MLXC_BOOL), (mlxc_array_size(wanted.h),), s)
    else:
        pool = op_sort(pool, 0, s)
        places = op_minimum(insertion_points(pool, wanted, False, s), number_int(n - 1, MLXC_UINT32), s)
        found = op_equal(op_gather(pool, [places], 0, s), wanted, s)
    found = op_reshape(found, dims(x), s)
    return op_logical_not(found, s) if invert else found


cdef class Runs:
    """A flattened array sorted, and where each run of equal elements begins in it."""

    cdef Array values, order, begins
    cdef int64_t n

    def __cinit__(self, Array x, stream):
        cdef mlxc_stream* s = to_stream(stream)
        cdef Array flat = ravel(x, s), first
        self.n = mlxc_array_size(flat.h)
        self.order = op_argsort(flat, 0, s)
        self.values = op_gather(flat, [self.order], 0, s)
        self.begins = op_full(number(1, MLXC_BOOL), (1 if self.n else 0,), s)
        if self.n > 1:
            first = op_not_equal(slice_axis(self.values, 0, 1, self.n - 1, 1, s),
                                 slice_axis(self.values, 0, 0, self.n - 1, 1, s), s)
            self.begins = op_concatenate([self.begins, first], 0, s)

    cdef Array starts(self, int64_t count, mlxc_stream* s):
        """The places where the first `count` runs begin (places inside runs follow)."""
        return slice_axis(op_argsort(op_logical_not(self.begins, s), 0, s), 0, 0, count, 1, s)

    cdef Array inverse(self, mlxc_stream* s):
        """For each element of the flattened array, the number of its run."""
        cdef Array run = op_cumsum(cast(self.begins, MLXC_UINT32, s), 0, False, True, s)
        return scatter_to(op_subtract(run, number(1, MLXC_UINT32), s), self.order, s)

    cdef Array lengths(self, Array starts, int64_t count, mlxc_stream* s):
        if count == 0:
            return cast(starts, MLXC_INT64, s)
        cdef Array at = cast(starts, MLXC_INT64, s), end = op_full(number_int(self.n, MLXC_INT64), (1,), s)
        return op_subtract(op_concatenate([slice_axis(at, 0, min(count, 1), count - 1, 1, s), end], 0, s)
                           if count > 1 else end, at, s)


cdef tuple unique_parts(object x, str name, object stream):
    """(values, indices, inverse indices, counts) of the array API standard. Evaluates x."""
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array a = as_array(x), starts, total
    need_values(a, name)
    cdef Runs runs = Runs(a, stream)
    total = op_sum(runs.begins, None, False, s)
    cdef int64_t count = total.item()
    starts = runs.starts(count, s)
    values = op_gather(runs.values, [starts], 0, s)
    indices = cast(op_gather(runs.order, [starts], 0, s), MLXC_INT64, s)
    inverse = cast(op_reshape(runs.inverse(s), dims(a), s), MLXC_INT64, s)
    return values, indices, inverse, runs.lengths(starts, count, s)


def unique_all(x, /, *, stream=None):
    """Distinct elements, where each first occurs, which one each element is, and how often. Evaluates `x`.

    Args:
        x: array or scalar, any shape and dtype; NaNs are distinct from each other.
        stream: stream or device to compute on; None is the default.

    Returns:
        A named tuple `(values, indices, inverse_indices, counts)`: `values` in ascending order, the rest int64;
        `inverse_indices` has the shape of `x`.

    Raises:
        ValueError: inside a function transform, as the shape of the result depends on values.

    Example:
        >>> mx.unique_all(mx.array([3, 1, 3])).counts
        array([1, 2], dtype=int64)
    """
    from mlxc._named import UniqueAll
    return UniqueAll(*unique_parts(x, "unique_all", stream))


def unique_counts(x, /, *, stream=None):
    """Distinct elements in ascending order, and how often each occurs. Evaluates `x`.

    Args:
        x: array or scalar, any shape and dtype; NaNs are distinct from each other.
        stream: stream or device to compute on; None is the default.

    Returns:
        A named tuple `(values, counts)`; counts are int64.

    Raises:
        ValueError: inside a function transform, as the shape of the result depends on values.

    Example:
        >>> mx.unique_counts(mx.array([3, 1, 3])).values
        array([1, 3], dtype=int32)
    """
    from mlxc._named import UniqueCounts
    parts = unique_parts(x, "unique_counts", stream)
    return UniqueCounts(parts[0], parts[3])


def unique_inverse(x, /, *, stream=None):
    """Distinct elements in ascending order, and which of them each element is. Evaluates `x`.

    Args:
        x: array or scalar, any shape and dtype; NaNs are distinct from each other.
        stream: stream or device to compute on; None is the default.

    Returns:
        A named tuple `(values, inverse_indices)`; the indices are int64 and have the shape of `x`.

    Raises:
        ValueError: inside a function transform, as the shape of the result depends on values.

    Example:
        >>> mx.unique_inverse(mx.array([3, 1, 3])).inverse_indices
        array([1, 0, 1], dtype=int64)
    """
    from mlxc._named import UniqueInverse
    parts = unique_parts(x, "unique_inverse", stream)
    return UniqueInverse(parts[0], parts[2])


def unique_values(x, /, *, stream=None):
    """Distinct elements in ascending order. Evaluates `x`.

    Args:
        x: array or scalar, any shape and dtype; NaNs are distinct from each other.
        stream: stream or device to compute on; None is the default.

    Returns:
        A 1-D array of the dtype of `x`.

    Raises:
        ValueError: inside a function transform, as the shape of the result depends on values.

    Example:
        >>> mx.unique_values(mx.array([3, 1, 3]))
        array([1, 3], dtype=int32)
    """
    return unique_parts(x, "unique_values", stream)[0]


cdef Array first_of(Array a, Array starts, Array valid, object otherwise, mlxc_stream* s):
    """a at starts, cut or padded to the length of `valid`, which is false where a place is padding."""
    cdef int64_t size = mlxc_array_size(valid.h), have = mlxc_array_size(starts.h)
    cdef Array out = op_gather(a, [starts], 0, s)
    if size == 0:
        return out
    cdef Array rest = otherwise if otherwise is not None else slice_axis(out, 0, 0, 1, 1, s)
    rest = op_broadcast_to(rest, (size,), s)
    if have < size:
        out = op_concatenate([out, slice_axis(rest, 0, have, size - have, 1, s)], 0, s)
    return op_where(valid, out, rest, s)


def unique(a, /, size, return_index=False, return_inverse=False, return_counts=False, fill_value=None, *, stream=None):
    """Distinct elements in ascending order, cut or padded to a given number, so that the shape is known beforehand.

    Args:
        a: array with at least one element, any shape and dtype; NaNs are distinct from each other.
        size: length of the result.
        return_index: whether to give the place of each value's first occurrence in the flattened array.
        return_inverse: whether to give, for each element of the flattened array, the number of its value.
        return_counts: whether to give how often each value occurs; 0 for padding.
        fill_value: what to pad with; the least value by default.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array, or a tuple of the values and what was asked for, in the order above (uint32, counts int32).

    Raises:
        ValueError: if `a` is empty or `size` negative.

    Example:
        >>> mx.unique(mx.array([3, 1, 3]), 3, fill_value=0)
        array([1, 3, 0], dtype=int32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array x = as_array(a), starts, total, valid
    cdef int64_t length = to_int(size, "size"), n = mlxc_array_size(x.h)
    if n == 0 or length < 0:
        raise ValueError(f"[unique] takes at least one element and a size that is not negative, got an array of shape "
                         f"{tuple(dims(x))} and size {length}")
    cdef Runs runs = Runs(x, stream)
    starts = runs.starts(min(length, n), s)
    total = op_sum(runs.begins, None, False, s)
    valid = op_less(count_up(length, MLXC_INT32, s), total, s)
    fill = None if fill_value is None else cast(as_array(fill_value), mlxc_array_dtype(x.h), s)
    out = [first_of(runs.values, starts, valid, fill, s)]
    if return_index:
        out.append(first_of(runs.order, starts, valid, None, s))
    if return_inverse:
        out.append(runs.inverse(s))
    if return_counts:
        out.append(run_lengths(runs, length, s))
    return out[0] if len(out) == 1 else tuple(out)


cdef Array run_lengths(Runs runs, int64_t size, mlxc_stream* s):
    """How many elements each of the first `size` runs has: ones added up at the run's number."""
    cdef Array run = runs.inverse(s), base = op_full(number(0, MLXC_INT32), (max(size, runs.n),), s)
    cdef Array one = op_full(number(1, MLXC_INT32), (runs.n,), s)
    return slice_axis(op_scatter(base, one, [run], 0, 1, s), 0, 0, size, 1, s)
