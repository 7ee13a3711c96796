# matmul for arrays of one dimension and more, as a C-level function; see _matmul.pyx.
from mlxc._capi cimport mlxc_array, mlxc_error, mlxc_stream

# NumPy's rule: a 1-D left is a row, a 1-D right a column, and the axis this adds is dropped from the result. It has the
# signature of a binary op, so operators and free functions use it alike.
cdef mlxc_error* matmul_any(mlxc_array* a, mlxc_array* b, mlxc_stream* stream, mlxc_array** out) noexcept nogil
