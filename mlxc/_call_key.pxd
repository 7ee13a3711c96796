# What a call of a compiled function is known by: see _call_key.pyx.
from mlxc._capi cimport mlxc_array

# Whether it is mlxc.random.state, which stands for a list of one array.
cdef bint is_random_state(object value)

cdef class CallKey:
    """The bytes that tell calls apart that need programs of their own, and the arrays of the call in order."""

    cdef char* data
    cdef Py_ssize_t size, room
    cdef mlxc_array** arrays  # with references
    cdef Py_ssize_t n_arrays, arrays_room
    cdef bint shapes          # whether shapes belong to the key, or only numbers of axes
    cdef list types           # of containers that are no plain ones, so that their addresses stay theirs
    cdef char[224] few_bytes
    cdef mlxc_array* few_arrays[16]

    # Enters an argument: a tree of arrays and constants.
    cdef int add(self, object tree) except -1
    # Enters captured state, whose other leaves are passed over.
    cdef int add_state(self, object tree) except -1
    # Starts anew with the shapes in the key.
    cdef void restart(self, bint shapes) noexcept
    cdef bytes key(self)
    cdef keep_type(self, object kind)
    cdef int add_tree(self, object tree, bint state) except -1
    cdef int add_array(self, mlxc_array* h) except -1
    cdef int add_number(self, char token, long long number) except -1
    cdef int add_bytes(self, char token, const char* text, Py_ssize_t n) except -1
    cdef int add_constant(self, object value, bint state) except -1
    cdef int make_room(self, Py_ssize_t more) except -1
