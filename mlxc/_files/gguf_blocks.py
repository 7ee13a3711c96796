"""The block types of GGUF: weights of 2 to 8 bits with their scales.

Called by gguf.py. Q4_0, Q4_1 and Q8_0 have the same groups of 32 weights as MLX's quantised matrices and keep their
values bit by bit in that layout; the other types become float16. All of it is ops on the mapped bytes, recorded here
and done when an array is used. Names of the parts (d, dmin, qs, qh) are those of the ggml library, which defines the
types.
"""

from __future__ import annotations

from collections.abc import Callable

import mlxc as mx
from mlxc._array import Array
from mlxc._bytes import array_from_bytes

Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 = 2, 3, 6, 7, 8
Q2_K, Q3_K, Q4_K, Q5_K, Q6_K = 10, 11, 12, 13, 14
IQ4_NL, IQ4_XS = 20, 23
# Type: (weights a block, bytes a block).
BLOCKS: dict[int, tuple[int, int]] = {
    Q4_0: (32, 18), Q4_1: (32, 20), Q5_0: (32, 22), Q5_1: (32, 24), Q8_0: (32, 34), Q2_K: (256, 84), Q3_K: (256, 110),
    Q4_K: (256, 144), Q5_K: (256, 176), Q6_K: (256, 210), IQ4_NL: (32, 18), IQ4_XS: (256, 136),
}  # fmt: skip
# For messages on types that are not read.
TYPE_NAMES = {
    9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S",
    29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4",
}  # fmt: skip
IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def part(raw: Array, begin: int, size: int) -> Array:
    """Some bytes of each block."""
    return raw[..., begin : begin + size]


def half(raw: Array, begin: int) -> Array:
    """One float16 of each block."""
    return mx.view(part(raw, begin, 2), mx.float16)


def number(raw: Array, begin: int) -> Array:
    """One float16 of each block, as float32."""
    return half(raw, begin).astype(mx.float32)


def byte(value: int) -> Array:
    return mx.array(value, dtype=mx.uint8)


def nibbles(raw: Array) -> Array:
    """The low halves of the bytes, then the high halves, along the last axis."""
    return mx.concatenate([raw & byte(15), raw >> byte(4)], axis=-1)


def split_axis(a: Array, *sizes: int) -> Array:
    """The last axis as several."""
    return a.reshape(*a.shape[:-1], *sizes)


def shifted(raw: Array, shifts: tuple[int, ...], mask: int) -> Array:
    """Bit fields of the bytes: axis -2 goes over the shifts."""
    by = mx.array(shifts, dtype=mx.uint8).reshape(len(shifts), 1)
    return (mx.expand_dims(raw, -2) >> by) & byte(mask)


def signed(q: Array, offset: int = 0) -> Array:
    """Small unsigned numbers as float32, less an offset."""
    return q.astype(mx.float32) - offset


# ---- kept quantised -------------------------------------------------------------------------------


LOW_NIBBLES = 0x0F0F0F0F0F0F0F0F
# Halves the gaps between the nibbles of a word, three times.
STEPS = ((4, 0x00FF00FF00FF00FF), (8, 0x0000FFFF0000FFFF), (16, 0x00000000FFFFFFFF))


def word(value: int) -> Array:
    return mx.array(value, dtype=mx.uint64)


def join_low_nibbles(words: Array) -> Array:
    """The low halves of the eight bytes of each word, next to each other in its low 32 bits."""
    words = words & word(LOW_NIBBLES)
    for shift, mask in STEPS:
        words = (words | (words >> word(shift))) & word(mask)
    return words


def pack_nibbles(qs: Array) -> Array:
    """The 32 weights of a block in their order, eight to a uint32, the first in the lowest bits. Weight j is in the
    low half of byte j, weight j + 16 in its high half; words of eight bytes are faster than bytes."""
    words = mx.view(qs, mx.uint64)
    both = mx.concatenate([join_low_nibbles(words), join_low_nibbles(words >> word(4))], axis=-1)
    return both.astype(mx.uint32)


def repack_q4_0(raw: Array) -> tuple[Array, Array, Array]:
    scales = half(raw, 0)
    return pack_nibbles(part(raw, 2, 16)), scales, scales * mx.array(-8, dtype=mx.float16)


def repack_q4_1(raw: Array) -> tuple[Array, Array, Array]:
    return pack_nibbles(part(raw, 4, 16)), half(raw, 0), half(raw, 2)


def repack_q8_0(raw: Array) -> tuple[Array, Array, Array]:
    scales = half(raw, 0)
    return mx.view(part(raw, 2, 32) ^ byte(0x80), mx.uint32), scales, scales * mx.array(-128, dtype=mx.float16)


# ---- expanded, to float32 of the shape (..., weights a block) ---------------------------------------


def expand_q5(qs: Array, qh: Array) -> Array:
    """Five-bit numbers: four bits from qs, the highest from the bits of qh."""
    return nibbles(qs) | (bits_of(qh) << byte(4))


def bits_of(raw: Array) -> Array:
    """The bits of the bytes, lowest first."""
    return mx.flatten((mx.expand_dims(raw, -1) >> mx.array([0, 1, 2, 3, 4, 5, 6, 7], dtype=mx.uint8)) & byte(1), -2)


def expand_q5_0(raw: Array) -> Array:
    return number(raw, 0) * signed(expand_q5(part(raw, 6, 16), part(raw, 2, 4)), 16)


def expand_q5_1(raw: Array) -> Array:
    return number(raw, 0) * signed(expand_q5(part(raw, 8, 16), part(raw, 4, 4))) + number(raw, 2)


def two_bits(qs: Array) -> Array:
    """64 bytes as (2, 4, 32) numbers of two bits: 128 weights lie in the shifts of 32 bytes."""
    return shifted(split_axis(qs, 2, 32), (0, 2, 4, 6), 3)


def scaled(q: Array, scales: Array, groups: int) -> Array:
    """q times the scale of its group; q of the shape (..., 2, 4, 32) or alike."""
    lead = scales.shape[:-1]
    return q.reshape(*lead, groups, 256 // groups) * mx.expand_dims(scales, -1)


def expand_q2_k(raw: Array) -> Array:
    scales = part(raw, 0, 16)
    d = number(raw, 80) * signed(scales & byte(15))
    dmin = number(raw, 82) * signed(scales >> byte(4))
    return mx.flatten(scaled(signed(two_bits(part(raw, 16, 64))), d, 16) - mx.expand_dims(dmin, -1), -2)


def expand_q3_k(raw: Array) -> Array:
    low, packed = two_bits(part(raw, 32, 64)), part(raw, 96, 12)
    high = split_axis(mx.flatten(shifted(part(raw, 0, 32), tuple(range(8)), 1), -2), 2, 4, 32)
    upper = mx.flatten(shifted(packed[..., 8:], (0, 2, 4, 6), 3), -2)
    scales = number(raw, 108) * signed(nibbles(packed[..., :8]) | (upper << byte(4)), 32)
    return mx.flatten(scaled(signed(low | (high << byte(2)), 4), scales, 16), -2)


def scales_and_minima(packed: Array) -> tuple[Array, Array]:
    """Eight scales and eight minima of six bits each, out of 12 bytes."""
    first, second, third = (packed[..., i : i + 4] for i in (0, 4, 8))
    top = (byte(6), byte(4))
    scales = [first & byte(63), (third & byte(15)) | ((first >> top[0]) << top[1])]
    minima = [second & byte(63), (third >> byte(4)) | ((second >> top[0]) << top[1])]
    return signed(mx.concatenate(scales, axis=-1)), signed(mx.concatenate(minima, axis=-1))


def expand_q45_k(raw: Array, q: Array) -> Array:
    scales, minima = scales_and_minima(part(raw, 4, 12))
    d, dmin = number(raw, 0) * scales, number(raw, 2) * minima
    return mx.flatten(scaled(signed(q), d, 8) - mx.expand_dims(dmin, -1), -2)


def expand_q4_k(raw: Array) -> Array:
    return expand_q45_k(raw, shifted(split_axis(part(raw, 16, 128), 4, 32), (0, 4), 15))


def expand_q5_k(raw: Array) -> Array:
    high = split_axis(mx.flatten(shifted(part(raw, 16, 32), tuple(range(8)), 1), -2), 4, 2, 32)
    return expand_q45_k(raw, shifted(split_axis(part(raw, 48, 128), 4, 32), (0, 4), 15) | (high << byte(4)))


def expand_q6_k(raw: Array) -> Array:
    low = split_axis(nibbles(split_axis(part(raw, 0, 128), 2, 64)), 4, 32)
    high = two_bits(part(raw, 128, 64))
    scales = number(raw, 208) * mx.view(part(raw, 192, 16), mx.int8).astype(mx.float32)
    return mx.flatten(scaled(signed(low | (high << byte(4)), 32), scales, 16), -2)


def iq4_values(qs: Array) -> Array:
    return mx.take(mx.array(IQ4_VALUES, dtype=mx.float32), nibbles(qs))


def expand_iq4_nl(raw: Array) -> Array:
    return number(raw, 0) * iq4_values(part(raw, 2, 16))


def expand_iq4_xs(raw: Array) -> Array:
    low = mx.flatten((mx.expand_dims(part(raw, 4, 4), -1) >> mx.array([0, 4], dtype=mx.uint8)) & byte(15), -2)
    shifts = mx.array([0, 2, 4, 6], dtype=mx.uint8)
    high = mx.flatten((mx.expand_dims(part(raw, 2, 2), -1) >> shifts) & byte(3), -2)
    scales = number(raw, 0) * signed(low | (high << byte(4)), 32)
    return mx.flatten(scaled(iq4_values(split_axis(part(raw, 8, 128), 8, 16)), scales, 8), -2)


REPACK: dict[int, Callable[[Array], tuple[Array, Array, Array]]] = {
    Q4_0: repack_q4_0,
    Q4_1: repack_q4_1,
    Q8_0: repack_q8_0,
}
EXPAND: dict[int, Callable[[Array], Array]] = {
    Q5_0: expand_q5_0,
    Q5_1: expand_q5_1,
    Q2_K: expand_q2_k,
    Q3_K: expand_q3_k,
    Q4_K: expand_q4_k,
    Q5_K: expand_q5_k,
    Q6_K: expand_q6_k,
    IQ4_NL: expand_iq4_nl,
    IQ4_XS: expand_iq4_xs,
}


def expand_blocks(data: memoryview, name: str, kind: int, shape: tuple[int, ...], offset: int) -> dict[str, Array]:
    """The arrays that stand for a tensor of blocks."""
    per_block, size = BLOCKS[kind]
    raw = array_from_bytes(data, mx.uint8, (*shape[:-1], shape[-1] // per_block, size), offset)
    if kind in EXPAND:
        return {name: EXPAND[kind](raw).reshape(shape).astype(mx.float16)}
    weight, scales, biases = REPACK[kind](raw)
    stem = name.removesuffix(".weight")
    packed = weight.reshape(*shape[:-1], shape[-1] // per_block * weight.shape[-1])
    groups = (*shape[:-1], shape[-1] // per_block)
    # Where a block has them they lie apart; products would copy them together every time.
    scales, biases = mx.contiguous(scales.reshape(groups)), mx.contiguous(biases.reshape(groups))
    return {name: packed, f"{stem}.scales": scales, f"{stem}.biases": biases}
