# Discrete Fourier transforms: what mlxc.fft exports, on the ops fft, rfft and irfft. An axis is first cut or filled up
# with zeros to its size; the norm becomes the op's scale. Signatures fit MLX, NumPy and the array API standard.
import math

from mlxc._args cimport to_axis, to_int
from mlxc._array cimport Array, as_array
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport is_inexact, to_dtype_or
from mlxc._prim cimport (alias, cast, dims, number, op_arange, op_concatenate, op_conjugate, op_fft,
                         op_irfft, op_multiply, op_pad, op_rfft, slice_axis)
from mlxc._ops_join import roll

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
           "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]


cdef list pick_axes(str name, Array a, object s, object axes):
    """The axes of a transform, non-negative, in the order given."""
    cdef int32_t ndim = mlxc_array_ndim(a.h)
    if axes is None:
        axes = range(ndim) if s is None else range(-len(s), 0)
    elif isinstance(axes, int):
        axes = (axes,)
    picked = [to_axis(axis, ndim) for axis in axes]
    if len(set(picked)) != len(picked):
        raise ValueError(f"[{name}] axes {tuple(axes)} name an axis twice")
    if s is not None and len(s) != len(picked):
        raise ValueError(f"[{name}] s {tuple(s)} and axes {tuple(axes)} must have equally many entries")
    return picked


cdef Array fit_axis(Array a, int32_t axis, int64_t size, mlxc_stream* s):
    """The axis cut, or filled up with zeros at its end, to the size."""
    cdef int64_t present = mlxc_array_dim(a.h, axis)
    if size == present:
        return a
    if size < present:
        return slice_axis(a, axis, 0, size, 1, s)
    low = [0] * mlxc_array_ndim(a.h)
    high = list(low)
    high[axis] = size - present
    return op_pad(a, number(0, mlxc_array_dtype(a.h)), low, high, s)


cdef int64_t pick_size(str name, object wanted, int64_t present) except -1:
    cdef int64_t size = present
    if wanted is not None:
        size = to_int(wanted, "the size of a transform")
        if size == -1:
            size = present
    if size < 1:
        raise ValueError(f"[{name}] a transform has at least one point, got a size of {size}")
    return size


cdef double pick_scale(str name, object norm, list sizes, bint inverse) except? -1.0:
    """What the sums are multiplied by: NumPy's norms, for a forward or an inverse transform."""
    cdef double count = 1
    for size in sizes:
        count *= size
    if norm == "ortho":
        return 1 / math.sqrt(count)
    if norm is None or norm == "backward":
        return 1 / count if inverse else 1.0
    if norm == "forward":
        return 1.0 if inverse else 1 / count
    raise ValueError(f"[{name}] norm is 'backward', 'ortho' or 'forward', not {norm!r}")


cdef Array transform(str name, object a, object s, object axes, object norm, bint inverse, object stream):
    """Complex to complex."""
    cdef Array x = as_array(a)
    cdef mlxc_stream* st = to_stream(stream)
    cdef list picked = pick_axes(name, x, s, axes), sizes = []
    for i, axis in enumerate(picked):
        sizes.append(pick_size(name, None if s is None else s[i], mlxc_array_dim(x.h, axis)))
        x = fit_axis(x, axis, sizes[i], st)
    return op_fft(x, picked, inverse, pick_scale(name, norm, sizes, inverse), st)


cdef Array transform_real(str name, object a, object s, object axes, object norm, bint inverse, object stream):
    """Real to half a spectrum. Inverse only picks the scale: the sign is turned by the caller."""
    cdef Array x = as_array(a)
    cdef mlxc_stream* st = to_stream(stream)
    cdef list picked = pick_axes(name, x, s, axes), sizes = []
    if not picked:
        raise ValueError(f"[{name}] needs at least one axis")
    for i, axis in enumerate(picked):
        sizes.append(pick_size(name, None if s is None else s[i], mlxc_array_dim(x.h, axis)))
        x = fit_axis(x, axis, sizes[i], st)
    return op_rfft(x, picked, pick_scale(name, norm, sizes, inverse), st)


cdef Array transform_back(str name, Array x, object s, object axes, object norm, bint inverse, object stream):
    """Half a spectrum to real numbers; by default an even number of them."""
    cdef mlxc_stream* st = to_stream(stream)
    cdef list picked = pick_axes(name, x, s, axes), sizes = []
    cdef int64_t present
    if not picked:
        raise ValueError(f"[{name}] needs at least one axis")
    for i, axis in enumerate(picked):
        present = mlxc_array_dim(x.h, axis)
        last = i == len(picked) - 1
        sizes.append(pick_size(name, None if s is None else s[i], 2 * (present - 1) if last else present))
        x = fit_axis(x, axis, sizes[i] // 2 + 1 if last else sizes[i], st)
    return op_irfft(x, picked, sizes[len(sizes) - 1], pick_scale(name, norm, sizes, inverse), st)


def fft(a, n=None, axis=-1, norm="backward", stream=None):
    """Discrete Fourier transform along an axis: the sums of a[j] exp(-2 pi i j k / n).

    Args:
        a: array of any dtype. float64 and complex128 are computed in complex128, all others in complex64.
        n: number of points: the axis is cut, or filled up with zeros. By default the axis as it is.
        axis: the axis to transform.
        norm: "backward" scales nothing, "forward" by 1 / n, "ortho" by 1 / sqrt(n).
        stream: stream or device to compute on; None is the default.

    Returns:
        A complex array.

    Raises:
        ValueError: if the axis is out of range or there are no points, or for an unknown norm.

    Example:
        >>> mx.fft.fft(mx.array([1.0, 0.0, 0.0, 0.0]))
        array([1+0j, 1+0j, 1+0j, 1+0j], dtype=complex64)
    """
    return transform("fft", a, None if n is None else (n,), (axis,), norm, False, stream)


def ifft(a, n=None, axis=-1, norm="backward", stream=None):
    """Inverse discrete Fourier transform along an axis.

    Args:
        a: array of any dtype.
        n: number of points: the axis is cut, or filled up with zeros. By default the axis as it is.
        axis: the axis to transform.
        norm: "backward" scales by 1 / n, "forward" not at all, "ortho" by 1 / sqrt(n).
        stream: stream or device to compute on; None is the default.

    Returns:
        A complex array, complex128 for float64 and complex128.

    Raises:
        ValueError: if the axis is out of range or there are no points, or for an unknown norm.

    Example:
        >>> mx.fft.ifft(mx.array([4.0, 0.0, 0.0, 0.0]))
        array([1+0j, 1+0j, 1+0j, 1+0j], dtype=complex64)
    """
    return transform("ifft", a, None if n is None else (n,), (axis,), norm, True, stream)


def fft2(a, s=None, axes=(-2, -1), norm="backward", stream=None):
    """Discrete Fourier transform over two axes.

    Args:
        a: array of any dtype.
        s: sizes of the axes, which are cut or filled up with zeros. By default the axes as they are.
        axes: the axes to transform.
        norm: "backward", "forward" or "ortho", as in fft.
        stream: stream or device to compute on; None is the default.

    Returns:
        A complex array, complex128 for float64 and complex128.

    Raises:
        ValueError: if an axis is out of range or named twice, or a size is below one.

    Example:
        >>> mx.fft.fft2(mx.ones((2, 2))).tolist()
        [[(4+0j), 0j], [0j, 0j]]
    """
    return transform("fft2", a, s, axes, norm, False, stream)


def ifft2(a, s=None, axes=(-2, -1), norm="backward", stream=None):
    """Inverse discrete Fourier transform over two axes.

    Args:
        a: array of any dtype.
        s: sizes of the axes, which are cut or filled up with zeros. By default the axes as they are.
        axes: the axes to transform.
        norm: "backward", "forward" or "ortho", as in ifft.
        stream: stream or device to compute on; None is the default.

    Returns:
        A complex array, complex128 for float64 and complex128.

    Raises:
        ValueError: if an axis is out of range or named twice, or a size is below one.

    Example:
        >>> mx.fft.ifft2(mx.ones((2, 2))).tolist()
        [[(1+0j), 0j], [0j, 0j]]
    """
    return transform("ifft2", a, s, axes, norm, True, stream)


def fftn(a, s=None, axes=None, norm="backward", stream=None):
    """Discrete Fourier transform over several axes.

    Args:
        a: array of any dtype.
        s: sizes of the axes, which are cut or filled up with zeros. By default the axes as they are.
        axes: the axes to transform; None takes the last len(s), or all without s.
        norm: "backward", "forward" or "ortho", as in fft.
        stream: stream or device to compute on; None is the default.

    Returns:
        A complex array, complex128 for float64 and complex128.

    Raises:
        ValueError: if an axis is out of range or named twice, or a size is below one.

    Example:
        >>> mx.fft.fftn(mx.ones((2, 3))).shape
        (2, 3)
    """
    return transform("fftn", a, s, axes, norm, False, stream)


def ifftn(a, s=None, axes=None, norm="backward", stream=None):
    """Inverse discrete Fourier transform over several axes.

    Args:
        a: array of any dtype.
        s: sizes of the axes, which are cut or filled up with zeros. By default the axes as they are.
        axes: the axes to transform; None takes the last len(s), or all without s.
        norm: "backward", "forward" or "ortho", as in ifft.
        stream: stream or device to compute on; None is the default.

    Returns:
        A complex array, complex128 for float64 and complex128.

    Raises:
        ValueError: if an axis is out of range or named twice, or a size is below one.

    Example:
        >>> mx.fft.ifftn(mx.ones((2, 2))).tolist()
        [[(1+0j), 0j], [0j, 0j]]
    """
    return transform("ifftn", a, s, axes, norm, True, stream)


def rfft(a, n=None, axis=-1, norm="backward", stream=None):
    """Discrete Fourier transform of real numbers: the frequencies 0 to n / 2, for the others are their conjugates.

    Args:
        a: real array. float64 gives complex128, all others complex64.
        n: number of points: the axis is cut, or filled up with zeros. By default the axis as it is.
        axis: the axis to transform.
        norm: "backward", "forward" or "ortho", as in fft.
        stream: stream or device to compute on; None is the default.

    Returns:
        A complex array with n // 2 + 1 frequencies.

    Raises:
        ValueError: if the axis is out of range or there are no points, or for an unknown norm.
        TypeError: for complex numbers.

    Example:
        >>> mx.fft.rfft(mx.array([1.0, 2.0, 3.0, 4.0]))
        array([10+0j, -2+2j, -2+0j], dtype=complex64)
    """
    return transform_real("rfft", a, None if n is None else (n,), (axis,), norm, False, stream)


def irfft(a, n=None, axis=-1, norm="backward", stream=None):
    """The inverse of rfft: real numbers from the frequencies 0 to n / 2.

    Args:
        a: array of any dtype; the imaginary parts of frequency 0 and, for even n, n / 2 do not count.
        n: number of real points; by default 2 * (m - 1) for m frequencies. The axis is cut, or filled up with zeros.
        axis: the axis to transform.
        norm: "backward", "forward" or "ortho", as in ifft.
        stream: stream or device to compute on; None is the default.

    Returns:
        A float64 array for float64 and complex128, else a float32 one.

    Raises:
        ValueError: if the axis is out of range or there are no points, or for an unknown norm.

    Example:
        >>> mx.fft.irfft(mx.array([10, -2 + 2j, -2]))
        array([1, 2, 3, 4], dtype=float32)
    """
    return transform_back("irfft", as_array(a), None if n is None else (n,), (axis,), norm, True, stream)


def rfft2(a, s=None, axes=(-2, -1), norm="backward", stream=None):
    """Discrete Fourier transform of real numbers over two axes; the last one keeps half of its frequencies.

    Args:
        a: real array.
        s: sizes of the axes, which are cut or filled up with zeros. By default the axes as they are.
        axes: the axes to transform.
        norm: "backward", "forward" or "ortho", as in fft.
        stream: stream or device to compute on; None is the default.

    Returns:
        A complex array, complex128 for float64.

    Raises:
        ValueError: if an axis is out of range or named twice, or a size is below one.
        TypeError: for complex numbers.

    Example:
        >>> mx.fft.rfft2(mx.ones((2, 4))).shape
        (2, 3)
    """
    return transform_real("rfft2", a, s, axes, norm, False, stream)


def irfft2(a, s=None, axes=(-2, -1), norm="backward", stream=None):
    """The inverse of rfft2.

    Args:
        a: array of any dtype.
        s: sizes of the result's axes; the last is by default 2 * (m - 1) for m frequencies.
        axes: the axes to transform.
        norm: "backward", "forward" or "ortho", as in ifft.
        stream: stream or device to compute on; None is the default.

    Returns:
        A float64 array for float64 and complex128, else a float32 one.

    Raises:
        ValueError: if an axis is out of range or named twice, or a size is below one.

    Example:
        >>> mx.fft.irfft2(mx.fft.rfft2(mx.ones((2, 4)))).shape
        (2, 4)
    """
    return transform_back("irfft2", as_array(a), s, axes, norm, True, stream)


def rfftn(a, s=None, axes=None, norm="backward", stream=None):
    """Discrete Fourier transform of real numbers over several axes; the last one keeps half of its frequencies.

    Args:
        a: real array.
        s: sizes of the axes, which are cut or filled up with zeros. By default the axes as they are.
        axes: the axes to transform; None takes the last len(s), or all without s.
        norm: "backward", "forward" or "ortho", as in fft.
        stream: stream or device to compute on; None is the default.

    Returns:
        A complex array, complex128 for float64.

    Raises:
        ValueError: if an axis is out of range or named twice, or a size is below one.
        TypeError: for complex numbers.

    Example:
        >>> mx.fft.rfftn(mx.ones((2, 3, 4))).shape
        (2, 3, 3)
    """
    return transform_real("rfftn", a, s, axes, norm, False, stream)


def irfftn(a, s=None, axes=None, norm="backward", stream=None):
    """The inverse of rfftn.

    Args:
        a: array of any dtype.
        s: sizes of the result's axes; the last is by default 2 * (m - 1) for m frequencies.
        axes: the axes to transform; None takes the last len(s), or all without s.
        norm: "backward", "forward" or "ortho", as in ifft.
        stream: stream or device to compute on; None is the default.

    Returns:
        A float64 array for float64 and complex128, else a float32 one.

    Raises:
        ValueError: if an axis is out of range or named twice, or a size is below one.

    Example:
        >>> mx.fft.irfftn(mx.fft.rfftn(mx.ones((2, 5))), s=(2, 5)).shape
        (2, 5)
    """
    return transform_back("irfftn", as_array(a), s, axes, norm, True, stream)


def hfft(a, n=None, axis=-1, norm="backward", stream=None):
    """Discrete Fourier transform of numbers with Hermitian symmetry, given by their first half: the result is real.

    Args:
        a: array of any dtype, the places 0 to n / 2 of a sequence whose place -j is the conjugate of place j.
        n: number of real points; by default 2 * (m - 1) for m places given.
        axis: the axis to transform.
        norm: "backward" scales nothing, "forward" by 1 / n, "ortho" by 1 / sqrt(n).
        stream: stream or device to compute on; None is the default.

    Returns:
        A float64 array for float64 and complex128, else a float32 one.

    Raises:
        ValueError: if the axis is out of range or there are no points, or for an unknown norm.

    Example:
        >>> mx.fft.hfft(mx.array([1.0, 1j, 0.0]))
        array([1, 3, 1, -1], dtype=float32)
    """
    cdef Array x = op_conjugate(as_array(a), to_stream(stream))
    return transform_back("hfft", x, None if n is None else (n,), (axis,), norm, False, stream)


def ihfft(a, n=None, axis=-1, norm="backward", stream=None):
    """The inverse of hfft: the first half of the numbers whose transform is `a`.

    Args:
        a: real array.
        n: number of points: the axis is cut, or filled up with zeros. By default the axis as it is.
        axis: the axis to transform.
        norm: "backward" scales by 1 / n, "forward" not at all, "ortho" by 1 / sqrt(n).
        stream: stream or device to compute on; None is the default.

    Returns:
        A complex array with n // 2 + 1 places, complex128 for float64.

    Raises:
        ValueError: if the axis is out of range or there are no points, or for an unknown norm.
        TypeError: for complex numbers.

    Example:
        >>> mx.fft.ihfft(mx.array([1.0, 3.0, 1.0, -1.0]))
        array([1-0j, 0+1j, 0-0j], dtype=complex64)
    """
    return op_conjugate(transform_real("ihfft", a, None if n is None else (n,), (axis,), norm, True, stream),
                        to_stream(stream))


cdef Array frequencies(str name, object points, object spacing, bint half, object dtype, mlxc_stream* s):
    cdef int64_t n = to_int(points, "n")
    cdef mlxc_dtype wanted = to_dtype_or(dtype, MLXC_FLOAT32)
    if n < 1:
        raise ValueError(f"[{name}] n must be at least 1, got {n}")
    if not is_inexact(wanted):
        raise TypeError(f"[{name}] dtype must be floating-point")
    cdef Array k
    if half:
        k = op_arange(0, 1, n // 2 + 1, MLXC_FLOAT64, s)
    else:
        k = op_concatenate([op_arange(0, 1, (n + 1) // 2, MLXC_FLOAT64, s),
                            op_arange(-(n // 2), 1, n // 2, MLXC_FLOAT64, s)], 0, s)
    return cast(op_multiply(k, number(1 / (n * float(spacing)), MLXC_FLOAT64), s), wanted, s)


cdef mlxc_stream* pick_stream(object stream, object device) except? NULL:
    if stream is not None and device is not None:
        raise TypeError("give stream or device, not both")
    return to_stream(device if stream is None else stream)


def fftfreq(n, d=1.0, stream=None, *, dtype=None, device=None):
    """The frequencies of the places of fft's result, in cycles per unit of the spacing.

    Args:
        n: number of points.
        d: spacing of the points.
        stream: stream or device to compute on; None is the default.
        dtype: floating-point dtype of the result; None is float32.
        device: the same as stream, as the array API standard calls it.

    Returns:
        An array of n frequencies: 0, 1, ..., -2, -1 over n d.

    Raises:
        ValueError: if n is below 1.

    Example:
        >>> mx.fft.fftfreq(5)
        array([0, 0.2, 0.4, -0.4, -0.2], dtype=float32)
    """
    return frequencies("fftfreq", n, d, False, dtype, pick_stream(stream, device))


def rfftfreq(n, d=1.0, stream=None, *, dtype=None, device=None):
    """The frequencies of the places of rfft's result, in cycles per unit of the spacing.

    Args:
        n: number of points of the real sequence.
        d: spacing of the points.
        stream: stream or device to compute on; None is the default.
        dtype: floating-point dtype of the result; None is float32.
        device: the same as stream, as the array API standard calls it.

    Returns:
        An array of n // 2 + 1 frequencies: 0, 1, ... over n d.

    Raises:
        ValueError: if n is below 1.

    Example:
        >>> mx.fft.rfftfreq(4)
        array([0, 0.25, 0.5], dtype=float32)
    """
    return frequencies("rfftfreq", n, d, True, dtype, pick_stream(stream, device))


cdef Array shift(object a, object axes, bint back, object stream):
    cdef Array x = as_array(a)
    cdef int32_t ndim = mlxc_array_ndim(x.h)
    if axes is None:
        axes = range(ndim)
    elif isinstance(axes, int):
        axes = (axes,)
    picked = [to_axis(axis, ndim) for axis in axes]
    if not picked:
        return alias(x)
    sizes = dims(x)
    steps = [-(sizes[axis] // 2) if back else sizes[axis] // 2 for axis in picked]
    return roll(x, steps, picked, stream=stream)


def fftshift(a, axes=None, stream=None):
    """A spectrum with frequency zero moved to the middle.

    Args:
        a: array of any dtype.
        axes: an axis or several; None takes all.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        ValueError: if an axis is out of range.

    Example:
        >>> mx.fft.fftshift(mx.array([0, 1, 2, -2, -1]))
        array([-2, -1, 0, 1, 2], dtype=int32)
    """
    return shift(a, axes, False, stream)


def ifftshift(a, axes=None, stream=None):
    """Undoes fftshift: frequency zero moved from the middle to the front.

    Args:
        a: array of any dtype.
        axes: an axis or several; None takes all.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and dtype of `a`.

    Raises:
        ValueError: if an axis is out of range.

    Example:
        >>> mx.fft.ifftshift(mx.array([-2, -1, 0, 1, 2]))
        array([0, 1, 2, -2, -1], dtype=int32)
    """
    return shift(a, axes, True, stream)
