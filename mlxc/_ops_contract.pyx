# Products of matrices and tensors: matmul and what is made of it. einsum has a file of its own, _einsum.pyx, and
# convolutions theirs, _ops_conv.pyx.
from mlxc._args cimport to_axis, to_int
from mlxc._array cimport Array, as_array, wrap
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._error cimport check
from mlxc._matmul cimport matmul_any
from mlxc._prim cimport (cast, dims, number, op_add, op_conjugate, op_expand_dims, op_matmul, op_multiply, op_reshape,
                         op_squeeze, op_transpose, operands, promote, ravel)

__all__ = ["addmm", "inner", "kron", "matmul", "outer", "tensordot", "vecdot"]


cdef Array multiply_matrices(Array a, Array b, mlxc_stream* s):
    cdef mlxc_array* out = NULL
    check(matmul_any(a.h, b.h, s, &out))
    return wrap(out)


def matmul(a, b, /, *, stream=None):
    """Matrix product of the last two axes; the axes before them broadcast.

    Args:
        a: array of at least one dimension, any dtype; a 1-D array is taken as a row.
        b: array of at least one dimension, any dtype; a 1-D array is taken as a column.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype that `a` and `b` promote to. Rows and columns made of 1-D arrays are dropped.

    Raises:
        ValueError: if the inner sizes differ, the outer axes do not broadcast, or an array is 0-d.

    Example:
        >>> mx.matmul(mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.array([1.0, 1.0]))
        array([3, 7], dtype=float32)
    """
    return multiply_matrices(as_array(a), as_array(b), to_stream(stream))


def addmm(c, a, b, /, alpha=1.0, beta=1.0, *, stream=None):
    """alpha * (a @ b) + beta * c.

    Args:
        c: array that broadcasts with the product.
        a: array of at least one dimension.
        b: array of at least one dimension.
        alpha: factor of the product.
        beta: factor of `c`; where it is 0, `c` is not read.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype that the three arrays promote to.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> mx.addmm(mx.array([1.0, 1.0]), mx.eye(2), mx.array([3.0, 4.0]), alpha=2.0)
        array([7, 9], dtype=float32)
    """
    cdef Array x = as_array(a), y = as_array(b), z = as_array(c)
    cdef mlxc_stream* s = to_stream(stream)
    cdef mlxc_dtype dtype = promote(promote(mlxc_array_dtype(x.h), mlxc_array_dtype(y.h)), mlxc_array_dtype(z.h))
    cdef Array out = multiply_matrices(cast(x, dtype, s), cast(y, dtype, s), s)
    z = cast(z, dtype, s)
    if alpha != 1:
        out = op_multiply(out, number(alpha, dtype), s)
    if beta == 0:
        from mlxc._ops_shape import broadcast_shapes, broadcast_to
        return broadcast_to(out, broadcast_shapes(dims(out), dims(z)), stream=stream)
    if beta != 1:
        z = op_multiply(z, number(beta, dtype), s)
    return op_add(out, z, s)


def inner(a, b, /, *, stream=None):
    """Sum of products over the last axes; of 0-d arrays the product.

    Args:
        a: array or scalar.
        b: array or scalar whose last axis is as long as that of `a`.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape `a.shape[:-1] + b.shape[:-1]`, with the dtype that `a` and `b` promote to.

    Raises:
        ValueError: if the last axes differ in size.

    Example:
        >>> mx.inner(mx.array([1.0, 2.0]), mx.array([3.0, 4.0]))
        array(11, dtype=float32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    x, y = operands(a, b)
    cdef Array u = x, v = y
    if mlxc_array_ndim(u.h) == 0 or mlxc_array_ndim(v.h) == 0:
        return op_multiply(u, v, s)
    return contract(u, v, [mlxc_array_ndim(u.h) - 1], [mlxc_array_ndim(v.h) - 1], "inner", s)


def outer(a, b, /, *, stream=None):
    """All products of an element of a with one of b.

    Args:
        a: array or scalar; flattened.
        b: array or scalar; flattened.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape `(a.size, b.size)`, with the dtype that `a` and `b` promote to.

    Example:
        >>> mx.outer(mx.array([1, 2]), mx.array([3, 4]))
        array([[3, 4],
               [6, 8]], dtype=int32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    x, y = operands(a, b)
    return op_multiply(op_expand_dims(ravel(x, s), 1, s), op_expand_dims(ravel(y, s), 0, s), s)


def vecdot(a, b, /, *, axis=-1, stream=None):
    """Dot product of vectors along an axis; the first is conjugated if complex.

    Args:
        a: array of at least one dimension.
        b: array of at least one dimension; the shapes broadcast.
        axis: the axis, counted from the end where the numbers of dimensions differ; the last by default.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the broadcast shape without the axis, with the dtype that `a` and `b` promote to.

    Raises:
        ValueError: if the axis is out of range or differs in size, or the shapes do not broadcast.

    Example:
        >>> mx.vecdot(mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.array([1.0, 1.0]))
        array([3, 7], dtype=float32)
    """
    cdef Array x = as_array(a), y = as_array(b)
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t left = mlxc_array_ndim(x.h), right = mlxc_array_ndim(y.h)
    cdef int32_t i = to_axis(axis, left), j = to_axis(axis, right)
    if mlxc_array_dim(x.h, i) != mlxc_array_dim(y.h, j) or left - i != right - j:
        raise ValueError(f"[vecdot] axis {axis} differs in the shapes {tuple(dims(x))} and {tuple(dims(y))}")
    cdef list order = [k for k in range(left) if k != i] + [i]
    cdef Array u = op_transpose(x, order, s)
    order = [k for k in range(right) if k != j] + [j]
    cdef Array v = op_transpose(y, order, s)
    u = op_matmul(op_expand_dims(op_conjugate(u, s), -2, s), op_expand_dims(v, -1, s), s)
    return op_squeeze(u, (-2, -1), s)


cdef Array contract(Array a, Array b, list axes_a, list axes_b, str name, mlxc_stream* s):
    """Sum of products over pairs of axes: one matrix product of the arrays with those axes brought together."""
    cdef list shape_a = dims(a), shape_b = dims(b)
    cdef list summed = [shape_a[i] for i in axes_a]
    if summed != [shape_b[i] for i in axes_b]:
        raise ValueError(f"[{name}] the axes {axes_a} and {axes_b} of the shapes {tuple(shape_a)} and {tuple(shape_b)} "
                         "differ in size")
    cdef list free_a = [i for i in range(len(shape_a)) if i not in axes_a]
    cdef list free_b = [i for i in range(len(shape_b)) if i not in axes_b]
    cdef object rows = 1, inner_size = 1, columns = 1
    for i in free_a:
        rows *= shape_a[i]
    for i in free_b:
        columns *= shape_b[i]
    for n in summed:
        inner_size *= n
    cdef Array left = op_reshape(op_transpose(a, free_a + axes_a, s), (rows, inner_size), s)
    cdef Array right = op_reshape(op_transpose(b, axes_b + free_b, s), (inner_size, columns), s)
    return op_reshape(op_matmul(left, right, s), [shape_a[i] for i in free_a] + [shape_b[i] for i in free_b], s)


def tensordot(a, b, /, axes=2, *, stream=None):
    """Sum of products over several axes.

    Args:
        a: array.
        b: array.
        axes: how many of the last axes of `a` to sum with the first of `b`, or a pair of lists of axes.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array with the other axes of `a`, then those of `b`, and the dtype that they promote to.

    Raises:
        ValueError: if the axes differ in number or size, are out of range or named twice.

    Example:
        >>> mx.tensordot(mx.ones((2, 3, 4)), mx.ones((3, 4, 5)), axes=2).shape
        (2, 5)
    """
    cdef Array x = as_array(a), y = as_array(b)
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t left = mlxc_array_ndim(x.h), right = mlxc_array_ndim(y.h)
    cdef int64_t n
    if isinstance(axes, (list, tuple)):
        if len(axes) != 2:
            raise ValueError(f"[tensordot] axes is a number or a pair of lists, got {axes}")
        first, second = [list(side) if isinstance(side, (list, tuple)) else [side] for side in axes]
        axes_a, axes_b = [to_axis(i, left) for i in first], [to_axis(i, right) for i in second]
    else:
        n = to_int(axes, "axes")
        if not 0 <= n <= min(left, right):
            raise ValueError(f"[tensordot] cannot sum over {n} axes of the shapes {tuple(dims(x))} and "
                             f"{tuple(dims(y))}")
        axes_a, axes_b = list(range(left - n, left)), list(range(n))
    if len(axes_a) != len(axes_b) or len(set(axes_a)) != len(axes_a) or len(set(axes_b)) != len(axes_b):
        raise ValueError(f"[tensordot] axes {axes} must name equally many axes, none of them twice")
    return contract(x, y, axes_a, axes_b, "tensordot", s)


def kron(a, b, *, stream=None):
    """The Kronecker product: each element of a times the whole of b.

    Args:
        a: array or scalar.
        b: array or scalar; the shorter shape gets ones in front.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array whose sizes are the products of those of `a` and `b`, with the dtype that they promote to.

    Example:
        >>> mx.kron(mx.array([1, 2]), mx.array([1, 1]))
        array([1, 1, 2, 2], dtype=int32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    x, y = operands(a, b)
    cdef list left = dims(x), right = dims(y), apart_a = [], apart_b = []
    left = [1] * (len(right) - len(left)) + left
    right = [1] * (len(left) - len(right)) + right
    for m, n in zip(left, right):
        apart_a += [m, 1]
        apart_b += [1, n]
    out = op_multiply(op_reshape(x, apart_a, s), op_reshape(y, apart_b, s), s)
    return op_reshape(out, [m * n for m, n in zip(left, right)], s)
