"""The linalg extension of the Python array API standard: mlxc.linalg with the standard's argument names and results.

Decompositions return the named tuples of mlxc.linalg. What mlxc.linalg calls with MLX's arguments is given the
standard's here; the ranks of matrices are int64, the dtype of indices.
"""

import mlxc as mx
from mlxc import matmul, matrix_transpose, tensordot, vecdot
from mlxc.linalg import (
    cholesky,
    det,
    diagonal,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    matrix_norm,
    matrix_power,
    outer,
    pinv,
    qr,
    slogdet,
    solve,
    svdvals,
    trace,
    vector_norm,
)

__all__ = ["cholesky", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "matmul", "matrix_norm",
           "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd",
           "svdvals", "tensordot", "trace", "vecdot", "vector_norm"]  # fmt: skip


def cross(x1, x2, /, *, axis=-1, stream=None):
    """Cross product of vectors with three elements; see mlxc.linalg.cross. ValueError for other sizes."""
    x1, x2 = mx.asarray(x1), mx.asarray(x2)
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError(f"[cross] the vectors must have 3 elements, got the shapes {x1.shape} and {x2.shape}")
    return mx.linalg.cross(x1, x2, axis, stream=stream)


def matrix_rank(x, /, *, rtol=None, stream=None):
    """Ranks of matrices, int64; see mlxc.linalg.matrix_rank."""
    return mx.astype(mx.linalg.matrix_rank(x, rtol=rtol, stream=stream), mx.int64)


def svd(x, /, *, full_matrices=True, stream=None):
    """Singular value decomposition as a named tuple (U, S, Vh); see mlxc.linalg.svd."""
    return mx.linalg.svd(x, full_matrices=full_matrices, stream=stream)
