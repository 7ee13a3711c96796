# Every op as a cdef function on Array (generated) and the helpers that composed functions share. The modules of free
# functions are built on this and on nothing else of the C library.
from cpython.mem cimport PyMem_Free, PyMem_Malloc  # no-cython-lint: the included file uses both

from mlxc._args cimport Axes, Shape, to_axes, to_axis, to_shape  # no-cython-lint: as above
from mlxc._array cimport as_array, as_operand, wrap
from mlxc._capi cimport *
from mlxc._dtype cimport is_inexact
from mlxc._error cimport check


cdef mlxc_array** take_handles(list arrays) except NULL:
    """The handles of a list of Array, borrowed; free with PyMem_Free."""
    cdef Py_ssize_t n = len(arrays), i
    cdef mlxc_array** handles = <mlxc_array**>PyMem_Malloc((n + 1) * sizeof(mlxc_array*))
    if handles is NULL:
        raise MemoryError
    for i in range(n):
        handles[i] = (<Array>arrays[i]).h
    return handles


include "prims.pxi"


cdef Array alias(Array a):
    return wrap(mlxc_array_retain(a.h))


cdef Array number(double value, mlxc_dtype dtype):
    cdef mlxc_array* out = NULL
    check(mlxc_constant_double(value, dtype, &out))
    return wrap(out)


cdef Array number_int(int64_t value, mlxc_dtype dtype):
    cdef mlxc_array* out = NULL
    check(mlxc_constant_int(value, dtype, &out))
    return wrap(out)


cdef Array cast(Array a, mlxc_dtype dtype, mlxc_stream* s):
    return a if mlxc_array_dtype(a.h) == dtype else op_astype(a, dtype, s)


cdef mlxc_dtype float_dtype(mlxc_dtype dtype):
    return dtype if is_inexact(dtype) else MLXC_FLOAT32


cdef mlxc_dtype promote(mlxc_dtype a, mlxc_dtype b) except -1:
    cdef mlxc_dtype out = 0
    check(mlxc_promote(a, b, &out))
    return out


cdef tuple operands(object a, object b):
    cdef Array x, y
    if type(a) is Array:
        x = a
        y = as_operand(b, mlxc_array_dtype(x.h))
    elif type(b) is Array:
        y = b
        x = as_operand(a, mlxc_array_dtype(y.h))
    elif isinstance(a, (bool, int, float, complex)) and not isinstance(b, (bool, int, float, complex)):
        y = as_array(b)
        x = as_operand(a, mlxc_array_dtype(y.h))
    else:
        x = as_array(a)
        y = as_operand(b, mlxc_array_dtype(x.h))
    return x, y


cdef int read_shape(Array a, Shape* out) except -1:
    cdef const int64_t* shape = mlxc_array_shape(a.h)
    cdef int32_t i
    out.n = mlxc_array_ndim(a.h)
    for i in range(out.n):
        out.v[i] = shape[i]
    return 0


cdef Array reshaped(Array a, Shape* shape, mlxc_stream* s):
    cdef mlxc_array* out = NULL
    check(mlxc_reshape(a.h, shape.v, shape.n, s, &out))
    return wrap(out)


cdef Array transposed(Array a, Axes* order, mlxc_stream* s):
    cdef mlxc_array* out = NULL
    check(mlxc_transpose(a.h, order.v, order.n, s, &out))
    return wrap(out)


cdef Array stretched(Array a, Shape* shape, mlxc_stream* s):
    cdef mlxc_array* out = NULL
    check(mlxc_broadcast_to(a.h, shape.v, shape.n, s, &out))
    return wrap(out)


cdef Array with_axis(Array a, int32_t axis, mlxc_stream* s):
    cdef mlxc_array* out = NULL
    check(mlxc_expand_dims(a.h, &axis, 1, s, &out))
    return wrap(out)


cdef Array without_axis(Array a, int32_t axis, mlxc_stream* s):
    cdef mlxc_array* out = NULL
    check(mlxc_squeeze(a.h, &axis, 1, s, &out))
    return wrap(out)


cdef list dims(Array a):
    cdef const int64_t* shape = mlxc_array_shape(a.h)
    return [shape[i] for i in range(mlxc_array_ndim(a.h))]


cdef Array slice_axis(Array a, int32_t axis, int64_t start, int64_t length, int64_t step, mlxc_stream* s):
    cdef int64_t[32] starts
    cdef int64_t[32] steps
    cdef int64_t[32] shape
    cdef int32_t ndim = mlxc_array_ndim(a.h), i
    cdef const int64_t* sizes = mlxc_array_shape(a.h)
    cdef mlxc_array* out = NULL
    for i in range(ndim):
        starts[i] = start if i == axis else 0
        steps[i] = step if i == axis else 1
        shape[i] = length if i == axis else sizes[i]
    check(mlxc_slice(a.h, starts, ndim, steps, ndim, shape, ndim, s, &out))
    return wrap(out)


cdef Array take_axis(Array a, Array indices, int32_t axis, mlxc_stream* s):
    cdef int32_t ndim = mlxc_array_ndim(a.h), k = mlxc_array_ndim(indices.h)
    cdef mlxc_array* picked = NULL
    check(mlxc_gather(a.h, &indices.h, 1, &axis, 1, s, &picked))
    cdef Array out = wrap(picked)
    if axis == 0 or k == 0:
        return out
    cdef Axes order
    cdef int32_t i
    order.n = k + ndim - 1
    for i in range(order.n):
        order.v[i] = k + i if i < axis else i - axis if i < axis + k else i
    return transposed(out, &order, s)


cdef Array count_up(int64_t length, mlxc_dtype dtype, mlxc_stream* s):
    return op_arange(0, 1, length, dtype, s)


cdef Array ravel(Array a, mlxc_stream* s):
    cdef Shape flat
    if mlxc_array_ndim(a.h) == 1:
        return a
    flat.n = 1
    flat.v[0] = mlxc_array_size(a.h)
    return reshaped(a, &flat, s)


cdef Array merge_axes_last(Array a, object axes, mlxc_stream* s):
    cdef int32_t ndim = mlxc_array_ndim(a.h), i, kept = 0
    cdef Axes merged, order
    cdef Shape shape
    cdef const int64_t* sizes = mlxc_array_shape(a.h)
    cdef uint64_t mask
    cdef int64_t n = 1
    axis_mask(axes, ndim, &merged, &mask)
    for i in range(ndim):
        if not mask >> i & 1:
            order.v[kept] = i
            shape.v[kept] = sizes[i]
            kept += 1
    for i in range(merged.n):
        order.v[kept + i] = merged.v[i]
        n *= sizes[merged.v[i]]
    order.n = ndim
    shape.n = kept + 1
    shape.v[kept] = n
    for i in range(ndim):
        if order.v[i] != i:
            a = transposed(a, &order, s)
            break
    return reshaped(a, &shape, s)


cdef int axis_mask(object axes, int32_t ndim, Axes* out, uint64_t* mask) except -1:
    """The axes in order, and as the bits of a mask; all of them for None."""
    cdef int32_t i, axis, n = 0
    cdef Axes given
    to_axes(axes, &given)
    mask[0] = 0
    if given.n < 0:
        mask[0] = (<uint64_t>1 << ndim) - 1
    for i in range(given.n):
        axis = to_axis(given.v[i], ndim)
        if mask[0] >> axis & 1:
            raise ValueError(f"axis {axes} names an axis of an array of {ndim} dimensions twice")
        mask[0] |= <uint64_t>1 << axis
    for i in range(ndim):
        if mask[0] >> i & 1:
            out.v[n] = i
            n += 1
    out.n = n
    return 0


cdef list axis_list(object axes, int32_t ndim):
    cdef Axes found
    cdef uint64_t mask
    axis_mask(axes, ndim, &found, &mask)
    return [found.v[i] for i in range(found.n)]


cdef list array_list(object arrays, str name):
    if type(arrays) is Array or not isinstance(arrays, (list, tuple)):
        raise TypeError(f"[{name}] takes a list or tuple of arrays, not {type(arrays).__name__}")
    return [as_array(a) for a in arrays]


cdef int need_values(Array a, str name) except -1:
    if mlxc_array_is_traced(a.h):
        raise ValueError(f"[{name}] the shape of the result depends on the values of the array, so it cannot be used "
                         "inside a function transform")
    cdef mlxc_error* error
    cdef mlxc_array* h = mlxc_array_retain(a.h)  # another thread may bind the array anew meanwhile
    with nogil:
        error = mlxc_eval(&h, 1)
        mlxc_array_release(h)
    check(error)
    return 0
