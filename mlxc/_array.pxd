# The array class and the helpers that free functions are made of; see _array.pyx.
cimport cython

from mlxc._capi cimport mlxc_array, mlxc_dtype, mlxc_error, mlxc_stream

ctypedef mlxc_error* (*unary_fn)(mlxc_array*, mlxc_stream*, mlxc_array**) noexcept nogil
ctypedef mlxc_error* (*binary_fn)(mlxc_array*, mlxc_array*, mlxc_stream*, mlxc_array**) noexcept nogil

@cython.final
@cython.freelist(64)
@cython.no_gc
cdef class Array:
    cdef mlxc_array* h      # one reference, never NULL once made
    cdef tuple _shape       # made at first use
    cdef object __weakref__

# A Python object for the reference `h`, which is taken over.
cdef Array wrap(mlxc_array* h)
# The object itself if it is an Array, else a conversion: Python and NumPy scalars, NumPy arrays,
# buffers, DLPack and __mlx_array__ objects. Lists and everything else: TypeError.
cdef Array as_array(object value)
# The same, and lists and tuples too (what constructors take).
cdef Array as_array_or_list(object value)
# An operand beside an array of dtype `other`: Python scalars are weak (they become 0-d arrays of the
# dtype that keeps the other's dtype inside its kind), the rest as as_array.
cdef Array as_operand(object value, mlxc_dtype other)
# as_array for one argument, or as_operand for the one beside an array. Free functions are one line.
cdef Array apply_unary(unary_fn fn, object a, mlxc_stream* stream)
cdef Array apply_binary(binary_fn fn, object a, object b, mlxc_stream* stream)
# Makes the object stand for another array of the same shape; takes the reference over.
cdef int rebind(Array a, mlxc_array* h) noexcept
