"""Reductions, scans and sorts against NumPy over many axes, and the corners where values are special."""

from __future__ import annotations

import numpy as np
import pytest
from compare import assert_same, raises_both

import mlxc as mx

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 4, 5)).astype(np.float32)
WHOLE = RNG.integers(-3, 4, (3, 4, 5)).astype(np.int32)
AXES = [None, 0, -1, (0, 2), (), (2, 0, 1)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean", "all", "any", "var", "std", "count_nonzero"])
def test_reductions_are_numpys(name, axis, keepdims):
    a = WHOLE if name in ("all", "any", "count_nonzero") else A
    if axis == () and name == "count_nonzero":
        pytest.skip("NumPy takes () for all axes there")
    want = getattr(np, name)(a, axis=axis, keepdims=keepdims)
    assert_same(getattr(mx, name)(mx.array(a), axis=axis, keepdims=keepdims), want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (2, 0, 1)])
def test_median_and_logsumexp(axis, keepdims):
    from scipy import special

    want = special.logsumexp(A.astype(np.float64), axis=axis, keepdims=keepdims)
    assert_same(mx.logsumexp(mx.array(A), axis=axis, keepdims=keepdims), want)
    assert_same(mx.median(mx.array(A), axis=axis, keepdims=keepdims), np.median(A, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_argreductions_are_numpys(name, axis, keepdims):
    got = getattr(mx, name)(mx.array(WHOLE), axis=axis, keepdims=keepdims)
    assert got.dtype == mx.uint32
    assert_same(got, getattr(np, name)(WHOLE, axis=axis, keepdims=keepdims))


def test_dtypes_of_reductions():
    for dtype, summed in ((mx.int8, mx.int32), (mx.uint16, mx.uint32), (mx.bool_, mx.int32), (mx.int64, mx.int64)):
        assert mx.sum(mx.ones((2,), dtype)).dtype == summed
        assert mx.mean(mx.ones((2,), dtype)).dtype == mx.float32
        assert mx.var(mx.ones((2,), dtype)).dtype == mx.float32
        assert mx.median(mx.ones((2,), dtype)).dtype == mx.float32
    for dtype in (mx.float16, mx.bfloat16, mx.float64):
        for name in ("sum", "mean", "var", "std", "median", "max", "logsumexp"):
            assert getattr(mx, name)(mx.ones((2,), dtype)).dtype == dtype
    assert mx.var(mx.array([1j, 2])).dtype == mx.float32
    assert mx.count_nonzero(mx.array([1.0])).dtype == mx.int32
    assert mx.trace(mx.ones((2, 2), mx.int8)).dtype == mx.int32
    assert mx.trace(mx.ones((2, 2), mx.int8), dtype=mx.float32).dtype == mx.float32


def test_spread_corners():
    assert mx.var(mx.array([1.0, 3.0]), ddof=1).item() == 2.0
    assert mx.var(mx.array([1.0, 3.0]), correction=1).item() == 2.0
    assert mx.var(mx.array([1.0, 2.0]), ddof=2).item() == mx.inf
    assert np.isnan(mx.var(mx.array([1.0]), ddof=1).item())
    assert mx.var(mx.array([1 + 1j, 3 - 1j])).item() == pytest.approx(2.0)
    # Far from zero, and in half precision where squares overflow.
    far = (RNG.standard_normal(5000) + 1e4).astype(np.float32)
    assert mx.var(mx.array(far)).item() == pytest.approx(far.astype(np.float64).var(), rel=2e-3)
    assert mx.std(mx.array([-600.0, 600.0], mx.float16)).item() == 600.0
    assert mx.std(mx.array([np.nan, 1.0])).item() != mx.std(mx.array([1.0, 1.0])).item() == 0.0


def test_nan_and_emptiness():
    a = mx.array([1.0, mx.nan, 3.0])
    for name in ("max", "min", "median", "sum", "mean", "std"):
        assert np.isnan(getattr(mx, name)(a).item()), name
    assert mx.argmax(a).item() == mx.argmin(a).item() == 1
    assert (mx.sum(mx.zeros((0,))).item(), mx.prod(mx.zeros((0,))).item()) == (0.0, 1.0)
    assert (mx.all(mx.zeros((0,))).item(), mx.any(mx.zeros((0,))).item()) == (True, False)
    for name in ("max", "min", "argmax", "median"):
        with pytest.raises(ValueError, match=r".{10}"):
            mx.eval(getattr(mx, name)(mx.zeros((0,))))


def test_minmax_gives_both():
    low, high = mx.minmax(mx.array(A), axis=1, keepdims=True)
    assert_same(low, A.min(1, keepdims=True))
    assert_same(high, A.max(1, keepdims=True))


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
def test_softmax_adds_up_to_one(axis):
    e = np.exp(A - A.max(axis, keepdims=True))
    assert_same(mx.softmax(mx.array(A), axis=axis), e / e.sum(axis, keepdims=True))
    half = mx.softmax(mx.array(A).astype(mx.float16), axis=axis, precise=True)
    assert half.dtype == mx.float16
    assert_same(half, e / e.sum(axis, keepdims=True), rtol=2e-3, atol=1e-3)


SCANS = {"cumsum": np.cumsum, "cumprod": np.cumprod, "cummax": np.maximum.accumulate, "cummin": np.minimum.accumulate,
         "logcumsumexp": np.logaddexp.accumulate}  # fmt: skip


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("name", sorted(SCANS))
def test_scans_are_numpys(name, axis):
    run = lambda a: SCANS[name](a.astype(np.float64), axis=axis)  # noqa: E731
    call = getattr(mx, name)
    assert_same(call(mx.array(A), axis=axis), run(A))
    assert_same(call(mx.array(A), axis=axis, reverse=True), np.flip(run(np.flip(A, axis)), axis))
    shifted = np.take(run(A), range(A.shape[axis] - 1), axis)
    exclusive = call(mx.array(A), axis=axis, inclusive=False)
    assert_same(mx.split(exclusive, [1], axis)[1], shifted)
    backwards = call(mx.array(A), axis=axis, reverse=True, inclusive=False)
    assert_same(
        mx.split(backwards, [-1], axis)[0],
        np.flip(np.take(run(np.flip(A, axis)), range(A.shape[axis] - 1), axis), axis),
    )


def test_scans_without_an_axis_and_with_a_dtype():
    assert_same(mx.cumsum(mx.array(WHOLE)), np.cumsum(WHOLE))
    assert mx.cumsum(mx.array([1, 2], mx.int8), dtype=mx.float32).dtype == mx.float32
    assert mx.cumulative_sum is mx.cumsum and mx.cumulative_prod is mx.cumprod
    assert mx.cumsum(mx.array([True, True])).tolist() == [1, 2]
    assert mx.logcumsumexp(mx.array([1000.0, 1000.0, -1e30])).tolist() == pytest.approx([1000.0, 1000.6931, 1000.6931])
    assert mx.logcumsumexp(mx.zeros((0,))).shape == (0,)
    x = mx.array([1.0, 2.0, 3.0, 4.0, 5.0])
    grad = mx.grad(lambda t: mx.logcumsumexp(t)[4])(x)
    assert_same(grad, np.array(mx.softmax(x)))


@pytest.mark.parametrize("n", [0, 1, 2, 7])
@pytest.mark.parametrize("axis", [0, -1])
def test_diff_is_numpys(n, axis):
    assert_same(mx.diff(mx.array(A), n, axis), np.diff(A, n, axis))
    b = np.array([[True, False, False]])
    assert_same(mx.diff(mx.array(b)), np.diff(b))
    with pytest.raises(ValueError):
        mx.diff(mx.array(A), -1)


S = np.array([3.0, np.nan, 1.0, 2.0, 1.0, -np.inf, np.inf, 0.5], np.float32)


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_sorts_are_numpys(axis):
    assert_same(mx.sort(mx.array(WHOLE), axis), np.sort(WHOLE, axis))
    assert_same(mx.argsort(mx.array(WHOLE), axis), np.argsort(WHOLE, axis, kind="stable"))
    assert_same(mx.sort(mx.array(S)), np.sort(S))
    assert mx.partition(mx.array(WHOLE), 1, axis).shape == np.sort(WHOLE, axis).shape
    order = mx.argpartition(mx.array(A), 2, -1)
    assert_same(mx.take_along_axis(mx.array(A), order, -1)[..., 2], np.sort(A, -1)[..., 2])


@pytest.mark.parametrize("kth", [0, 1, 499, 998, -1])
@pytest.mark.parametrize("values", ["normal", "few", "equal", "NaN"])
def test_partition_puts_the_kth_where_sorting_would(values, kth):
    rng = np.random.default_rng(3)
    a = rng.standard_normal((2, 999)).astype(np.float32)
    if values == "few":
        a = np.rint(a)
    elif values == "equal":
        a[:] = 1
    elif values == "NaN":
        a[rng.random(a.shape) < 0.3] = np.nan
    places = np.array(mx.argpartition(mx.array(a), kth, -1))
    parted = np.array(mx.partition(mx.array(a), kth, -1))
    np.testing.assert_array_equal(parted, np.take_along_axis(a, places, -1))
    np.testing.assert_array_equal(np.sort(places), np.tile(np.arange(999), (2, 1)))
    ordered = np.sort(a, -1)
    k = kth % 999
    np.testing.assert_array_equal(parted[:, k], ordered[:, k])
    np.testing.assert_array_equal(np.sort(parted[:, :k]), ordered[:, :k])
    np.testing.assert_array_equal(np.sort(parted[:, k:]), ordered[:, k:])


def test_gradients_of_topk_and_partition_follow_their_elements():
    a = mx.array([3.0, 1.0, 2.0, 2.0, 5.0])
    weight = mx.array([10.0, 20.0, 30.0])
    g = mx.grad(lambda x: (mx.topk(x, 3) * weight).sum())(a)
    np.testing.assert_array_equal(np.array(g), [20, 0, 0, 10, 30])
    assert np.array(mx.grad(lambda x: mx.partition(x, 2)[2])(a)).sum() == 1
    assert not np.array(mx.grad(lambda x: mx.topk(x, 0).sum())(a)).any()


def test_topk_and_partition():
    assert sorted(mx.topk(mx.array([3, 1, 4, 1, 5]), 2).tolist()) == [4, 5]
    assert mx.topk(mx.array(WHOLE), 2, axis=1).shape == (3, 2, 5)
    assert mx.topk(mx.array(WHOLE), 4, axis=None).shape == (4,)
    assert np.isnan(mx.topk(mx.array(S), 1).item())
    assert mx.partition(mx.array([3, 1, 2]), -1)[2].item() == 3
    for call in (
        lambda: mx.topk(mx.array([1, 2]), 5),
        lambda: mx.topk(mx.array([1, 2]), -1),
        lambda: mx.partition(mx.array([1, 2]), 2),
        lambda: mx.argpartition(mx.array([1, 2]), -3),
    ):
        with pytest.raises(ValueError, match=r".{15}"):
            call()


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_is_numpys(side):
    s = np.array([-np.inf, -1.0, 0.0, 0.0, 2.0, 2.0, 2.0, np.inf, np.nan], np.float32)
    v = np.array([[-5.0, -1.0, 0.0, -0.0, 1.0], [2.0, 3.0, np.inf, -np.inf, np.nan]], np.float32)
    assert_same(mx.searchsorted(mx.array(s), mx.array(v), side=side), np.searchsorted(s, v, side=side))
    assert mx.searchsorted(mx.array(s), mx.array(v), side=side).dtype == mx.uint32
    assert mx.searchsorted(mx.zeros((0,)), mx.array(v)).tolist() == [[0] * 5] * 2
    assert mx.searchsorted(mx.array([1, 2, 3]), 2).item() == 1
    with pytest.raises(ValueError):
        mx.searchsorted(mx.array(s), mx.array(v), side="middle")
    with pytest.raises(ValueError):
        mx.searchsorted(mx.zeros((2, 2)), mx.array(v))


def test_unique_family():
    x = np.array([[3, 1, 1], [2, 3, 3]])
    values, indices, inverse, counts = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    got = mx.unique_all(mx.array(x))
    assert_same(
        [got.values, got.indices, got.inverse_indices, got.counts], [values, indices, inverse.reshape(x.shape), counts]
    )
    assert_same(list(mx.unique_counts(mx.array(x))), [values, counts])
    assert_same(list(mx.unique_inverse(mx.array(x))), [values, inverse.reshape(x.shape)])
    assert mx.unique_values(mx.array([np.nan, 1.0, np.nan])).size == 3
    assert mx.unique_all(mx.zeros((0,))).counts.shape == (0,)
    with pytest.raises(ValueError):
        mx.grad(lambda t: mx.unique_values(t).sum())(mx.array([1.0]))


def test_unique_of_a_given_size():
    a = mx.array([3, 1, 1, 2])
    assert mx.unique(a, 5).tolist() == [1, 2, 3, 1, 1]
    assert mx.unique(a, 2).tolist() == [1, 2]
    assert mx.unique(a, 0).tolist() == []
    values, index, inverse, counts = mx.unique(a, 5, True, True, True, 9)
    assert values.tolist() == [1, 2, 3, 9, 9]
    assert index.tolist() == [1, 3, 0, 1, 1]
    assert inverse.tolist() == [2, 0, 0, 1]
    assert counts.tolist() == [2, 1, 1, 0, 0]


def test_isin():
    a = np.array([[1.0, 2.0], [np.nan, 4.0]], np.float32)
    b = np.array([4.0, 1.0, np.nan, 9.0], np.float32)
    assert_same(mx.isin(mx.array(a), mx.array(b)), np.isin(a, b))
    assert_same(mx.isin(mx.array(a), mx.array(b), invert=True), np.isin(a, b, invert=True))
    assert_same(mx.isin(mx.array(a), mx.zeros((0,))), np.zeros((2, 2), bool))


@pytest.mark.parametrize("name", ["sum", "max", "mean", "argmax", "cumsum", "sort", "var", "median", "logcumsumexp"])
def test_an_axis_out_of_range_is_an_axis_error(name):
    raises_both(lambda: getattr(mx, name)(mx.array(A), axis=3))


@pytest.mark.parametrize("name", ["sum", "max", "mean", "var", "median"])
def test_an_axis_named_twice_is_refused(name):
    with pytest.raises(ValueError, match=r".{10}"):
        getattr(mx, name)(mx.array(A), axis=(0, 0))
