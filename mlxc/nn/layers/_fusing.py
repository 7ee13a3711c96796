"""Element-wise functions as activations need them: half precision in float32, and a chain of ops as one.

Called by activations.py and piecewise.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import mlxc as mx

_HALF = (mx.float16, mx.bfloat16)


def in_float32(fn: Callable[..., mx.array]) -> Callable[..., mx.array]:
    """The function with half-precision arrays computed in float32, the result rounded to the array's dtype."""

    @wraps(fn)
    def wide(x: mx.array, *args: Any) -> mx.array:
        # A plain number has no dtype.
        dtype = getattr(x, "dtype", None)
        return fn(x.astype(mx.float32), *args).astype(dtype) if dtype in _HALF else fn(x, *args)

    return wide


def fused(fn: Callable[[mx.array], mx.array]) -> Callable[[mx.array], mx.array]:
    """The same in one recorded node, whatever the shape."""
    return mx.compile(in_float32(fn), shapeless=True)
