# Fused ops of neural networks: what mlxc.fast exports. Each is one op of the core, with a kernel that goes over its
# data once; weights that are not given become 0-d ones, which cost nothing.
from mlxc._args cimport to_int
from mlxc._array cimport Array, as_array
from mlxc._capi cimport *
from mlxc._device cimport to_stream
from mlxc._prim cimport dims as shape_of
from mlxc._prim cimport (float_dtype, number, number_int, op_cross_entropy, op_full, op_gated_delta, op_layer_norm,
                         op_rms_norm, op_rope, op_scaled_dot_product_attention)

__all__ = ["cross_entropy", "gated_delta_update", "layer_norm", "rms_norm", "rope", "scaled_dot_product_attention"]


cdef Array vector_or(object value, double otherwise, Array x, str what, str name):
    """A weight as an array; a 0-d constant for None."""
    if value is None:
        return number(otherwise, float_dtype(mlxc_array_dtype(x.h)))
    cdef Array vector = as_array(value)
    if mlxc_array_ndim(vector.h) != 1:
        raise ValueError(f"[{name}] {what} must have one axis, got shape {tuple(shape_of(vector))}")
    return vector


def rms_norm(x, weight, eps, *, stream=None):
    """Root-mean-square normalisation of the last axis: x / sqrt(mean(x^2) + eps), times the weight.

    Sums are accurate to the last place whatever the dtype; half-precision input is computed in float32. The gradient
    reads x once more and keeps nothing of its size.

    Args:
        x: array of at least one axis, real; integers are taken as float32.
        weight: 1-D array with one number for each place of the last axis, or None.
        eps: small number under the root.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `x`, of the dtype that `x` and the weight promote to.

    Raises:
        ValueError: if the weight does not fit the last axis, or `x` is 0-d.
        TypeError: for complex numbers.

    Source:
        Zhang and Sennrich 2019, Root Mean Square Layer Normalization, arXiv 1910.07467.

    Example:
        >>> mx.fast.rms_norm(mx.array([3.0, 4.0]), mx.array([1.0, 2.0]), 0.0)
        array([0.848528, 2.26274], dtype=float32)
    """
    cdef Array a = as_array(x)
    return op_rms_norm(a, vector_or(weight, 1, a, "weight", "rms_norm"), eps, to_stream(stream))


def layer_norm(x, weight, bias, eps, *, stream=None):
    """Normalisation of the last axis to mean 0 and variance 1: (x - mean) / sqrt(var + eps), times weight, plus bias.

    Half-precision input is computed in float32. The gradient reads x once more and keeps nothing of its size.

    Args:
        x: array of at least one axis, real; integers are taken as float32.
        weight: 1-D array with one number for each place of the last axis, or None.
        bias: the same.
        eps: small number under the root.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `x`, of the dtype that `x`, weight and bias promote to.

    Raises:
        ValueError: if weight or bias do not fit the last axis, or `x` is 0-d.
        TypeError: for complex numbers.

    Source:
        Ba, Kiros and Hinton 2016, Layer Normalization, arXiv 1607.06450.

    Example:
        >>> mx.fast.layer_norm(mx.array([1.0, 3.0]), None, mx.array([0.5, 0.5]), 0.0)
        array([-0.5, 1.5], dtype=float32)
    """
    cdef Array a = as_array(x)
    return op_layer_norm(a, vector_or(weight, 1, a, "weight", "layer_norm"),
                         vector_or(bias, 0, a, "bias", "layer_norm"), eps, to_stream(stream))


def rope(a, dims, *, traditional, base, scale, offset, freqs=None, stream=None):
    """Rotary position embedding: pairs of numbers of the last axis turn by an angle that grows with the position.

    Pair i at position t turns by (offset + t) * scale / base ** (2 i / dims), or / freqs[i]. Angles are computed in
    double precision.

    Args:
        a: real array of shape (B, ..., T, D); integers are taken as float32.
        dims: how many places of the last axis turn, an even number; the others stay.
        traditional: whether a pair is two neighbours; if not, places i and i + dims / 2.
        base: the base of the frequencies; None where `freqs` is given.
        scale: factor of the positions.
        offset: position of the first row: an int, a 0-d integer array, or one with a number for each of the B.
        freqs: 1-D array of dims / 2 wavelengths over 2 pi, in place of the base.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape and (floating-point) dtype of `a`.

    Raises:
        ValueError: if shapes or dims do not fit, or not exactly one of base and freqs is given.
        TypeError: for complex numbers, or an offset that is no integer.

    Source:
        Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding, arXiv 2104.09864.

    Example:
        >>> x = mx.array([[[1.0, 0.0], [1.0, 0.0]]])
        >>> mx.fast.rope(x, 2, traditional=True, base=10000.0, scale=1.0, offset=0)[0, 1]
        array([0.540302, 0.841471], dtype=float32)
    """
    cdef Array x = as_array(a), start
    cdef list given = []
    cdef double exponent_base = 1
    if (base is None) == (freqs is None):
        raise ValueError("[rope] exactly one of base and freqs must be given, got "
                         f"{'neither' if base is None else 'both'}")
    if freqs is None:
        exponent_base = base
    else:
        given.append(as_array(freqs))
    start = offset if type(offset) is Array else number_int(to_int(offset, "offset"), MLXC_INT64)
    return op_rope(x, start, given, <int32_t>max(min(to_int(dims, "dims"), 2147483646), -1), traditional, exponent_base,
                   scale, False, to_stream(stream))


def scaled_dot_product_attention(q, k, v, *, scale, mask=None, sinks=None, force_fused=False, stream=None):
    """Attention of several heads: softmax(scale q k^T + mask) v, without ever holding the scores.

    Memory grows with the lengths, not with their product; the gradient computes the scores anew. Half-precision input
    is computed in float32. A query that sees no key at all gives zeros.

    Args:
        q: queries of shape (B, N, T, D), real.
        k: keys of shape (B, M, S, D); each of their heads serves N / M heads of queries.
        v: values of shape (B, M, S, E).
        scale: factor of the products, mostly D ** -0.5.
        mask: None; "causal" for query t to see the keys up to t + S - T; or an array that broadcasts to (B, N, T, S):
            bool, true where a key is seen, or numbers that are added.
        sinks: one number for each head of queries, a further score that takes part in the softmax and has no value.
        force_fused: taken for MLX's sake; there is no other way here.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of shape (B, N, T, E), of the dtype that q, k and v promote to.

    Raises:
        ValueError: if shapes do not fit, or for another word as a mask.
        TypeError: for complex numbers, or a mask whose dtype does not promote to the result's.

    Source:
        Vaswani et al. 2017, arXiv 1706.03762; Dao et al. 2022, FlashAttention, arXiv 2205.14135.

    Example:
        >>> q = mx.ones((1, 2, 3, 4))
        >>> mx.fast.scaled_dot_product_attention(q, q, q, scale=0.5, mask="causal").shape
        (1, 2, 3, 4)
    """
    cdef list rest = []
    cdef bint causal = False
    if isinstance(mask, str):
        if mask != "causal":
            raise ValueError(f"[scaled_dot_product_attention] a mask is 'causal' or an array, not {mask!r}")
        causal = True
    elif mask is not None:
        rest.append(as_array(mask))
    cdef bint masked = len(rest) > 0
    if sinks is not None:
        rest.append(as_array(sinks))
    out = op_scaled_dot_product_attention(as_array(q), as_array(k), as_array(v), rest, scale, causal, masked,
                                          sinks is not None, to_stream(stream))
    return out[0]


def cross_entropy(logits, targets, *, stream=None):
    """Cross entropy of class indices: logsumexp(logits) - logits[target] over the last axis.

    One pass over the logits, in float32 at least; neither it nor its gradient makes the softmax.

    Args:
        logits: real array of shape (..., classes).
        targets: integers of shape (...), from 0 to classes - 1.
        stream: stream or device to compute on; None is the default.

    Returns:
        An array of the shape of `targets`, float64 for float64 logits, else float32.

    Raises:
        IndexError: when it is evaluated, if a target is out of range.
        ValueError: if the shapes do not fit.
        TypeError: for complex logits, or targets that are no integers.

    Example:
        >>> mx.fast.cross_entropy(mx.array([[0.0, 0.0], [0.0, 100.0]]), mx.array([0, 1]))
        array([0.693147, 0], dtype=float32)
    """
    return op_cross_entropy(as_array(logits), as_array(targets), to_stream(stream))[0]


def gated_delta_update(q, k, v, gamma, beta, initial_state=None, mask=None, stream=None):
    """The gated delta rule: a linear recurrence over a matrix of memory for each head.

    At each step the state fades by gamma, then moves by beta towards giving v for k, then answers q:
    S = gamma S; S = S + beta (v - S k) k^T; out = S q. The state is float32 (float64 for float64 input).

    Args:
        q: queries of shape (B, T, H, D), real.
        k: keys of the same shape.
        v: values of shape (B, T, N, E), where H divides N.
        gamma: decay of shape (B, T, N).
        beta: rate of shape (B, T, N).
        initial_state: array of shape (B, N, E, D); None is zeros.
        mask: bool array of shape (B, T): where it is false, a step gives zeros and leaves the state alone.
        stream: stream or device to compute on; None is the default.

    Returns:
        A list of the output, of shape (B, T, N, E), and the state after the last step.

    Raises:
        ValueError: if shapes do not fit.
        TypeError: for complex numbers, or a mask that is not bool.

    Source:
        Yang, Kautz and Hatamizadeh 2024, Gated Delta Networks, arXiv 2412.06464.

    Example:
        >>> q, g = mx.ones((1, 3, 1, 2)), mx.ones((1, 3, 1))
        >>> out, state = mx.fast.gated_delta_update(q, q, q, g, g)
        >>> out.shape, state.shape
        ((1, 3, 1, 2), (1, 1, 2, 2))
    """
    cdef Array queries = as_array(q), values = as_array(v), state, flags
    cdef mlxc_stream* s = to_stream(stream)
    if mlxc_array_ndim(queries.h) != 4 or mlxc_array_ndim(values.h) != 4:
        raise ValueError("[gated_delta_update] q, k and v must have 4 axes (batch, length, heads, depth), got shapes "
                         f"{tuple(shape_of(queries))} and {tuple(shape_of(values))}")
    if initial_state is None:
        state = op_full(number(0, MLXC_FLOAT32), (mlxc_array_dim(values.h, 0), mlxc_array_dim(values.h, 2),
                                                  mlxc_array_dim(values.h, 3), mlxc_array_dim(queries.h, 3)), s)
    else:
        state = as_array(initial_state)
    if mask is None:
        flags = number_int(1, MLXC_BOOL)
    else:
        flags = as_array(mask)
        if mlxc_array_ndim(flags.h) != 2:
            raise ValueError("[gated_delta_update] the mask must have shape (batch, length), got "
                             f"{tuple(shape_of(flags))}")
    return list(op_gated_delta(queries, as_array(k), values, as_array(gamma), as_array(beta), state, flags, s))
