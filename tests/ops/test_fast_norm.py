"""rms_norm and layer_norm: what the kit's cases of them do not say."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx

RNG = np.random.default_rng(0)


def to_mx(a: np.ndarray) -> mx.array:
    return mx.array(a, dtype=getattr(mx, a.dtype.name))


def test_a_weight_takes_part_in_the_results_dtype() -> None:
    x = mx.ones((2, 4), dtype=mx.bfloat16)
    assert mx.fast.rms_norm(x, None, 1e-5).dtype == mx.bfloat16
    assert mx.fast.rms_norm(x, mx.ones(4), 1e-5).dtype == mx.float32
    assert mx.fast.layer_norm(x, mx.ones(4, dtype=mx.bfloat16), mx.ones(4, dtype=mx.float16), 1e-5).dtype == mx.float32
    assert mx.fast.rms_norm(mx.array([1, 2]), None, 1e-5).dtype == mx.float32


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), ()])
def test_a_weight_has_one_axis(shape: tuple[int, ...]) -> None:
    for call in (
        lambda w: mx.fast.rms_norm(mx.ones((3, 4)), w, 1e-5),
        lambda w: mx.fast.layer_norm(mx.ones((3, 4)), w, None, 1e-5),
        lambda w: mx.fast.layer_norm(mx.ones((3, 4)), None, w, 1e-5),
    ):
        with pytest.raises(ValueError, match="must have one axis"):
            call(mx.ones(shape))


def test_a_large_mean_costs_no_digits_of_the_variance() -> None:
    x = RNG.standard_normal((4, 1000)) + 4096
    x = x.astype(np.float32)
    wide = x.astype(float)
    want = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
    assert np.allclose(np.array(mx.fast.layer_norm(to_mx(x), None, None, 0.0)), want, atol=2e-3, rtol=0)


def test_constant_rows_are_zero_and_their_gradient_is_finite() -> None:
    x = mx.full((2, 5), 3.0)
    assert np.array_equal(np.array(mx.fast.layer_norm(x, None, None, 1e-5)), np.zeros((2, 5)))
    gradient = mx.grad(lambda x: mx.fast.layer_norm(x, None, None, 1e-5)[0, 0])(x)
    assert np.isfinite(np.array(gradient)).all()


def test_nan_and_infinity_stay_in_their_rows() -> None:
    x = np.ones((3, 4), np.float32)
    x[0, 1], x[1, 2] = np.nan, np.inf
    for y in (mx.fast.rms_norm(to_mx(x), None, 0.0), mx.fast.layer_norm(to_mx(x), None, None, 1e-5)):
        rows = np.array(y)
        assert np.isnan(rows[0]).all()
        assert np.isnan(rows[1, 2])
        assert np.isfinite(rows[2]).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gradients_of_many_rows_are_summed_without_loss(dtype: str) -> None:
    """In the dtype itself, sums of 4096 ones would stop early."""
    kind = getattr(mx, dtype)
    x, w, b = mx.array([[1.0, -1.0]] * 4096).astype(kind), mx.ones(2, dtype=kind), mx.zeros(2, dtype=kind)
    dw, db = mx.grad(lambda w, b: mx.fast.layer_norm(x, w, b, 0.0).astype(mx.float32)[:, 0].sum(), (0, 1))(w, b)
    assert dw.tolist() == [4096, 0]
    assert db.tolist() == [4096, 0]
    dw = mx.grad(lambda w: mx.fast.rms_norm(x, w, 0.0).astype(mx.float32)[:, 0].sum())(w)
    assert dw.tolist() == [4096, 0]
