"""checkpoint: the reverse sweep computes a function again in place of keeping its intermediates."""

import numpy as np
import pytest

import mlxc as mx

SIZE = 1 << 16


def deep(x, w):
    for _ in range(12):
        x = mx.sin(x) * w
    return x


def peak_of(function, x, w):
    """Bytes above what was there before, at the worst moment of a gradient's evaluation."""
    mx.eval(x, w)
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(mx.grad(lambda x: function(function(function(x, w), w), w).sum())(x))
    return mx.get_peak_memory() - before


def test_values_and_gradients_are_those_of_the_function():
    x, w = mx.random.normal((7,)), mx.random.normal((7,))
    for transform in (mx.value_and_grad, lambda f: mx.value_and_grad(f, argnums=(0, 1))):
        expected = transform(lambda x, w: deep(x, w).sum())(x, w)
        found = transform(lambda x, w: mx.checkpoint(deep)(x, w).sum())(x, w)
        for a, b in zip(mx.utils.tree_flatten(expected), mx.utils.tree_flatten(found), strict=True):
            assert a[1].tolist() == b[1].tolist()


def test_intermediates_are_not_kept():
    x, w = mx.full((SIZE,), 0.5), mx.full((SIZE,), 0.9)
    kept, again = peak_of(deep, x, w), peak_of(mx.checkpoint(deep), x, w)
    assert kept >= 36 * 4 * SIZE
    assert again <= 18 * 4 * SIZE


def test_the_function_is_called_once():
    calls = []

    def f(x):
        calls.append(1)
        return mx.exp(x)

    assert mx.grad(mx.checkpoint(f))(mx.array(0.0)).item() == 1.0
    assert len(calls) == 1


def test_random_numbers_are_drawn_again_with_the_same_keys():
    def f(x, key):
        return (x * mx.random.bernoulli(0.5, (64,), key=key)).sum()

    x, key = mx.ones((64,)), mx.random.key(3)
    assert mx.grad(mx.checkpoint(f))(x, key).tolist() == mx.grad(f)(x, key).tolist()


def test_trees_and_keyword_arguments():
    f = mx.checkpoint(lambda p, *, x, n: {"a": p["w"] * x * n, "b": (x + 1, "text")})
    w, x = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
    out = f({"w": w}, x=x, n=2)
    assert out["a"].tolist() == [6.0, 16.0] and out["b"][1] == "text"
    assert mx.grad(lambda w: f({"w": w}, x=x, n=2)["a"].sum())(w).tolist() == [6.0, 8.0]
    assert f.__name__ == "<lambda>"


def test_gradients_reach_what_the_function_captures():
    def loss(x, w):
        v = w * 2
        return mx.checkpoint(lambda x: mx.sin(x * v) + w)(x).sum()

    x, w = mx.array([0.3, 0.7]), mx.array([1.5, 2.5])
    found = mx.grad(loss, argnums=(0, 1))(x, w)
    np.testing.assert_allclose(found[0].tolist(), np.cos(np.array([0.9, 3.5])) * [3.0, 5.0], rtol=1e-5)
    np.testing.assert_allclose(found[1].tolist(), np.cos(np.array([0.9, 3.5])) * [0.6, 1.4] + 1, rtol=1e-5)


def test_results_that_do_not_depend_on_the_arguments():
    def loss(x, w):
        a, b, c = mx.checkpoint(lambda x: (x * x, w * 3, x))(x)
        return (a + b + c).sum()

    x, w = mx.array([2.0]), mx.array([5.0])
    assert [g.tolist() for g in mx.grad(loss, argnums=(0, 1))(x, w)] == [[5.0], [3.0]]


def test_it_composes_with_itself_and_the_other_transforms():
    def f(x):
        return mx.sin(x) ** 2

    again = mx.checkpoint(f)
    x = mx.array([0.3, 0.9])
    twice = mx.grad(lambda x: mx.grad(lambda x: again(again(x)).sum())(x).sum())(x)
    plain = mx.grad(lambda x: mx.grad(lambda x: f(f(x)).sum())(x).sum())(x)
    np.testing.assert_allclose(twice.tolist(), plain.tolist(), rtol=1e-6)
    nested = mx.checkpoint(lambda x: again(x) * 2)
    assert mx.grad(lambda x: nested(x).sum())(x).tolist() == mx.grad(lambda x: (f(x) * 2).sum())(x).tolist()
    assert mx.jvp(again, [x], [x])[1][0].tolist() == mx.jvp(f, [x], [x])[1][0].tolist()
    assert mx.vmap(mx.grad(again))(x).tolist() == mx.vmap(mx.grad(f))(x).tolist()
    assert mx.grad(lambda x: mx.vmap(again)(x).sum())(x).tolist() == mx.grad(lambda x: f(x).sum())(x).tolist()


def test_batches_keep_the_saving():
    batched = mx.vmap(mx.checkpoint(deep), in_axes=(0, None))
    x, w = mx.full((4, SIZE // 4), 0.5), mx.full((SIZE // 4,), 0.9)
    assert peak_of(batched, x, w) < peak_of(mx.vmap(deep, in_axes=(0, None)), x, w) / 2


def test_errors():
    with pytest.raises(TypeError):
        mx.checkpoint(3)

    def throw(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mx.checkpoint(throw)(mx.array(1.0))
    bad = mx.checkpoint(lambda x: mx.take(x, mx.array([9])))
    with pytest.raises(IndexError):
        mx.eval(mx.grad(lambda x: bad(x).sum())(mx.array([1.0])))
