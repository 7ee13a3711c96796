# Arrays of raw bytes in memory that something else owns, and the raw bytes of arrays: what file formats need.
#
# Called by the readers and writers in _files/. Bounds are checked here once more, whatever the reader has checked:
# no shape and no offset makes an array that reaches outside the buffer. Read-only memory is shared where its
# alignment allows, and the array keeps it alive; other memory is copied.
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from mlxc._array cimport Array, wrap
from mlxc._buffer cimport can_share, host_array, shared_array
from mlxc._capi cimport MLXC_BOOL, MLXC_MAX_NDIM, int64_t, mlxc_array, mlxc_dtype_size
from mlxc._dtype cimport Dtype

from mlxc._dtype import float64, uint8, uint16, uint32, uint64
from mlxc._ops_elementwise import contiguous, view
from mlxc._ops_shape import reshape

cdef dict PLAIN = {1: uint8, 2: uint16, 4: uint32, 8: uint64, 16: float64}


cdef bytes clean_bools(const unsigned char* data, Py_ssize_t n):
    """Bytes that are 0 or 1, as kernels expect of bool, if some of these are not; else None."""
    cdef Py_ssize_t i
    cdef unsigned char most = 0
    cdef char* out
    with nogil:
        for i in range(n):
            most |= data[i]
    if most <= 1:
        return None
    cleaned = PyBytes_FromStringAndSize(NULL, n)
    out = PyBytes_AS_STRING(cleaned)
    with nogil:
        for i in range(n):
            out[i] = data[i] != 0
    return cleaned


def array_from_bytes(data, Dtype dtype, shape, offset=0, bint column_major=False):
    """An array of the elements that lie, in the machine's byte order, at an offset in a buffer.

    Args:
        data: bytes, mmap or any contiguous buffer. Read-only memory is shared, not copied, if the elements are aligned.
        dtype: what the elements are.
        shape: sizes, ints that are not negative.
        offset: bytes from the start of the buffer.
        column_major: whether the first axis is the one that varies fastest.

    Raises:
        ValueError: if the buffer does not hold the elements.
    """
    cdef Py_buffer buffer
    cdef int64_t sizes[32]
    cdef int64_t strides[32]
    cdef int ndim = len(shape), i, axis
    cdef int64_t step = mlxc_dtype_size(dtype.code)
    cdef char* start
    cdef mlxc_array* out
    cdef bint taken = False
    if ndim > MLXC_MAX_NDIM:
        raise ValueError(f"an array has at most {MLXC_MAX_NDIM} axes, got {ndim}")
    count = 1
    for size in shape:
        if size < 0:
            raise ValueError(f"the shape {tuple(shape)} has a negative size")
        count *= size
    nbytes = count * dtype.size
    if max(shape, default=0) >= 2**63 // 16:
        raise ValueError(f"the shape {tuple(shape)} is too large")
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        if offset < 0 or nbytes > buffer.len - offset:
            raise ValueError(f"{nbytes} bytes of shape {tuple(shape)} at {offset} are not in a buffer of {buffer.len}")
        start = <char*>buffer.buf + (<Py_ssize_t>offset if nbytes else 0)
        if dtype.code == MLXC_BOOL:
            cleaned = clean_bools(<unsigned char*>start, nbytes)
            if cleaned is not None:
                return array_from_bytes(cleaned, dtype, shape, 0, column_major)
        for i in range(ndim):
            axis = i if column_major else ndim - 1 - i
            sizes[axis] = shape[axis]
            strides[axis] = step
            # An array without elements may have any sizes: their product says nothing of memory.
            step *= sizes[axis] if count else 1
        if buffer.readonly and can_share(start, dtype.code, ndim, strides):
            out = shared_array(&buffer, start, dtype.code, ndim, sizes, strides)
            taken = True
        else:
            out = host_array(start, dtype.code, dtype.code, ndim, sizes, strides)
        return wrap(out)
    finally:
        if not taken:
            PyBuffer_Release(&buffer)


def bytes_of_array(Array a):
    """A read-only buffer of the elements in row-major order; evaluates the array. Bytes of dtypes that the buffer
    protocol does not know are shown as unsigned integers."""
    if mlxc_dtype_size(a.dtype.code) * a.size == 0:
        return b""
    plain = view(reshape(a, (-1,)), PLAIN[a.dtype.size])
    lent = memoryview(plain)
    # Of one axis a view with steps stays one; a file takes bytes without gaps.
    return lent if lent.c_contiguous else memoryview(contiguous(plain))
