# Products of matrices and tensors: matmul and what is made of it. einsum has a file of its own, _einsum.pyx, and
# convolutions theirs, _ops_conv.pyx.
from mlxc._args cimport Axes, Shape, to_axes, to_axis, to_int
from mlxc._array cimport Array, as_array, wrap
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._error cimport check
from mlxc._matmul cimport matmul_any
from mlxc._prim cimport (cast, dims, number, op_add, op_conjugate, op_expand_dims, op_matmul, op_multiply, op_squeeze,
                         op_transpose, operands, promote, ravel, reshaped, transposed, with_axis)

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
    cdef Axes last_u, last_v
    last_u.n = last_v.n = 1
    last_u.v[0] = mlxc_array_ndim(u.h) - 1
    last_v.v[0] = mlxc_array_ndim(v.h) - 1
    return contract(u, v, &last_u, &last_v, "inner", s)


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
    return op_multiply(with_axis(ravel(x, s), 1, s), with_axis(ravel(y, s), 0, s), s)


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


cdef bint in_order(Axes* order) noexcept:
    cdef int32_t i
    for i in range(order.n):
        if order.v[i] != i:
            return False
    return True


cdef Array as_matrix(Array a, Axes* order, int64_t rows, int64_t columns, mlxc_stream* s):
    """The array with its axes in this order, as a matrix."""
    cdef Shape shape
    if not in_order(order):
        a = transposed(a, order, s)
    if order.n == 2 and mlxc_array_dim(a.h, 0) == rows and mlxc_array_dim(a.h, 1) == columns:
        return a
    shape.n = 2
    shape.v[0], shape.v[1] = rows, columns
    return reshaped(a, &shape, s)


cdef Array contract(Array a, Array b, Axes* axes_a, Axes* axes_b, str name, mlxc_stream* s):
    """Sum of products over pairs of axes: one matrix product of the arrays with those axes brought together."""
    cdef int32_t left = mlxc_array_ndim(a.h), right = mlxc_array_ndim(b.h), i
    cdef uint64_t in_a = 0, in_b = 0
    cdef Axes order_a, order_b
    cdef Shape shape
    cdef int64_t rows = 1, columns = 1, inner_size = 1
    order_a.n = order_b.n = shape.n = 0
    for i in range(axes_a.n):
        if mlxc_array_dim(a.h, axes_a.v[i]) != mlxc_array_dim(b.h, axes_b.v[i]):
            raise ValueError(f"[{name}] the axes {[axes_a.v[k] for k in range(axes_a.n)]} and "
                             f"{[axes_b.v[k] for k in range(axes_b.n)]} of the shapes {tuple(dims(a))} and "
                             f"{tuple(dims(b))} differ in size")
        in_a |= <uint64_t>1 << axes_a.v[i]
        in_b |= <uint64_t>1 << axes_b.v[i]
        inner_size *= mlxc_array_dim(a.h, axes_a.v[i])
        order_b.v[i] = axes_b.v[i]
    order_b.n = axes_b.n
    if left + right - 2 * axes_a.n > MLXC_MAX_NDIM:
        raise ValueError(f"[{name}] the result would have more than {MLXC_MAX_NDIM} axes")
    for i in range(left):
        if not in_a >> i & 1:
            order_a.v[order_a.n] = i
            order_a.n += 1
            shape.v[shape.n] = mlxc_array_dim(a.h, i)
            rows *= shape.v[shape.n]
            shape.n += 1
    for i in range(axes_a.n):
        order_a.v[order_a.n] = axes_a.v[i]
        order_a.n += 1
    for i in range(right):
        if not in_b >> i & 1:
            order_b.v[order_b.n] = i
            order_b.n += 1
            shape.v[shape.n] = mlxc_array_dim(b.h, i)
            columns *= shape.v[shape.n]
            shape.n += 1
    cdef Array out = op_matmul(as_matrix(a, &order_a, rows, inner_size, s),
                               as_matrix(b, &order_b, inner_size, columns, s), s)
    if shape.n == 2 and shape.v[0] == rows and shape.v[1] == columns:
        return out
    return reshaped(out, &shape, s)


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
    cdef int32_t i
    cdef Axes first, second
    cdef uint64_t in_x = 0, in_y = 0
    cdef bint good
    if isinstance(axes, (list, tuple)):
        if len(axes) != 2:
            raise ValueError(f"[tensordot] axes is a number or a pair of lists, got {axes}")
        to_axes(axes[0], &first)
        to_axes(axes[1], &second)
        good = first.n == second.n and first.n >= 0
        for i in range(first.n):
            first.v[i] = to_axis(first.v[i], left)
            in_x |= <uint64_t>1 << first.v[i]
        for i in range(second.n):
            second.v[i] = to_axis(second.v[i], right)
            in_y |= <uint64_t>1 << second.v[i]
        if not good or count_bits(in_x) != first.n or count_bits(in_y) != second.n:
            raise ValueError(f"[tensordot] axes {axes} must name equally many axes, none of them twice")
    else:
        n = to_int(axes, "axes")
        if not 0 <= n <= min(left, right):
            raise ValueError(f"[tensordot] cannot sum over {n} axes of the shapes {tuple(dims(x))} and "
                             f"{tuple(dims(y))}")
        first.n = second.n = <int32_t>n
        for i in range(first.n):
            first.v[i] = left - first.n + i
            second.v[i] = i
    return contract(x, y, &first, &second, "tensordot", s)


cdef int count_bits(uint64_t mask) noexcept:
    cdef int n = 0
    while mask:
        mask &= mask - 1
        n += 1
    return n


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
    cdef Array u = x, v = y
    cdef int32_t left = mlxc_array_ndim(u.h), right = mlxc_array_ndim(v.h), n = max(left, right), i
    cdef int64_t rows, columns
    cdef Shape apart_u, apart_v, shape
    if 2 * n > MLXC_MAX_NDIM:
        raise ValueError(f"[kron] takes arrays of at most {MLXC_MAX_NDIM // 2} axes, got {n}")
    apart_u.n = apart_v.n = 2 * n
    shape.n = n
    for i in range(n):
        rows = mlxc_array_dim(u.h, i - n + left) if i >= n - left else 1
        columns = mlxc_array_dim(v.h, i - n + right) if i >= n - right else 1
        apart_u.v[2 * i], apart_u.v[2 * i + 1] = rows, 1
        apart_v.v[2 * i], apart_v.v[2 * i + 1] = 1, columns
        shape.v[i] = rows * columns
    return reshaped(op_multiply(reshaped(u, &apart_u, s), reshaped(v, &apart_v, s), s), &shape, s)
