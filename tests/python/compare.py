"""What the tests of free functions share: a comparison of an mlxc result with NumPy's."""

from __future__ import annotations

import numpy as np

import mlxc as mx


def to_numpy(a: mx.array) -> np.ndarray:
    return np.array(a.astype(mx.float32) if a.dtype == mx.bfloat16 else a)


def assert_same(got, want, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    """Equal shape and values; `want` may be a list or tuple of arrays."""
    if isinstance(want, (list, tuple)):
        assert isinstance(got, (list, tuple)) and len(got) == len(want)
        for g, w in zip(got, want, strict=True):
            assert_same(g, w, rtol, atol)
        return
    assert isinstance(got, mx.array)
    want = np.asarray(want)
    assert got.shape == want.shape
    values = to_numpy(got)
    if want.dtype.kind in "biu":
        assert values.dtype.kind in "biu"
        np.testing.assert_array_equal(values, want)
    else:
        np.testing.assert_allclose(values, want, rtol=rtol, atol=atol)


def raises_both(call) -> None:
    """An axis error is a ValueError and an IndexError."""
    for error in (ValueError, IndexError):
        try:
            mx.eval(call())
        except error as caught:
            assert str(caught)
        else:
            raise AssertionError("no error")
