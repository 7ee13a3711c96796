# Quantised arrays: packing, unpacking, and products with packed matrices. The modes and what goes with them are in one
# table here; the checks of shapes and dtypes are in the core.
from mlxc._args cimport to_int
from mlxc._array cimport Array, as_array
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._dtype cimport is_floating, to_dtype_or
from mlxc._ops_grouped cimport to_matrix_indices
from mlxc._prim cimport (cast, dims, number, op_dequantize, op_divide, op_from_fp8, op_gather_qmm,
                         op_multiply, op_quantize, op_quantize_dequantize, op_quantized_matmul, op_reshape, op_squeeze,
                         op_to_fp8, slice_axis)

from mlxc._dtype import bfloat16

__all__ = ["dequantize", "from_fp8", "gather_qmm", "gather_qqmm", "qqmm", "quantize", "quantized_matmul", "to_fp8"]

# name: (number in the core, default group size, default bits)
MODES = {"affine": (0, 64, 4), "mxfp4": (1, 32, 4), "mxfp8": (2, 32, 8), "nvfp4": (3, 16, 4)}


cdef struct Packing:
    int32_t group_size
    int32_t bits
    int32_t mode


cdef Packing to_packing(str op, object group_size, object bits, object mode) except *:
    cdef Packing packing
    if not isinstance(mode, str):
        raise TypeError(f"[{op}] the mode is a string, got {mode!r}")
    if mode not in MODES:
        raise ValueError(f"[{op}] the mode is one of {', '.join(map(repr, MODES))}, got {mode!r}")
    packing.mode, default_size, default_bits = MODES[mode]
    size = default_size if group_size is None else to_int(group_size, "group_size")
    width = default_bits if bits is None else to_int(bits, "bits")
    # What does not fit 32 bits is refused by the core all the same.
    packing.group_size = size if 0 <= size <= 1 << 20 else -1
    packing.bits = width if 0 <= width <= 64 else -1
    return packing


cdef list to_biases(object biases):
    return [] if biases is None else [as_array(biases)]


cdef Array to_global_scale(str op, object value, str name, int32_t mode):
    """The scale as an array of float32 without axes; None if there is none."""
    if value is None:
        return None
    cdef Array scale = as_array(value)
    if mode != 3:
        raise ValueError(f"[{op}] {name} belongs to mode 'nvfp4'")
    if mlxc_array_size(scale.h) != 1:
        raise ValueError(f"[{op}] {name} must be one number, got shape {tuple(dims(scale))}")
    if mlxc_array_dtype(scale.h) != MLXC_FLOAT32:
        raise TypeError(f"[{op}] {name} must be float32, got {scale.dtype}")
    return op_reshape(scale, (), NULL)


# A global scale g is the magnitude that becomes the greatest code times the greatest scale, 6 * 448.
cdef Array scale_down(Array x, Array scale, mlxc_stream* s):
    """x * (6 * 448 / scale), in float32."""
    return op_multiply(cast(x, MLXC_FLOAT32, s), op_divide(number(2688, MLXC_FLOAT32), scale, s), s)


cdef Array scale_up(Array x, Array scale, mlxc_stream* s):
    """x * (scale / (6 * 448)), in the dtype of x."""
    cdef Array factor = op_divide(scale, number(2688, MLXC_FLOAT32), s)
    return cast(op_multiply(cast(x, MLXC_FLOAT32, s), factor, s), mlxc_array_dtype(x.h), s)


def quantize(w, /, group_size=None, bits=None, mode="affine", *, global_scale=None, stream=None):
    """Packs an array into few bits a number, with a scale for every group along the last axis.

    In mode "affine" a number is about `scale * code + bias`, with codes of `bits` bits and scales and biases of the
    dtype of `w`. In the others it is about `scale * code`, with codes that are small floats (e2m1 of 4 bits, e4m3 of
    8) and scales of one byte: powers of two (e8m0) in the "mx" modes, e4m3 in "nvfp4". Codes lie in uint32 words, the
    first in the lowest bits, and may straddle words. The formats of the "mx" modes are those of the OCP Microscaling
    Formats specification 1.0.

    | mode | group sizes | bits |
    |---|---|---|
    | affine | 32, 64 (default), 128 | 1, 2, 3, 4 (default), 5, 6, 8 |
    | mxfp4 | 32 | 4 |
    | mxfp8 | 32 | 8 |
    | nvfp4 | 16 | 4 |

    Args:
        w: floating-point array of at least two dimensions, whose last axis is a multiple of the group size.
        group_size: how many numbers share a scale; the mode's default for None.
        bits: bits of a code; the mode's default for None.
        mode: "affine", "mxfp4", "mxfp8" or "nvfp4".
        global_scale: float32 scalar, for mode "nvfp4" only: the magnitude that the greatest code and scale stand for.
        stream: stream or device to compute on; None is the default.

    Returns:
        A tuple: the packed codes, uint32 of shape `(..., size * bits / 32)`; the scales, of shape
        `(..., size / group_size)`; and in mode "affine" the biases, of the same shape.

    Raises:
        ValueError: if the mode does not exist, or shape, group size or bits do not fit it.
        TypeError: if the array is not of floats.

    Example:
        >>> codes, scales, biases = mx.quantize(mx.arange(32, dtype=mx.float32).reshape(1, 32), group_size=32)
        >>> codes.shape, scales, biases
        ((1, 4), array([[-2.06667]], dtype=float32), array([[31]], dtype=float32))
    """
    cdef Packing p = to_packing("quantize", group_size, bits, mode)
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array a = as_array(w), packed, scales
    cdef Array total = to_global_scale("quantize", global_scale, "global_scale", p.mode)
    if total is not None:
        a = scale_down(a, total, s)
    packed, scales = op_quantize(a, p.group_size, p.bits, p.mode, s)
    if p.mode != 0:
        return packed, scales
    return packed, op_squeeze(slice_axis(scales, 0, 0, 1, 1, s), 0, s), op_squeeze(slice_axis(scales, 0, 1, 1, 1, s),
                                                                                  0, s)


def dequantize(w, /, scales, biases=None, group_size=None, bits=None, mode="affine", global_scale=None, dtype=None, *,
               stream=None):
    """The numbers of an array packed by quantize.

    Args:
        w: the packed codes, uint32.
        scales: the scales.
        biases: the biases, in mode "affine" only.
        group_size: as for quantize.
        bits: as for quantize.
        mode: as for quantize.
        global_scale: as for quantize.
        dtype: floating-point dtype of the result; None is that of the scales in mode "affine", else bfloat16.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape that was quantised. Gradients reach scales and biases.

    Raises:
        ValueError: if shapes, group size, bits and mode do not fit each other.
        TypeError: if the codes are not uint32, or scales or result not of the dtype they must have.

    Example:
        >>> packed = mx.quantize(mx.arange(32, dtype=mx.float32).reshape(1, 32) % 16, group_size=32)
        >>> mx.dequantize(*packed, group_size=32)[0, :4]
        array([0, 1, 2, 3], dtype=float32)
    """
    cdef Packing p = to_packing("dequantize", group_size, bits, mode)
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array packed = as_array(w), scale = as_array(scales)
    cdef list shift = to_biases(biases)
    cdef Array total = to_global_scale("dequantize", global_scale, "global_scale", p.mode)
    cdef mlxc_dtype natural = MLXC_BFLOAT16, out
    if p.mode == 0 and is_floating(mlxc_array_dtype(scale.h)):
        natural = mlxc_array_dtype(scale.h)
    out = to_dtype_or(dtype, natural)
    if total is None:
        return op_dequantize(packed, scale, shift, p.group_size, p.bits, p.mode, out, s)
    if not is_floating(out):
        raise TypeError(f"[dequantize] the result must be of floats, got {dtype}")
    return cast(scale_up(op_dequantize(packed, scale, shift, p.group_size, p.bits, p.mode, MLXC_FLOAT32, s), total, s),
                out, s)


def quantized_matmul(x, w, /, scales, biases=None, transpose=True, group_size=None, bits=None, mode="affine", *,
                     stream=None):
    """Product of an array with a matrix packed by quantize, which is not unpacked as a whole.

    Args:
        x: array of at least one dimension, any dtype but complex ones.
        w: the packed codes of a matrix, uint32; leading axes broadcast with those of `x`.
        scales: the scales of `w`.
        biases: the biases of `w`, in mode "affine" only.
        transpose: whether to multiply by the transposed matrix.
        group_size: as for quantize.
        bits: as for quantize.
        mode: as for quantize.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype that `x` and, in mode "affine", the scales promote to; sums are kept in float32 or better.
        Gradients reach `x`, `scales` and `biases`.

    Raises:
        ValueError: if shapes, group size, bits and mode do not fit each other.
        TypeError: if the codes are not uint32, or the scales not of the dtype they must have.

    Example:
        >>> w = mx.quantize(mx.eye(64), bits=8)
        >>> mx.quantized_matmul(mx.arange(64.0), *w, bits=8)[1:4].round(2)
        array([1, 2, 3], dtype=float32)
    """
    cdef Packing p = to_packing("quantized_matmul", group_size, bits, mode)
    return op_quantized_matmul(as_array(x), as_array(w), as_array(scales), to_biases(biases), bool(transpose),
                               p.group_size, p.bits, p.mode, to_stream(stream))


def gather_qmm(x, w, /, scales, biases=None, lhs_indices=None, rhs_indices=None, transpose=True, group_size=None,
               bits=None, mode="affine", global_scale=None, *, sorted_indices=False, stream=None):
    """quantized_matmul of matrices that are picked by index.

    An index counts the matrices of an array in row-major order of its leading axes; negative ones count from the end.

    Args:
        x: array of at least two dimensions, any dtype but complex ones.
        w: the packed codes of matrices, uint32.
        scales: the scales of `w`.
        biases: the biases of `w`, in mode "affine" only.
        lhs_indices: integer array, the matrices of `x`; None is all of them in their shape.
        rhs_indices: integer array, the matrices of `w`; None is all of them in their shape. Both broadcast.
        transpose: whether to multiply by the transposed matrices.
        group_size: as for quantize.
        bits: as for quantize.
        mode: as for quantize.
        global_scale: as for quantize, of `w`.
        sorted_indices: a promise that `rhs_indices` are sorted. Neighbours with the same index are multiplied as one
            with or without it.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of the indices and then the rows and columns of the products.

    Raises:
        ValueError: if shapes, group size, bits and mode do not fit each other.
        IndexError: if an index is out of range.

    Example:
        >>> w = mx.quantize(mx.ones((3, 8, 32)), group_size=32)
        >>> mx.gather_qmm(mx.ones((4, 1, 32)), *w, rhs_indices=mx.array([2, 0, 1, 2]), group_size=32).shape
        (4, 1, 8)
    """
    cdef Packing p = to_packing("gather_qmm", group_size, bits, mode)
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array a = as_array(x), packed = as_array(w)
    cdef Array total = to_global_scale("gather_qmm", global_scale, "global_scale", p.mode)
    cdef Array out = op_gather_qmm(a, packed, as_array(scales), to_matrix_indices("gather_qmm", lhs_indices, a, s),
                                   to_matrix_indices("gather_qmm", rhs_indices, packed, s), to_biases(biases),
                                   bool(transpose), p.group_size, p.bits, p.mode, s)
    return out if total is None else scale_up(out, total, s)


cdef Array round_to_codes(Array x, Packing p, Array total, mlxc_stream* s):
    """What quantize and dequantize make of x; gradients pass."""
    if total is None:
        return op_quantize_dequantize(x, p.group_size, p.bits, p.mode, s)
    cdef Array rounded = op_quantize_dequantize(scale_down(x, total, s), p.group_size, p.bits, p.mode, s)
    return cast(scale_up(rounded, total, s), mlxc_array_dtype(x.h), s)


cdef Packing to_float_packing(str op, object group_size, object bits, object mode) except *:
    cdef Packing p = to_packing(op, group_size, bits, mode)
    if p.mode < 2:
        raise ValueError(f"[{op}] the mode is 'nvfp4' or 'mxfp8', got {mode!r}")
    return p


cdef Array check_floats(str op, Array a, str name):
    if not is_floating(mlxc_array_dtype(a.h)):
        raise TypeError(f"[{op}] {name} must be of floats, got {a.dtype}")
    return a


def qqmm(x, w, scales=None, group_size=None, bits=None, mode="nvfp4", global_scale_x=None, global_scale_w=None, *,
         stream=None):
    """Product of x and the transposed w, both quantised: x on the fly, w too if it is not packed yet.

    Args:
        x: floating-point array of at least two dimensions, whose last axis is a multiple of the group size.
        w: matrix of floats, or its packed codes.
        scales: the scales of packed codes; None if `w` is not packed.
        group_size: as for quantize.
        bits: as for quantize.
        mode: "nvfp4" or "mxfp8".
        global_scale_x: global scale of `x`, as for quantize.
        global_scale_w: global scale of `w`, as for quantize.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the dtype of `x`. Gradients reach `x`, and a `w` that is not packed, as if nothing had been rounded
        but the other factor.

    Raises:
        ValueError: if shapes, group size, bits and mode do not fit each other.
        TypeError: if an array is not of floats.

    Example:
        >>> mx.qqmm(mx.ones((2, 32)), mx.ones((3, 32)), mode="mxfp8").shape
        (2, 3)
    """
    from mlxc._ops_contract import matmul

    cdef Packing p = to_float_packing("qqmm", group_size, bits, mode)
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array a = check_floats("qqmm", as_array(x), "x"), b = as_array(w), out
    cdef Array total_x = to_global_scale("qqmm", global_scale_x, "global_scale_x", p.mode)
    cdef Array total_w = to_global_scale("qqmm", global_scale_w, "global_scale_w", p.mode)
    a = round_to_codes(a, p, total_x, s)
    if scales is None:
        b = round_to_codes(check_floats("qqmm", b, "w"), p, total_w, s)
        return matmul(a, b.swapaxes(-1, -2), stream=stream)
    out = op_quantized_matmul(a, b, as_array(scales), [], True, p.group_size, p.bits, p.mode, s)
    return out if total_w is None else scale_up(out, total_w, s)


def gather_qqmm(x, w, /, scales=None, lhs_indices=None, rhs_indices=None, group_size=None, bits=None, mode="nvfp4",
                global_scale_x=None, global_scale_w=None, *, sorted_indices=False, stream=None):
    """qqmm of matrices that are picked by index, as in gather_qmm.

    Args:
        x: floating-point array of at least two dimensions, whose last axis is a multiple of the group size.
        w: matrices of floats, or their packed codes.
        scales: the scales of packed codes; None if `w` is not packed.
        lhs_indices: integer array, the matrices of `x`; None is all of them in their shape.
        rhs_indices: integer array, the matrices of `w`; None is all of them in their shape. Both broadcast.
        group_size: as for quantize.
        bits: as for quantize.
        mode: "nvfp4" or "mxfp8".
        global_scale_x: global scale of `x`, as for quantize.
        global_scale_w: global scale of `w`, as for quantize.
        sorted_indices: a promise that `rhs_indices` are sorted.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of the indices and then the rows and columns of the products.

    Raises:
        ValueError: if shapes, group size, bits and mode do not fit each other.
        IndexError: if an index is out of range.
        TypeError: if an array is not of floats.

    Example:
        >>> mx.gather_qqmm(mx.ones((4, 2, 32)), mx.ones((3, 5, 32)), rhs_indices=mx.array([2, 0, 1, 2])).shape
        (4, 2, 5)
    """
    from mlxc._ops_grouped import gather_mm

    cdef Packing p = to_float_packing("gather_qqmm", group_size, bits, mode)
    cdef mlxc_stream* s = to_stream(stream)
    cdef Array a = check_floats("gather_qqmm", as_array(x), "x"), b = as_array(w), out
    cdef Array total_x = to_global_scale("gather_qqmm", global_scale_x, "global_scale_x", p.mode)
    cdef Array total_w = to_global_scale("gather_qqmm", global_scale_w, "global_scale_w", p.mode)
    a = round_to_codes(a, p, total_x, s)
    if scales is None:
        b = round_to_codes(check_floats("gather_qqmm", b, "w"), p, total_w, s)
        return gather_mm(a, b.swapaxes(-1, -2), lhs_indices, rhs_indices, sorted_indices=sorted_indices,
                         stream=stream)
    out = op_gather_qmm(a, b, as_array(scales), to_matrix_indices("gather_qqmm", lhs_indices, a, s),
                        to_matrix_indices("gather_qqmm", rhs_indices, b, s), [], True, p.group_size, p.bits, p.mode, s)
    return out if total_w is None else scale_up(out, total_w, s)


def to_fp8(x, *, stream=None):
    """Converts to 8-bit floats (e4m3: a sign, 4 bits of exponent, 3 of mantissa, no infinities).

    Args:
        x: floating-point array.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of uint8. Ties go to even, what is beyond 448 becomes 448, NaN stays NaN.

    Raises:
        TypeError: if the array is not of floats.

    Example:
        >>> mx.to_fp8(mx.array([1.0, -2.0, 1000.0]))
        array([56, 192, 126], dtype=uint8)
    """
    return op_to_fp8(as_array(x), to_stream(stream))


def from_fp8(x, dtype=bfloat16, *, stream=None):
    """Converts from 8-bit floats (e4m3) held in uint8.

    Args:
        x: array of uint8.
        dtype: floating-point dtype of the result; bfloat16 by default.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `x`.

    Raises:
        TypeError: if the array is not uint8, or the dtype not one of floats.

    Example:
        >>> mx.from_fp8(mx.array([56, 192, 126], dtype=mx.uint8), mx.float32)
        array([1, -2, 448], dtype=float32)
    """
    return op_from_fp8(as_array(x), to_dtype_or(dtype, MLXC_BFLOAT16), to_stream(stream))
