"""How files are opened: what may name a file, replacing one in a single step, mapping and reading with a bound.

Called by the readers and writers beside this file. A file at a path is written beside its place and renamed, so that
a failed save leaves the old file as it was and arrays that are mapped from the old file keep their values. Nothing
here allocates more than what a file really holds.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

CHUNK = 1 << 20


def path_of(file: Any) -> str | None:
    """The path that a str, bytes or path object stands for; None for a file object."""
    return os.fsdecode(file) if isinstance(file, (str, bytes, os.PathLike)) else None


def name_of(file: Any) -> str:
    """What to call a file in messages."""
    return path_of(file) or str(getattr(file, "name", f"<{type(file).__name__}>"))


def check_method(file: Any, method: str, function: str) -> None:
    if not hasattr(file, method):
        raise TypeError(
            f"[{function}] file is a path or a file object with {method}(), opened in binary mode; got "
            f"{type(file).__name__}"
        )


@contextmanager
def open_to_write(file: Any, extension: str, function: str) -> Iterator[BinaryIO]:
    """A file to write to. A path gets the extension if it lacks it, and its file appears when all is written."""
    path = path_of(file)
    if path is None:
        check_method(file, "write", function)
        if isinstance(file, io.RawIOBase):
            yield from write_whole(file)
        else:
            yield file
        return
    path = os.path.realpath(path if path.endswith(extension) else path + extension)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "wb") as out:
            yield out
        return
    if mode is not None and not os.access(path, os.W_OK):
        raise PermissionError(f"[{function}] {path} is write-protected")
    folder = os.path.dirname(path)
    beside = os.path.join(folder, f".mlxc-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(beside, flags, 0o666)
    except OSError as error:  # names the file that was asked for, not the one beside it
        raise OSError(error.errno, f"[{function}] cannot make the file: {error.strerror}", path) from None
    try:
        with open(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        if mode is not None:
            os.chmod(beside, stat.S_IMODE(mode))
        os.replace(beside, path)
    except BaseException:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
    keep_rename(folder)


def write_whole(file: io.RawIOBase) -> Iterator[BinaryIO]:
    """A raw file may take a part of what it is given; a buffer before it goes on until all is written."""
    buffered = io.BufferedWriter(file)
    try:
        yield buffered
        buffered.flush()
    finally:
        buffered.detach()


def keep_rename(folder: str) -> None:
    """Makes a rename outlast a loss of power, where the system lets a folder be opened."""
    if os.name != "posix":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder that can be written to but not be read
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that have no such thing
            raise
    finally:
        os.close(handle)


@contextmanager
def open_to_read(file: Any, function: str) -> Iterator[BinaryIO]:
    """A file to read from; one that was opened by the caller stays open."""
    path = path_of(file)
    if path is None:
        check_method(file, "read", function)
        yield file
        return
    if not stat.S_ISREG(os.stat(path).st_mode) and not os.path.isdir(path):
        raise OSError(f"[{function}] {path} is no regular file: open it and pass the file object")
    with open(path, "rb") as opened:
        yield opened


def map_bytes(file: Any, function: str) -> memoryview:
    """All bytes of a file, read-only: mapped if it is a file on disk, else read."""
    with open_to_read(file, function) as opened:
        if isinstance(opened, (io.FileIO, io.BufferedReader)):
            status = os.fstat(opened.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size > 0:
                mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
                return memoryview(mapped)[opened.tell() :]
        data = opened.read()
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"[{function}] {name_of(file)} must be opened in binary mode")
    return memoryview(data).toreadonly()


def remaining_size(file: BinaryIO) -> int | None:
    """How many bytes are left to read, if the file can tell."""
    try:
        here = file.tell()
        end = file.seek(0, os.SEEK_END)
        file.seek(here)
    except (OSError, AttributeError):
        return None
    return None if end is None else end - here


def new_memory(size: int) -> mmap.mmap:
    """Memory of this process alone, in large pages where the system has them: much cheaper to touch first."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return mmap.mmap(-1, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel built without them
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def read_exactly(file: BinaryIO, size: int, what: str, known: int | None = None) -> memoryview:
    """Bytes that must be there, read-only.

    `known` is how many bytes the file is known to have left. Without it memory grows with what arrives, so that a
    size that is only claimed costs nothing.
    """
    if known is not None and size > known:
        raise ValueError(f"{what}: the file is truncated, {size} bytes are missing {size - known}")
    if known is not None and size >= CHUNK and hasattr(file, "readinto"):
        data = memoryview(new_memory(size))
        filled = 0
        while filled < size:
            n = file.readinto(data[filled:])
            if not n:
                raise ValueError(f"{what}: the file is truncated, {size} bytes are missing {size - filled}")
            filled += n
        return data.toreadonly()
    grown = bytearray()
    while len(grown) < size:
        part = file.read(min(size - len(grown), max(CHUNK, len(grown))))
        if not isinstance(part, (bytes, bytearray)):
            raise TypeError(f"{what}: the file must be opened in binary mode")
        if not part:
            raise ValueError(f"{what}: the file is truncated, {size} bytes are missing {size - len(grown)}")
        grown += part
    return memoryview(grown).toreadonly()
