"""The state: saved and restored, pickled or copied, an optimizer goes on bit for bit; a failed step changes nothing."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import optimizer_cases
import pytest

import mlxc as mx
import mlxc.optimizers as optim
from mlxc.utils import tree_flatten, tree_map, tree_unflatten


def make_multi() -> optim.MultiOptimizer:
    return optim.MultiOptimizer(
        [optim.Muon(learning_rate=0.1), optim.AdamW(learning_rate=optim.cosine_decay(0.01, 20), bias_correction=True)],
        [has_two_axes],
    )


def has_two_axes(path: str, weight: mx.array) -> bool:
    return weight.ndim == 2


MAKERS = {
    case: lambda kind=kind, arguments=arguments: getattr(optim, kind)(**arguments)
    for case, (kind, arguments) in optimizer_cases.CASES.items()
} | {"multi": make_multi, "scheduled": lambda: optim.Adam(optim.step_decay(0.1, 0.5, 2))}


def starting_tree() -> dict[str, Any]:
    """Parameters in dicts and lists, one of which begins with what the optimizers of `multi` have no part in."""
    values = {name: mx.array(value) for name, value in optimizer_cases.starting_values().items()}
    return {
        "layers": [
            {"weight": values["matrix"], "bias": values["vector"]},
            values["scalar"],
            {"weight": values["tall"]},
        ],
        "filters": values["filters"],
    }


def take_steps(optimizer: optim.Optimizer, parameters: dict, first: int, count: int) -> dict:
    for step in range(first, first + count):
        key = mx.random.key(step)
        gradients = tree_map(lambda p, key=key: mx.random.normal(p.shape, key=key), parameters)
        parameters = optimizer.apply_gradients(gradients, parameters)
    return parameters


def assert_same(left: Any, right: Any) -> None:
    left, right = dict(tree_flatten(left)), dict(tree_flatten(right))
    assert sorted(left) == sorted(right)
    for name, value in left.items():
        assert value.dtype == right[name].dtype
        assert np.array_equal(np.array(value), np.array(right[name])), name


@pytest.fixture(params=MAKERS)
def interrupted(request):
    """A maker, what three steps reach, and the optimizer and parameters that an uninterrupted run ends with."""
    optimizer = MAKERS[request.param]()
    middle = take_steps(optimizer, starting_tree(), 0, 3)
    mx.eval(middle, optimizer.state)
    kept = copy.deepcopy(optimizer)
    return MAKERS[request.param], kept, middle, optimizer, take_steps(optimizer, middle, 3, 3)


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_a_saved_state_goes_on_bit_for_bit(interrupted, kind, tmp_path):
    make, kept, middle, optimizer, end = interrupted
    path = str(tmp_path / f"state.{kind}")
    flat = tree_flatten(kept.state, destination={})
    mx.save_safetensors(path, flat) if kind == "safetensors" else mx.savez(path, **flat)
    restored = make()
    restored.state = tree_unflatten(mx.load(path))
    assert_same(take_steps(restored, middle, 3, 3), end)
    assert_same(restored.state, optimizer.state)


def test_a_pickled_optimizer_goes_on_bit_for_bit(interrupted):
    _, kept, middle, optimizer, end = interrupted
    restored = pickle.loads(pickle.dumps(kept))
    assert_same(take_steps(restored, middle, 3, 3), end)
    assert_same(restored.state, optimizer.state)


def test_a_copy_is_independent_of_the_original(interrupted):
    _, kept, middle, _, _ = interrupted
    before = tree_map(lambda x: x, kept.state)
    take_steps(copy.deepcopy(kept), middle, 3, 1)
    assert_same(kept.state, before)


@pytest.mark.parametrize(
    ("make", "matrix", "vector"),
    [
        (lambda: optim.SGD(0.1), "v", "v"),
        (lambda: optim.RMSprop(0.1), "v", "v"),
        (lambda: optim.Adagrad(0.1), "v", "v"),
        (lambda: optim.AdaDelta(0.1), "v u", "v u"),
        (lambda: optim.Adam(0.1), "m v", "m v"),
        (lambda: optim.Adamax(0.1), "m v", "m v"),
        (lambda: optim.Lion(0.1), "m", "m"),
        (lambda: optim.Adafactor(0.1, beta_1=0.9), "exp_avg_sq_row exp_avg_sq_col exp_avg", "exp_avg_sq exp_avg"),
        (lambda: optim.Muon(0.1), "v", "v"),
    ],
)
def test_the_state_has_mlxs_names_in_mlxs_order(make, matrix, vector):
    """So that a state which MLX has saved can be taken up here, and the other way round."""
    optimizer = make()
    optimizer.init({"w": mx.zeros((2, 3)), "l": [{"b": mx.zeros(3)}]})
    expected = [
        "step",
        "learning_rate",
        *(f"w.{key}" for key in matrix.split()),
        *(f"l.0.b.{k}" for k in vector.split()),
    ]
    assert [path for path, _ in tree_flatten(optimizer.state)] == expected


def test_init_keeps_what_there_is_and_adds_what_is_missing():
    optimizer = optim.SGD(0.1, momentum=0.9)
    optimizer.apply_gradients({"a": mx.array(1.0)}, {"a": mx.array(0.0)})
    optimizer.init({"a": mx.array(0.0), "b": [mx.ones(2), {}, mx.ones(3)]})
    assert optimizer.state["a"]["v"].item() == 1
    assert [state.get("v", mx.array(7)).tolist() for state in optimizer.state["b"]] == [[0, 0], 7, [0, 0, 0]]


def test_a_parameter_that_thaws_later_gets_its_state_then():
    optimizer = optim.SGD(0.5, momentum=0.5)
    parameters = {"a": [mx.array(0.0), mx.array(0.0)]}
    optimizer.apply_gradients({"a": [mx.array(1.0), {}]}, parameters)
    moved = optimizer.apply_gradients({"a": [mx.array(1.0), mx.array(1.0)]}, parameters)
    assert [p.item() for p in moved["a"]] == [-0.75, -0.5]


def test_the_state_has_the_dtype_of_the_gradients_unless_init_says_otherwise():
    half, single = mx.array(1.0, mx.float16), mx.array(1.0)
    optimizer = optim.Adam(0.1)
    optimizer.apply_gradients({"a": half}, {"a": single})
    assert optimizer.state["a"]["m"].dtype == mx.float16
    optimizer = optim.Adam(0.1)
    optimizer.init({"a": single})
    optimizer.apply_gradients({"a": half}, {"a": single})
    assert optimizer.state["a"]["m"].dtype == mx.float32


def test_the_state_is_live():
    optimizer = optim.SGD(0.1, momentum=0.9)
    state = optimizer.state
    optimizer.apply_gradients({"a": mx.array(1.0)}, {"a": mx.array(0.0)})
    assert state["step"].item() == 1 and state["a"]["v"].item() == 1
    state["learning_rate"] = mx.array(0.5)
    assert optimizer.learning_rate.item() == 0.5


class Fails(optim.SGD):
    """Moves the first parameters and fails at the last."""

    def apply_single(self, gradient, parameter, state):
        if parameter.ndim == 0:
            raise ArithmeticError("no")
        return super().apply_single(gradient, parameter, state)


@pytest.mark.parametrize("multi", [False, True])
def test_a_step_that_fails_leaves_the_state_as_it_was(multi):
    optimizer: optim.Optimizer = Fails(optim.exponential_decay(0.1, 0.5), momentum=0.9)
    if multi:
        optimizer = optim.MultiOptimizer([optim.Adam(0.1), optimizer], [has_two_axes])
    parameters = starting_tree()
    optimizer.init(parameters)
    before = copy.deepcopy(optimizer.state)
    with pytest.raises(ArithmeticError, match="no"):
        optimizer.apply_gradients(parameters, parameters)
    assert_same(optimizer.state, before)


def test_a_state_of_other_parameters_is_refused():
    optimizer = optim.Adam(0.1)
    optimizer.apply_gradients({"w": mx.ones((2, 3))}, {"w": mx.ones((2, 3))})
    other = optim.Adam(0.1)
    other.state = optimizer.state
    with pytest.raises(ValueError, match=r"\[Adam.state\] 'm' of 'w' has shape \(2, 3\), its parameter \(3,\)"):
        other.apply_gradients({"w": mx.ones(3)}, {"w": mx.ones(3)})


def test_what_is_no_state_is_refused_and_the_old_one_stays():
    optimizer = optim.Adam(0.1)
    with pytest.raises(TypeError, match=r"the state is a dict, got list"):
        optimizer.state = [1]
    with pytest.raises(ValueError, match=r"has a 'step', this dict has \['m'\]"):
        optimizer.state = {"m": mx.array(1)}
    assert optimizer.step.item() == 0
    multi = make_multi()
    for state in ({}, {"states": [optimizer.state]}):
        with pytest.raises(ValueError, match="a list 'states' of 2"):
            multi.state = state
    with pytest.raises(ValueError, match="has a 'step'"):
        multi.state = {"states": [{"step": mx.array(9)}, {}]}
    assert multi.step.item() == 0
