"""Linear algebra: mlxc.linalg, as mlx.core.linalg, with the linalg extension of the array API standard.

Factorisations, eigenvalues and equations are in the compiled module _ops_linalg, norms in _linalg_norm; here is what is
made of other functions.
"""

from . import _ops_create, _ops_join, _ops_plain, _ops_reduce, _ops_shape
from ._linalg_norm import matrix_norm, norm, vector_norm
from ._ops_contract import matmul, tensordot, vecdot
from ._ops_elementwise import astype as _astype
from ._ops_linalg import (
    cholesky,
    cholesky_inv,
    det,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    lu,
    lu_factor,
    pinv,
    qr,
    slogdet,
    solve,
    solve_triangular,
    svd,
    svdvals,
    tri_inv,
)
from ._ops_shape import matrix_transpose
from ._promotion import finfo as _finfo

__all__ = ["cholesky", "cholesky_inv", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lu",
           "lu_factor", "matmul", "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm",
           "outer", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensordot", "trace",
           "tri_inv", "vecdot", "vector_norm"]  # fmt: skip


def cross(a, b, axis=-1, *, stream=None):
    """Cross product of vectors of two or three elements.

    Args:
        a: array whose axis has size 2 or 3.
        b: the same; the other axes broadcast.
        axis: the axis of the vectors, the last by default.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of vectors of three elements; of two vectors of two elements, the third component alone.

    Raises:
        ValueError: if the axis has another size, or shapes do not broadcast.

    Example:
        >>> mx.linalg.cross(mx.array([1, 0, 0]), mx.array([0, 1, 0]))
        array([0, 0, 1], dtype=int32)
    """
    parts = []
    for x in (a, b):
        if x.shape[axis] not in (2, 3):
            raise ValueError(f"[linalg.cross] the vectors must have two or three elements, got shape {x.shape}")
        parts.append(list(_ops_join.unstack(x, axis=axis, stream=stream)))
    if len(parts[0]) == 2 and len(parts[1]) == 2:
        return _minus(_times(parts[0][0], parts[1][1], stream), _times(parts[0][1], parts[1][0], stream), stream)
    for part in parts:
        if len(part) == 2:
            part.append(_ops_create.zeros_like(part[0], stream=stream))
    x, y = parts
    out = [_minus(_times(x[i], y[j], stream), _times(x[j], y[i], stream), stream) for i, j in ((1, 2), (2, 0), (0, 1))]
    return _ops_join.stack(out, axis, stream=stream)


def _times(a, b, stream):
    return _ops_plain.multiply(a, b, stream=stream)


def _minus(a, b, stream):
    return _ops_plain.subtract(a, b, stream=stream)


def diagonal(x, /, *, offset=0, stream=None):
    """Diagonals of matrices, the last two axes.

    Args:
        x: array of at least two dimensions, any dtype.
        offset: 0 for the main diagonal, positive above it, negative below.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of one dimension less, with the dtype of `x`; empty where the offset leaves the matrix.

    Raises:
        ValueError: if `x` has fewer than two dimensions.

    Example:
        >>> mx.linalg.diagonal(mx.array([[1, 2], [3, 4]]))
        array([1, 4], dtype=int32)
    """
    return _ops_shape.diagonal(x, offset, -2, -1, stream=stream)


def trace(x, /, *, offset=0, dtype=None, stream=None):
    """Sums of the diagonals of matrices, the last two axes.

    Args:
        x: array of at least two dimensions, any dtype.
        offset: 0 for the main diagonal, positive above it, negative below.
        dtype: dtype to sum in; by default that of `x`, with bool and integers below 32 bits widened to 32 bits.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of two dimensions less.

    Raises:
        ValueError: if `x` has fewer than two dimensions.

    Example:
        >>> mx.linalg.trace(mx.array([[1, 2], [3, 4]]))
        array(5, dtype=int32)
    """
    return _ops_reduce.trace(x, offset, -2, -1, dtype, stream=stream)


def outer(x1, x2, /, *, stream=None):
    """All products of an element of one vector with one of another.

    Args:
        x1: array of one dimension.
        x2: array of one dimension.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape `(x1.size, x2.size)`, with the dtype that the two promote to.

    Raises:
        ValueError: if an array has another number of dimensions.

    Example:
        >>> mx.linalg.outer(mx.array([1, 2]), mx.array([3, 4]))
        array([[3, 4],
               [6, 8]], dtype=int32)
    """
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError(f"[linalg.outer] takes arrays of one dimension, got shapes {x1.shape} and {x2.shape}")
    return _times(_ops_shape.expand_dims(x1, 1, stream=stream), x2, stream)


def matrix_power(x, n, /, *, stream=None):
    """Square matrices to an integer power, by repeated squaring.

    Args:
        x: array of square matrices, shape (..., m, m).
        n: the power; 0 gives identity matrices, and a negative one powers of the inverse.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `x`; for negative powers integers become float32.

    Raises:
        ValueError: if the matrices are not square, or (when evaluated) one to a negative power is singular.
        TypeError: if `n` is no integer.

    Example:
        >>> mx.linalg.matrix_power(mx.array([[1, 1], [0, 1]]), 5)
        array([[1, 5],
               [0, 1]], dtype=int32)
    """
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"[linalg.matrix_power] the power must be an integer, not {n!r}")
    n = n.__index__()
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"[linalg.matrix_power] takes square matrices, got shape {x.shape}")
    if n < 0:
        x, n = inv(x, stream=stream), -n
    if n == 0:
        one = _ops_create.eye(x.shape[-1], dtype=x.dtype, stream=stream)
        return _ops_shape.broadcast_to(one, x.shape, stream=stream)
    out = None
    while True:
        if n & 1:
            out = x if out is None else matmul(out, x, stream=stream)
        n >>= 1
        if n == 0:
            return _ops_shape.broadcast_to(out, out.shape, stream=stream)
        x = matmul(x, x, stream=stream)


def matrix_rank(x, /, *, rtol=None, stream=None):
    """Ranks of matrices: how many singular values count.

    Args:
        x: array of matrices, shape (..., m, n); float32, float64, complex64, complex128, integers as float32.
        rtol: singular values up to rtol times the greatest count as zero; a number or an array that broadcasts to
            the batch. None is max(m, n) times the spacing of the dtype's numbers at 1.
        stream: stream or device to compute on; None is the default.

    Returns:
        An int32 array of the shape without the last two axes.

    Raises:
        ValueError: if `x` has fewer than two dimensions, or (when evaluated) has NaN or infinite elements.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.matrix_rank(mx.array([[1.0, 2.0], [2.0, 4.0]]))
        array(1, dtype=int32)
    """
    values = svdvals(x, stream=stream)
    if values.shape[-1] == 0:
        return _ops_create.zeros(values.shape[:-1], dtype="int32", stream=stream)
    if rtol is None:
        rtol = max(x.shape[-2:]) * _finfo(values.dtype).eps
    elif hasattr(rtol, "ndim") and rtol.ndim > 0:
        rtol = _ops_shape.expand_dims(rtol, -1, stream=stream)
    least = _times(_ops_reduce.max(values, -1, True, stream=stream), rtol, stream)
    counted = _astype(_ops_plain.greater(values, least, stream=stream), "int32", stream=stream)
    return _ops_reduce.sum(counted, -1, stream=stream)


def multi_dot(arrays, *, stream=None):
    """Product of two or more matrices, multiplied in the order that takes the fewest multiplications.

    Args:
        arrays: list or tuple of arrays of two dimensions; the first may be a vector (a row), the last too (a column).
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype that all promote to; rows and columns made of vectors are dropped.

    Raises:
        ValueError: if there are fewer than two arrays, one has another number of dimensions, or sizes do not fit.

    Example:
        >>> mx.linalg.multi_dot([mx.ones((2, 3)), mx.ones((3, 4)), mx.ones(4)])
        array([12, 12], dtype=float32)
    """
    arrays = list(arrays)
    count = len(arrays)
    if count < 2:
        raise ValueError(f"[linalg.multi_dot] takes at least two arrays, got {count}")
    for i, x in enumerate(arrays):
        if x.ndim != 2 and (x.ndim != 1 or 0 < i < count - 1):
            raise ValueError(f"[linalg.multi_dot] takes matrices, got shape {x.shape} for array {i}")
    rows = arrays[0].shape[0] if arrays[0].ndim == 2 else 1
    sides = [rows, *(x.shape[0] if x.ndim == 1 else x.shape[-1] for x in arrays[:-1])]
    sides.append(arrays[-1].shape[1] if arrays[-1].ndim == 2 else 1)
    for i in range(1, count):
        if arrays[i].shape[0] != sides[i]:
            raise ValueError(
                f"[linalg.multi_dot] array {i} of shape {arrays[i].shape} does not follow one of shape "
                f"{arrays[i - 1].shape}"
            )
    # Godbole (1973): the cheapest order of a chain is made of the cheapest orders of its parts.
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            choices = [(cost[i][k] + cost[k + 1][j] + sides[i] * sides[k + 1] * sides[j + 1], k) for k in range(i, j)]
            cost[i][j], split[i][j] = min(choices)

    def multiply(i, j):
        if i == j:
            return arrays[i]
        k = split[i][j]
        return matmul(multiply(i, k), multiply(k + 1, j), stream=stream)

    return multiply(0, count - 1)
