"""BatchNorm, InstanceNorm, GroupNorm: formulas, running averages, half precision, errors."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx
from mlxc import nn
from mlxc.utils import tree_flatten


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * 2 + 3


def normalised(x: np.ndarray, axes, eps: float = 1e-5) -> np.ndarray:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


@pytest.mark.parametrize("shape", [(6, 4), (5, 3, 4), (2, 3, 3, 4)])
def test_batch_norm_in_training_and_after(shape):
    x, layer = random(*shape), nn.BatchNorm(4)
    axes = tuple(range(len(shape) - 1))
    np.testing.assert_allclose(np.array(layer(mx.array(x))), normalised(x, axes), rtol=1e-4, atol=1e-5)
    mean, var = x.mean(axes) * 0.1, x.var(axes, ddof=1) * 0.1 + 0.9
    np.testing.assert_allclose(np.array(layer.running_mean), mean, rtol=1e-5)
    np.testing.assert_allclose(np.array(layer.running_var), var, rtol=1e-5)
    layer.weight, layer.bias = mx.array([1.0, 2.0, 3.0, 4.0]), mx.array([0.0, 1.0, 0.0, 1.0])
    y = np.array(layer.eval()(mx.array(x)))
    want = (x - mean) / np.sqrt(var + 1e-5) * np.array([1, 2, 3, 4]) + np.array([0, 1, 0, 1])
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.array(layer.running_mean), mean, rtol=1e-5)


def test_batch_norm_without_running_averages_or_weight():
    x = mx.array(random(5, 3))
    layer = nn.BatchNorm(3, affine=False, track_running_stats=False)
    assert list(layer) == []
    assert mx.array_equal(layer(x), layer.eval()(x)).item()
    assert repr(layer) == "BatchNorm(3, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False)"
    one = layer(x[:1])
    assert one.shape == (1, 3)


def test_the_running_averages_are_saved_but_never_trained():
    model = nn.Sequential(nn.BatchNorm(2))
    trainable = [path for path, _ in tree_flatten(model.trainable_parameters())]
    assert trainable == ["layers.0.weight", "layers.0.bias"]
    assert len(tree_flatten(model.parameters())) == 4
    for m in (model, model.layers[0]):
        m.freeze()
        m.unfreeze()
        assert [path for path, _ in tree_flatten(model.trainable_parameters())] == trainable
        m.unfreeze(keys=["running_mean"])
        assert [path for path, _ in tree_flatten(model.trainable_parameters())] == trainable


def test_the_momentum_is_the_share_of_the_new_value():
    layer, x = nn.BatchNorm(2, momentum=1.0), random(8, 2)
    layer(mx.array(x))
    np.testing.assert_allclose(np.array(layer.running_mean), x.mean(0), rtol=1e-5)
    layer = nn.BatchNorm(2, momentum=0.0)
    layer(mx.array(x))
    assert layer.running_mean.tolist() == [0.0, 0.0] and layer.running_var.tolist() == [1.0, 1.0]


def test_running_averages_in_a_compiled_step_and_under_a_gradient():
    layer, x = nn.BatchNorm(2), mx.array(random(8, 2))
    step = nn.value_and_grad(layer, lambda x: (layer(x) ** 2).sum())
    compiled = mx.compile(step, inputs=layer.state, outputs=layer.state)
    compiled(x)
    first = layer.running_mean.tolist()
    compiled(x)
    assert layer.running_mean.tolist() == pytest.approx([1.9 * v for v in first], rel=1e-5)


def test_instance_norm():
    x = random(2, 4, 3, 5)
    np.testing.assert_allclose(np.array(nn.InstanceNorm(5)(mx.array(x))), normalised(x, (1, 2)), rtol=1e-4, atol=1e-5)
    layer = nn.InstanceNorm(5, affine=True)
    layer.weight, layer.bias = mx.arange(5.0), mx.ones(5)
    np.testing.assert_allclose(
        np.array(layer(mx.array(x))), normalised(x, (1, 2)) * np.arange(5) + 1, rtol=1e-4, atol=1e-5
    )
    assert repr(layer) == "InstanceNorm(5, eps=1e-05, affine=True)" and list(nn.InstanceNorm(5)) == []


def test_group_norm_has_interleaved_groups_or_those_of_pytorch():
    x = random(2, 3, 3, 6)
    want = normalised(x.reshape(2, 9, 3, 2), (1, 2)).reshape(x.shape)
    np.testing.assert_allclose(np.array(nn.GroupNorm(2, 6)(mx.array(x))), want, rtol=1e-4, atol=1e-5)
    layer = nn.GroupNorm(2, 6, pytorch_compatible=True)
    layer.weight, layer.bias = mx.arange(6.0), mx.ones(6)
    want = normalised(x.reshape(2, 9, 2, 3), (1, 3)).reshape(x.shape) * np.arange(6) + 1
    np.testing.assert_allclose(np.array(layer(mx.array(x))), want, rtol=1e-4, atol=1e-5)
    assert repr(layer) == "GroupNorm(2, 6, eps=1e-05, affine=True, pytorch_compatible=True)"
    assert nn.GroupNorm(2, 6, affine=False)(mx.ones((4, 6))).shape == (4, 6)


@pytest.mark.parametrize("make", [lambda: nn.BatchNorm(3, affine=False), lambda: nn.InstanceNorm(3),
                                  lambda: nn.GroupNorm(3, 3, affine=False)])  # fmt: skip
def test_half_precision_is_computed_in_float32(make):
    x = (random(2, 500, 3) + 300).astype(np.float16)
    y = make()(mx.array(x))
    assert y.dtype == mx.float16
    layer = make()
    np.testing.assert_allclose(np.array(y), np.array(layer(mx.array(x.astype(np.float32)))), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.BatchNorm(3)(mx.ones(3)), "2, 3 or 4 dimensions, but got 1"),
        (lambda: nn.BatchNorm(3)(mx.ones((2, 2))), r"\[BatchNorm\] .* size 3, got shape \(2, 2\)"),
        (lambda: nn.BatchNorm(3)(mx.ones((1, 3))), "more than one value per channel"),
        (lambda: nn.InstanceNorm(3)(mx.ones((2, 3))), "at least 3 dimensions"),
        (lambda: nn.InstanceNorm(3)(mx.ones((2, 2, 4))), r"\[InstanceNorm\] .* size 3"),
        (lambda: nn.GroupNorm(3, 4), r"features \(4\) must be evenly divisible by the number of groups \(3\)"),
        (lambda: nn.GroupNorm(2, 4)(mx.ones(4)), "at least 2 axes"),
        (lambda: nn.GroupNorm(2, 4)(mx.ones((2, 6))), r"\[GroupNorm\] .* size 4"),
        (lambda: nn.BatchNorm(0), r"\[BatchNorm\] num_features"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        mx.eval(call())


def test_a_failed_call_leaves_the_running_averages():
    layer = nn.BatchNorm(3)
    for x in (mx.ones((1, 3)), mx.ones((2, 2))):
        with pytest.raises(ValueError):
            layer(x)
    assert layer.running_var.tolist() == [1.0] * 3


def test_an_empty_batch_changes_no_running_average():
    layer = nn.BatchNorm(3)
    assert layer(mx.ones((0, 3))).shape == (0, 3)
    assert layer.running_var.tolist() == [1.0] * 3
