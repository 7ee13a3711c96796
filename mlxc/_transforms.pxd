# Trees of arrays, lists of handles and the callback into Python; for the modules of the transforms.
from mlxc._capi cimport mlxc_array, mlxc_arrays, mlxc_closure

# Appends the arrays in a tree; other leaves are passed over.
cdef int collect_arrays(object tree, list found) except -1
# The tree with its arrays replaced by the next ones of an iterator.
cdef object rebuild(object tree, object leaves)
# References of their own, for drop_handles.
cdef mlxc_array** take_handles(list arrays) except NULL
cdef void drop_handles(mlxc_array** handles) noexcept
# One array or a list or tuple of arrays, as a list.
cdef list flat_arrays(object arrays, str what, str name)
cdef object need_callable(object fun, str name)


cdef class ArrayList:
    cdef mlxc_arrays* c

    cdef list take(self)


cdef class Call:
    cdef mlxc_closure closure

    cdef list run(self, list stand_ins)
