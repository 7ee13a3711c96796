"""clip_grad_norm: one number for the whole tree, dtypes kept, norms in float32 whatever the gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mlxc as mx
import mlxc.optimizers as optim


def test_long_gradients_are_scaled_to_the_norm_and_short_ones_left():
    grads = {"a": mx.array([2.0, 3.0]), "b": [mx.array([1.0])]}
    clipped, norm = optim.clip_grad_norm(grads, 2.0)
    assert norm.item() == pytest.approx(math.sqrt(14), rel=1e-6)
    np.testing.assert_allclose(clipped["a"].tolist(), np.array([2, 3]) * 2 / math.sqrt(14), rtol=1e-6)
    np.testing.assert_allclose(clipped["b"][0].tolist(), [2 / math.sqrt(14)], rtol=1e-6)
    same, _ = optim.clip_grad_norm(grads, 4.0)
    assert same["a"].tolist() == [2, 3] and same["b"][0].tolist() == [1]


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32, mx.float64])
def test_a_norm_beyond_half_precision_is_right_and_dtypes_stay(dtype):
    clipped, norm = optim.clip_grad_norm({"a": mx.full((10_000,), 300.0, dtype)}, 1.0)
    assert norm.item() == pytest.approx(30_000, rel=1e-6)
    assert norm.dtype == (mx.float64 if dtype == mx.float64 else mx.float32)
    assert clipped["a"].dtype == dtype
    np.testing.assert_allclose(np.array(clipped["a"].astype(mx.float32)), 0.01, rtol=2**-8)


def test_no_gradients_have_norm_0():
    clipped, norm = optim.clip_grad_norm({}, 1.0)
    assert clipped == {} and norm.item() == 0


def test_a_norm_below_zero_is_refused():
    with pytest.raises(ValueError, match=r"\[clip_grad_norm\] max_norm is at least 0, got -2.0"):
        optim.clip_grad_norm({}, -2.0)
