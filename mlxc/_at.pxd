# x.at[...] and iteration; see _at.pyx.
from mlxc._array cimport Array

cdef object array_at(Array a)
cdef object array_iterator(Array a)
