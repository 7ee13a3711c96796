"""cross_entropy: extreme logits, targets out of range, memory, and its gradient in each dtype."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx

RNG = np.random.default_rng(0)


def test_extreme_logits_neither_overflow_nor_vanish() -> None:
    logits = mx.array([[1e30, 0.0, 0.0], [-1e30, -1e30, -1e30], [0.0, -mx.inf, -mx.inf], [mx.inf, 0.0, 0.0]])
    got = np.array(mx.fast.cross_entropy(logits, mx.array([0, 1, 0, 1])))
    assert got[0] == 0
    assert np.isclose(got[1], np.log(3), rtol=1e-7)
    assert got[2] == 0
    assert np.isnan(got[3]) or np.isinf(got[3])


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8, -1e8, 1e20])
def test_large_logits_keep_their_differences_in_value_and_gradients(offset: float) -> None:
    logits, target = mx.full((1, 4), offset), mx.array([1])
    value, gradient = mx.value_and_grad(lambda x: mx.fast.cross_entropy(x, target).sum())(logits)
    assert np.isclose(value.item(), np.log(4), rtol=3e-7)
    np.testing.assert_allclose(gradient, [[0.25, -0.75, 0.25, 0.25]], rtol=3e-7)
    curvature = mx.grad(lambda x: mx.grad(lambda y: mx.fast.cross_entropy(y, target).sum())(x)[0, 0])(logits)
    np.testing.assert_allclose(curvature, [[0.1875, -0.0625, -0.0625, -0.0625]], rtol=1e-6)


def test_nan_stays_in_its_row() -> None:
    logits = np.zeros((2, 1000), np.float32)
    logits[0, 777] = np.nan
    got = np.array(mx.fast.cross_entropy(mx.array(logits), mx.array([0, 0])))
    assert np.isnan(got[0])
    assert np.isclose(got[1], np.log(1000))


@pytest.mark.parametrize("target", [-1, 5, 2**40])
def test_a_target_out_of_range_is_an_index_error_that_names_it(target: int) -> None:
    targets = mx.array([0, target], dtype=mx.int64)
    with pytest.raises(IndexError, match=str(target)):
        mx.eval(mx.fast.cross_entropy(mx.ones((2, 5)), targets))


def test_no_target_fits_no_classes() -> None:
    with pytest.raises(IndexError):
        mx.fast.cross_entropy(mx.ones((2, 0)), mx.array([0, 0]))
    assert mx.fast.cross_entropy(mx.ones((0, 0)), mx.zeros((0,), dtype=mx.int32)).shape == (0,)


def test_targets_are_integers() -> None:
    with pytest.raises(TypeError):
        mx.fast.cross_entropy(mx.ones((2, 5)), mx.array([0.0, 1.0]))


def test_nothing_of_the_logits_size_is_made() -> None:
    logits = mx.array(RNG.standard_normal((64, 10000)).astype(np.float32))
    targets = mx.array(RNG.integers(0, 10000, 64))
    mx.eval(logits, targets)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(mx.fast.cross_entropy(logits, targets))
    assert mx.get_peak_memory() - before < logits.nbytes // 100


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("float16", 1e-3), ("bfloat16", 8e-3)])
def test_the_gradient_is_the_softmax_less_one_at_the_target(dtype: str, tolerance: float) -> None:
    logits = mx.array(RNG.standard_normal((4, 700))).astype(getattr(mx, dtype))
    targets = mx.array([3, 699, 0, 511])
    got = mx.grad(lambda a: mx.fast.cross_entropy(a, targets).mean())(logits)
    assert got.dtype == logits.dtype
    wide = np.array(logits.astype(mx.float64))
    want = np.exp(wide) / np.exp(wide).sum(-1, keepdims=True)
    want[np.arange(4), np.array(targets)] -= 1
    assert np.allclose(np.array(got.astype(mx.float64)), want / 4, atol=tolerance / 4)


def test_a_sure_prediction_has_an_exact_gradient_at_its_target() -> None:
    """1 - softmax, computed there, not as a difference of two large numbers."""
    logits = mx.array([[40.0, 0.0]], dtype=mx.float64)
    got = np.array(mx.grad(lambda a: mx.fast.cross_entropy(a, mx.array([0])).sum())(logits))
    assert np.allclose(got[0, 1], np.exp(-40.0), rtol=1e-12)
