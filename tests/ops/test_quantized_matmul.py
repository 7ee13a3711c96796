"""Products with packed matrices equal those with the unpacked ones, and so do their gradients."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx

BITS = (1, 2, 3, 4, 5, 6, 8)


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def pack(*shape: int, group_size: int = 32, bits: int = 4, dtype=mx.float64) -> tuple:
    """A random matrix, packed, and the same unpacked in float64."""
    packed = mx.quantize(mx.array(draw(*shape)).astype(dtype), group_size, bits)
    return packed, np.array(mx.dequantize(*packed, group_size, bits, dtype=mx.float64))


@pytest.mark.parametrize("rows", [1, 3, 4, 9, 40])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("bits", BITS)
def test_product_equals_that_with_the_unpacked_matrix(bits: int, transpose: bool, rows: int) -> None:
    packed, w = pack(96, 160, bits=bits, dtype=mx.float32)
    x = draw(rows, 160 if transpose else 96).astype(np.float32)
    got = mx.quantized_matmul(mx.array(x), *packed, transpose=transpose, group_size=32, bits=bits)
    w = w.T if transpose else w
    assert got.dtype == mx.float32
    np.testing.assert_array_less(np.abs(np.array(got) - x @ w), 3e-6 * (np.abs(x) @ np.abs(w)) + 1e-7)


@pytest.mark.parametrize("mode", ["mxfp4", "mxfp8", "nvfp4"])
@pytest.mark.parametrize("transpose", [True, False])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16])
def test_many_rows_meet_unpacked_blocks(mode: str, transpose: bool, dtype: mx.Dtype) -> None:
    w = mx.array(draw(1100, 544)).astype(dtype)
    codes, scales = mx.quantize(w, mode=mode)
    plain = np.array(mx.dequantize(codes, scales, mode=mode, dtype=mx.float32))
    x = mx.array(draw(67, 544 if transpose else 1100)).astype(dtype)
    got = mx.quantized_matmul(x, codes, scales, transpose=transpose, mode=mode)
    assert got.dtype == dtype
    left, right = np.array(x.astype(mx.float32)), plain.T if transpose else plain
    atol = 3e-6 * (np.abs(left) @ np.abs(right)).max() if dtype == mx.float32 else 0.05
    rtol = 0 if dtype == mx.float32 else 1e-3
    np.testing.assert_allclose(np.array(got.astype(mx.float32)), left @ right, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
@pytest.mark.parametrize("rows", [1, 40])
def test_halves_are_summed_in_float32(dtype: mx.Dtype, rows: int) -> None:
    packed, w = pack(64, 2048, dtype=dtype)
    x = mx.array(draw(rows, 2048)).astype(dtype)
    got = mx.quantized_matmul(x, *packed, group_size=32)
    wanted = np.array(x.astype(mx.float64)) @ w.T
    step = 2.0**-10 if dtype == mx.float16 else 2.0**-7
    assert got.dtype == dtype
    assert (np.abs(np.array(got.astype(mx.float64)) - wanted) <= step * (np.abs(wanted) + 0.1)).all()


def test_dtypes_of_x_and_scales_promote() -> None:
    packed, _ = pack(8, 64, dtype=mx.bfloat16)
    for given, result in ((mx.float32, mx.float32), (mx.bfloat16, mx.bfloat16), (mx.float16, mx.float32)):
        assert mx.quantized_matmul(mx.ones((2, 64), dtype=given), *packed, group_size=32).dtype == result
    assert mx.quantized_matmul(mx.ones((2, 64), dtype=mx.int32), *packed, group_size=32).dtype == mx.float32


def test_a_large_matrix_times_a_vector_on_all_threads() -> None:
    packed, w = pack(1031, 4096, group_size=64, dtype=mx.float32)
    x = draw(4096).astype(np.float32)
    got = np.array(mx.quantized_matmul(mx.array(x), *packed))
    assert (np.abs(got - w @ x) <= 1e-6 * (np.abs(w) @ np.abs(x))).all()
    y = draw(1031).astype(np.float32)
    got = np.array(mx.quantized_matmul(mx.array(y), *packed, transpose=False))
    assert (np.abs(got - y @ w) <= 1e-6 * (np.abs(y) @ np.abs(w))).all()


def gradient_of(fn, at: list[np.ndarray], k: int) -> np.ndarray:
    """Central differences of a scalar function of float64 arrays, by the k-th."""
    gradient = np.zeros_like(at[k])
    for place in np.ndindex(gradient.shape):
        moved = []
        for sign in (1, -1):
            other = [a.copy() for a in at]
            other[k][place] += sign * 1e-6
            moved.append(float(fn(*(mx.array(a, dtype=mx.float64) for a in other)).item()))
        gradient[place] = (moved[0] - moved[1]) / 2e-6
    return gradient


def check_gradients(product, x: np.ndarray, scales: np.ndarray, biases: np.ndarray) -> None:
    """First and second derivatives of a product by x, scales and biases."""

    def total(a: mx.array, s: mx.array, b: mx.array) -> mx.array:
        return (product(a, s, b) ** 3).sum()

    at = [x, scales, biases]
    arrays = [mx.array(a, dtype=mx.float64) for a in at]
    got = mx.grad(total, argnums=(0, 1, 2))(*arrays)
    tangents = [mx.array(draw(*a.shape, seed=5), dtype=mx.float64) for a in at]
    pushed = mx.jvp(total, arrays, tangents)[1][0].item()
    assert np.isclose(pushed, sum((g * t).sum().item() for g, t in zip(got, tangents, strict=True)), rtol=1e-9)
    for k in range(3):
        wanted = gradient_of(total, at, k)
        np.testing.assert_allclose(np.array(got[k]), wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())

    def slope(a: mx.array, s: mx.array, b: mx.array) -> mx.array:
        return sum((g * t).sum() for g, t in zip(mx.grad(total, argnums=(0, 1, 2))(a, s, b), tangents, strict=True))

    second = mx.grad(slope, argnums=1)(*arrays)
    wanted = gradient_of(slope, at, 1)
    np.testing.assert_allclose(np.array(second), wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("transpose", [True, False])
def test_gradients_reach_x_scales_and_biases(transpose: bool) -> None:
    (codes, scales, biases), _ = pack(3, 64)
    x = draw(2, 64 if transpose else 3)
    check_gradients(
        lambda a, s, b: mx.quantized_matmul(a, codes, s, b, transpose, 32, 4), x, np.array(scales), np.array(biases)
    )


def test_gradients_of_batches_that_broadcast() -> None:
    (codes, scales, biases), _ = pack(2, 3, 32)
    check_gradients(
        lambda a, s, b: mx.quantized_matmul(a, codes, s, b, True, 32, 4),
        draw(2, 1, 2, 32), np.array(scales), np.array(biases),
    )  # fmt: skip


@pytest.mark.parametrize("transpose", [True, False])
def test_gradients_of_picked_matrices(transpose: bool) -> None:
    (codes, scales, biases), _ = pack(3, 2, 32)
    lhs, rhs = mx.array([[0, 1], [1, -1]]), mx.array([2, 0])
    check_gradients(
        lambda a, s, b: mx.gather_qmm(a, codes, s, b, lhs, rhs, transpose, 32, 4),
        draw(2, 2, 32 if transpose else 2), np.array(scales), np.array(biases),
    )  # fmt: skip


def test_picked_matrices_equal_their_plain_products() -> None:
    packed, w = pack(4, 6, 64, dtype=mx.float32)
    x = draw(5, 3, 2, 64).astype(np.float32)
    lhs, rhs = np.array([[0, 14], [7, 7]]), np.array([[3], [0]])
    got = mx.gather_qmm(mx.array(x), *packed, mx.array(lhs), mx.array(rhs), group_size=32)
    left, right = np.broadcast_arrays(lhs, rhs)
    wanted = x.reshape(15, 2, 64)[left] @ np.swapaxes(w, -1, -2)[right]
    np.testing.assert_allclose(np.array(got), wanted, rtol=1e-4, atol=1e-4)


def test_sorted_indices_change_nothing_but_speed() -> None:
    packed, _ = pack(4, 32, 64, dtype=mx.float32)
    x = mx.array(draw(200, 1, 64).astype(np.float32))
    rhs = mx.array(np.sort(np.random.default_rng(0).integers(0, 4, 200)))
    a = mx.gather_qmm(x, *packed, rhs_indices=rhs, group_size=32, sorted_indices=True)
    b = mx.gather_qmm(x[::-1], *packed, rhs_indices=rhs[::-1], group_size=32)[::-1]
    np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-5, atol=1e-5)


def test_indices_out_of_range_raise() -> None:
    packed, _ = pack(3, 5, 64, dtype=mx.float32)
    x = mx.ones((2, 1, 64))
    for side in ("lhs_indices", "rhs_indices"):
        for wrong in (3, -4, 2**31):
            indices = {"lhs_indices": mx.array([0]), "rhs_indices": mx.array([0])}
            indices[side] = mx.array([wrong], dtype=mx.int64)
            with pytest.raises(IndexError, match="out of range"):
                mx.eval(mx.gather_qmm(x, *packed, **indices, group_size=32))


def test_wrong_shapes_name_what_is_accepted() -> None:
    packed, _ = pack(5, 64, dtype=mx.float32)
    with pytest.raises(ValueError, match="must be 64 long"):
        mx.quantized_matmul(mx.ones((2, 32)), *packed, group_size=32)
    with pytest.raises(ValueError, match="must be 5 long"):
        mx.quantized_matmul(mx.ones((2, 64)), *packed, transpose=False, group_size=32)
    with pytest.raises(ValueError, match="do not belong"):
        mx.quantized_matmul(mx.ones((2, 64)), *packed, group_size=64)
    with pytest.raises(ValueError, match="needs biases"):
        mx.quantized_matmul(mx.ones((2, 64)), *packed[:2], group_size=32)
    with pytest.raises(TypeError, match="complex"):
        mx.quantized_matmul(mx.ones((2, 64), dtype=mx.complex64), *packed, group_size=32)
    with pytest.raises(ValueError, match="do not broadcast"):
        batch, _ = pack(3, 5, 64, dtype=mx.float32)
        mx.quantized_matmul(mx.ones((2, 4, 64)), *batch, group_size=32)
