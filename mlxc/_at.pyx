# x.at[index].add(...): functional indexed updates in which duplicate indices combine; and iteration.
#
# Called through Array.at and iter(). Updates return a new array of the same shape and dtype; the value is
# cast to that dtype. Index arrays use scatter's modes; slices and masks need no scatter.
cimport cython

from mlxc._array cimport Array, binary_fn, wrap
from mlxc._capi cimport (
    int64_t, mlxc_add, mlxc_array, mlxc_array_dim, mlxc_array_dtype, mlxc_array_from_int, mlxc_array_ndim,
    mlxc_array_shape, mlxc_divide, mlxc_full, mlxc_maximum, mlxc_minimum, mlxc_multiply, mlxc_negative,
    mlxc_subtract,
)
from mlxc._error cimport check
from mlxc._indexing cimport (
    Plan, add_new_axes, choose_by_mask, drop_new_axes, find_mask, fit_value, get_item, make_plan,
    prepare_items, result_shape, scatter_value, spread_over_integers, take_window, to_value, write_window,
)
from mlxc._typename cimport name_type, set_type_attribute

cdef enum:
    ADD = 1
    MULTIPLY = 2
    MAXIMUM = 3
    MINIMUM = 4
    SUBTRACT = 5
    DIVIDE = 6


cdef Array apply(binary_fn fn, Array a, Array b):
    """fn(a, b) in the dtype of a."""
    cdef mlxc_array* out = NULL
    check(fn(a.h, b.h, NULL, &out))
    return to_value(wrap(out), mlxc_array_dtype(a.h))


cdef Array ones_like(Array a):
    cdef mlxc_array* out = NULL
    check(mlxc_array_from_int(1, mlxc_array_dtype(a.h), &out))
    cdef Array one = wrap(out)
    check(mlxc_full(one.h, mlxc_array_shape(a.h), mlxc_array_ndim(a.h), NULL, &out))
    return wrap(out)


cdef Array combine_arrays(Array window, Array value, Plan* plan, list arrays, int mode):
    cdef mlxc_array* out = NULL
    if mode == SUBTRACT:
        check(mlxc_negative(value.h, NULL, &out))
        return scatter_value(window, wrap(out), plan, arrays, ADD)
    if mode == DIVIDE:
        # One division by the product of all values that meet a place, so that single ones are exact.
        return apply(mlxc_divide, window, scatter_value(ones_like(window), value, plan, arrays, MULTIPLY))
    return scatter_value(window, value, plan, arrays, mode)


cdef Array update_at(Array a, list items, object value, binary_fn fn, int mode):
    cdef Plan plan
    cdef list arrays = []
    cdef int64_t shape[64]
    cdef Array written, mask, whole, window, result
    cdef int ndim
    if items is None:
        raise ValueError("say where: x.at[index].add(value), not x.at.add(value)")
    written = to_value(value, mlxc_array_dtype(a.h))
    mask = find_mask(items, a)
    if mask is not None:
        result = choose_by_mask(a, mask, written, fn)
        if result is not None:
            return result
    make_plan(a.h, items, &plan, arrays)
    whole = add_new_axes(a, &plan)
    window = take_window(whole, &plan)
    if plan.n_arrays > 0:
        window = combine_arrays(window, written, &plan, arrays, mode)
        if plan.partial:
            window = write_window(whole, window, &plan)
        return drop_new_axes(window, &plan)
    ndim = result_shape(&plan, arrays, shape)
    written = spread_over_integers(fit_value(written, ndim, shape), &plan)
    return drop_new_axes(write_window(whole, apply(fn, window, written), &plan), &plan)


@cython.binding(False)  # as a slot of the type, a method checks its self
@cython.embedsignature(True)
@cython.embedsignature.format("clinic")
@cython.final
@cython.auto_pickle(False)
cdef class ArrayAt:
    """Indexed updates of an array that combine duplicate indices: ``x.at[index].add(value)``.

    Each method returns a new array of x's shape and dtype. The value broadcasts to the indexed shape and
    is cast to x's dtype. IndexError for an index out of range, ValueError for a value that does not fit.

    >>> import mlxc as mx
    >>> mx.zeros(3).at[mx.array([0, 0, 1])].add(1)
    array([2, 1, 0], dtype=float32)
    """

    cdef Array _array
    cdef list _items

    def __init__(self):
        raise TypeError("indexed updates are made by x.at[index]")

    def __getitem__(self, key):
        cdef ArrayAt at = ArrayAt.__new__(ArrayAt)
        if self._array is None:
            raise TypeError("indexed updates are made by x.at[index]")
        if self._items is not None:
            raise TypeError("x.at is indexed once: x.at[i, j], not x.at[i][j]")
        at._array = self._array
        at._items = prepare_items(key)
        return at

    def add(self, value):
        """x[index] + value; duplicates add up."""
        return update_at(self._array, self._items, value, mlxc_add, ADD)

    def subtract(self, value):
        """x[index] - value; duplicates add up."""
        return update_at(self._array, self._items, value, mlxc_subtract, SUBTRACT)

    def multiply(self, value):
        """x[index] * value; duplicates multiply."""
        return update_at(self._array, self._items, value, mlxc_multiply, MULTIPLY)

    def divide(self, value):
        """x[index] / value; by the product of the values where there are duplicates."""
        return update_at(self._array, self._items, value, mlxc_divide, DIVIDE)

    def maximum(self, value):
        """The greater of x[index] and the values."""
        return update_at(self._array, self._items, value, mlxc_maximum, MAXIMUM)

    def minimum(self, value):
        """The lesser of x[index] and the values."""
        return update_at(self._array, self._items, value, mlxc_minimum, MINIMUM)


cdef object array_at(Array a):
    cdef ArrayAt at = ArrayAt.__new__(ArrayAt)
    # A name of its own: assignments to x afterwards do not change what x.at updates.
    at._array = a.__copy__()
    return at


@cython.binding(False)  # as a slot of the type, a method checks its self
@cython.embedsignature(True)
@cython.embedsignature.format("clinic")
@cython.final
@cython.auto_pickle(False)
cdef class ArrayIterator:
    """Iterates over the first axis of an array."""

    cdef Array _array
    cdef Py_ssize_t _next, _stop

    def __init__(self):
        raise TypeError("iterators are made by iter(array)")

    def __iter__(self):
        return self

    def __next__(self):
        if self._next >= self._stop:
            raise StopIteration
        self._next += 1
        return get_item(self._array, self._next - 1)

    def __length_hint__(self):
        return self._stop - self._next


cdef object array_iterator(Array a):
    cdef ArrayIterator iterator = ArrayIterator.__new__(ArrayIterator)
    iterator._array = a
    iterator._stop = mlxc_array_dim(a.h, 0)
    return iterator


name_type(ArrayAt, b"mlxc.ArrayAt")
name_type(ArrayIterator, b"mlxc.ArrayIterator")
set_type_attribute(ArrayAt, "__module__", "mlxc")
set_type_attribute(ArrayIterator, "__module__", "mlxc")
