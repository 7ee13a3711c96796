"""The Hadamard transform: its matrices are those of MLX, orthogonal, and of every size that factors."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

import mlxc as mx


def matrix(n: int) -> np.ndarray:
    return np.array(mx.hadamard_transform(mx.eye(n), scale=1.0)).T


@pytest.mark.parametrize("n", [1, 2, 4, 12, 16, 20, 24, 28, 40, 112])
def test_rows_are_orthogonal_ones_and_minus_ones(n: int) -> None:
    h = matrix(n)
    assert set(np.unique(np.abs(h))) == {1}
    np.testing.assert_array_equal(h @ h.T, n * np.eye(n))


# Checksums of the signs that mlx 0.32.4 gives for the identity.
@pytest.mark.parametrize("n, checksum", [(12, 862274010), (20, 430850152), (28, 2229625942), (24, 3462424564)])
def test_matrices_are_those_of_mlx(n: int, checksum: int) -> None:
    assert zlib.crc32((matrix(n) < 0).astype(np.uint8).tobytes()) == checksum


def test_powers_of_two_are_sylvesters() -> None:
    h = np.ones((1, 1))
    while len(h) < 64:
        h = np.kron(h, [[1, 1], [1, -1]])
    np.testing.assert_array_equal(matrix(64), h)


def test_default_scale_keeps_lengths() -> None:
    x = np.random.default_rng(0).standard_normal((3, 80)).astype(np.float32)
    y = np.array(mx.hadamard_transform(mx.array(x)))
    np.testing.assert_allclose(np.linalg.norm(y, axis=-1), np.linalg.norm(x, axis=-1), rtol=1e-6)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float64])
def test_dtype_is_kept_and_integers_become_float32(dtype: mx.Dtype) -> None:
    assert mx.hadamard_transform(mx.ones((2, 8), dtype=dtype)).dtype == dtype
    assert mx.hadamard_transform(mx.ones((2, 8), dtype=mx.int32)).dtype == mx.float32


def test_other_sizes_name_those_accepted() -> None:
    for n in (0, 3, 6, 7, 36):
        with pytest.raises(ValueError, match="1, 12, 20 and 28"):
            mx.hadamard_transform(mx.ones((2, n)))


@pytest.mark.parametrize("n", [20, 28])
def test_gradient_is_the_transposed_transform(n: int) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    got = mx.grad(lambda a: (mx.hadamard_transform(a, 0.5) * mx.array(x)).sum())(mx.zeros(n))
    np.testing.assert_allclose(np.array(got), 0.5 * matrix(n).T @ x, rtol=1e-4, atol=1e-5)
