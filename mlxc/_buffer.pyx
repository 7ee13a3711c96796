# Host memory in and out: NumPy arrays and all that speaks Python's buffer protocol.
#
# Called by the constructor, asarray and Array's buffer slots. Memory that comes in is copied unless
# sharing was asked for; memory that goes out is lent read-only, and a reference to the array keeps it
# alive for as long as the borrower has it, whatever happens to the Array object meanwhile.
from cpython.buffer cimport (
    PyBUF_ANY_CONTIGUOUS, PyBUF_C_CONTIGUOUS, PyBUF_F_CONTIGUOUS, PyBUF_FORMAT, PyBUF_FULL_RO, PyBUF_ND,
    PyBUF_STRIDES, PyBUF_WRITABLE, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer,
)
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, strlen

from mlxc._capi cimport (
    MLXC_BFLOAT16, MLXC_BOOL, MLXC_COMPLEX64, MLXC_COMPLEX128, MLXC_CPU, MLXC_FLOAT16, MLXC_FLOAT32,
    MLXC_FLOAT64, MLXC_INT8, MLXC_INT16, MLXC_INT32, MLXC_INT64, MLXC_MAX_NDIM, MLXC_UINT8, MLXC_UINT16,
    MLXC_UINT32, MLXC_UINT64, int64_t, mlxc_array, mlxc_array_dtype, mlxc_array_from_strided,
    mlxc_array_host, mlxc_array_ndim, mlxc_array_release, mlxc_array_retain, mlxc_array_shape,
    mlxc_array_size, mlxc_array_wrap_host, mlxc_astype, mlxc_contiguous, mlxc_default_stream, mlxc_device,
    mlxc_dtype, mlxc_dtype_size, mlxc_error, mlxc_stream,
)
from mlxc._dtype cimport dtype_object
from mlxc._error cimport check
from mlxc._readout cimport read_bytes

cdef extern from "Python.h" nogil:
    int Py_IsInitialized()

import sys


# ---- in -----------------------------------------------------------------------------------------

cdef int format_dtype(const char* format, Py_ssize_t itemsize, bint* swapped) noexcept:
    """The dtype of a struct-module format, -1 for one that has none."""
    cdef char c
    cdef int size = <int>itemsize
    swapped[0] = False
    if format is NULL:
        return MLXC_UINT8
    if format[0] in (c"@", c"=", c"<", c">", c"!", c"|"):
        swapped[0] = format[0] in (c">", c"!") and itemsize > 1
        format += 1
    if format[0] == c"Z":
        if strlen(format) != 2:
            return -1
        return MLXC_COMPLEX64 if format[1] == c"f" else MLXC_COMPLEX128 if format[1] == c"d" else -1
    if strlen(format) != 1:
        return -1
    c = format[0]
    if c == c"?":
        return MLXC_BOOL
    if c in (c"b", c"h", c"i", c"l", c"q", c"n"):
        return MLXC_INT8 if size == 1 else MLXC_INT16 if size == 2 else MLXC_INT32 if size == 4 else MLXC_INT64
    if c in (c"B", c"H", c"I", c"L", c"Q", c"N", c"c"):
        return MLXC_UINT8 if size == 1 else MLXC_UINT16 if size == 2 else MLXC_UINT32 if size == 4 else MLXC_UINT64
    if c == c"e":
        return MLXC_FLOAT16
    if c == c"f":
        return MLXC_FLOAT32
    if c == c"d":
        return MLXC_FLOAT64
    return -1


cdef void narrow_row(const char* source, int64_t stride, int64_t n, bint is_complex, float* target) noexcept nogil:
    cdef int64_t i
    if is_complex:
        for i in range(n):
            target[2 * i] = <float>(<const double*>(source + i * stride))[0]
            target[2 * i + 1] = <float>(<const double*>(source + i * stride))[1]
    elif stride == 8:
        for i in range(n):
            target[i] = <float>(<const double*>source)[i]
    else:
        for i in range(n):
            target[i] = <float>(<const double*>(source + i * stride))[0]


cdef void narrow_all(const char* source, int ndim, const int64_t* shape, const int64_t* strides, bint is_complex,
                     float* target) noexcept nogil:
    """float64 to float32 (complex128 to complex64), row by row, for any strides; no size is zero."""
    cdef int64_t index[32]
    cdef int axis
    cdef int64_t n = shape[ndim - 1] if ndim > 0 else 1
    cdef int64_t stride = strides[ndim - 1] if ndim > 0 else 8
    for axis in range(ndim):
        index[axis] = 0
    while True:
        narrow_row(source, stride, n, is_complex, target)
        target += n * (2 if is_complex else 1)
        axis = ndim - 2
        while axis >= 0:
            index[axis] += 1
            source += strides[axis]
            if index[axis] < shape[axis]:
                break
            source -= strides[axis] * shape[axis]
            index[axis] = 0
            axis -= 1
        if axis < 0:
            return


cdef void free_memory(void* memory) noexcept nogil:
    free(memory)


cdef mlxc_array* narrowed_array(void* data, int source, int ndim, const int64_t* shape,
                                const int64_t* strides) except NULL:
    cdef mlxc_array* out = NULL
    cdef mlxc_error* error
    cdef int64_t size = 1
    cdef int axis
    cdef bint complex_source = source == MLXC_COMPLEX128
    cdef mlxc_dtype target = MLXC_COMPLEX64 if complex_source else MLXC_FLOAT32
    cdef float* memory
    for axis in range(ndim):
        size *= shape[axis]
    memory = <float*>malloc(size * (8 if complex_source else 4) + 1)
    if memory is NULL:
        raise MemoryError(f"no memory for {size} elements")
    with nogil:
        if size > 0:
            narrow_all(<const char*>data, ndim, shape, strides, complex_source, memory)
        error = mlxc_array_wrap_host(memory, target, ndim, shape, NULL, free_memory, memory, &out)
    if error is not NULL:
        free(memory)
        check(error)
    return out


cdef mlxc_array* host_array(void* data, int source, int dtype, int ndim, const int64_t* shape,
                            const int64_t* strides) except NULL:
    cdef mlxc_array* out = NULL
    cdef mlxc_array* cast = NULL
    cdef mlxc_error* error
    cdef mlxc_stream* stream = NULL
    cdef mlxc_device cpu
    if (source == MLXC_FLOAT64 and dtype == MLXC_FLOAT32) or (source == MLXC_COMPLEX128 and dtype == MLXC_COMPLEX64):
        return narrowed_array(data, source, ndim, shape, strides)
    with nogil:
        error = mlxc_array_from_strided(data, source, ndim, shape, strides, &out)
    check(error)
    if source == dtype:
        return out
    try:
        # 64-bit floats are cast where every dtype exists, whatever the default device is.
        if source == MLXC_FLOAT64 or source == MLXC_COMPLEX128:
            cpu.kind = MLXC_CPU
            cpu.index = 0
            check(mlxc_default_stream(cpu, &stream))
        check(mlxc_astype(out, dtype, stream, &cast))
    finally:
        mlxc_array_release(out)
    return cast


cdef void release_import(void* context) noexcept nogil:
    """Gives a shared buffer back to its owner; any thread, at any time, may come here."""
    if Py_IsInitialized():
        with gil:
            PyBuffer_Release(<Py_buffer*>context)
            free(context)


cdef mlxc_array* shared_array(Py_buffer* view, void* data, mlxc_dtype dtype, int ndim, const int64_t* shape,
                              const int64_t* strides) except NULL:
    """Elements at `data`, which lies in the view; takes the view over, if it succeeds."""
    cdef mlxc_array* out = NULL
    cdef Py_buffer* kept = <Py_buffer*>malloc(sizeof(Py_buffer))
    if kept is NULL:
        raise MemoryError()
    memcpy(kept, view, sizeof(Py_buffer))
    cdef mlxc_error* error = mlxc_array_wrap_host(data, dtype, ndim, shape, strides, release_import, kept, &out)
    if error is not NULL:
        free(kept)
        check(error)
    return out


cdef bint can_share(const void* data, int dtype, int ndim, const int64_t* strides) noexcept:
    """Whether memory can be used as it is: the library takes elements at multiples of their size only."""
    cdef int64_t itemsize = <int64_t>mlxc_dtype_size(dtype)
    cdef int axis
    for axis in range(ndim):
        if strides[axis] % itemsize:
            return False
    return <size_t>data % <size_t>(itemsize // 2 if dtype in (MLXC_COMPLEX64, MLXC_COMPLEX128) else itemsize) == 0


cdef bint is_ndarray(object value) noexcept:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic))


cdef object readable(object value, bint* is_bfloat16):
    """What stands in for a NumPy array whose buffer cannot be read as it is, else TypeError."""
    is_bfloat16[0] = False
    if is_ndarray(value):
        import numpy
        array = numpy.asarray(value)
        if array.dtype.name == "bfloat16":
            is_bfloat16[0] = True
            return array.view(numpy.uint16)
        if array.dtype.kind in "biufc" and not array.dtype.isnative:
            return array.astype(array.dtype.newbyteorder("="))
        raise TypeError(f"no mlxc dtype holds the elements of a NumPy array of dtype {array.dtype}")
    raise TypeError(f"a buffer of {type(value).__name__} has elements for which there is no dtype")


cdef mlxc_array* buffer_array(object value, int dtype, Copy copy, bint narrow, bint* found) except? NULL:
    cdef Py_buffer view
    cdef int64_t shape[32]
    cdef int64_t strides[32]
    cdef int source, axis
    cdef bint swapped = False, is_bfloat16 = False, replaced = False
    cdef mlxc_array* out
    found[0] = PyObject_CheckBuffer(value)
    if not found[0]:
        return NULL
    try:
        PyObject_GetBuffer(value, &view, PyBUF_FULL_RO)
    except (ValueError, BufferError, TypeError):
        if not is_ndarray(value):
            raise
        value = readable(value, &is_bfloat16)
        replaced = not is_bfloat16
        PyObject_GetBuffer(value, &view, PyBUF_FULL_RO)
    taken = False
    try:
        source = format_dtype(view.format, view.itemsize, &swapped)
        if source < 0 or swapped:
            PyBuffer_Release(&view)
            taken = True
            value = readable(value, &is_bfloat16)
            PyObject_GetBuffer(value, &view, PyBUF_FULL_RO)
            taken = False
            replaced = True
            source = format_dtype(view.format, view.itemsize, &swapped)
        if is_bfloat16:
            source = MLXC_BFLOAT16
        if view.ndim > MLXC_MAX_NDIM:
            raise ValueError(f"an array has at most {MLXC_MAX_NDIM} axes, the buffer has {view.ndim}")
        if view.suboffsets is not NULL:
            raise TypeError("buffers of pointers (suboffsets) cannot be read")
        for axis in range(view.ndim):
            shape[axis] = view.shape[axis]
            strides[axis] = view.strides[axis]
        if dtype < 0:
            dtype = source
            if narrow and source == MLXC_FLOAT64:
                dtype = MLXC_FLOAT32
            elif narrow and source == MLXC_COMPLEX128:
                dtype = MLXC_COMPLEX64
        if copy == COPY_NEVER and (dtype != source or replaced):
            raise ValueError(
                f"copy=False: {dtype_object(source).name} memory cannot be used as {dtype_object(dtype).name} as it is")
        if copy == COPY_NEVER or (copy == COPY_IF_NEEDED and dtype == source and view.readonly
                                  and can_share(view.buf, source, view.ndim, strides)):
            out = shared_array(&view, view.buf, source, view.ndim, shape, strides)
            taken = True
        else:
            out = host_array(view.buf, source, dtype, view.ndim, shape, strides)
        return out
    finally:
        if not taken:
            PyBuffer_Release(&view)


# ---- out ----------------------------------------------------------------------------------------

cdef const char* format_table[15]
format_table[MLXC_BOOL] = b"?"
format_table[MLXC_UINT8] = b"B"
format_table[MLXC_UINT16] = b"H"
format_table[MLXC_UINT32] = b"I"
format_table[MLXC_UINT64] = b"Q"
format_table[MLXC_INT8] = b"b"
format_table[MLXC_INT16] = b"h"
format_table[MLXC_INT32] = b"i"
format_table[MLXC_INT64] = b"q"
format_table[MLXC_FLOAT16] = b"e"
format_table[MLXC_BFLOAT16] = NULL
format_table[MLXC_FLOAT32] = b"f"
format_table[MLXC_FLOAT64] = b"d"
format_table[MLXC_COMPLEX64] = b"Zf"
format_table[MLXC_COMPLEX128] = b"Zd"


cdef struct Lent:
    mlxc_array* array
    Py_ssize_t shape[32]
    Py_ssize_t strides[32]


cdef bint is_packed(int ndim, const int64_t* shape, const int64_t* strides, bint column_major) noexcept:
    """Whether elements follow each other without gaps, in row-major (or column-major) order."""
    cdef int64_t expected = 1
    cdef int i, axis
    for i in range(ndim):
        if shape[i] == 0:
            return True
    for i in range(ndim):
        axis = i if column_major else ndim - 1 - i
        if shape[axis] != 1 and strides[axis] != expected:
            return False
        expected *= shape[axis]
    return True


cdef int export_buffer(object owner, mlxc_array* h, Py_buffer* view, int flags) except -1:
    cdef mlxc_array* copied = NULL
    cdef const void* data = NULL
    cdef const int64_t* strides = NULL
    cdef const int64_t* shape = mlxc_array_shape(h)
    cdef int ndim = mlxc_array_ndim(h)
    cdef mlxc_dtype dtype = mlxc_array_dtype(h)
    cdef Py_ssize_t itemsize = <Py_ssize_t>mlxc_dtype_size(dtype)
    cdef int axis
    cdef bint row_major, column_major, fits
    cdef mlxc_error* error
    cdef Lent* lent
    view.obj = None
    if flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
        raise BufferError("mlxc arrays are immutable: ask for a read-only buffer, or copy the array")
    if format_table[dtype] is NULL:
        raise BufferError(f"the buffer protocol has no format for {dtype_object(dtype).name}")
    mlxc_array_retain(h)
    with nogil:
        error = mlxc_array_host(h, &data, &strides)
    if error is not NULL:
        mlxc_array_release(h)
        check(error)
    row_major = is_packed(ndim, shape, strides, False)
    column_major = is_packed(ndim, shape, strides, True)
    if flags & PyBUF_F_CONTIGUOUS == PyBUF_F_CONTIGUOUS:
        fits = column_major
    elif flags & PyBUF_ANY_CONTIGUOUS == PyBUF_ANY_CONTIGUOUS:
        fits = row_major or column_major
    else:
        fits = row_major or (flags & PyBUF_STRIDES == PyBUF_STRIDES and
                             flags & PyBUF_C_CONTIGUOUS != PyBUF_C_CONTIGUOUS)
    if not fits:
        if flags & PyBUF_F_CONTIGUOUS == PyBUF_F_CONTIGUOUS:
            mlxc_array_release(h)
            raise BufferError("the array is not laid out in column-major order")
        error = mlxc_contiguous(h, NULL, &copied)
        mlxc_array_release(h)
        check(error)
        h = copied
        with nogil:
            error = mlxc_array_host(h, &data, &strides)
        if error is not NULL:
            mlxc_array_release(h)
            check(error)
        shape = mlxc_array_shape(h)
    lent = <Lent*>malloc(sizeof(Lent))
    if lent is NULL:
        mlxc_array_release(h)
        raise MemoryError()
    lent.array = h
    for axis in range(ndim):
        lent.shape[axis] = shape[axis]
        lent.strides[axis] = strides[axis] * itemsize
    view.obj = owner
    view.buf = <void*>data
    view.len = mlxc_array_size(h) * itemsize
    view.itemsize = itemsize
    view.readonly = 1
    view.format = <char*>format_table[dtype] if flags & PyBUF_FORMAT else NULL
    view.ndim = ndim if flags & PyBUF_ND else 1
    view.shape = lent.shape if flags & PyBUF_ND else NULL
    view.strides = lent.strides if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
    view.suboffsets = NULL
    view.internal = lent
    return 0


cdef void release_export(Py_buffer* view) noexcept:
    cdef Lent* lent = <Lent*>view.internal
    if lent is not NULL:
        view.internal = NULL
        mlxc_array_release(lent.array)
        free(lent)


cdef object numpy_bfloat16(mlxc_array* h, object shape, object dtype):
    """A NumPy copy of a bfloat16 array: in ml_dtypes' bfloat16, or widened to the dtype asked for."""
    import numpy
    made = numpy.frombuffer(bytearray(read_bytes(h)), numpy.uint16).reshape(shape)
    if dtype is not None and numpy.dtype(dtype).name != "bfloat16":
        return (made.astype(numpy.uint32) << 16).view(numpy.float32).astype(dtype, copy=False)
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        raise TypeError("bfloat16 arrays go to NumPy with the package ml_dtypes installed, or cast: "
                        "x.astype(mlxc.float32)") from None
    return made.view(bfloat16)


cdef object numpy_array(object owner, mlxc_array* h, object shape, object dtype, object copy):
    if mlxc_array_dtype(h) == MLXC_BFLOAT16:
        if copy is False:
            raise ValueError("copy=False: NumPy has no view of bfloat16")
        return numpy_bfloat16(h, shape, dtype)
    import numpy
    made = numpy.asarray(memoryview(owner))
    if dtype is not None and numpy.dtype(dtype) != made.dtype:
        if copy is False:
            raise ValueError(f"copy=False: {made.dtype} memory is not {numpy.dtype(dtype)}")
        return made.astype(dtype)
    return made.copy() if copy else made
