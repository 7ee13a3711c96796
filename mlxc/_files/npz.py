"""The .npz format: a zip archive of .npy files, one an array.

Called by load, savez and savez_compressed. Python's zipfile reads and writes the archive. Members are read at once,
not when they are used: an archive may be replaced by other programs while arrays of it are alive. What an archive
claims is checked before it is unpacked: members that overlap or that unpack to more than deflate can hold are refused.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import Any, BinaryIO

from mlxc._array import Array

from .npy import read_npy, write_npy

# What zipfile raises for an archive that is wrong somewhere.
ZIP_ERRORS = (
    zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, struct.error, EOFError, RuntimeError, OverflowError,
    UnicodeError, LookupError,
)  # fmt: skip
# The best that deflate can do.
LARGEST_RATIO = 1032
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def check_members(archive: zipfile.ZipFile, what: str) -> None:
    """Refuses an archive that claims what cannot be, before anything is unpacked."""
    archive.fp.seek(0, 2)
    size = archive.fp.tell()
    if sum(member.compress_size for member in archive.infolist()) > size:
        raise ValueError(f"{what}: the members overlap, together they are larger than the archive")
    seen = set()
    for member in archive.infolist():
        name = member.filename
        if name in seen:
            raise ValueError(f"{what}: two members have the name {name!r}")
        seen.add(name)
        if member.compress_type not in METHODS or member.flag_bits & 1:
            raise ValueError(f"{what}: {name!r} is encrypted or not stored or deflated, as members of .npz files are")
        ratio = 1 if member.compress_type == zipfile.ZIP_STORED else LARGEST_RATIO
        if member.file_size > member.compress_size * ratio:
            raise ValueError(
                f"{what}: {name!r} claims {member.file_size} bytes in {member.compress_size}, which cannot be"
            )


def read_npz(file: BinaryIO, what: str) -> dict[str, Array]:
    """All arrays of an archive, by their names without `.npy`, in its order."""
    arrays = {}
    try:
        with zipfile.ZipFile(file) as archive:
            check_members(archive, what)
            for member in archive.infolist():
                if member.is_dir():
                    continue
                with archive.open(member) as opened:
                    array = read_npy(opened, f"{what}: {member.filename!r}", member.file_size)
                    if opened.read(1):
                        raise ValueError(f"{what}: {member.filename!r} goes on after its array")
                name = member.filename.removesuffix(".npy")
                if name in arrays:
                    raise ValueError(f"{what}: two members have the name {name!r}")
                arrays[name] = array
    except ZIP_ERRORS as error:
        raise ValueError(f"{what}: not a sound zip archive: {error}") from None
    return arrays


def name_arrays(arrays: tuple[Any, ...], named: dict[str, Any], function: str) -> dict[str, Any]:
    """One dict of both; the arrays without a name get arr_0, arr_1 and so on."""
    together = dict(named)
    for i, array in enumerate(arrays):
        if f"arr_{i}" in together:
            raise ValueError(f"[{function}] arr_{i} is both given by name and the name of argument {i}")
        together[f"arr_{i}"] = array
    for name in together:
        if "\0" in name:
            raise ValueError(f"[{function}] names in an archive end at a zero byte, which {name!r} has")
    return together


def write_npz(file: BinaryIO, arrays: dict[str, Array], compressed: bool) -> None:
    """Writes an archive; the same arrays make the same bytes."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            member.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
            member.external_attr = 0o600 << 16
            with archive.open(member, "w", force_zip64=True) as opened:
                write_npy(opened, array)
