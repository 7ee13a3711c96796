"""Cases of quantisation: packing, unpacking, 8-bit floats, and products with packed matrices.

The reference packs by the published description of each mode: in float32, float64 for float64, so that codes and
scales must be equal bit for bit. Products are compared with the plain product of the unpacked matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mlxc as mx

from .cases import Case, Shape, draw_these, draw_uniform, special_values
from .dtypes import DTYPES, Dtype, store, widen
from .layouts import CONTIGUOUS
from .table import Row

ONE = (CONTIGUOUS,)
BITS = (1, 2, 3, 4, 5, 6, 8)
MODES = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E4M3 = np.array([m / 512 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7) for e in range(16) for m in range(8)])
E4M3[127] = np.nan


def build(row: Row) -> Iterator[Case]:
    yield from BUILDERS[row.name]()


# ---- references ---------------------------------------------------------------------------------


def pack(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes of `bits` bits along the last axis as words, the first in the lowest bits."""
    each = (codes[..., None].astype(np.uint32) >> np.arange(bits, dtype=np.uint32)) & 1
    stream = each.astype(np.uint8).reshape(*codes.shape[:-1], codes.shape[-1] * bits)
    return np.ascontiguousarray(np.packbits(stream, axis=-1, bitorder="little")).view("<u4").astype(np.uint32)


def unpack(words: np.ndarray, bits: int) -> np.ndarray:
    stream = np.unpackbits(np.ascontiguousarray(words.astype("<u4")).view(np.uint8), axis=-1, bitorder="little")
    each = stream.reshape(*words.shape[:-1], words.shape[-1] * 32 // bits, bits).astype(np.uint32)
    return (each << np.arange(bits, dtype=np.uint32)).sum(-1)


def quantize_affine(w: np.ndarray, group_size: int, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(codes, scales, biases); w is float32 or float64, which it is computed in."""
    groups = w.reshape(*w.shape[:-1], w.shape[-1] // group_size, group_size)
    steps = w.dtype.type((1 << bits) - 1)
    least, greatest = groups.min(-1), groups.max(-1)
    scale = np.maximum((greatest - least) / steps, w.dtype.type(np.float32(1e-7)))
    bias = least
    if bits > 1:
        from_least = np.abs(least) > np.abs(greatest)
        scale = np.where(from_least, scale, -scale)
        edge = np.where(from_least, least, greatest)
        to_edge = np.rint(edge / scale)
        with np.errstate(all="ignore"):
            scale = np.where(to_edge != 0, edge / to_edge, scale)
        bias = np.where(to_edge != 0, edge, 0)
    codes = np.clip(np.rint((groups - bias[..., None]) / scale[..., None]), 0, steps)
    return codes.reshape(w.shape).astype(np.uint32), scale, bias


def encode_e4m3(x: np.ndarray) -> np.ndarray:
    """The nearest 8-bit float, ties to even, at most 448; NaN stays."""
    codes = np.arange(127)
    magnitude = np.minimum(np.abs(x), 448)[..., None]
    distance = np.abs(magnitude - E4M3[:127])
    best = distance.min(-1, keepdims=True)
    # Of two at the same distance the even one.
    code = np.where(distance == best, codes % 2 * 1000 + codes, 10**6).min(-1) % 1000
    return np.where(np.isnan(x), 127, code).astype(np.uint8) | (np.signbit(x).astype(np.uint8) << 7)


def decode_e4m3(codes: np.ndarray) -> np.ndarray:
    return np.where(codes & 0x80, -1.0, 1.0) * E4M3[codes & 0x7F]


def quantize_floats(w: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """(codes, bytes of scales) of float32 numbers."""
    group_size, bits = MODES[mode]
    groups = w.reshape(*w.shape[:-1], w.shape[-1] // group_size, group_size)
    greatest = np.abs(groups).max(-1)
    if mode == "nvfp4":
        scale_codes = encode_e4m3((greatest / np.float32(6)).astype(np.float64))
        scales = decode_e4m3(scale_codes)
    else:
        mantissa, exponent = np.frexp(greatest / np.float32(6 if bits == 4 else 448))
        exponent = np.where(greatest == 0, 0, exponent - (mantissa == 0.5))
        scale_codes = (np.clip(exponent, -127, 127) + 127).astype(np.uint8)
        scales = np.ldexp(1.0, scale_codes.astype(int) - 127)
    with np.errstate(all="ignore"):
        scaled = np.where(scales[..., None] == 0, 0, groups / scales[..., None].astype(np.float32))
    if bits == 8:
        codes = encode_e4m3(scaled.astype(np.float64))
    else:
        code = (np.abs(scaled)[..., None] > (E2M1[1:] + E2M1[:-1]) / 2).sum(-1)
        codes = np.where((code > 0) & (scaled < 0), code | 8, code)
    return codes.reshape(w.shape).astype(np.uint32), scale_codes


def decode_floats(codes: np.ndarray, scale_codes: np.ndarray, mode: str) -> np.ndarray:
    group_size, bits = MODES[mode]
    values = decode_e4m3(codes) if bits == 8 else np.where(codes & 8, -1.0, 1.0) * E2M1[codes & 7]
    scales = decode_e4m3(scale_codes) if mode == "nvfp4" else np.ldexp(1.0, scale_codes.astype(int) - 127)
    return values * np.repeat(scales, group_size, axis=-1)


def to_computed(stored: np.ndarray, dtype: Dtype) -> np.ndarray:
    """In the type that quantize computes in."""
    return widen(stored, dtype).astype(np.float64 if dtype.name == "float64" else np.float32)


# ---- cases --------------------------------------------------------------------------------------


def _quantize() -> Iterator[Case]:
    def affine(group_size: int, bits: int, part: int) -> tuple[Callable, Callable]:
        def call(w: mx.array) -> mx.array:
            return mx.quantize(w, group_size, bits)[part]

        def reference(dtype: Dtype, stored: np.ndarray) -> np.ndarray:
            results = quantize_affine(to_computed(stored, dtype), group_size, bits)
            return pack(results[0], bits) if part == 0 else store(results[part], dtype)

        return call, reference

    def floats(mode: str, part: int) -> tuple[Callable, Callable]:
        def call(w: mx.array) -> mx.array:
            return mx.quantize(w, mode=mode)[part]

        def reference(dtype: Dtype, stored: np.ndarray) -> np.ndarray:
            results = quantize_floats(to_computed(stored, dtype).astype(np.float32), mode)
            return pack(results[0], MODES[mode][1]) if part == 0 else results[1]

        return call, reference

    def make(label: str, pair: tuple[Callable, Callable], shape: Shape, result: Any, **rest: Any) -> Case:
        return Case(label, (shape,), *pair, result=result, on_stored=True, **rest)

    same = lambda dtype: dtype  # noqa: E731
    for bits in BITS:
        yield make(f"codes of {bits} bits", affine(32, bits, 0), (3, 128), "uint32")
        yield make(f"scales of {bits} bits", affine(64, bits, 1), (3, 128), same)
        yield make(f"biases of {bits} bits", affine(128, bits, 2), (2, 2, 128), same, layouts=ONE)
    equal = draw_these(np.repeat([0, 3, -3, 1e-9], 32))
    yield make("equal numbers, codes", affine(32, 4, 0), (4, 32), "uint32", draw=equal, layouts=ONE)
    yield make("equal numbers, scales", affine(32, 4, 1), (4, 32), same, draw=equal, layouts=ONE)
    yield make("empty", affine(32, 4, 0), (0, 64), "uint32", layouts=ONE)
    yield make("large", affine(64, 4, 0), (65, 4096), "uint32", layouts=ONE)
    for mode in MODES:
        yield make(f"{mode}, codes", floats(mode, 0), (3, 96), "uint32")
        yield make(f"{mode}, scales", floats(mode, 1), (3, 96), "uint8")
        yield make(f"{mode}, zeros", floats(mode, 1), (2, 32), "uint8", draw=draw_these(np.zeros(64)), layouts=ONE)
    yield Case("one axis", ((64,),), mx.quantize, dtypes="f", layouts=ONE, raises=ValueError)
    yield Case("no whole groups", ((2, 96),), mx.quantize, dtypes="f", layouts=ONE, raises=ValueError)
    yield Case("7 bits", ((2, 64),), lambda w: mx.quantize(w, bits=7), dtypes="f", layouts=ONE, raises=ValueError)
    size = lambda w: mx.quantize(w, group_size=16)  # noqa: E731
    yield Case("groups of 16", ((2, 64),), size, dtypes="f", layouts=ONE, raises=ValueError)


def _draw_words(rng: np.random.Generator, dtype: Dtype, shape: Shape) -> np.ndarray:
    return rng.integers(0, 2**32, shape, dtype=np.uint32)


def _draw_mode_scales(mode: str) -> Callable:
    """Bytes of scales of moderate size."""
    low, high = (0, 100) if mode == "nvfp4" else (117, 137)
    return lambda rng, dtype, shape: rng.integers(low, high, shape, dtype=np.uint8)


def _dequantize() -> Iterator[Case]:
    # The row's dtypes are those of scales and biases.
    def make(group_size: int, bits: int, rows: Shape, groups: int, **rest: Any) -> Case:
        def call(words: mx.array, scales: mx.array, biases: mx.array) -> mx.array:
            return mx.dequantize(words, scales, biases, group_size, bits)

        def reference(words: np.ndarray, scales: np.ndarray, biases: np.ndarray) -> np.ndarray:
            scales, biases = (np.repeat(x, group_size, axis=-1) for x in (scales, biases))
            return unpack(words, bits).astype(scales.dtype) * scales + biases

        def scale(words: np.ndarray, scales: np.ndarray, biases: np.ndarray) -> np.ndarray:
            return reference(words, np.abs(scales), np.abs(biases))

        shapes = ((*rows, groups * group_size * bits // 32), (*rows, groups), (*rows, groups))
        rest = {"fixed": ("uint32",), "draw": [_draw_words, None, None], "dtypes": "f", "differentiable": True} | rest
        return Case(f"{bits} bits, groups of {group_size}", shapes, call, reference, scale=scale,
                    result=lambda dtype: dtype, **rest)  # fmt: skip

    for bits in BITS:
        yield make(32, bits, (3,), 3)
    yield make(64, 4, (2, 3), 1)
    yield make(128, 3, (2,), 1, layouts=ONE)
    yield make(32, 8, (0,), 2, layouts=ONE, differentiable=False)
    for mode, (group_size, bits) in MODES.items():
        words = 3 * 32 * bits // 32
        yield Case(
            mode,
            ((2, words), (2, 96 // group_size)),
            lambda w, s, mode=mode: mx.dequantize(w, s, mode=mode, dtype=mx.float32),
            lambda w, s, mode=mode, bits=bits: decode_floats(unpack(w, bits), s, mode),
            fixed=("uint32", "uint8"),
            draw=[_draw_words, _draw_mode_scales(mode)],
            dtypes=("float32",),
            result="float32",
        )
    codes = np.arange(8, dtype=np.uint32).reshape(2, 4)
    plain = lambda s: mx.dequantize(mx.array(codes), s, s, 32, 4)  # noqa: E731
    reference = lambda s: np.repeat(s, 32, axis=-1) * (unpack(codes, 4) + 1)  # noqa: E731
    yield Case("codes from elsewhere", ((2, 1),), plain, reference, result=lambda dtype: dtype)
    bad = {"fixed": ("uint32",), "dtypes": "f", "layouts": ONE, "raises": ValueError}
    yield Case("scales of another shape", ((2, 8), (2, 2), (2, 2)), mx.dequantize, **bad)
    yield Case("no biases", ((2, 8), (2, 1)), mx.dequantize, **bad)


def _round_trip() -> Iterator[Case]:
    def call(x: mx.array) -> mx.array:
        # Times the identity: what the left side is rounded to.
        return mx.qqmm(x, mx.eye(x.shape[-1], dtype=x.dtype), mode="nvfp4")

    def reference(dtype: Dtype, stored: np.ndarray) -> np.ndarray:
        codes, scales = quantize_floats(to_computed(stored, dtype).astype(np.float32), "nvfp4")
        # The identity is not rounded: its groups hold a one, for which the scale is 1 / 6 to the nearest.
        eye = np.eye(stored.shape[-1], dtype=np.float32)
        right = decode_floats(*quantize_floats(eye, "nvfp4"), "nvfp4")
        return store(decode_floats(codes, scales, "nvfp4") @ right, dtype)

    yield Case("times identity", ((3, 32),), call, reference, on_stored=True, slack=2)
    straight = lambda x: mx.qqmm(x, mx.zeros((4, 32), dtype=x.dtype), mode="mxfp8")  # noqa: E731
    yield Case("times zero", ((2, 32),), straight, lambda x: np.zeros((2, 4)), differentiable=True)


def _to_fp8() -> Iterator[Case]:
    reference = lambda dtype, x: encode_e4m3(widen(x, dtype))  # noqa: E731
    wide = draw_uniform((-500, 500))
    yield Case("5x6x7", ((5, 6, 7),), mx.to_fp8, reference, result="uint8", on_stored=True, draw=wide)
    for name in ("float16", "bfloat16", "float32", "float64"):
        values = special_values(DTYPES[name])
        yield Case(f"special {name}", (values.shape,), mx.to_fp8, reference, result="uint8", on_stored=True,
                   draw=draw_these(values), dtypes=(name,), layouts=ONE)  # fmt: skip
    middles = (E4M3[1:126] + E4M3[:125]) / 2
    ties = np.concatenate([middles, -middles, np.nextafter(middles, 0), np.nextafter(middles, 500)])
    yield Case("ties", (ties.shape,), mx.to_fp8, reference, result="uint8", on_stored=True, draw=draw_these(ties),
               layouts=ONE)  # fmt: skip
    yield Case("0-d", ((),), mx.to_fp8, reference, result="uint8", on_stored=True)
    yield Case("empty", ((3, 0),), mx.to_fp8, reference, result="uint8", on_stored=True, layouts=ONE)


def _from_fp8() -> Iterator[Case]:
    every = draw_these(np.arange(256, dtype=np.uint8))
    for name in ("float16", "bfloat16", "float32", "float64"):
        call = lambda x, name=name: mx.from_fp8(x, getattr(mx, name))  # noqa: E731
        yield Case(f"all, to {name}", ((8, 32),), call, decode_e4m3, result=name, draw=every, zero_sign=True)
    yield Case("0-d", ((),), mx.from_fp8, decode_e4m3, result="bfloat16")
    yield Case("empty", ((0, 2),), mx.from_fp8, decode_e4m3, result="bfloat16", layouts=ONE)


class Packed:
    """A packed matrix as constants of a case: its arrays, and what they stand for in float64."""

    def __init__(self, shape: Shape, mode: str = "affine", group_size: int = 32, bits: int = 4) -> None:
        rng = np.random.default_rng(sum(shape) * 100 + bits)
        if mode != "affine":
            group_size, bits = MODES[mode]
        self.options = {"group_size": group_size, "bits": bits, "mode": mode}
        groups = shape[-1] // group_size
        self.words = rng.integers(0, 2**32, (*shape[:-1], shape[-1] * bits // 32), dtype=np.uint32)
        codes = unpack(self.words, bits)
        if mode == "affine":
            # Exact in every dtype.
            scales, biases = (rng.integers(-8, 8, (*shape[:-1], groups)) / 8 for _ in range(2))
            self.scales = [scales, biases]
            spread = [np.repeat(x, group_size, axis=-1) for x in self.scales]
            self.values = codes * spread[0] + spread[1]
            self.magnitude = codes * np.abs(spread[0]) + np.abs(spread[1])
        else:
            self.scales = [_draw_mode_scales(mode)(rng, None, (*shape[:-1], groups))]
            codes[...] = np.where((codes & 0x7F) == 0x7F, 0, codes) if bits == 8 else codes
            self.words = pack(codes, bits)
            self.values = decode_floats(codes, self.scales[0], mode)
            self.magnitude = np.abs(self.values)

    def arrays(self, like: mx.array) -> list[mx.array]:
        """Codes, scales and biases beside x; integers meet scales of float32."""
        if self.options["mode"] != "affine":
            return [mx.array(self.words), mx.array(self.scales[0])]
        dtype = like.dtype if mx.issubdtype(like.dtype, mx.floating) else mx.float32
        return [mx.array(self.words), *(mx.array(s.astype(np.float32)).astype(dtype) for s in self.scales)]


def _products() -> Iterator[Case]:
    def make(label: str, x: Shape, w: Packed, transpose: bool = True, **rest: Any) -> Case:
        def turned(values: np.ndarray) -> np.ndarray:
            return np.swapaxes(values, -1, -2) if transpose else values

        def call(a: mx.array) -> mx.array:
            words, *scales = w.arrays(a)
            return mx.quantized_matmul(a, words, *scales, transpose=transpose, **w.options)

        def reference(a: np.ndarray) -> np.ndarray:
            return np.matmul(a, turned(w.values).astype(a.dtype))

        def scale(a: np.ndarray) -> np.ndarray:
            return np.matmul(np.abs(a), turned(w.magnitude).astype(a.dtype))

        rest = {"layouts": ONE, "domain": (-4, 4), "accumulates": True} | rest
        return Case(label, (x,), call, reference, scale=scale, **rest)

    for bits in BITS:
        yield make(f"{bits} bits, vector", (1, 128), Packed((7, 128), bits=bits))
        yield make(f"{bits} bits, rows", (5, 7), Packed((7, 96), bits=bits), False)
    for size in (64, 128):
        yield make(f"groups of {size}", (3, 256), Packed((9, 256), group_size=size), differentiable=True)
        yield make(f"groups of {size}, not transposed", (3, 9), Packed((9, 256), group_size=size), False)
    for mode in MODES:
        yield make(mode, (6, 96), Packed((5, 96), mode), differentiable=True)
        yield make(f"{mode}, not transposed", (6, 5), Packed((5, 96), mode), False, differentiable=True)
        yield make(f"{mode}, many rows", (37, 96), Packed((5, 96), mode))
    yield make("nvfp4, odd groups", (2, 48), Packed((5, 48), "nvfp4"))
    yield make("nvfp4, odd groups, not transposed", (2, 5), Packed((5, 48), "nvfp4"), False)
    yield make("1-d", (64,), Packed((5, 64)))
    yield make("strides", (4, 64), Packed((5, 64)), layouts=Case.layouts)
    yield make("batch of x", (2, 3, 64), Packed((5, 64)), differentiable=True)
    yield make("batch of both", (2, 3, 64), Packed((2, 5, 64)), differentiable=True)
    yield make("batches that broadcast", (3, 1, 2, 64), Packed((2, 5, 64)), differentiable=True)
    yield make("batch of w", (3, 64), Packed((2, 5, 64)))
    yield make("many rows", (67, 128), Packed((33, 128)), differentiable=True)
    yield make("many rows, not transposed", (67, 33), Packed((33, 128)), False, differentiable=True)
    yield make("long", (2, 4096), Packed((3, 4096), group_size=64))
    yield make("wide, not transposed", (2, 3), Packed((3, 4096), group_size=64), False)
    yield make("no rows", (0, 64), Packed((5, 64)))
    yield make("no columns", (3, 64), Packed((0, 64)))
    yield make("nothing to sum", (3, 0), Packed((0, 64)), False)
    w = Packed((5, 64))
    bad = lambda x: mx.quantized_matmul(x, *w.arrays(x), **w.options)  # noqa: E731
    yield Case("inner sizes differ", ((3, 32),), bad, dtypes=("float32",), layouts=ONE, raises=ValueError)


def _gathered() -> Iterator[Case]:
    def make(label: str, x: Shape, w: Packed, lhs: Any, rhs: Any, **rest: Any) -> Case:
        transpose = rest.pop("transpose", True)

        def pick(a: np.ndarray, indices: Any) -> np.ndarray:
            flat = a.reshape(-1, *a.shape[-2:])
            return (a if indices is None else flat[np.asarray(indices)]).astype(a.dtype)

        def product(a: np.ndarray, values: np.ndarray) -> np.ndarray:
            values = np.swapaxes(values, -1, -2) if transpose else values
            return np.matmul(pick(a, lhs), pick(values.astype(a.dtype), rhs))

        def call(a: mx.array) -> mx.array:
            words, *scales = w.arrays(a)
            indices = {"lhs_indices": lhs, "rhs_indices": rhs}
            indices = {name: None if i is None else mx.array(i) for name, i in indices.items()}
            return mx.gather_qmm(a, words, *scales, **indices, transpose=transpose, **w.options)

        rest = {"layouts": ONE, "domain": (-4, 4), "accumulates": True} | rest
        return Case(label, (x,), call, lambda a: product(a, w.values), scale=lambda a: product(abs(a), w.magnitude),
                    **rest)  # fmt: skip

    three = Packed((3, 5, 64))
    yield make("right", (4, 2, 64), three, None, [2, 0, 1, 2], differentiable=True)
    yield make("left", (2, 2, 64), three, [1, 0, 1], None, differentiable=True)
    yield make("both, broadcast", (2, 2, 2, 64), three, [[3], [0]], [0, 0, 2], differentiable=True)
    yield make("from the end", (2, 2, 64), three, [-1, 0], [-3, -1])
    yield make("sorted", (20, 1, 64), three, None, [0] * 7 + [1] * 9 + [2] * 4, differentiable=True)
    yield make("not transposed", (4, 1, 5), three, None, [2, 0, 1, 2], transpose=False, differentiable=True)
    yield make("mxfp4", (4, 1, 64), Packed((3, 5, 64), "mxfp4"), None, [2, 0, 1, 2], differentiable=True)
    yield make("no products", (4, 1, 64), three, np.zeros(0, np.int32), np.zeros(0, np.int32))
    bad = {"dtypes": ("float32",), "layouts": ONE}
    beyond = lambda x: mx.gather_qmm(x, *three.arrays(x), rhs_indices=mx.array([3, 0]), **three.options)  # noqa: E731
    yield Case("index out of range", ((2, 1, 64),), beyond, raises=IndexError, **bad)
    plain = lambda x: mx.gather_qmm(x, *three.arrays(x), **three.options)  # noqa: E731
    yield Case("shapes do not broadcast", ((2, 1, 64),), plain, raises=ValueError, **bad)


BUILDERS = {
    "quantize": _quantize,
    "dequantize": _dequantize,
    "quantize_dequantize": _round_trip,
    "to_fp8": _to_fp8,
    "from_fp8": _from_fp8,
    "quantized_matmul": _products,
    "gather_qmm": _gathered,
}
