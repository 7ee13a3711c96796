"""Gradients of element-wise ops, reductions and scans.

Each op is compared in float64 with central differences along random directions: vjp, jvp, and the derivative of
the vjp (second order). Then the points where a formula alone would give NaN or lose part of the cotangent: zeros,
ties, equal infinities, half precision; and the complex convention (the cotangent meets the conjugated derivative).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import mlxc as mx

STEP = 1e-5
Function = Callable[..., mx.array]


def to_double(values: np.ndarray) -> mx.array:
    complex_values = np.iscomplexobj(values)
    return mx.array(np.array(values), dtype=mx.complex128 if complex_values else mx.float64)


def call(function: Function, args: list[np.ndarray]) -> np.ndarray:
    return np.array(function(*[to_double(a) for a in args]))


def differentiate(function: Callable[[list[np.ndarray]], np.ndarray], args, directions) -> np.ndarray:
    ahead = function([a + STEP * d for a, d in zip(args, directions, strict=True)])
    behind = function([a - STEP * d for a, d in zip(args, directions, strict=True)])
    return (ahead - behind) / (2 * STEP)


def inner(a: np.ndarray, b: np.ndarray) -> float:
    """Real inner product, for complex arrays too."""
    return float(np.sum((np.conj(a) * b).real))


def make_like(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    values = rng.standard_normal(like.shape)
    return values + 1j * rng.standard_normal(like.shape) if np.iscomplexobj(like) else values


def pull_back(function: Function, args: list[mx.array], cotangent: mx.array) -> list[mx.array]:
    return mx.vjp(function, args, [cotangent])[1]


def check_gradients(function: Function, *args: np.ndarray, seed: int = 0, rtol: float = 2e-6) -> None:
    rng = np.random.default_rng(seed)
    args = [np.asarray(a) for a in args]
    arrays = [to_double(a) for a in args]
    directions = [make_like(rng, a) for a in args]
    value = call(function, args)
    cotangent = make_like(rng, value)

    slope = differentiate(lambda a: call(function, a), args, directions)
    tangent = np.array(mx.jvp(function, arrays, [to_double(d) for d in directions])[1][0])
    assert tangent.shape == value.shape
    scale = max(1.0, float(np.abs(slope).max(initial=0)))
    np.testing.assert_allclose(tangent, slope, rtol=rtol, atol=rtol * scale, err_msg="jvp")

    grads = [np.array(g) for g in pull_back(function, arrays, to_double(cotangent))]
    for grad, arg in zip(grads, args, strict=True):
        assert grad.shape == arg.shape and grad.dtype == arg.dtype
    got = sum(inner(g, d) for g, d in zip(grads, directions, strict=True))
    want = inner(cotangent, slope)
    assert abs(got - want) <= rtol * max(1.0, abs(want), scale), f"vjp {got}, differences {want}"

    check_second_order(function, args, directions, cotangent, rtol)


def check_second_order(function, args, directions, cotangent, rtol) -> None:
    """The gradient's inner product with a direction is itself differentiated."""
    rng = np.random.default_rng(100)
    fixed = [to_double(np.conj(d)) for d in directions]
    seed = to_double(cotangent)

    def slope_along(*arrays: mx.array) -> mx.array:
        grads = pull_back(function, list(arrays), seed)
        total = sum(mx.sum(g * d) for g, d in zip(grads, fixed, strict=True))
        return mx.real(total) if np.iscomplexobj(args[0]) else total

    along = [make_like(rng, a) for a in args]
    arrays = [to_double(a) for a in args]
    want = float(differentiate(lambda a: call(slope_along, a), args, along))
    bound = 10 * rtol * max(1.0, abs(want))
    grads = pull_back(slope_along, arrays, to_double(np.array(1.0)))
    got = sum(inner(np.array(g), d) for g, d in zip(grads, along, strict=True))
    assert abs(got - want) <= bound, f"second order, vjp of vjp {got}, differences {want}"
    forward = float(np.array(mx.jvp(slope_along, arrays, [to_double(d) for d in along])[1][0]))
    assert abs(forward - want) <= bound, f"second order, jvp of vjp {forward}, differences {want}"

    tangents, weights = [to_double(d) for d in directions], to_double(np.conj(cotangent))

    def push_along(*arrays: mx.array) -> mx.array:
        total = mx.sum(mx.jvp(function, list(arrays), tangents)[1][0] * weights)
        return mx.real(total) if np.iscomplexobj(cotangent) else total

    grads = pull_back(push_along, arrays, to_double(np.array(1.0)))
    got = sum(inner(np.array(g), d) for g, d in zip(grads, along, strict=True))
    assert abs(got - want) <= bound, f"second order, vjp of jvp {got}, differences {want}"


UNARY = {
    "abs": (-3, 3), "negative": (-3, 3), "square": (-3, 3), "sqrt": (0.5, 4), "rsqrt": (0.5, 4),
    "reciprocal": (0.5, 4), "exp": (-2, 2), "expm1": (-2, 2), "log": (0.5, 4), "log2": (0.5, 4), "log10": (0.5, 4),
    "log1p": (-0.5, 4), "sin": (-3, 3), "cos": (-3, 3), "tan": (-1.2, 1.2), "arcsin": (-0.8, 0.8),
    "arccos": (-0.8, 0.8), "arctan": (-3, 3), "sinh": (-2, 2), "cosh": (-2, 2), "tanh": (-2, 2),
    "arcsinh": (-3, 3), "arccosh": (1.3, 4), "arctanh": (-0.8, 0.8), "sigmoid": (-3, 3), "erf": (-2, 2),
    "erfinv": (-0.8, 0.8),
}  # fmt: skip
HOLOMORPHIC = [
    "negative", "square", "sqrt", "reciprocal", "exp", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
    "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "rsqrt",
]  # fmt: skip
BINARY = {
    "add": (-3, 3), "subtract": (-3, 3), "multiply": (-3, 3), "divide": (0.5, 3), "remainder": (0.5, 3),
    "power": (0.5, 3), "maximum": (-3, 3), "minimum": (-3, 3), "logaddexp": (-3, 3), "arctan2": (-3, 3),
}  # fmt: skip


def find_op(name: str) -> Function:
    if not hasattr(mx, name):
        pytest.skip(f"mlxc has no public {name}")
    return getattr(mx, name)


@pytest.mark.parametrize("name", UNARY)
def test_unary_matches_differences(name: str) -> None:
    low, high = UNARY[name]
    x = np.random.default_rng(1).uniform(low, high, (3, 4))
    check_gradients(find_op(name), x)


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_holomorphic_op_matches_differences(name: str) -> None:
    rng = np.random.default_rng(2)
    check_gradients(find_op(name), rng.uniform(0.3, 0.9, 5) + 1j * rng.uniform(0.3, 0.9, 5))


@pytest.mark.parametrize("name", ["abs", "real", "imag", "conjugate"])
def test_complex_parts_match_differences(name: str) -> None:
    rng = np.random.default_rng(3)
    check_gradients(find_op(name), rng.uniform(0.5, 2, 5) - 1j * rng.uniform(0.5, 2, 5))


@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((3, 4), (4,)), ((), (2, 3)), ((3, 1), (1, 4))])
@pytest.mark.parametrize("name", BINARY)
def test_binary_matches_differences(name: str, shapes: tuple) -> None:
    rng = np.random.default_rng(4)
    low, high = BINARY[name]
    check_gradients(find_op(name), *(rng.uniform(low, high, shape) for shape in shapes))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "power", "logaddexp"])
def test_complex_binary_matches_differences(name: str) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.uniform(0.5, 1.5, 4) + 1j * rng.uniform(0.2, 1, 4) for _ in range(2))
    check_gradients(find_op(name), a, b)


def test_divmod_and_where_match_differences() -> None:
    rng = np.random.default_rng(6)
    a, b = rng.uniform(1, 9, (2, 3)), rng.uniform(1, 2, 3)
    check_gradients(lambda x, y: mx.divmod(x, y)[1], a, b)
    condition = mx.array([True, False, True])
    check_gradients(lambda x, y: mx.where(condition, x * y, x), a, b)
    check_gradients(lambda x: mx.where(condition, x, 2.0), np.array(0.5))


REDUCTIONS = [(None, False), (0, False), (-1, True), ((0, 2), False), ((1, 2), True)]


@pytest.mark.parametrize("axis,keepdims", REDUCTIONS)
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "min", "logsumexp"])
def test_reduction_matches_differences(name: str, axis, keepdims: bool) -> None:
    x = np.random.default_rng(7).uniform(-2, 2, (2, 3, 4))
    check_gradients(lambda a: getattr(mx, name)(a, axis=axis, keepdims=keepdims), x, rtol=1e-5)


@pytest.mark.parametrize("name", ["sum", "mean", "prod"])
def test_complex_reduction_matches_differences(name: str) -> None:
    rng = np.random.default_rng(8)
    check_gradients(
        lambda a: getattr(mx, name)(a, axis=1), rng.uniform(0.5, 1.5, (2, 3)) + 1j * rng.normal(size=(2, 3))
    )


@pytest.mark.parametrize("axis", [-1, 0, (0, 1)])
def test_softmax_matches_differences(axis) -> None:
    check_gradients(lambda a: mx.softmax(a, axis=axis), np.random.default_rng(9).normal(size=(3, 4)))


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
def test_scan_matches_differences(name: str, reverse: bool, inclusive: bool) -> None:
    if not inclusive and name in ("cummax", "cummin"):
        x = np.random.default_rng(10).normal(size=(5, 3))
        # The first output is infinite and takes no part.
        keep = slice(0, -1) if reverse else slice(1, None)
        check_gradients(lambda a: getattr(mx, name)(a, axis=0, reverse=reverse, inclusive=False)[keep], x)
        return
    for shape, axis in (((7,), 0), ((3, 5), 0), ((2, 4), 1), ((1,), 0)):
        x = np.random.default_rng(11).normal(size=shape)
        check_gradients(lambda a, k=axis: getattr(mx, name)(a, axis=k, reverse=reverse, inclusive=inclusive), x)


@pytest.mark.parametrize("values", [[0, 2, 3], [2, 3, 0], [2, 0, 0, 3], [0, 0, 0], [2, 0, 3, 0], [5], [1.5, -2, 0.5]])
def test_products_with_zeros_are_exact(values: list[float]) -> None:
    x = np.array(values, float)
    check_gradients(mx.prod, x)
    for reverse in (False, True):
        for inclusive in (False, True):
            check_gradients(lambda a, r=reverse, i=inclusive: mx.cumprod(a, axis=0, reverse=r, inclusive=i), x)


def test_products_with_zeros_over_several_axes() -> None:
    x = np.random.default_rng(12).normal(size=(2, 3, 2))
    x[0, 1, 0] = x[1, 2, 1] = 0
    check_gradients(lambda a: mx.prod(a, axis=(0, 2)), x)
    check_gradients(mx.prod, x)


def grad(function: Function, *args, argnums=0) -> np.ndarray:
    return np.array(mx.grad(function, argnums=argnums)(*args))


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32, mx.float64])
@pytest.mark.parametrize("name", ["max", "min"])
def test_winners_of_an_extreme_share_the_whole(name: str, dtype) -> None:
    extreme = getattr(mx, name)
    g = mx.grad(extreme)(mx.ones((70000,), dtype))
    assert g.dtype == dtype
    assert abs(np.array(g.astype(mx.float64)).sum() - 1) < 0.01
    x = mx.array([[2.0, 2, 2], [2, 1, 3]], dtype=dtype)
    g = np.array(mx.grad(lambda a: extreme(a, axis=0).sum())(x).astype(mx.float32))
    np.testing.assert_array_equal(g.sum(0), 1)
    np.testing.assert_array_equal(g[:, 0], 0.5)


def test_nan_wins_an_extreme() -> None:
    x = mx.array([1.0, np.nan, 3.0])
    assert grad(mx.max, x).tolist() == [0, 1, 0]
    assert grad(lambda a: mx.cummax(a, axis=0).sum(), x).tolist() == [1, 2, 0]


def test_cumulative_extreme_goes_to_the_first_that_reached_it() -> None:
    x, w = mx.array([3.0, 1.0, 3.0, 5.0]), mx.array([1.0, 10.0, 100.0, 1000.0])
    assert grad(lambda a: (mx.cummax(a, axis=0) * w).sum(), x).tolist() == [111, 0, 0, 1000]
    assert grad(lambda a: (mx.cummin(a, axis=0) * w).sum(), x).tolist() == [1, 1110, 0, 0]
    assert grad(lambda a: (mx.cummax(a, axis=0, reverse=True) * w).sum(), x).tolist() == [0, 0, 0, 1111]


def test_a_long_running_maximum_keeps_its_half_precision_gradient() -> None:
    x = mx.zeros((10000,), mx.float16)
    assert grad(lambda a: mx.cummax(a, axis=0).astype(mx.float32).sum(), x)[0] == 10000


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_equal_operands_share_the_whole(name: str) -> None:
    select = getattr(mx, name)
    a, b = mx.array([3.0, 1.0, np.nan]), mx.array([3.0, 3.0, 1.0])
    ga, gb = mx.grad(lambda p, q: select(p, q).sum(), argnums=(0, 1))(a, b)
    np.testing.assert_array_equal(np.array(ga) + np.array(gb), 1)
    assert np.array(ga)[0] == 0.5
    assert grad(lambda p: select(p, p), mx.array(2.0)) == 1


def test_power_at_zero() -> None:
    zero = mx.array(0.0)
    for exponent, want in ((0.0, 0.0), (1.0, 1.0), (2.0, 0.0), (3.0, 0.0)):
        assert grad(lambda x, p=exponent: x ** mx.array(p), zero) == want
    assert grad(mx.grad(lambda y: y ** mx.array(2.0)), zero) == 2
    for base, exponent in ((0.0, 2.0), (0.0, 0.0), (0.0, -1.0)):
        assert grad(lambda p, b=base: mx.power(mx.array(b), p), mx.array(exponent)) == 0
    assert grad(lambda x: mx.power(x, mx.array(3.0)), mx.array(-2.0)) == 12
    assert grad(lambda x: mx.power(x, mx.array(0.0)), mx.array(1e-40)) == 0


def test_square_root_at_zero_keeps_a_zero_cotangent() -> None:
    def norm_squared(x: mx.array) -> mx.array:
        return mx.sqrt((x * x).sum()) ** 2

    assert grad(norm_squared, mx.zeros(3)).tolist() == [0, 0, 0]
    assert grad(mx.sqrt, mx.array(0.0)) == np.inf
    curvature = grad(
        lambda x: mx.grad(lambda y: (mx.sqrt(y) * mx.array([0.0, 1.0])).sum())(x).sum(), mx.array([0.0, 4.0])
    )
    np.testing.assert_allclose(curvature, [0, -1 / 32])


def test_gradient_at_the_kink_or_origin_is_zero() -> None:
    assert grad(lambda x: mx.abs(x).sum(), mx.array([0.0, -0.0, 2.0, -2.0])).tolist() == [0, 0, 1, -1]
    assert grad(lambda z: mx.abs(z).sum(), mx.array([0j])).tolist() == [0]
    ga, gb = mx.grad(mx.arctan2, argnums=(0, 1))(mx.array(0.0), mx.array(0.0))
    assert (ga.item(), gb.item()) == (0, 0)
    tiny = grad(lambda a: mx.arctan2(a, mx.array(1e-30)), mx.array(0.0))
    np.testing.assert_allclose(tiny, 1e30, rtol=1e-5)


def test_logaddexp_of_infinities() -> None:
    low, one = mx.array(-np.inf), mx.array(1.0)
    ga, gb = mx.grad(mx.logaddexp, argnums=(0, 1))(low, low)
    assert (ga.item(), gb.item()) == (0.5, 0.5)
    ga, gb = mx.grad(mx.logaddexp, argnums=(0, 1))(low, one)
    assert (ga.item(), gb.item()) == (0, 1)
    second = grad(mx.grad(lambda y: mx.logaddexp(y, mx.array(1.0))), one)
    assert second == 0.25


def test_logsumexp_of_minus_infinities_has_no_slope() -> None:
    x = mx.array([[-np.inf, -np.inf], [-np.inf, 1.0]])
    assert grad(lambda a: mx.logsumexp(a, axis=1).sum(), x).tolist() == [[0, 0], [0, 1]]


def test_where_never_multiplies_what_it_leaves_out() -> None:
    def safe_log(x: mx.array) -> mx.array:
        positive = x > 0
        return mx.where(positive, mx.log(mx.where(positive, x, 1.0)), 0.0).sum()

    assert grad(safe_log, mx.array([0.0, -3.0, 2.0])).tolist() == [0, 0, 0.5]
    assert grad(lambda x: mx.where(mx.isnan(x), 0.0, x).sum(), mx.array([np.nan, 3.0])).tolist() == [0, 1]


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.complex64])
def test_gradients_keep_the_dtype(dtype) -> None:
    x = mx.array([0.5, 0.25], dtype=dtype)
    functions = [mx.sin, mx.log, mx.arctan, mx.sqrt, mx.square, mx.mean, mx.prod]
    functions += [lambda a: a**2, lambda a: a / 3, lambda a: mx.cumprod(a, axis=0)]
    if dtype != mx.complex64:
        functions += [mx.sigmoid, mx.erf, mx.softmax, mx.logsumexp, mx.max]
    for function in functions:
        value = function(x)
        assert value.dtype == dtype
        assert mx.vjp(function, [x], [mx.ones(value.shape, dtype)])[1][0].dtype == dtype
        assert mx.jvp(function, [x], [x])[1][0].dtype == dtype


def test_half_precision_mean_of_many() -> None:
    g = grad(mx.mean, mx.ones((70000,), mx.float16))
    np.testing.assert_allclose(g.astype(float), 1 / 70000, rtol=3e-3)


def test_arctan_in_half_precision_does_not_overflow() -> None:
    np.testing.assert_allclose(grad(mx.arctan, mx.array(300.0, dtype=mx.float16)), 1 / 90001, rtol=1e-2)


def test_complex_convention() -> None:
    z = mx.array(1 + 1j)
    assert grad(lambda a: mx.real(a * a), z) == 2 - 2j
    assert grad(mx.imag, z) == 1j
    assert grad(mx.abs, mx.array(3 + 4j)) == pytest.approx(0.6 + 0.8j)
    assert mx.jvp(lambda a: a * a, [z], [mx.array(1 + 0j)])[1][0].item() == 2 + 2j
    assert grad(lambda x: mx.abs(x * (3 + 4j)).sum(), mx.array([2.0]))[0] == pytest.approx(5)


def test_tangent_of_one_operand_has_the_output_shape() -> None:
    a, b = mx.array(2.0), mx.array([1.0, 3.0])
    for name in ("add", "subtract", "multiply", "maximum", "power"):
        combine = getattr(mx, name)
        tangent = mx.jvp(lambda x, f=combine: f(x, b), [a], [mx.array(1.0)])[1][0]
        assert tangent.shape == (2,)


def test_casts_to_integers_stop_gradients() -> None:
    x = mx.array([1.5, 2.5])
    assert grad(lambda a: (a.astype(mx.int32) * a).sum(), x).tolist() == [1, 2]
    tangent = mx.jvp(lambda a: a.astype(mx.int32).astype(mx.float32), [x], [x])[1][0]
    assert np.array(tangent).tolist() == [0, 0]
