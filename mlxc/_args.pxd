# Shapes and axes from Python arguments; see _args.pyx.
from mlxc._capi cimport int32_t, int64_t

# MLXC_MAX_NDIM is 32.
cdef struct Shape:
    int32_t n
    int64_t v[32]

cdef struct Axes:
    int32_t n
    int32_t v[32]

# An int, or a sequence of ints (NumPy's and 0-d integer arrays count); TypeError, ValueError.
cdef int to_shape(object value, Shape* out) except -1
# None gives n = -1 ("all"); an int one axis; a sequence several. Not checked against an ndim: C does.
cdef int to_axes(object value, Axes* out) except -1
# An integer argument: int, NumPy integer, 0-d integer array (bool and float are TypeError).
cdef int64_t to_int(object value, str name) except? -1
# An axis within [-ndim, ndim), made non-negative; else AxisError.
cdef int32_t to_axis(object value, int32_t ndim) except -1
