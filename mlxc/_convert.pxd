# Any Python object as an array; see _convert.pyx.
from mlxc._capi cimport mlxc_array

# A new reference; dtype -1: what the value suggests. Lists and tuples only if `lists`.
cdef mlxc_array* convert(object value, int dtype, bint lists) except NULL
# Whether `value` is something that an operator may convert (not None, text, lists or strangers).
cdef bint is_array_like(object value)
