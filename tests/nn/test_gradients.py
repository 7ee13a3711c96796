"""value_and_grad of a model: the form of the gradients, and a model that is whole again afterwards."""

from __future__ import annotations

import pytest

import mlxc as mx
from mlxc import nn


def make() -> nn.Linear:
    m = nn.Linear(2, 1)
    m.update({"weight": mx.array([[1.0, 2.0]]), "bias": mx.array([0.5])})
    return m


def test_value_and_gradients_by_the_trainable_parameters():
    m = make()
    x = mx.array([[3.0, 4.0]])
    value, grads = nn.value_and_grad(m, lambda x: (m(x) ** 2).sum())(x)
    assert value.item() == 11.5**2
    assert grads["weight"].tolist() == [[69.0, 92.0]] and grads["bias"].tolist() == [23.0]
    m.freeze(keys="bias")
    _, grads = nn.value_and_grad(m, lambda x: (m(x) ** 2).sum())(x)
    assert list(grads) == ["weight"]


def test_further_results_and_keyword_arguments_pass_through():
    m = make()
    (loss, out), _ = nn.value_and_grad(m, lambda x, scale: (m(x).sum() * scale, m(x)))(mx.ones((1, 2)), scale=2)
    assert loss.item() == 7.0 and out.tolist() == [[3.5]]


def test_the_function_keeps_its_name():
    def loss():
        """Says what it does."""

    f = nn.value_and_grad(make(), loss)
    assert f.__name__ == "loss" and f.__doc__ == "Says what it does."


def test_the_model_has_its_own_arrays_again():
    m = make()
    weight, bias = m.weight, m.bias
    nn.value_and_grad(m, lambda x: m(x).sum())(mx.ones((1, 2)))
    assert m.weight is weight and m.bias is bias

    def fails(x):
        assert m.weight is not weight
        raise KeyError("inside")

    with pytest.raises(KeyError):
        nn.value_and_grad(m, fails)(mx.ones((1, 2)))
    assert m.weight is weight and m.bias is bias


def test_what_the_function_puts_into_the_model_stays():
    m = make()
    m.count = mx.zeros(1)
    m.freeze(keys="count")

    def loss(x):
        m.count = m.count + 1
        m.bias = mx.zeros(1)
        return m(x).sum()

    nn.value_and_grad(m, loss)(mx.ones((1, 2)))
    assert m.count.item() == 1.0 and m.bias.tolist() == [0.0]


def test_a_layer_in_two_places_gets_the_sum_in_one_of_them():
    shared = nn.Linear(1, 1, bias=False)
    m = nn.Sequential(shared, shared)
    shared.weight = mx.array([[3.0]])
    _, grads = nn.value_and_grad(m, lambda x: m(x).sum())(mx.ones((1, 1)))
    assert sum(g["weight"].item() for g in grads["layers"]) == 6.0
    assert shared.weight.item() == 3.0


def test_inside_compile_with_the_state_as_input_and_output():
    m = make()
    loss_and_grad = nn.value_and_grad(m, lambda x: (m(x) ** 2).sum())

    def step(x):
        loss, grads = loss_and_grad(x)
        m.update({name: m[name] - 0.01 * grads[name] for name in grads})
        return loss

    compiled = mx.compile(step, inputs=m.state, outputs=m.state)
    x = mx.array([[3.0, 4.0]])
    losses = [compiled(x).item() for _ in range(3)]
    after = m.weight.tolist()
    m.update(make().parameters())
    assert losses == pytest.approx([step(x).item() for _ in range(3)])
    assert after[0] == pytest.approx(m.weight.tolist()[0])


def test_bad_arguments():
    with pytest.raises(TypeError, match="model is a Module, got int"):
        nn.value_and_grad(3, lambda: 0)
    with pytest.raises(TypeError, match="fn is a function, got int"):
        nn.value_and_grad(make(), 3)
    with pytest.raises(ValueError):
        nn.value_and_grad(make(), lambda x: x)(mx.ones((1, 2)))
    with pytest.raises(ValueError):
        nn.value_and_grad(make().freeze(), lambda x: x.sum())(mx.ones((1, 2)))
