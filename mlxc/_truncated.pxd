# The truncated normal distribution; see _truncated.pyx.
from mlxc._array cimport Array
from mlxc._capi cimport mlxc_stream

# Turns numbers in [0, 1) into normal ones between a and b, in the dtype of u.
cdef Array draw_truncated(Array u, Array a, Array b, mlxc_stream* s)
