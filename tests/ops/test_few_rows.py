"""Products of a few rows with a matrix that lies row by row (x @ W.T), as in generating text: exact at every size."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx

# what a result may be off by: half a unit of its own last place
ROUNDING = {mx.float64: 2.0**-53, mx.float32: 2.0**-24, mx.float16: 2.0**-11, mx.bfloat16: 2.0**-8}


def draw(*shape: int, dtype: mx.Dtype = mx.float64) -> mx.array:
    return mx.array(np.random.default_rng(shape).standard_normal(shape)).astype(dtype)


def check(got: mx.array, x: mx.array, w: mx.array) -> None:
    a, b = (np.array(v.astype(mx.float64)) for v in (x, w))
    want, reach = a @ b.T, np.abs(a) @ np.abs(b.T)
    sums = 1e-15 if got.dtype == mx.float64 else 6e-7
    error = np.abs(np.array(got.astype(mx.float64)) - want)
    assert (error <= 1.01 * ROUNDING[got.dtype] * np.abs(want) + sums * reach).all()


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
@pytest.mark.parametrize("rows", [1, 2, 5, 16, 17])
@pytest.mark.parametrize("n, k", [(1, 40), (3, 5), (7, 15), (301, 576), (66, 1029), (1030, 97)])
def test_rows_times_a_transposed_matrix(rows: int, n: int, k: int, dtype: mx.Dtype) -> None:
    x, w = draw(rows, k, dtype=dtype), draw(n, k, dtype=dtype)
    check(x @ w.T, x, w)


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
@pytest.mark.parametrize("rows", [1, 6])
def test_operands_may_be_windows_with_strides(rows: int, dtype: mx.Dtype) -> None:
    wide, tall = draw(rows, 2 * 130, dtype=dtype), draw(2 * 75, 150, dtype=dtype)
    w = tall[1::2, 7:137]
    for x in (wide[:, 1:131], wide[:, ::2], wide[::-1, 259:129:-1], wide.reshape(130 * 2, rows).T[:, 9:139]):
        check(x @ w.T, x, w)


@pytest.mark.parametrize("dtype", list(ROUNDING), ids=str)
def test_a_row_is_the_same_alone_and_among_others(dtype: mx.Dtype) -> None:
    x, w = draw(16, 700, dtype=dtype), draw(301, 700, dtype=dtype)
    alone = mx.concatenate([x[i : i + 1] @ w.T for i in range(16)])
    assert mx.array_equal(x @ w.T, alone).item()


def test_what_is_not_finite_stays_in_its_own_places() -> None:
    x, w = np.ones((3, 70), np.float32), np.ones((50, 70), np.float32)
    x[1, 69], w[7, 3], w[9, 69] = np.nan, np.inf, -np.inf
    got = np.array(mx.array(x) @ mx.array(w).T)
    assert np.isnan(got[1]).all()
    for row in (0, 2):
        assert got[row, 7] == np.inf and got[row, 9] == -np.inf
        assert (np.delete(got[row], [7, 9]) == 70).all()


@pytest.mark.parametrize("scale_dtype", [mx.float16, mx.bfloat16, mx.float32], ids=str)
@pytest.mark.parametrize("group_size", [32, 64, 128])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("rows", [1, 7])
def test_rows_times_packed_codes(rows: int, bits: int, group_size: int, scale_dtype: mx.Dtype) -> None:
    for n, groups in ((1, 1), (13, 3), (131, 18), (18, 33)):
        codes, scales, biases = mx.quantize(draw(n, groups * group_size, dtype=mx.float32), group_size, bits)
        packed = codes, scales.astype(scale_dtype), biases.astype(scale_dtype)
        w = mx.dequantize(codes, packed[1].astype(mx.float64), packed[2].astype(mx.float64), group_size, bits)
        for dtype in {mx.float32, scale_dtype}:
            x = draw(rows, groups * group_size, dtype=dtype)
            got = mx.quantized_matmul(x, *packed, group_size=group_size, bits=bits)
            assert got.dtype == dtype
            check(got, x, w)


def test_windows_of_packed_matrices_and_their_scales() -> None:
    codes, scales, biases = mx.quantize(draw(40, 576, dtype=mx.float32), 32, 4)
    w = mx.dequantize(codes, scales, biases, 32, 4)
    x = draw(1, 1152, dtype=mx.float32)[:, ::2]
    got = mx.quantized_matmul(x, codes[3:38:2], scales[3:38:2], biases[3:38:2], group_size=32, bits=4)
    check(got, x, w[3:38:2])


@pytest.mark.parametrize("mode, group_size", [("mxfp4", 32), ("nvfp4", 16)])
@pytest.mark.parametrize("rows", [1, 6])
def test_rows_times_packed_small_floats(rows: int, mode: str, group_size: int) -> None:
    for n, groups in ((1, 2), (13, 4), (131, 36), (18, 66)):
        packed = mx.quantize(draw(n, groups * group_size, dtype=mx.float32), mode=mode)
        w = mx.dequantize(*packed, mode=mode, dtype=mx.float32)
        x = draw(rows, groups * group_size, dtype=mx.float32)
        check(mx.quantized_matmul(x, *packed, mode=mode), x, w)
