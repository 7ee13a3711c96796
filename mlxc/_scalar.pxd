# Python and NumPy numbers as 0-d arrays; see _scalar.pyx.
from mlxc._capi cimport int64_t, mlxc_array, mlxc_dtype, uint64_t

cdef enum:
    KIND_NONE = -1
    KIND_BOOL = 0
    KIND_INT = 1
    KIND_FLOAT = 2
    KIND_COMPLEX = 3

# What kind of number `value` is; KIND_NONE for anything else.
cdef int scalar_kind(object value) noexcept
# Whether it is a NumPy scalar (numpy.float64 counts as Python's float).
cdef bint is_numpy_scalar(object value) noexcept
# The Python number of a scalar of that kind.
cdef object plain_number(object value, int kind)
# The dtype a number takes on its own, and beside an array of dtype `other`.
cdef mlxc_dtype own_dtype(object number, int kind) except -1
cdef mlxc_dtype weak_dtype(object number, int kind, mlxc_dtype other) except -1
# A new 0-d array of that dtype; ValueError if the number does not fit.
cdef mlxc_array* scalar_array(object number, int kind, mlxc_dtype dtype) except NULL
# The same for what is only given to ops, never to a user: a shared array, which costs less.
cdef mlxc_array* constant_array(object number, int kind, mlxc_dtype dtype) except NULL
# An integer as the 64 bits of dtype (signed or unsigned), checked to fit it.
cdef int64_t integer_bits(object number, mlxc_dtype dtype) except? -1
# The integer that a number becomes when cast: floats truncate; NaN and infinity are ValueError.
cdef object truncated(object number, int kind, mlxc_dtype dtype)
cdef int refuse_complex(object number, mlxc_dtype dtype) except -1
