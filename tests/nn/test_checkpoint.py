"""nn.utils.checkpoint: the same values and gradients, with less kept."""

from __future__ import annotations

import pytest

import mlxc as mx
from mlxc import nn
from mlxc.nn.utils import checkpoint
from mlxc.utils import tree_flatten


def flat(tree) -> dict:
    return {path: value.tolist() for path, value in tree_flatten(tree)}


def test_values_and_gradients_are_the_same():
    layer, x = nn.Linear(3, 3), mx.arange(6.0).reshape(2, 3)
    again = checkpoint(layer)
    assert again(x).tolist() == layer(x).tolist()

    def loss(f):
        return lambda x: (mx.sin(f(x)) ** 2).sum()

    _, want = nn.value_and_grad(layer, loss(layer))(x)
    _, got = nn.value_and_grad(layer, loss(again))(x)
    for (path, a), (_, b) in zip(tree_flatten(want), tree_flatten(got), strict=True):
        assert mx.allclose(a, b).item(), path
    assert mx.allclose(mx.grad(loss(layer))(x), mx.grad(loss(again))(x)).item()
    own = layer.weight
    again(x)
    assert layer.weight is own


def test_a_function_with_other_arguments_and_results():
    layer, x = nn.Linear(3, 3), mx.ones(3)
    f = checkpoint(layer, lambda x, flag, scale=1: [layer(x) * scale if flag else x, {"x": x}])
    assert f(x, False)[0].tolist() == [1.0] * 3
    assert f(x, True, scale=2)[0].tolist() == (layer(x) * 2).tolist()
    assert f(x, True)[1]["x"].tolist() == [1.0] * 3


def test_random_numbers_are_the_same_when_computed_again():
    layer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    x = mx.ones((8, 4))
    grads = []
    for f in (layer, checkpoint(layer)):
        mx.random.seed(4)
        grads.append(flat(nn.value_and_grad(layer, lambda x, f=f: f(x).sum())(x)[1]))
    assert grads[0] == grads[1]


def test_frozen_parameters_get_no_gradient():
    layer = nn.Linear(3, 3).freeze(keys="bias")
    _, grads = nn.value_and_grad(layer, lambda x: checkpoint(layer)(x).sum())(mx.ones(3))
    assert list(grads) == ["weight"]


def test_bad_arguments():
    with pytest.raises(TypeError, match="model is a Module, got int"):
        checkpoint(3)
    with pytest.raises(TypeError, match="fn is a function, got int"):
        checkpoint(nn.Linear(1, 1), 3)
    with pytest.raises(TypeError, match="fn is a function, got Module"):
        checkpoint(nn.Module())
