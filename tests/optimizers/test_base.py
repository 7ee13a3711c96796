"""What all optimizers share: trees, steps, rates, schedules, classes of one's own, and errors."""

from __future__ import annotations

import importlib
import inspect
from collections import namedtuple

import numpy as np
import pytest

import mlxc as mx
import mlxc.optimizers as optim

ONE = mx.array(1.0)


def test_trees_of_dicts_lists_and_tuples_come_back_in_their_form():
    pair = namedtuple("pair", ["left", "right"])
    tree = {"a": [ONE, {"b": (ONE, ONE)}], "c": pair(ONE, {})}
    moved = optim.SGD(0.5).apply_gradients(tree, tree)
    assert moved == {"a": [mx.array(0.5), {"b": (mx.array(0.5), mx.array(0.5))}], "c": pair(mx.array(0.5), {})}
    assert isinstance(moved["c"], pair)


def test_one_array_is_a_tree_too():
    optimizer = optim.Adam(0.5, bias_correction=True)
    w = ONE
    for _ in range(2):
        w = optimizer.apply_gradients(ONE, w)
    assert w.item() == pytest.approx(0, abs=1e-6)
    assert optimizer.state["m"].item() == pytest.approx(0.19)


def test_parameters_without_gradients_stay_out():
    assert list(optim.SGD(0.5).apply_gradients({"a": ONE}, {"a": ONE, "b": ONE})) == ["a"]


def test_update_changes_a_model_in_place():
    model = {"a": ONE, "b": ONE}
    optimizer = optim.SGD(0.5)
    optimizer.update(model, {"a": ONE})
    assert model == {"a": mx.array(0.5), "b": ONE}
    optimizer.update(model, {})
    assert optimizer.step.item() == 2


def test_step_counts_and_is_of_64_bits():
    optimizer = optim.SGD(0.5)
    assert optimizer.step.item() == 0
    optimizer.apply_gradients({"a": ONE}, {"a": ONE})
    assert optimizer.step.item() == 1 and optimizer.step.dtype == mx.uint64


def test_a_rate_can_be_set_as_number_array_or_schedule():
    optimizer = optim.SGD(1)
    assert optimizer.learning_rate.dtype == mx.float32
    optimizer.learning_rate = 0.25
    assert optimizer.apply_gradients({"a": ONE}, {"a": ONE})["a"].item() == 0.75
    optimizer.learning_rate = mx.array(0.5)
    assert optimizer.apply_gradients({"a": ONE}, {"a": ONE})["a"].item() == 0.5
    optimizer.learning_rate = np.float32(0.125)
    assert optimizer.apply_gradients({"a": ONE}, {"a": ONE})["a"].item() == 0.875
    optimizer.learning_rate = lambda step: step / 4
    assert optimizer.apply_gradients({"a": ONE}, {"a": ONE})["a"].item() == 0.25


def test_a_schedule_sees_the_steps_before_and_apply_single_the_steps_with_this_one():
    seen = []

    class Recorder(optim.Optimizer):
        def __init__(self):
            super().__init__()
            self._maybe_schedule("learning_rate", lambda step: 0.5 * step)
            self._maybe_schedule("fixed", 3)

        def init_single(self, parameter, state):
            state["count"] = mx.array(0)

        def apply_single(self, gradient, parameter, state):
            state["count"] = state["count"] + 1
            rates = (self.learning_rate, self.state["fixed"])
            seen.append((self.step.item(), *(x.item() for x in rates), state["count"].item()))
            return parameter

    optimizer = Recorder()
    for _ in range(3):
        optimizer.apply_gradients({"a": ONE}, {"a": ONE})
    assert seen == [(1, 0.0, 3.0, 1), (2, 0.5, 3.0, 2), (3, 1.0, 3.0, 3)]


def test_named_schedules_of_the_base_class_move_with_the_steps():
    optimizer = optim.Optimizer(schedulers={"heat": lambda step: 10 - step})
    for _ in range(3):
        optimizer.update({}, {})
    assert optimizer.state["heat"].item() == 8


@pytest.mark.parametrize("name", ["RMSprop", "Adagrad", "Adam", "AdamW", "Adamax", "AdaDelta", "Adafactor"])
def test_a_gradient_of_zero_in_half_precision_moves_nothing_but_by_decay(name):
    optimizer = getattr(optim, name)(learning_rate=0.5)
    w = mx.array([[1.0, 2.0], [3.0, 4.0]], mx.float16)
    moved = optimizer.apply_gradients({"w": mx.zeros_like(w)}, {"w": w})["w"]
    np.testing.assert_allclose(np.array(moved), np.array(w), rtol=0.006)


def test_mixed_precision_gives_the_wider_dtype_as_mlx_does():
    half = mx.array(1.0, mx.float16)
    assert optim.SGD(0.5).apply_gradients({"a": ONE}, {"a": half})["a"].dtype == mx.float32
    assert optim.SGD(0.5).apply_gradients({"a": half}, {"a": ONE})["a"].dtype == mx.float32


def test_muon_makes_singular_values_one_and_keeps_empty_matrices():
    gradient = mx.random.normal((6, 4), key=mx.random.key(0))
    step = optim.Muon(1.0, weight_decay=0.0).apply_gradients({"a": gradient}, {"a": mx.zeros((6, 4))})["a"]
    values = np.linalg.svd(np.array(step) / np.sqrt(6 / 4), compute_uv=False)
    assert values.min() > 0.6 and values.max() < 1.3
    assert optim.Muon(1.0).apply_gradients({"a": mx.ones((0, 4))}, {"a": mx.ones((0, 4))})["a"].shape == (0, 4)


def test_names_are_where_mlx_has_them():
    for module in ("optimizers", "schedulers"):
        inner = importlib.import_module(f"mlxc.optimizers.{module}")
        for name in inner.__all__:
            assert getattr(inner, name) is getattr(optim, name)
    assert {*importlib.import_module("mlxc.optimizers.optimizers").__all__} | {
        *importlib.import_module("mlxc.optimizers.schedulers").__all__
    } == {*optim.__all__}


@pytest.mark.parametrize("name", optim.__all__)
def test_every_class_and_method_is_described(name):
    value = getattr(optim, name)
    assert "Example:" in inspect.getdoc(value)
    if inspect.isclass(value):
        for method in vars(value):
            if not method.startswith("_"):
                assert inspect.getdoc(getattr(value, method)), f"{name}.{method}"


# ---- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gradients", "parameters", "error", "text"),
    [
        ({"b": ONE}, {"a": ONE}, ValueError, r"a gradient of 'b' and no such parameter: there are \['a'\]"),
        ({"a": {"b": [ONE, ONE]}}, {"a": {"b": [ONE]}}, ValueError, r"of 'a.b.1' .* at 'a.b' there are 1 in a list"),
        ({"a": {"b": ONE}}, {"a": ONE}, ValueError, r"of 'a.b' and no such parameter: at 'a' there is one array"),
        ({"a": mx.ones(2)}, {"a": ONE}, ValueError, r"of 'a' has shape \(2,\), its parameter \(\)"),
        ({"a": 1.0}, {"a": ONE}, TypeError, r"the gradient of 'a' is an array, got float"),
        ({"a": None}, {"a": ONE}, TypeError, r"the gradient of 'a' is an array, got NoneType"),
        ({"a": ONE}, {"a": [ONE]}, TypeError, r"the parameter of 'a' is an array where its gradient is one, got list"),
        ([ONE], [ONE], TypeError, r"got list instead of a dict of parameters"),
        ({"step": ONE}, {"step": ONE}, ValueError, r"a parameter cannot be named 'step'"),
        ({"learning_rate": ONE}, {"learning_rate": ONE}, ValueError, r"cannot be named 'learning_rate'"),
    ],
)
def test_gradients_that_fit_no_parameters_are_refused_by_name(gradients, parameters, error, text):
    optimizer = optim.Adam(0.1)
    with pytest.raises(error, match=text):
        optimizer.apply_gradients(gradients, parameters)
    assert optimizer.step.item() == 0 and list(optimizer.state) == ["step", "learning_rate"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: optim.SGD(0.1, nesterov=True), r"\[SGD\] nesterov needs a momentum above 0"),
        (
            lambda: optim.SGD(0.1, 0.9, dampening=0.1, nesterov=True),
            r"no dampening, got momentum 0.9 and dampening 0.1",
        ),
        (lambda: optim.RMSprop(0.1, alpha=-1), r"\[RMSprop\] alpha is at least 0, got -1"),
        (lambda: optim.RMSprop(0.1, eps=0), r"\[RMSprop\] eps is above 0, got 0"),
        (lambda: optim.Adagrad(0.1, eps=-1), r"\[Adagrad\] eps is above 0, got -1"),
        (lambda: optim.AdaDelta(0.1, rho=-0.1), r"\[AdaDelta\] rho is at least 0, got -0.1"),
        (lambda: optim.AdaDelta(0.1, eps=0), r"\[AdaDelta\] eps is above 0, got 0"),
        (lambda: optim.Adam(0.1, betas=[1.0, 0.9]), r"\[Adam\] beta1 is at least 0 and less than 1, got 1.0"),
        (lambda: optim.AdamW(0.1, betas=[0.9, -0.1]), r"\[AdamW\] beta2 is at least 0 and less than 1, got -0.1"),
        (lambda: optim.Adamax(0.1, eps=-1e-8), r"\[Adamax\] eps is at least 0, got -1e-08"),
        (lambda: optim.Lion(0.1, betas=[0.9]), r"\[Lion\] betas are two numbers, got 1"),
        (lambda: optim.Adafactor(eps=(1e-30,)), r"\[Adafactor\] eps are two numbers, got 1"),
    ],
)
def test_settings_out_of_range_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize("rate", [None, "0.1", True, [0.1]])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(TypeError, match=r"\[SGD\] learning_rate is a number, an array or a function of the step, got"):
        optim.SGD(rate)
    optimizer = optim.SGD(0.1)
    with pytest.raises(TypeError, match="learning_rate is a number"):
        optimizer.learning_rate = rate
    assert optimizer.learning_rate.item() == pytest.approx(0.1)


def test_a_rate_that_there_is_not_is_told():
    with pytest.raises(AttributeError, match="this Adafactor was made without a learning rate"):
        _ = optim.Adafactor().learning_rate
    with pytest.raises(ValueError, match="with relative_step=False it needs a learning_rate"):
        optim.Adafactor(relative_step=False).apply_gradients({"a": ONE}, {"a": ONE})


def test_the_base_class_says_what_a_subclass_gives():
    with pytest.raises(NotImplementedError, match="Optimizer has no init_single: a subclass of Optimizer gives it"):
        optim.Optimizer().apply_gradients({"a": ONE}, {"a": ONE})
