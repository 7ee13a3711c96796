"""Losses at singular points, in half precision, of empty batches; classes out of range and other wrong arguments."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mlxc as mx
from mlxc.nn import losses

PAIRS = ["l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "log_cosh_loss", "hinge_loss", "kl_div_loss",
         "binary_cross_entropy", "cosine_similarity_loss"]  # fmt: skip
X = mx.array([[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]])


def finite(*arrays: mx.array) -> bool:
    return all(mx.all(mx.isfinite(array)).item() for array in arrays)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_half_precision_is_the_float32_loss_rounded(name, dtype):
    x, y = mx.random.uniform(-3, 3, (2, 4, 3000), key=mx.random.key(1)).astype(dtype)
    for reduction in ("none", "mean"):
        found = getattr(losses, name)(x, y, reduction=reduction)
        wanted = getattr(losses, name)(x.astype(mx.float32), y.astype(mx.float32), reduction=reduction).astype(dtype)
        assert found.dtype == dtype and mx.array_equal(found, wanted).item()


def test_a_mean_of_many_half_precision_losses_does_not_overflow():
    x = mx.full((4096,), 100.0, dtype=mx.float16)
    assert losses.mse_loss(x, mx.zeros_like(x)).item() == 10000.0
    assert losses.cross_entropy(mx.zeros((70000, 2), dtype=mx.float16), mx.zeros(70000, mx.int32), reduction="mean")


def test_half_and_single_precision_give_single():
    assert losses.mse_loss(X.astype(mx.float16), X).dtype == mx.float32
    assert losses.cross_entropy(X.astype(mx.float16), mx.array([0, 1])).dtype == mx.float16
    assert losses.cross_entropy(X.astype(mx.float16), mx.array([0, 1]), weights=mx.ones(2)).dtype == mx.float32


@pytest.mark.parametrize("label", [-1, 3, -100])
@pytest.mark.parametrize("loss", [losses.cross_entropy, losses.nll_loss])
def test_a_class_out_of_range_is_an_index_error(loss, label):
    with pytest.raises(IndexError, match="out of range"):
        mx.eval(loss(X, mx.array([0, label])))
    with pytest.raises(IndexError, match="out of range"):
        mx.eval(loss(X.T, mx.array([0, label]), axis=0))


def test_probabilities_of_zero_do_not_count():
    rows = mx.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    found = losses.cross_entropy(X, rows)
    assert found.tolist() == [pytest.approx(losses.cross_entropy(X, mx.array([1, 0]))[0].item()), 0.0]
    assert mx.grad(lambda x: mx.sum(losses.cross_entropy(x, rows)))(X)[1].tolist() == [0.0, 0.0, 0.0]
    never = mx.array([[0.0, -math.inf]])
    assert losses.kl_div_loss(mx.log(mx.array([[0.5, 0.5]])), never).tolist() == [pytest.approx(math.log(2))]
    assert finite(mx.grad(lambda x, y: mx.sum(losses.kl_div_loss(x, y)))(mx.zeros((1, 2)), never))


def test_binary_cross_entropy_is_accurate_where_the_prediction_is_right():
    x = mx.array([15.0, -15.0, 0.0, 300.0, -300.0])
    y = mx.array([1, 0, 1, 0, 1])
    found = losses.binary_cross_entropy(x, y, reduction="none")
    np.testing.assert_allclose(np.array(found), [math.log1p(math.exp(-15))] * 2 + [math.log(2), 300, 300], rtol=2e-7)
    assert mx.grad(lambda x: mx.sum(losses.binary_cross_entropy(x, y, reduction="sum")))(x)[2].item() == -0.5


def test_certain_probabilities_have_finite_losses_and_gradients():
    p, y = mx.array([0.0, 1.0, 0.0, 1.0]), mx.array([0, 1, 1, 0])
    loss = lambda p: losses.binary_cross_entropy(p, y, with_logits=False, reduction="sum")  # noqa: E731
    assert losses.binary_cross_entropy(p, y, with_logits=False, reduction="none").tolist() == [0, 0, 100, 100]
    assert finite(mx.grad(loss)(p))


@pytest.mark.parametrize("p", [1, 2, 3, 1.5, math.inf])
@pytest.mark.parametrize("eps", [1e-6, 0.0])
def test_equal_triplets_have_finite_gradients(p, eps):
    x = mx.zeros((2, 3))
    loss = lambda a, b, c: mx.sum(losses.triplet_loss(a, b, c, p=p, eps=eps))  # noqa: E731
    assert finite(*mx.grad(loss, argnums=(0, 1, 2))(x, x, x))


def test_the_largest_difference_is_a_distance():
    found = losses.triplet_loss(mx.zeros((1, 2)), mx.array([[3.0, -4.0]]), mx.array([[1.0, 1.0]]), p=math.inf)
    assert found.tolist() == [4.0]


def test_zero_vectors_have_no_direction_and_finite_gradients():
    zero = mx.zeros((2, 3))
    assert losses.cosine_similarity_loss(zero, X).tolist() == [0.0, 0.0]
    loss = lambda a, b: mx.sum(losses.cosine_similarity_loss(a, b))  # noqa: E731
    assert finite(*mx.grad(loss, argnums=(0, 1))(zero, X), *mx.grad(loss, argnums=(0, 1))(zero, zero))


def test_log_cosh_is_accurate_near_zero_and_finite_far_out():
    x = mx.array([1e-4, -1e-4, 0.0, 5.0, -1e30])
    found = losses.log_cosh_loss(x, mx.zeros(5))
    np.testing.assert_allclose(np.array(found[:4]), [5e-9, 5e-9, 0, math.log(math.cosh(5))], rtol=1e-6)
    grads = mx.grad(lambda x: mx.sum(losses.log_cosh_loss(x, mx.zeros(5))))(x)
    np.testing.assert_allclose(np.array(grads), np.tanh(np.array(x)), rtol=1e-6)


def test_no_errors_in_an_equal_pair_give_zero_gradients():
    for name in ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "log_cosh_loss"):
        grads = mx.grad(lambda x, name=name: getattr(losses, name)(x, X, reduction="sum"))(X)
        assert grads.tolist() == [[0.0] * 3] * 2, name


@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_empty_batches(reduction):
    shape = (0,) if reduction == "none" else ()
    x, y = mx.zeros((0, 3)), mx.zeros(0, dtype=mx.int32)
    assert losses.cross_entropy(x, y, reduction=reduction).shape == shape
    assert losses.cross_entropy(x, y, reduction=reduction, label_smoothing=0.1).shape == shape
    assert losses.cross_entropy(x, x, reduction=reduction).shape == shape
    assert losses.nll_loss(x, y, reduction=reduction).shape == shape
    assert losses.triplet_loss(x, x, x, reduction=reduction).shape == shape


def test_errors_of_unsigned_integers_are_signed():
    x, y = mx.array([1, 2], dtype=mx.uint8), mx.array([3, 2], dtype=mx.uint8)
    assert losses.l1_loss(x, y).item() == 1.0 and losses.mse_loss(x, y, reduction="sum").item() == 4.0
    assert losses.smooth_l1_loss(x, y, reduction="none").tolist() == [1.5, 0.0]
    assert losses.huber_loss(x, y).tolist() == [1.5, 0.0]


def test_reductions():
    y = mx.zeros_like(X)
    each = losses.mse_loss(X, y, reduction="none")
    assert losses.mse_loss(X, y).item() == mx.mean(each).item()
    assert losses.mse_loss(X, y, reduction="sum").item() == mx.sum(each).item()


def test_zero_is_the_limit_of_smooth_l1():
    assert mx.array_equal(losses.smooth_l1_loss(X, -X, beta=0.0), losses.l1_loss(X, -X)).item()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: losses.mse_loss(X, X, reduction="avg"), r"\[mse_loss\] reduction .* got 'avg'"),
        (lambda: losses.l1_loss(X, X[0]), r"\[l1_loss\] shapes must be equal, got predictions .*\(2, 3\), targets"),
        (lambda: losses.cross_entropy(X, mx.array([1])), r"\[cross_entropy\] targets must have shape \(2,\) .*\(1,\)"),
        (lambda: losses.cross_entropy(X, mx.array([1, 0]), weights=X), r"\[cross_entropy\] weights must have"),
        (lambda: losses.cross_entropy(X, X, axis=2), r"\[cross_entropy\] there is no axis 2"),
        (lambda: losses.cross_entropy(X, X, label_smoothing=1.0), r"\[cross_entropy\] label_smoothing"),
        (lambda: losses.binary_cross_entropy(X, X, weights=X[0]), r"\[binary_cross_entropy\] weights must"),
        (lambda: losses.nll_loss(X, mx.array([[1], [0]])), r"\[nll_loss\] targets must have shape \(2,\)"),
        (lambda: losses.gaussian_nll_loss(X, X, X[0]), r"\[gaussian_nll_loss\] shapes .* vars of shape \(3,\)"),
        (lambda: losses.smooth_l1_loss(X, X, beta=-1.0), r"\[smooth_l1_loss\] beta"),
        (lambda: losses.huber_loss(X, X, delta=-1.0), r"\[huber_loss\] delta"),
        (lambda: losses.triplet_loss(X, X, X, p=0), r"\[triplet_loss\] p must be positive"),
        (lambda: losses.margin_ranking_loss(X, X, X[0]), r"\[margin_ranking_loss\] shapes"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_classes_must_be_integers():
    with pytest.raises(TypeError):
        losses.cross_entropy(X, mx.array([0.0, 1.0]))
    with pytest.raises(TypeError):
        mx.eval(losses.nll_loss(X, mx.array([0.0, 1.0])))
