# Linear algebra that is an op of its own or made of few: factorisations, eigenvalues, inverses, equations. mlxc.linalg
# takes its functions from here; norms and what is composed of other functions are in linalg.py.
#
# Rule: matrices are the last two axes and the axes before them a batch. Integers become float32; half precision is a
# TypeError, as no LAPACK routine works in it.
from mlxc._array cimport Array, as_array
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport dtype_object, is_complex
from mlxc._prim cimport (dims, number, op_cholesky, op_conjugate, op_det, op_eig,
                         op_eigh, op_eigvals, op_eigvalsh, op_expand_dims, op_inverse, op_lu_factor, op_matmul, op_pinv,
                         op_qr, op_slogdet, op_solve, op_solve_triangular, op_squeeze, op_svd, op_svdvals,
                         op_transpose, op_tri_inverse)

from mlxc import _ops_create
from mlxc._named import EighResult, EigResult, QRResult, SlogdetResult, SVDResult

__all__ = ["cholesky", "cholesky_inv", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lu", "lu_factor", "pinv",
           "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tri_inv"]


cdef Array take_matrix(object a, str name, bint square):
    """The argument as an array of matrices, checked here so that errors name the function that was called."""
    cdef Array x = as_array(a)
    cdef mlxc_dtype dtype = mlxc_array_dtype(x.h)
    if dtype == MLXC_FLOAT16 or dtype == MLXC_BFLOAT16:
        raise TypeError(f"[linalg.{name}] takes float32, float64, complex64, complex128 and, as float32, integers, not "
                        f"{dtype_object(dtype)}")
    cdef int32_t ndim = mlxc_array_ndim(x.h)
    if ndim < 2:
        raise ValueError(f"[linalg.{name}] takes matrices, arrays of at least two dimensions, got shape "
                         f"{tuple(dims(x))}")
    if square and mlxc_array_dim(x.h, ndim - 1) != mlxc_array_dim(x.h, ndim - 2):
        raise ValueError(f"[linalg.{name}] takes square matrices, got shape {tuple(dims(x))}")
    return x


cdef Array adjoint(Array a, mlxc_stream* s):
    cdef int32_t ndim = mlxc_array_ndim(a.h)
    cdef Array out = op_transpose(a, [*range(ndim - 2), ndim - 1, ndim - 2], s)
    return op_conjugate(out, s) if is_complex(mlxc_array_dtype(a.h)) else out


cdef bint is_upper(object uplo, str name) except -1:
    if uplo not in ("L", "U", "l", "u"):
        raise ValueError(f"[linalg.{name}] UPLO must be 'L' or 'U', got {uplo!r}")
    return uplo in ("U", "u")


# ---- factors ------------------------------------------------------------------------------------

def qr(a, *, mode="reduced", stream=None):
    """QR factors: orthonormal columns Q and an upper triangle R with a = Q R.

    Args:
        a: array of matrices, shape (..., m, n); float32, float64, complex64, complex128, integers as float32.
        mode: "reduced" for Q of shape (..., m, k) and R of shape (..., k, n), where k = min(m, n); "complete" for
            k = m.
        stream: stream or device to compute on; None is the default.

    Returns:
        A named tuple (Q, R). The diagonal of R is real. The derivative exists where the first min(m, n) columns of
        `a` are independent.

    Raises:
        ValueError: if `a` has fewer than two dimensions, or the mode is another one.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> Q, R = mx.linalg.qr(mx.array([[3.0, 1.0], [4.0, 2.0]]))
        >>> mx.round(Q @ R, 3)
        array([[3, 1],
               [4, 2]], dtype=float32)
    """
    if mode not in ("reduced", "complete"):
        raise ValueError(f"[linalg.qr] the mode must be 'reduced' or 'complete', got {mode!r}")
    return QRResult._make(op_qr(take_matrix(a, "qr", False), mode == "complete", to_stream(stream)))


def cholesky(a, upper=False, *, stream=None):
    """Cholesky factor: the lower triangle L with a = L L^H, or the upper U with a = U^H U.

    Args:
        a: array of Hermitian positive definite matrices, of which only the triangle named by `upper` is read; float32,
            float64, complex64, complex128, integers as float32.
        upper: whether to read the upper triangle and return U.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`, zero in the other triangle. Its gradient is Hermitian: the derivative on Hermitian
        matrices.

    Raises:
        ValueError: if the matrices are not square, or (when evaluated) one is not positive definite.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.cholesky(mx.array([[4.0, 2.0], [2.0, 5.0]]))
        array([[2, 0],
               [1, 2]], dtype=float32)
    """
    return op_cholesky(take_matrix(a, "cholesky", True), upper, to_stream(stream))


def lu_factor(a, *, stream=None):
    """LU factors with row exchanges, both in one matrix, as LAPACK packs them.

    Args:
        a: array of matrices, shape (..., m, n); float32, float64, complex64, complex128, integers as float32.
        stream: stream or device to compute on; None is the default.

    Returns:
        A tuple (LU, pivots): U in the upper triangle, and L, without its diagonal of ones, below it; pivots is uint32,
        shape (..., min(m, n)): row i was exchanged with row pivots[i], in order.

    Raises:
        ValueError: if `a` has fewer than two dimensions.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.lu_factor(mx.array([[1.0, 2.0], [4.0, 4.0]]))
        (array([[4, 4],
               [0.25, 1]], dtype=float32), array([1, 1], dtype=uint32))
    """
    packed, pivots, _ = op_lu_factor(take_matrix(a, "lu_factor", False), to_stream(stream))
    return packed, pivots


def lu(a, *, stream=None):
    """LU factors with row exchanges: a = L[P] U.

    Args:
        a: array of matrices, shape (..., m, n); float32, float64, complex64, complex128, integers as float32.
        stream: stream or device to compute on; None is the default.

    Returns:
        A tuple (P, L, U): P is uint32, shape (..., m), the row of the product L U that each row of `a` is; L has shape
        (..., m, k), with ones on its diagonal, and U shape (..., k, n), where k = min(m, n).

    Raises:
        ValueError: if `a` has fewer than two dimensions.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> P, L, U = mx.linalg.lu(mx.array([[1.0, 2.0], [4.0, 4.0]]))
        >>> L[P] @ U
        array([[1, 2],
               [4, 4]], dtype=float32)
    """
    cdef Array x = take_matrix(a, "lu", False)
    packed, _, permutation = op_lu_factor(x, to_stream(stream))
    rows, columns = packed.shape[-2:]
    k = min(rows, columns)
    lower = _ops_create.tril(packed[..., :, :k], -1, stream=stream) + _ops_create.eye(
        rows, k, dtype=packed.dtype, stream=stream)
    return permutation, lower, _ops_create.triu(packed[..., :k, :], 0, stream=stream)


# ---- singular values ----------------------------------------------------------------------------

def svd(a, compute_uv=True, *, full_matrices=True, stream=None):
    """Singular value decomposition: a = U diag(S) Vh.

    Args:
        a: array of matrices, shape (..., m, n); float32, float64, complex64, complex128, integers as float32.
        compute_uv: whether to return the vectors; if not, S alone is returned.
        full_matrices: whether U is (..., m, m) and Vh is (..., n, n); if not, (..., m, k) and (..., k, n), where
            k = min(m, n).
        stream: stream or device to compute on; None is the default.

    Returns:
        A named tuple (U, S, Vh); S is real and descending, shape (..., k). Gradients are right for functions that do
        not depend on the choice of vectors: their signs, and turns among those of equal singular values.

    Raises:
        ValueError: if `a` has fewer than two dimensions, or (when evaluated) has NaN or infinite elements.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> U, S, Vh = mx.linalg.svd(mx.array([[3.0, 0.0], [0.0, 2.0]]))
        >>> S
        array([3, 2], dtype=float32)
    """
    cdef Array x = take_matrix(a, "svd", False)
    if not compute_uv:
        return op_svdvals(x, to_stream(stream))
    return SVDResult._make(op_svd(x, full_matrices, to_stream(stream)))


def svdvals(x, /, *, stream=None):
    """Singular values.

    Args:
        x: array of matrices, shape (..., m, n); float32, float64, complex64, complex128, integers as float32.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (..., min(m, n)), real and descending.

    Raises:
        ValueError: if `x` has fewer than two dimensions, or (when evaluated) has NaN or infinite elements.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.svdvals(mx.array([[3.0, 0.0], [0.0, -2.0]]))
        array([3, 2], dtype=float32)
    """
    return op_svdvals(take_matrix(x, "svdvals", False), to_stream(stream))


def pinv(a, *, rtol=None, stream=None):
    """Moore-Penrose inverse.

    Args:
        a: array of matrices, shape (..., m, n); float32, float64, complex64, complex128, integers as float32.
        rtol: singular values up to rtol times the greatest count as zero; a number or an array that broadcasts to
            the batch. None is max(m, n) times the spacing of the dtype's numbers at 1.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (..., n, m). Its gradient is that among matrices of the same rank.

    Raises:
        ValueError: if `a` has fewer than two dimensions, or (when evaluated) has NaN or infinite elements.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.pinv(mx.array([[2.0, 0.0], [0.0, 0.0]]))
        array([[0.5, 0],
               [0, 0]], dtype=float32)
    """
    cdef Array x = take_matrix(a, "pinv", False)
    cdef mlxc_dtype dtype = mlxc_array_dtype(x.h)
    cdef bint double = dtype == MLXC_FLOAT64 or dtype == MLXC_COMPLEX128
    cdef mlxc_dtype own = MLXC_FLOAT64 if double else MLXC_FLOAT32
    if rtol is None:
        cutoff = number(max(dims(x)[-2:]) * (2.0**-52 if double else 2.0**-23), own)
    else:
        cutoff = number(rtol, own) if isinstance(rtol, (int, float)) else as_array(rtol)
    return op_pinv(x, cutoff, to_stream(stream))


# ---- eigenvalues --------------------------------------------------------------------------------

def eigvals(a, *, stream=None):
    """Eigenvalues of square matrices.

    Args:
        a: array of matrices, shape (..., n, n); float32, float64, complex64, complex128, integers as float32.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (..., n), complex64 or complex128, in no particular order.

    Raises:
        ValueError: if the matrices are not square, or (when evaluated) have NaN or infinite elements.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.eigvals(mx.array([[1.0, 0.0], [0.0, 2.0]]))
        array([1+0j, 2+0j], dtype=complex64)
    """
    return op_eigvals(take_matrix(a, "eigvals", True), to_stream(stream))


def eig(a, *, stream=None):
    """Eigenvalues and eigenvectors of square matrices: a v = w v for each column v.

    Args:
        a: array of matrices, shape (..., n, n); float32, float64, complex64, complex128, integers as float32.
        stream: stream or device to compute on; None is the default.

    Returns:
        A named tuple (eigenvalues, eigenvectors), complex64 or complex128: shape (..., n), in no particular order, and
        shape (..., n, n), columns of length one whose greatest element is real.

    Raises:
        ValueError: if the matrices are not square, or (when evaluated) have NaN or infinite elements.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> w, v = mx.linalg.eig(mx.array([[1.0, 0.0], [0.0, 2.0]]))
        >>> w
        array([1+0j, 2+0j], dtype=complex64)
    """
    return EigResult._make(op_eig(take_matrix(a, "eig", True), to_stream(stream)))


def eigvalsh(a, UPLO="L", *, stream=None):
    """Eigenvalues of Hermitian (real: symmetric) matrices.

    Args:
        a: array of matrices, shape (..., n, n); float32, float64, complex64, complex128, integers as float32.
        UPLO: which triangle is read, "L" or "U"; the other is taken to be its mirror image.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (..., n), real and ascending. Its gradient is Hermitian.

    Raises:
        ValueError: if the matrices are not square, `UPLO` is another text, or (when evaluated) the triangle has NaN or
            infinite elements.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.eigvalsh(mx.array([[2.0, 1.0], [1.0, 2.0]]))
        array([1, 3], dtype=float32)
    """
    return op_eigvalsh(take_matrix(a, "eigvalsh", True), is_upper(UPLO, "eigvalsh"), to_stream(stream))


def eigh(a, UPLO="L", *, stream=None):
    """Eigenvalues and eigenvectors of Hermitian (real: symmetric) matrices: a v = w v for each column v.

    Args:
        a: array of matrices, shape (..., n, n); float32, float64, complex64, complex128, integers as float32.
        UPLO: which triangle is read, "L" or "U"; the other is taken to be its mirror image.
        stream: stream or device to compute on; None is the default.

    Returns:
        A named tuple (eigenvalues, eigenvectors): real and ascending, shape (..., n), and orthonormal columns, shape
        (..., n, n). Gradients are Hermitian, and right for functions that do not depend on the choice of vectors:
        their signs, and turns among those of equal eigenvalues.

    Raises:
        ValueError: if the matrices are not square, `UPLO` is another text, or (when evaluated) the triangle has NaN or
            infinite elements.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> w, v = mx.linalg.eigh(mx.array([[2.0, 1.0], [1.0, 2.0]]))
        >>> w
        array([1, 3], dtype=float32)
    """
    return EighResult._make(op_eigh(take_matrix(a, "eigh", True), is_upper(UPLO, "eigh"), to_stream(stream)))


# ---- inverses and equations ---------------------------------------------------------------------

def inv(a, *, stream=None):
    """Inverse of square matrices.

    Args:
        a: array of matrices, shape (..., n, n); float32, float64, complex64, complex128, integers as float32.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`.

    Raises:
        ValueError: if the matrices are not square, or (when evaluated) one is singular.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.inv(mx.array([[1.0, 2.0], [0.0, 4.0]]))
        array([[1, -0.5],
               [0, 0.25]], dtype=float32)
    """
    return op_inverse(take_matrix(a, "inv", True), to_stream(stream))


def tri_inv(a, upper=False, *, stream=None):
    """Inverse of triangular matrices.

    Args:
        a: array of matrices, shape (..., n, n), of which only one triangle is read; float32, float64, complex64,
            complex128, integers as float32.
        upper: whether that is the upper triangle.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`, zero in the other triangle.

    Raises:
        ValueError: if the matrices are not square, or (when evaluated) one has a zero on its diagonal.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.tri_inv(mx.array([[1.0, 0.0], [2.0, 4.0]]))
        array([[1, 0],
               [-0.5, 0.25]], dtype=float32)
    """
    return op_tri_inverse(take_matrix(a, "tri_inv", True), upper, to_stream(stream))


def cholesky_inv(a, upper=False, *, stream=None):
    """Inverse of a matrix whose Cholesky factor is given.

    Args:
        a: array of Cholesky factors, shape (..., n, n): L of L L^H, or U of U^H U; float32, float64, complex64,
            complex128, integers as float32.
        upper: whether the factors are upper triangular.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a`: the inverse of L L^H or U^H U.

    Raises:
        ValueError: if the matrices are not square, or (when evaluated) one has a zero on its diagonal.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.cholesky_inv(mx.array([[2.0, 0.0], [1.0, 1.0]]))
        array([[0.5, -0.5],
               [-0.5, 1]], dtype=float32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array half = op_tri_inverse(take_matrix(a, "cholesky_inv", True), upper, s)
    return op_matmul(half, adjoint(half, s), s) if upper else op_matmul(adjoint(half, s), half, s)


cdef Array solve_any(object a, object b, bint triangular, bint upper, str name, object stream):
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array x = take_matrix(a, name, True), y = as_array(b), out
    cdef mlxc_dtype dtype = mlxc_array_dtype(y.h)
    cdef int32_t ndim = mlxc_array_ndim(y.h)
    if dtype == MLXC_FLOAT16 or dtype == MLXC_BFLOAT16:
        raise TypeError(f"[linalg.{name}] takes float32, float64, complex64, complex128 and, as float32, integers, not "
                        f"{dtype_object(dtype)}")
    cdef int64_t side = mlxc_array_dim(x.h, mlxc_array_ndim(x.h) - 1)
    if ndim == 0 or mlxc_array_dim(y.h, ndim - 1 if ndim == 1 else ndim - 2) != side:
        raise ValueError(f"[linalg.{name}] the right side must be a vector or matrices of as many rows as the matrices "
                         f"have, got shapes {tuple(dims(x))} and {tuple(dims(y))}")
    if ndim == 1:
        y = op_expand_dims(y, -1, s)
    out = op_solve_triangular(x, y, upper, s) if triangular else op_solve(x, y, s)
    return op_squeeze(out, -1, s) if ndim == 1 else out


def solve(a, b, *, stream=None):
    """The x with a x = b.

    Args:
        a: array of square matrices, shape (..., n, n); float32, float64, complex64, complex128, integers as float32.
        b: vector of shape (n,), or array of matrices, shape (..., n, k), whose leading axes broadcast with those of
            `a`.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `b`, with the broadcast leading axes.

    Raises:
        ValueError: if the shapes do not fit, or (when evaluated) a matrix is singular.
        TypeError: if a dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.solve(mx.array([[2.0, 0.0], [0.0, 4.0]]), mx.array([2.0, 2.0]))
        array([1, 0.5], dtype=float32)
    """
    return solve_any(a, b, False, False, "solve", stream)


def solve_triangular(a, b, *, upper=False, stream=None):
    """The x with a x = b for triangular matrices.

    Args:
        a: array of square matrices, shape (..., n, n), of which only one triangle is read; float32, float64, complex64,
            complex128, integers as float32.
        b: vector of shape (n,), or array of matrices, shape (..., n, k), whose leading axes broadcast with those of
            `a`.
        upper: whether the upper triangle of `a` is meant.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `b`, with the broadcast leading axes.

    Raises:
        ValueError: if the shapes do not fit, or (when evaluated) a matrix has a zero on its diagonal.
        TypeError: if a dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.solve_triangular(mx.array([[2.0, 0.0], [1.0, 1.0]]), mx.array([2.0, 2.0]))
        array([1, 1], dtype=float32)
    """
    return solve_any(a, b, True, upper, "solve_triangular", stream)


# ---- determinants -------------------------------------------------------------------------------

def det(a, *, stream=None):
    """Determinant of square matrices. Its gradient, the matrix of cofactors, exists at singular matrices too.

    Args:
        a: array of matrices, shape (..., n, n); float32, float64, complex64, complex128, integers as float32.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape without the last two axes.

    Raises:
        ValueError: if the matrices are not square.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.det(mx.array([[1.0, 2.0], [3.0, 4.0]]))
        array(-2, dtype=float32)
    """
    return op_det(take_matrix(a, "det", True), to_stream(stream))


def slogdet(a, *, stream=None):
    """Determinant of square matrices as sign and logarithm, for those too large or small to write down.

    Args:
        a: array of matrices, shape (..., n, n); float32, float64, complex64, complex128, integers as float32.
        stream: stream or device to compute on; None is the default.

    Returns:
        A named tuple (sign, logabsdet): the determinant is sign * exp(logabsdet). The sign is 1, -1 or 0, or of length
        one or 0 if complex; the logarithm is real, -inf for singular matrices.

    Raises:
        ValueError: if the matrices are not square.
        TypeError: if the dtype is float16 or bfloat16.

    Example:
        >>> mx.linalg.slogdet(mx.array([[2.0, 0.0], [0.0, -0.5]]))
        SlogdetResult(sign=array(-1, dtype=float32), logabsdet=array(0, dtype=float32))
    """
    return SlogdetResult._make(op_slogdet(take_matrix(a, "slogdet", True), to_stream(stream)))
