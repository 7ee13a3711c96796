"""Making arrays: from numbers, lists, NumPy arrays, buffers, DLPack; and dtypes as arguments."""

import array as pyarray

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mlxc as mx

NATIVE = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32"]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (True, "bool"),
        (3, "int32"),
        (-(2**31), "int32"),
        (2**31, "int64"),
        (-(2**40), "int64"),
        (2**63, "uint64"),
        (2**64 - 1, "uint64"),
        (1.5, "float32"),
        (2j, "complex64"),
        (np.float64(1.5), "float32"),
        (np.float16(1.5), "float16"),
        (np.int8(3), "int8"),
        (np.int64(3), "int64"),
        (np.bool_(True), "bool"),
        (np.complex128(1j), "complex64"),
    ],
)
def test_numbers_take_the_default_dtype_of_their_kind(value, dtype):
    a = mx.array(value)
    assert a.shape == () and a.dtype == dtype and a.item() == value


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([1, 2], "int32"),
        ([1, 2.5], "float32"),
        ([True, False], "bool"),
        ([True, 2], "int32"),
        ([1, 2j], "complex64"),
        ([1, 2**40], "int64"),
        ([1, 2**63], "uint64"),
        ([], "float32"),
        ((1, 2), "int32"),
        ([1.0, True], "float32"),
        ([np.float64(1), 2], "float32"),
        ([np.int64(1), 2], "int64"),
        ([np.float16(1), 2.5], "float16"),
        ([np.int8(1), 2.5], "float32"),
        ([np.bool_(True), 2], "int32"),
        ([np.int8(1), np.int16(2)], "int16"),
        (range(3), "int32"),
    ],
    ids=str,
)
def test_lists_take_the_dtype_their_items_need(value, dtype):
    a = mx.array(value)
    assert a.dtype == dtype and np.array_equal(np.array(a), np.array(value))


def test_nested_lists_keep_their_shape():
    assert mx.array([[1, 2, 3], [4, 5, 6]]).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert mx.array([[], []]).shape == (2, 0)
    assert mx.array([[[]]]).shape == (1, 1, 0)
    assert mx.array([((1, 2), [3, 4])]).shape == (1, 2, 2)


@pytest.mark.parametrize(
    "value",
    [
        [[1, 2], [3]],
        [1, [2]],
        [[1], 2],
        [[], [1]],
        [[], 1],
        [1, []],
        [[[1], [2]], [[3]]],
        [mx.zeros(2), mx.zeros(3)],
        [mx.zeros(2), 1],
    ],
    ids=str,
)
def test_ragged_lists_are_value_errors(value):
    with pytest.raises(ValueError):
        mx.array(value)


def test_nesting_deeper_than_32_is_a_value_error():
    value = 1
    for _ in range(33):
        value = [value]
    with pytest.raises(ValueError):
        mx.array(value)
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError):
        mx.array(endless)


@pytest.mark.parametrize("value", [None, "abc", object(), [None], ["a"], {1: 2}, [1, None], [[1], ["a"]]], ids=str)
def test_what_is_not_a_number_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        mx.array(value)


@pytest.mark.parametrize("dtype", [*NATIVE, "float64", "bfloat16", "complex64", "complex128"])
def test_an_explicit_dtype_is_obeyed(dtype):
    for value in ([0, 1, 1], [False, True, True], [0.0, 1.0, 1.0]):
        a = mx.array(value, dtype=dtype)
        assert a.dtype == dtype and a.astype(mx.float32).tolist() == [0, 1, 1]
    assert mx.array(1, dtype=dtype).dtype == dtype


def test_explicit_dtypes_keep_all_digits():
    assert mx.array([0.1], dtype=mx.float64).item() == 0.1
    assert mx.array(0.1, dtype=mx.float64).item() == 0.1
    assert mx.array(2**64 - 1, dtype=mx.uint64).item() == 2**64 - 1
    assert mx.array([2**64 - 1, 0], dtype=mx.uint64).tolist() == [2**64 - 1, 0]
    assert mx.array([0.1 + 0.2j], dtype=mx.complex128).item() == 0.1 + 0.2j
    assert mx.array([-(2**63), 2**63 - 1]).tolist() == [-(2**63), 2**63 - 1]


def test_floats_truncate_to_integers():
    assert mx.array([2.7, -2.7], dtype=mx.int32).tolist() == [2, -2]
    assert mx.array(2.7, dtype=mx.int8).item() == 2


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, "uint8"),
        (-1, "uint8"),
        (2**31, "int32"),
        (2**63, "int64"),
        (2**64, "uint64"),
        (-1, "uint64"),
        (float("nan"), "int32"),
        (float("inf"), "int64"),
        (128, "int8"),
        (-129, "int8"),
        (1e10, "int32"),
    ],
)
def test_numbers_that_do_not_fit_are_value_errors(value, dtype):
    with pytest.raises(ValueError):
        mx.array(value, dtype=dtype)
    with pytest.raises(ValueError):
        mx.array([value], dtype=dtype)


def test_integers_beyond_64_bits_are_value_errors():
    for value in (2**64, -(2**63) - 1, [2**64], [2**63, -1]):
        with pytest.raises(ValueError):
            mx.array(value)


def test_complex_numbers_do_not_become_real():
    with pytest.raises(TypeError):
        mx.array(1j, dtype=mx.float32)
    with pytest.raises(TypeError):
        mx.array([1j, 2], dtype=mx.int32)


def test_lists_of_arrays_are_stacked():
    assert mx.array([mx.array([1, 2]), mx.array([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert mx.array([[mx.array(1), 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert mx.array([mx.array(1), 2.5]).dtype == mx.float32
    assert mx.array([mx.array([1.0], mx.float16), mx.array([2], mx.int32)]).dtype == mx.float16
    assert mx.array([np.array([1, 2]), np.array([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert mx.array([mx.zeros((0, 2)), mx.zeros((0, 2))]).shape == (2, 0, 2)


def test_gradients_flow_into_lists_of_arrays():
    f = lambda x: (mx.array([x[0], 2.0, x[1]]) * mx.array([1.0, 10.0, 100.0])).sum()  # noqa: E731
    assert mx.grad(f)(mx.array([1.0, 1.0])).tolist() == [1, 100]


def test_an_array_of_an_array_is_an_independent_copy():
    a = mx.array([1, 2])
    b = mx.array(a)
    b[0] = 9
    assert a.tolist() == [1, 2] and mx.array(a, dtype=mx.float16).dtype == mx.float16


@given(
    hnp.arrays(
        dtype=st.sampled_from([np.dtype(d) for d in NATIVE]), shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0)
    )
)
def test_numpy_arrays_come_in_unchanged(a):
    got = mx.array(a)
    assert got.dtype == a.dtype and got.shape == a.shape
    assert np.array_equal(np.array(got), a, equal_nan=a.dtype.kind == "f")


LAYOUTS = {
    "reversed": np.arange(6)[::-1],
    "every second, backwards": np.arange(6)[::-2],
    "column major": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "transposed": np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
    "mirrored": np.arange(12).reshape(3, 4)[:, ::-1],
    "broadcast": np.broadcast_to(np.arange(3), (2, 3)),
    "empty": np.zeros((0, 3)),
    "0-d": np.array(5),
    "slice": np.arange(60).reshape(3, 4, 5)[1:, ::2, 1:4],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["int64", "float64", "float32", "complex128", "float16", "bool"])
def test_numpy_arrays_of_any_layout_come_in(layout, dtype):
    a = LAYOUTS[layout]
    b = (
        np.lib.stride_tricks.as_strided(a.astype(dtype, order="K"), a.shape)
        if layout == "broadcast"
        else a.astype(dtype)
    )
    if layout in ("reversed", "every second, backwards"):
        b = np.arange(6).astype(dtype)[:: -1 if layout == "reversed" else -2]
    assert np.array_equal(np.array(mx.array(b)), b)


def test_64_bit_floats_are_narrowed_unless_a_dtype_says_otherwise():
    a = np.array([0.1, 1e300, -0.0, np.nan])
    narrow = mx.array(a)
    assert narrow.dtype == mx.float32
    with np.errstate(over="ignore"):
        assert np.array_equal(np.array(narrow), a.astype(np.float32), equal_nan=True)
    assert np.signbit(np.array(narrow)[2])
    assert np.array_equal(np.array(mx.array(a, dtype=mx.float64)), a, equal_nan=True)
    assert mx.array(a + 1j).dtype == mx.complex64
    assert mx.array(np.arange(3)).dtype == mx.int64


def test_byte_swapped_arrays_are_converted():
    for dtype in (">i4", ">f8", ">u2", ">c8"):
        assert np.array_equal(np.array(mx.array(np.arange(3).astype(dtype))), np.arange(3))


@pytest.mark.parametrize(
    "a",
    [np.array(["x"]), np.array([1, None], object), np.array(["2020"], "M8[D]"), np.zeros(2, [("a", "i4")])],
    ids=lambda a: str(a.dtype),
)
def test_numpy_arrays_without_an_mlxc_dtype_are_type_errors(a):
    with pytest.raises(TypeError):
        mx.array(a)


def test_bfloat16_comes_from_ml_dtypes_and_goes_back():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.array([1.5, -2.0, np.inf], ml_dtypes.bfloat16)
    got = mx.array(a)
    assert got.dtype == mx.bfloat16 and got.tolist() == [1.5, -2.0, float("inf")]
    assert np.array(got).dtype == ml_dtypes.bfloat16
    assert mx.array(a[::-1]).tolist() == [float("inf"), -2.0, 1.5]


def test_buffers_of_the_standard_library_come_in():
    assert mx.array(b"abc").tolist() == [97, 98, 99]
    assert mx.array(bytearray(b"ab")).dtype == mx.uint8
    assert mx.array(pyarray.array("d", [1.5, 2.5])).tolist() == [1.5, 2.5]
    assert mx.array(pyarray.array("h", [-1, 2])).dtype == mx.int16
    assert mx.array(memoryview(bytes(range(12))).cast("i", [3])).shape == (3,)
    assert mx.array(memoryview(b"abcd")[::2]).tolist() == [97, 99]


def test_objects_with_mlx_array_come_in():
    class Wrapped:
        def __mlx_array__(self):
            return mx.array([1, 2])

    class Wrong:
        def __mlx_array__(self):
            return 3

    assert mx.array(Wrapped()).tolist() == [1, 2]
    assert (mx.array([1, 1]) + Wrapped()).tolist() == [2, 3]
    assert mx.array(mx.ArrayLike(Wrapped())).tolist() == [1, 2]
    with pytest.raises(TypeError):
        mx.array(Wrong())


# ---- half precision ----------------------------------------------------------------------------


def test_float16_numbers_round_as_numpy_does():
    values = [
        0.1,
        65504.0,
        65519.0,
        65520.0,
        6e-8,
        2.9e-8,
        1e-30,
        -0.0,
        2049.0,
        2051.0,
        float("inf"),
        1 + 2**-11,
        1 + 2**-11 + 2**-30,
    ]
    with np.errstate(over="ignore"):
        want = np.array(values, np.float16)
    got = np.array(mx.array(values, dtype=mx.float16))
    assert got.tobytes() == want.tobytes()
    assert mx.array(want).tolist() == want.tolist()


def test_every_float16_reads_back_as_the_same_number():
    a = np.arange(65536, dtype=np.uint32).astype(np.uint16).view(np.float16)
    assert np.array_equal(np.array(mx.array(a).tolist()), a.astype(np.float64), equal_nan=True)


def test_bfloat16_numbers_round_to_nearest_even():
    assert mx.array([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-40, 3.4e38, 1e-40], dtype=mx.bfloat16).tolist() == [
        1.0,
        1 + 2**-6,
        1 + 2**-7,
        float("inf"),
        pytest.approx(1e-40, rel=0.01),
    ]


# ---- asarray and from_dlpack -------------------------------------------------------------------


def test_asarray_gives_arrays_back_unless_told_to_copy():
    a = mx.array([1, 2])
    assert mx.asarray(a) is a and mx.asarray(a, copy=False) is a
    assert mx.asarray(a, copy=True) is not a
    assert mx.asarray(a, dtype=mx.float32).dtype == mx.float32
    with pytest.raises(ValueError):
        mx.asarray(a, dtype=mx.float32, copy=False)


def test_asarray_copies_memory_that_does_not_lie_at_multiples_of_the_element_size():
    values = np.arange(5, dtype=np.float32)
    raw = np.frombuffer(b"x" + values.tobytes() + b"yz", np.uint8)
    odd = np.frombuffer(raw, np.float32, count=5, offset=1)
    rows = np.frombuffer(b"ab".join(v.tobytes() for v in values), np.dtype([("v", "f4"), ("_", "u2")]), count=4)["v"]
    assert mx.asarray(odd).tolist() == values.tolist() and mx.from_dlpack(odd).tolist() == values.tolist()
    assert mx.asarray(rows).tolist() == values[:4].tolist()
    with pytest.raises(ValueError, match="multiple"):
        mx.asarray(odd, copy=False)


def test_asarray_without_copying_shares_numpy_memory():
    a = np.arange(4, dtype=np.float32)
    shared = mx.asarray(a, copy=False)
    assert np.array(shared, copy=False).ctypes.data == a.ctypes.data
    copied = mx.asarray(a, copy=True)
    a[0] = 9
    assert copied.tolist() == [0, 1, 2, 3] and shared.tolist() == [9, 1, 2, 3]


def test_asarray_shares_backwards_slices_too():
    a = np.arange(6, dtype=np.int32)[::-2]
    assert mx.asarray(a, copy=False).tolist() == [5, 3, 1]


def test_asarray_refuses_what_cannot_be_shared():
    for value in ([1, 2], 3, np.arange(3).astype(">i4")):
        with pytest.raises(ValueError):
            mx.asarray(value, copy=False)
    with pytest.raises(ValueError):
        mx.asarray(np.zeros(2), dtype=mx.int32, copy=False)
    with pytest.raises(TypeError):
        mx.asarray([1], copy="yes")


def test_shared_memory_outlives_its_owner():
    def make():
        return mx.asarray(np.full(1000, 3, np.int32), copy=False)

    a = make()
    junk = [np.zeros(1000, np.int32) for _ in range(50)]
    assert a.tolist() == [3] * 1000 and junk


def test_from_dlpack_keeps_dtype_and_shares():
    a = np.arange(4, dtype=np.float64)
    got = mx.from_dlpack(a)
    assert got.dtype == mx.float64 and got.tolist() == a.tolist()
    assert np.array(got, copy=False).ctypes.data == a.ctypes.data
    assert mx.from_dlpack(a, copy=True).tolist() == a.tolist()
    assert mx.from_dlpack(np.arange(6).reshape(2, 3).T).tolist() == np.arange(6).reshape(2, 3).T.tolist()
    with pytest.raises(TypeError):
        mx.from_dlpack([1, 2])


# ---- dtypes ------------------------------------------------------------------------------------


def test_dtypes_are_accepted_in_every_form():
    for form in (mx.float32, "float32", np.float32, np.dtype("float32"), float):
        assert mx.array([1], dtype=form).dtype == mx.float32
    assert mx.array([1], dtype=int).dtype == mx.int32
    assert mx.array([1], dtype=bool).dtype == mx.bool_
    assert mx.array([1], dtype=complex).dtype == mx.complex64
    for wrong in ("float33", 3, object, list):
        with pytest.raises(TypeError):
            mx.array([1], dtype=wrong)


def test_dtypes_compare_with_names_and_numpy():
    assert mx.float32 == "float32" and mx.float32 == "mlxc.float32" and mx.float32 == np.float32
    assert mx.int8 == np.dtype("int8") and np.dtype("int8") == mx.int8 and mx.bool_ == np.bool_ and mx.bool_ is mx.bool
    assert all(mx.float32 != other for other in ("int32", np.float64, 3, None))
    assert mx.float32 != mx.float16
    assert str(mx.float32) == repr(mx.float32) == "mlxc.float32"
    assert len({mx.float32, mx.float16, mx.float32}) == 2 and mx.float32.size == 4
    assert np.zeros(2, mx.array([1.0]).dtype.name).dtype == np.float32


def test_dtype_hierarchy_and_limits():
    assert mx.issubdtype(mx.float16, mx.floating) and mx.issubdtype(mx.floating, mx.inexact)
    assert not mx.issubdtype(mx.bool_, mx.number) and mx.issubdtype(mx.uint8, mx.unsignedinteger)
    assert mx.issubdtype(mx.int32, mx.int32) and not mx.issubdtype(mx.number, mx.integer)
    for dtype in ("float16", "float32", "float64"):
        ours, numpys = mx.finfo(getattr(mx, dtype)), np.finfo(dtype)
        assert (ours.max, ours.min, ours.eps, ours.smallest_normal, ours.bits) == (
            numpys.max,
            numpys.min,
            numpys.eps,
            numpys.smallest_normal,
            numpys.bits,
        )
    assert mx.finfo(mx.bfloat16).eps == 2**-7 and mx.finfo(mx.complex64).dtype == mx.float32
    for dtype in ("int8", "uint64", "int64"):
        assert (mx.iinfo(dtype).min, mx.iinfo(dtype).max) == (np.iinfo(dtype).min, np.iinfo(dtype).max)
    with pytest.raises(ValueError):
        mx.finfo(mx.int8)
    with pytest.raises(ValueError):
        mx.iinfo(mx.float32)


def test_result_type_and_can_cast():
    assert mx.result_type(mx.int32, mx.float16) == mx.float16
    assert mx.result_type(mx.zeros(2, mx.int8), 3) == mx.int8 and mx.result_type(mx.int8, 2.5) == mx.float32
    assert mx.can_cast(mx.int8, mx.int16) and not mx.can_cast(mx.float32, mx.int32)
    assert mx.isdtype(mx.float32, "real floating") and mx.isdtype(mx.int8, ("bool", "integral"))
    assert not mx.isdtype(mx.bool_, "numeric") and mx.isdtype(mx.int8, mx.int8)
    with pytest.raises(ValueError):
        mx.isdtype(mx.int8, "numbers")


@pytest.mark.parametrize(
    ("value", "want", "dtype"),
    [
        (lambda: [mx.array([1, 2]), [3, 4]], [[1, 2], [3, 4]], mx.int32),
        (lambda: [[1, 2], mx.array([3, 4], mx.int8)], [[1, 2], [3, 4]], mx.int8),
        (lambda: [[1.5, 2], mx.array([3, 4], mx.float16)], [[1.5, 2], [3, 4]], mx.float16),
        (lambda: [[1.5, 2], mx.array([3, 4])], [[1.5, 2], [3, 4]], mx.float32),
        (lambda: ([mx.array([1]), [mx.array(2)]], [[3], [4]]), [[[1], [2]], [[3], [4]]], mx.int32),
        (lambda: [np.array([1, 2]), [3, 4]], [[1, 2], [3, 4]], mx.int64),
    ],
)
def test_lists_of_arrays_and_lists_mix(value, want, dtype):
    a = mx.array(value())
    assert a.tolist() == want and a.dtype == dtype
    assert mx.array(value(), dtype=mx.float32).dtype == mx.float32


@pytest.mark.parametrize("value", [[[1, 2], 3], [mx.array([1, 2]), [3]], [mx.array([1, 2]), 3], [mx.array(1), [2]]])
def test_lists_of_unequal_shapes_are_refused(value):
    with pytest.raises(ValueError, match=r"shape|length"):
        mx.array(value)


def test_lists_that_hold_themselves_beside_arrays_are_refused():
    items = [mx.array([1, 2]), [3, 4]]
    items[1] = items
    with pytest.raises(ValueError, match="deeper"):
        mx.array(items)
    items = [1, []]
    items[1] += [items, items]
    with pytest.raises(ValueError, match="nest"):
        mx.array(items)


def test_gradients_flow_into_arrays_beside_lists():
    assert mx.grad(lambda x: (mx.array([x, [3.0, 4.0]]) ** 2).sum())(mx.array([1.0, 2.0])).tolist() == [2, 4]


def test_numbers_that_do_not_fit_are_refused_by_full_as_by_array():
    for make in (mx.array, lambda v, d: mx.full((2,), v, d)):
        for value, dtype in ((300, mx.uint8), (-1, mx.uint32), (1e10, mx.int8), (mx.nan, mx.int32)):
            with pytest.raises(ValueError, match=dtype.name):
                make(value, dtype)
