"""Quantising rows of SmolLM2's weights gives MLX's codes, bit for bit, and products to rounding.

quantized_real_rows.npz was recorded with MLX: `w` are four rows of real weights, `x` an input; for each dtype, group
size and bits there are codes (q), scales (s), biases (z) and `x @ w.T` (mm); for the modes of small floats the codes,
scales and what they stand for (deq).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlxc as mx
from mlxc import nn
from mlxc.models.quantize import quantize_model

RECORDED = np.load(Path(__file__).parent / "data" / "quantized_real_rows.npz")
DTYPES = {"f32": mx.float32, "f16": mx.float16, "bf16": mx.bfloat16}
AFFINE = sorted(key[:-2] for key in RECORDED.files if "_g" in key and key.endswith("_q"))
MODES = ("mxfp4", "mxfp8", "nvfp4")


def packed(dtype: mx.Dtype, **how) -> nn.QuantizedLinear:
    """The recorded rows as a layer that quantize_model has packed."""
    rows = RECORDED["w"]
    model = nn.Sequential(nn.Linear(rows.shape[1], rows.shape[0], bias=False))
    model.load_weights([("layers.0.weight", mx.array(rows).astype(dtype))])
    quantize_model(model, **how)
    return model.layers[0]


def to_float(a: mx.array) -> np.ndarray:
    return np.array(a.astype(mx.float32))


@pytest.mark.parametrize("key", AFFINE)
def test_affine_codes_scales_and_biases_are_mlx_s(key):
    dtype, group, bits = key.split("_")
    layer = packed(DTYPES[dtype], group_size=int(group[1:]), bits=int(bits[1:]))
    np.testing.assert_array_equal(np.array(layer.weight), RECORDED[f"{key}_q"])
    for name, part in (("s", layer.scales), ("z", layer.biases)):
        np.testing.assert_array_equal(to_float(part), RECORDED[f"{key}_{name}"].astype(np.float32))
    if dtype == "f32" and f"{key}_mm" in RECORDED:
        got = layer(mx.array(RECORDED["x"])[:, : RECORDED["w"].shape[1]])
        np.testing.assert_allclose(np.array(got), RECORDED[f"{key}_mm"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_codes_of_small_floats_are_mlx_s(mode):
    layer = packed(mx.bfloat16, mode=mode)
    np.testing.assert_array_equal(np.array(layer.weight), RECORDED[f"{mode}_q"])
    np.testing.assert_array_equal(np.array(layer.scales), RECORDED[f"{mode}_s"])
    values = mx.dequantize(layer.weight, layer.scales, None, mode=mode)
    np.testing.assert_array_equal(to_float(values), RECORDED[f"{mode}_deq"].astype(np.float32))


def test_all_that_was_recorded_is_compared():
    named = [f"{key}_{part}" for key in AFFINE for part in ("q", "s", "z", "mm")]
    named += [f"{mode}_{part}" for mode in MODES for part in ("q", "s", "deq")]
    assert len(AFFINE) >= 45 and set(RECORDED.files) - {*named, "w", "x"} == set()
