# Python and NumPy numbers: their kind, the dtype they take, and 0-d arrays of them.
#
# Called by operators, free functions and constructors. The rule of weak scalars: a number beside an
# array keeps the array's dtype within its kind (bool < integer < float < complex) and moves to the
# default dtype of the number's own kind where that is higher. NumPy's scalars are weak too.
from cpython.bool cimport PyBool_Check
from cpython.complex cimport PyComplex_Check, PyComplex_ImagAsDouble, PyComplex_RealAsDouble
from cpython.float cimport PyFloat_Check
from cpython.long cimport PyLong_AsDouble, PyLong_Check

from mlxc._capi cimport (
    MLXC_BOOL, MLXC_COMPLEX64, MLXC_COMPLEX128, MLXC_FLOAT32, MLXC_FLOAT64, MLXC_INT32, MLXC_INT64,
    MLXC_UINT64, int64_t, mlxc_array, mlxc_array_from_bool, mlxc_array_from_complex,
    mlxc_array_from_double, mlxc_array_from_int, mlxc_array_from_uint, mlxc_constant_double, mlxc_constant_int,
    mlxc_dtype, mlxc_dtype_size, uint64_t,
)
from mlxc._dtype cimport dtype_object, is_complex, is_inexact, is_unsigned
from mlxc._error cimport check

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object, int* overflow) except? -1
    unsigned long long PyLong_AsUnsignedLongLong(object) except? 18446744073709551615

import sys

cdef object numpy_generic = None  # numpy.generic, once NumPy is loaded
cdef dict modules = sys.modules


cdef bint is_numpy_scalar(object value) noexcept:
    global numpy_generic
    if numpy_generic is None:
        if "numpy" not in modules:
            return False
        numpy_generic = getattr(modules["numpy"], "generic", None)
        if numpy_generic is None:
            return False
    return isinstance(value, numpy_generic)


cdef int scalar_kind(object value) noexcept:
    if type(value) is float:
        return KIND_FLOAT
    if type(value) is int:
        return KIND_INT
    if PyBool_Check(value):
        return KIND_BOOL
    if PyFloat_Check(value):
        return KIND_FLOAT
    if PyLong_Check(value):
        return KIND_INT
    if PyComplex_Check(value):
        return KIND_COMPLEX
    if is_numpy_scalar(value):
        kind = value.dtype.kind
        if kind == "b":
            return KIND_BOOL
        if kind == "i" or kind == "u":
            return KIND_INT
        if kind == "f" or value.dtype.name == "bfloat16":
            return KIND_FLOAT
        if kind == "c":
            return KIND_COMPLEX
    return KIND_NONE


cdef object plain_number(object value, int kind):
    if type(value) is float or type(value) is int or not is_numpy_scalar(value):
        return value
    if kind == KIND_FLOAT:
        return float(value)
    if kind == KIND_INT:
        return int(value)
    if kind == KIND_COMPLEX:
        return complex(value)
    return bool(value)


cdef mlxc_dtype own_dtype(object number, int kind) except -1:
    cdef int overflow = 0
    cdef long long small
    if kind == KIND_BOOL:
        return MLXC_BOOL
    if kind == KIND_FLOAT:
        return MLXC_FLOAT32
    if kind == KIND_COMPLEX:
        return MLXC_COMPLEX64
    small = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow > 0:
        return MLXC_UINT64
    if overflow < 0:
        raise ValueError(f"{number} does not fit any integer dtype")
    return MLXC_INT32 if -2147483648 <= small <= 2147483647 else MLXC_INT64


cdef mlxc_dtype weak_dtype(object number, int kind, mlxc_dtype other) except -1:
    if kind == KIND_FLOAT:
        return other if is_inexact(other) else MLXC_FLOAT32
    if kind == KIND_INT:
        return own_dtype(number, kind) if other == MLXC_BOOL else other
    if kind == KIND_BOOL:
        return other
    if is_complex(other):
        return other
    return MLXC_COMPLEX128 if other == MLXC_FLOAT64 else MLXC_COMPLEX64


cdef int raise_misfit(object number, mlxc_dtype dtype) except -1:
    cdef object values = 2 ** <object>(8 * <int>mlxc_dtype_size(dtype))  # a Python integer: 64 bits do not hold it
    low = 0 if is_unsigned(dtype) else -(values // 2)
    high = (values if is_unsigned(dtype) else values // 2) - 1
    raise ValueError(f"{number} does not fit {dtype_object(dtype).name}, which holds {low} to {high}")


cdef int64_t integer_bits(object number, mlxc_dtype dtype) except? -1:
    cdef int overflow = 0
    cdef int bits = 8 * <int>mlxc_dtype_size(dtype)
    cdef long long small = PyLong_AsLongLongAndOverflow(number, &overflow)
    if overflow != 0:
        if overflow < 0 or dtype != MLXC_UINT64 or number > 18446744073709551615:
            raise_misfit(number, dtype)
        return <int64_t><uint64_t>PyLong_AsUnsignedLongLong(number)
    if is_unsigned(dtype):
        if small < 0 or (bits < 64 and small >> bits):
            raise_misfit(number, dtype)
    elif bits < 64 and not -(<long long>1 << (bits - 1)) <= small < <long long>1 << (bits - 1):
        raise_misfit(number, dtype)
    return small


cdef object truncated(object number, int kind, mlxc_dtype dtype):
    if kind == KIND_COMPLEX:
        refuse_complex(number, dtype)
    try:
        return int(number)
    except (OverflowError, ValueError):
        raise ValueError(f"{number} has no value in {dtype_object(dtype).name}") from None


cdef int refuse_complex(object number, mlxc_dtype dtype) except -1:
    raise TypeError(f"the complex number {number} has no value in {dtype_object(dtype).name}: take its .real")


cdef mlxc_array* constant_array(object number, int kind, mlxc_dtype dtype) except NULL:
    cdef mlxc_array* out = NULL
    if is_inexact(dtype) and (kind == KIND_FLOAT or kind == KIND_INT):
        check(mlxc_constant_double(<double>number if kind == KIND_FLOAT else PyLong_AsDouble(number), dtype, &out))
    elif kind == KIND_INT and not is_inexact(dtype) and dtype != MLXC_BOOL and dtype != MLXC_UINT64:
        check(mlxc_constant_int(integer_bits(number, dtype), dtype, &out))
    else:
        return scalar_array(number, kind, dtype)
    return out


cdef mlxc_array* scalar_array(object number, int kind, mlxc_dtype dtype) except NULL:
    cdef mlxc_array* out = NULL
    if is_inexact(dtype):
        if kind == KIND_FLOAT:
            check(mlxc_array_from_double(<double>number, dtype, &out))
        elif kind == KIND_INT:
            check(mlxc_array_from_double(PyLong_AsDouble(number), dtype, &out))
        elif kind == KIND_BOOL:
            check(mlxc_array_from_bool(number is True, dtype, &out))
        elif is_complex(dtype):
            check(mlxc_array_from_complex(PyComplex_RealAsDouble(number), PyComplex_ImagAsDouble(number), dtype, &out))
        else:
            refuse_complex(number, dtype)
    elif dtype == MLXC_BOOL or kind == KIND_BOOL:
        check(mlxc_array_from_bool(1 if number else 0, dtype, &out))
    else:
        if kind != KIND_INT:
            number = truncated(number, kind, dtype)
        if is_unsigned(dtype):
            check(mlxc_array_from_uint(<uint64_t>integer_bits(number, dtype), dtype, &out))
        else:
            check(mlxc_array_from_int(integer_bits(number, dtype), dtype, &out))
    return out
