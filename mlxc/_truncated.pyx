# The inverse of the normal distribution between two bounds, right also where both lie far out in one tail.
#
# Near the middle the inverse error function does it. In a tail erf is 1 to the last digit, so there the logarithm of
# the tail's mass is inverted instead, by Newton's method; _random.pyx calls this.
import math

from mlxc._array cimport Array
from mlxc._capi cimport *
from mlxc._prim cimport (cast, number, op_add, op_divide, op_erf, op_erfinv, op_exp, op_greater, op_less, op_log,
                         op_log1p, op_logical_or, op_maximum, op_minimum, op_multiply, op_negative, op_sqrt, op_square,
                         op_subtract, op_where)

# Both bounds beyond this many standard deviations on one side: the tail's method.
cdef double TAIL = 2.0
# erfc(z) = t exp(-z*z + p(t)), t = 2 / (2 + z), with a relative error below 1.2e-7 for all z >= 0: the Chebyshev fit
# of Numerical Recipes. Coefficients of p, constant first.
cdef tuple FIT = (-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587,
                  -0.82215223, 0.17087277)


cdef Array log_tail(Array x, mlxc_dtype dtype, mlxc_stream* s):
    """Logarithm of the normal distribution's mass above x, for x >= 0."""
    cdef Array z = op_multiply(x, number(math.sqrt(0.5), dtype), s), two = number(2, dtype)
    cdef Array t = op_divide(two, op_add(two, z, s), s), p = number(FIT[len(FIT) - 1], dtype)
    cdef int i
    for i in range(len(FIT) - 2, -1, -1):
        p = op_add(op_multiply(p, t, s), number(FIT[i], dtype), s)
    p = op_subtract(op_add(op_log(t, s), p, s), op_square(z, s), s)
    return op_subtract(p, number(math.log(2), dtype), s)


cdef Array invert_tail(Array u, Array low, Array high, mlxc_dtype dtype, mlxc_stream* s):
    """x between low and high with mass(x, high) = (1 - u) mass(low, high), for low >= TAIL."""
    cdef Array at_low = log_tail(low, dtype, s), at_high = log_tail(high, dtype, s), one = number(1, dtype)
    # log of the share of the tail above low that lies above x
    cdef Array share = op_subtract(one, op_exp(op_subtract(at_high, at_low, s), s), s)
    share = op_log1p(op_negative(op_multiply(u, share, s), s), s)
    cdef Array wanted = op_add(at_low, share, s), half_log_2pi = number(0.5 * math.log(2 * math.pi), dtype)
    # The start would be exact if the density fell like x exp(-x*x/2).
    cdef Array x = op_sqrt(op_subtract(op_square(low, s), op_multiply(number(2, dtype), share, s), s), s)
    cdef Array mass, density, rate
    for _ in range(4):
        mass = log_tail(x, dtype, s)
        density = op_add(op_multiply(number(-0.5, dtype), op_square(x, s), s), op_negative(half_log_2pi, s), s)
        rate = op_exp(op_subtract(density, mass, s), s)
        x = op_add(x, op_divide(op_subtract(mass, wanted, s), rate, s), s)
    return x


cdef Array draw_truncated(Array u, Array a, Array b, mlxc_stream* s):
    cdef mlxc_dtype dtype = mlxc_array_dtype(u.h), wide = MLXC_FLOAT64 if dtype == MLXC_FLOAT64 else MLXC_FLOAT32
    cdef Array root = number(math.sqrt(2), dtype), tail = number(TAIL, wide)
    # In the middle: between the values of erf at the bounds. Its argument -1 is kept away from, as its inverse there
    # is infinite.
    cdef Array from_a = op_erf(op_divide(a, root, s), s), from_b = op_erf(op_divide(b, root, s), s)
    cdef Array middle = op_add(op_multiply(u, op_subtract(from_b, from_a, s), s), from_a, s)
    middle = op_multiply(op_erfinv(middle, s), root, s)
    # In a tail: on the positive side, with the sign put back.
    cdef Array p = cast(a, wide, s), q = cast(b, wide, s)
    cdef Array left = op_less(q, op_negative(tail, s), s)
    cdef Array outside = op_logical_or(left, op_greater(p, tail, s), s)
    cdef Array low = op_maximum(op_where(left, op_negative(q, s), p, s), tail, s)
    cdef Array high = op_maximum(op_where(left, op_negative(p, s), q, s), tail, s)
    cdef Array x = invert_tail(cast(u, wide, s), low, high, wide, s)
    x = cast(op_where(left, op_negative(x, s), x, s), dtype, s)
    cdef Array out = op_where(outside, x, middle, s)
    return op_minimum(op_maximum(out, a, s), b, s)
