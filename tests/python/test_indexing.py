"""Indexing follows NumPy: reads, writes, masks, mixtures, errors. NumPy is the oracle."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlxc as mx

BASE = np.arange(4 * 5 * 3, dtype=np.float32).reshape(4, 5, 3)


def to_mx(key):
    """The same key with NumPy arrays as mlxc arrays."""
    if isinstance(key, tuple):
        return tuple(to_mx(k) for k in key)
    return mx.array(key) if isinstance(key, np.ndarray) else key


BASIC_KEYS = [
    np.s_[0],
    np.s_[-1],
    np.s_[:],
    np.s_[...],
    np.s_[None],
    np.s_[1:3],
    np.s_[::-1],
    np.s_[3:0:-2],
    np.s_[10:],
    np.s_[:-10],
    np.s_[1, 2],
    np.s_[1, 2, 0],
    np.s_[..., 0],
    np.s_[0, ...],
    np.s_[:, None, 1],
    np.s_[1:1],
    np.s_[::2, ::-2, 1],
    np.s_[None, ..., None],
    np.s_[-4],
    np.s_[:, -5:5:2],
    np.s_[()],
    np.s_[2, :, None, 1:],
    np.s_[..., -1:0:-1],
]
ROWS, COLUMNS, DEPTHS = np.array([0, 3, 1]), np.array([4, 0, 0]), np.array([2, 1, 2])
ADVANCED_KEYS = [
    ROWS,
    (ROWS, COLUMNS),
    (ROWS, COLUMNS, DEPTHS),
    (slice(None), COLUMNS),
    (Ellipsis, DEPTHS),
    (ROWS, slice(None), DEPTHS),
    (0, COLUMNS),
    (0, slice(None), DEPTHS),
    (ROWS, 1),
    (ROWS[:, None], COLUMNS),
    (slice(1, 3), COLUMNS),
    (slice(None, None, -1), COLUMNS),
    (ROWS, None, DEPTHS),
    (None, ROWS),
    (ROWS, Ellipsis),
    (ROWS, Ellipsis, DEPTHS),
    (slice(None), ROWS, DEPTHS),
    (slice(None), 1, DEPTHS),
    (slice(None), COLUMNS, 1),
    (slice(3, None, -2), COLUMNS, slice(0, 2)),
    np.array([], np.int32),
    np.array([[0, 1], [2, 3]]),
    (slice(None), np.array([[0, 1], [2, 3]])),
    np.array(2),
    (np.array(1), slice(None), DEPTHS[:2]),
    (ROWS - 4,),
    (slice(None), None, COLUMNS),
    (ROWS, slice(None), None, DEPTHS),
    (None, slice(None), COLUMNS, None),
]
MASK3 = BASE % 3 == 0
MASK_ROW = np.array([True, False, True, True])
MASK_KEYS = [
    MASK3,
    MASK_ROW,
    (MASK_ROW,),
    MASK3[:, :, 0],
    (slice(None), np.array([True, False, True, False, True])),
    (MASK_ROW, 0),
    (MASK_ROW, slice(None), ROWS[:3] % 3),
    (Ellipsis, np.array([False, True, True])),
    np.zeros(4, bool),
    np.zeros((4, 5, 3), bool),
    (MASK_ROW, None),
    True,
    False,
    (True, ROWS),
    (0, True),
    (False, 1),
]


@pytest.mark.parametrize("key", BASIC_KEYS + ADVANCED_KEYS + MASK_KEYS, ids=str)
def test_reads_equal_numpy(key):
    want = BASE[key]
    got = mx.array(BASE)[to_mx(key)]
    assert got.shape == want.shape
    assert np.array_equal(np.array(got), want)


@pytest.mark.parametrize("key", BASIC_KEYS + ADVANCED_KEYS + MASK_KEYS, ids=str)
def test_reads_take_numpy_indices_as_they_are(key):
    got = mx.array(BASE)[key]
    assert np.array_equal(np.array(got), BASE[key]) and got.shape == BASE[key].shape


@pytest.mark.parametrize("key", BASIC_KEYS + ADVANCED_KEYS + MASK_KEYS, ids=str)
def test_writing_a_number_equals_numpy(key):
    want = BASE.copy()
    want[key] = -7.5
    got = mx.array(BASE)
    got[to_mx(key)] = -7.5
    assert np.array_equal(np.array(got), want)


@pytest.mark.parametrize("key", BASIC_KEYS + ADVANCED_KEYS + MASK_KEYS, ids=str)
def test_writing_an_array_of_the_indexed_shape_equals_numpy(key):
    value = -1 - np.arange(BASE[key].size, dtype=np.float32).reshape(BASE[key].shape)
    want = BASE.copy()
    want[key] = value
    got = mx.array(BASE)
    got[to_mx(key)] = mx.array(value)
    assert np.array_equal(np.array(got), want)


@pytest.mark.parametrize("key", BASIC_KEYS + ADVANCED_KEYS + MASK_KEYS, ids=str)
def test_writing_broadcasts_the_last_axis(key):
    shape = BASE[key].shape[-1:]
    value = -1 - np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    want = BASE.copy()
    want[key] = value
    got = mx.array(BASE)
    got[to_mx(key)] = mx.array(value)
    assert np.array_equal(np.array(got), want)


def test_leading_axes_of_size_one_of_a_value_are_dropped():
    a = mx.zeros((3,))
    a[1:] = mx.array([[[1.0, 2.0]]])
    assert a.tolist() == [0, 1, 2]


@st.composite
def keys(draw, shape):
    """Any mixture of ints, slices, None, an ellipsis and index arrays of one length."""
    axes = draw(st.integers(0, len(shape)))
    items = []
    for n in shape[:axes]:
        kind = draw(st.sampled_from(["int", "slice", "slice", "array"]))
        if kind == "int":
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            edge = st.none() | st.integers(-n - 2, n + 2)
            items.append(slice(draw(edge), draw(edge), draw(st.none() | st.sampled_from([1, 2, 3, -1, -2]))))
        else:
            items.append(np.array(draw(st.lists(st.integers(-n, n - 1), min_size=3, max_size=3))))
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    return tuple(items)


def fits_after_ellipsis(key, shape):
    """Whether ints and arrays behind an ellipsis are in range for the axes they then index."""
    try:
        np.zeros(shape)[key]
    except IndexError:
        return False
    return True


@settings(max_examples=400, deadline=None)
@given(keys((4, 3, 5, 2)))
def test_any_mixture_reads_as_numpy(key):
    base = np.arange(120).reshape(4, 3, 5, 2)
    if not fits_after_ellipsis(key, base.shape):
        return
    want = base[key]
    got = mx.array(base)[to_mx(key)]
    assert got.shape == want.shape and np.array_equal(np.array(got), want)


@settings(max_examples=300, deadline=None)
@given(keys((4, 3, 5, 2)))
def test_any_mixture_writes_as_numpy(key):
    base = np.arange(120).reshape(4, 3, 5, 2)
    if not fits_after_ellipsis(key, base.shape):
        return
    value = -1 - np.arange(base[key].size).reshape(base[key].shape)
    want = base.copy()
    want[key] = value
    got = mx.array(base)
    got[to_mx(key)] = mx.array(value)
    # Where an element is written twice NumPy's last write wins, and so does ours.
    assert np.array_equal(np.array(got), want)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_index_arrays_may_have_any_integer_dtype(dtype):
    assert mx.array(BASE)[mx.array([3, 0, 1], dtype=dtype)].tolist() == BASE[[3, 0, 1]].tolist()


def test_lists_and_numpy_scalars_are_indices():
    a = mx.array(BASE)
    assert np.array_equal(np.array(a[[0, 2]]), BASE[[0, 2]])
    assert np.array_equal(np.array(a[[[0, 2]], [1, 1]]), BASE[[[0, 2]], [1, 1]])
    assert np.array_equal(np.array(a[np.int64(2), np.uint8(1)]), BASE[2, 1])
    assert np.array_equal(np.array(a[[]]), BASE[[]])
    assert np.array_equal(np.array(a[[True, False, True, False]]), BASE[[True, False, True, False]])
    assert np.array_equal(np.array(a[mx.array(1) : mx.array(3)]), BASE[1:3])


@pytest.mark.parametrize(
    "key",
    [
        4,
        -5,
        (0, 5),
        (0, 0, 3),
        (slice(None), -6),
        (ROWS, 5),
        np.array([4]),
        np.array([0, -5]),
        (slice(None), np.array([9])),
        (0, 0, 0, 0),
        (Ellipsis, Ellipsis),
        np.zeros(3, bool),
        np.zeros((4, 4), bool),
        1.0,
        "a",
        b"a",
        np.array([0.5]),
        (ROWS, np.array([0, 1])),
        1j,
        object(),
        (slice(None), 2**70),
    ],
    ids=str,
)
def test_wrong_indices_are_index_errors_for_reads_and_writes(key):
    with pytest.raises(IndexError):
        mx.eval(mx.array(BASE)[to_mx(key)])
    with pytest.raises(IndexError):
        a = mx.array(BASE)
        a[to_mx(key)] = 1.0
        mx.eval(a)


def test_step_zero_is_a_value_error():
    with pytest.raises(ValueError):
        mx.array(BASE)[::0]
    with pytest.raises(ValueError):
        mx.array(BASE)[:, 1:3:0]
    with pytest.raises(ValueError):
        mx.array(BASE)[::0] = 1


def test_values_that_do_not_fit_the_indexed_shape_are_value_errors():
    a = mx.array(BASE)
    for key, shape in [
        (np.s_[0:2], (3, 5, 3)),
        (np.s_[0], (4,)),
        (ROWS, (2, 5, 3)),
        (MASK_ROW, (2, 5, 3)),
        (np.s_[0, 0, 0], (2,)),
    ]:
        with pytest.raises(ValueError):
            a[to_mx(key)] = mx.zeros(shape)
    assert np.array_equal(np.array(a), BASE)


def test_zero_dimensional_arrays_take_only_empty_keys():
    a = mx.array(3.0)
    assert a[()].item() == 3.0 and a[...].item() == 3.0 and a[None].shape == (1,)
    for key in (0, slice(None), mx.array([0])):
        with pytest.raises(IndexError):
            a[key]
    a[()] = 4
    assert a.item() == 4.0


def test_mask_assignment_does_not_evaluate_for_numbers_and_rows():
    a = mx.array(BASE) * 1
    a[a > 10] = 0
    want = BASE.copy()
    want[want > 10] = 0
    assert np.array_equal(np.array(a), want)
    a[mx.array(MASK3[:, :, 0])] = mx.array([7.0, 8.0, 9.0])
    want[MASK3[:, :, 0]] = [7, 8, 9]
    assert np.array_equal(np.array(a), want)


def test_writes_rebind_the_object_and_leave_earlier_results_alone():
    a = mx.array([1, 2, 3])
    same, part, doubled = a, a[1:], a * 2
    a[0] = 9
    assert same is a and same.tolist() == [9, 2, 3]
    part[0] = 7
    assert a.tolist() == [9, 2, 3] and doubled.tolist() == [2, 4, 6]


def test_writes_cast_to_the_dtype_of_the_array():
    a = mx.array([1, 2, 3])
    a[0] = 2.7
    a[1] = mx.array(3.9)
    assert a.tolist() == [2, 3, 3] and a.dtype == mx.int32
    with pytest.raises(ValueError):
        mx.zeros(2, mx.int8)[0] = 300
    with pytest.raises(TypeError):
        mx.zeros(2)[0] = 1j


def test_the_last_of_duplicate_writes_wins():
    a = mx.zeros(3)
    a[mx.array([0, 0, 1, 0])] = mx.array([1.0, 2.0, 3.0, 4.0])
    assert a.tolist() == [4, 3, 0]


AT_CASES = [
    ("add", np.add.at),
    ("subtract", np.subtract.at),
    ("multiply", np.multiply.at),
    ("divide", np.divide.at),
    ("maximum", np.maximum.at),
    ("minimum", np.minimum.at),
]


@pytest.mark.parametrize(("name", "ufunc_at"), AT_CASES, ids=[c[0] for c in AT_CASES])
@pytest.mark.parametrize(
    "key",
    [
        np.s_[1],
        np.s_[1:3],
        np.s_[::-1, 1],
        ROWS,
        np.array([0, 0, 2]),
        (ROWS, COLUMNS),
        (slice(None), np.array([1, 1])),
        MASK3,
        MASK_ROW,
        np.s_[..., 0],
    ],
    ids=str,
)
def test_at_combines_duplicates_and_returns_a_new_array(name, ufunc_at, key):
    base = BASE + 1
    value = 2 + np.arange(base[key].size, dtype=np.float32).reshape(base[key].shape) % 3
    want = base.copy()
    ufunc_at(want, key, value)
    a = mx.array(base)
    got = getattr(a.at[to_mx(key)], name)(mx.array(value))
    assert np.allclose(np.array(got), want, rtol=1e-6)
    assert np.array_equal(np.array(a), base)


def test_at_takes_numbers_and_keeps_the_dtype():
    a = mx.array([1, 2, 3], dtype=mx.int16)
    got = a.at[mx.array([0, 0, 1])].add(5)
    assert got.tolist() == [11, 7, 3] and got.dtype == mx.int16
    assert mx.array([4.0, 9.0]).at[0].divide(2).tolist() == [2.0, 9.0]


def test_at_without_an_index_is_an_error():
    with pytest.raises(ValueError):
        mx.array([1, 2]).at.add(1)


def test_iteration_goes_over_the_first_axis():
    assert [row.tolist() for row in mx.array([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    assert [x.item() for x in mx.arange(3)] == [0, 1, 2]
    with pytest.raises(TypeError):
        iter(mx.array(1))


def test_slices_of_every_start_stop_and_step():
    x = np.arange(7)
    m = mx.array(x)
    edges = [None, -9, -7, -1, 0, 3, 6, 7, 20]
    for start, stop, step in itertools.product(edges, edges, [None, 1, 2, -1, -3, 10]):
        assert m[start:stop:step].tolist() == x[start:stop:step].tolist()


def test_gradients_flow_through_reads_and_writes():
    x = mx.array([1.0, 2.0, 3.0])

    def write(v):
        y = v * 1
        y[mx.array([0, 2])] = mx.array([5.0, 6.0])
        return (y * y).sum()

    assert mx.grad(write)(x).tolist() == [0, 4, 0]
    assert mx.grad(lambda v: v[mx.array([0, 0, 2])].sum())(x).tolist() == [2, 0, 1]
    assert mx.grad(lambda v: (v[::-1] * mx.array([1.0, 10.0, 100.0])).sum())(x).tolist() == [100, 10, 1]
    assert mx.grad(lambda v: x.at[mx.array([1, 1])].add(v[:2]).sum())(x).tolist() == [1, 1, 0]


def test_reading_with_a_traced_mask_is_refused():
    with pytest.raises(ValueError):
        mx.grad(lambda v: v[v > 1].sum())(mx.array([1.0, 2.0]))
