"""Types of mlxc.fast.

Written by tools/check_stubs.py; do not edit.
"""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, TypeAlias, final, overload

from . import Device, DeviceType, Dtype, Stream, ThreadLocalStream, array

class _SupportsBuffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...

class _SupportsDLPack(Protocol):
    def __dlpack__(self, *, stream: Any = None) -> Any: ...

class _SupportsArray(Protocol):
    def __mlx_array__(self) -> array: ...

_Scalar: TypeAlias = builtins.bool | int | float | complex
_Array: TypeAlias = array | _Scalar | _SupportsBuffer | _SupportsDLPack | _SupportsArray
_Dtype: TypeAlias = Dtype | type | str | None
_Stream: TypeAlias = Stream | ThreadLocalStream | Device | DeviceType | None
_Shape: TypeAlias = int | Sequence[int]
_Axes: TypeAlias = int | Sequence[int] | None

__all__ = ['cross_entropy', 'gated_delta_update', 'layer_norm', 'rms_norm', 'rope', 'scaled_dot_product_attention']

def cross_entropy(logits: _Array, targets: _Array, *, stream: _Stream = None) -> array: ...
def gated_delta_update(q: _Array, k: _Array, v: _Array, gamma: _Array, beta: _Array, initial_state: _Array | None = None, mask: _Array | None = None, stream: _Stream = None) -> list[array]: ...
def layer_norm(x: _Array, weight: _Array | None, bias: _Array | None, eps: float, *, stream: _Stream = None) -> array: ...
def rms_norm(x: _Array, weight: _Array | None, eps: float, *, stream: _Stream = None) -> array: ...
def rope(a: _Array, dims: int, *, traditional: builtins.bool, base: float | None, scale: float, offset: int | array, freqs: array | None = None, stream: _Stream = None) -> array: ...
def scaled_dot_product_attention(q: _Array, k: _Array, v: _Array, *, scale: float, mask: str | _Array | None = None, sinks: _Array | None = None, force_fused: builtins.bool = False, stream: _Stream = None) -> array: ...

