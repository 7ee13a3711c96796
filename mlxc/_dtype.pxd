# Dtype objects and what accepts them; see _dtype.pyx.
cimport cython

from mlxc._capi cimport mlxc_dtype

@cython.final
cdef class Dtype:
    cdef readonly mlxc_dtype code
    cdef readonly Py_ssize_t size
    cdef readonly str name
    cdef str _text
    cdef Py_hash_t _hash

# The one object of a dtype code.
cdef Dtype dtype_object(mlxc_dtype code)
# The code of a Dtype, Python type, NumPy dtype or scalar type, or name; else TypeError.
cdef mlxc_dtype to_dtype(object value) except -1
# The same, `default` for None.
cdef inline mlxc_dtype to_dtype_or(object value, mlxc_dtype default) except? -1:
    if value is None:
        return default
    if type(value) is Dtype:
        return (<Dtype>value).code
    return to_dtype(value)

cdef inline bint is_integer(mlxc_dtype d) noexcept nogil:
    return 1 <= d <= 8

cdef inline bint is_unsigned(mlxc_dtype d) noexcept nogil:
    return 1 <= d <= 4

cdef inline bint is_floating(mlxc_dtype d) noexcept nogil:
    return 9 <= d <= 12

cdef inline bint is_complex(mlxc_dtype d) noexcept nogil:
    return d >= 13

cdef inline bint is_inexact(mlxc_dtype d) noexcept nogil:
    return d >= 9
