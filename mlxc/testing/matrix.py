"""The support matrix: which device has a kernel of its own for which op and dtype. Data first, then a text.

Ops that only make a window on their input, or that the core runs itself, need no kernel, nor does a dtype that is cast
before the op sees it; what has none of these is decomposed, if the device has what that takes, or left to the CPU
(MLXC_FALLBACK).
"""

from __future__ import annotations

from .clib import CPU, GPU, kernel_exists
from .dtypes import DTYPES, accepted_dtypes
from .table import read_table

KERNEL, VIEW, CORE, CAST, MISSING, REFUSED = "kernel", "view", "core", "cast", "missing", "refused"
_MARKS = {KERNEL: "x", VIEW: "v", CORE: "o", CAST: "c", MISSING: ".", REFUSED: " "}
# Of ops whose shape rule casts, what reaches a kernel as it is.
_UNCAST = {
    "fft": ("complex64", "complex128"),
    "rfft": ("float32", "float64"),
    "irfft": ("complex64", "complex128"),
    "cross_entropy": ("float16", "bfloat16", "float32", "float64"),
}
_SHORT = ("b", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "c64", "c128")


def support_matrix(device: str = "cpu") -> dict[str, dict[str, str]]:
    """matrix[op][dtype] is "kernel", "view", "core" (the core runs it), "cast", "missing" or "refused" (the op does not
    take the dtype).
    """
    kind = {"cpu": CPU, "gpu": GPU}[device]
    matrix: dict[str, dict[str, str]] = {}
    for row in read_table().values():
        accepted = accepted_dtypes(row.accepts)
        matrix[row.name] = {}
        for dtype in DTYPES.values():
            if dtype not in accepted:
                entry = REFUSED
            elif row.view:
                entry = VIEW
            elif row.run:
                entry = CORE
            elif (row.dtype in ("float", "promote_float") or row.accepts == "not_half") and not dtype.is_float:
                entry = CAST
            elif kernel_exists(kind, row.number, dtype.number):
                entry = KERNEL
            else:
                entry = CAST if dtype.name not in _UNCAST.get(row.name, DTYPES) else MISSING
            matrix[row.name][dtype.name] = entry
    return matrix


def format_matrix(matrix: dict[str, dict[str, str]]) -> str:
    """What support_matrix gives, as lines of text: an op a line, a dtype a column."""
    width = max(map(len, matrix))
    lines = [" " * width + " " + " ".join(f"{name:>4}" for name in _SHORT)]
    for op, entries in matrix.items():
        lines.append(f"{op:<{width}} " + " ".join(f"{_MARKS[entry]:>4}" for entry in entries.values()))
    lines.append("x kernel of its own   v view, o core: need none   c cast first   . decomposed, or left to the CPU")
    return "\n".join(lines)
