"""The fifteen dtypes as the kit sees them: how values travel between NumPy and mlxc, bit for bit.

Values of an mlxc array are held in NumPy as "stored": the same bits, bfloat16 as uint16, which NumPy has no
name for. "Wide" values are the same numbers in a type with room to compute a reference in: float64 for the
narrower floats, extended precision for float64, the integer types themselves for integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import mlxc as mx


@dataclass(frozen=True)
class Dtype:
    name: str
    kind: str  # b bool, u unsigned, i signed, f floating, c complex
    number: int  # MLXC_... of types.h
    stored: np.dtype
    mantissa: int = 0  # bits after the point, of floats and of the parts of complex numbers
    least_exponent: int = 0  # of the smallest normal number
    greatest: float = 0.0

    @property
    def mx(self) -> mx.Dtype:
        return getattr(mx, "bool_" if self.name == "bool" else self.name)

    @property
    def is_float(self) -> bool:
        return self.kind in "fc"

    @property
    def wide(self) -> np.dtype:
        if self.kind == "f":
            return np.dtype(np.longdouble if self.name == "float64" else np.float64)
        if self.kind == "c":
            return np.dtype(np.clongdouble if self.name == "complex128" else np.complex128)
        return self.stored


_HALF = (10, -14, 65504.0)
_BRAIN = (7, -126, float.fromhex("0x1.fep127"))
_SINGLE = (23, -126, float(np.finfo(np.float32).max))
_DOUBLE = (52, -1022, float(np.finfo(np.float64).max))

DTYPES: dict[str, Dtype] = {
    d.name: d
    for d in (
        Dtype("bool", "b", 0, np.dtype(np.bool_)),
        Dtype("uint8", "u", 1, np.dtype(np.uint8)),
        Dtype("uint16", "u", 2, np.dtype(np.uint16)),
        Dtype("uint32", "u", 3, np.dtype(np.uint32)),
        Dtype("uint64", "u", 4, np.dtype(np.uint64)),
        Dtype("int8", "i", 5, np.dtype(np.int8)),
        Dtype("int16", "i", 6, np.dtype(np.int16)),
        Dtype("int32", "i", 7, np.dtype(np.int32)),
        Dtype("int64", "i", 8, np.dtype(np.int64)),
        Dtype("float16", "f", 9, np.dtype(np.float16), *_HALF),
        Dtype("bfloat16", "f", 10, np.dtype(np.uint16), *_BRAIN),
        Dtype("float32", "f", 11, np.dtype(np.float32), *_SINGLE),
        Dtype("float64", "f", 12, np.dtype(np.float64), *_DOUBLE),
        Dtype("complex64", "c", 13, np.dtype(np.complex64), *_SINGLE),
        Dtype("complex128", "c", 14, np.dtype(np.complex128), *_DOUBLE),
    )
}

_ACCEPTS = {"any": "buifc", "number": "uifc", "real": "buif", "integer": "bui", "inexact": "fc", "floating": "f"}


def accepted_dtypes(accepts: str) -> list[Dtype]:
    """The dtypes that a row's `accepts` stands for."""
    if accepts in ("uint32", "uint8"):
        return [DTYPES[accepts]]
    if accepts == "not_half":
        return [d for d in DTYPES.values() if d.name not in ("float16", "bfloat16")]
    return [d for d in DTYPES.values() if d.kind in _ACCEPTS[accepts]]


def promote(a: Dtype, b: Dtype) -> Dtype:
    """The dtype two arrays promote to; TypeError where no integer type holds both."""
    if a == b:
        return a
    kinds = {a.kind, b.kind}
    if "c" in kinds:
        double = {"float64", "complex128"} & {a.name, b.name}
        return DTYPES["complex128" if double else "complex64"]
    if "f" in kinds:
        floats = [d for d in (a, b) if d.kind == "f"]
        if len(floats) == 1:
            return floats[0]
        if {a.name, b.name} == {"float16", "bfloat16"}:
            return DTYPES["float32"]
        return max(floats, key=lambda d: d.mantissa)
    if "b" in kinds:
        return a if b.kind == "b" else b
    result = np.promote_types(a.stored, b.stored)
    if result.kind == "f":
        raise TypeError(f"{a.name} and {b.name} do not promote")
    return DTYPES[result.name]


def store(values: np.ndarray, dtype: Dtype) -> np.ndarray:
    """Wide values rounded to the dtype, as stored bits."""
    values = np.asarray(values)
    if dtype.kind != "c" and values.dtype.kind == "c":
        values = values.real
    with np.errstate(over="ignore", invalid="ignore"):
        if dtype.name == "bfloat16":
            return _round_to_bfloat16(values.astype(np.float64))
        return values.astype(dtype.stored)


def widen(stored: np.ndarray, dtype: Dtype) -> np.ndarray:
    """Stored bits as exact wide values."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        if dtype.name == "bfloat16":
            return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        return stored.astype(dtype.wide)


def to_mlxc(stored: np.ndarray, dtype: Dtype) -> mx.array:
    if dtype.name == "bfloat16":
        return mx.array(stored, dtype=mx.uint16).view(mx.bfloat16)
    return mx.array(stored, dtype=dtype.mx)


def from_mlxc(array: mx.array) -> np.ndarray:
    """The stored bits of an array, which this evaluates."""
    return np.array(array.view(mx.uint16) if array.dtype == mx.bfloat16 else array)


def dtype_of(array: mx.array) -> Dtype:
    for dtype in DTYPES.values():
        if array.dtype == dtype.mx:
            return dtype
    raise TypeError(f"an array of unknown dtype {array.dtype}")


def _round_to_bfloat16(values: np.ndarray) -> np.ndarray:
    # One rounding, straight from float64: going by way of float32 would round twice.
    exponent = np.maximum(np.frexp(values)[1] - 1, _BRAIN[1])
    step = np.ldexp(1.0, exponent - _BRAIN[0])
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.where(np.isfinite(values), np.copysign(np.rint(values / step) * step, values), values)
        bits = np.asarray(rounded, np.float32).view(np.uint32)
    return (bits >> np.uint32(16)).astype(np.uint16).reshape(values.shape)
