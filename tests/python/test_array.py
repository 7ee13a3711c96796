"""The array object: operators, weak scalars, in-place updates, properties, Python protocols, printing."""

import copy
import math
import operator
import pickle

import numpy as np
import pytest

import mlxc as mx

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
BITWISE = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("op", ARITHMETIC + COMPARISONS, ids=lambda op: op.__name__)
def test_operators_equal_numpy(op):
    a, b = np.array([1.5, -2.0, 3.0], np.float32), np.array([2.0, 3.0, 0.5], np.float32)
    with np.errstate(all="ignore"):
        for x, y, want in [
            (mx.array(a), mx.array(b), op(a, b)),
            (mx.array(a), 2, op(a, 2)),
            (2, mx.array(b), op(2, b)),
            (mx.array(a), 0.5, op(a, np.float32(0.5))),
        ]:
            got = op(x, y)
            assert type(got) is mx.array
            assert np.allclose(np.array(got), want, rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("op", BITWISE, ids=lambda op: op.__name__)
def test_bitwise_operators_equal_numpy(op):
    a, b = np.array([5, 3, 12], np.int32), np.array([1, 2, 3], np.int32)
    assert np.array_equal(np.array(op(mx.array(a), mx.array(b))), op(a, b))
    assert np.array_equal(np.array(op(mx.array(a), 2)), op(a, 2))
    assert np.array_equal(np.array(op(7, mx.array(b))), op(7, b))


def test_unary_operators_and_divmod():
    a = mx.array([1.5, -2.5])
    assert (-a).tolist() == [-1.5, 2.5] and (+a).tolist() == a.tolist() and abs(a).tolist() == [1.5, 2.5]
    assert (~mx.array([0, 5])).tolist() == [-1, -6] and (~mx.array([True, False])).tolist() == [False, True]
    q, r = divmod(mx.array([7, -7]), 3)
    assert (q.tolist(), r.tolist()) == ([2, -3], [1, 2])
    q, r = divmod(7, mx.array([3, -3]))
    assert (q.tolist(), r.tolist()) == ([2, -3], [1, -2])
    with pytest.raises(TypeError):
        -mx.array([True])


def test_matrix_product_operator():
    a, b = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.arange(12.0, dtype=np.float32).reshape(3, 4)
    assert np.array_equal(np.array(mx.array(a) @ mx.array(b)), a @ b)
    assert (mx.array([1.0, 2.0]) @ mx.array([3.0, 4.0])).item() == 11
    assert np.array_equal(np.array(a @ mx.array(b)), a @ b)
    with pytest.raises(ValueError):
        mx.array([1.0]) @ 2


WEAK = [
    ("int8", 1, "int8"),
    ("int8", True, "int8"),
    ("int8", 1.5, "float32"),
    ("float16", 1, "float16"),
    ("float16", 1.5, "float16"),
    ("bfloat16", 1.5, "bfloat16"),
    ("float64", 1.5, "float64"),
    ("bool", 1, "int32"),
    ("bool", True, "bool"),
    ("bool", 1.5, "float32"),
    ("int32", 1j, "complex64"),
    ("float64", 1j, "complex128"),
    ("float16", 1j, "complex64"),
    ("complex64", 1.5, "complex64"),
    ("uint64", 2**63, "uint64"),
    ("int64", 2.5, "float32"),
    ("float16", np.float32(1), "float16"),
    ("float16", np.float64(1), "float16"),
    ("int8", np.int64(1), "int8"),
    ("int32", np.float32(1.5), "float32"),
    ("float16", np.int64(3), "float16"),
    ("int32", np.bool_(True), "int32"),
    ("float32", np.complex128(1j), "complex64"),
    ("bool", 2**40, "int64"),
]


@pytest.mark.parametrize(("dtype", "scalar", "result"), WEAK, ids=str)
def test_scalars_are_weak(dtype, scalar, result):
    a = mx.array([1, 0], dtype=dtype)
    assert (a + scalar).dtype == result and (scalar + a).dtype == result


@pytest.mark.parametrize(
    ("dtype", "number"), [("int8", 300), ("uint8", -1), ("int32", 2**31), ("uint64", -1), ("uint64", 2**64)]
)
def test_integers_that_do_not_fit_the_dtype_are_value_errors(dtype, number):
    with pytest.raises(ValueError):
        mx.array([1], dtype=dtype) + number
    with pytest.raises(ValueError):
        number * mx.array([1], dtype=dtype)


def test_comparisons_with_numbers_beyond_the_dtype_are_exact():
    a = mx.array([0, 255], dtype=mx.uint8)
    assert (
        (a < 300).tolist() == [True, True]
        and (a == -1).tolist() == [False, False]
        and (a > -1).tolist() == [True, True]
    )
    assert (mx.array([-128, 127], dtype=mx.int8) <= 2**40).tolist() == [True, True]


def test_comparing_with_strangers_is_false_and_does_not_raise():
    a = mx.array([1, 2])
    for other in (None, "a", [1, 2], (1, 2), {}, object()):
        assert (a == other) is False and (a != other) is True
    with pytest.raises(TypeError):
        a < None  # noqa: B015
    with pytest.raises(TypeError):
        a < "b"  # noqa: B015


@pytest.mark.parametrize("other", [None, "a", [1, 2], {}, object()], ids=str)
def test_arithmetic_with_strangers_is_a_type_error(other):
    with pytest.raises(TypeError):
        mx.array([1, 2]) + other
    with pytest.raises(TypeError):
        other - mx.array([1, 2])
    with pytest.raises(TypeError):
        a = mx.array([1, 2])
        a += other


def test_numpy_arrays_beside_arrays_give_arrays():
    a, n = mx.array([1.0, 2.0]), np.array([3.0, 4.0])
    for got in (
        a + n,
        n + a,
        n * a,
        a - n,
        n - a,
        n / a,
        a @ n,
        n @ a,
        np.float64(2) * a,
        np.int64(2) * a,
        np.float32(2) - a,
    ):
        assert type(got) is mx.array and got.dtype == mx.float32
    assert (n - a).tolist() == [2, 2] and (np.float64(2) * a).tolist() == [2, 4]
    assert (n == a).tolist() == [False, False] and type(n < a) is mx.array


def test_shapes_broadcast_and_mismatches_are_value_errors():
    assert (mx.zeros((3, 1)) + mx.zeros((1, 4))).shape == (3, 4)
    with pytest.raises(ValueError, match=r"3.*4|4.*3"):
        mx.zeros(3) + mx.zeros(4)


# ---- in-place operators ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "op",
    [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow],
)
def test_in_place_operators_rebind_the_same_object(op):
    a = mx.array([4.0, 9.0])
    same, before = a, a * 1
    got = op(a, 2)
    assert got is same and before.tolist() == [4.0, 9.0]
    want = np.array([4.0, 9.0], np.float32)
    assert np.allclose(np.array(a), op(want, 2))


def test_in_place_bitwise_operators():
    a = mx.array([5, 6])
    a &= 4
    a |= 1
    a ^= 2
    a <<= 2
    a >>= 1
    assert a.tolist() == [14, 14]


def test_in_place_operators_keep_the_dtype():
    a = mx.array([1, 2], dtype=mx.float16)
    a += mx.array([1.0, 2.0], dtype=mx.float32)
    assert a.dtype == mx.float16 and a.tolist() == [2, 4]
    b = mx.array([1, 2], dtype=mx.uint8)
    b += mx.array([1, -1], dtype=mx.int32)
    assert b.dtype == mx.uint8 and b.tolist() == [2, 1]
    c = mx.array([2**40], dtype=mx.uint64)
    c += mx.array([1], dtype=mx.int64)
    assert c.dtype == mx.uint64 and c.item() == 2**40 + 1


def test_in_place_operators_refuse_to_change_kind_or_shape():
    a = mx.array([1, 2])
    for other in (1.5, mx.array([1.0, 2.0]), 1j):
        with pytest.raises(TypeError):
            a += other
    with pytest.raises(TypeError):
        a /= 2
    with pytest.raises(ValueError):
        a += mx.zeros((2, 2), mx.int32)
    assert a.tolist() == [1, 2] and a.dtype == mx.int32


# ---- properties and Python protocols -----------------------------------------------------------


def test_properties():
    a = mx.zeros((2, 3, 4), mx.float16)
    assert (a.shape, a.ndim, a.size, a.itemsize, a.nbytes, a.dtype) == ((2, 3, 4), 3, 24, 2, 48, mx.float16)
    assert a.T.shape == (4, 3, 2) and a.mT.shape == (2, 4, 3) and a.shape is a.shape
    with pytest.raises(ValueError):
        mx.zeros(3).mT  # noqa: B018
    c = mx.array([1 + 2j])
    assert c.real.item() == 1 and c.imag.item() == 2
    assert a.device == mx.default_device() and a.to_device(mx.cpu).shape == a.shape


def test_one_element_arrays_convert_to_python_numbers():
    assert int(mx.array([2.7])) == 2 and float(mx.array([[3]])) == 3.0 and bool(mx.array([0.0])) is False
    assert complex(mx.array(2)) == 2 + 0j and mx.array(True).item() is True and type(mx.array(3).item()) is int
    assert mx.array(2**64 - 1, dtype=mx.uint64).item() == 2**64 - 1
    assert operator.index(mx.array(3)) == 3 and [10, 20, 30][mx.array(1)] == 20
    for a in (mx.array([1, 2]), mx.array([])):
        for f in (int, float, bool, complex, lambda x: x.item()):
            with pytest.raises(ValueError):
                f(a)
    for a in (mx.array([3]), mx.array(3.0), mx.array(True)):
        with pytest.raises(TypeError):
            operator.index(a)


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "uint8",
        "int16",
        "uint32",
        "int64",
        "uint64",
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "complex64",
        "complex128",
    ],
)
def test_tolist_gives_nested_lists_of_python_numbers(dtype):
    a = mx.array([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    assert a.tolist() == [[0, 1, 1], [1, 0, 1]] and a.T.tolist() == [[0, 1], [1, 0], [1, 1]]
    kind = {"b": bool, "u": int, "i": int, "f": float, "c": complex}[
        dtype.replace("bfloat", "float").replace("bool", "b")[0]
    ]
    assert all(type(v) is kind for row in a.tolist() for v in row)
    assert a[::-1, ::-2].tolist() == [[1, 1], [1, 0]]


def test_tolist_of_empty_and_zero_dimensional_arrays():
    assert (
        mx.zeros((0, 3)).tolist() == [] and mx.zeros((3, 0)).tolist() == [[], [], []] and mx.array(1.5).tolist() == 1.5
    )


def test_container_protocol():
    a = mx.array([[1, 2], [3, 4]])
    assert len(a) == 2 and 3 in a and 7 not in a and "x" not in a
    with pytest.raises(TypeError):
        len(mx.array(1))
    with pytest.raises(TypeError):
        del a[0]


def test_arrays_hash_by_identity():
    a, b = mx.array([1]), mx.array([1])
    assert {a: 1, b: 2}[a] == 1 and hash(a) == hash(a)


def test_format_applies_to_one_element():
    assert f"{mx.array(1.5):.3f}" == "1.500" and f"{mx.array([1, 2])}" == "array([1, 2], dtype=int32)"
    with pytest.raises(TypeError):
        f"{mx.array([1, 2]):.2f}"


def test_copies_are_independent():
    for make in (copy.copy, copy.deepcopy, mx.array):
        a = mx.array([1, 2])
        b = make(a)
        b[0] = 9
        assert a.tolist() == [1, 2] and b.tolist() == [9, 2]
    assert bytes(mx.array([1, 2], dtype=mx.uint16)) == b"\1\0\2\0"


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64", "complex128"]
)
def test_pickling_keeps_everything(dtype):
    for a in (
        mx.array([[0, 1, 3]]).astype(dtype),
        mx.zeros((0, 2)).astype(dtype),
        mx.array(1).astype(dtype),
        mx.arange(6).reshape(2, 3).T.astype(dtype),
    ):
        b = pickle.loads(pickle.dumps(a))
        assert b.dtype == a.dtype and b.shape == a.shape and b.tolist() == a.tolist()
    for constant in (mx.float32, mx.bool_, mx.cpu, mx.Device(mx.cpu), mx.floating):
        assert pickle.loads(pickle.dumps(constant)) == constant


def test_a_forged_pickle_is_refused():
    for state in (
        (b"", "int32", (3,)),
        (b"\0" * 4, "int32", (2**62, 2**62)),
        (b"\0" * 4, "int32", (-1,)),
        (b"", "int99", (0,)),
        (b"", "int32", (0,) * 40),
    ):
        with pytest.raises((ValueError, TypeError)):
            mx.array(1).__setstate__(state)


def test_objects_made_by_new_alone_are_usable():
    a = mx.array.__new__(mx.array)
    assert a.shape == () and repr(a) and (a + 1).item() == 1
    with pytest.raises(TypeError):
        type("Sub", (mx.array,), {})


# ---- printing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: mx.array(1.5), "array(1.5, dtype=float32)"),
        (lambda: mx.array([1.5, 2, 1e10, 1e-5]), "array([1.5, 2, 1e+10, 1e-05], dtype=float32)"),
        (lambda: mx.array([True, False]), "array([True, False], dtype=bool)"),
        (lambda: mx.array([1 + 2j, -0.5j]), "array([1+2j, -0-0.5j], dtype=complex64)"),
        (lambda: mx.arange(2000), "array([0, 1, 2, ..., 1997, 1998, 1999], dtype=int32)"),
        (lambda: mx.zeros((2, 0)), "array([[],\n       []], dtype=float32)"),
        (lambda: mx.array([[1, 2], [3, 4]]), "array([[1, 2],\n       [3, 4]], dtype=int32)"),
        (lambda: mx.array([math.nan, math.inf, -math.inf, -0.0]), "array([nan, inf, -inf, -0], dtype=float32)"),
        (lambda: mx.zeros((1, 2, 2)), "array([[[0, 0],\n        [0, 0]]], dtype=float32)"),
        (lambda: mx.array([0.1], mx.bfloat16), "array([0.100098], dtype=bfloat16)"),
    ],
)
def test_repr(make, text):
    assert repr(make()) == text and str(make()) == text


def test_long_axes_are_elided_on_every_level():
    lines = repr(mx.ones((10, 10), mx.int32)).splitlines()
    assert len(lines) == 7 and lines[0] == "array([[1, 1, 1, ..., 1, 1, 1]," and lines[3] == "       ...,"


def test_print_options():
    a = mx.array([0.1, 0.12345678, 1e10])
    with mx.printoptions(precision=3):
        assert repr(a) == "array([0.100, 0.123, 10000000000.000], dtype=float32)"
    assert repr(mx.array([0.5])) == "array([0.5], dtype=float32)"
    mx.set_printoptions(precision=1)
    try:
        assert repr(mx.array([0.25])) == "array([0.2], dtype=float32)" and mx.get_printoptions().precision == 1
    finally:
        mx.set_printoptions()
