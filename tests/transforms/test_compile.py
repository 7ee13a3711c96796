"""compile: keys and retracing, captured state, trees, constants, errors, and every order of nesting with transforms."""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import sys
import threading
import weakref
from collections import namedtuple
from functools import partial

import numpy as np
import pytest

import mlxc as mx

Pair = namedtuple("Pair", ["a", "b"])


def counted(fun):
    """The function, and a list that grows with each of its calls."""
    calls = []

    def wrapper(*args, **kwargs):
        calls.append(None)
        return fun(*args, **kwargs)

    return wrapper, calls


def assert_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, mx.array):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_array_equal(np.array(a), np.array(b))
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    else:
        assert a == b


# ---- keys ---------------------------------------------------------------------------------------


def test_values_do_not_retrace_but_shapes_and_dtypes_do():
    fun, calls = counted(lambda x: x * 2 + 1)
    f = mx.compile(fun)
    for values in ([1.0, 2.0], [3.0, 4.0]):
        assert f(mx.array(values)).tolist() == [2 * v + 1 for v in values]
    assert len(calls) == 1
    assert f(mx.array([1, 2])).tolist() == [3, 5]
    assert f(mx.array([1.0])).tolist() == [3.0]
    assert f(mx.array([[1.0, 2.0]])).tolist() == [[3.0, 5.0]]
    assert len(calls) == 4
    f(mx.array([5.0, 6.0]))
    assert len(calls) == 4


@pytest.mark.parametrize(
    "values",
    [(1, 2), (1, 1.0), (1, True), (0.0, -0.0), ("a", "b"), (None, 0), (2**70, 2**71), (1j, 2j), (b"a", "a"), ("",)],
)
def test_constants_are_told_apart(values):
    seen = []
    f = mx.compile(lambda x, c: (seen.append(c), x)[1])
    for value in (*values, *values):
        f(mx.array(1.0), value)
    assert [repr(c) for c in seen] == [repr(v) for v in values]


def test_nan_is_one_constant():
    fun, calls = counted(lambda x, c: x * c)
    f = mx.compile(fun)
    for _ in range(2):
        assert np.isnan(f(mx.array(1.0), float("nan")).item())
    assert len(calls) == 1


def test_dtype_arguments():
    f = mx.compile(lambda x, dtype: x.astype(dtype))
    assert f(mx.array(1.5), mx.int32).dtype == mx.int32
    assert f(mx.array(1.5), mx.float16).dtype == mx.float16


def test_structure_is_part_of_the_key():
    f = mx.compile(lambda tree: sum(tree["l"]) if isinstance(tree, dict) else tree[0] - tree[1])
    a, b = mx.array(5.0), mx.array(3.0)
    assert f({"l": [a, b]}).item() == 8.0
    assert f([a, b]).item() == 2.0
    assert f((a, b)).item() == 2.0
    assert f({"l": [a, b, b]}).item() == 11.0
    assert f({"l": (a, b)}).item() == 8.0


def test_dict_keys_of_any_constant_kind_are_told_apart():
    f = mx.compile(lambda d: next(iter(d)) * next(iter(d.values())))
    assert [f({key: mx.array(1.0)}).item() for key in (2, 3, 2, 2.5)] == [2.0, 3.0, 2.0, 2.5]


def test_arguments_by_keyword_and_by_place():
    f = mx.compile(lambda x, y=None, *, scale=1: (x if y is None else x - y) * scale)
    a, b = mx.array(5.0), mx.array(3.0)
    assert [f(a).item(), f(a, b).item(), f(a, y=b).item(), f(y=b, x=a).item(), f(a, scale=2).item()] == [5, 2, 2, 2, 10]


@pytest.mark.parametrize("bad", [object(), np.zeros(2), {1, 2}, lambda: 1])
def test_other_arguments_are_refused(bad):
    with pytest.raises(ValueError, match="trees of arrays or constants"):
        mx.compile(lambda x, y: x)(mx.array(1.0), bad)


def test_functions_of_no_arrays():
    f = mx.compile(lambda n: mx.zeros((n,)) + 1)
    assert f(2).tolist() == [1, 1]
    assert f(3).tolist() == [1, 1, 1]
    assert mx.compile(lambda: mx.array(3))().item() == 3


def test_many_inputs_and_outputs():
    f = mx.compile(lambda *xs: [x + i for i, x in enumerate(xs)])
    out = f(*[mx.array(float(i)) for i in range(100)])
    assert [x.item() for x in out] == [2.0 * i for i in range(100)]


# ---- results ------------------------------------------------------------------------------------


def test_trees_come_back_as_they_were():
    def fun(x):
        return {"a": [x + 1, (x, None)], "p": Pair(x * 2, "text"), "n": 3, "e": [], "t": ()}

    f, x = mx.compile(fun), mx.array([1.0, 2.0])
    for _ in range(2):
        assert_same(f(x), fun(x))


def test_each_call_returns_containers_of_its_own():
    f = mx.compile(lambda x: [x + 1])
    x = mx.array(1.0)
    first = f(x)
    first.append(None)
    assert len(f(x)) == 1


def test_inputs_and_captured_arrays_as_outputs():
    w = mx.array([7.0])
    f = mx.compile(lambda x: (x, w, x, x + w, x + w))
    x = mx.array([1.0])
    for _ in range(2):
        assert [a.tolist() for a in f(x)] == [[1], [7], [1], [8], [8]]
    y = f(x)[0]
    y += 1
    assert x.item() == 1.0


def test_other_results_are_refused():
    with pytest.raises(ValueError, match="outputs of a compiled function"):
        mx.compile(lambda x: {1, 2})(mx.array(1.0))


def test_ops_of_several_outputs():
    f = mx.compile(mx.divmod)
    q, r = f(mx.array([7, 8]), mx.array([2, 3]))
    assert (q.tolist(), r.tolist()) == ([3, 2], [1, 2])
    assert mx.compile(lambda a, b: mx.divmod(a, b)[1] * 2)(mx.array([7, 8]), mx.array([2, 3])).tolist() == [2, 4]


def test_strided_inputs():
    fun = lambda x: mx.exp(x).sum(axis=0) + x[::-1, 1].reshape(2, 2) * 2  # noqa: E731
    f = mx.compile(fun)
    base = mx.arange(32, dtype=mx.float32).reshape(8, 4) / 32
    for x in (base[::2, :2], base[4:, 2:], base[3::-1, :2], mx.broadcast_to(base[0, :2], (4, 2)), base.T[:, :2]):
        np.testing.assert_array_equal(np.array(f(x)), np.array(fun(x)))


@pytest.mark.parametrize("shape", [(0,), (3, 0), ()])
def test_empty_and_0d(shape):
    f = mx.compile(lambda x: (x + 1, x.sum(), x.reshape(-1)))
    x = mx.ones(shape)
    assert_same(f(x), (x + 1, x.sum(), x.reshape(-1)))


def test_arguments_are_not_changed_by_a_call():
    x = mx.array([1.0, 2.0])
    mx.compile(lambda t: (t + 1) * 2)(x).tolist()
    assert x.tolist() == [1.0, 2.0]


def test_lazy_arguments_and_chained_calls():
    f = mx.compile(lambda x: x * 1.5 + 1)
    x = mx.zeros(3)
    for _ in range(50):
        x = f(x + 0)
    expected = 0.0
    for _ in range(50):
        expected = np.float32(expected * np.float32(1.5) + 1)
    assert x.tolist() == [expected] * 3


# ---- constants ----------------------------------------------------------------------------------


def test_captured_arrays_are_constants():
    w = mx.array(2.0)
    f = mx.compile(lambda x: x * w)
    assert f(mx.array(3.0)).item() == 6.0
    w += 1
    assert f(mx.array(3.0)).item() == 6.0


def test_captured_arrays_need_no_values_yet():
    w = mx.exp(mx.array([0.0, 1.0])) * 2
    f = mx.compile(lambda x: x + w)
    for _ in range(2):
        np.testing.assert_allclose(np.array(f(mx.array([1.0, 1.0]))), 1 + 2 * np.exp([0, 1]), rtol=1e-6)


def test_a_captured_array_that_fails_fails_the_call():
    bad = mx.array([1.0, 2.0])[mx.array([7])]
    f = mx.compile(lambda x: x + bad)
    with pytest.raises(IndexError):
        f(mx.array(1.0)).item()


def test_constants_made_inside():
    f = mx.compile(lambda x: x + mx.arange(3) * mx.full((3,), 2.0) + mx.array([0.0, 0.0, 1.0]))
    for _ in range(2):
        assert f(mx.zeros(3)).tolist() == [0.0, 2.0, 5.0]


def test_side_effects_happen_once_a_trace():
    seen = []
    f = mx.compile(lambda x: (seen.append(x.shape), x + 1)[1])
    for _ in range(3):
        f(mx.zeros(2))
    assert seen == [(2,)]


# ---- captured state -----------------------------------------------------------------------------


def test_state_is_read_and_written_at_each_call():
    state = {"n": mx.array(0), "list": [mx.array(1.0)]}

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x):
        state["n"] = state["n"] + 1
        state["list"][0] = state["list"][0] * x
        return state["list"][0] + 0

    inner = state["list"]
    assert [step(mx.array(2.0)).item() for _ in range(3)] == [2.0, 4.0, 8.0]
    assert state["n"].item() == 3
    assert state["list"] is inner
    state["n"] = mx.array(10)
    step(mx.array(2.0))
    assert state["n"].item() == 11


def test_old_values_of_state_stay_as_they_were():
    state = [mx.array(1.0)]

    @partial(mx.compile, inputs=state, outputs=state)
    def step():
        state[0] = state[0] + 1

    before = state[0]
    step()
    step()
    assert (before.item(), state[0].item()) == (1.0, 3.0)


def test_state_made_by_the_first_call():
    state = {}

    @partial(mx.compile, inputs=state, outputs=state)
    def step(x):
        state["sum"] = state.get("sum", mx.array(0.0)) + x
        return state["sum"]

    assert [step(mx.array(2.0)).item() for _ in range(3)] == [2.0, 4.0, 6.0]


def test_outputs_alone_are_written():
    log = [mx.array(0.0)]

    @partial(mx.compile, outputs=log)
    def fun(x):
        log[0] = x * 2
        return x

    for value in (1.0, 2.0):
        fun(mx.array(value))
        assert log[0].item() == 2 * value


def test_inputs_alone_come_back():
    state = [mx.array(1.0)]

    @partial(mx.compile, inputs=state)
    def fun(x):
        state[0] = state[0] + x
        return state[0]

    assert fun(mx.array(2.0)).item() == 3.0
    assert state[0].item() == 1.0
    state[0] = mx.array(5.0)
    assert fun(mx.array(2.0)).item() == 7.0


def test_nested_containers_and_other_things_in_them():
    model = {"w": mx.array([1.0]), "name": "m", "fn": len, "layers": [{"b": mx.array([2.0])}, None]}
    model["t"] = ({"x": mx.array(1)},)
    state = [model]

    @partial(mx.compile, inputs=state, outputs=state)
    def step():
        model["w"] = model["w"] + model["layers"][0]["b"]
        model["t"][0]["x"] = model["t"][0]["x"] + 1

    for _ in range(3):
        step()
    assert model["w"].tolist() == [7.0]
    assert model["t"][0]["x"].item() == 4
    assert (model["name"], model["fn"], model["layers"][1]) == ("m", len, None)


def test_constants_in_state_are_not_baked_in():
    state = {"lr": 0.5, "w": mx.array(1.0)}
    f = mx.compile(lambda: state["w"] * state["lr"], inputs=state)
    assert f().item() == 0.5
    state["lr"] = 0.25
    assert f().item() == 0.25


def test_random_state():
    f = mx.compile(lambda: mx.random.uniform(shape=(3,)), inputs=mx.random.state, outputs=mx.random.state)
    mx.random.seed(5)
    a, b = f().tolist(), f().tolist()
    mx.random.seed(5)
    assert a == mx.random.uniform(shape=(3,)).tolist()
    assert b == mx.random.uniform(shape=(3,)).tolist()
    assert a != b
    frozen = mx.compile(lambda: mx.random.uniform(shape=(3,)))
    assert frozen().tolist() == frozen().tolist()


def test_a_whole_training_step():
    mx.random.seed(1)
    params = {"w": mx.random.normal((4, 3)), "b": mx.zeros(3)}
    plain = dict(params)
    x, y = mx.random.normal((8, 4)), mx.random.normal((8, 3))
    momentum = {"w": mx.zeros((4, 3)), "b": mx.zeros(3)}
    plain_momentum = dict(momentum)

    def loss(p, x, y):
        return ((x @ p["w"] + p["b"] - y) ** 2).mean()

    def update(p, m, x, y):
        value, grads = mx.value_and_grad(loss)(p, x, y)
        for key in p:
            m[key] = 0.9 * m[key] + grads[key]
            p[key] = p[key] - 0.1 * m[key]
        return value

    state = [params, momentum]
    step = mx.compile(lambda x, y: update(params, momentum, x, y), inputs=state, outputs=state)
    for _ in range(4):
        assert step(x, y).item() == pytest.approx(update(plain, plain_momentum, x, y).item(), rel=1e-6)
    np.testing.assert_allclose(np.array(params["w"]), np.array(plain["w"]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("which", ["inputs", "outputs"])
def test_state_must_be_a_container(which):
    with pytest.raises(TypeError, match=which):
        mx.compile(lambda: None, **{which: mx.array(1)})


def test_bare_arrays_in_a_tuple_of_state_are_refused():
    f = mx.compile(lambda x: x, inputs=(mx.array(1.0),))
    with pytest.raises(ValueError, match="tuple"):
        f(mx.array(1.0))


# ---- nesting ------------------------------------------------------------------------------------


def loss(x):
    return (mx.sin(x) * mx.exp(x * 0.5)).sum()


X = [0.3, -1.0, 2.0]


def direct():
    return mx.grad(loss)(mx.array(X)).tolist()


@pytest.mark.parametrize(
    "build",
    [
        lambda: mx.grad(mx.compile(loss)),
        lambda: mx.compile(mx.grad(loss)),
        lambda: mx.compile(mx.grad(mx.compile(loss))),
        lambda: mx.compile(mx.compile(mx.grad(loss))),
        lambda: lambda x: mx.compile(mx.value_and_grad(loss))(x)[1],
        lambda: lambda x: mx.value_and_grad(mx.compile(loss))(x)[1],
        lambda: lambda x: mx.vjp(mx.compile(loss), [x], [mx.array(1.0)])[1][0],
        lambda: mx.compile(lambda x: mx.vjp(loss, [x], [mx.array(1.0)])[1][0]),
    ],
)
def test_gradients_in_every_order(build):
    f = build()
    for _ in range(2):
        np.testing.assert_allclose(f(mx.array(X)).tolist(), direct(), rtol=1e-6)


@pytest.mark.parametrize(
    "build",
    [
        lambda g: mx.grad(lambda x: mx.compile(mx.grad(g))(x).sum()),
        lambda g: mx.compile(mx.grad(lambda x: mx.grad(mx.compile(g))(x).sum())),
        lambda g: mx.grad(mx.compile(lambda x: mx.grad(g)(x).sum())),
    ],
)
def test_second_order(build):
    expected = mx.grad(lambda x: mx.grad(loss)(x).sum())(mx.array(X))
    f = build(loss)
    for _ in range(2):
        np.testing.assert_allclose(f(mx.array(X)).tolist(), expected.tolist(), rtol=1e-5)


def test_jvp_in_both_orders():
    x, t = mx.array(X), mx.array([1.0, 2.0, 3.0])
    expected = mx.jvp(loss, [x], [t])[1][0].item()
    assert mx.jvp(mx.compile(loss), [x], [t])[1][0].item() == pytest.approx(expected, rel=1e-6)
    f = mx.compile(lambda x, t: mx.jvp(loss, [x], [t])[1][0])
    assert f(x, t).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "build",
    [
        lambda g: mx.vmap(mx.compile(g)),
        lambda g: mx.compile(mx.vmap(g)),
        lambda g: mx.compile(mx.vmap(mx.compile(g))),
        lambda g: mx.compile(mx.vmap(g), shapeless=True),
    ],
)
def test_vmap_in_every_order(build):
    def g(x):
        return mx.sin(x).cumsum() * x.mean() + x[::-1]

    f = build(g)
    for rows in (2, 3, 2):
        x = mx.arange(3.0 * rows).reshape(rows, 3)
        np.testing.assert_allclose(np.array(f(x)), np.stack([np.array(g(row)) for row in x]), rtol=1e-6)


@pytest.mark.parametrize(
    "build",
    [
        lambda g: mx.vmap(mx.compile(mx.grad(g))),
        lambda g: mx.vmap(mx.grad(mx.compile(g))),
        lambda g: mx.compile(mx.vmap(mx.grad(g))),
        lambda g: mx.grad(lambda x: mx.vmap(mx.compile(g))(x).sum()),
        lambda g: mx.grad(lambda x: mx.compile(mx.vmap(g))(x).sum()),
    ],
)
def test_vmap_and_gradients_in_every_order(build):
    x = mx.array([X, [1.0, 0.5, -0.25]])
    expected = np.stack([np.array(mx.grad(loss)(row)) for row in x])
    f = build(loss)
    for _ in range(2):
        np.testing.assert_allclose(np.array(f(x)), expected, rtol=1e-5)


def test_compiled_inside_compiled_is_one_trace():
    inner, calls = counted(lambda x: x * 2)
    g = mx.compile(inner)
    f = mx.compile(lambda x: g(x) + g(x + 1))
    for _ in range(2):
        assert f(mx.array(3.0)).item() == 14.0
    assert len(calls) == 1


def test_a_compiled_function_made_inside_a_gradient_sees_the_outer_variables():
    def f(w):
        return mx.compile(lambda x: x * w)(mx.array(3.0))

    assert mx.grad(f)(mx.array(2.0)).item() == 3.0


def test_a_compiled_function_that_captures_a_traced_array_is_of_use_later():
    box = {}
    g = mx.compile(lambda x: x * box["w"])

    def f(w):
        box["w"] = w
        return g(mx.array(3.0))

    for w in (2.0, 5.0):
        assert mx.value_and_grad(f)(mx.array(w))[0].item() == 3 * w
        assert mx.grad(lambda w: f(w) * w)(mx.array(w)).item() == 6 * w
    box["w"] = mx.array(4.0)
    assert g(mx.array(3.0)).item() == 12.0


def test_stop_gradient_and_integer_outputs():
    f = mx.compile(lambda x: (mx.stop_gradient(x) * x, mx.argmax(x)))
    assert mx.grad(lambda x: f(x)[0].sum())(mx.array(X)).tolist() == pytest.approx(X)


# ---- shapeless ----------------------------------------------------------------------------------


def test_shapeless_traces_once_for_all_shapes():
    y = 1
    fun, calls = counted(lambda x: mx.exp(x) + y)
    f = mx.compile(fun, shapeless=True)
    assert f(mx.array([0.0, 0.0])).tolist() == [2.0, 2.0]
    y = 2
    assert f(mx.array([0.0, 0.0, 0.0])).tolist() == [2.0, 2.0, 2.0]
    assert f(mx.array([0.0])).tolist() == [2.0]
    assert len(calls) == 1
    assert f(mx.array([[0.0]])).tolist() == [[3.0]]  # another number of axes
    assert f(mx.array([0])).tolist() == [3.0]  # another dtype
    assert len(calls) == 3


SHAPELESS = [
    lambda x: x / x.shape[0],
    lambda x: x.reshape(-1),
    lambda x: x.reshape(x.shape[1], -1),
    lambda x: mx.broadcast_to(x[:1], x.shape),
    lambda x: x + mx.arange(x.shape[1]),
    lambda x: mx.zeros_like(x) + x,
    lambda x: mx.full(x.shape, 3.0),
    lambda x: x[:, -1],
    lambda x: x[: x.shape[0] // 2],
    lambda x: x.mean(keepdims=True),
    lambda x: mx.var(x, axis=0),
    lambda x: mx.std(x, axis=1, ddof=1),
    lambda x: mx.softmax(x, axis=-1),
    lambda x: x.flatten(),
    lambda x: x.T @ x,
    lambda x: mx.concatenate([x, x], axis=1),
    lambda x: mx.split(x, 2, axis=1)[1],
    lambda x: mx.sort(x, axis=0),
    lambda x: mx.pad(x, 1),
    lambda x: x * len(x),
    lambda x: x * x.size,
    lambda x: mx.linspace(0, 1, x.shape[0]),
    mx.grad(lambda t: mx.mean(t * t)),
    mx.grad(mx.logsumexp),
    lambda x: mx.median(x, axis=0),
    lambda x: mx.repeat(x, 2, axis=0),
    lambda x: mx.tile(x, (1, 2)),
    lambda x: mx.eye(x.shape[1]),
    lambda x: mx.take(x, mx.array([0]), axis=1),
    lambda x: mx.tril(x @ x.T),
    lambda x: mx.cumsum(x, axis=1),
    lambda x: mx.outer(x[0], x[1]),
    lambda x: mx.roll(x, 1, axis=0),
    lambda x: x[mx.array([1, 0])],
    lambda x: mx.squeeze(x[None]),
    lambda x: mx.squeeze(mx.sum(x, axis=0, keepdims=True)),
    lambda x: mx.partition(x, -1, axis=1),
    mx.grad(lambda t: mx.conv1d(t[None, :, :1], mx.ones((1, 2, 1)), stride=2).sum()),
    mx.vmap(lambda row: row / row.sum()),
]


@pytest.mark.parametrize("index", range(len(SHAPELESS)))
def test_shapeless_is_right_for_every_shape(index):
    fun = SHAPELESS[index]
    f = mx.compile(fun, shapeless=True)
    for shape in ((2, 4), (6, 2), (4, 8), (2, 4)):
        x = mx.arange(shape[0] * shape[1], dtype=mx.float32).reshape(shape) / 7
        got, expected = f(x), fun(x)
        assert got.shape == expected.shape
        np.testing.assert_allclose(np.array(got), np.array(expected), rtol=1e-6)


def test_shapeless_inside_a_gradient_and_a_gradient_inside_shapeless():
    f = mx.compile(lambda x: (x * x).sum(), shapeless=True)
    g = mx.compile(mx.grad(lambda x: (x * x).sum()), shapeless=True)
    for n in (2, 3, 4):
        assert mx.grad(f)(mx.ones(n)).tolist() == [2.0] * n
        assert g(mx.ones(n)).tolist() == [2.0] * n


# ---- errors, switching off, lives ---------------------------------------------------------------


def test_errors_come_through_and_leave_the_function_usable():
    class Special(Exception):
        pass

    state = {"w": mx.array(1.0)}
    fail = [True]

    def fun(x):
        state["new"] = x
        state["w"] = state["w"] + x
        if fail[0]:
            raise Special("no")
        return x * 2

    f = mx.compile(fun, inputs=state, outputs=state)
    with pytest.raises(Special, match="no"):
        f(mx.array(3.0))
    assert list(state) == ["w"]
    assert state["w"].item() == 1.0
    fail[0] = False
    assert f(mx.array(3.0)).item() == 6.0
    assert state["w"].item() == 4.0


def test_shape_errors_are_raised_at_the_trace():
    f = mx.compile(lambda a, b: a @ b)
    with pytest.raises(ValueError, match="matmul"):
        f(mx.ones((2, 3)), mx.ones((2, 3)))
    assert f(mx.ones((2, 3)), mx.ones((3, 2))).tolist() == [[3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("use", [mx.array.item, mx.eval, np.array, bool])
def test_evaluation_inside_is_a_value_error(use):
    f = mx.compile(lambda x: (use(x + 1), x)[1])
    for _ in range(2):
        with pytest.raises(ValueError):
            f(mx.array(1.0))


def test_an_array_that_leaked_out_of_a_trace_has_no_value():
    leaked = []
    mx.compile(lambda x: (leaked.append(x + 1), x)[1])(mx.array(1.0))
    with pytest.raises(ValueError):
        leaked[0].item()


def test_failures_of_a_run_reach_every_output_and_the_next_call_is_fine():
    f = mx.compile(lambda x, i: (x[i], x + 1))
    x = mx.array([1.0, 2.0])
    a, b = f(x, mx.array([5]))
    with pytest.raises(IndexError):
        mx.eval(a)
    with pytest.raises(IndexError):
        mx.eval(b)
    a, b = f(x, mx.array([1]))
    assert (a.tolist(), b.tolist()) == ([2.0], [2.0, 3.0])


def test_disable_and_enable():
    fun, calls = counted(lambda x: x + 1)
    f = mx.compile(fun)
    mx.disable_compile()
    try:
        for _ in range(2):
            assert f(mx.array(1)).item() == 2
        assert mx.compile(lambda x: x.item())(mx.array(3)) == 3
    finally:
        mx.enable_compile()
    assert len(calls) == 2
    f(mx.array(1))
    f(mx.array(1))
    assert len(calls) == 3


@pytest.mark.parametrize(("value", "expected"), [("1", "3"), ("0", "ValueError"), (None, "ValueError")])
def test_the_environment_switches_compile_off(value, expected):
    env = {**os.environ, **({"MLXC_DISABLE_COMPILE": value} if value else {})}
    if value is None:
        env.pop("MLXC_DISABLE_COMPILE", None)
    code = """import mlxc as mx
try:
    print(mx.compile(lambda x: x.item())(mx.array(3)))
except ValueError:
    print("ValueError")"""
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == expected


def test_functions_and_programs_are_collected():
    class Big:
        pass

    big = Big()
    ref = weakref.ref(big)

    def fun(x, big=big):
        return x + 1

    f = mx.compile(fun)
    f.itself = f
    before = mx.get_active_memory()
    w = mx.zeros((1000, 1000))
    mx.eval(w)
    g = mx.compile(lambda x: x + w)  # noqa: F821
    mx.eval(f(mx.array(1)), g(mx.array(1.0)))
    del fun, f, g, w, big
    gc.collect()
    assert ref() is None
    assert mx.get_active_memory() <= before + 1000


def test_results_do_not_hold_arguments():
    f = mx.compile(lambda x: x.sum() + 1)
    x = mx.zeros((500, 500))
    mx.eval(x)
    y = f(x)
    mx.eval(y)
    before = mx.get_active_memory()
    del x
    assert mx.get_active_memory() <= before - 900_000


def test_intermediate_buffers_are_released_during_the_run():
    def fun(x):
        for _ in range(20):
            x = mx.sort(x, axis=0) + 1
        return x.sum()

    f = mx.compile(fun)
    x = mx.ones((256, 256))
    mx.eval(f(x))
    mx.clear_cache()
    mx.reset_peak_memory()
    start = mx.get_active_memory()
    mx.eval(f(x))
    assert mx.get_peak_memory() - start < 4 * 256 * 256 * 4


def test_recursion():
    @mx.compile
    def power(x, n):
        return mx.array(1.0) if n == 0 else x * power(x, n - 1)

    assert power(mx.array(2.0), 10).item() == 1024.0


def test_it_looks_like_the_function():
    def fun(x: int, *, y=2):
        """Says what it does."""

    f = mx.compile(fun)
    assert (f.__name__, f.__doc__, f.__wrapped__) == ("fun", "Says what it does.", fun)
    assert inspect.signature(f) == inspect.signature(fun)


def test_methods():
    class Model(dict):
        @partial(mx.compile, shapeless=True)
        def double(self, x):
            return x * self["k"]

    assert Model(k=mx.array(2.0)).double(mx.array([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_only_functions_are_taken():
    with pytest.raises(TypeError, match="compile"):
        mx.compile(3)


def test_threads():
    f = mx.compile(lambda x, k: (mx.exp(-x) * k).sum())
    wrong = []

    def work(seed):
        for i in range(40):
            x = mx.full((seed % 3 + 1,), float(i % 4))
            want = (seed % 3 + 1) * seed * np.exp(-float(i % 4))
            if abs(f(x, seed).item() - want) > 1e-4:
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_threads_on_shared_state():
    state = [mx.array(0)]

    @partial(mx.compile, inputs=state, outputs=state)
    def step():
        state[0] = state[0] + 1

    threads = [threading.Thread(target=lambda: [step() for _ in range(25)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert state[0].item() == 100


def test_streams_of_the_call_and_of_the_ops():
    s = mx.new_stream(mx.cpu)
    f = mx.compile(lambda x: mx.add(x, 1, stream=s) * 2)
    assert f(mx.array(1.0)).item() == 4.0
    with mx.stream(s):
        assert f(mx.array(2.0)).item() == 6.0


def test_async_eval_of_calls():
    f = mx.compile(lambda x: mx.sort(x) * 2)
    ys = [f(mx.array([3.0, float(i)])) for i in range(20)]
    mx.async_eval(ys)
    assert [y.tolist() for y in ys] == [sorted([6.0, 2.0 * i]) for i in range(20)]


def test_a_large_program():
    def fun(x):
        for _ in range(20000):
            x = x + 1
        return x

    assert mx.compile(fun)(mx.array(0)).item() == 20000
