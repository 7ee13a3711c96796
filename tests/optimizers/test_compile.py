"""Optimizers inside mx.compile: the state goes in and out, and a rate set between two calls counts."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from test_state import MAKERS, assert_same, starting_tree

import mlxc as mx
import mlxc.optimizers as optim
from mlxc import nn
from mlxc.utils import tree_flatten, tree_map


def make_step(optimizer: optim.Optimizer, model: dict):
    """A step with noise, so that the random state is part of it."""

    def step(data: mx.array) -> mx.array:
        gradients = tree_map(lambda p: p * data + 0.1 * mx.random.normal(p.shape), model)
        model.update(optimizer.apply_gradients(gradients, model))
        return mx.sum(model["filters"])

    return step


@pytest.mark.parametrize("case", MAKERS)
@pytest.mark.parametrize("begun", [False, True])
def test_a_compiled_step_does_what_the_plain_one_does(case, begun):
    results = []
    for compiled in (False, True):
        mx.random.seed(7)
        optimizer, model = MAKERS[case](), starting_tree()
        if begun:
            optimizer.init(model)
        step = make_step(optimizer, model)
        if compiled:
            state = [model, optimizer.state, mx.random.state]
            step = partial(mx.compile, inputs=state, outputs=state)(step)
        sums = []
        for i in range(4):
            if i == 2 and "learning_rate" in optimizer.state:
                optimizer.learning_rate = 0.5
            sums.append(step(mx.array(1.0 + i)))
            mx.eval(model, optimizer.state)
        results.append((mx.stack(sums), model, optimizer))
    (plain_sums, plain, optimizer), (sums, model, other) = results
    assert optimizer.step.item() == other.step.item() == 4
    np.testing.assert_allclose(np.array(sums), np.array(plain_sums), rtol=1e-5)
    found, expected = dict(tree_flatten([model, other.state])), dict(tree_flatten([plain, optimizer.state]))
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(np.array(found[name]), np.array(value), rtol=2e-5, atol=2e-6, err_msg=name)


def test_a_rate_set_between_calls_counts_without_a_new_trace():
    traces = []
    optimizer, model = optim.SGD(1.0), {"w": mx.array(0.0)}
    state = [model, optimizer.state]

    @partial(mx.compile, inputs=state, outputs=state)
    def step(gradient: mx.array) -> None:
        traces.append(None)
        model.update(optimizer.apply_gradients({"w": gradient}, model))

    optimizer.init(model)
    for rate, expected in ((1, -1.0), (0.5, -1.5), (mx.array(0.25), -1.75)):
        optimizer.learning_rate = rate
        step(mx.array(1.0))
        assert model["w"].item() == expected
    assert len(traces) == 1


def test_a_compiled_schedule_moves_with_the_steps():
    optimizer, model = optim.SGD(optim.exponential_decay(1.0, 0.5)), {"w": mx.array(0.0)}
    optimizer.init(model)
    state = [model, optimizer.state]
    step = partial(mx.compile, inputs=state, outputs=state)(
        lambda g: model.update(optimizer.apply_gradients({"w": g}, model))
    )
    for expected in (-1, -1.5, -1.75):
        step(mx.array(1.0))
        assert model["w"].item() == expected


def test_a_model_is_trained_by_a_compiled_step():
    mx.random.seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.Linear(16, 1))
    model.layers[0].freeze(keys="bias")
    optimizer = optim.AdamW(optim.linear_schedule(0.0, 0.05, 10))
    state = [model.state, optimizer.state, mx.random.state]
    x = mx.random.normal((64, 2))
    target = x @ mx.array([[1.0], [-2.0]])

    @partial(mx.compile, inputs=state, outputs=state)
    def step() -> mx.array:
        noisy = x + 0.1 * mx.random.normal(x.shape)
        loss, gradients = nn.value_and_grad(model, lambda x: mx.mean(mx.square(model(x) - target)))(noisy)
        optimizer.update(model, gradients)
        return loss

    losses = [step().item() for _ in range(60)]
    assert losses[-1] < 0.2 * losses[0]
    assert optimizer.step.item() == 60
    assert [sorted(part) for part in optimizer.state["layers"]] == [["weight"], ["bias", "weight"]]


def test_a_step_that_fails_while_it_is_traced_leaves_the_state_as_it_was():
    optimizer, model = optim.Adam(0.1), {"w": mx.ones(2)}
    optimizer.init(model)
    before = tree_map(lambda x: x, optimizer.state)
    state = [model, optimizer.state]
    step = partial(mx.compile, inputs=state, outputs=state)(
        lambda g: model.update(optimizer.apply_gradients({"w": g}, model))
    )
    with pytest.raises(ValueError, match=r"has shape \(3,\)"):
        step(mx.ones(3))
    assert_same(optimizer.state, before)
