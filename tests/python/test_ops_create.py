"""Creation functions: values, dtypes, lengths, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from compare import assert_same

import mlxc as mx


@pytest.mark.parametrize(
    "args",
    [(5,), (2, 7), (1, 10, 3), (10, 0, -3), (3, 0), (0, 1, 0.25), (1.5, 4), (0, 1, 0.1), (-1.0, 1.0, 0.3), (5, 5)],
)
def test_arange_is_numpys(args):
    got, want = mx.arange(*args), np.arange(*args)
    assert got.dtype == (mx.int32 if want.dtype.kind == "i" else mx.float32)
    assert_same(got, want.astype(np.int32 if want.dtype.kind == "i" else np.float32))


def test_arange_is_exact_for_large_integers():
    assert mx.arange(2**33, 2**33 + 3).tolist() == [2**33, 2**33 + 1, 2**33 + 2]
    assert mx.arange(2**60 + 1, 2**60 + 4).tolist() == [2**60 + 1, 2**60 + 2, 2**60 + 3]
    assert mx.arange(-(2**62), -(2**62) - 5, -2).tolist() == [-(2**62), -(2**62) - 2, -(2**62) - 4]
    assert mx.arange(2**63, 2**63 + 2, dtype=mx.uint64).tolist() == [2**63, 2**63 + 1]
    assert mx.arange(16777216, 16777219, dtype=mx.int32).tolist() == [16777216, 16777217, 16777218]


def test_arange_forms():
    assert mx.arange(stop=3).tolist() == [0, 1, 2]
    assert mx.arange(5, step=2).tolist() == [0, 2, 4]
    assert mx.arange(0, None, 1).tolist() == []
    assert mx.arange(3, dtype=mx.float16).dtype == mx.float16
    assert mx.arange(0, 3, 0.5, dtype=mx.int32).tolist() == [0, 0, 1, 1, 2, 2]
    assert mx.arange(0, 2**31).dtype == mx.int64


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.arange(0, 1, 0),
        lambda: mx.arange(0.0, 1.0, 0.0),
        lambda: mx.arange(mx.nan),
        lambda: mx.arange(mx.inf),
        lambda: mx.arange(2**62),
        lambda: mx.arange(0, 1e300),
        lambda: mx.arange(3, dtype=mx.bool_),
        lambda: mx.arange(3, dtype=mx.complex64),
        lambda: mx.linspace(0, 1, -1),
        lambda: mx.zeros((-1, 2)),
        lambda: mx.full((-1, 2), 1),
        lambda: mx.full((2,), mx.zeros((3,))),
        lambda: mx.eye(-1),
        lambda: mx.tri(2, -1),
        lambda: mx.zeros((2**40, 2**40)),
    ],
)
def test_impossible_arrays_are_refused(call):
    with pytest.raises(ValueError, match=r".{10}"):
        call()


def test_arange_refuses_what_is_no_number():
    for bad in ("3", None, 1j):
        with pytest.raises(TypeError):
            mx.arange(bad)


@pytest.mark.parametrize("args", [(0, 1, 5), (0, 1, 50), (-3, 7, 11), (1, 0, 4), (2, 2, 3), (0, 10, 1), (0, 1, 0)])
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace_is_numpys(args, endpoint):
    want = np.linspace(*args, endpoint=endpoint)
    assert_same(mx.linspace(*args, endpoint=endpoint), want.astype(np.float32), rtol=2e-7, atol=0)
    got = np.array(mx.linspace(*args, endpoint=endpoint, dtype=mx.float64))
    np.testing.assert_allclose(got, want, rtol=4e-16, atol=1e-16)


def test_linspace_ends_where_it_should():
    for n in (3, 7, 49, 1000):
        for stop in (0.1, 1 / 3, 1e10, -7.7):
            assert mx.linspace(0.3, stop, n, dtype=mx.float64)[n - 1].item() == stop
            assert mx.linspace(0.3, stop, n)[n - 1].item() == np.float32(stop)
    assert mx.linspace(0, 10, 4, dtype=mx.int32).tolist() == [0, 3, 6, 10]


def test_constant_arrays():
    assert_same(mx.zeros((2, 3)), np.zeros((2, 3), np.float32))
    assert mx.zeros((2,)).dtype == mx.float32
    assert_same(mx.ones(4, mx.int8), np.ones(4, np.int8))
    assert mx.empty is mx.zeros
    assert mx.zeros(()).shape == () and mx.zeros((0, 3)).size == 0
    assert mx.full((2, 3), mx.array([1, 2, 3])).tolist() == [[1, 2, 3]] * 2
    assert mx.full((2,), True).dtype == mx.bool_
    assert mx.full((2,), 2**63, mx.uint64).tolist() == [2**63] * 2
    assert mx.full(2, 0.1, mx.float64).tolist() == [0.1, 0.1]
    assert mx.full_like(mx.array([1, 2]), 2.5).tolist() == [2, 2]
    assert mx.zeros_like(mx.ones((2, 2), mx.int16)).dtype == mx.int16
    assert mx.ones_like(mx.ones((2, 2), mx.int16), dtype=mx.float32).dtype == mx.float32
    assert mx.full((2,), 1 + 2j).tolist() == [1 + 2j] * 2


@pytest.mark.parametrize(("n", "m", "k"), [(3, None, 0), (2, 4, 1), (4, 2, -1), (3, 3, 9), (0, 2, 0)])
def test_eye_and_tri_are_numpys(n, m, k):
    assert_same(mx.eye(n, m, k), np.eye(n, m, k, dtype=np.float32))
    assert_same(mx.tri(n, m, k), np.tri(n, m, k, dtype=np.float32))
    assert_same(mx.eye(n, m, k, mx.int32), np.eye(n, m, k, dtype=np.int32))


def test_identity_is_the_identity():
    assert_same(mx.identity(3), np.identity(3))


@pytest.mark.parametrize("name", ["hanning", "hamming", "blackman", "bartlett"])
@pytest.mark.parametrize("n", [0, 1, 2, 5, 64, 101])
def test_windows_are_numpys(name, n):
    assert_same(getattr(mx, name)(n), getattr(np, name)(n).astype(np.float32), atol=2e-6)


def test_device_is_another_word_for_stream():
    assert mx.zeros(2, device=mx.cpu).tolist() == [0.0, 0.0]
    with pytest.raises(TypeError, match="not both"):
        mx.zeros(2, stream=mx.cpu, device=mx.cpu)
