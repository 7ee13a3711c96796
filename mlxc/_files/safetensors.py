"""The safetensors format: named arrays, one after the other, behind a JSON header that says where each lies.

Called by load and save_safetensors. The file is mapped and the arrays use its pages where their elements are aligned,
so that loading reads nothing but the header and memory follows what is used. As the format demands, the arrays cover
the file without gaps and without overlap; anything else is refused before an array is made.
"""

from __future__ import annotations

import json
import sys
from typing import Any, BinaryIO

from mlxc._array import Array
from mlxc._bytes import array_from_bytes, bytes_of_array
from mlxc._dtype import (
    Dtype,
    bfloat16,
    bool_,
    complex64,
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

DTYPES: dict[str, Dtype] = {
    "BOOL": bool_, "U8": uint8, "I8": int8, "U16": uint16, "I16": int16, "F16": float16, "BF16": bfloat16,
    "U32": uint32, "I32": int32, "F32": float32, "U64": uint64, "I64": int64, "F64": float64, "C64": complex64,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}
# Read as their bytes, which from_fp8 understands.
BYTES = {"F8_E4M3": uint8, "F8_E8M0": uint8}
HEADER_LIMIT = 100_000_000


def one_of_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a key that comes twice is an error."""
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name comes twice")
    return made


def parse_header(data: memoryview, what: str) -> tuple[dict[str, Any], int]:
    """The header as a dict, and where the arrays begin."""
    if len(data) < 8:
        raise ValueError(f"{what}: the file is truncated, it has {len(data)} bytes")
    length = int.from_bytes(data[:8], "little")
    if length > min(len(data) - 8, HEADER_LIMIT):
        raise ValueError(f"{what}: a header of {length} bytes is not in a file of {len(data)}")
    try:
        header = json.loads(str(data[8 : 8 + length], "utf-8"), object_pairs_hook=one_of_each)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what}: the header is not sound JSON: {error}") from None
    if not isinstance(header, dict):
        raise ValueError(f"{what}: the header is no JSON object")
    return header, 8 + length


def parse_entry(name: str, entry: Any, what: str) -> tuple[Dtype, tuple[int, ...], int, int]:
    """(dtype, shape, first byte, byte behind the last) of an array."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{what}: the entry of {name!r} is not dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or not (dtype in DTYPES or dtype in BYTES):
        raise ValueError(f"{what}: {name!r} has elements of type {dtype!r}, for which there is no dtype in mlxc")
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < 2**63 for n in numbers):
            raise ValueError(f"{what}: the shape or the offsets of {name!r} are not lists of sizes: {entry!r}")
    if len(offsets) != 2:
        raise ValueError(f"{what}: {name!r} has {len(offsets)} data_offsets, not 2")
    found = DTYPES.get(dtype) or BYTES[dtype]
    nbytes = found.size
    for size in shape:
        nbytes *= size
    if offsets[1] - offsets[0] != nbytes:
        raise ValueError(f"{what}: {name!r} of dtype {dtype} and shape {shape} needs {nbytes} bytes, not {offsets}")
    return found, tuple(shape), offsets[0], offsets[1]


def check_cover(entries: dict[str, tuple[Dtype, tuple[int, ...], int, int]], size: int, what: str) -> None:
    """The arrays must cover the bytes behind the header, each byte once."""
    reached = 0
    for name, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != reached:
            how = "overlaps the array before it" if begin < reached else "leaves a gap before it"
            raise ValueError(f"{what}: {name!r} begins at byte {begin} and {how}, which ends at {reached}")
        reached = end
    if reached != size:
        how = "is truncated" if reached > size else "has bytes that are no array's"
        raise ValueError(f"{what}: the file {how}: the arrays end at byte {reached} of {size}")


def read_safetensors(data: memoryview, what: str) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays by name, in the order of the header, and the metadata."""
    if sys.byteorder != "little":
        raise OSError(f"{what}: the format is read on little-endian machines only")
    header, start = parse_header(data, what)
    metadata = header.pop("__metadata__", None)
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError(f"{what}: the metadata are not names and strings")
    entries = {name: parse_entry(name, entry, what) for name, entry in header.items()}
    check_cover(entries, len(data) - start, what)
    arrays = {
        name: array_from_bytes(data, dtype, shape, start + begin) for name, (dtype, shape, begin, _) in entries.items()
    }
    return arrays, metadata


def check_contents(arrays: dict[str, Array], metadata: dict[str, str] | None) -> None:
    """Refuses what the format cannot hold, before a file is touched."""
    if metadata is not None and not (
        isinstance(metadata, dict) and all(type(k) is str and type(v) is str for k, v in metadata.items())
    ):
        raise TypeError("[save_safetensors] metadata is a dict of strings by strings")
    for name, array in arrays.items():
        if array.dtype not in NAMES:
            raise TypeError(f"[save_safetensors] the format has no {array.dtype.name}, which {name!r} is")
        if name == "__metadata__":
            raise ValueError("[save_safetensors] '__metadata__' is a reserved name")


def write_safetensors(file: BinaryIO, arrays: dict[str, Array], metadata: dict[str, str] | None) -> None:
    """Writes the wider dtypes first, so that every array is aligned where the file is mapped."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    ordered = sorted(arrays.items(), key=lambda item: (-item[1].dtype.size, item[0]))
    reached = 0
    for name, array in ordered:
        end = reached + array.nbytes
        header[name] = {"dtype": NAMES[array.dtype], "shape": list(array.shape), "data_offsets": [reached, end]}
        reached = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise ValueError(f"[save_safetensors] the header has {len(text)} bytes, readers take {HEADER_LIMIT} at most")
    file.write(len(text).to_bytes(8, "little") + text)
    for _, array in ordered:
        file.write(bytes_of_array(array))
