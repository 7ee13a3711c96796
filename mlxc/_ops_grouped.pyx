# Special matrix products: matrices picked by index, a cut inner axis, masked blocks, and Hadamard matrices.
from libc.math cimport sqrt

from mlxc._args cimport to_int
from mlxc._array cimport Array, as_array
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport is_inexact
from mlxc._prim cimport (cast, dims, number, op_arange, op_broadcast_to, op_expand_dims, op_gather_mm,
                         op_hadamard_transform, op_multiply, op_reshape, op_segmented_mm, op_squeeze, op_where,
                         slice_axis)

__all__ = ["block_masked_mm", "gather_mm", "hadamard_transform", "segmented_mm"]


cdef Array to_matrix_indices(str op, object indices, Array a, mlxc_stream* s):
    cdef int64_t n = 1
    cdef list shape
    if indices is not None:
        return as_array(indices)
    if mlxc_array_ndim(a.h) < 2:
        raise ValueError(f"[{op}] takes arrays of at least two dimensions, got shape {tuple(dims(a))}")
    shape = dims(a)[:mlxc_array_ndim(a.h) - 2]
    for size in shape:
        n *= size
    return op_reshape(op_arange(0, 1, n, MLXC_UINT32, s), shape, s)


def gather_mm(a, b, /, lhs_indices=None, rhs_indices=None, *, sorted_indices=False, stream=None):
    """Products of matrices that are picked by index.

    An index counts the matrices of an array in row-major order of its leading axes; negative ones count from the end.

    Args:
        a: floating-point or complex array; a 1-D array is taken as a row.
        b: floating-point or complex array; a 1-D array is taken as a column.
        lhs_indices: integer array, the matrices of `a`; None is all of them in their shape.
        rhs_indices: integer array, the matrices of `b`; None is all of them in their shape. Both broadcast.
        sorted_indices: a promise that `rhs_indices` are sorted. Neighbours with the same index are multiplied as one
            with or without it.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of the indices and then the rows and columns of the products, of the dtype that `a` and
        `b` promote to.

    Raises:
        ValueError: if the inner sizes differ, or the indices do not broadcast.
        TypeError: for arrays of integers, or indices that are none.
        IndexError: if an index is out of range.

    Example:
        >>> mx.gather_mm(mx.ones((4, 1, 2)), mx.ones((3, 2, 5)), rhs_indices=mx.array([2, 0, 1, 2])).shape
        (4, 1, 5)
    """
    cdef Array x = as_array(a), y = as_array(b), out
    cdef mlxc_stream* s = to_stream(stream)
    cdef bint row = mlxc_array_ndim(x.h) == 1, column = mlxc_array_ndim(y.h) == 1
    if row:
        x = op_expand_dims(x, 0, s)
    if column:
        y = op_expand_dims(y, 1, s)
    out = op_gather_mm(x, y, to_matrix_indices("gather_mm", lhs_indices, x, s),
                       to_matrix_indices("gather_mm", rhs_indices, y, s), s)
    if column:
        out = op_squeeze(out, -1, s)
    if row:
        out = op_squeeze(out, -1 if column else -2, s)
    return out


def segmented_mm(a, b, /, segments, *, stream=None):
    """Matrix products of stretches of the inner axis, one for each.

    Args:
        a: floating-point or complex matrix of shape (M, K).
        b: floating-point or complex matrix of shape (K, N).
        segments: integer array of shape (..., 2): the first position of each stretch, and the one after its last. They
            may overlap; an empty one gives zeros.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (..., M, N), of the dtype that `a` and `b` promote to.

    Raises:
        ValueError: if the shapes do not fit.
        TypeError: for matrices of integers, or segments that are not.
        IndexError: if a segment leaves the inner axis.

    Example:
        >>> mx.segmented_mm(mx.ones((1, 5)), mx.ones((5, 1)), mx.array([[0, 2], [2, 5]])).flatten()
        array([2, 3], dtype=float32)
    """
    return op_segmented_mm(as_array(a), as_array(b), as_array(segments), to_stream(stream))


cdef Array mask_blocks(Array a, object mask, int64_t block, str name, mlxc_stream* s):
    """a with its blocks multiplied by the mask, or where it is bool, zero where it is False."""
    if mask is None:
        return a
    cdef Array m = as_array(mask)
    cdef list shape = dims(m), lead = []
    cdef int64_t rows = mlxc_array_dim(a.h, mlxc_array_ndim(a.h) - 2)
    cdef int64_t columns = mlxc_array_dim(a.h, mlxc_array_ndim(a.h) - 1)
    cdef int64_t down = (rows + block - 1) // block, across = (columns + block - 1) // block
    cdef Py_ssize_t n = len(shape) - 2
    if n < 0 or shape[n:] != [down, across]:
        raise ValueError(f"[block_masked_mm] {name} must have a shape (..., {down}, {across}) for an array of shape "
                         f"{tuple(dims(a))} in blocks of {block}, got {tuple(shape)}")
    lead = shape[:n]
    m = op_broadcast_to(op_reshape(m, lead + [down, 1, across, 1], s), lead + [down, block, across, block], s)
    m = op_reshape(m, lead + [down * block, across * block], s)
    m = slice_axis(slice_axis(m, len(shape) - 2, 0, rows, 1, s), len(shape) - 1, 0, columns, 1, s)
    if mlxc_array_dtype(m.h) == MLXC_BOOL:
        return op_where(m, a, number(0, mlxc_array_dtype(a.h)), s)
    return op_multiply(a, cast(m, mlxc_array_dtype(a.h), s), s)


def block_masked_mm(a, b, /, block_size=64, mask_out=None, mask_lhs=None, mask_rhs=None, *, stream=None):
    """Matrix product in which square blocks are left out or scaled.

    Args:
        a: floating-point or complex array of shape (..., M, K); a 1-D array is taken as a row.
        b: floating-point or complex array of shape (..., K, N); a 1-D array is taken as a column.
        block_size: size of the blocks, 32 or 64.
        mask_out: array of one element for each block of the product, or None. Where it is bool, blocks with False are
            zero, whatever the arrays hold; else blocks are multiplied by it.
        mask_lhs: the same for `a`.
        mask_rhs: the same for `b`.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (..., M, N), of the dtype that `a` and `b` promote to.

    Raises:
        ValueError: if the shapes do not fit, or the block size is another.
        TypeError: for arrays of integers.

    Example:
        >>> a, b = mx.ones((64, 32)), mx.ones((32, 32))
        >>> mx.block_masked_mm(a, b, 32, mask_out=mx.array([[True], [False]]))[::32, 0]
        array([32, 0], dtype=float32)
    """
    from mlxc._ops_contract import matmul

    cdef Array x = as_array(a), y = as_array(b), out
    cdef mlxc_stream* s = to_stream(stream)
    cdef int64_t block = to_int(block_size, "block_size")
    if block != 32 and block != 64:
        raise ValueError(f"[block_masked_mm] block_size is 32 or 64, got {block}")
    if not (is_inexact(mlxc_array_dtype(x.h)) and is_inexact(mlxc_array_dtype(y.h))):
        raise TypeError(f"[block_masked_mm] takes floating-point and complex arrays, got {x.dtype} and {y.dtype}")
    cdef bint row = mlxc_array_ndim(x.h) == 1, column = mlxc_array_ndim(y.h) == 1
    if row:
        x = op_expand_dims(x, 0, s)
    if column:
        y = op_expand_dims(y, 1, s)
    if mlxc_array_ndim(x.h) == 0 or mlxc_array_ndim(y.h) == 0:
        raise ValueError("[block_masked_mm] takes arrays of at least one dimension")
    out = matmul(mask_blocks(x, mask_lhs, block, "mask_lhs", s), mask_blocks(y, mask_rhs, block, "mask_rhs", s),
                 stream=stream)
    out = mask_blocks(out, mask_out, block, "mask_out", s)
    if column:
        out = op_squeeze(out, -1, s)
    if row:
        out = op_squeeze(out, -1 if column else -2, s)
    return out


def hadamard_transform(a, scale=None, stream=None):
    """The last axis times a Hadamard matrix, a matrix of ones and minus ones whose rows are orthogonal.

    Sizes are m 2^k with m one of 1, 12, 20 and 28; the matrix is the Kronecker product of those of the two factors, for
    2^k the one of Sylvester.

    Args:
        a: array of any dtype but complex ones, without empty axes; the last axis has such a size.
        scale: factor of the result; None is 1 / sqrt(size), which keeps lengths.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`, float32 for integers, else with its dtype.

    Raises:
        ValueError: if the last axis has another size.
        TypeError: for complex arrays.

    Example:
        >>> mx.hadamard_transform(mx.array([1.0, 2.0, 3.0, 4.0]), scale=1.0)
        array([10, -2, -4, 0], dtype=float32)
    """
    cdef Array x = as_array(a)
    cdef int32_t ndim = mlxc_array_ndim(x.h)
    cdef int64_t size = mlxc_array_dim(x.h, ndim - 1) if ndim > 0 else 1
    cdef double factor = float(scale) if scale is not None else (1 / sqrt(size) if size > 0 else 1)
    return op_hadamard_transform(x, factor, False, to_stream(stream))
