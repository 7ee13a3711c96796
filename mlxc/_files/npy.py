"""The .npy format: one array, as NumPy writes it.

Called by load and save, and by npz.py for the members of an archive. A file is a magic number, a version, the length
of a header, the header (a Python dict as text, which is matched and never evaluated) and the elements. bfloat16, which
NumPy has no name for, is stored as two raw bytes ("V2"), as MLX and ml_dtypes do.
"""

from __future__ import annotations

import re
import sys
from typing import Any, BinaryIO

from mlxc._array import Array
from mlxc._bytes import array_from_bytes, bytes_of_array
from mlxc._dtype import (
    Dtype,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

from .access import read_exactly, remaining_size

MAGIC = b"\x93NUMPY"
DTYPES: dict[str, Dtype] = {
    "b1": bool_, "u1": uint8, "u2": uint16, "u4": uint32, "u8": uint64, "i1": int8, "i2": int16, "i4": int32,
    "i8": int64, "f2": float16, "f4": float32, "f8": float64, "c8": complex64, "c16": complex128, "V2": bfloat16,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}
KINDS = {"U": "str", "S": "bytes", "O": "object", "M": "datetime64", "m": "timedelta64", "V": "raw bytes"}
HEADER_LIMIT = 1 << 16
ITEM = re.compile(
    r"""\s*(['"])(?P<key>\w+)\1\s*:\s*
        (?: (['"])(?P<text>[^'"\\]*)\3 | (?P<flag>True|False) | \((?P<sizes>[\d\s,]*)\) | (?P<fields>\[.*) )
        \s*(?:,|(?=\})|$)""",
    re.VERBOSE | re.ASCII,
)


def dtype_of(descr: str, what: str) -> tuple[Dtype, bool]:
    """The dtype of NumPy's short name, and whether its bytes are in the other order than this machine's."""
    order, name = (descr[0], descr[1:]) if descr[:1] in ("<", ">", "|", "=") else ("=", descr)
    if name not in DTYPES:
        kind = KINDS.get(name[:1], "unknown")
        raise ValueError(f"{what}: elements of type {descr!r} ({kind}) have no dtype in mlxc")
    own = "<" if sys.byteorder == "little" else ">"
    return DTYPES[name], order in "<>" and order != own and DTYPES[name].size > 1


def parse_header(text: str, what: str) -> tuple[str, bool, tuple[int, ...]]:
    """(type of the elements, whether the first axis varies fastest, shape)."""
    found: dict[str, Any] = {}
    place = re.match(r"\s*\{", text)
    at = place.end() if place else 0
    while place and (item := ITEM.match(text, at)):
        if item["fields"]:
            raise ValueError(f"{what}: elements with fields (structured types) have no dtype in mlxc")
        if item["key"] in found:
            raise ValueError(f"{what}: the header has {item['key']!r} twice")
        value: Any = item["text"] if item["text"] is not None else item["flag"]
        found[item["key"]] = parse_shape(item["sizes"], what) if item["sizes"] is not None else value
        at = item.end()
    if not place or not re.fullmatch(r"\s*\}\s*", text[at:]) or set(found) != {"descr", "fortran_order", "shape"}:
        raise ValueError(f"{what}: the header is not that of a .npy file: {text[:100]!r}")
    descr, fortran, shape = found["descr"], found["fortran_order"], found["shape"]
    if descr in (None, "True", "False") or fortran not in ("True", "False") or not isinstance(shape, tuple):
        raise ValueError(f"{what}: the header has a value of the wrong kind: {text[:100]!r}")
    return descr, fortran == "True", shape


def parse_shape(text: str, what: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if parts[-1] == "":
        parts.pop()
    if not all(part.isdecimal() and len(part) < 20 for part in parts):
        raise ValueError(f"{what}: the shape ({text[:100]}) is not a tuple of sizes")
    return tuple(map(int, parts))


def read_header(file: BinaryIO, what: str) -> tuple[str, bool, tuple[int, ...], int]:
    """The parsed header and the number of bytes that it took."""
    start = bytes(read_exactly(file, 8, what))
    if start[:6] != MAGIC:
        raise ValueError(f"{what}: not a .npy file, it begins with {start[:6]!r}")
    if start[6] not in (1, 2, 3) or start[7] != 0:
        raise ValueError(f"{what}: .npy version {start[6]}.{start[7]} is not known, 1.0 to 3.0 are")
    wide = 2 if start[6] == 1 else 4
    length = int.from_bytes(read_exactly(file, wide, what), "little")
    if length > HEADER_LIMIT:
        raise ValueError(f"{what}: a header of {length} bytes is longer than any array needs ({HEADER_LIMIT})")
    raw = bytes(read_exactly(file, length, what))
    try:
        text = raw.decode("utf-8" if start[6] == 3 else "latin-1")
    except UnicodeDecodeError:
        raise ValueError(f"{what}: the header is not text in UTF-8") from None
    return *parse_header(text, what), 8 + wide + length


def read_npy(file: BinaryIO, what: str, known: int | None = None) -> Array:
    """Reads one array and leaves the file behind it. `known` is how many bytes the file has left, if that is known."""
    if known is None:
        known = remaining_size(file)
    descr, fortran, shape, used = read_header(file, what)
    dtype, swapped = dtype_of(descr, what)
    count = 1
    for size in shape:
        count *= size
    data = read_exactly(file, count * dtype.size, what, None if known is None else known - used)
    if swapped:
        data = swap_bytes(data, dtype)
    return array_from_bytes(data, dtype, shape, 0, fortran)


def swap_bytes(data: memoryview, dtype: Dtype) -> memoryview:
    """The elements in the other byte order; both halves of complex numbers are swapped by themselves."""
    import numpy as np

    size = dtype.size // 2 if dtype in (complex64, complex128) else dtype.size
    return memoryview(np.frombuffer(data, f"u{size}").byteswap()).toreadonly()


def write_npy(file: BinaryIO, a: Array) -> None:
    """Writes version 1.0, the elements at a multiple of 64 bytes from its start."""
    order = "|" if a.dtype.size == 1 else "<" if sys.byteorder == "little" else ">"
    text = f"{{'descr': '{order}{NAMES[a.dtype]}', 'fortran_order': False, 'shape': {a.shape!r}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    file.write(MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii"))
    file.write(bytes_of_array(a))
