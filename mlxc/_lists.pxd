# Nested lists and tuples as arrays; see _lists.pyx.
from mlxc._capi cimport mlxc_array

# A new array of a list or tuple; dtype -1: what the items need.
cdef mlxc_array* list_array(object value, int dtype) except NULL
