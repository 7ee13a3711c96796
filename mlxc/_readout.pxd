# Values out of arrays as Python objects; see _readout.pyx.
from mlxc._capi cimport mlxc_array

# Computes the values and waits, without the GIL.
cdef int wait_for(mlxc_array* h) except -1
# The one element as a Python number; ValueError for other sizes.
cdef object read_item(mlxc_array* h)
# Nested lists, or a number for a 0-d array.
cdef object read_list(mlxc_array* h)
# Row-major bytes.
cdef bytes read_bytes(mlxc_array* h)
