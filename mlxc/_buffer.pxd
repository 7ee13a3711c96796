# Host memory in and out through Python's buffer protocol; see _buffer.pyx.
from mlxc._capi cimport int64_t, mlxc_array, mlxc_dtype

cdef enum Copy:
    COPY_ALWAYS = 0
    COPY_NEVER = 1     # share, or ValueError
    COPY_IF_NEEDED = 2

# A new array of a buffer (NumPy, array.array, memoryview, bytes); dtype -1: the buffer's, with 64-bit
# floats and complex numbers narrowed. `found` becomes False, and NULL is returned, for other objects.
cdef mlxc_array* buffer_array(object value, int dtype, Copy copy, bint narrow, bint* found) except? NULL
# An array of host memory described by a pointer and byte strides; narrows and casts as asked.
cdef mlxc_array* host_array(void* data, int source, int dtype, int ndim, const int64_t* shape,
                            const int64_t* strides) except NULL
# An array of memory inside a buffer, without a copy (strides in bytes, or NULL). The view is the array's afterwards.
cdef mlxc_array* shared_array(Py_buffer* view, void* data, mlxc_dtype dtype, int ndim, const int64_t* shape,
                              const int64_t* strides) except NULL
# Whether such memory can be used as it is, without a copy.
cdef bint can_share(const void* data, int dtype, int ndim, const int64_t* strides) noexcept

# Fill in and give back a buffer for Array's __getbuffer__ and __releasebuffer__.
cdef int export_buffer(object owner, mlxc_array* h, Py_buffer* view, int flags) except -1
cdef void release_export(Py_buffer* view) noexcept
# Array's __array__: a read-only NumPy view where one is possible.
cdef object numpy_array(object owner, mlxc_array* h, object shape, object dtype, object copy)
