# The text of arrays; see _printing.pyx.
from mlxc._array cimport Array

cdef str format_array(Array a)
