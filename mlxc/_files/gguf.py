"""The GGUF format, versions 2 and 3: typed metadata and named tensors, many of them in blocks of a few bits a weight.

Called by load and save_gguf. The file is mapped; tensors of plain numbers use its pages, quantised ones are turned
into MLX's layout or into float16 (gguf_blocks.py) when they are used. Every length is checked against what is left of
the file before it is believed, and every loop consumes bytes, so a file costs no more than its size.
"""

from __future__ import annotations

import struct
import sys
from typing import Any, BinaryIO

from mlxc._array import Array
from mlxc._bytes import array_from_bytes, bytes_of_array
from mlxc._dtype import (
    Dtype,
    bfloat16,
    bool_,
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

from .gguf_blocks import BLOCKS, TYPE_NAMES, expand_blocks

# Types of metadata: numbers by their dtype, then strings and arrays.
NUMBERS: dict[int, Dtype] = {
    0: uint8, 1: int8, 2: uint16, 3: int16, 4: uint32, 5: int32, 6: float32, 7: bool_, 10: uint64, 11: int64,
    12: float64,
}  # fmt: skip
NUMBER_TYPES = {dtype: number for number, dtype in NUMBERS.items()}
STRING, ARRAY = 8, 9
# Types of tensors that are plain numbers.
PLAIN: dict[int, Dtype] = {
    0: float32, 1: float16, 24: int8, 25: int16, 26: int32, 27: int64, 28: float64, 30: bfloat16,
}  # fmt: skip
PLAIN_TYPES = {dtype: number for number, dtype in PLAIN.items()}
ALIGNMENT = 32
MOST_DIMS = 8
DEEPEST = 4


class Cursor:
    """A place in the file that moves on with what is read and never past the end."""

    def __init__(self, data: memoryview, what: str) -> None:
        self.data = data
        self.what = what
        self.at = 0

    def skip(self, size: int) -> int:
        """Where the next `size` bytes begin; they must be there."""
        begin = self.at
        if size > len(self.data) - begin:
            raise ValueError(f"{self.what}: the file is truncated, {size} bytes at {begin} are not in it")
        self.at += size
        return begin

    def u32(self) -> int:
        return struct.unpack_from("<I", self.data, self.skip(4))[0]

    def u64(self) -> int:
        return struct.unpack_from("<Q", self.data, self.skip(8))[0]

    def string(self) -> bytes:
        size = self.u64()
        begin = self.skip(size)
        return bytes(self.data[begin : begin + size])

    def name(self) -> str:
        try:
            return self.string().decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{self.what}: a name is not text in UTF-8") from None


def read_value(cursor: Cursor, kind: int, depth: int = 0) -> Any:
    """A number as an array, a string as str; an array of numbers as an array, of anything else as a list."""
    if kind in NUMBERS:
        dtype = NUMBERS[kind]
        return array_from_bytes(cursor.data, dtype, (), cursor.skip(dtype.size))
    if kind == STRING:
        # Tokens of some vocabularies are no whole characters; surrogates keep their bytes.
        return cursor.string().decode("utf-8", "surrogateescape")
    if kind != ARRAY:
        raise ValueError(f"{cursor.what}: metadata of type {kind} are not known, 0 to 12 are")
    if depth == DEEPEST:
        raise ValueError(f"{cursor.what}: metadata are arrays of arrays more than {DEEPEST} deep")
    item, count = cursor.u32(), cursor.u64()
    if item in NUMBERS:
        dtype = NUMBERS[item]
        return array_from_bytes(cursor.data, dtype, (count,), cursor.skip(count * dtype.size))
    if item == STRING:
        return read_strings(cursor, count)
    values: list[Any] = []
    while len(values) < count:
        values.append(read_value(cursor, item, depth + 1))
    return values


def read_strings(cursor: Cursor, count: int) -> list[str]:
    """What read_value does with each string; vocabularies have a hundred thousand of them."""
    data, at, size = cursor.data, cursor.at, len(cursor.data)
    values: list[str] = []
    while len(values) < count:
        begin = at + 8
        at = begin + int.from_bytes(data[at:begin], "little")
        if at > size or begin > size:
            raise ValueError(f"{cursor.what}: the file is truncated, string {len(values)} of {count} is not in it")
        values.append(str(data[begin:at], "utf-8", "surrogateescape"))
    cursor.at = at
    return values


def read_metadata(cursor: Cursor, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        key = cursor.name()
        if key in metadata:
            raise ValueError(f"{cursor.what}: the metadata have {key!r} twice")
        metadata[key] = read_value(cursor, cursor.u32())
    return metadata


def read_alignment(metadata: dict[str, Any], what: str) -> int:
    given = metadata.get("general.alignment")
    if given is None:
        return ALIGNMENT
    if not isinstance(given, Array) or given.dtype != uint32 or given.ndim:
        raise ValueError(f"{what}: general.alignment must be a uint32")
    alignment = given.item()
    if alignment < 8 or alignment > 1 << 20 or alignment & (alignment - 1):
        raise ValueError(f"{what}: general.alignment is {alignment}, not a power of two from 8 to {1 << 20}")
    return alignment


class Tensor:
    """The description of a tensor: its type, its shape as arrays have it, and its bytes in the data section."""

    def __init__(self, cursor: Cursor) -> None:
        self.name = cursor.name()
        ndim = cursor.u32()
        if ndim > MOST_DIMS:
            raise ValueError(f"{cursor.what}: {self.name!r} has {ndim} dimensions, {MOST_DIMS} at most are allowed")
        self.shape = tuple(reversed([cursor.u64() for _ in range(ndim)]))
        self.type = cursor.u32()
        self.begin = cursor.u64()
        if self.type in PLAIN:
            per_block, size = 1, PLAIN[self.type].size
        elif self.type in BLOCKS:
            per_block, size = BLOCKS[self.type]
        else:
            name = TYPE_NAMES.get(self.type, self.type)
            raise ValueError(f"{cursor.what}: {self.name!r} is of type {name}, which has no dtype in mlxc")
        if per_block > 1 and (not self.shape or self.shape[-1] % per_block):
            raise ValueError(
                f"{cursor.what}: {self.name!r} of shape {self.shape} has rows that are not blocks of {per_block}"
            )
        count = 1
        for dim in self.shape:
            count *= dim
        self.end = self.begin + count // per_block * size


def check_places(tensors: list[Tensor], size: int, alignment: int, what: str) -> None:
    """Tensors must be in the file, aligned, and not overlap."""
    reached, names = 0, set()
    for tensor in sorted(tensors, key=lambda t: (t.begin, t.end)):
        if tensor.name in names:
            raise ValueError(f"{what}: two tensors have the name {tensor.name!r}")
        names.add(tensor.name)
        if tensor.begin % alignment:
            raise ValueError(f"{what}: {tensor.name!r} begins at {tensor.begin}, not a multiple of {alignment}")
        if tensor.begin < reached:
            raise ValueError(f"{what}: {tensor.name!r} begins at {tensor.begin} and overlaps another tensor")
        if tensor.end > size:
            raise ValueError(f"{what}: the file is truncated: {tensor.name!r} ends at {tensor.end} of {size}")
        reached = tensor.end


def read_gguf(data: memoryview, what: str) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays by name and the metadata. A quantised tensor X.weight becomes X.weight, X.scales and X.biases."""
    if sys.byteorder != "little":
        raise OSError(f"{what}: the format is read on little-endian machines only")
    if bytes(data[:4]) != b"GGUF":
        raise ValueError(f"{what}: not a GGUF file, it begins with {bytes(data[:4])!r}")
    cursor = Cursor(data, what)
    cursor.skip(4)
    version = cursor.u32()
    if version not in (2, 3):
        known = "it is big-endian" if version.to_bytes(4, "big")[0] in (2, 3) else f"it has version {version}"
        raise ValueError(f"{what}: {known}, only little-endian files of version 2 and 3 are read")
    n_tensors, n_values = cursor.u64(), cursor.u64()
    metadata = read_metadata(cursor, n_values)
    tensors = [Tensor(cursor) for _ in range(n_tensors)]
    alignment = read_alignment(metadata, what)
    start = cursor.at + -cursor.at % alignment
    check_places(tensors, max(0, len(data) - start), alignment, what)
    arrays: dict[str, Array] = {}
    for tensor in tensors:
        if tensor.type in PLAIN:
            made = {tensor.name: array_from_bytes(data, PLAIN[tensor.type], tensor.shape, start + tensor.begin)}
        else:
            made = expand_blocks(data, tensor.name, tensor.type, tensor.shape, start + tensor.begin)
        for name, array in made.items():
            if name in arrays:
                raise ValueError(f"{what}: two tensors make arrays with the name {name!r}")
            arrays[name] = array
    return arrays, metadata


def check_contents(arrays: dict[str, Array], metadata: Any) -> None:
    """Refuses what the format cannot hold, before a file is touched."""
    if not isinstance(metadata, dict):
        raise TypeError(f"[save_gguf] metadata is a dict, got {type(metadata).__name__}")
    for name, array in arrays.items():
        if array.dtype not in PLAIN_TYPES:
            known = ", ".join(dtype.name for dtype in PLAIN_TYPES)
            raise TypeError(f"[save_gguf] the format has no {array.dtype.name}, which {name!r} is, but {known}")
        if array.ndim > MOST_DIMS:
            raise ValueError(f"[save_gguf] {name!r} has {array.ndim} dimensions, {MOST_DIMS} at most are allowed")
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise TypeError(f"[save_gguf] names of metadata are strings, got {key!r}")
        if key == "general.alignment":
            raise ValueError("[save_gguf] general.alignment is not for the caller to set")
        if isinstance(value, Array):
            check_number(key, value)
        elif not isinstance(value, str) and not (
            isinstance(value, list) and all(isinstance(item, str) for item in value)
        ):
            raise TypeError(f"[save_gguf] metadata are arrays, strings or lists of strings; {key!r} is {value!r:.100}")


def check_number(key: str, value: Array) -> None:
    if value.dtype not in NUMBER_TYPES:
        raise TypeError(f"[save_gguf] the format has no metadata of {value.dtype.name}, which {key!r} is")
    if value.ndim > 1 or value.size == 0:
        raise ValueError(f"[save_gguf] metadata are scalars or not empty and 1-d; {key!r} has shape {value.shape}")


def string_bytes(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(raw)) + raw


def value_bytes(value: Any) -> bytes:
    """The type and the value of an item of the metadata."""
    if isinstance(value, str):
        return struct.pack("<I", STRING) + string_bytes(value)
    if isinstance(value, list):
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(string_bytes, value))
    number = NUMBER_TYPES[value.dtype]
    head = struct.pack("<I", number) if value.ndim == 0 else struct.pack("<IIQ", ARRAY, number, value.size)
    return head + bytes(bytes_of_array(value))


def write_gguf(file: BinaryIO, arrays: dict[str, Array], metadata: dict[str, Any]) -> None:
    """Writes version 3 with an alignment of 32."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(arrays), len(metadata))]
    for key, value in metadata.items():
        head += string_bytes(key), value_bytes(value)
    reached = 0
    for name, array in arrays.items():
        dims = [*reversed(array.shape)]
        head.append(string_bytes(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims))
        head.append(struct.pack("<IQ", PLAIN_TYPES[array.dtype], reached))
        reached += array.nbytes + -array.nbytes % ALIGNMENT
    raw = b"".join(head)
    file.write(raw + bytes(-len(raw) % ALIGNMENT))
    for array in arrays.values():
        file.write(bytes_of_array(array))
        file.write(bytes(-array.nbytes % ALIGNMENT))
