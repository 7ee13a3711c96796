# Keys of random draws; see _random_key.pyx.
from mlxc._array cimport Array
from mlxc._capi cimport mlxc_stream

# The key given, or the next one of the calling thread if it is None.
cdef Array pick_key(object key, mlxc_stream* s)
