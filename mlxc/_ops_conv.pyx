# Convolutions, channels last: input (N, ..., C), weight (O, ..., C / groups). All are one op, conv, with its parameters
# filled in; as in neural networks the weight is not reversed, except by convolve and the transposed forms.
from mlxc._args cimport to_int
from mlxc._array cimport Array, as_array
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._prim cimport dims, op_conv, op_reshape

__all__ = ["conv1d", "conv2d", "conv3d", "conv_general", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
           "convolve"]


cdef list each_axis(object value, int64_t n, str name, str op):
    """One number for each of the n spatial axes."""
    cdef list out
    if not isinstance(value, (list, tuple)):
        return [to_int(value, name)] * n
    out = [to_int(v, name) for v in value]
    if len(out) == 1:
        out = out * n
    if len(out) != n:
        raise ValueError(f"[{op}] {name} {tuple(value)} must have one entry for each of the {n} spatial axes")
    return out


cdef int check_ndim(str op, Array x, Array weight, int64_t n) except -1:
    if mlxc_array_ndim(x.h) != n + 2 or mlxc_array_ndim(weight.h) != n + 2:
        raise ValueError(f"[{op}] input and weight must have {n + 2} dimensions, got the shapes {tuple(dims(x))} and "
                         f"{tuple(dims(weight))}")
    return 0


cdef Array convolve_plain(str op, object input, object weight, int64_t n, object stride, object padding,
                          object dilation, object groups, object stream):
    cdef Array x = as_array(input), w = as_array(weight)
    check_ndim(op, x, w, n)
    cdef list pads = each_axis(padding, n, "padding", op)
    return op_conv(x, w, each_axis(stride, n, "stride", op), pads, pads, each_axis(dilation, n, "dilation", op),
                   [1] * n, to_int(groups, "groups"), False, to_stream(stream))


cdef Array convolve_transposed(str op, object input, object weight, int64_t n, object stride, object padding,
                               object dilation, object output_padding, object groups, object stream):
    """The adjoint of a convolution with that stride: zeros go between the inputs, and the weight is reversed."""
    cdef Array x = as_array(input), w = as_array(weight)
    check_ndim(op, x, w, n)
    cdef list pads = each_axis(padding, n, "padding", op), spread = each_axis(dilation, n, "dilation", op)
    cdef list extra = each_axis(output_padding, n, "output_padding", op), kernel = dims(w)[1:n + 1]
    cdef list low = [d * (k - 1) - p for d, k, p in zip(spread, kernel, pads)]
    cdef list high = [a + e for a, e in zip(low, extra)]
    return op_conv(x, w, [1] * n, low, high, spread, each_axis(stride, n, "stride", op), to_int(groups, "groups"),
                   True, to_stream(stream))


def conv_general(input, weight, /, stride=1, padding=0, kernel_dilation=1, input_dilation=1, groups=1, flip=False, *,
                 stream=None):
    """Convolution over any number of spatial axes, up to three.

    Args:
        input: array of shape (N, ..., C), floating-point or complex.
        weight: array of shape (O, ..., C / groups).
        stride: step of the window, an int or one for each spatial axis.
        padding: zeros round the input, an int, one for each axis, or a pair of lists for before and after. Negative
            ones cut.
        kernel_dilation: distance between the weight's elements, an int or one for each axis.
        input_dilation: distance between the input's elements, with zeros between them; the same.
        groups: into how many independent groups the channels fall.
        flip: whether to reverse the weight along its spatial axes.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (N, ..., O) of the dtype that input and weight promote to.

    Raises:
        ValueError: if shapes, channels and groups do not fit, the weight is larger than the padded input, or a stride
            or dilation is below one.
        TypeError: for integers and booleans.

    Example:
        >>> mx.conv_general(mx.ones((1, 5, 2)), mx.ones((4, 3, 2)), padding=([1], [0])).shape
        (1, 4, 4)
    """
    cdef Array x = as_array(input), w = as_array(weight)
    cdef int64_t n = mlxc_array_ndim(x.h) - 2
    cdef list low, high
    if n < 1:
        raise ValueError(f"[conv_general] the input needs at least one spatial axis, got shape {tuple(dims(x))}")
    check_ndim("conv_general", x, w, n)
    if isinstance(padding, (list, tuple)) and len(padding) == 2 and isinstance(padding[0], (list, tuple)):
        low = each_axis(padding[0], n, "padding", "conv_general")
        high = each_axis(padding[1], n, "padding", "conv_general")
    else:
        low = high = each_axis(padding, n, "padding", "conv_general")
    return op_conv(x, w, each_axis(stride, n, "stride", "conv_general"), low, high,
                   each_axis(kernel_dilation, n, "kernel_dilation", "conv_general"),
                   each_axis(input_dilation, n, "input_dilation", "conv_general"), to_int(groups, "groups"), flip,
                   to_stream(stream))


def conv1d(input, weight, /, stride=1, padding=0, dilation=1, groups=1, *, stream=None):
    """1-D convolution.

    Args:
        input: array of shape (N, L, C), floating-point or complex.
        weight: array of shape (O, K, C / groups).
        stride: step of the window.
        padding: zeros on both sides of the input.
        dilation: distance between the weight's elements.
        groups: into how many independent groups the channels fall.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (N, L', O).

    Raises:
        ValueError: if shapes, channels and groups do not fit, the weight is larger than the padded input, or a stride
            or dilation is below one.

    Example:
        >>> mx.conv1d(mx.ones((1, 5, 2)), mx.ones((4, 3, 2))).shape
        (1, 3, 4)
    """
    return convolve_plain("conv1d", input, weight, 1, stride, padding, dilation, groups, stream)


def conv2d(input, weight, /, stride=1, padding=0, dilation=1, groups=1, *, stream=None):
    """2-D convolution.

    Args:
        input: array of shape (N, H, W, C), floating-point or complex.
        weight: array of shape (O, KH, KW, C / groups).
        stride: step of the window, an int or two.
        padding: zeros on all sides of the input, an int or one for each axis.
        dilation: distance between the weight's elements, an int or two.
        groups: into how many independent groups the channels fall.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (N, H', W', O).

    Raises:
        ValueError: if shapes, channels and groups do not fit, the weight is larger than the padded input, or a stride
            or dilation is below one.

    Example:
        >>> mx.conv2d(mx.ones((1, 8, 8, 3)), mx.ones((4, 3, 3, 3)), padding=1).shape
        (1, 8, 8, 4)
    """
    return convolve_plain("conv2d", input, weight, 2, stride, padding, dilation, groups, stream)


def conv3d(input, weight, /, stride=1, padding=0, dilation=1, groups=1, *, stream=None):
    """3-D convolution.

    Args:
        input: array of shape (N, D, H, W, C), floating-point or complex.
        weight: array of shape (O, KD, KH, KW, C / groups).
        stride: step of the window, an int or three.
        padding: zeros on all sides of the input, an int or one for each axis.
        dilation: distance between the weight's elements, an int or three.
        groups: into how many independent groups the channels fall.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (N, D', H', W', O).

    Raises:
        ValueError: if shapes, channels and groups do not fit, the weight is larger than the padded input, or a stride
            or dilation is below one.

    Example:
        >>> mx.conv3d(mx.ones((1, 4, 4, 4, 1)), mx.ones((2, 3, 3, 3, 1))).shape
        (1, 2, 2, 2, 2)
    """
    return convolve_plain("conv3d", input, weight, 3, stride, padding, dilation, groups, stream)


def conv_transpose1d(input, weight, /, stride=1, padding=0, dilation=1, output_padding=0, groups=1, *, stream=None):
    """Transposed 1-D convolution: the adjoint of conv1d with the same parameters.

    Args:
        input: array of shape (N, L, C), floating-point or complex.
        weight: array of shape (O, K, C / groups).
        stride: how far inputs lie apart in the result.
        padding: how much of the result is cut off on both sides.
        dilation: distance between the weight's elements.
        output_padding: how much the result is longer at its end.
        groups: into how many independent groups the channels fall.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (N, (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1, O).

    Raises:
        ValueError: if shapes, channels and groups do not fit, or nothing is left after cutting.

    Example:
        >>> mx.conv_transpose1d(mx.ones((1, 3, 2)), mx.ones((4, 3, 2)), stride=2).shape
        (1, 7, 4)
    """
    return convolve_transposed("conv_transpose1d", input, weight, 1, stride, padding, dilation, output_padding, groups,
                               stream)


def conv_transpose2d(input, weight, /, stride=1, padding=0, dilation=1, output_padding=0, groups=1, *, stream=None):
    """Transposed 2-D convolution: the adjoint of conv2d with the same parameters.

    Args:
        input: array of shape (N, H, W, C), floating-point or complex.
        weight: array of shape (O, KH, KW, C / groups).
        stride: how far inputs lie apart in the result, an int or two.
        padding: how much of the result is cut off on all sides, an int or two.
        dilation: distance between the weight's elements, an int or two.
        output_padding: how much the result is longer at the end of each axis, an int or two.
        groups: into how many independent groups the channels fall.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (N, H', W', O), sizes as conv_transpose1d says.

    Raises:
        ValueError: if shapes, channels and groups do not fit, or nothing is left after cutting.

    Example:
        >>> mx.conv_transpose2d(mx.ones((1, 3, 3, 2)), mx.ones((4, 3, 3, 2)), stride=2).shape
        (1, 7, 7, 4)
    """
    return convolve_transposed("conv_transpose2d", input, weight, 2, stride, padding, dilation, output_padding, groups,
                               stream)


def conv_transpose3d(input, weight, /, stride=1, padding=0, dilation=1, output_padding=0, groups=1, *, stream=None):
    """Transposed 3-D convolution: the adjoint of conv3d with the same parameters.

    Args:
        input: array of shape (N, D, H, W, C), floating-point or complex.
        weight: array of shape (O, KD, KH, KW, C / groups).
        stride: how far inputs lie apart in the result, an int or three.
        padding: how much of the result is cut off on all sides, an int or three.
        dilation: distance between the weight's elements, an int or three.
        output_padding: how much the result is longer at the end of each axis, an int or three.
        groups: into how many independent groups the channels fall.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (N, D', H', W', O), sizes as conv_transpose1d says.

    Raises:
        ValueError: if shapes, channels and groups do not fit, or nothing is left after cutting.

    Example:
        >>> mx.conv_transpose3d(mx.ones((1, 2, 2, 2, 1)), mx.ones((1, 2, 2, 2, 1))).shape
        (1, 3, 3, 3, 1)
    """
    return convolve_transposed("conv_transpose3d", input, weight, 3, stride, padding, dilation, output_padding, groups,
                               stream)


def convolve(a, v, /, mode="full", *, stream=None):
    """Discrete convolution of two sequences.

    Args:
        a: 1-D array, floating-point or complex.
        v: 1-D array, floating-point or complex.
        mode: "full" for all overlaps, "same" for as many as the longer sequence has elements, "valid" for complete
            ones.
        stream: stream or device to compute on; None is the default.

    Returns:
        A 1-D array of the dtype that `a` and `v` promote to.

    Raises:
        ValueError: if an argument is empty or not 1-D, or the mode another word.
        TypeError: for integers and booleans.

    Example:
        >>> mx.convolve(mx.array([1.0, 2.0, 3.0]), mx.array([1.0, 1.0]))
        array([1, 3, 5, 3], dtype=float32)
    """
    cdef Array x = as_array(a), w = as_array(v)
    cdef mlxc_stream* s = to_stream(stream)
    cdef int64_t k, low, high
    if mlxc_array_ndim(x.h) != 1 or mlxc_array_ndim(w.h) != 1 or not mlxc_array_size(x.h) or not mlxc_array_size(w.h):
        raise ValueError(f"[convolve] takes two 1-D arrays with elements, got the shapes {tuple(dims(x))} and "
                         f"{tuple(dims(w))}")
    if mlxc_array_size(w.h) > mlxc_array_size(x.h):
        x, w = w, x
    k = mlxc_array_size(w.h)
    if mode == "full":
        low = high = k - 1
    elif mode == "same":
        low, high = k // 2, (k - 1) // 2
    elif mode == "valid":
        low = high = 0
    else:
        raise ValueError(f"[convolve] mode is 'full', 'same' or 'valid', not {mode!r}")
    x, w = op_reshape(x, (1, -1, 1), s), op_reshape(w, (1, -1, 1), s)
    x = op_conv(x, w, (1,), (low,), (high,), (1,), (1,), 1, True, s)
    return op_reshape(x, (-1,), s)
