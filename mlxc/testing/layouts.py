"""Arrays with given values whose memory lies in a given way.

Every layout is a view that mlxc itself makes, so what a kernel gets is what a program would give it. Memory that
belongs to no element is filled with values that would show in a result (NaN, or the dtype's greatest number).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import mlxc as mx

from .dtypes import Dtype, to_mlxc

CONTIGUOUS = "contiguous"


@dataclass(frozen=True)
class Laid:
    array: mx.array
    stored: np.ndarray  # the values it has; a broadcast layout repeats some of those asked for


def lay_out(stored: np.ndarray, dtype: Dtype, layout: str) -> Laid:
    """An array of the stored values in the named layout. 0-d and empty arrays have only one."""
    if stored.ndim == 0 or stored.size == 0:
        return Laid(to_mlxc(stored, dtype), stored)
    return LAYOUTS[layout](stored, dtype)


def _contiguous(stored: np.ndarray, dtype: Dtype) -> Laid:
    return Laid(to_mlxc(stored, dtype), stored)


def _transposed(stored: np.ndarray, dtype: Dtype) -> Laid:
    return Laid(mx.transpose(to_mlxc(stored.T.copy(), dtype)), stored)


def _sliced(stored: np.ndarray, dtype: Dtype) -> Laid:
    """Every second element of each axis, with an odd offset, between poisoned ones."""
    around = np.full([2 * n + 3 for n in stored.shape], poison(dtype), dtype=stored.dtype)
    window = tuple(slice(1, 2 * n + 1, 2) for n in stored.shape)
    around[window] = stored
    return Laid(to_mlxc(around, dtype)[window], stored)


def _broadcast(stored: np.ndarray, dtype: Dtype) -> Laid:
    """The longest axis has stride zero."""
    axis = int(np.argmax(stored.shape))
    one = np.take(stored, [0], axis=axis)
    array = mx.broadcast_to(to_mlxc(one, dtype), stored.shape)
    return Laid(array, np.ascontiguousarray(np.broadcast_to(one, stored.shape)))


def _negative(stored: np.ndarray, dtype: Dtype) -> Laid:
    """Every axis runs backwards through memory."""
    backwards = (slice(None, None, -1),) * stored.ndim
    return Laid(to_mlxc(stored[backwards].copy(), dtype)[backwards], stored)


def _offset(stored: np.ndarray, dtype: Dtype) -> Laid:
    """Row-major, but starting one element into its buffer, so that nothing is aligned."""
    flat = np.concatenate([np.full(1, poison(dtype), stored.dtype), stored.reshape(-1)])
    return Laid(to_mlxc(flat, dtype)[1:].reshape(stored.shape), stored)


LAYOUTS: dict[str, Callable[[np.ndarray, Dtype], Laid]] = {
    CONTIGUOUS: _contiguous,
    "transposed": _transposed,
    "sliced": _sliced,
    "broadcast": _broadcast,
    "negative": _negative,
    "offset": _offset,
}
STRIDED = tuple(LAYOUTS)


def poison(dtype: Dtype) -> object:
    """A stored value that no result should contain a trace of."""
    if dtype.name == "bfloat16":
        return 0x7FC0
    if dtype.is_float:
        return np.nan
    return True if dtype.kind == "b" else np.iinfo(dtype.stored).max
