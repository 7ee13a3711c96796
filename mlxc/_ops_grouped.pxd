# What quantised products share with the plain ones; see _ops_grouped.pyx.
from mlxc._array cimport Array
from mlxc._capi cimport mlxc_stream

# The index array of an argument, or the numbers of all matrices of `a`, in the shape of its leading axes, for None.
cdef Array to_matrix_indices(str op, object indices, Array a, mlxc_stream* s)
