"""Element-wise free functions: values against NumPy, dtypes of the results, weak scalars, corners."""

from __future__ import annotations

import math

import numpy as np
import pytest
from compare import assert_same

import mlxc as mx

X = np.array([-2.5, -1.0, -0.0, 0.0, 0.5, 1.0, 3.25], np.float32)
P = np.array([0.1, 0.5, 1.0, 2.0, 10.0], np.float32)
U = np.array([-0.9, -0.3, 0.0, 0.2, 0.8], np.float32)
WHOLE = np.array([-7, -2, 0, 1, 3, 8], np.int32)
C = np.array([1 + 2j, -3.5j, 2, -1 - 1j], np.complex64)

UNARY = {
    "abs": X, "sign": X, "negative": X, "positive": X, "square": X, "sqrt": P, "reciprocal": P, "exp": X, "expm1": X,
    "log": P, "log2": P, "log10": P, "log1p": P, "sin": X, "cos": X, "tan": X, "arcsin": U, "arccos": U, "arctan": X,
    "sinh": X, "cosh": X, "tanh": X, "arcsinh": X, "arccosh": P + 1, "arctanh": U, "floor": X, "ceil": X, "trunc": X,
    "rint": X, "conjugate": C, "conj": C, "real": C, "imag": C, "logical_not": X, "bitwise_invert": WHOLE, "isnan": X,
    "isinf": X, "isfinite": X, "signbit": X, "degrees": X, "radians": X, "isposinf": X, "isneginf": X, "nan_to_num": X,
    "acos": U, "asin": U, "atan": X, "acosh": P + 1, "asinh": X, "atanh": U,
}  # fmt: skip
BINARY = [
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "maximum", "minimum", "logaddexp",
    "arctan2", "hypot", "copysign", "nextafter", "equal", "not_equal", "less", "less_equal", "greater",
    "greater_equal", "logical_and", "logical_or", "logical_xor", "atan2", "pow",
]  # fmt: skip
INTEGER = ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "bitwise_left_shift",
           "bitwise_right_shift"]  # fmt: skip


@pytest.mark.parametrize("name", sorted(UNARY))
def test_unary_functions_are_numpys(name):
    a = UNARY[name]
    assert_same(getattr(mx, name)(mx.array(a)), getattr(np, name)(a))


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_are_numpys_and_broadcast(name):
    a, b = P[:, None] + 0.25, P[None, :3]
    assert_same(getattr(mx, name)(mx.array(a), mx.array(b)), getattr(np, name)(a, b))
    assert_same(getattr(mx, name)(mx.array(a), 2), getattr(np, name)(a, np.float32(2)))
    assert_same(getattr(mx, name)(2, mx.array(a)), getattr(np, name)(np.float32(2), a))


@pytest.mark.parametrize("name", INTEGER)
def test_integer_functions_are_numpys(name):
    a, b = WHOLE[:, None], np.array([0, 1, 5], np.int32)
    assert_same(getattr(mx, name)(mx.array(a), mx.array(b)), getattr(np, name)(a, b))


def test_functions_that_numpy_lacks():
    from scipy import special

    assert_same(mx.rsqrt(mx.array(P)), 1 / np.sqrt(P))
    assert_same(mx.sigmoid(mx.array(X)), special.expit(X))
    assert_same(mx.erf(mx.array(X)), special.erf(X))
    assert_same(mx.erfinv(mx.array(U)), special.erfinv(U))


def test_python_scalars_are_weak():
    assert mx.add(mx.array([1], mx.int8), 1).dtype == mx.int8
    assert mx.multiply(2.0, mx.array([1], mx.float16)).dtype == mx.float16
    assert mx.add(mx.array([1]), 1.5).dtype == mx.float32
    assert mx.maximum(mx.array([True]), 3).dtype == mx.int32
    assert mx.add(mx.array([1.0]), 1j).dtype == mx.complex64
    assert mx.add(1, 2).dtype == mx.int32
    assert mx.divide(1, 2).item() == 0.5
    assert mx.where(mx.array([True, False]), 1, mx.array([0.5, 0.5], mx.float16)).dtype == mx.float16
    with pytest.raises(ValueError, match="300"):
        mx.add(mx.array([1], mx.int8), 300)


def test_numpy_arrays_and_scalars_are_taken():
    assert mx.add(mx.array([1.0]), np.array([2.0], np.float32)).tolist() == [3.0]
    assert mx.add(np.array([2], np.int32), 1).tolist() == [3]
    assert mx.sin(0.0).item() == 0.0


def test_where_chooses_and_broadcasts():
    c = np.array([[True], [False]])
    assert_same(mx.where(mx.array(c), mx.array(X), 7), np.where(c, X, np.float32(7)))
    assert mx.where(mx.array([2, 0]), 1, 2).tolist() == [1, 2]
    assert mx.where(True, 1, 2.5).dtype == mx.float32
    assert_same(list(mx.where(mx.array([[0, 1], [2, 0]]))), list(np.nonzero([[0, 1], [2, 0]])))
    with pytest.raises(ValueError, match="three"):
        mx.where(mx.array([True]), 1)


def test_nonzero_needs_values():
    assert_same(list(mx.nonzero(mx.array(X))), list(np.nonzero(X)))
    assert mx.nonzero(mx.zeros((0, 2)))[1].shape == (0,)
    with pytest.raises(ValueError):
        mx.nonzero(mx.array(1))
    with pytest.raises(ValueError):
        mx.grad(lambda x: mx.nonzero(x)[0].sum())(mx.array([1.0]))


@pytest.mark.parametrize("bounds", [(-1, 1), (None, 0.5), (0.5, None), (1, -1)])
def test_clip_limits(bounds):
    assert_same(mx.clip(mx.array(X), *bounds), np.clip(X, *bounds))
    nan = mx.clip(mx.array([mx.nan, 5.0]), 0, 1)
    assert np.isnan(nan.tolist()[0]) and nan.tolist()[1] == 1.0


def test_clip_needs_a_bound():
    with pytest.raises(ValueError):
        mx.clip(mx.array(X), None, None)


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
def test_round_is_half_to_even(decimals):
    a = np.array([0.5, 1.5, -2.5, 1.2345, 123.456, -15.0, 25.0, 150.0, 250.0, np.inf, np.nan])
    assert_same(mx.round(mx.array(a, mx.float64), decimals), np.round(a, decimals), rtol=1e-15)
    i = np.array([-150, -25, -15, 5, 14, 15, 16, 25, 150, 250])
    assert mx.round(mx.array(i), decimals).tolist() == np.round(i, decimals).tolist()


def test_round_corners():
    assert mx.round(mx.array([15, 25, 126], mx.uint8), -1).tolist() == [20, 20, 130]
    assert mx.round(mx.array([100], mx.int8), -3).tolist() == [0]
    assert mx.round(mx.array([1e38, 1e-38]), 20).tolist() == [np.float32(1e38), 0.0]
    assert mx.round(mx.array([60000.0], mx.float16), 2).tolist() == [60000.0]
    assert mx.round(mx.array([1.26 + 2.34j]), 1).item() == pytest.approx(1.3 + 2.3j)


def test_nan_to_num_replaces():
    a = mx.array([mx.nan, mx.inf, -mx.inf, 1.0])
    assert mx.nan_to_num(a).tolist() == [0.0, np.finfo(np.float32).max, np.finfo(np.float32).min, 1.0]
    assert mx.nan_to_num(a, nan=5, posinf=6, neginf=7).tolist() == [5.0, 6.0, 7.0, 1.0]
    assert mx.nan_to_num(mx.array([mx.inf], mx.float16)).item() == 65504.0
    assert mx.nan_to_num(mx.array([1, 2])).tolist() == [1, 2]
    z = mx.nan_to_num(mx.array([complex(np.nan, np.inf)], mx.complex64)).item()
    assert z == complex(0, np.finfo(np.float32).max)


def test_closeness():
    a = np.array([1.0, 1.00001, np.inf, -np.inf, np.nan, 1e-9, 1e30, 5.0])
    b = np.array([1.0, 1.0, np.inf, np.inf, np.nan, 0.0, np.inf, 5.1])
    for equal_nan in (False, True):
        want = np.isclose(a.astype(np.float32), b.astype(np.float32), equal_nan=equal_nan)
        assert_same(mx.isclose(mx.array(a), mx.array(b), equal_nan=equal_nan), want)
    assert mx.allclose(mx.array([1.0]), 1.0).item() is True
    assert mx.allclose(mx.array([1.0, 2.0]), 1.0).item() is False
    assert mx.isclose(mx.array([2**31 - 1]), mx.array([2**31 - 2]), rtol=0, atol=0.5).item() is False
    assert mx.isclose(mx.array([1.0], mx.float16), mx.array([1.0], mx.float16)).item() is True
    assert mx.isclose(mx.array([1j]), mx.array([1j])).item() is True


def test_array_equal_compares_shape_and_values():
    a = mx.array([1.0, mx.nan])
    assert mx.array_equal(a, a).item() is False
    assert mx.array_equal(a, a, equal_nan=True).item() is True
    assert mx.array_equal(mx.array([1, 2]), mx.array([[1, 2]])).item() is False
    assert mx.array_equal(mx.array([1, 2]), mx.array([1.0, 2.0])).item() is True
    assert mx.array_equal(mx.array(3), 3).item() is True
    assert mx.array_equal(a, a).dtype == mx.bool_


def test_divmod_is_floored():
    q, r = mx.divmod(mx.array([7, -7, 7, -7, 5]), mx.array([2, 2, -2, -2, 0]))
    assert (q.tolist(), r.tolist()) == ([3, -4, -4, 3, 0], [1, 1, -1, -1, 5])
    assert isinstance(mx.divmod(7, 2), list)


def test_casts_and_views():
    assert mx.astype(mx.array([1.7, -1.7]), mx.int32).tolist() == [1, -1]
    assert mx.view(mx.array(1.0), mx.int32).item() == 0x3F800000
    assert mx.view(mx.array([1, 2], mx.int16), mx.int8).shape == (4,)
    with pytest.raises(ValueError):
        mx.view(mx.array([1, 2, 3], mx.int8), mx.int32)
    with pytest.raises(TypeError):
        mx.astype(mx.array([1]), "no dtype")


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.negative(mx.array([True])),
        lambda: mx.bitwise_and(mx.array([1.0]), 1.0),
        lambda: mx.floor(mx.array([1j])),
        lambda: mx.isposinf(mx.array([1j])),
        lambda: mx.sin([1.0]),
        lambda: mx.add(mx.array([1.0]), "x"),
        lambda: mx.add(mx.array([1.0]), None),
    ],
)
def test_dtypes_and_types_that_are_not_accepted(call):
    with pytest.raises(TypeError, match=r".{10}"):
        call()


def test_shapes_that_do_not_broadcast():
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        mx.add(mx.zeros((2,)), mx.zeros((3,)))


def test_arrays_are_positional_where_mlx_has_it_so():
    with pytest.raises(TypeError):
        mx.sin(a=mx.array(1.0))
    assert mx.add(a=mx.array(1), b=mx.array(2)).item() == 3
    assert mx.sin(mx.array(0.0), stream=mx.cpu).item() == 0.0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int32", "uint8"])
def test_round_takes_any_number_of_decimals(dtype):
    x = mx.array([15, 0, 3], dtype=getattr(mx, dtype))
    for far in (39, 309, 400, 10**9):
        assert mx.round(x, far).tolist() == [15, 0, 3]
        assert mx.round(x, -far).tolist() == [0, 0, 0]
    if mx.issubdtype(x.dtype, mx.floating):
        odd = mx.round(mx.array([mx.inf, mx.nan, -2.0], dtype=x.dtype), -400).tolist()
        assert odd[0] == mx.inf and odd[1] != odd[1] and math.copysign(1, odd[2]) == -1


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32", "uint32", "int64", "uint64"])
def test_comparisons_take_integers_that_the_dtype_does_not_hold(dtype):
    x = mx.array([0, 1], dtype=getattr(mx, dtype))
    info = mx.iinfo(x.dtype)
    for number in (info.max + 1, 2**70):
        assert (x < number).tolist() == mx.less(x, number).tolist() == mx.greater(number, x).tolist() == [True, True]
        assert mx.equal(x, number).tolist() == (x == number).tolist() == [False, False]
        assert mx.greater_equal(x, number).tolist() == [False, False]
    assert mx.greater(x, info.min - 1).tolist() == (x != info.min - 1).tolist() == [True, True]
    assert mx.less_equal(x, -(2**70)).tolist() == [False, False]
    assert mx.logical_and(x, -1000).tolist() == [False, True] and mx.logical_or(0.0, x).tolist() == [False, True]
