# Random numbers from counters: every draw is a function of a key, two uint32, by threefry. mlxc.random is this module.
#
# Rule: the same key gives the same float32 and half-precision numbers as MLX, on every device. Without a key the next
# one of the calling thread is taken. How a float is made of 32 random bits: bits / 2**32, rounded to nearest and kept
# below one; other distributions are made of that.
from mlxc._args cimport Shape, to_axis, to_int, to_shape
from mlxc._array cimport Array, as_array, as_operand, wrap
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport dtype_object, is_complex, is_floating, is_integer, to_dtype_or
from mlxc._error cimport check
from mlxc._prim cimport (cast, dims, number, number_int, op_abs, op_add, op_argmax, op_argsort, op_astype, op_bitcast,
                         op_cumsum, op_erfinv, op_expand_dims, op_floor, op_greater_equal, op_less, op_less_equal,
                         op_log, op_log1p, op_minimum, op_multiply, op_negative, op_nextafter, op_random_bits,
                         op_remainder, op_reshape, op_sign, op_softmax, op_squeeze, op_subtract, op_sum, op_where,
                         read_shape, take_axis, with_axis)
from mlxc._random_key cimport pick_key
from mlxc._truncated cimport draw_truncated

from mlxc._dtype import float32, int32
from mlxc._ops_shape import broadcast_shapes

__all__ = ["bernoulli", "bits", "categorical", "gumbel", "laplace", "normal", "permutation", "randint",
           "truncated_normal", "uniform"]


def bits(shape=[], width=4, key=None, stream=None):  # no-cython-lint: never changed
    """Random unsigned integers over their whole range.

    Args:
        shape: an int or a sequence of sizes.
        width: bytes of each integer: 1, 2, 4 or 8.
        key: key to use; None takes the thread's next one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape, of uint8, uint16, uint32 or uint64.

    Raises:
        ValueError: if a size is negative or the width another number.

    Example:
        >>> mx.random.bits((2,), key=mx.random.key(0))
        array([928981903, 3453687069], dtype=uint32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    return op_random_bits(pick_key(key, s), shape, to_int(width, "width"), s)


# ---- uniform ------------------------------------------------------------------------------------

cdef mlxc_dtype float_argument(object dtype, str name) except -1:
    cdef mlxc_dtype out = to_dtype_or(dtype, MLXC_FLOAT32)
    if not is_floating(out):
        raise ValueError(f"[{name}] makes real floating-point numbers, not {dtype_object(out)}")
    return out


cdef Array draw_bits(Array key, Shape* shape, int32_t width, mlxc_stream* s):
    cdef mlxc_array* out = NULL
    check(mlxc_random_bits(key.h, shape.v, shape.n, width, s, &out))
    return wrap(out)


cdef Array draw_unit(Array key, Shape* shape, mlxc_dtype dtype, mlxc_stream* s):
    """Numbers in [0, 1)."""
    cdef mlxc_array* out = NULL
    check(mlxc_random_uniform(key.h, shape.v, shape.n, dtype, 1, 0, s, &out))
    return wrap(out)


cdef Array draw_open(Array key, Shape* shape, mlxc_dtype dtype, mlxc_stream* s):
    """Numbers in (-1, 1), of float32 at least."""
    cdef mlxc_array* out = NULL
    check(mlxc_random_open(key.h, shape.v, shape.n, MLXC_FLOAT64 if dtype == MLXC_FLOAT64 else MLXC_FLOAT32, s, &out))
    return wrap(out)


cdef int check_fits(str name, Shape* shape, Array bounds) except -1:
    """ValueError unless the array broadcasts to the shape."""
    cdef int32_t ndim = mlxc_array_ndim(bounds.h), i
    cdef const int64_t* sizes = mlxc_array_shape(bounds.h)
    cdef bint fits = ndim <= shape.n
    for i in range(ndim):
        fits = fits and (sizes[i] == 1 or sizes[i] == shape.v[shape.n - ndim + i])
    if not fits:
        raise ValueError(f"[{name}] an argument of shape {tuple(dims(bounds))} does not broadcast to the shape "
                         f"{tuple([shape.v[i] for i in range(shape.n)])}")
    return 0


def uniform(low=0, high=1, shape=[], dtype=float32, key=None, stream=None):  # no-cython-lint: never changed
    """Floats spread evenly over [low, high).

    Args:
        low: lower bound, scalar or array; 0 by default.
        high: upper bound, not reached, scalar or array; 1 by default.
        shape: shape of the result, to which the bounds broadcast.
        dtype: float16, bfloat16, float32 (the default) or float64.
        key: key to use; None takes the thread's next one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype.

    Raises:
        ValueError: if the bounds do not broadcast to the shape, or the dtype is another one.

    Example:
        >>> mx.random.uniform(shape=(3,), key=mx.random.key(0))
        array([0.965321, 0.314682, 0.63303], dtype=float32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef mlxc_dtype own = float_argument(dtype, "uniform")
    cdef Shape sizes
    cdef Array a, b, out, over
    to_shape(shape, &sizes)
    if type(low) is int and type(high) is int and low == 0 and high == 1:
        return draw_unit(pick_key(key, s), &sizes, own, s)
    a, b = cast(as_operand(low, own), own, s), cast(as_operand(high, own), own, s)
    check_fits("uniform", &sizes, a)
    check_fits("uniform", &sizes, b)
    out = draw_unit(pick_key(key, s), &sizes, own, s)
    out = op_add(op_multiply(out, op_subtract(b, a, s), s), a, s)
    # Rounding can reach the upper bound; the bounds may also be given the other way round.
    over = op_where(op_greater_equal(b, a, s), op_greater_equal(out, b, s), op_less_equal(out, b, s), s)
    return op_where(over, op_nextafter(b, a, s), out, s)


# ---- normal and its kin -------------------------------------------------------------------------

cdef Array scale_and_shift(Array out, object loc, object scale, str name, mlxc_stream* s):
    cdef mlxc_dtype dtype = mlxc_array_dtype(out.h)
    cdef Shape shape
    cdef Array factor, offset
    if scale is None and loc is None:
        return out
    read_shape(out, &shape)
    if scale is not None:
        factor = cast(as_operand(scale, dtype), dtype, s)
        check_fits(name, &shape, factor)
        out = op_multiply(out, factor, s)
    if loc is not None:
        offset = cast(as_operand(loc, dtype), dtype, s)
        check_fits(name, &shape, offset)
        out = op_add(out, offset, s)
    return out


def normal(shape=[], dtype=float32, loc=None, scale=None, key=None, stream=None):  # no-cython-lint: never changed
    """Normally distributed numbers.

    Args:
        shape: an int or a sequence of sizes.
        dtype: any floating dtype, float32 by default, or a complex one, whose parts have half the variance each.
        loc: mean, scalar or array that broadcasts to the shape; 0 by default.
        scale: standard deviation, the same; 1 by default.
        key: key to use; None takes the thread's next one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype.

    Raises:
        ValueError: for another dtype, or where `loc` or `scale` does not broadcast to the shape.

    Example:
        >>> mx.random.normal((3,), key=mx.random.key(0))
        array([1.81609, -0.482623, 0.339889], dtype=float32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef mlxc_dtype own = to_dtype_or(dtype, MLXC_FLOAT32), part
    cdef Shape sizes
    cdef Array out
    to_shape(shape, &sizes)
    if is_complex(own):
        part = MLXC_FLOAT32 if own == MLXC_COMPLEX64 else MLXC_FLOAT64
        if sizes.n == MLXC_MAX_NDIM:
            raise ValueError(f"[normal] a complex array drawn has at most {MLXC_MAX_NDIM - 1} axes")
        sizes.v[sizes.n] = 2
        sizes.n += 1
        out = op_erfinv(draw_open(pick_key(key, s), &sizes, part, s), s)
        return scale_and_shift(op_squeeze(op_bitcast(out, own, s), -1, s), loc, scale, "normal", s)
    own = float_argument(dtype, "normal")
    cdef Array picked = pick_key(key, s)
    cdef mlxc_array* drawn = NULL
    check(mlxc_random_normal(picked.h, sizes.v, sizes.n, own, s, &drawn))
    return scale_and_shift(wrap(drawn), loc, scale, "normal", s)


def laplace(shape=[], dtype=float32, loc=0.0, scale=1.0, key=None, stream=None):  # no-cython-lint: never changed
    """Numbers of the Laplace distribution.

    Args:
        shape: an int or a sequence of sizes.
        dtype: float16, bfloat16, float32 (the default) or float64.
        loc: mean, scalar or array that broadcasts to the shape.
        scale: mean distance from the mean, the same.
        key: key to use; None takes the thread's next one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype.

    Raises:
        ValueError: for another dtype, or where `loc` or `scale` does not broadcast to the shape.

    Example:
        >>> mx.random.laplace((2,), key=mx.random.key(0)).shape
        (2,)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef mlxc_dtype own = float_argument(dtype, "laplace")
    cdef Shape sizes
    to_shape(shape, &sizes)
    cdef Array u = draw_open(pick_key(key, s), &sizes, own, s)
    u = op_multiply(op_sign(u, s), op_log1p(op_negative(op_abs(u, s), s), s), s)
    return scale_and_shift(cast(u, own, s), loc if type(loc) is Array or loc != 0 else None,
                           scale if type(scale) is Array or scale != 1 else None, "laplace", s)


cdef Array draw_gumbel(Array key, Shape* shape, mlxc_dtype dtype, mlxc_stream* s):
    cdef Array u = draw_unit(key, shape, dtype, s)
    return op_negative(op_log(op_negative(op_log(u, s), s), s), s)


def gumbel(shape=[], dtype=float32, key=None, stream=None):  # no-cython-lint: never changed
    """Numbers of the standard Gumbel distribution.

    Args:
        shape: an int or a sequence of sizes.
        dtype: float16, bfloat16, float32 (the default) or float64.
        key: key to use; None takes the thread's next one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype.

    Raises:
        ValueError: for another dtype.

    Example:
        >>> mx.random.gumbel((2,), key=mx.random.key(0)).shape
        (2,)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef Shape sizes
    to_shape(shape, &sizes)
    return draw_gumbel(pick_key(key, s), &sizes, float_argument(dtype, "gumbel"), s)


def truncated_normal(lower, upper, shape=None, dtype=float32, key=None, stream=None):
    """Numbers of the normal distribution that lie between bounds, however far out these are.

    Args:
        lower: lower bound, scalar or array.
        upper: upper bound, scalar or array.
        shape: shape of the result, to which the bounds broadcast; by default what they broadcast to.
        dtype: float16, bfloat16, float32 (the default) or float64.
        key: key to use; None takes the thread's next one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype.

    Raises:
        ValueError: for another dtype, where the bounds do not broadcast to the shape, or scalar bounds are crossed.

    Example:
        >>> tail = mx.random.truncated_normal(10.0, 11.0, (100,))
        >>> bool(mx.all((tail >= 10) & (tail <= 11)))
        True
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef mlxc_dtype own = float_argument(dtype, "truncated_normal")
    if isinstance(lower, (int, float)) and isinstance(upper, (int, float)) and not lower <= upper:
        raise ValueError(f"[truncated_normal] the lower bound {lower} must not be above the upper bound {upper}")
    cdef Array a = cast(as_operand(lower, own), own, s), b = cast(as_operand(upper, own), own, s)
    cdef Shape sizes
    to_shape(broadcast_shapes(dims(a), dims(b)) if shape is None else shape, &sizes)
    check_fits("truncated_normal", &sizes, a)
    check_fits("truncated_normal", &sizes, b)
    cdef Array u = draw_unit(pick_key(key, s), &sizes, own, s)
    return draw_truncated(u, a, b, s)


# ---- integers and choices -----------------------------------------------------------------------

cdef Array draw_narrow(Array key, Array low, Array span, Shape* shape, mlxc_dtype dtype, mlxc_stream* s):
    """Integers through float32, as MLX does; exact for at most 2**24 values."""
    cdef Array u = op_multiply(draw_unit(key, shape, MLXC_FLOAT32, s), span, s)
    return op_astype(op_floor(op_add(u, low, s), s), dtype, s)


cdef Array draw_wide(Array key, Array low, Array span, Shape* shape, mlxc_dtype dtype, mlxc_stream* s):
    """Integers from 64 bits, modulo the number of values (uint64; 0 stands for 2**64)."""
    cdef Array bits64 = draw_bits(key, shape, 8, s)
    return op_astype(op_add(op_remainder(bits64, span, s), cast(low, MLXC_UINT64, s), s), dtype, s)


cdef tuple integer_range(mlxc_dtype dtype):
    cdef object n = 8 * <int>mlxc_dtype_size(dtype)
    if dtype == MLXC_BOOL:
        return 0, 1
    return (-(2 ** (n - 1)), 2 ** (n - 1) - 1) if dtype >= MLXC_INT8 else (0, 2**n - 1)


cdef object whole_number(object value):
    """A Python int out of a scalar bound, else None."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or isinstance(value, Array):
        return None
    return value.__index__()


def randint(low, high, shape=[], dtype=int32, key=None, stream=None):  # no-cython-lint: never changed
    """Integers spread evenly over [low, high).

    Args:
        low: least value, int or integer array.
        high: end of the range, not contained, int or integer array.
        shape: shape of the result, to which the bounds broadcast.
        dtype: any integer dtype, int32 by default.
        key: key to use; None takes the thread's next one.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype.

    Raises:
        ValueError: if the range is empty (of arrays: if they have been computed), the dtype does not hold it or is no
            integer, or the bounds do not broadcast to the shape.

    Example:
        >>> mx.random.randint(0, 10, (3,), key=mx.random.key(0))
        array([9, 3, 6], dtype=int32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef mlxc_dtype own = to_dtype_or(dtype, MLXC_INT32)
    cdef Shape sizes
    to_shape(shape, &sizes)
    if not is_integer(own):
        raise ValueError(f"[randint] makes integers, not {dtype_object(own)}")
    first, last = whole_number(low), whole_number(high)
    if first is None or last is None:
        return randint_between(as_array(low), as_array(high), &sizes, own, key, s)
    if own == MLXC_INT32 and -2**24 <= first < last <= 2**24 and last - first <= 2**24:
        return draw_few(pick_key(key, s), first, last, &sizes, own, s)
    least, greatest = integer_range(own)
    if first >= last:
        raise ValueError(f"[randint] the range from {first} to {last} is empty")
    if first < least or last - 1 > greatest:
        raise ValueError(f"[randint] {dtype_object(own)} does not hold the range from {first} to {last}")
    cdef Array picked = pick_key(key, s)
    if last - first <= 2**24 and abs(first) <= 2**24 and abs(last) <= 2**24:
        return draw_few(picked, first, last, &sizes, own, s)
    span = as_operand((last - first) % 2**64, MLXC_UINT64)
    return draw_wide(picked, as_operand(first % 2**64, MLXC_UINT64), span, &sizes, own, s)


cdef Array draw_few(Array key, int64_t first, int64_t last, Shape* shape, mlxc_dtype dtype, mlxc_stream* s):
    """Integers of a range that float32 holds exactly."""
    cdef Array span = number(last - first, MLXC_FLOAT32)
    cdef Array out = draw_narrow(key, number(first, MLXC_FLOAT32), span, shape, dtype, s)
    return op_minimum(out, number_int(last - 1, dtype), s)


cdef Array randint_between(Array low, Array high, Shape* shape, mlxc_dtype dtype, object key, mlxc_stream* s):
    if mlxc_array_dtype(low.h) > MLXC_INT64 or mlxc_array_dtype(high.h) > MLXC_INT64:
        raise TypeError("[randint] the bounds must be integers")
    check_fits("randint", shape, low)
    check_fits("randint", shape, high)
    if mlxc_array_status(low.h) == 1 and mlxc_array_status(high.h) == 1:
        from mlxc._ops_reduce import any as any_of
        if any_of(op_greater_equal(low, high, s)).item():
            raise ValueError("[randint] the range is empty, as a lower bound is not below its upper bound")
    cdef Array picked = pick_key(key, s)
    low, high = cast(low, MLXC_INT64, s), cast(high, MLXC_INT64, s)
    cdef Array span = op_subtract(high, low, s), few = op_less_equal(span, number_int(2**24, MLXC_INT64), s)
    cdef Array low32 = cast(low, MLXC_FLOAT32, s), span32 = op_subtract(cast(high, MLXC_FLOAT32, s), low32, s)
    cdef Array narrow = op_minimum(draw_narrow(picked, low32, span32, shape, MLXC_INT64, s),
                                   op_subtract(high, number_int(1, MLXC_INT64), s), s)
    cdef Array wide = draw_wide(picked, low, cast(span, MLXC_UINT64, s), shape, MLXC_INT64, s)
    return op_astype(op_where(few, narrow, wide, s), dtype, s)


def bernoulli(p=0.5, shape=None, key=None, stream=None):
    """Booleans that are True with a given probability.

    Args:
        p: probability, scalar or array; 0.5 by default.
        shape: shape of the result, to which `p` broadcasts; that of `p` by default.
        key: key to use; None takes the thread's next one.
        stream: stream or device to compute on; None is the default.

    Returns:
        A bool array of the shape.

    Raises:
        ValueError: if `p` does not broadcast to the shape.

    Example:
        >>> mx.random.bernoulli(0.5, (3,), key=mx.random.key(0))
        array([False, True, False], dtype=bool)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array chance = number(p, MLXC_FLOAT32) if type(p) is float else as_array(p)
    if not is_floating(mlxc_array_dtype(chance.h)):
        chance = op_astype(chance, MLXC_FLOAT32, s)
    cdef Shape sizes
    if shape is None:
        read_shape(chance, &sizes)
    else:
        to_shape(shape, &sizes)
    check_fits("bernoulli", &sizes, chance)
    return op_less(draw_unit(pick_key(key, s), &sizes, MLXC_FLOAT32, s), chance, s)


# Up to so many draws of one distribution are compared with all its probabilities; more are sorted among them.
cdef Py_ssize_t FEW_DRAWS = 64


cdef Array draw_by_inversion(Array key, Array logits, Shape* shape, mlxc_stream* s):
    """Indices of one distribution, where the running sum of its probabilities passes a uniform number, as in MLX."""
    from mlxc._ops_sort import searchsorted

    cdef int64_t n = mlxc_array_size(logits.h), draws = 1
    cdef int32_t i
    cdef mlxc_dtype dtype = mlxc_array_dtype(logits.h)
    dtype = dtype if dtype == MLXC_FLOAT64 else MLXC_FLOAT32
    cdef Array p = op_softmax(cast(op_reshape(logits, [n], s), dtype, s), [0], True, s)
    cdef Array passed = op_cumsum(p, 0, False, True, s), u = draw_unit(key, shape, dtype, s), found
    # The last sum may be below one by rounding; a number beyond it must not pick what has no probability.
    cdef Array last = take_axis(passed, number_int(n - 1, MLXC_INT64), 0, s)
    u = op_minimum(u, op_multiply(last, number(1 - 2.0**-23, dtype), s), s)
    for i in range(shape.n):
        draws *= shape.v[i]
    if draws > FEW_DRAWS:
        found = searchsorted(passed, u, side="right")
    else:
        found = op_sum(op_less_equal(passed, op_expand_dims(u, -1, s), s), shape.n, False, s)
    return op_minimum(cast(found, MLXC_UINT32, s), number_int(n - 1, MLXC_UINT32), s)


def categorical(logits, axis=-1, shape=None, num_samples=None, key=None, stream=None):
    """Indices drawn from distributions given by unnormalised log-probabilities.

    Args:
        logits: array of at least one dimension; the distributions lie along `axis`.
        axis: the axis, the last by default.
        shape: shape of the result; the shape of `logits` without the axis must broadcast to it.
        num_samples: how many draws of each distribution; they become the last axis of the result.
        key: key to use; None takes the thread's next one.
        stream: stream or device to compute on; None is the default.

    Returns:
        A uint32 array; one draw of each distribution by default.

    Raises:
        ValueError: if both `shape` and `num_samples` are given, shapes do not broadcast, or the axis is out of range.

    Example:
        >>> mx.random.categorical(mx.array([0.0, -mx.inf, -mx.inf]), num_samples=4)
        array([0, 0, 0, 0], dtype=uint32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array x = as_array(logits), noise
    cdef int32_t ndim = mlxc_array_ndim(x.h), ax = to_axis(axis, ndim)
    cdef int32_t from_end = ax - ndim, place, i
    cdef Shape sizes, wanted
    if not is_floating(mlxc_array_dtype(x.h)):
        x = op_astype(x, MLXC_FLOAT32, s)
    if shape is not None and num_samples is not None:
        raise ValueError("[categorical] give at most one of shape and num_samples")
    read_shape(x, &sizes)
    if num_samples is not None:
        x = with_axis(x, -1, s)
        sizes.v[ndim] = to_int(num_samples, "num_samples")
        sizes.n = ndim + 1
        from_end -= 1
    elif shape is not None:
        to_shape(shape, &wanted)
        rest = [sizes.v[i] for i in range(ndim) if i != ax]
        asked = [wanted.v[i] for i in range(wanted.n)]
        if len(rest) > len(asked) or list(broadcast_shapes(rest, asked)) != asked or wanted.n == MLXC_MAX_NDIM:
            raise ValueError(f"[categorical] distributions of shape {tuple(rest)} do not broadcast to the shape "
                             f"{tuple(asked)}")
        place = wanted.n + 1 + from_end
        for i in range(wanted.n, place, -1):
            wanted.v[i] = wanted.v[i - 1]
        wanted.v[place] = sizes.v[ax]
        wanted.n += 1
        sizes = wanted
    if sizes.n > 1 and mlxc_array_size(x.h) and mlxc_array_size(x.h) == mlxc_array_dim(x.h, ax):
        for i in range(sizes.n + from_end, sizes.n - 1):
            sizes.v[i] = sizes.v[i + 1]
        sizes.n -= 1
        return draw_by_inversion(pick_key(key, s), x, &sizes, s)
    noise = draw_gumbel(pick_key(key, s), &sizes, mlxc_array_dtype(x.h), s)
    return op_argmax(op_add(x, noise, s), from_end, False, s)


def permutation(x, axis=0, key=None, stream=None):
    """A random order of numbers, or of the slices of an array.

    Args:
        x: int n for the numbers 0 to n - 1, or an array to shuffle.
        axis: axis along which the array is shuffled, the first by default.
        key: key to use; None takes the thread's next one.
        stream: stream or device to compute on; None is the default.

    Returns:
        A uint32 array of n numbers, or an array of the shape and dtype of `x`.

    Raises:
        ValueError: if n is negative, or the axis is out of range.

    Example:
        >>> mx.sort(mx.random.permutation(4))
        array([0, 1, 2, 3], dtype=uint32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array a
    cdef int32_t ax
    if type(x) is not Array and hasattr(x, "__index__"):
        return op_argsort(op_random_bits(pick_key(key, s), (to_int(x, "x"),), 4, s), 0, s)
    a = as_array(x)
    ax = to_axis(axis, mlxc_array_ndim(a.h))
    order = op_argsort(op_random_bits(pick_key(key, s), (mlxc_array_dim(a.h, ax),), 4, s), 0, s)
    return take_axis(a, order, ax, s)
