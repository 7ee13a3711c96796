"""The few C functions of libmlxc that the kit needs and Python has no other name for, through ctypes.

Used by matrix.py (which kernels there are) and guard.py (whether one wrote out of bounds).
"""

from __future__ import annotations

import ctypes
from functools import cache

import mlxc as mx

CPU, GPU = 0, 1


@cache
def library() -> ctypes.CDLL:
    """The libmlxc that this process runs on: opening it again gives the same one."""
    return ctypes.CDLL(str(mx.get_library()))


def kernel_exists(device: int, op: int, dtype: int) -> bool:
    function = library().mlxc_kernel_exists
    function.argtypes = [ctypes.c_int32] * 3
    function.restype = ctypes.c_int32
    return bool(function(device, op, dtype))


def take_error_text(error: int | None) -> str | None:
    """The text of an mlxc_error*, which is freed; None for success."""
    if not error:
        return None
    text = library().mlxc_error_text
    text.argtypes, text.restype = [ctypes.c_void_p], ctypes.c_char_p
    free = library().mlxc_error_free
    free.argtypes, free.restype = [ctypes.c_void_p], None
    message = text(error).decode()
    free(error)
    return message
