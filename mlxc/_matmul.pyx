# The op matmul takes at least two axes; this is the rule for vectors round it, shared by the operator @ and mx.matmul.
#
# A batch of matrices times one matrix is recorded as one tall product: that is one BLAS call, and so is its gradient.
from mlxc._capi cimport *


cdef mlxc_error* multiply_tall(mlxc_array* a, mlxc_array* b, mlxc_stream* stream, mlxc_array** out) noexcept nogil:
    cdef int32_t ndim = mlxc_array_ndim(a), i
    cdef int64_t shape[32]
    cdef mlxc_array* tall = NULL
    cdef mlxc_array* product = NULL
    shape[1] = mlxc_array_dim(a, ndim - 1)
    shape[0] = mlxc_array_size(a) // shape[1]
    cdef mlxc_error* error = mlxc_reshape(a, shape, 2, stream, &tall)
    if error is NULL:
        error = mlxc_matmul(tall, b, stream, &product)
    if error is NULL:
        for i in range(ndim - 1):
            shape[i] = mlxc_array_dim(a, i)
        shape[ndim - 1] = mlxc_array_dim(b, 1)
        error = mlxc_reshape(product, shape, ndim, stream, out)
    mlxc_array_release(tall)
    mlxc_array_release(product)
    return error


cdef mlxc_error* matmul_any(mlxc_array* a, mlxc_array* b, mlxc_stream* stream, mlxc_array** out) noexcept nogil:
    cdef int32_t left = mlxc_array_ndim(a), right = mlxc_array_ndim(b), n = 0
    cdef int32_t[1] first = [0]
    cdef int32_t[1] second = [1]
    cdef int32_t[2] dropped = [0, 0]
    if left == 0 or right == 0:
        return mlxc_error_make(MLXC_ERROR_VALUE, "matmul: takes arrays of at least one axis, got a 0-d array; use *")
    if left > 2 and right == 2 and mlxc_array_size(a) > 0 and mlxc_array_dim(a, left - 1) == mlxc_array_dim(b, 0):
        return multiply_tall(a, b, stream, out)
    if left > 1 and right > 1:
        return mlxc_matmul(a, b, stream, out)
    cdef mlxc_array* row = NULL
    cdef mlxc_array* column = NULL
    cdef mlxc_array* product = NULL
    cdef mlxc_error* error = NULL
    if left == 1:
        error = mlxc_expand_dims(a, first, 1, stream, &row)
        dropped[n] = -2
        n += 1
    else:
        row = mlxc_array_retain(a)
    if error is NULL:
        if right == 1:
            error = mlxc_expand_dims(b, second, 1, stream, &column)
            dropped[n] = -1
            n += 1
        else:
            column = mlxc_array_retain(b)
    if error is NULL:
        error = matmul_any(row, column, stream, &product)
    if error is NULL:
        error = mlxc_squeeze(product, dropped, n, stream, out)
    mlxc_array_release(row)
    mlxc_array_release(column)
    mlxc_array_release(product)
    return error
