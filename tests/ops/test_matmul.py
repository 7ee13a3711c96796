"""Products of halves are summed in float32 and rounded once, whatever their sizes and however they lie."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx

HALVES = {mx.float16: 11, mx.bfloat16: 8}


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


def lay_out(rows: int, columns: int, dtype: mx.Dtype, transposed: bool) -> mx.array:
    if transposed:
        return mx.array(draw(columns, rows)).astype(dtype).T
    return mx.array(draw(rows, columns)).astype(dtype)


@pytest.mark.parametrize("dtype", list(HALVES), ids=str)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("m, k, n", [(2, 3, 700), (33, 1, 257), (67, 129, 1031), (1100, 40, 515), (300, 65, 7)])
def test_products_of_halves_are_rounded_once(
    dtype: mx.Dtype, turned: tuple[bool, bool], m: int, k: int, n: int
) -> None:
    a, b = lay_out(m, k, dtype, turned[0]), lay_out(k, n, dtype, turned[1])
    got = np.array((a @ b).astype(mx.float32))
    x, y = np.array(a.astype(mx.float32)), np.array(b.astype(mx.float32))
    want, reach = x.astype(float) @ y, np.abs(x) @ np.abs(y)
    np.testing.assert_array_less(np.abs(got - want), 2.0 ** -HALVES[dtype] * np.abs(want) + 2e-6 * reach + 1e-7)


@pytest.mark.parametrize("dtype", list(HALVES), ids=str)
def test_a_product_of_halves_without_terms_is_zero(dtype: mx.Dtype) -> None:
    got = mx.zeros((40, 0), dtype=dtype) @ mx.zeros((0, 300), dtype=dtype)
    assert got.shape == (40, 300) and not np.array(got.astype(mx.float32)).any()


@pytest.mark.parametrize("dtype", list(HALVES), ids=str)
def test_batches_of_halves_equal_their_products_one_by_one(dtype: mx.Dtype) -> None:
    a, b = mx.array(draw(3, 2, 40, 33)).astype(dtype), mx.array(draw(2, 33, 300)).astype(dtype)
    got = a @ b
    for i in range(3):
        for j in range(2):
            assert mx.allclose(got[i, j], a[i, j] @ b[j], rtol=2.0 ** -HALVES[dtype], atol=1e-3).item()
