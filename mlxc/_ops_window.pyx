# Window functions for signal processing, float32. Each is the formula of NumPy's function of the name.
from libc.math cimport M_PI

from mlxc._args cimport to_int
from mlxc._array cimport Array
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._prim cimport count_up, number, op_abs, op_add, op_arange, op_cos, op_full, op_multiply, op_subtract

__all__ = ["bartlett", "blackman", "hamming", "hanning"]


cdef Array cosine_window(object points, tuple weights, mlxc_stream* s):
    """The sum of weights[j] * cos(2 pi j i / (M - 1)) over j."""
    cdef int64_t n = to_int(points, "M"), j
    if n < 1:
        return count_up(0, MLXC_FLOAT32, s)
    if n == 1:
        return op_full(number(1, MLXC_FLOAT32), (1,), s)
    cdef Array out = number(weights[0], MLXC_FLOAT32), term
    for j in range(1, len(weights)):
        term = op_cos(op_arange(0, 2 * M_PI * j / (n - 1), n, MLXC_FLOAT32, s), s)
        out = op_add(out, op_multiply(term, number(weights[j], MLXC_FLOAT32), s), s)
    return out


def hanning(M, *, stream=None):
    """The Hann window: 0.5 - 0.5 cos(2 pi i / (M - 1)).

    Args:
        M: number of points; below one gives an empty array.
        stream: stream or device to compute on; None is the default.

    Returns:
        A float32 array of M values.

    Example:
        >>> mx.hanning(3)
        array([0, 1, 0], dtype=float32)
    """
    return cosine_window(M, (0.5, -0.5), to_stream(stream))


def hamming(M, *, stream=None):
    """The Hamming window: 0.54 - 0.46 cos(2 pi i / (M - 1)).

    Args:
        M: number of points; below one gives an empty array.
        stream: stream or device to compute on; None is the default.

    Returns:
        A float32 array of M values.

    Example:
        >>> mx.hamming(3)
        array([0.08, 1, 0.08], dtype=float32)
    """
    return cosine_window(M, (0.54, -0.46), to_stream(stream))


def blackman(M, *, stream=None):
    """The Blackman window: 0.42 - 0.5 cos(2 pi i / (M - 1)) + 0.08 cos(4 pi i / (M - 1)).

    Args:
        M: number of points; below one gives an empty array.
        stream: stream or device to compute on; None is the default.

    Returns:
        A float32 array of M values.

    Example:
        >>> mx.round(mx.blackman(5)[1:4], 2)
        array([0.34, 1, 0.34], dtype=float32)
    """
    return cosine_window(M, (0.42, -0.5, 0.08), to_stream(stream))


def bartlett(M, *, stream=None):
    """The triangular (Bartlett) window.

    Args:
        M: number of points; below one gives an empty array.
        stream: stream or device to compute on; None is the default.

    Returns:
        A float32 array of M values.

    Example:
        >>> mx.bartlett(5)
        array([0, 0.5, 1, 0.5, 0], dtype=float32)
    """
    cdef mlxc_stream* s = to_stream(stream)
    cdef int64_t n = to_int(M, "M")
    if n <= 1:
        return cosine_window(n, (1.0,), s)
    cdef Array ramp = op_arange(-1, 2.0 / (n - 1), n, MLXC_FLOAT32, s)
    return op_subtract(number(1, MLXC_FLOAT32), op_abs(ramp, s), s)
