# Element-wise functions that are more than one op, or that take more than arrays: where, clip, round, nan_to_num,
# closeness and equality of arrays, casts. The one-op functions are generated: _ops_plain.pyx.
from libc.math cimport M_PI

from mlxc._array cimport Array, as_array, as_operand
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport dtype_object, is_complex, is_inexact, to_dtype
from mlxc._mask cimport find_true
from mlxc._prim cimport (alias, cast, dims, float_dtype, number, number_int, op_abs, op_add, op_all, op_astype,
                         op_bitcast, op_contiguous, op_divide, op_divmod, op_equal, op_full, op_greater, op_imag,
                         op_isfinite, op_isinf, op_isnan, op_less_equal, op_logical_and, op_logical_or, op_maximum,
                         op_minimum, op_multiply, op_not_equal, op_real, op_remainder, op_rint, op_stop_gradient,
                         op_subtract, op_where, operands, promote)

__all__ = ["allclose", "array_equal", "astype", "clip", "contiguous", "degrees", "divmod", "isclose", "isneginf",
           "isposinf", "nan_to_num", "nonzero", "positive", "radians", "round", "stop_gradient", "view", "where"]

# Greatest finite value of each floating dtype.
cdef dict GREATEST = {MLXC_FLOAT16: 65504.0, MLXC_BFLOAT16: 3.3895313892515355e38,
                      MLXC_FLOAT32: 3.4028234663852886e38, MLXC_FLOAT64: 1.7976931348623157e308}


def positive(a, /, *, stream=None):
    """a itself, element by element (unary plus).

    Args:
        a: array or scalar, any shape and dtype.
        stream: accepted for uniformity; nothing is computed.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        TypeError: if `a` is no array or scalar.

    Example:
        >>> mx.positive(mx.array([1, -2]))
        array([1, -2], dtype=int32)
    """
    to_stream(stream)
    return alias(as_array(a))


def divmod(a, b, stream=None):
    """Floored quotient and remainder, element by element; the remainder has the sign of `b`.

    Args:
        a: array or scalar, any dtype but complex ones.
        b: the same; the shapes broadcast.
        stream: stream or device to compute on; None is the default.

    Returns:
        A list of two arrays of the broadcast shape and promoted dtype, `[a // b, a % b]`. An integer divided by zero
        gives 0 and the remainder `a`.

    Raises:
        ValueError: if the shapes do not broadcast.
        TypeError: for a complex dtype.

    Example:
        >>> mx.divmod(mx.array([7, -7]), 2)
        [array([3, -4], dtype=int32), array([1, 1], dtype=int32)]
    """
    x, y = operands(a, b)
    return list(op_divmod(x, y, to_stream(stream)))


def where(condition, x=None, y=None, /, *, stream=None):
    """x where the condition is true, else y; with the condition alone, the places where it is true.

    Args:
        condition: array or scalar, any dtype; nonzero is true.
        x: array or scalar. A Python scalar takes the dtype of `y`, if that is of its kind or a wider one.
        y: the same for `x`. The three shapes broadcast.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the broadcast shape and the dtype that `x` and `y` promote to; without `x` and `y`, what
        `nonzero(condition)` returns.

    Raises:
        ValueError: if the shapes do not broadcast, or only one of `x` and `y` is given.

    Example:
        >>> mx.where(mx.array([True, False]), 1.5, mx.array([0.0, 2.0]))
        array([1.5, 2], dtype=float32)
    """
    if x is None and y is None:
        return nonzero(condition, stream=stream)
    if x is None or y is None:
        raise ValueError("[where] takes one argument or three")
    u, v = operands(x, y)
    return op_where(as_array(condition), u, v, to_stream(stream))


def nonzero(a, /, *, stream=None):
    """The places of the nonzero elements, one index array an axis. Evaluates `a`.

    Args:
        a: array of at least one dimension, any dtype.
        stream: stream or device to compute on; None is the default.

    Returns:
        A tuple of `a.ndim` arrays of equal length, in row-major order of the elements; int32, or int64 where an axis
        needs it.

    Raises:
        ValueError: inside a function transform, as the shape of the result depends on values; for a 0-d array.

    Example:
        >>> mx.nonzero(mx.array([[0, 1], [2, 0]]))
        (array([0, 1], dtype=int32), array([1, 0], dtype=int32))
    """
    cdef Array x = as_array(a)
    if mlxc_array_ndim(x.h) == 0:
        raise ValueError("[nonzero] takes an array of at least one dimension, got a 0-d array")
    return tuple(find_true(op_not_equal(x, number(0, mlxc_array_dtype(x.h)), to_stream(stream)), "nonzero"))


def clip(a, /, a_min, a_max, *, stream=None):
    """a limited to the range from a_min to a_max, element by element; NaN stays NaN.

    Args:
        a: array or scalar, any dtype.
        a_min: least value, array, scalar or None for no lower limit.
        a_max: greatest value, array, scalar or None; where the limits cross, `a_max` wins.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the broadcast shape and promoted dtype.

    Raises:
        ValueError: if both limits are None, or the shapes do not broadcast.

    Example:
        >>> mx.clip(mx.array([-1.0, 0.5, 3.0]), 0, 1)
        array([0, 0.5, 1], dtype=float32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    if a_min is None and a_max is None:
        raise ValueError("[clip] at most one of a_min and a_max may be None")
    if a_min is not None:
        x = op_maximum(x, as_operand(a_min, mlxc_array_dtype(x.h)), s)
    if a_max is not None:
        x = op_minimum(x, as_operand(a_max, mlxc_array_dtype(x.h)), s)
    return x


cdef Array round_integer(Array x, int decimals, mlxc_stream* s):
    """Integers to the nearest multiple of 10 ** -decimals, halves to the even multiple."""
    cdef mlxc_dtype dtype = mlxc_array_dtype(x.h)
    if decimals >= 0 or dtype == MLXC_BOOL:
        return alias(x)
    cdef int bits = 8 * <int>mlxc_dtype_size(dtype) - (dtype >= MLXC_INT8)
    cdef object step = (<object>10) ** (<object>-decimals)
    if step >= (<object>2) ** (<object>bits):
        return op_multiply(x, number_int(0, dtype), s)
    cdef Array unit = as_operand(step, dtype)
    q, r = op_divmod(x, unit, s)
    cdef Array rest = op_subtract(unit, r, s)
    cdef Array odd = op_not_equal(op_remainder(q, number_int(2, dtype), s), number_int(0, dtype), s)
    cdef Array up = op_logical_or(op_greater(r, rest, s), op_logical_and(op_equal(r, rest, s), odd, s), s)
    return op_multiply(op_add(q, op_astype(up, dtype, s), s), unit, s)


def round(a, /, decimals=0, stream=None):
    """a rounded to a number of decimals, halves to even.

    Args:
        a: array or scalar, any dtype.
        decimals: digits after the point to keep; negative ones round to tens, hundreds and so on.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `a`.

    Example:
        >>> mx.round(mx.array([1.25, 2.5, -0.15]), 1)
        array([1.2, 2.5, -0.2], dtype=float32)
        >>> mx.round(mx.array([15, 25]), -1)
        array([20, 20], dtype=int32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    cdef mlxc_dtype dtype = mlxc_array_dtype(x.h), wide
    # No dtype has digits further out.
    cdef int digits = max(min(decimals.__index__(), 400), -400)
    if not is_inexact(dtype):
        return round_integer(x, digits, s)
    if digits == 0:
        return op_rint(x, s)
    # Half precision has too few digits for the scaled value.
    wide = MLXC_FLOAT32 if dtype == MLXC_FLOAT16 or dtype == MLXC_BFLOAT16 else dtype
    cdef Array v = cast(x, wide, s)
    if builtin_abs(digits) > (38 if wide == MLXC_FLOAT32 or wide == MLXC_COMPLEX64 else 308):
        # The dtype does not hold the scale: too small a digit to change anything, or too great for any to be left.
        return alias(x) if digits > 0 else op_where(op_isfinite(x, s), op_multiply(x, number(0, dtype), s), x, s)
    cdef Array scale = number(10.0 ** builtin_abs(digits), wide)
    cdef Array scaled = op_multiply(v, scale, s) if digits > 0 else op_divide(v, scale, s)
    cdef Array out = op_rint(scaled, s)
    out = op_divide(out, scale, s) if digits > 0 else op_multiply(out, scale, s)
    # A value whose scaled form overflows has no digits after the point to lose.
    return cast(op_where(op_isfinite(scaled, s), out, v, s), dtype, s)


cdef object builtin_abs(object x):
    return -x if x < 0 else x


cdef Array replace_nonfinite(Array x, object nan, object posinf, object neginf, mlxc_stream* s):
    cdef mlxc_dtype dtype = mlxc_array_dtype(x.h)
    cdef Array infinite = op_isinf(x, s)
    cdef Array positive_part = op_greater(x, number(0, dtype), s)
    cdef double high = GREATEST[dtype] if posinf is None else posinf
    cdef double low = -GREATEST[dtype] if neginf is None else neginf
    cdef Array out = op_where(op_isnan(x, s), number(nan, dtype), x, s)
    return op_where(infinite, op_where(positive_part, number(high, dtype), number(low, dtype), s), out, s)


def nan_to_num(a, nan=0, posinf=None, neginf=None, *, stream=None):
    """a with NaN and infinities replaced by finite numbers.

    Args:
        a: array or scalar, any dtype; integers and booleans come back as they are.
        nan: value for NaN, 0 by default.
        posinf: value for infinity; None is the greatest finite value of the dtype.
        neginf: value for minus infinity; None is the least finite value of the dtype.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `a`; of complex numbers both parts are treated.

    Example:
        >>> mx.nan_to_num(mx.array([1.0, mx.nan, mx.inf]), posinf=9)
        array([1, 0, 9], dtype=float32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    cdef mlxc_dtype dtype = mlxc_array_dtype(x.h)
    if not is_inexact(dtype):
        return alias(x)
    if not is_complex(dtype):
        return replace_nonfinite(x, nan, posinf, neginf, s)
    cdef Array re = replace_nonfinite(op_real(x, s), nan, posinf, neginf, s)
    cdef Array im = replace_nonfinite(op_imag(x, s), nan, posinf, neginf, s)
    return op_add(re, op_multiply(cast(im, dtype, s), as_operand(1j, dtype), s), s)


def degrees(a, /, *, stream=None):
    """Radians as degrees, element by element.

    Args:
        a: array or scalar, any dtype but complex ones; integers give float32.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a` and its dtype, or float32 if that is an integer or bool.

    Example:
        >>> mx.degrees(mx.array([0.0, mx.pi]))
        array([0, 180], dtype=float32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    x = cast(x, float_dtype(mlxc_array_dtype(x.h)), s)
    return op_multiply(x, number(180.0 / M_PI, mlxc_array_dtype(x.h)), s)


def radians(a, /, *, stream=None):
    """Degrees as radians, element by element.

    Args:
        a: array or scalar, any dtype but complex ones; integers give float32.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a` and its dtype, or float32 if that is an integer or bool.

    Example:
        >>> mx.radians(mx.array([0.0, 180.0]))
        array([0, 3.14159], dtype=float32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_stream* s = to_stream(stream)
    x = cast(x, float_dtype(mlxc_array_dtype(x.h)), s)
    return op_multiply(x, number(M_PI / 180.0, mlxc_array_dtype(x.h)), s)


cdef Array is_close(object a, object b, double rtol, double atol, bint equal_nan, mlxc_stream* s):
    x, y = operands(a, b)
    cdef mlxc_dtype dtype = promote(mlxc_array_dtype((<Array>x).h), mlxc_array_dtype((<Array>y).h))
    # Wide enough to hold the values and the tolerances.
    if dtype == MLXC_INT64 or dtype == MLXC_UINT64 or dtype == MLXC_INT32 or dtype == MLXC_UINT32:
        dtype = MLXC_FLOAT64
    elif not is_inexact(dtype) or dtype == MLXC_FLOAT16 or dtype == MLXC_BFLOAT16:
        dtype = MLXC_FLOAT32
    cdef Array u = cast(x, dtype, s), v = cast(y, dtype, s)
    cdef Array gap = op_abs(op_subtract(u, v, s), s), size = op_abs(v, s)
    cdef mlxc_dtype real = mlxc_array_dtype(size.h)
    cdef Array bound = op_add(number(atol, real), op_multiply(number(rtol, real), size, s), s)
    cdef Array near = op_logical_and(op_less_equal(gap, bound, s), op_isfinite(bound, s), s)
    near = op_logical_or(near, op_equal(u, v, s), s)
    if equal_nan:
        near = op_logical_or(near, op_logical_and(op_isnan(u, s), op_isnan(v, s), s), s)
    return near


def isclose(a, b, /, rtol=1e-05, atol=1e-08, *, equal_nan=False, stream=None):
    """True where a and b are equal within tolerances: |a - b| <= atol + rtol * |b|.

    Args:
        a: array or scalar, any dtype.
        b: the same; the shapes broadcast. Equal infinities are close.
        rtol: tolerance relative to `b`.
        atol: absolute tolerance.
        equal_nan: whether NaN is close to NaN.
        stream: stream or device to compute on; None is the default.

    Returns:
        A bool array of the broadcast shape.

    Raises:
        ValueError: if the shapes do not broadcast.

    Example:
        >>> mx.isclose(mx.array([1.0, mx.inf]), mx.array([1.0000001, mx.inf]))
        array([True, True], dtype=bool)
    """
    return is_close(a, b, rtol, atol, equal_nan, to_stream(stream))


def allclose(a, b, /, rtol=1e-05, atol=1e-08, *, equal_nan=False, stream=None):
    """Whether isclose holds everywhere.

    Args:
        a: array or scalar, any dtype.
        b: the same; the shapes broadcast.
        rtol: tolerance relative to `b`.
        atol: absolute tolerance.
        equal_nan: whether NaN is close to NaN.
        stream: stream or device to compute on; None is the default.

    Returns:
        A 0-d bool array.

    Raises:
        ValueError: if the shapes do not broadcast.

    Example:
        >>> mx.allclose(mx.array([1.0, 2.0]), mx.array([1.0, 2.1]))
        array(False, dtype=bool)
    """
    cdef mlxc_stream* s = to_stream(stream)
    return op_all(is_close(a, b, rtol, atol, equal_nan, s), None, False, s)


def array_equal(a, b, equal_nan=False, stream=None):
    """Whether two arrays have the same shape and equal elements.

    Args:
        a: array or scalar, any dtype.
        b: the same.
        equal_nan: whether NaN equals NaN.
        stream: stream or device to compute on; None is the default.

    Returns:
        A 0-d bool array; False where the shapes differ.

    Example:
        >>> mx.array_equal(mx.array([1, 2]), mx.array([1.0, 2.0]))
        array(True, dtype=bool)
    """
    cdef mlxc_stream* s = to_stream(stream)
    x, y = operands(a, b)
    cdef Array u = x, v = y
    if dims(u) != dims(v):
        return op_full(number(0, MLXC_BOOL), (), s)
    cdef Array same = op_equal(u, v, s)
    if equal_nan:
        same = op_logical_or(same, op_logical_and(op_isnan(u, s), op_isnan(v, s), s), s)
    return op_all(same, None, False, s)


def isposinf(a, stream=None):
    """True where a is plus infinity.

    Args:
        a: array or scalar, any dtype but complex ones.
        stream: stream or device to compute on; None is the default.

    Returns:
        A bool array of the shape of `a`.

    Raises:
        TypeError: for a complex dtype, which has no one positive infinity.

    Example:
        >>> mx.isposinf(mx.array([mx.inf, -mx.inf]))
        array([True, False], dtype=bool)
    """
    return is_signed_infinity(as_array(a), 1, "isposinf", to_stream(stream))


def isneginf(a, stream=None):
    """True where a is minus infinity.

    Args:
        a: array or scalar, any dtype but complex ones.
        stream: stream or device to compute on; None is the default.

    Returns:
        A bool array of the shape of `a`.

    Raises:
        TypeError: for a complex dtype, which has no one negative infinity.

    Example:
        >>> mx.isneginf(mx.array([mx.inf, -mx.inf]))
        array([False, True], dtype=bool)
    """
    return is_signed_infinity(as_array(a), -1, "isneginf", to_stream(stream))


cdef Array is_signed_infinity(Array a, int sign, str name, mlxc_stream* s):
    cdef mlxc_dtype dtype = mlxc_array_dtype(a.h)
    if is_complex(dtype):
        raise TypeError(f"[{name}] takes any dtype but complex ones, got {dtype_object(dtype)}")
    if not is_inexact(dtype):
        return op_isinf(a, s)
    return op_equal(a, number(sign * float("inf"), dtype), s)


def astype(a, dtype, /, *, copy=True, device=None, stream=None):
    """The values of a cast to another dtype.

    Args:
        a: array or scalar, any dtype.
        dtype: the dtype to cast to. Floats become integers by truncation, complex numbers lose their imaginary part.
        copy: False gives the array itself back if it has the dtype.
        device: where the result is to be, as the array API standard has it; where `a` is by default.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `a` and the dtype.

    Raises:
        TypeError: if `dtype` is no dtype.

    Example:
        >>> mx.astype(mx.array([1.7, -1.7]), mx.int32)
        array([1, -1], dtype=int32)
    """
    cdef Array x = as_array(a)
    cdef mlxc_dtype own = to_dtype(dtype)
    cdef Array out = x if not copy and mlxc_array_dtype(x.h) == own else op_astype(x, own, to_stream(stream))
    return out if device is None else out.to_device(device)


def view(a, dtype, stream=None):
    """The bytes of a read as another dtype.

    Args:
        a: array or scalar, any dtype.
        dtype: the dtype to read as; where its size differs, the last axis grows or shrinks in proportion.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype.

    Raises:
        ValueError: if the last axis is not a multiple of the new dtype's size, or a 0-d array would change its size.

    Example:
        >>> mx.view(mx.array(1.0), mx.int32)
        array(1065353216, dtype=int32)
    """
    return op_bitcast(as_array(a), to_dtype(dtype), to_stream(stream))


def contiguous(a, /, allow_col_major=False, *, stream=None):
    """The same values laid out row-major in memory.

    Args:
        a: array or scalar, any shape and dtype.
        allow_col_major: accepted as in MLX; the result is row-major either way.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `a`.

    Example:
        >>> mx.contiguous(mx.array([[1, 2], [3, 4]]).T)
        array([[1, 3],
               [2, 4]], dtype=int32)
    """
    return op_contiguous(as_array(a), to_stream(stream))


def stop_gradient(a, /, *, stream=None):
    """The same values, through which no gradient flows.

    Args:
        a: array or scalar, any shape and dtype.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `a`.

    Example:
        >>> mx.grad(lambda x: x * mx.stop_gradient(x))(mx.array(3.0))
        array(3, dtype=float32)
    """
    return op_stop_gradient(as_array(a), to_stream(stream))
