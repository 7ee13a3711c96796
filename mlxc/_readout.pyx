# Values out of arrays: Python numbers, nested lists, bytes.
#
# Called by item, tolist, bool, int, float and printing. Everything here evaluates; the GIL is released
# while it does, and a reference of its own keeps the values alive meanwhile.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.complex cimport PyComplex_FromDoubles
from cpython.float cimport PyFloat_FromDouble
from cpython.list cimport PyList_New
from cpython.long cimport PyLong_FromLong, PyLong_FromLongLong, PyLong_FromUnsignedLongLong
from cpython.ref cimport Py_INCREF

from mlxc._capi cimport (
    MLXC_BFLOAT16, MLXC_BOOL, MLXC_COMPLEX64, MLXC_FLOAT16, MLXC_FLOAT32, MLXC_FLOAT64,
    MLXC_INT8, MLXC_INT16, MLXC_INT32, MLXC_INT64, MLXC_UINT8, MLXC_UINT16, MLXC_UINT32, MLXC_UINT64,
    int8_t, int16_t, int32_t, int64_t, mlxc_array, mlxc_array_dtype, mlxc_array_host, mlxc_array_ndim,
    mlxc_array_release, mlxc_array_retain, mlxc_array_shape, mlxc_array_size,
    mlxc_array_to_host, mlxc_dtype, mlxc_dtype_size, mlxc_error, mlxc_eval, uint8_t, uint16_t, uint32_t,
    uint64_t,
)
from mlxc._error cimport check
from mlxc._half cimport bfloat_to_double, half_to_double

cdef extern from "Python.h":
    void PyList_SET_ITEM(object, Py_ssize_t, object)


cdef int wait_for(mlxc_array* h) except -1:
    cdef mlxc_error* error
    mlxc_array_retain(h)
    with nogil:
        error = mlxc_eval(&h, 1)
        mlxc_array_release(h)
    return check(error)


cdef inline object number_at(const char* p, mlxc_dtype dtype):
    if dtype == MLXC_FLOAT32:
        return PyFloat_FromDouble((<const float*>p)[0])
    if dtype == MLXC_INT32:
        return PyLong_FromLong((<const int32_t*>p)[0])
    if dtype == MLXC_BOOL:
        return (<const uint8_t*>p)[0] != 0
    if dtype == MLXC_INT64:
        return PyLong_FromLongLong((<const int64_t*>p)[0])
    if dtype == MLXC_FLOAT64:
        return PyFloat_FromDouble((<const double*>p)[0])
    if dtype == MLXC_UINT32:
        return PyLong_FromLongLong((<const uint32_t*>p)[0])
    if dtype == MLXC_UINT64:
        return PyLong_FromUnsignedLongLong((<const uint64_t*>p)[0])
    if dtype == MLXC_UINT8:
        return PyLong_FromLong((<const uint8_t*>p)[0])
    if dtype == MLXC_UINT16:
        return PyLong_FromLong((<const uint16_t*>p)[0])
    if dtype == MLXC_INT8:
        return PyLong_FromLong((<const int8_t*>p)[0])
    if dtype == MLXC_INT16:
        return PyLong_FromLong((<const int16_t*>p)[0])
    if dtype == MLXC_FLOAT16:
        return PyFloat_FromDouble(half_to_double((<const uint16_t*>p)[0]))
    if dtype == MLXC_BFLOAT16:
        return PyFloat_FromDouble(bfloat_to_double((<const uint16_t*>p)[0]))
    if dtype == MLXC_COMPLEX64:
        return PyComplex_FromDoubles((<const float*>p)[0], (<const float*>p)[1])
    return PyComplex_FromDoubles((<const double*>p)[0], (<const double*>p)[1])


cdef inline int put(object row, Py_ssize_t i, object item) except -1:
    Py_INCREF(item)
    PyList_SET_ITEM(row, i, item)
    return 0


cdef object read_row(const char* p, Py_ssize_t n, int64_t step, mlxc_dtype dtype):
    cdef object row = PyList_New(n)
    cdef Py_ssize_t i
    if dtype == MLXC_FLOAT32:
        for i in range(n):
            put(row, i, PyFloat_FromDouble((<const float*>(p + i * step))[0]))
    elif dtype == MLXC_INT32:
        for i in range(n):
            put(row, i, PyLong_FromLong((<const int32_t*>(p + i * step))[0]))
    else:
        for i in range(n):
            put(row, i, number_at(p + i * step, dtype))
    return row


cdef object read_axis(const char* p, int axis, int ndim, const int64_t* shape, const int64_t* strides,
                      mlxc_dtype dtype):
    cdef int64_t step = strides[axis] * <int64_t>mlxc_dtype_size(dtype)
    cdef Py_ssize_t i, n = shape[axis]
    if axis == ndim - 1:
        return read_row(p, n, step, dtype)
    return [read_axis(p + i * step, axis + 1, ndim, shape, strides, dtype) for i in range(n)]


cdef object read_item(mlxc_array* h):
    cdef const void* data = NULL
    cdef const int64_t* strides = NULL
    cdef mlxc_error* error
    if mlxc_array_size(h) != 1:
        raise ValueError(f"only an array of one element has a Python value, this one has {mlxc_array_size(h)}")
    mlxc_array_retain(h)
    try:
        with nogil:
            error = mlxc_array_host(h, &data, &strides)
        check(error)
        return number_at(<const char*>data, mlxc_array_dtype(h))
    finally:
        mlxc_array_release(h)


cdef object read_list(mlxc_array* h):
    cdef const void* data = NULL
    cdef const int64_t* strides = NULL
    cdef mlxc_error* error
    cdef int ndim = mlxc_array_ndim(h)
    mlxc_array_retain(h)
    try:
        with nogil:
            error = mlxc_array_host(h, &data, &strides)
        check(error)
        if ndim == 0:
            return number_at(<const char*>data, mlxc_array_dtype(h))
        return read_axis(<const char*>data, 0, ndim, mlxc_array_shape(h), strides, mlxc_array_dtype(h))
    finally:
        mlxc_array_release(h)


cdef bytes read_bytes(mlxc_array* h):
    cdef Py_ssize_t n = <Py_ssize_t>(<size_t>mlxc_array_size(h) * mlxc_dtype_size(mlxc_array_dtype(h)))
    cdef bytes out = PyBytes_FromStringAndSize(NULL, n)
    cdef char* data = PyBytes_AS_STRING(out)
    cdef mlxc_error* error
    mlxc_array_retain(h)
    with nogil:
        error = mlxc_array_to_host(h, data, n)
        mlxc_array_release(h)
    check(error)
    return out
