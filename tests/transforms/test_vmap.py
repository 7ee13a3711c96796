"""vmap: axes and trees of axes, what may not be read inside, and composition with the other transforms.

That each op's batching rule equals a loop is checked in tests/conformance.
"""

from __future__ import annotations

import threading
from collections import namedtuple

import numpy as np
import pytest

import mlxc as mx

Pair = namedtuple("Pair", ["a", "b"])
RNG = np.random.default_rng(5)
A = RNG.standard_normal((3, 4))
B = RNG.standard_normal((3, 4))
W = RNG.standard_normal((4, 5))


def array(values):
    return mx.array(np.asarray(values), dtype=mx.float64)


def same(got, expected, tolerance=1e-12):
    got = np.asarray(got)
    return got.shape == np.shape(expected) and np.allclose(got, expected, rtol=tolerance, atol=tolerance)


def smooth(x):
    return (mx.sin(x) * x * x).sum() + mx.exp(x[0] * x[1])


def smooth_gradient(x):
    gradient = np.cos(x) * x * x + 2 * np.sin(x) * x
    gradient[:2] += np.exp(x[0] * x[1]) * x[1::-1]
    return gradient


# ---- axes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_axes", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("out_axes", [0, 1, 2, -1, -2])
def test_batch_axes_may_be_anywhere(in_axes, out_axes):
    x = RNG.standard_normal((2, 3, 4))
    got = mx.vmap(lambda a: mx.cumsum(a, axis=0), in_axes, out_axes)(array(x))
    expected = np.moveaxis(np.cumsum(np.moveaxis(x, in_axes, 0), axis=1), 0, out_axes)
    assert same(got, expected)


def test_none_is_the_same_for_the_whole_batch():
    got = mx.vmap(lambda a, w: a @ w, in_axes=(0, None))(array(A), array(W))
    assert same(got, A @ W)


def test_each_argument_has_its_own_axis():
    got = mx.vmap(lambda a, b: a * b, in_axes=(0, 1))(array(A), array(B.T))
    assert same(got, A * B)


def test_axes_of_trees_are_given_for_all_of_it_or_leaf_by_leaf():
    tree = {"w": array(A), "rest": [array(B.T), array(3.0)]}

    def total(t, scale):
        return (t["w"] * t["rest"][0] * t["rest"][1]).sum() * scale

    expected = 6 * (A * B).sum(axis=1)
    assert same(mx.vmap(total, in_axes=({"w": 0, "rest": (1, None)}, None))(tree, 2), expected)
    pair = Pair(array(A), array(B))
    assert same(mx.vmap(lambda p: (p.a * p.b).sum())(pair), (A * B).sum(axis=1))


def test_result_has_the_form_that_the_function_gave_it():
    got = mx.vmap(lambda a: {"p": Pair(a, a.sum()), "l": [a * 2]}, out_axes={"p": (1, 0), "l": -1})(array(A))
    assert type(got["p"]) is Pair and type(got["l"]) is list
    assert same(got["p"].a, A.T) and same(got["p"].b, A.sum(axis=1)) and same(got["l"][0], 2 * A.T)


def test_result_that_does_not_depend_on_the_batch_is_repeated_or_handed_out_as_it_is():
    def function(a):
        return mx.ones(2)

    assert mx.vmap(function)(array(A)).tolist() == [[1, 1]] * 3
    assert mx.vmap(function, out_axes=1)(array(A)).shape == (2, 3)
    assert mx.vmap(function, out_axes=None)(array(A)).tolist() == [1, 1]


def test_argument_itself_may_be_the_result():
    assert same(mx.vmap(lambda a: a, in_axes=1, out_axes=1)(array(A)), A)


def test_batch_without_examples_gives_empty_results():
    got = mx.vmap(lambda a: (a.max(), mx.ones((2, 4)) @ a))(mx.zeros((0, 4)))
    assert [part.shape for part in got] == [(0,), (0, 2)]


def test_function_keeps_its_name():
    assert mx.vmap(smooth).__name__ == "smooth"


# ---- errors -------------------------------------------------------------------------------------


def test_batches_of_different_sizes_are_refused_by_name():
    with pytest.raises(ValueError, match=r"input 0 of shape \(3, 4\) has 3 along axis 0, input 1 of shape \(4, 5\)"):
        mx.vmap(lambda a, w: a, in_axes=0)(array(A), array(W))


@pytest.mark.parametrize("axis", [2, -3, 2**40])
def test_axis_that_an_input_lacks_is_refused_by_name(axis):
    with pytest.raises(IndexError, match=r"for input 1, whose shape is \(3, 4\)"):
        mx.vmap(lambda a, b: a, in_axes=(0, axis))(array(A), array(B))
    with pytest.raises(ValueError, match="for output 0"):
        mx.vmap(lambda a: a, out_axes=axis)(array(A))


@pytest.mark.parametrize(
    ("in_axes", "out_axes", "message"),
    [
        (None, 0, "at least one input must be batched"),
        ((0,), 0, "do not have the form"),
        (({"a": 0}, 0), 0, "do not have the form"),
        (1.5, 0, "an axis is an int or None"),
        (0, (0, 0), "do not have the form"),
        (0, None, r"output 0 of shape \(4,\) is not batched, but"),
    ],
)
def test_axes_that_do_not_fit_are_refused(in_axes, out_axes, message):
    with pytest.raises(ValueError, match=message):
        mx.vmap(lambda a, b: a * b, in_axes, out_axes)(array(A), array(B))


def test_what_is_no_array_has_no_batch():
    with pytest.raises(ValueError, match="of type int: only arrays have a batch"):
        mx.vmap(lambda a, b: a)(array(A), 3)
    with pytest.raises(ValueError, match="of type NoneType"):
        mx.vmap(lambda a: None)(array(A))


def test_keyword_arguments_and_other_callables_are_type_errors():
    with pytest.raises(TypeError, match="positional arguments only, got b"):
        mx.vmap(lambda a, b: a)(array(A), b=array(B))
    with pytest.raises(TypeError, match="takes a function"):
        mx.vmap(3)


def test_exception_of_the_function_comes_out_and_leaves_nothing_behind():
    def function(a):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mx.vmap(function)(array(A))
    mask = mx.array([True, False, True])
    assert array(A)[mask].shape == (2, 4)  # which is refused while anything is traced


# ---- values inside ------------------------------------------------------------------------------

READERS = {
    "item": lambda a: a.sum().item(),
    "tolist": lambda a: a.tolist(),
    "bool": lambda a: bool(a[0] > 0),
    "float": lambda a: float(a[0]),
    "repr": repr,
    "eval": mx.eval,
    "async_eval": mx.async_eval,
    "numpy": np.asarray,
    "buffer": memoryview,
    "dlpack": lambda a: a.__dlpack__(),
    "bytes": lambda a: a.tobytes(),
    "derived": lambda a: (mx.exp(a) @ array(W)).tolist(),
    "with a good one": lambda a: mx.eval(array(A), a * 2),
}


@pytest.mark.parametrize("name", READERS)
def test_values_cannot_be_read_inside_and_all_stays_usable(name):
    outside = array(A) * 2

    def function(a):
        shared = outside + a
        for _ in range(2):
            with pytest.raises(ValueError, match="it depends on an input of a function that is traced"):
                READERS[name](a)
        assert same(outside, 2 * A)  # what does not depend on an input can be read
        return shared.sum(axis=-1) + a[0]

    got = mx.vmap(function)(array(A))
    assert same(got, (2 * A + A[:, None]).sum(axis=-1) + A[:, :1])


def test_input_that_is_not_batched_can_be_read():
    assert same(mx.vmap(lambda a, n: a * n.item(), in_axes=(0, None))(array(A), array(3.0)), 3 * A)


def test_array_that_escapes_has_no_value_but_does_no_harm():
    kept = []
    mx.vmap(lambda a: kept.append(a * 2) or a)(array(A))
    for _ in range(2):
        with pytest.raises(ValueError, match="it depends on an input of a function that is traced"):
            (kept[0] + 1).tolist()
    good = array(A) + 1
    with pytest.raises(ValueError):
        mx.eval(good, kept)
    assert same(good, A + 1)


# ---- composition --------------------------------------------------------------------------------


def test_vmap_of_vmap_batches_twice():
    pairs = mx.vmap(mx.vmap(lambda a, b: (a * b).sum(), in_axes=(None, 0)), in_axes=(0, None))
    assert same(pairs(array(A), array(B)), A @ B.T)
    crossed = mx.vmap(mx.vmap(mx.cumsum, in_axes=1, out_axes=1), in_axes=1, out_axes=2)
    x = RNG.standard_normal((2, 3, 4))
    assert same(crossed(array(x)), np.cumsum(x, axis=0).transpose(0, 2, 1))


def test_inner_vmap_may_use_the_batch_of_the_outer_one():
    got = mx.vmap(lambda a: mx.vmap(lambda b: a * b)(mx.stack([a, 2 * a])))(array(A))
    assert same(got, np.stack([A * A, 2 * A * A], axis=1))


def test_vmap_of_grad_gives_a_gradient_for_each_example():
    assert same(mx.vmap(mx.grad(smooth))(array(A)), np.stack([smooth_gradient(a) for a in A]))


def test_grad_of_vmap_is_the_gradient_of_the_loop():
    assert same(mx.grad(lambda x: mx.vmap(smooth)(x).sum())(array(A)), np.stack([smooth_gradient(a) for a in A]))


def test_grad_of_vmap_reaches_what_is_not_batched_and_what_is_captured():
    weights, extra = array(W), array(B[0])

    def loss(w, e):
        return mx.vmap(lambda a, w: mx.tanh((a * e) @ w).sum(), in_axes=(0, None))(array(A), w).sum()

    by_weights, by_extra = mx.grad(loss, argnums=(0, 1))(weights, extra)
    slope = 1 - np.tanh((A * B[0]) @ W) ** 2
    assert same(by_weights, (A * B[0]).T @ slope)
    assert same(by_extra, ((slope @ W.T) * A).sum(axis=0))


def test_vmap_of_value_and_grad_with_trees():
    def loss(p, x):
        return ((p["w"] * x) ** 2).sum() + p["b"][0]

    params = {"w": array(A[0]), "b": [array(2.0)]}
    value, gradients = mx.vmap(mx.value_and_grad(loss), in_axes=(None, 0))(params, array(B))
    assert same(value, ((A[0] * B) ** 2).sum(axis=1) + 2)
    assert same(gradients["w"], 2 * A[0] * B**2) and same(gradients["b"][0], np.ones(3))


def test_vmap_of_jvp_and_jvp_of_vmap_agree():
    def directional(a, t):
        return mx.jvp(smooth, [a], [t])[1][0]

    expected = [float(np.dot(smooth_gradient(a), b)) for a, b in zip(A, B, strict=True)]
    assert same(mx.vmap(directional)(array(A), array(B)), expected)
    assert same(mx.jvp(mx.vmap(smooth), [array(A)], [array(B)])[1][0], expected)


def test_vmap_of_vjp_takes_many_cotangents():
    products = mx.vmap(lambda c: mx.vjp(lambda x: x @ array(W), [array(A[0])], [c])[1][0])(mx.eye(5, dtype=mx.float64))
    assert same(products, W.T)


def test_second_derivatives_through_vmap():
    def slope(x):
        return mx.grad(lambda y: mx.vmap(lambda z: z**4)(y).sum())(x).sum()

    assert same(mx.grad(slope)(array(A)), 12 * A**2)
    assert same(mx.vmap(mx.grad(lambda x: mx.grad(smooth)(x).sum()))(array(A)).shape, (3, 4))


def test_ops_with_two_results_are_batched():
    got = mx.vmap(mx.divmod, in_axes=(0, None))(mx.array([7, 8, 9]), mx.array([2, 4]))
    assert [part.tolist() for part in got] == [[[3, 1], [4, 2], [4, 2]], [[1, 3], [0, 0], [1, 1]]]
    only_second = mx.vmap(lambda a: mx.divmod(a, 4)[1])(mx.array([7, 8, 9]))
    assert only_second.tolist() == [3, 0, 1]
    slopes = mx.vmap(mx.grad(lambda a: mx.divmod(a, array(2.0))[1] ** 2))(array([3.5, 1.0]))
    assert slopes.tolist() == [3.0, 2.0]


DRAWS = {
    "bits": lambda key: mx.random.bits((3,), key=key),
    "uniform": lambda key: mx.random.uniform(shape=(2, 3), key=key),
    "normal": lambda key: mx.random.normal((5,), key=key),
    "randint": lambda key: mx.random.randint(0, 100, (4,), key=key),
    "bernoulli": lambda key: mx.random.bernoulli(0.3, (6,), key=key),
    "split": lambda key: mx.random.split(key, 3),
    "categorical": lambda key: mx.random.categorical(mx.zeros((2, 5)), key=key),
    "gumbel": lambda key: mx.random.gumbel((3,), key=key),
    "permutation": lambda key: mx.random.permutation(6, key=key),
    "nested": lambda key: mx.random.normal((2,), key=mx.random.split(key)[1]),
}


@pytest.mark.parametrize("name", DRAWS)
def test_each_key_of_a_batch_draws_what_it_draws_alone(name):
    keys = mx.random.split(mx.random.key(3), 4)
    alone = np.stack([np.asarray(DRAWS[name](key)) for key in keys])
    assert np.array_equal(np.asarray(mx.vmap(DRAWS[name])(keys)), alone)


def test_draw_without_a_key_is_the_same_for_the_whole_batch():
    got = np.asarray(mx.vmap(lambda a: a * 0 + mx.random.uniform())(mx.zeros(3)))
    assert got[0] == got[1] == got[2]


def test_indexing_by_arrays_that_are_batched():
    x, i = RNG.standard_normal((3, 6, 4)), RNG.integers(-6, 6, (3, 5))
    pick = mx.vmap(lambda a, j: a[j])
    assert same(pick(array(x), mx.array(i)), np.stack([x[b][i[b]] for b in range(3)]))
    assert same(mx.vmap(lambda j: array(x[0])[:, j % 4])(mx.array(i)), np.stack([x[0][:, j % 4] for j in i]))

    def add_at(a, j):
        return a.at[j].add(a[0])

    expected = x.copy()
    for b in range(3):
        np.add.at(expected[b], i[b], x[b, 0])
    assert same(mx.vmap(add_at)(array(x), mx.array(i)), expected)


def test_index_out_of_range_raises_for_a_batch_too():
    with pytest.raises(IndexError):
        mx.eval(mx.vmap(lambda j: mx.arange(4.0)[j])(mx.array([1, 4])))


def test_writes_to_slices_are_batched():
    def function(a, v):
        a[1:3] = v
        a[0] += 1
        return a

    expected = A.copy()
    expected[:, 1:3] = B[:, :2]
    expected[:, 0] += 1
    assert same(mx.vmap(function)(array(A), array(B[:, :2])), expected)


def test_batched_linear_layers_of_a_network_have_the_gradients_of_a_loop():
    w1, w2 = array(W), array(RNG.standard_normal((5, 2)))

    def loss(x, w1, w2):
        return mx.logsumexp(mx.maximum(x @ w1, 0) @ w2)

    got = mx.vmap(mx.grad(loss, argnums=(0, 1, 2)), in_axes=(0, None, None))(array(A), w1, w2)
    for b in range(3):
        alone = mx.grad(loss, argnums=(0, 1, 2))(array(A[b]), w1, w2)
        for one, batch in zip(alone, got, strict=True):
            assert same(batch[b], np.asarray(one))


def test_threads_may_batch_at_the_same_time():
    results, errors = [None] * 8, []

    def work(i):
        try:
            for _ in range(20):
                results[i] = np.asarray(mx.vmap(mx.grad(smooth))(array(A + i)))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert all(same(r, np.stack([smooth_gradient(a + i) for a in A]), 1e-9) for i, r in enumerate(results))


# ---- jacobian and hessian -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_jacobian_has_the_axes_of_result_and_argument(mode):
    got = mx.jacobian(lambda x, w: mx.tanh(x @ w), argnums=(0, 1), mode=mode)(array(A), array(W))
    slope = 1 - np.tanh(A @ W) ** 2
    assert same(got[0], np.einsum("ij,kj,il->ijlk", slope, W, np.eye(3)))
    assert same(got[1], np.einsum("ij,ik,jl->ijkl", slope, A, np.eye(5)))


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_jacobian_of_trees_has_the_form_of_the_result_outside_and_of_the_argument_inside(mode):
    def function(p):
        return {"sum": p[0].sum() * p[1], "squares": (p[0] ** 2,)}

    got = mx.jacobian(function, mode=mode)([array([1.0, 2.0]), array(3.0)])
    assert [part.tolist() for part in got["sum"]] == [[3, 3], 3]
    assert [part.tolist() for part in got["squares"][0]] == [[[2, 0], [0, 4]], [0, 0]]


def test_hessian_is_the_matrix_of_second_derivatives():
    x = A[0]
    expected = np.diag(2 * np.sin(x) + 4 * x * np.cos(x) - x * x * np.sin(x))
    p = x[0] * x[1]
    expected[:2, :2] += np.exp(p) * np.array([[x[1] ** 2, 1 + p], [1 + p, x[0] ** 2]])
    assert same(mx.hessian(smooth)(array(x)), expected)
    assert same(mx.vmap(mx.hessian(smooth))(array(A))[0], expected)


def test_hessian_of_several_arguments_has_a_block_for_each_pair():
    blocks = mx.hessian(lambda x, y: (x**2).sum() * y, argnums=(0, 1))(array([1.0, 2.0]), array(3.0))
    assert [[block.tolist() for block in row] for row in blocks] == [[[[6, 0], [0, 6]], [2, 4]], [[2, 4], 0]]


def test_jacobian_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match='"reverse" or "forward"'):
        mx.jacobian(smooth, mode="backward")
    with pytest.raises(ValueError, match="there is no argument 1"):
        mx.jacobian(smooth, argnums=1)(array(A[0]))
    with pytest.raises(ValueError, match="an argument should be an array"):
        mx.jacobian(lambda x: x)(1.0)
    with pytest.raises(ValueError, match="the result should be an array"):
        mx.jacobian(lambda x: 1.0)(array(A[0]))
    with pytest.raises(ValueError, match="argnums"):
        mx.jacobian(smooth, argnums=(0, 0))
    with pytest.raises(TypeError, match="argnums is an int"):
        mx.jacobian(smooth, argnums=1.5)
    with pytest.raises(TypeError, match="takes a function"):
        mx.hessian(1)
