# Nested lists and tuples of numbers, and of arrays, as one array.
#
# Called by the constructor. Two walks over the lists: the first finds the shape and what the items are,
# the second writes them, each row in a loop of its dtype. Lists that hold arrays are joined by ops, so
# that gradients flow into them. Ragged lists are ValueError.
from cpython.complex cimport PyComplex_ImagAsDouble, PyComplex_RealAsDouble
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_AsDouble
from cpython.object cimport PyObject
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from mlxc._array cimport Array, as_array, wrap
from mlxc._capi cimport (
    MLXC_BFLOAT16, MLXC_BOOL, MLXC_COMPLEX64, MLXC_COMPLEX128, MLXC_FLOAT16, MLXC_FLOAT32, MLXC_FLOAT64,
    MLXC_INT8, MLXC_INT16, MLXC_INT32, MLXC_INT64, MLXC_MAX_NDIM, MLXC_UINT8, MLXC_UINT16, MLXC_UINT32,
    MLXC_UINT64, int32_t, int64_t, mlxc_array, mlxc_array_dtype, mlxc_array_from_host,
    mlxc_array_ndim, mlxc_array_shape, mlxc_astype, mlxc_concatenate, mlxc_dtype, mlxc_dtype_size,
    mlxc_expand_dims, mlxc_promote,
    mlxc_reshape, uint8_t, uint16_t, uint32_t,
)
from mlxc._dtype cimport dtype_object
from mlxc._error cimport check
from mlxc._half cimport double_to_bfloat, double_to_half
from mlxc._scalar cimport (
    KIND_BOOL, KIND_COMPLEX, KIND_FLOAT, KIND_INT, KIND_NONE, integer_bits, is_numpy_scalar, plain_number,
    refuse_complex, scalar_array, scalar_kind, truncated, weak_dtype,
)

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int* overflow) except? -1
    PyObject* PySequence_Fast_GET_ITEM(object, Py_ssize_t)
    Py_ssize_t PySequence_Fast_GET_SIZE(object)


cdef struct Layout:
    int list_depth           # sizes known so far
    int ndim                 # depth at which numbers stand, -1 until one was seen
    int kind                 # highest kind of Python number
    int strong               # promoted dtype of NumPy scalars, -1: none
    bint negative            # an integer below zero
    bint wide                # an integer beyond int32
    bint huge                # an integer beyond int64
    bint has_arrays
    int64_t shape[33]


cdef bint is_list(object value) noexcept:
    return isinstance(value, (list, tuple))


cdef int refuse_ragged(int depth) except -1:
    raise ValueError(
        f"nested lists must all have the same lengths and depths: they differ at level {depth} of the nesting")


cdef int note_integer(object item, Layout* layout) except -1:
    cdef int overflow = 0
    cdef long long small = PyLong_AsLongLongAndOverflow(item, &overflow)
    if overflow < 0:
        raise ValueError(f"{item} does not fit any integer dtype")
    if overflow > 0:
        layout.huge = True
    elif small < 0:
        layout.negative = True
        if small < -2147483648:
            layout.wide = True
    elif small > 2147483647:
        layout.wide = True
    return 0


cdef int note_leaf(object item, int depth, Layout* layout) except -1:
    cdef int kind
    cdef mlxc_dtype dtype
    if layout.ndim < 0:
        if layout.list_depth != depth:
            refuse_ragged(depth)
        layout.ndim = depth
    elif layout.ndim != depth:
        refuse_ragged(depth)
    kind = scalar_kind(item)
    if kind == KIND_NONE:
        layout.has_arrays = True
        return 0
    if kind != KIND_FLOAT and is_numpy_scalar(item) or kind == KIND_FLOAT and not isinstance(item, float):
        dtype = strong_dtype(item, kind)
        if layout.strong >= 0:
            check(mlxc_promote(layout.strong, dtype, &dtype))
        layout.strong = dtype
        return 0
    if kind == KIND_INT:
        note_integer(item, layout)
    if kind > layout.kind:
        layout.kind = kind
    return 0


cdef mlxc_dtype strong_dtype(object scalar, int kind) except -1:
    """The dtype of a NumPy scalar: its own, 64-bit floats and complex numbers narrowed as ever."""
    cdef object name = scalar.dtype.name
    if name == "complex128" or kind == KIND_COMPLEX:
        return MLXC_COMPLEX64
    if name == "float64" or name == "longdouble" or name == "float128":
        return MLXC_FLOAT32
    return dtype_named(name)


cdef mlxc_dtype dtype_named(object name) except -1:
    for code in range(MLXC_COMPLEX128 + 1):
        if dtype_object(code).name == name:
            return code
    raise TypeError(f"no dtype for NumPy's {name}")


cdef int scan(object items, int depth, Layout* layout) except -1:
    cdef Py_ssize_t i, n = PySequence_Fast_GET_SIZE(items)
    cdef object item
    if layout.ndim >= 0 and depth >= layout.ndim:
        refuse_ragged(depth)
    if depth == layout.list_depth:
        if depth >= MLXC_MAX_NDIM:
            raise ValueError(f"an array has at most {MLXC_MAX_NDIM} axes; the lists are nested deeper")
        layout.shape[depth] = n
        layout.list_depth += 1
    elif layout.shape[depth] != n:
        refuse_ragged(depth)
    for i in range(n):
        item = <object>PySequence_Fast_GET_ITEM(items, i)
        if type(item) is float and layout.ndim == depth + 1:
            if layout.kind < KIND_FLOAT:
                layout.kind = KIND_FLOAT
        elif type(item) is int and layout.ndim == depth + 1:
            if layout.kind < KIND_INT:
                layout.kind = KIND_INT
            note_integer(item, layout)
        elif is_list(item):
            scan(item, depth + 1, layout)
        else:
            note_leaf(item, depth + 1, layout)
    return 0


cdef mlxc_dtype choose_dtype(Layout* layout) except -1:
    cdef mlxc_dtype own
    if layout.kind == KIND_COMPLEX:
        own = MLXC_COMPLEX64
    elif layout.kind == KIND_FLOAT:
        own = MLXC_FLOAT32
    elif layout.kind == KIND_INT:
        if layout.huge:
            if layout.negative:
                raise ValueError("no integer dtype holds both negative numbers and numbers of 2**63 and more")
            own = MLXC_UINT64
        else:
            own = MLXC_INT64 if layout.wide else MLXC_INT32
    elif layout.kind == KIND_BOOL:
        own = MLXC_BOOL
    else:
        return MLXC_FLOAT32 if layout.strong < 0 else layout.strong
    if layout.strong < 0:
        return own
    if layout.strong == MLXC_BOOL and layout.kind == KIND_INT:
        return own
    return weak_dtype(0, layout.kind, layout.strong)


cdef double as_double(object item) except? -1.0:
    if type(item) is float:
        return PyFloat_AS_DOUBLE(item)
    return PyFloat_AsDouble(item)


cdef double real_double(object item, mlxc_dtype dtype) except? -1.0:
    if type(item) is float:
        return PyFloat_AS_DOUBLE(item)
    if isinstance(item, complex) or scalar_kind(item) == KIND_COMPLEX:
        refuse_complex(item, dtype)
    return PyFloat_AsDouble(item)


cdef int64_t item_bits(object item, mlxc_dtype dtype) except? -1:
    cdef int kind
    if type(item) is int:
        return integer_bits(item, dtype)
    kind = scalar_kind(item)
    item = plain_number(item, kind)
    if kind == KIND_FLOAT or kind == KIND_COMPLEX:
        item = truncated(item, kind, dtype)
    return integer_bits(item, dtype)


cdef int64_t integer_in_range(object item, mlxc_dtype dtype, int64_t low, int64_t high) except? -1:
    cdef int overflow = 0
    cdef int64_t small
    if type(item) is int:
        small = PyLong_AsLongLongAndOverflow(item, &overflow)
        if overflow == 0 and low <= small <= high:
            return small
    return item_bits(item, dtype)


cdef int write_row(object items, Py_ssize_t n, mlxc_dtype dtype, char* p) except -1:
    cdef Py_ssize_t i
    if dtype == MLXC_FLOAT32:
        for i in range(n):
            (<float*>p)[i] = <float>real_double(<object>PySequence_Fast_GET_ITEM(items, i), dtype)
    elif dtype == MLXC_INT32:
        for i in range(n):
            (<int32_t*>p)[i] = <int32_t>integer_in_range(<object>PySequence_Fast_GET_ITEM(items, i), dtype,
                                                         -2147483648, 2147483647)
    elif dtype == MLXC_FLOAT64:
        for i in range(n):
            (<double*>p)[i] = real_double(<object>PySequence_Fast_GET_ITEM(items, i), dtype)
    elif dtype == MLXC_INT64 or dtype == MLXC_UINT64:
        for i in range(n):
            (<int64_t*>p)[i] = item_bits(<object>PySequence_Fast_GET_ITEM(items, i), dtype)
    elif dtype == MLXC_BOOL:
        for i in range(n):
            (<uint8_t*>p)[i] = 1 if <object>PySequence_Fast_GET_ITEM(items, i) else 0
    elif dtype == MLXC_UINT32:
        for i in range(n):
            (<uint32_t*>p)[i] = <uint32_t>item_bits(<object>PySequence_Fast_GET_ITEM(items, i), dtype)
    elif dtype == MLXC_INT8 or dtype == MLXC_UINT8:
        for i in range(n):
            (<uint8_t*>p)[i] = <uint8_t>item_bits(<object>PySequence_Fast_GET_ITEM(items, i), dtype)
    elif dtype == MLXC_INT16 or dtype == MLXC_UINT16:
        for i in range(n):
            (<uint16_t*>p)[i] = <uint16_t>item_bits(<object>PySequence_Fast_GET_ITEM(items, i), dtype)
    elif dtype == MLXC_FLOAT16:
        for i in range(n):
            (<uint16_t*>p)[i] = double_to_half(real_double(<object>PySequence_Fast_GET_ITEM(items, i), dtype))
    elif dtype == MLXC_BFLOAT16:
        for i in range(n):
            (<uint16_t*>p)[i] = double_to_bfloat(real_double(<object>PySequence_Fast_GET_ITEM(items, i), dtype))
    else:
        write_complex_row(items, n, dtype, p)
    return 0


cdef int write_complex_row(object items, Py_ssize_t n, mlxc_dtype dtype, char* p) except -1:
    cdef Py_ssize_t i
    cdef double re, im
    cdef object number
    for i in range(n):
        number = complex(<object>PySequence_Fast_GET_ITEM(items, i))
        re = PyComplex_RealAsDouble(number)
        im = PyComplex_ImagAsDouble(number)
        if dtype == MLXC_COMPLEX64:
            (<float*>p)[2 * i] = <float>re
            (<float*>p)[2 * i + 1] = <float>im
        else:
            (<double*>p)[2 * i] = re
            (<double*>p)[2 * i + 1] = im
    return 0


cdef char* write_lists(object items, int depth, Layout* layout, mlxc_dtype dtype, char* p) except NULL:
    # The lists may have changed since they were scanned (a number's __float__ can run any code).
    cdef Py_ssize_t i, n = PySequence_Fast_GET_SIZE(items)
    cdef object item
    if n != layout.shape[depth]:
        raise ValueError("a list changed its length while it was being read")
    if depth == layout.list_depth - 1:
        if type(items) is list:
            items = tuple(items)
        write_row(items, n, dtype, p)
        return p + n * mlxc_dtype_size(dtype)
    for i in range(n):
        if PySequence_Fast_GET_SIZE(items) != n:
            raise ValueError("a list changed its length while it was being read")
        item = <object>PySequence_Fast_GET_ITEM(items, i)
        if not is_list(item):
            refuse_ragged(depth)
        p = write_lists(item, depth + 1, layout, dtype, p)
    return p


cdef int collect_leaves(object items, int depth, int ndim, list out) except -1:
    for item in items:
        if depth + 1 < ndim:
            collect_leaves(item, depth + 1, ndim, out)
        else:
            out.append(item)
    return 0


cdef mlxc_array* join_leaves(object value, int dtype, Layout* layout) except NULL:
    """Lists in which arrays stand: every leaf becomes an array of one dtype and shape, then all are joined."""
    cdef list leaves = [], arrays = []
    cdef Array leaf, first = None
    cdef mlxc_dtype promoted = -1
    cdef mlxc_array* made = NULL
    cdef mlxc_array* joined = NULL
    cdef mlxc_array** handles = NULL
    cdef int kind, i, leaf_ndim
    cdef int32_t front = 0
    cdef int64_t shape[64]
    collect_leaves(value, 0, layout.ndim, leaves)
    for item in leaves:
        if scalar_kind(item) == KIND_NONE or is_numpy_scalar(item):
            leaf = as_array(item)
            if promoted < 0:
                promoted = mlxc_array_dtype(leaf.h)
            else:
                check(mlxc_promote(promoted, mlxc_array_dtype(leaf.h), &promoted))
            if first is None:
                first = leaf
            arrays.append(leaf)
        else:
            arrays.append(item)
    for i in range(len(leaves)):
        if type(arrays[i]) is not Array:
            kind = scalar_kind(arrays[i])
            promoted = weak_dtype(arrays[i], kind, promoted)
    if dtype >= 0:
        promoted = dtype
    leaf_ndim = mlxc_array_ndim(first.h)
    for i in range(leaf_ndim):
        shape[layout.ndim + i] = mlxc_array_shape(first.h)[i]
    for i in range(layout.ndim):
        shape[i] = layout.shape[i]
    for i in range(len(arrays)):
        leaf = arrays[i] if type(arrays[i]) is Array else as_array(arrays[i])
        if leaf.shape != first.shape:
            raise ValueError(f"arrays in a list must have one shape, got {first.shape} and {leaf.shape}")
        if mlxc_array_dtype(leaf.h) != promoted:
            check(mlxc_astype(leaf.h, promoted, NULL, &made))
            leaf = wrap(made)
        check(mlxc_expand_dims(leaf.h, &front, 1, NULL, &made))
        arrays[i] = wrap(made)
    handles = <mlxc_array**>malloc(len(arrays) * sizeof(mlxc_array*))
    if handles is NULL:
        raise MemoryError()
    try:
        for i in range(len(arrays)):
            handles[i] = (<Array>arrays[i]).h
        check(mlxc_concatenate(handles, len(arrays), 0, NULL, &joined))
    finally:
        free(handles)
    leaf = wrap(joined)
    check(mlxc_reshape(leaf.h, shape, layout.ndim + leaf_ndim, NULL, &joined))
    return joined


cdef bint holds_array(object items, set seen):
    """Whether something that is no number stands in the lists; each is looked into once, as one can hold itself."""
    seen.add(id(items))
    for item in items:
        if is_list(item):
            if id(item) not in seen and holds_array(item, seen):
                return True
        elif scalar_kind(item) == KIND_NONE:
            return True
    return False


cdef int note_mixed(object items, int depth, Layout* layout) except -1:
    """The kinds of the numbers and the promoted dtype of the arrays, at any depth."""
    cdef mlxc_dtype dtype
    if depth >= MLXC_MAX_NDIM:
        raise ValueError(f"an array has at most {MLXC_MAX_NDIM} axes; the lists are nested deeper")
    for item in items:
        if is_list(item):
            note_mixed(item, depth + 1, layout)
            continue
        kind = scalar_kind(item)
        if kind != KIND_NONE:
            layout.kind = max(layout.kind, <int>kind)
            continue
        dtype = mlxc_array_dtype(as_array(item).h)
        if layout.strong >= 0:
            check(mlxc_promote(layout.strong, dtype, &dtype))
        layout.strong = dtype
    return 0


cdef mlxc_array* join_mixed(object items, mlxc_dtype dtype) except NULL:
    """Lists in which arrays stand beside lists: each item becomes an array of the dtype, and all are stacked."""
    cdef list parts = []
    cdef Array part
    cdef mlxc_array* made = NULL
    cdef mlxc_array** handles = NULL
    cdef int32_t front = 0
    for item in items:
        if is_list(item):
            part = wrap(join_mixed(item, dtype) if holds_array(item, set()) else list_array(item, dtype))
        else:
            kind = scalar_kind(item)
            part = as_array(item) if kind == KIND_NONE else wrap(scalar_array(plain_number(item, kind), kind, dtype))
        if parts and part.shape != (<Array>parts[0]).shape:
            raise ValueError(f"lists and arrays in a list must have one shape, got {(<Array>parts[0]).shape} and "
                             f"{part.shape}")
        if mlxc_array_dtype(part.h) != dtype:
            check(mlxc_astype(part.h, dtype, NULL, &made))
            part = wrap(made)
        parts.append(part)
    parts = [expand_front(part, &front) for part in parts]
    handles = <mlxc_array**>malloc(len(parts) * sizeof(mlxc_array*))
    if handles is NULL:
        raise MemoryError()
    try:
        for i in range(len(parts)):
            handles[i] = (<Array>parts[i]).h
        check(mlxc_concatenate(handles, len(parts), 0, NULL, &made))
    finally:
        free(handles)
    return made


cdef Array expand_front(Array a, int32_t* front):
    cdef mlxc_array* made = NULL
    check(mlxc_expand_dims(a.h, front, 1, NULL, &made))
    return wrap(made)


cdef mlxc_array* list_array(object value, int dtype) except NULL:
    cdef Layout layout
    cdef int64_t size = 1
    cdef int i
    cdef char* data
    cdef mlxc_array* out = NULL
    memset(&layout, 0, sizeof(layout))
    layout.ndim = layout.kind = layout.strong = -1
    # Numbers in a flat list are the common case: the first one fixes the depth.
    try:
        scan(value, 0, &layout)
    except ValueError:
        # A list nested too deep, or one that holds itself, has reached the limit already.
        if layout.list_depth >= MLXC_MAX_NDIM or not holds_array(value, set()):
            raise
        layout.kind = layout.strong = -1
        note_mixed(value, 0, &layout)
        if dtype < 0:
            dtype = layout.strong if layout.kind < 0 else weak_dtype(0, layout.kind, layout.strong)
        return join_mixed(value, dtype)
    if layout.has_arrays:
        return join_leaves(value, dtype, &layout)
    if dtype < 0:
        dtype = choose_dtype(&layout)
    for i in range(layout.list_depth):
        size *= layout.shape[i]
    data = <char*>malloc(size * mlxc_dtype_size(dtype) + 1)
    if data is NULL:
        raise MemoryError(f"no memory for {size} elements of {dtype_object(dtype).name}")
    try:
        write_lists(value, 0, &layout, dtype, data)
        check(mlxc_array_from_host(data, dtype, layout.list_depth, layout.shape, &out))
    finally:
        free(data)
    return out
