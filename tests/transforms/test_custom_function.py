"""custom_function: functions with rules of their own for vjp, jvp and vmap, under every transform."""

import gc
import weakref

import numpy as np
import pytest

import mlxc as mx

A = [1.0, 2.0]


def straight_through():
    """round(x) * y with a vjp that the recorded function has not."""
    f = mx.custom_function(lambda x, y: mx.round(x) * y)
    return f.vjp(lambda primals, cotangent, output: (cotangent * primals[1], cotangent * primals[0]))


def test_without_rules_it_is_the_function():
    f = mx.custom_function(lambda x, y: mx.sin(x) * y)
    x, y = mx.array(A), mx.array([3.0, 4.0])
    assert f(x, y).tolist() == (mx.sin(x) * y).tolist()
    assert mx.grad(lambda x: f(x, y).sum())(x).tolist() == (mx.cos(x) * y).tolist()
    assert mx.vmap(f)(x, y).tolist() == f(x, y).tolist()


def test_it_keeps_name_and_docstring():
    @mx.custom_function
    def named(x):
        """Says something."""
        return x

    assert (named.__name__, named.__doc__) == ("named", "Says something.")
    assert type(named) is mx.custom_function
    assert named.vjp(lambda *a: a[1]) is named


def test_the_vjp_gets_primals_cotangents_and_outputs_in_their_forms():
    seen = []

    @mx.custom_function
    def f(params, x, *, scale):
        return {"out": params["w"] * x * scale, "more": [x + 1]}

    @f.vjp
    def rule(primals, cotangents, outputs, *, scale):
        seen.append((primals, cotangents, outputs, scale))
        return {"w": primals[1] * 100}, primals[1] * 1000

    x, w, scale = mx.array(A), mx.array([5.0, 6.0]), mx.array(2.0)
    gradients = mx.grad(lambda w, x: f({"w": w}, x, scale=scale)["out"].sum(), argnums=(0, 1))(w, x)
    assert [g.tolist() for g in gradients] == [[100.0, 200.0], [1000.0, 2000.0]]
    ((primals, cotangents, outputs, given),) = seen
    assert primals[0]["w"].tolist() == [5.0, 6.0] and primals[1].tolist() == A and given.item() == 2.0
    assert cotangents["out"].tolist() == [1.0, 1.0] and cotangents["more"][0].tolist() == [0.0, 0.0]
    assert outputs["out"].tolist() == [10.0, 24.0] and outputs["more"][0].tolist() == [2.0, 3.0]


def test_one_argument_is_not_wrapped():
    f = mx.custom_function(lambda x: x * 2)
    f.vjp(lambda x, cotangent, output: cotangent + x + output)
    f.jvp(lambda x, tangent: tangent * 10 + x)
    assert mx.grad(lambda x: f(x).sum())(mx.array(A)).tolist() == [4.0, 7.0]
    assert mx.jvp(f, [mx.array(A)], [mx.array([1.0, 1.0])])[1][0].tolist() == [11.0, 12.0]


def test_the_jvp_gets_none_for_what_has_no_tangent():
    seen = []
    f = mx.custom_function(lambda x, y: (x * y, x + y))

    @f.jvp
    def rule(primals, tangents):
        seen.append(tangents)
        return primals[1] * tangents[0], tangents[0]

    y = mx.array(3.0)
    values, tangents = mx.jvp(lambda x: f(x, y), [mx.array(A)], [mx.array([1.0, 10.0])])
    assert [v.tolist() for v in values] == [[3.0, 6.0], [4.0, 5.0]]
    assert [t.tolist() for t in tangents] == [[3.0, 30.0], [1.0, 10.0]]
    assert seen[0][1] is None


def test_a_transform_without_its_rule_goes_through_the_function():
    f = mx.custom_function(lambda x: x**3).vjp(lambda x, g, out: g * 0)
    assert mx.grad(f)(mx.array(2.0)).item() == 0.0
    assert mx.jvp(f, [mx.array(2.0)], [mx.array(1.0)])[1][0].item() == 12.0
    g = mx.custom_function(lambda x: x**3).jvp(lambda x, t: t * 0)
    assert mx.grad(g)(mx.array(2.0)).item() == 12.0
    assert mx.jvp(g, [mx.array(2.0)], [mx.array(1.0)])[1][0].item() == 0.0


def test_what_a_function_with_a_vjp_captures_is_a_constant():
    def f(x, y):
        inner = mx.custom_function(lambda x: x * y).vjp(lambda x, g, out: g * 7)
        return inner(x)

    assert [g.item() for g in mx.grad(f, argnums=(0, 1))(mx.array(2.0), mx.array(3.0))] == [7.0, 0.0]


def test_second_derivatives_use_the_rule_again():
    f = mx.custom_function(lambda x: x**4).vjp(lambda x, g, out: g * x**2)
    assert mx.grad(mx.grad(f))(mx.array(3.0)).item() == 6.0
    sine = mx.custom_function(mx.sin).vjp(lambda x, g, out: g * mx.cos(x))
    assert mx.grad(mx.grad(mx.grad(sine)))(mx.array(0.5)).item() == pytest.approx(-np.cos(0.5), rel=1e-6)


def test_batches_keep_the_vjp():
    f = straight_through()
    x, y = mx.array([[0.4, 1.6], [2.5, 3.1]]), mx.array([2.0, 5.0])
    per_example = mx.vmap(mx.grad(lambda x: f(x, y).sum()))(x)
    assert per_example.tolist() == [[2.0, 5.0]] * 2
    gradient_x, gradient_y = mx.grad(lambda x, y: mx.vmap(f, in_axes=(0, None))(x, y).sum(), argnums=(0, 1))(x, y)
    assert gradient_x.tolist() == [[2.0, 5.0]] * 2
    np.testing.assert_allclose(gradient_y.tolist(), np.sum(x.tolist(), axis=0), rtol=1e-6)


def test_batches_keep_the_jvp():
    f = mx.custom_function(lambda x, y: x * y).jvp(lambda primals, tangents: tangents[0] * 100)
    x, y = mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.array(2.0)
    _, (tangent,) = mx.jvp(lambda x: mx.vmap(f, in_axes=(0, None))(x, y), [x], [x])
    assert tangent.tolist() == [[100.0, 200.0], [300.0, 400.0]]


def test_batches_of_batches_keep_the_vjp():
    f = straight_through()
    x, y = mx.full((2, 3, 4), 1.4), mx.full((3, 4), 2.0)
    gradient = mx.grad(lambda x: mx.vmap(mx.vmap(f), in_axes=(0, None))(x, y).sum())(x)
    assert gradient.tolist() == mx.full((2, 3, 4), 2.0).tolist()


def test_the_vmap_rule_is_used_and_its_axes_are_obeyed():
    seen = []
    f = mx.custom_function(lambda x, y: (x + y, y * 2))

    @f.vmap
    def rule(inputs, axes):
        seen.append(axes)
        x, y = inputs
        return ((x + y).T, y * 20), (1, None)

    x, y = mx.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), mx.array([10.0, 20.0])
    total, double = mx.vmap(f, in_axes=(0, None))(x, y)
    assert seen == [(0, None)]
    assert total.tolist() == [[11.0, 22.0], [13.0, 24.0], [15.0, 26.0]]
    assert double.tolist() == [[200.0, 400.0]] * 3


def test_vmap_rules_and_negative_or_other_in_axes():
    f = mx.custom_function(lambda x: x.sum()).vmap(lambda x, axis: (x.sum(axis=1) * 10, axis))
    x = mx.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert mx.vmap(f)(x).tolist() == [60.0, 150.0]
    assert mx.vmap(f, in_axes=-1)(x).tolist() == [50.0, 70.0, 90.0]


def test_wrong_rules_are_errors_that_say_so():
    x = mx.array(A)
    wrong = {
        "shape": lambda x, g, out: mx.zeros((3,)),
        "returned 2": lambda x, g, out: (g, g),
        "leaf": lambda x, g, out: None,
    }
    for words, rule in wrong.items():
        f = mx.custom_function(lambda x: x * 2).vjp(rule)
        with pytest.raises(ValueError, match=words):
            mx.grad(lambda x, f=f: f(x).sum())(x)
    f = mx.custom_function(lambda x: x * 2).jvp(lambda x, t: mx.zeros((3,)))
    with pytest.raises(ValueError, match="shape"):
        mx.jvp(f, [x], [x])
    f = mx.custom_function(lambda x: x * 2).vmap(lambda x, axes: x)
    with pytest.raises(ValueError, match="pair"):
        mx.vmap(f)(x)
    for wrong_function in (3, None):
        with pytest.raises(TypeError):
            mx.custom_function(wrong_function)
        with pytest.raises(TypeError):
            f.vjp(wrong_function)


def test_exceptions_pass_through_as_they_are():
    class Own(Exception):
        pass

    def throw(*args):
        raise Own

    with pytest.raises(Own):
        mx.custom_function(throw).vjp(throw)(mx.array(1.0))
    f = mx.custom_function(lambda x: x).vjp(throw).jvp(throw).vmap(throw)
    with pytest.raises(Own):
        mx.grad(f)(mx.array(1.0))
    with pytest.raises(Own):
        mx.jvp(f, [mx.array(1.0)], [mx.array(1.0)])
    with pytest.raises(Own):
        mx.vmap(f)(mx.array(A))


def test_results_that_are_arguments_or_none():
    f = mx.custom_function(lambda x: (x, 3, None)).vjp(lambda x, g, out: g[0] * 5)
    assert f(mx.array(1.0))[1:] == (3, None)
    assert mx.grad(lambda x: f(x)[0])(mx.array(1.0)).item() == 5.0
    assert mx.grad(lambda x: (f(x), x)[1])(mx.array(1.0)).item() == 1.0
    nothing = mx.custom_function(lambda x: None).vjp(lambda *a: a[1])
    assert mx.grad(lambda x: (nothing(x), x)[1])(mx.array(1.0)).item() == 1.0


def test_rules_are_released_with_the_graph():
    class Mark:
        pass

    def run(evaluate):
        mark = Mark()
        f = mx.custom_function(lambda x: x * 2).vjp(lambda x, g, out, mark=mark: g)
        result = mx.grad(lambda x: f(x).sum())(mx.array(A))
        if evaluate:
            mx.eval(result)
        return weakref.ref(mark), result

    for evaluate in (True, False):
        mark, result = run(evaluate)
        del result
        gc.collect()
        assert mark() is None


def test_rules_of_failed_and_of_dropped_calls_are_released():
    class Mark:
        pass

    def throw(x):
        raise ValueError("no")

    marks = []
    for fun in (lambda x: mx.take(x, mx.array([9])), throw):
        mark = Mark()
        marks.append(weakref.ref(mark))
        f = mx.custom_function(fun).vjp(lambda x, g, out, mark=mark: g)
        kept = []

        def loss(x, f=f, kept=kept):
            kept.append(f(x))
            return kept[0].sum()

        with pytest.raises((IndexError, ValueError)):
            mx.eval(mx.value_and_grad(loss)(mx.array(A)))
        del mark, f, kept, loss
    gc.collect()
    assert [mark() for mark in marks] == [None, None]


def test_a_long_chain_of_calls_is_released_without_recursion():
    f = mx.custom_function(lambda x: x + 1).vjp(lambda x, g, out: g * 1)

    def loss(x):
        for _ in range(20_000):
            x = f(x)
        return x

    assert mx.grad(loss)(mx.array(1.0)).item() == 1.0
