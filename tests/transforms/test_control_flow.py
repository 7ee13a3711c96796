"""cond, while_loop and scan: values, derivatives, batches, compilation, and what does not fit."""

import gc
import threading
import weakref

import numpy as np
import pytest

import mlxc as mx


def numbers(*shape, seed=0):
    return mx.array(np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32))


def differences(f, x, eps=1e-6):
    """The gradient of f at x by central differences, in float64."""
    x = np.array(x.tolist())
    out = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        step = np.zeros_like(x)
        step[index] = eps
        ends = [f(mx.array(x + sign * step, dtype=mx.float64)).item() for sign in (1, -1)]
        out[index] = (ends[0] - ends[1]) / (2 * eps)
    return out


def assert_gradient(f, x, second=True):
    """grad, and grad of the sum of the squared gradient, against central differences; jvp against grad."""
    x = x.astype(mx.float64)
    gradient = mx.grad(f)(x)
    np.testing.assert_allclose(gradient.tolist(), differences(f, x), rtol=1e-5, atol=1e-7)
    way = mx.array(np.random.default_rng(5).uniform(-1, 1, x.shape), dtype=mx.float64)
    _, (tangent,) = mx.jvp(f, [x], [way])
    np.testing.assert_allclose(tangent.item(), (gradient * way).sum().item(), rtol=1e-9)
    if second:
        assert_gradient(lambda x: (mx.grad(f)(x) ** 2).sum(), x, second=False)


# ---- cond ---------------------------------------------------------------------------------------


def branching(x, y):
    return mx.cond(x.sum() > 0, lambda x, y: (mx.sin(x) * y, y), lambda x, y: (x * x, y * 3), x, y)


@pytest.mark.parametrize("sign", [1, -1])
def test_cond_computes_the_chosen_function(sign):
    x, y = mx.abs(numbers(4)) * sign, numbers(4, seed=1)
    expected = (mx.sin(x) * y, y) if sign > 0 else (x * x, y * 3)
    for found in (branching(x, y), mx.compile(branching)(x, y)):
        assert type(found) is tuple
        assert [a.tolist() for a in found] == [a.tolist() for a in expected]


def test_cond_computes_only_the_chosen_function():
    def wrong(x):
        return mx.take(x, mx.array([99]))

    def right(x):
        return x[:1]

    x = mx.array([1.0, 2.0])
    assert mx.cond(mx.array(True), right, wrong, x).tolist() == [1.0]
    with pytest.raises(IndexError):
        mx.eval(mx.cond(mx.array(False), right, wrong, x))


@pytest.mark.parametrize("pred", [True, False, 1, 0, 2.5, np.bool_(True)])
def test_cond_takes_any_scalar(pred):
    assert mx.cond(pred, lambda: 1, lambda: 2).item() == (1 if pred else 2)


def test_cond_hands_trees_through():
    found = mx.cond(
        mx.array(1), lambda p, n: {"a": [p["w"], n]}, lambda p, n: {"a": [p["w"] * 2, 5]}, {"w": mx.array(1.5)}, 4
    )
    assert found["a"][0].item() == 1.5 and found["a"][1].item() == 4


@pytest.mark.parametrize("sign", [1, -1])
def test_cond_gradients(sign):
    y = numbers(3, seed=1).astype(mx.float64)

    def f(x):
        a, b = branching(x, y + x)
        return (a * b).sum()

    assert_gradient(f, mx.abs(numbers(3)) * sign)


def test_cond_gradients_reach_what_the_functions_capture():
    def f(x, w, p):
        v = w * w
        return mx.cond(p > 0, lambda x: x * v, lambda x: x + w, x)

    x, w = mx.array(2.0), mx.array(3.0)
    assert [g.item() for g in mx.grad(f, argnums=(0, 1))(x, w, mx.array(1))] == [9.0, 12.0]
    assert [g.item() for g in mx.grad(f, argnums=(0, 1))(x, w, mx.array(-1))] == [1.0, 1.0]


def test_cond_under_vmap():
    x, y = numbers(5, 3), numbers(3, seed=1)
    expected = [[a.tolist() for a in branching(x[i], y)] for i in range(5)]
    for function in (branching, mx.compile(branching)):
        first, second = mx.vmap(function, in_axes=(0, None))(x, y)
        for i in range(5):
            np.testing.assert_allclose(first[i].tolist(), expected[i][0], rtol=1e-6)
            np.testing.assert_allclose(second[i].tolist(), expected[i][1], rtol=1e-6)
    fixed = mx.vmap(lambda x: mx.cond(mx.array(True), lambda x: x * 2, lambda x: x, x))(x)
    assert fixed.tolist() == (x * 2).tolist()
    only = mx.vmap(lambda p: mx.cond(p, lambda: mx.array(1), lambda: mx.array(2)))(mx.array([True, False]))
    assert only.tolist() == [1, 2]


def test_cond_gradients_and_batches_in_either_order():
    x, y = numbers(5, 3), numbers(3, seed=1)

    def loss(x):
        a, b = branching(x, y)
        return (a * b).sum()

    one_by_one = [mx.grad(loss)(x[i]).tolist() for i in range(5)]
    np.testing.assert_allclose(mx.vmap(mx.grad(loss))(x).tolist(), one_by_one, rtol=1e-5)
    np.testing.assert_allclose(mx.grad(lambda x: mx.vmap(loss)(x).sum())(x).tolist(), one_by_one, rtol=1e-5)
    np.testing.assert_allclose(mx.vmap(mx.compile(mx.grad(loss)))(x).tolist(), one_by_one, rtol=1e-5)


def test_cond_says_what_does_not_fit():
    x = mx.array([1.0, 2.0])
    with pytest.raises(ValueError, match=r"float32\(2,\).*float32\(1,\)"):
        mx.cond(True, lambda: x, lambda: x[:1])
    with pytest.raises(TypeError, match=r"float32\(2,\).*int32\(2,\)"):
        mx.cond(True, lambda: x, lambda: x.astype(mx.int32))
    with pytest.raises(ValueError, match="form"):
        mx.cond(True, lambda: (x, x), lambda: x)
    with pytest.raises(ValueError, match="form"):
        mx.cond(True, lambda: {"a": x}, lambda: {"b": x})
    with pytest.raises(ValueError, match="scalar"):
        mx.cond(x > 0, lambda: x, lambda: x)
    with pytest.raises(TypeError, match="str"):
        mx.cond(True, lambda: "a", lambda: "a")
    with pytest.raises(TypeError):
        mx.cond(True, 3, lambda: x)
    with pytest.raises(ValueError, match="no value"):
        mx.cond(True, lambda x: x if x.sum() > 0 else -x, lambda x: x, x)
    with pytest.raises(KeyError, match="mine"):
        mx.cond(True, lambda: {}["mine"], lambda: x)


def test_cond_of_nothing():
    assert mx.cond(True, lambda: None, lambda: None) is None


# ---- while_loop ---------------------------------------------------------------------------------


def doubling(x, limit):
    return mx.while_loop(lambda c: c["x"].sum() < limit, lambda c: {"n": c["n"] + 1, "x": c["x"] * 2}, {"n": 0, "x": x})


def test_while_loop_runs_as_long_as_asked():
    x = mx.array([1.0, 2.0])
    for function in (doubling, mx.compile(doubling)):
        found = function(x, mx.array(20.0))
        assert (found["n"].item(), found["x"].tolist()) == (3, [8.0, 16.0])
        assert function(x, mx.array(-1.0))["n"].item() == 0


def test_while_loop_forward_derivatives():
    def f(x, w):
        return mx.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, mx.sin(c[1]) * w), (mx.array(0), x))[1]

    def by_hand(x, w):
        for _ in range(5):
            x = mx.sin(x) * w
        return x

    args, ways = [mx.array(0.7), mx.array(1.3)], [mx.array(0.5), mx.array(-2.0)]
    for function in (f, mx.compile(f)):
        found, expected = mx.jvp(function, args, ways), mx.jvp(by_hand, args, ways)
        assert found[0][0].item() == pytest.approx(expected[0][0].item(), rel=1e-6)
        assert found[1][0].item() == pytest.approx(expected[1][0].item(), rel=1e-6)
    second = mx.jvp(lambda x: mx.jvp(lambda x: f(x, args[1]), [x], [ways[0]])[1][0], args[:1], ways[:1])[1][0]
    expected = mx.jvp(lambda x: mx.jvp(lambda x: by_hand(x, args[1]), [x], [ways[0]])[1][0], args[:1], ways[:1])[1][0]
    assert second.item() == pytest.approx(expected.item(), rel=1e-5)


def test_while_loop_has_no_reverse_mode_and_says_so():
    with pytest.raises(ValueError, match="jvp"):
        mx.grad(lambda x: doubling(x, mx.array(20.0))["x"].sum())(mx.array([1.0, 2.0]))
    # A loop whose values nobody differentiates is no obstacle.
    assert mx.grad(lambda x: (doubling(x, mx.array(9.0))["n"] * x).sum())(mx.array([1.0, 2.0])).tolist() == [2.0, 2.0]


def test_while_loop_under_vmap_updates_only_those_that_go_on():
    x, limits = mx.array([[1.0, 2.0], [10.0, 20.0], [0.1, 0.1]]), mx.array([20.0, 5.0, 3.0])
    for function in (doubling, mx.compile(doubling)):
        found = mx.vmap(function)(x, limits)
        assert found["n"].tolist() == [3, 0, 4]
        np.testing.assert_allclose(found["x"].tolist(), [[8.0, 16.0], [10.0, 20.0], [1.6, 1.6]], rtol=1e-6)
    same = mx.vmap(doubling, in_axes=(None, 0))(x[0], limits)
    assert same["n"].tolist() == [3, 1, 0]


def test_while_loop_says_what_does_not_fit():
    x = mx.array([1.0, 2.0])
    with pytest.raises(ValueError, match=r"float32\(2,\).*float32\(1,\)"):
        mx.while_loop(lambda c: c.sum() < 1, lambda c: c[:1], x)
    with pytest.raises(TypeError, match=r"int32\(\).*float32\(\)"):
        mx.while_loop(lambda c: c < 1, lambda c: c + 0.5, 0)
    with pytest.raises(ValueError, match="scalar"):
        mx.while_loop(lambda c: c < 1, lambda c: c, x)
    with pytest.raises(ValueError, match="carry"):
        mx.while_loop(lambda c: c < 1, lambda c: (c, c), mx.array(1))
    with pytest.raises(ValueError, match="no array"):
        mx.while_loop(lambda c: True, lambda c: c, None)
    with pytest.raises(TypeError, match="str"):
        mx.while_loop(lambda c: True, lambda c: c, "a")


def test_an_error_in_a_step_is_the_error_of_the_result():
    x = mx.arange(4)
    loop = mx.while_loop(lambda c: c < 9, lambda c: c + 1 + 0 * mx.take(x, c), mx.array(0))
    for _ in range(2):
        with pytest.raises(IndexError):
            loop.item()


# ---- scan ---------------------------------------------------------------------------------------


def recurrence(carry, xs, w, **rest):
    """A small recurrent network: carry, and a result of each step."""

    def step(carry, x):
        h, n = carry
        h = mx.tanh(h @ w + x["in"])
        return (h, n + 1), {"h": h * x["gain"], "n": n}

    return mx.scan(step, (carry, mx.array(0)), xs, **rest)


def recurrence_by_hand(carry, xs, w, reverse=False):
    order = range(xs["gain"].shape[0])
    ys = []
    for i in reversed(order) if reverse else order:
        carry = mx.tanh(carry @ w + xs["in"][i])
        ys.append(carry * xs["gain"][i])
    return carry, mx.stack(ys[::-1] if reverse else ys)


def recurrence_inputs(dtype=mx.float32):
    values = numbers(3), {"in": numbers(5, 3, seed=1), "gain": numbers(5, seed=2)}, numbers(3, 3, seed=3)
    return mx.utils.tree_map(lambda a: a.astype(dtype), values)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_goes_through_the_elements(reverse):
    carry, xs, w = recurrence_inputs()
    expected = recurrence_by_hand(carry, xs, w, reverse)

    def function(carry, xs, w):
        return recurrence(carry, xs, w, reverse=reverse)

    for f in (function, mx.compile(function)):
        (last, count), ys = f(carry, xs, w)
        np.testing.assert_allclose(last.tolist(), expected[0].tolist(), rtol=1e-6)
        np.testing.assert_allclose(ys["h"].tolist(), expected[1].tolist(), rtol=1e-6)
        assert count.item() == 5
        assert ys["n"].tolist() == (list(range(5))[::-1] if reverse else list(range(5)))


def test_scan_without_elements_or_results():
    total, ys = mx.scan(lambda c, x: (c * 2, None), mx.array(1.0), length=4)
    assert (total.item(), ys) == (16.0, None)
    nothing, ys = mx.scan(lambda c, x: (None, x * 2), None, mx.array([1, 2]))
    assert nothing is None and ys.tolist() == [2, 4]


def test_scan_of_no_steps():
    carry, ys = mx.scan(lambda c, x: (c + x, c * x), mx.array([1.0, 2.0]), mx.zeros((0, 2)))
    assert carry.tolist() == [1.0, 2.0] and ys.shape == (0, 2)
    gradient = mx.grad(lambda c: mx.scan(lambda c, x: (c + x, c * x), c, mx.zeros((0, 2)))[0].sum())(mx.ones((2,)))
    assert gradient.tolist() == [1.0, 1.0]


def test_scan_takes_strided_elements():
    x = mx.arange(12).reshape(3, 4)
    assert mx.scan(lambda c, row: (c + row, row), mx.zeros((3,), mx.int32), x.T)[0].tolist() == [6, 22, 38]
    assert mx.scan(lambda c, row: (c, row), 0, x[::-1])[1].tolist() == x[::-1].tolist()


@pytest.mark.parametrize("which", ["carry", "in", "gain", "w"])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_gradients(which, reverse):
    carry, xs, w = recurrence_inputs(mx.float64)

    def f(value):
        parts = {"carry": carry, "w": w, **xs, which: value}
        (last, _), ys = recurrence(
            parts["carry"], {"in": parts["in"], "gain": parts["gain"]}, parts["w"], reverse=reverse
        )
        return (last**2).sum() + (ys["h"] * ys["h"]).sum()

    assert_gradient(f, {"carry": carry, "w": w, **xs}[which])


def test_scan_gradients_are_those_of_the_loop():
    def loss(function):
        def f(carry, xs, w):
            last, ys = function(carry, xs, w)
            last, ys = (last[0], ys["h"]) if isinstance(last, tuple) else (last, ys)
            return last.sum() + (ys**2).sum()

        return f

    inputs = recurrence_inputs()
    expected = mx.grad(loss(recurrence_by_hand), argnums=(0, 1, 2))(*inputs)
    for function in (recurrence, mx.compile(recurrence)):
        found = mx.grad(loss(function), argnums=(0, 1, 2))(*inputs)
        for (name, a), (_, b) in zip(mx.utils.tree_flatten(expected), mx.utils.tree_flatten(found), strict=True):
            np.testing.assert_allclose(b.tolist(), a.tolist(), rtol=1e-4, atol=1e-6, err_msg=name)
    compiled = mx.compile(mx.grad(loss(recurrence), argnums=(0, 1, 2)))(*inputs)
    for (name, a), (_, b) in zip(mx.utils.tree_flatten(expected), mx.utils.tree_flatten(compiled), strict=True):
        np.testing.assert_allclose(b.tolist(), a.tolist(), rtol=1e-4, atol=1e-6, err_msg=name)


def test_scan_gradient_of_what_was_computed_before_the_gradient_was_asked_for():
    def f(x):
        last, ys = mx.scan(lambda c, x: (c * x, c), mx.array(2.0), x)
        mx.eval(last, ys)
        return last + ys.sum()

    assert mx.grad(f)(mx.array([3.0, 5.0])).tolist() == [12.0, 6.0]


@pytest.mark.parametrize("axes", [(0, 0, None), (None, 0, None), (0, None, 0), (None, None, 0)])
def test_scan_under_vmap(axes):
    carry, xs, w = recurrence_inputs()
    rows = [mx.stack([carry, carry * 2]), mx.utils.tree_map(lambda a: mx.stack([a, -a]), xs), mx.stack([w, w.T])]
    args = [rows[i] if axes[i] == 0 else (carry, xs, w)[i] for i in range(3)]
    for function in (recurrence, mx.compile(recurrence)):
        (last, _), ys = mx.vmap(function, in_axes=axes)(*args)
        for i in range(2):
            one = [mx.utils.tree_map(lambda a, i=i: a[i], args[k]) if axes[k] == 0 else args[k] for k in range(3)]
            expected = recurrence_by_hand(*one)
            np.testing.assert_allclose(last[i].tolist(), expected[0].tolist(), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(ys["h"][i].tolist(), expected[1].tolist(), rtol=1e-5, atol=1e-6)


def test_scan_gradients_and_batches_in_either_order():
    _, xs, w = recurrence_inputs()
    carries = numbers(4, 3, seed=9)

    def loss(carry):
        (last, _), ys = recurrence(carry, xs, w)
        return (last * ys["h"]).sum()

    one_by_one = [mx.grad(loss)(carries[i]).tolist() for i in range(4)]
    np.testing.assert_allclose(mx.vmap(mx.grad(loss))(carries).tolist(), one_by_one, rtol=1e-4, atol=1e-6)
    together = mx.grad(lambda c: mx.vmap(loss)(c).sum())(carries)
    np.testing.assert_allclose(together.tolist(), one_by_one, rtol=1e-4, atol=1e-6)


def test_scan_says_what_does_not_fit():
    x = mx.array([1.0, 2.0])
    with pytest.raises(ValueError, match="pair"):
        mx.scan(lambda c, x: c, x, x)
    with pytest.raises(ValueError, match=r"float32\(2,\).*float32\(1,\)"):
        mx.scan(lambda c, x: (c[:1], x), x, x)
    with pytest.raises(TypeError, match=r"int32\(\).*float32\(\)"):
        mx.scan(lambda c, x: (c + x, None), 0, x)
    with pytest.raises(ValueError, match="length"):
        mx.scan(lambda c, x: (c, x), x)
    with pytest.raises(ValueError, match="length"):
        mx.scan(lambda c, x: (c, x), x, x, length=3)
    with pytest.raises(ValueError, match="differ"):
        mx.scan(lambda c, x: (c, None), x, (x, mx.zeros((3,))))
    with pytest.raises(ValueError, match="scalar"):
        mx.scan(lambda c, x: (c, None), x, mx.array(1.0))
    with pytest.raises(ValueError, match="-1"):
        mx.scan(lambda c, x: (c, None), x, length=-1)


# ---- together -----------------------------------------------------------------------------------


def collatz(n):
    """Steps until 1: a cond inside a while_loop."""

    def step(c):
        n, steps = c
        return mx.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n), steps + 1

    return mx.while_loop(lambda c: c[0] != 1, step, (n, mx.array(0)))[1]


def test_constructs_nest():
    assert collatz(mx.array(27)).item() == 111
    assert mx.vmap(collatz)(mx.array([1, 6, 7, 27])).tolist() == [0, 8, 16, 111]
    assert mx.scan(lambda c, n: (c, collatz(n)), 0, mx.array([1, 6, 7]))[1].tolist() == [0, 8, 16]


def test_a_cond_inside_a_scan_is_differentiated():
    def f(x):
        def step(c, x):
            return mx.cond(x > 0, lambda c: c * x, lambda c: c - x, c), mx.sin(c)

        last, ys = mx.scan(step, mx.array(1.5, dtype=x.dtype), x)
        return last + (ys**2).sum()

    assert_gradient(f, mx.array([0.7, -0.4, 1.2, -0.9]))


def test_checkpoint_and_custom_functions_inside_a_scan():
    square = mx.custom_function(lambda x: x * x).vjp(lambda x, g, out: 2 * x * g)

    def f(x):
        return mx.scan(lambda c, x: (mx.checkpoint(mx.sin)(square(c)) + x, None), mx.array(0.5, dtype=x.dtype), x)[0]

    assert_gradient(f, mx.array([0.3, 0.4, -0.2]))


def test_a_scan_inside_a_checkpoint():
    def f(x):
        return mx.checkpoint(lambda x: mx.scan(lambda c, x: (mx.sin(c) * x, c), x[0], x)[1].sum())(x)

    assert_gradient(f, mx.array([0.3, 0.4, -0.2]))


def test_functions_are_released_after_the_call():
    class Mark:
        pass

    mark = Mark()
    x = mx.scan(lambda c, x, mark=mark: (c + x, None), 0, mx.arange(3))[0]
    y = mx.cond(True, lambda mark=mark: 1, lambda: 2)
    mark = weakref.ref(mark)
    gc.collect()
    assert mark() is None
    assert (x.item(), y.item()) == (3, 1)


def test_nodes_are_released_with_what_they_capture():
    def run():
        big = mx.zeros((1 << 20,))
        mx.eval(big)
        return mx.cond(mx.array(True), lambda: big[1] * 2, lambda: big[0])

    before = mx.get_active_memory()
    result = run()
    assert mx.get_active_memory() - before > 1 << 20
    mx.eval(result)
    gc.collect()
    assert mx.get_active_memory() - before < 1 << 12
    assert result.item() == 0


def test_eight_threads_run_one_compiled_loop():
    loop = mx.compile(lambda x: mx.scan(lambda c, x: (c + x, c * x), mx.array(0), x))
    found = {}

    def work(k):
        found[k] = [loop(mx.arange(k, k + 6))[0].item() for _ in range(30)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {k: [6 * k + 15] * 30 for k in range(8)}
