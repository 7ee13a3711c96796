"""Quantised arrays: codes as recorded, what they stand for, and which gradients pass."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlxc as mx

RECORDED = np.load(Path(__file__).parents[1] / "data/quantized.npz")
DTYPES = ("float32", "float16", "bfloat16")
BITS = (1, 2, 3, 4, 5, 6, 8)
MODES = ("mxfp4", "mxfp8", "nvfp4")


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def to_float(a: mx.array) -> np.ndarray:
    return np.array(a.astype(mx.float32))


def difference(fn, at: list[np.ndarray], k: int, step: float = 1e-6) -> np.ndarray:
    """Central differences of a scalar function of float64 arrays, by the k-th."""
    gradient = np.zeros_like(at[k])
    for place in np.ndindex(gradient.shape):
        moved = []
        for sign in (1, -1):
            other = [a.copy() for a in at]
            other[k][place] += sign * step
            moved.append(float(fn(*(mx.array(a, dtype=mx.float64) for a in other)).item()))
        gradient[place] = (moved[0] - moved[1]) / (2 * step)
    return gradient


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_affine_codes_scales_and_biases_equal_the_recorded_ones(dtype: str, bits: int) -> None:
    w = mx.array(RECORDED["w"]).astype(getattr(mx, dtype))
    for group_size in (32, 64, 128):
        codes, scales, biases = mx.quantize(w, group_size, bits)
        key = f"{dtype}_{group_size}_{bits}_"
        assert scales.dtype == biases.dtype == w.dtype
        np.testing.assert_array_equal(np.array(codes), RECORDED[key + "codes"])
        np.testing.assert_array_equal(to_float(scales), RECORDED[key + "scales"].astype(np.float32))
        np.testing.assert_array_equal(to_float(biases), RECORDED[key + "biases"].astype(np.float32))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_of_small_floats_equal_the_recorded_ones(dtype: str, mode: str) -> None:
    codes, scales = mx.quantize(mx.array(RECORDED["w"]).astype(getattr(mx, dtype)), mode=mode)
    np.testing.assert_array_equal(np.array(codes), RECORDED[f"{dtype}_{mode}_codes"])
    np.testing.assert_array_equal(np.array(scales), RECORDED[f"{dtype}_{mode}_scales"])
    if dtype == "float32":
        values = mx.dequantize(codes, scales, mode=mode, dtype=mx.float32)
        np.testing.assert_array_equal(np.array(values), RECORDED[f"{mode}_values"])


def test_global_scale_spreads_the_range_over_codes_and_scales() -> None:
    w = RECORDED["w"].astype(np.float32)
    total = mx.array(np.abs(w).max())
    codes, scales = mx.quantize(mx.array(w), mode="nvfp4", global_scale=total)
    np.testing.assert_array_equal(np.array(scales), RECORDED["global_scales"])
    np.testing.assert_array_equal(np.array(codes), RECORDED["global_codes"])
    values = mx.dequantize(codes, scales, mode="nvfp4", global_scale=total, dtype=mx.float32)
    np.testing.assert_allclose(np.array(values), RECORDED["global_values"], rtol=1e-6)


@pytest.mark.parametrize("bits", BITS)
def test_affine_numbers_are_within_half_a_step(bits: int) -> None:
    w = draw(5, 256).astype(np.float32)
    codes, scales, biases = mx.quantize(mx.array(w), 64, bits)
    back = np.array(mx.dequantize(codes, scales, biases, 64, bits))
    step = np.repeat(np.abs(np.array(scales)), 64, axis=-1)
    # Moving the step so that zero is a code can cost the far edge another half.
    assert (np.abs(back - w) <= step * (0.5 if bits == 1 else 1.0) + 1e-6).all()


def test_zero_and_the_edge_of_a_group_are_kept_exactly() -> None:
    w = np.linspace(-1, 2, 32, dtype=np.float32).reshape(1, 32)
    w[0, 5] = 0
    back = np.array(mx.dequantize(*mx.quantize(mx.array(w), 32, 4), 32, 4))
    assert back[0, 5] == 0
    assert back[0, -1] == 2


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_group_with_what_no_code_stands_for_becomes_nan(value: float) -> None:
    w = np.ones((1, 64), np.float32)
    w[0, 3] = value
    back = np.array(mx.dequantize(*mx.quantize(mx.array(w), 32), 32))
    assert np.isnan(back[0, :32]).all()
    assert (back[0, 32:] == 1).all()


@pytest.mark.parametrize("mode", MODES)
def test_nan_stays_in_groups_of_small_floats(mode: str) -> None:
    w = np.ones((1, 64), np.float32)
    w[0, 40] = np.nan
    back = np.array(mx.dequantize(*mx.quantize(mx.array(w), mode=mode), mode=mode, dtype=mx.float32))
    assert np.isnan(back[0, 40])
    np.testing.assert_allclose(back[0, :32], 1, rtol=0.05)


def test_quantize_takes_strided_arrays() -> None:
    w = mx.array(draw(64, 6).astype(np.float32))
    for got, wanted in zip(mx.quantize(w.T), mx.quantize(mx.array(np.array(w).T.copy())), strict=True):
        np.testing.assert_array_equal(np.array(got), np.array(wanted))


def test_dequantize_defaults_to_the_dtype_of_scales_else_to_bfloat16() -> None:
    w = mx.array(draw(2, 64).astype(np.float16))
    assert mx.dequantize(*mx.quantize(w)).dtype == mx.float16
    assert mx.dequantize(*mx.quantize(w), dtype=mx.float64).dtype == mx.float64
    assert mx.dequantize(*mx.quantize(w, mode="mxfp8"), mode="mxfp8").dtype == mx.bfloat16


@pytest.mark.parametrize("bits", [1, 3, 4, 8])
def test_gradients_of_dequantize_reach_scales_and_biases(bits: int) -> None:
    codes, *scales = (np.array(a) for a in mx.quantize(mx.array(draw(2, 64), dtype=mx.float64), 32, bits))
    weight = mx.array(draw(2, 64, seed=1), dtype=mx.float64)

    def total(s: mx.array, b: mx.array) -> mx.array:
        return (mx.dequantize(mx.array(codes), s, b, 32, bits) ** 2 * weight).sum()

    got = mx.grad(total, argnums=(0, 1))(*(mx.array(s, dtype=mx.float64) for s in scales))
    for k in range(2):
        np.testing.assert_allclose(np.array(got[k]), difference(total, scales, k), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "options, words",
    [
        ({"mode": "int4"}, "mode is one of"),
        ({"bits": 7}, "1, 2, 3, 4, 5, 6 or 8"),
        ({"bits": 2**40}, "1, 2, 3, 4, 5, 6 or 8"),
        ({"group_size": 16}, "32, 64 or 128"),
        ({"mode": "mxfp4", "group_size": 64}, "32"),
        ({"mode": "mxfp8", "bits": 4}, "8"),
        ({"mode": "nvfp4", "group_size": 32}, "16"),
        ({"global_scale": mx.array(1.0)}, "nvfp4"),
        ({"mode": "nvfp4", "global_scale": mx.array([1.0, 2.0])}, "one number"),
    ],
)
def test_wrong_packings_name_what_is_accepted(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        mx.quantize(mx.ones((2, 64)), **options)


def test_wrong_shapes_and_dtypes_are_refused() -> None:
    codes, scales, biases = mx.quantize(mx.ones((2, 64)))
    with pytest.raises(ValueError, match="multiple of the group size"):
        mx.quantize(mx.ones((2, 100)))
    with pytest.raises(ValueError, match="at least 2 axes"):
        mx.quantize(mx.ones((64,)))
    with pytest.raises(TypeError, match="floats"):
        mx.quantize(mx.ones((2, 64), dtype=mx.int32))
    with pytest.raises(ValueError, match="needs biases"):
        mx.dequantize(codes, scales)
    with pytest.raises(ValueError, match="takes no biases"):
        mx.dequantize(codes, scales, biases, mode="mxfp4")
    with pytest.raises(ValueError, match="do not belong"):
        mx.dequantize(codes, scales, biases, group_size=32)
    with pytest.raises(TypeError, match="uint32"):
        mx.dequantize(codes.astype(mx.int32), scales, biases)
    with pytest.raises(TypeError, match="uint8"):
        mx.dequantize(codes, mx.ones((2, 2)), mode="mxfp4")
    with pytest.raises(TypeError, match="floats"):
        mx.dequantize(codes, scales, biases, dtype=mx.int32)


def test_8_bit_floats_survive_the_way_there_and_back() -> None:
    every = mx.array(np.arange(256, dtype=np.uint8))
    for dtype in (mx.float16, mx.bfloat16, mx.float32, mx.float64):
        back = np.array(mx.to_fp8(mx.from_fp8(every, dtype)))
        np.testing.assert_array_equal(back, np.arange(256))
    assert mx.from_fp8(every).dtype == mx.bfloat16


def test_8_bit_floats_saturate_and_keep_nan() -> None:
    x = mx.array([449.0, 1e9, mx.inf, -mx.inf, mx.nan, -0.0, 2.0**-10, 2.0**-10 * 1.01])
    np.testing.assert_array_equal(np.array(mx.to_fp8(x)), [0x7E, 0x7E, 0x7E, 0xFE, 0x7F, 0x80, 0, 1])


@pytest.mark.parametrize("mode", ["nvfp4", "mxfp8"])
def test_qqmm_multiplies_what_both_sides_are_rounded_to(mode: str) -> None:
    x, w = mx.array(draw(3, 64).astype(np.float32)), mx.array(draw(5, 64, seed=1).astype(np.float32))
    rounded = [np.array(mx.dequantize(*mx.quantize(a, mode=mode), mode=mode, dtype=mx.float32)) for a in (x, w)]
    wanted = rounded[0] @ rounded[1].T
    np.testing.assert_allclose(np.array(mx.qqmm(x, w, mode=mode)), wanted, rtol=1e-5, atol=1e-5)
    packed = mx.quantize(w, mode=mode)
    np.testing.assert_allclose(np.array(mx.qqmm(x, *packed, mode=mode)), wanted, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="'nvfp4' or 'mxfp8'"):
        mx.qqmm(x, w, mode="affine")


def test_qqmm_takes_global_scales() -> None:
    x, w = mx.array(draw(3, 64).astype(np.float32) * 1e5), mx.array(draw(5, 64, seed=1).astype(np.float32) * 1e-5)
    got = mx.qqmm(x, w, global_scale_x=mx.abs(x).max(), global_scale_w=mx.abs(w).max())
    plain = np.array(x) @ np.array(w).T
    assert np.abs(np.array(got) - plain).max() < 0.15 * np.abs(plain).max()
    packed = mx.quantize(w, mode="nvfp4", global_scale=mx.abs(w).max())
    again = mx.qqmm(x, *packed, global_scale_x=mx.abs(x).max(), global_scale_w=mx.abs(w).max())
    np.testing.assert_allclose(np.array(again), np.array(got), rtol=1e-4, atol=1e-4)


def test_gradients_of_qqmm_pass_the_rounding() -> None:
    x, w = mx.array(draw(3, 64).astype(np.float32)), mx.array(draw(5, 64, seed=1).astype(np.float32))
    g = mx.array(draw(3, 5, seed=2).astype(np.float32))
    rounded = [mx.dequantize(*mx.quantize(a, mode="mxfp8"), mode="mxfp8", dtype=mx.float32) for a in (x, w)]
    got = mx.grad(lambda a, b: (mx.qqmm(a, b, mode="mxfp8") * g).sum(), argnums=(0, 1))(x, w)
    np.testing.assert_allclose(np.array(got[0]), np.array(g @ rounded[1]), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.array(got[1]), np.array(g.T @ rounded[0]), rtol=1e-4, atol=1e-5)


def test_gather_qqmm_is_qqmm_of_picked_matrices() -> None:
    x, w = mx.array(draw(4, 2, 64).astype(np.float32)), mx.array(draw(3, 5, 64).astype(np.float32))
    picked = [2, 0, 1, 2]
    wanted = np.stack([np.array(mx.qqmm(x[i], w[j])) for i, j in enumerate(picked)])
    for weight in ((w,), mx.quantize(w, mode="nvfp4")):
        got = mx.gather_qqmm(x, *weight, rhs_indices=mx.array(picked))
        np.testing.assert_allclose(np.array(got), wanted, rtol=1e-4, atol=1e-5)
