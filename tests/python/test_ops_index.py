"""take, take_along_axis, put_along_axis and slices with starts in arrays."""

from __future__ import annotations

import numpy as np
import pytest
from compare import assert_same, raises_both

import mlxc as mx

A = np.arange(24).reshape(2, 3, 4).astype(np.float32)
M = np.arange(12).reshape(3, 4)


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("indices", [1, [0], [1, 0, -1], [[0, 1], [-2, 1]], []])
def test_take_is_numpys(axis, indices):
    i = np.array(indices, np.int32)
    assert_same(mx.take(mx.array(A), mx.array(i), axis), np.take(A, i, axis))
    if indices == 1:
        assert_same(mx.take(mx.array(A), 1, axis), np.take(A, 1, axis))


@pytest.mark.parametrize("dtype", [mx.uint8, mx.int64, mx.uint64])
def test_any_integers_are_indices(dtype):
    assert mx.take(mx.array([10, 20, 30]), mx.array([2, 0], dtype)).tolist() == [30, 10]


def test_take_along_axis_is_numpys():
    order = np.argsort(-A, axis=1)
    assert_same(mx.take_along_axis(mx.array(A), mx.array(order), 1), np.take_along_axis(A, order, 1))
    assert_same(mx.take_along_axis(mx.array(M), mx.array([[1]]), 1), M[:, 1:2])
    assert_same(mx.take_along_axis(mx.array(M[:1]), mx.array([[0], [1]]), 1), M[0, :2, None])
    assert_same(mx.take_along_axis(mx.array(M), mx.array([5, -1]), None), M.reshape(-1)[[5, -1]])


def test_put_along_axis_writes():
    assert mx.put_along_axis(mx.arange(4), mx.array([1, 2]), 9, axis=0).tolist() == [0, 9, 9, 3]
    want = M.copy()
    np.put_along_axis(want, np.array([[0], [1], [2]]), np.array([[7], [8], [9]]), 1)
    assert_same(mx.put_along_axis(mx.array(M), mx.array([[0], [1], [2]]), mx.array([[7], [8], [9]]), 1), want)
    assert_same(mx.put_along_axis(mx.array(M), mx.array([[1]]), mx.array([[99]]), 1)[:, 1], np.full(3, 99))
    flat = mx.put_along_axis(mx.array(M), mx.array([[1], [2]]), mx.array([9, 8]))
    assert flat.shape == (3, 4) and flat.reshape(-1).tolist()[:4] == [0, 9, 8, 3]
    assert mx.put_along_axis(mx.arange(3), mx.array([0]), 1.9, axis=0).dtype == mx.int32


def test_gradients_of_indexing_add_up():
    w = mx.ones((1, 3))
    assert mx.grad(lambda t: mx.take_along_axis(t, mx.array([[0, 0, 2]]), 1).sum())(w).tolist() == [[2, 0, 1]]
    assert mx.grad(lambda t: mx.take(t, mx.array([0, 0, 1])).sum())(mx.ones((3,))).tolist() == [2, 1, 0]
    new = mx.grad(
        lambda v: (mx.put_along_axis(mx.zeros((3,)), mx.array([2, 0]), v, 0) * mx.array([1.0, 2.0, 3.0])).sum()
    )
    assert new(mx.ones((2,))).tolist() == [3.0, 1.0]


def test_slice_and_slice_update_keep_windows_inside():
    a = mx.array(M)
    assert mx.slice(a, mx.array([1, 2]), (0, 1), (2, 2)).tolist() == [[6, 7], [10, 11]]
    assert mx.slice(a, mx.array([2]), (0,), (2, 2)).tolist() == [[4, 5], [8, 9]]
    assert mx.slice(a, mx.array(-5), 0, (1, 4)).tolist() == [[0, 1, 2, 3]]
    assert mx.slice(a, mx.array([1, 0], mx.uint32), (1, 0), (3, 2)).tolist() == [[1, 2], [5, 6], [9, 10]]
    updated = mx.slice_update(mx.zeros((3, 4)), mx.ones((1, 2)), mx.array([1, 9]), (0, 1))
    assert updated.tolist() == [[0] * 4, [0, 0, 1, 1], [0] * 4]
    assert mx.slice_update(mx.zeros((2, 3)), mx.ones((2,)), mx.array([1]), (0,)).tolist() == [[0, 0, 0], [1, 1, 0]]
    grad = mx.grad(lambda t: (mx.slice(t, mx.array([1]), (0,), (2,)) ** 2).sum())(mx.array([1.0, 2.0, 3.0]))
    assert grad.tolist() == [0.0, 4.0, 6.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.take_along_axis(mx.array(M), mx.array([1]), 1),
        lambda: mx.take_along_axis(mx.array(M), mx.array([[1], [2]]), 1),
        lambda: mx.put_along_axis(mx.array(M[:1]), mx.array([[1], [2]]), 0, 1),
        lambda: mx.slice(mx.array(M), mx.array([0]), (0,), (4, 4)),
        lambda: mx.slice(mx.array(M), mx.array([0]), (0,), (2,)),
        lambda: mx.slice(mx.array(M), mx.array([0, 1]), (0,), (2, 2)),
        lambda: mx.slice(mx.array(M), mx.array([0, 1]), (0, 0), (2, 2)),
        lambda: mx.slice_update(mx.array(M), mx.ones((5, 4)), mx.array([0]), (0,)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(call):
    with pytest.raises(ValueError, match=r".{15}"):
        mx.eval(call())


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.take(mx.array(M), mx.array([1.0])),
        lambda: mx.take_along_axis(mx.array(M), mx.array([[1.0]]), 1),
        lambda: mx.put_along_axis(mx.ones(3), mx.array([1.0]), 5.0, 0),
        lambda: mx.slice(mx.array(M), mx.array([0.0]), (0,), (2, 2)),
    ],
)
def test_indices_that_are_no_integers_are_refused(call):
    with pytest.raises(TypeError, match="integer"):
        mx.eval(call())


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.take(mx.arange(3), mx.array([3])),
        lambda: mx.take(mx.arange(3), mx.array([-4])),
        lambda: mx.take(mx.array(M), mx.array([4]), 1),
        lambda: mx.take_along_axis(mx.array(M), mx.array([[4]]), 1),
        lambda: mx.put_along_axis(mx.arange(3), mx.array([-4]), 1, 0),
    ],
)
def test_an_index_out_of_range_raises_when_evaluated(call):
    with pytest.raises(IndexError):
        mx.eval(call())
    assert mx.take(mx.arange(3), mx.array([2])).item() == 2


@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_out_of_range_is_an_axis_error(axis):
    raises_both(lambda: mx.take(mx.array(M), 0, axis))
    raises_both(lambda: mx.take_along_axis(mx.array(M), mx.array([[0]]), axis))
    raises_both(lambda: mx.put_along_axis(mx.array(M), mx.array([[0]]), 1, axis))
