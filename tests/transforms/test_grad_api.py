"""The Python side of grad, value_and_grad, vjp and jvp: arguments, trees, extra outputs, errors, in-place operators."""

from __future__ import annotations

import functools
import threading
from collections import namedtuple

import numpy as np
import pytest

import mlxc as mx

Pair = namedtuple("Pair", ["a", "b"])
X = [1.0, 2.0]


def tolist(tree):
    if isinstance(tree, mx.array):
        return tree.tolist()
    if isinstance(tree, dict):
        return {key: tolist(item) for key, item in tree.items()}
    if hasattr(tree, "_fields"):
        return type(tree)(*map(tolist, tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(tolist, tree))
    return tree


def product(x, y):
    return (x * x * y).sum()


def test_grad_takes_the_first_argument_by_default():
    assert tolist(mx.grad(product)(mx.array(X), mx.array([3.0, 4.0]))) == [6.0, 16.0]


@pytest.mark.parametrize(
    ("argnums", "expected"),
    [(1, [1.0, 4.0]), ([1], [1.0, 4.0]), ((0, 1), ([6.0, 16.0], [1.0, 4.0])), ((1, 0), ([1.0, 4.0], [6.0, 16.0]))],
)
def test_argnums_choose_the_arguments_and_the_form_of_the_result(argnums, expected):
    assert tolist(mx.grad(product, argnums=argnums)(mx.array(X), mx.array([3.0, 4.0]))) == expected


def test_argnames_alone_leave_the_positional_part_none():
    assert tolist(mx.grad(product, argnames="y")(mx.array(X), y=mx.array([3.0, 4.0]))) == (None, {"y": [1.0, 4.0]})


def test_argnums_and_argnames_together_give_both():
    grads = mx.grad(product, argnums=0, argnames=["y"])(mx.array(X), y=mx.array([3.0, 4.0]))
    assert tolist(grads) == ([6.0, 16.0], {"y": [1.0, 4.0]})


def test_gradients_have_the_form_of_the_tree():
    tree = {"w": mx.array(X), "rest": [mx.array(3.0), (mx.array(4.0),)], "pair": Pair(mx.array(1.0), mx.array(2.0))}

    def loss(t):
        return (t["w"] * t["rest"][0]).sum() + t["rest"][1][0] ** 2 + t["pair"].a * t["pair"].b

    expected = {"w": [3.0, 3.0], "rest": [3.0, (8.0,)], "pair": Pair(2.0, 1.0)}
    assert tolist(mx.grad(loss)(tree)) == expected


def test_an_unused_leaf_has_gradient_zero():
    assert tolist(mx.grad(lambda t: t[0].sum())([mx.array(X), mx.array(X)])) == [[1.0, 1.0], [0.0, 0.0]]


def test_value_and_grad_hands_extra_outputs_through():
    def loss(x):
        doubled = x * 2
        return doubled.sum(), {"doubled": doubled, "note": "kept"}, 5

    value, grad = mx.value_and_grad(loss)(mx.array(X))
    assert tolist(value) == (6.0, {"doubled": [2.0, 4.0], "note": "kept"}, 5)
    assert tolist(grad) == [2.0, 2.0]
    # Extra outputs are ordinary arrays afterwards.
    assert tolist(value[1]["doubled"] + 1) == [3.0, 5.0]
    assert tolist(mx.grad(lambda y: (y * value[1]["doubled"]).sum())(mx.array(X))) == [2.0, 4.0]


def test_value_and_grad_of_a_plain_scalar():
    value, grad = mx.value_and_grad(lambda x: (x * x).sum())(mx.array(X))
    assert (value.item(), tolist(grad)) == (5.0, [2.0, 4.0])


def test_grad_nests():
    cube = mx.grad(mx.grad(mx.grad(lambda x: x**4)))
    assert cube(mx.array(2.0)).item() == pytest.approx(48.0)


def test_the_inner_grad_sees_the_outer_variable():
    def outer(x):
        return (mx.grad(lambda y: (x * x * y * y).sum())(mx.array(X)) * x).sum()

    # sum over i of 2 x**3 y has the derivative 6 x**2 y
    assert tolist(mx.grad(outer)(mx.array([1.0, 3.0]))) == [6.0, 108.0]


def test_other_arguments_are_passed_as_they_are():
    seen = {}

    def loss(x, factor, *, name, table):
        seen.update(factor=factor, name=name, table=table)
        return (x * factor).sum()

    table = {"any": object()}
    assert tolist(mx.grad(loss)(mx.array(X), 3, name="n", table=table)) == [3.0, 3.0]
    assert seen == {"factor": 3, "name": "n", "table": table} and seen["table"] is table


def test_in_place_operators_do_not_reach_the_callers_array():
    x = mx.array([1.0, 1.0])

    def h(t):
        t *= 2
        t[0] = 5.0
        return (t * t).sum()

    grad = mx.grad(h)(x)
    assert tolist(grad) == [0.0, 8.0]
    assert tolist(x) == [1.0, 1.0]


def test_a_python_exception_comes_out_unchanged():
    class Special(Exception):
        pass

    raised = Special("inside", 7)

    def fail(x):
        raise raised

    with pytest.raises(Special) as info:
        mx.grad(mx.grad(fail))(mx.array(1.0))
    assert info.value is raised
    assert mx.grad(lambda x: x * x)(mx.array(3.0)).item() == 6.0


def test_evaluation_inside_the_function_is_allowed():
    def loss(x):
        scale = (x * 2).sum().item()
        y = x * scale
        mx.eval(y)
        return y.sum()

    assert tolist(mx.grad(loss)(mx.array(X))) == [6.0, 6.0]


@pytest.mark.parametrize("shape", [(2,), (1,), (1, 1)])
def test_an_output_that_is_no_scalar_is_refused_with_its_shape(shape):
    with pytest.raises(ValueError, match=str(shape).replace("(", r"\(").replace(")", r"\)")):
        mx.grad(lambda x: mx.broadcast_to(x, shape))(mx.array(1.0))


@pytest.mark.parametrize(
    ("result", "name"), [(3, "int"), (None, "NoneType"), ([mx.array(1.0)], "list"), ({"a": 1}, "dict")]
)
def test_an_output_that_is_no_array_is_refused_with_its_type(result, name):
    with pytest.raises(ValueError, match=name):
        mx.grad(lambda x: result)(mx.array(1.0))
    with pytest.raises(ValueError, match=name):
        mx.value_and_grad(lambda x: result)(mx.array(1.0))


def test_grad_refuses_extra_outputs():
    with pytest.raises(ValueError, match="tuple"):
        mx.grad(lambda x: (x.sum(), x))(mx.array(X))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda f, x: mx.grad(f, argnums=2)(x, x), "argument index 2"),
        (lambda f, x: mx.grad(f, argnums=-1)(x, x), "negative"),
        (lambda f, x: mx.grad(f, argnums=(0, 0))(x, x), "Duplicate"),
        (lambda f, x: mx.grad(f, argnames="z")(x, y=x), "'z'"),
        (lambda f, x: mx.grad(f)(x=x, y=x), "positional"),
        (lambda f, x: mx.grad(f)(1.0, x), "float"),
        (lambda f, x: mx.grad(f)([x, None], x), "NoneType"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(call, words):
    with pytest.raises(ValueError, match=words):
        call(product, mx.array(X))


@pytest.mark.parametrize("transform", [mx.grad, mx.value_and_grad])
def test_only_functions_can_be_differentiated(transform):
    with pytest.raises(TypeError, match="int"):
        transform(5)


def test_the_transformed_function_keeps_name_and_docstring():
    def loss(x):
        """What it costs."""
        return x

    assert mx.grad(loss).__name__ == "loss"
    assert mx.value_and_grad(loss).__doc__ == "What it costs."


def test_any_callable_can_be_differentiated():
    class Scale:
        def __init__(self):
            self.factor = mx.array(3.0)

        def __call__(self, x):
            return (x * self.factor).sum()

    assert tolist(mx.grad(Scale())(mx.array(X))) == [3.0, 3.0]
    assert tolist(mx.grad(functools.partial(product, y=mx.array([1.0, 1.0])))(mx.array(X))) == [2.0, 4.0]


def test_integers_and_complex_results():
    grad = mx.grad(lambda x: x.sum())(mx.array([1, 2]))
    assert (grad.dtype, tolist(grad)) == (mx.int32, [1, 1])
    # The conjugate convention: z*z at 1+1j has 2-2j.
    grad = mx.grad(lambda z: z * z)(mx.array(1 + 1j))
    assert grad.item() == pytest.approx(2 - 2j)


def test_vjp_returns_outputs_and_products():
    outs, grads = mx.vjp(
        lambda x, y: (x * y, x.sum()), [mx.array(X), mx.array(X)], [mx.array([1.0, 1.0]), mx.array(1.0)]
    )
    assert tolist(outs) == [[1.0, 4.0], 3.0]
    assert tolist(grads) == [[2.0, 3.0], [1.0, 2.0]]


def test_jvp_returns_outputs_and_products():
    outs, tangents = mx.jvp(
        lambda x, y: [x * y], [mx.array(X), mx.array(X)], [mx.array([1.0, 0.0]), mx.array([0.0, 1.0])]
    )
    assert tolist(outs) == [[1.0, 4.0]]
    assert tolist(tangents) == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: mx.vjp(lambda a: a * 2, [x], []), ValueError),
        (lambda x: mx.vjp(lambda a: a * 2, [x], [mx.array(1.0)]), ValueError),
        (lambda x: mx.vjp(lambda a: a * 2, [1.0], [x]), TypeError),
        (lambda x: mx.vjp(lambda a: {"a": a}, [x], [x]), ValueError),
        (lambda x: mx.jvp(lambda a: a * 2, [x], [x, x]), ValueError),
        (lambda x: mx.jvp(lambda a: a * 2, [x], [mx.array(1.0)]), ValueError),
        (lambda x: mx.jvp(3, [x], [x]), TypeError),
    ],
)
def test_vjp_and_jvp_refuse_what_does_not_fit(call, error):
    with pytest.raises(error):
        call(mx.array(X))


def test_stop_gradient_stops():
    assert mx.grad(lambda x: x * mx.stop_gradient(x))(mx.array(3.0)).item() == 3.0


def test_functions_at_singular_points_have_finite_gradients():
    assert tolist(mx.grad(mx.std)(mx.ones((3,)))) == [0.0, 0.0, 0.0]
    assert tolist(mx.grad(mx.linalg.norm)(mx.zeros((3,)))) == [0.0, 0.0, 0.0]
    assert np.isfinite(mx.grad(lambda x: mx.nan_to_num(x).sum())(mx.array([mx.nan, mx.inf, 2.0])).tolist()).all()


def test_several_threads_differentiate_at_once():
    expected = [2 * i * 10.0 for i in range(100)]
    results: dict[int, list] = {}

    def work(n):
        x = mx.arange(100.0)
        results[n] = [mx.grad(lambda t: (t * t * 10.0).sum())(x).tolist() for _ in range(20)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(grad == expected for n in range(4) for grad in results[n])


def test_eval_takes_any_nesting():
    a, b, c = mx.array(1) + 1, mx.array(2) + 2, mx.array(3) + 3
    assert mx.eval(a, [b, {"c": (c, None, "text")}], 5) is None
    mx.async_eval([a + 1])
    assert [x.item() for x in (a, b, c)] == [2, 4, 6]
