# Where a boolean array is true; see _mask.pyx.
from mlxc._array cimport Array

# One index array an axis (int32, or int64 for long axes), in row-major order of the places that are true
# (or nonzero). Evaluates; ValueError naming `what` inside a transform.
cdef list find_true(Array mask, str what)
