"""Whatever is saved comes back: any dtype, shape and layout, through every format that has the dtype."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import mlxc as mx

NAMES = "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
DTYPES = [getattr(mx, name) for name in NAMES.split()]
GGUF = (mx.int8, mx.int16, mx.int32, mx.int64, mx.float16, mx.bfloat16, mx.float32, mx.float64)


@st.composite
def arrays(draw: st.DrawFn) -> mx.array:
    """Random bits, often seen through a transposed, reversed or strided view."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    count = int(np.prod(shape, dtype=int))
    raw = draw(st.binary(min_size=count * dtype.size, max_size=count * dtype.size))
    values = mx.array(np.frombuffer(raw, np.uint8))
    if count == 0:
        a = mx.zeros(shape, dtype)
    else:
        a = (values > 127 if dtype == mx.bool_ else mx.view(values, dtype)).reshape(shape)
    if a.ndim and draw(st.booleans()):
        a = a.transpose(draw(st.permutations(range(a.ndim))))
    if a.ndim and draw(st.booleans()):
        a = a[:: draw(st.sampled_from((-2, -1, 2)))]
    return a


def bits(a: mx.array) -> bytes:
    return a.tobytes()


@settings(max_examples=150, deadline=None)
@given(arrays())
def test_arrays_come_back_bit_by_bit(a: mx.array):
    savers = {
        "npy": lambda file: mx.save(file, a),
        "npz": lambda file: mx.savez(file, a=a),
        "safetensors": lambda file: mx.save_safetensors(file, {"a": a}),
        "gguf": lambda file: mx.save_gguf(file, {"a": a}),
    }
    if a.dtype == mx.complex128:
        del savers["safetensors"]
    if a.dtype not in GGUF:
        del savers["gguf"]
    for format, saver in savers.items():
        file = io.BytesIO()
        saver(file)
        file.seek(0)
        back = mx.load(file, format=format)
        back = back["a"] if isinstance(back, dict) else back
        assert (back.dtype, back.shape) == (a.dtype, a.shape)
        assert bits(back) == bits(a), format
