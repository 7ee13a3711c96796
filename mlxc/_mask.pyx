# Where a boolean array is true, as index arrays.
#
# Called by indexing with masks and by functions whose result's shape depends on values. The places are
# found on the host, so the mask is evaluated; inside a transform that is refused, since the shape of
# the result would depend on what is being traced.
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from mlxc._array cimport Array, wrap
from mlxc._capi cimport (
    MLXC_BOOL, MLXC_INT32, MLXC_INT64, int32_t, int64_t, mlxc_array, mlxc_array_dtype, mlxc_array_host,
    mlxc_array_is_traced, mlxc_array_ndim, mlxc_array_release, mlxc_array_retain, mlxc_array_shape,
    mlxc_array_size, mlxc_array_wrap_host, mlxc_astype, mlxc_error, uint8_t,
)
from mlxc._error cimport check


cdef int64_t visit_true(const uint8_t* data, int ndim, const int64_t* shape, const int64_t* strides, int64_t count,
                        bint wide, void* out) noexcept nogil:
    """Counts what is true; with `out`, writes the indices of axis k to out[k * count : (k + 1) * count]."""
    cdef int64_t index[32]
    cdef int64_t found = 0, i
    cdef int64_t n = shape[ndim - 1]
    cdef int64_t stride = strides[ndim - 1]
    cdef int axis
    for axis in range(ndim):
        index[axis] = 0
    while True:
        for i in range(n):
            if data[i * stride]:
                if out is not NULL:
                    index[ndim - 1] = i
                    for axis in range(ndim):
                        if wide:
                            (<int64_t*>out)[axis * count + found] = index[axis]
                        else:
                            (<int32_t*>out)[axis * count + found] = <int32_t>index[axis]
                found += 1
        axis = ndim - 2
        while axis >= 0:
            index[axis] += 1
            data += strides[axis]
            if index[axis] < shape[axis]:
                break
            data -= strides[axis] * shape[axis]
            index[axis] = 0
            axis -= 1
        if axis < 0:
            return found


cdef void free_memory(void* memory) noexcept nogil:
    free(memory)


cdef Array adopt(void* memory, bint wide, int64_t count):
    """An index array that owns its memory."""
    cdef mlxc_array* out = NULL
    cdef mlxc_error* error = mlxc_array_wrap_host(memory, MLXC_INT64 if wide else MLXC_INT32, 1, &count, NULL,
                                                  free_memory, memory, &out)
    if error is not NULL:
        free(memory)
        check(error)
    return wrap(out)


cdef list find_true(Array mask, str what):
    cdef mlxc_array* h = mask.h
    cdef mlxc_array* cast = NULL
    cdef const void* data = NULL
    cdef const int64_t* strides = NULL
    cdef int ndim = mlxc_array_ndim(h), axis
    cdef int64_t count = 0
    cdef bint wide = False
    cdef size_t width
    cdef char* places
    cdef void* column
    cdef list out = []
    cdef mlxc_error* error
    if mlxc_array_is_traced(h):
        raise ValueError(f"{what} has a shape that depends on values, so it cannot be used on arrays inside a "
                         "transform: use mlxc.where instead")
    if mlxc_array_dtype(h) != MLXC_BOOL:
        check(mlxc_astype(h, MLXC_BOOL, NULL, &cast))
        mask = wrap(cast)
        h = mask.h
    for axis in range(ndim):
        wide = wide or mlxc_array_shape(h)[axis] > 2147483647
    width = 8 if wide else 4
    mlxc_array_retain(h)
    try:
        with nogil:
            error = mlxc_array_host(h, &data, &strides)
            if error is NULL and mlxc_array_size(h) > 0:
                count = visit_true(<const uint8_t*>data, ndim, mlxc_array_shape(h), strides, 0, wide, NULL)
        check(error)
        places = <char*>malloc(ndim * count * width + 1)
        if places is NULL:
            raise MemoryError(f"{what}: no memory for {count} places")
        if count > 0:
            with nogil:
                visit_true(<const uint8_t*>data, ndim, mlxc_array_shape(h), strides, count, wide, places)
    finally:
        mlxc_array_release(h)
    try:
        for axis in range(ndim):
            column = malloc(count * width + 1)
            if column is NULL:
                raise MemoryError(f"{what}: no memory for {count} places")
            memcpy(column, places + axis * count * width, count * width)
            out.append(adopt(column, wide, count))
    finally:
        free(places)
    return out
