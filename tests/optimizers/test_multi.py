"""MultiOptimizer: who gets which parameter, and what its own step, rate and errors are."""

from __future__ import annotations

import pytest

import mlxc as mx
import mlxc.optimizers as optim


def test_filters_are_asked_in_order_with_paths_and_the_last_optimizer_takes_the_rest():
    asked = []

    def first(path: str, weight: mx.array) -> bool:
        asked.append(path)
        return path == "a.0.w"

    optimizer = optim.MultiOptimizer(
        [optim.SGD(1.0), optim.SGD(0.5), optim.SGD(0.25)], [first, lambda path, weight: weight.ndim == 1]
    )
    ones = {"a": [{"w": mx.ones((2, 2))}, {"b": mx.ones(1)}], "c": (mx.array(1.0), mx.ones(1))}
    moved = optimizer.apply_gradients(ones, ones)
    assert list(moved) == ["a", "c"] and isinstance(moved["c"], tuple)
    assert moved["a"][0]["w"].tolist() == [[0, 0], [0, 0]] and moved["a"][1]["b"].item() == 0.5
    assert [x.item() for x in moved["c"]] == [0.75, 0.5]
    assert asked[:4] == ["a.0.w", "a.1.b", "c.0", "c.1"]
    assert [list(state["a"][0]) for state in optimizer.state["states"] if "a" in state] == [["w"], []]


def test_filters_see_the_weights():
    optimizer = optim.MultiOptimizer([optim.SGD(1.0), optim.SGD(0.5)], [lambda path, weight: weight.item() == 3])
    moved = optimizer.apply_gradients(
        {"a": mx.array(1.0), "b": mx.array(1.0)}, {"a": mx.array(3.0), "b": mx.array(1.0)}
    )
    assert (moved["a"].item(), moved["b"].item()) == (2, 0.5)


def test_one_optimizer_needs_no_filter_and_frozen_parts_no_gradients():
    optimizer = optim.MultiOptimizer([optim.SGD(0.5)])
    moved = optimizer.apply_gradients({"a": [{}, mx.array(1.0)]}, {"a": [mx.array(1.0), mx.array(1.0)]})
    assert moved["a"][0] == {} and moved["a"][1].item() == 0.5


def test_the_step_is_counted_and_the_rate_is_that_of_the_first():
    optimizer = optim.MultiOptimizer([optim.SGD(0.5), optim.SGD(0.25)], [lambda path, weight: True])
    optimizer.update({}, {})
    assert optimizer.step.item() == 1 and optimizer.learning_rate.item() == 0.5
    optimizer.learning_rate = 0.125
    assert [one.learning_rate.item() for one in optimizer.optimizers] == [0.125, 0.125]


def test_wrong_counts_and_kinds_are_refused():
    with pytest.raises(ValueError, match="1 optimizers take 0 filters, got 1"):
        optim.MultiOptimizer([optim.SGD(0.1)], [abs])
    with pytest.raises(ValueError, match="0 optimizers take 0 filters, got 0"):
        optim.MultiOptimizer([], [])
    with pytest.raises(TypeError, match="of class Optimizer, got float"):
        optim.MultiOptimizer([optim.SGD(0.1), 0.1], [abs])
    with pytest.raises(TypeError, match="filters are functions, got str"):
        optim.MultiOptimizer([optim.SGD(0.1), optim.SGD(0.1)], ["a"])


@pytest.mark.parametrize(
    ("gradients", "error", "text"),
    [
        ({"b": mx.array(1.0)}, ValueError, "a gradient of 'b' and no such parameter"),
        ({"a": mx.ones(2)}, ValueError, r"has shape \(2,\)"),
        ({"a": 1.0}, TypeError, "is an array, got float"),
    ],
)
def test_gradients_that_fit_no_parameters_are_refused_by_name(gradients, error, text):
    optimizer = optim.MultiOptimizer([optim.SGD(0.5), optim.SGD(0.25)], [lambda path, weight: path == "x"])
    with pytest.raises(error, match=text):
        optimizer.apply_gradients(gradients, {"a": mx.array(1.0)})
    assert optimizer.step.item() == 0
