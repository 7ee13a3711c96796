"""Guard bytes: with MLXC_GUARD=1 the core surrounds every block it hands out with a pattern.

A kernel that writes outside of its output changes the pattern; mlxc_memory_check finds that. The variable is read
when libmlxc starts, so `python -m mlxc.testing` and tests/conformance set it before mlxc is imported.
"""

from __future__ import annotations

import ctypes
import os

from .clib import library, take_error_text


def guard_is_on() -> bool:
    """Whether the core lays guard bytes round every block (MLXC_GUARD=1)."""
    return os.environ.get("MLXC_GUARD", "") not in ("", "0")


def find_overrun() -> str | None:
    """What the core says of the guard bytes of all blocks, or None if they are whole (or not there)."""
    if not guard_is_on():
        return None
    check = library().mlxc_memory_check
    check.argtypes, check.restype = [], ctypes.c_void_p
    return take_error_text(check())
