# DLPack in and out; see _dlpack.pyx.
from mlxc._buffer cimport Copy
from mlxc._capi cimport mlxc_array

# A new array of an object that offers __dlpack__; dtype -1: its own (narrowed as for buffers).
cdef mlxc_array* dlpack_array(object value, int dtype, Copy copy, bint narrow) except NULL
# Array's __dlpack__.
cdef object export_capsule(mlxc_array* h, object max_version, object dl_device, object copy)
