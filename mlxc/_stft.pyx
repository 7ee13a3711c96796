# Short-time Fourier transforms: frames of a signal, windowed and transformed, and their way back by overlap and add.
#
# Both gather and scatter with index arrays, so they differentiate and batch like any indexing.
from mlxc._args cimport to_int
from mlxc._array cimport Array, as_array
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport is_complex
from mlxc._prim cimport (cast, count_up, dims, float_dtype, number, number_int, op_add, op_divide, op_expand_dims,
                         op_full, op_greater, op_maximum, op_minimum, op_multiply, op_pad, op_remainder, op_scatter,
                         op_subtract, op_transpose, op_where, slice_axis, take_axis)
from mlxc._fft import fft, ifft, irfft, rfft

__all__ = ["istft", "stft"]


cdef int64_t positive(object value, str name, str op) except -1:
    cdef int64_t n = to_int(value, name)
    if n < 1:
        raise ValueError(f"[{op}] {name} must be positive, got {n}")
    return n


cdef int64_t pick_hop(object hop_length, int64_t n_fft, str op) except -1:
    if hop_length is None:
        return max(n_fft // 4, 1)
    return positive(hop_length, "hop_length", op)


cdef Array make_window(object window, object win_length, int64_t n_fft, mlxc_dtype dtype, str op, mlxc_stream* s):
    """The window in the middle of n_fft places, zeros round it."""
    cdef Array w
    if window is None:
        w = op_full(number(1, dtype), (n_fft if win_length is None else positive(win_length, "win_length", op),), s)
    else:
        w = as_array(window)
        if mlxc_array_ndim(w.h) != 1 or is_complex(mlxc_array_dtype(w.h)):
            raise ValueError(f"[{op}] the window must be real and have one axis, got shape {tuple(dims(w))}")
        w = cast(w, dtype, s)
    cdef int64_t size = mlxc_array_size(w.h)
    if size > n_fft or size < 1:
        raise ValueError(f"[{op}] the window must have 1 to n_fft = {n_fft} places, got {size}")
    cdef int64_t low = (n_fft - size) // 2
    if size < n_fft:
        w = op_pad(w, number(0, dtype), (low,), (n_fft - size - low,), s)
    return w


cdef Array frame_places(int64_t frames, int64_t hop, int64_t n_fft, mlxc_stream* s):
    """(frames, n_fft): where in the signal each place of each frame lies."""
    starts = op_multiply(count_up(frames, MLXC_INT64, s), number_int(hop, MLXC_INT64), s)
    return op_add(op_expand_dims(starts, (1,), s), count_up(n_fft, MLXC_INT64, s), s)


cdef Array reflect_places(Array places, int64_t length, mlxc_stream* s):
    """Places outside the signal thrown back at its ends, as often as it takes."""
    if length == 1:
        return op_multiply(places, number_int(0, MLXC_INT64), s)
    cdef Array period = number_int(2 * (length - 1), MLXC_INT64)
    places = op_remainder(places, period, s)
    return op_minimum(places, op_subtract(period, places, s), s)


def stft(x, n_fft=2048, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", norm="backward",
         onesided=None, stream=None):
    """Short-time Fourier transform: overlapping frames of the last axis, windowed and transformed.

    Args:
        x: array of at least one axis, real or complex.
        n_fft: length of a frame.
        hop_length: distance of the frames' beginnings; by default n_fft // 4.
        win_length: length of the rectangular window that is used where none is given; by default n_fft.
        window: real 1-D array of at most n_fft places. Shorter ones stand in the middle, zeros round them.
        center: whether the signal is continued by n_fft // 2 on both sides, so that frames are centred.
        pad_mode: how it is continued: "reflect", "edge" or "constant" (zeros).
        norm: "backward", "forward" or "ortho", as in fft.
        onesided: whether to keep the frequencies 0 to n_fft / 2 alone; by default for real signals.
        stream: stream or device to compute on; None is the default.

    Returns:
        A complex array of shape (..., frequencies, frames).

    Raises:
        ValueError: if the signal is shorter than a frame, or a length or mode makes no sense.

    Example:
        >>> mx.fft.stft(mx.ones((100,)), n_fft=16).shape
        (9, 26)
    """
    cdef Array signal = as_array(x), padded, places
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t ndim = mlxc_array_ndim(signal.h)
    if ndim < 1:
        raise ValueError("[stft] takes an array of at least one axis, got a 0-d array")
    cdef int64_t size = positive(n_fft, "n_fft", "stft"), hop = pick_hop(hop_length, size, "stft")
    cdef int64_t length = mlxc_array_dim(signal.h, ndim - 1), border = size // 2 if center else 0
    cdef mlxc_dtype dtype = float_dtype(mlxc_array_dtype(signal.h))
    signal = cast(signal, MLXC_FLOAT32 if dtype in (MLXC_FLOAT16, MLXC_BFLOAT16) else dtype, s)
    dtype = mlxc_array_dtype(signal.h)
    cdef bint complex_signal = is_complex(dtype)
    cdef mlxc_dtype real = MLXC_FLOAT64 if dtype in (MLXC_FLOAT64, MLXC_COMPLEX128) else MLXC_FLOAT32
    if pad_mode not in ("reflect", "edge", "constant"):
        raise ValueError(f"[stft] pad_mode is 'reflect', 'edge' or 'constant', not {pad_mode!r}")
    if length < 1 or length + 2 * border < size:
        raise ValueError(f"[stft] a signal of {length} places is too short for frames of n_fft = {size}")
    cdef Array weights = make_window(window, win_length, size, real, "stft", s)
    places = frame_places(1 + (length + 2 * border - size) // hop, hop, size, s)
    padded = signal
    if border:
        if pad_mode == "constant":
            low = [0] * ndim
            low[ndim - 1] = border
            padded = op_pad(signal, number(0, dtype), low, low, s)
        else:
            places = op_subtract(places, number_int(border, MLXC_INT64), s)
            if pad_mode == "reflect":
                places = reflect_places(places, length, s)
            else:
                places = op_minimum(op_maximum(places, number_int(0, MLXC_INT64), s),
                                    number_int(length - 1, MLXC_INT64), s)
    cdef Array frames = op_multiply(take_axis(padded, places, ndim - 1, s), weights, s)
    cdef Array out
    half = not complex_signal if onesided is None else bool(onesided)
    if half and not complex_signal:
        out = rfft(frames, norm=norm, stream=stream)
    else:
        out = fft(frames, norm=norm, stream=stream)
        if half:
            out = slice_axis(out, ndim, 0, size // 2 + 1, 1, s)
    return op_transpose(out, [*range(ndim - 1), ndim, ndim - 1], s)


def istft(stft_matrix, n_fft=None, hop_length=None, win_length=None, window=None, center=True, norm="backward",
          onesided=None, length=None, stream=None):
    """The inverse of stft: frames are transformed back, windowed and added up, over the sum of the squared windows.

    Args:
        stft_matrix: array of shape (..., frequencies, frames), as stft gives it.
        n_fft: length of a frame; by default what the frequencies make (an even number if onesided).
        hop_length: distance of the frames' beginnings; by default n_fft // 4.
        win_length: length of the rectangular window that is used where none is given; by default n_fft.
        window: the window that stft was given.
        center: whether stft continued the signal, which is then cut off again.
        norm: "backward", "forward" or "ortho", as stft was given.
        onesided: whether only the frequencies 0 to n_fft / 2 are there, and the signal is real; by default so.
        length: length of the result, which is cut or filled up with zeros; by default what the frames cover.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (..., length), real if onesided. Where no window reaches it is zero.

    Raises:
        ValueError: if frequencies and n_fft do not fit, or a length makes no sense.

    Example:
        >>> x = mx.arange(32, dtype=mx.float32)
        >>> mx.fft.istft(mx.fft.stft(x, n_fft=8), length=32)[3:6]
        array([3, 4, 5], dtype=float32)
    """
    cdef Array matrix = as_array(stft_matrix)
    cdef mlxc_stream* s = to_stream(stream)
    cdef int32_t ndim = mlxc_array_ndim(matrix.h)
    if ndim < 2:
        raise ValueError(f"[istft] takes an array (..., frequencies, frames), got shape {tuple(dims(matrix))}")
    cdef bint half = True if onesided is None else bool(onesided)
    cdef int64_t found = mlxc_array_dim(matrix.h, ndim - 2), count = mlxc_array_dim(matrix.h, ndim - 1), size
    if n_fft is None:
        size = 2 * (found - 1) if half else found
        positive(size, "n_fft", "istft")
    else:
        size = positive(n_fft, "n_fft", "istft")
    if found != (size // 2 + 1 if half else size):
        raise ValueError(f"[istft] {found} frequencies do not make frames of n_fft = {size}, "
                         f"{'onesided' if half else 'not onesided'}")
    if count < 1:
        raise ValueError("[istft] there are no frames")
    cdef int64_t hop = pick_hop(hop_length, size, "istft"), total = size + hop * (count - 1)
    cdef Array spectra = op_transpose(matrix, [*range(ndim - 2), ndim - 1, ndim - 2], s)
    cdef Array frames
    if half:
        frames = irfft(spectra, size, norm=norm, stream=stream)
    else:
        frames = ifft(spectra, norm=norm, stream=stream)
    cdef mlxc_dtype dtype = mlxc_array_dtype(frames.h)
    cdef mlxc_dtype real = MLXC_FLOAT64 if dtype in (MLXC_FLOAT64, MLXC_COMPLEX128) else MLXC_FLOAT32
    cdef Array weights = make_window(window, win_length, size, real, "istft", s)
    frames = op_multiply(frames, weights, s)
    cdef Array places = frame_places(count, hop, size, s)
    # An update has the indexed axes first.
    cdef Array first = op_transpose(frames, [ndim - 2, ndim - 1, *range(ndim - 2)], s)
    cdef list shape = [total, *dims(matrix)[:ndim - 2]]
    cdef Array signal = op_scatter(op_full(number(0, dtype), shape, s), first, [places], (0,), 1, s)
    signal = op_transpose(signal, [*range(1, ndim - 1), 0], s)
    squares = op_multiply(weights, weights, s)
    cdef Array envelope = op_scatter(op_full(number(0, real), (total,), s), squares, [places], (0,), 1, s)
    cdef Array reached = op_greater(envelope, number(1e-10, real), s)
    signal = op_divide(signal, op_where(reached, envelope, number(1, real), s), s)
    cdef int64_t border = size // 2 if center else 0, present = total - 2 * border
    cdef int64_t wanted = present if length is None else positive(length, "length", "istft")
    if length is not None:
        present = total - border  # what lies behind the frames' middle counts where it is asked for
    present = max(present, 0)
    signal = slice_axis(signal, ndim - 2, border, min(wanted, present), 1, s)
    if wanted > present:
        high = [0] * (ndim - 1)
        high[ndim - 2] = wanted - present
        signal = op_pad(signal, number(0, dtype), [0] * (ndim - 1), high, s)
    return signal
