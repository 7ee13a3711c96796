"""Shape, joining and cutting functions against NumPy, with the corners where they differ from each other."""

from __future__ import annotations

import numpy as np
import pytest
from compare import assert_same, raises_both

import mlxc as mx

A = np.arange(24).reshape(2, 3, 4)
V = np.arange(6)
M = np.arange(12).reshape(3, 4)

CASES = {
    "reshape": (lambda x, a: x.reshape(a, (4, -1)), A),
    "reshape to 0-d": (lambda x, a: x.reshape(a, ()), np.array([5])),
    "moveaxis": (lambda x, a: x.moveaxis(a, 0, -1), A),
    "moveaxis of several": (lambda x, a: x.moveaxis(a, (0, 1), (2, 0)), A),
    "swapaxes": (lambda x, a: x.swapaxes(a, -1, 0), A),
    "transpose": (lambda x, a: x.transpose(a), A),
    "transpose with axes": (lambda x, a: x.transpose(a, (1, 2, 0)), A),
    "permute_dims": (lambda x, a: x.permute_dims(a, (1, 2, 0)), A),
    "matrix_transpose": (lambda x, a: x.matrix_transpose(a), A),
    "squeeze": (lambda x, a: x.squeeze(a), A[:1, :, :1]),
    "squeeze of one axis": (lambda x, a: x.squeeze(a, -1), A[:1, :, :1]),
    "expand_dims": (lambda x, a: x.expand_dims(a, (0, -1)), A),
    "broadcast_to": (lambda x, a: x.broadcast_to(a, (5, 3, 4)), M),
    "flip": (lambda x, a: x.flip(a), A),
    "flip of axes": (lambda x, a: x.flip(a, (0, -1)), A),
    "flip of nothing": (lambda x, a: x.flip(a), A[:0]),
    "roll": (lambda x, a: x.roll(a, 5), A),
    "roll back": (lambda x, a: x.roll(a, -3, 1), A),
    "roll of axes": (lambda x, a: x.roll(a, (1, 2), (0, 2)), A),
    "roll of axes by one shift": (lambda x, a: x.roll(a, 1, (0, 2)), A),
    "roll of nothing": (lambda x, a: x.roll(a, 1, 0), A[:0]),
    "repeat": (lambda x, a: x.repeat(a, 3), M),
    "repeat along an axis": (lambda x, a: x.repeat(a, 2, axis=0), M),
    "repeat none": (lambda x, a: x.repeat(a, 0, axis=1), M),
    "tile": (lambda x, a: x.tile(a, 3), M),
    "tile with more axes": (lambda x, a: x.tile(a, (2, 1, 3)), M),
    "tile with fewer axes": (lambda x, a: x.tile(a, (2, 2)), A),
    "concat": (lambda x, a: x.concatenate([a, a], axis=-1), A),
    "concat flat": (lambda x, a: x.concatenate([a, a[0]], axis=None), A),
    "stack": (lambda x, a: x.stack([a, a], axis=1), A),
    "stack last": (lambda x, a: x.stack([a, a], axis=-1), A),
    "split": (lambda x, a: x.split(a, 2, axis=2), A),
    "split at places": (lambda x, a: x.split(a, [1, 3], axis=2), A),
    "split at places from the end": (lambda x, a: x.split(a, [-2]), V),
    "split past the end": (lambda x, a: x.split(a, [2, 99]), V),
    "diagonal": (lambda x, a: x.diagonal(a, 1, 2, 0), A),
    "diagonal below": (lambda x, a: x.diagonal(a, -1), M),
    "diagonal outside": (lambda x, a: x.diagonal(a, 9), M),
    "diag of a vector": (lambda x, a: x.diag(a, 2), V),
    "diag of a vector below": (lambda x, a: x.diag(a, -1), V),
    "diag of a matrix": (lambda x, a: x.diag(a, -1), M),
    "pad": (lambda x, a: x.pad(a, 2, constant_values=7), M),
    "pad of a pair": (lambda x, a: x.pad(a, (1, 0)), M),
    "pad of pairs": (lambda x, a: x.pad(a, ((0, 2), (1, 0))), M),
    "pad edge": (lambda x, a: x.pad(a, ((1, 2), (3, 0)), mode="edge"), M),
    "pad reflect": (lambda x, a: x.pad(a, 2, mode="reflect"), M),
    "pad symmetric": (lambda x, a: x.pad(a, 3, mode="symmetric"), M),
    "pad reflect past the length": (lambda x, a: x.pad(a, 9, mode="reflect"), M),
    "pad symmetric past the length": (lambda x, a: x.pad(a, 9, mode="symmetric"), V),
    "pad reflect one element": (lambda x, a: x.pad(a, 2, mode="reflect"), V[:1]),
    "atleast_1d": (lambda x, a: x.atleast_1d(a), np.array(3)),
    "atleast_2d": (lambda x, a: x.atleast_2d(a), V),
    "atleast_3d of a vector": (lambda x, a: x.atleast_3d(a), V),
    "atleast_3d of a matrix": (lambda x, a: x.atleast_3d(a), M),
    "atleast_2d of several": (lambda x, a: list(x.atleast_2d(a, a[0])), V),
    "broadcast_arrays": (lambda x, a: list(x.broadcast_arrays(a[:, :1], a[0])), M),
    "meshgrid": (lambda x, a: list(x.meshgrid(a[:3], a[:2])), V),
    "meshgrid of three": (lambda x, a: list(x.meshgrid(a[:3], a[:2], a[:4])), V),
    "meshgrid ij": (lambda x, a: list(x.meshgrid(a[:3], a[:2], indexing="ij")), V),
    "meshgrid sparse": (lambda x, a: list(x.meshgrid(a[:3], a[:2], sparse=True)), V),
    "tril": (lambda x, a: x.tril(a, 1), M),
    "triu": (lambda x, a: x.triu(a, -1), A),
    "trace": (lambda x, a: x.trace(a, 1), M),
}


@pytest.mark.parametrize("name", list(CASES))
def test_as_in_numpy(name):
    call, a = CASES[name]
    assert_same(call(mx, mx.array(a)), call(np, a))


def test_flatten_merges_a_range_of_axes():
    a = mx.array(A)
    assert mx.flatten(a).shape == (24,)
    assert mx.flatten(a, 1).shape == (2, 12)
    assert mx.flatten(a, 0, 1).shape == (6, 4)
    assert mx.flatten(a, -2, -2).shape == (2, 3, 4)
    assert mx.flatten(mx.array(3)).shape == (1,)


def test_unflatten_splits_an_axis():
    a = mx.array(A)
    assert mx.unflatten(a, -1, (2, -1)).shape == (2, 3, 2, 2)
    assert mx.unflatten(a, 1, (3, 1)).tolist() == A.reshape(2, 3, 1, 4).tolist()


def test_unstack_drops_the_axis():
    parts = mx.unstack(mx.array(A), axis=1)
    assert isinstance(parts, tuple)
    assert_same(parts, [A[:, i] for i in range(3)])


def test_broadcast_shapes():
    assert mx.broadcast_shapes((2, 1), (3,), (1, 1, 1)) == (1, 2, 3)
    assert mx.broadcast_shapes((0,), (1,)) == (0,)
    assert mx.broadcast_shapes() == ()


def test_concatenate_promotes_and_keeps_order():
    got = mx.concatenate([mx.array([1, 2]), mx.array([0.5])])
    assert (got.dtype, got.tolist()) == (mx.float32, [1.0, 2.0, 0.5])


def test_as_strided_reads_windows():
    a = mx.arange(6)
    assert mx.as_strided(a, (2, 2), (3, 1), 1).tolist() == [[1, 2], [4, 5]]
    assert mx.as_strided(a, (3,), (-2,), 5).tolist() == [5, 3, 1]
    assert mx.as_strided(a, (0, 3), (100, 1)).shape == (0, 3)
    assert mx.grad(lambda t: mx.as_strided(t, (3, 3), (1, 1)).sum())(mx.ones(5)).tolist() == [1, 2, 3, 2, 1]


def test_in_place_operators_leave_the_argument_of_a_function_that_had_nothing_to_do():
    a = mx.array([[1.0, 2.0]])
    for same in (mx.positive(a), mx.atleast_2d(a), mx.roll(a, 0, 0), mx.pad(a, 0, mode="edge"), mx.contiguous(a)):
        kept = same
        kept += 1
    assert a.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda a: mx.reshape(a, (5, -1)),
        lambda a: mx.reshape(a, (-1, -1)),
        lambda a: mx.reshape(a, (-2, -12)),
        lambda a: mx.unflatten(a, 1, (2, 2)),
        lambda a: mx.unflatten(a, 1, ()),
        lambda a: mx.squeeze(a, 0),
        lambda a: mx.transpose(a, (0, 0, 1)),
        lambda a: mx.transpose(a, (0, 1)),
        lambda a: mx.moveaxis(a, (0, 0), (1, 2)),
        lambda a: mx.broadcast_to(a, (2, 3)),
        lambda a: mx.broadcast_to(a, (-1, 3, 4)),
        lambda a: mx.split(a, 5),
        lambda a: mx.split(a, 0),
        lambda a: mx.split(a, -1),
        lambda a: mx.repeat(a, -1),
        lambda a: mx.tile(a, -1),
        lambda a: mx.roll(a, (1, 2, 3), (0, 1)),
        lambda a: mx.stack([]),
        lambda a: mx.stack([a, a[0]]),
        lambda a: mx.concatenate([]),
        lambda a: mx.concatenate([a, a[:, :2]], axis=0),
        lambda a: mx.pad(a, -1),
        lambda a: mx.pad(a, ((1, 1), (2, 2))),
        lambda a: mx.pad(a, 1, mode="wrong"),
        lambda a: mx.pad(a[:0], 1, mode="edge"),
        lambda a: mx.diagonal(a, 0, 1, 1),
        mx.diag,
        lambda a: mx.tril(a[0, 0]),
        mx.meshgrid,
        lambda a: mx.meshgrid(a[0, 0], indexing="yx"),
        lambda a: mx.broadcast_shapes((2,), (3,)),
        lambda a: mx.matrix_transpose(a[0, 0]),
        lambda a: mx.as_strided(a, (4, 4), (100, 1)),
        lambda a: mx.as_strided(a, (3,), (-2,), 0),
        lambda a: mx.as_strided(a, (3,), (1, 1)),
    ],
)
def test_wrong_arguments_are_refused_with_a_reason(call):
    with pytest.raises(ValueError, match=r".{15}"):
        mx.eval(call(mx.array(A)))


@pytest.mark.parametrize(
    "call",
    [
        lambda a: mx.swapaxes(a, 0, 3),
        lambda a: mx.moveaxis(a, -4, 0),
        lambda a: mx.expand_dims(a, 5),
        lambda a: mx.flip(a, 3),
        lambda a: mx.split(a, 1, axis=3),
        lambda a: mx.unstack(a, axis=-4),
        lambda a: mx.concatenate([a, a], axis=3),
        lambda a: mx.stack([a, a], axis=4),
        lambda a: mx.repeat(a, 2, axis=3),
        lambda a: mx.flatten(a, 2, 1),
        lambda a: mx.squeeze(a, 3),
    ],
)
def test_an_axis_out_of_range_is_an_axis_error(call):
    raises_both(lambda: call(mx.array(A)))


@pytest.mark.parametrize("call", [mx.concatenate, lambda a: mx.stack(5), lambda a: mx.reshape(a, 1.5)])
def test_wrong_types_are_refused(call):
    with pytest.raises(TypeError):
        call(mx.array(A))


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_gradients_flow_through_pad(mode):
    grad = mx.grad(lambda t: (mx.pad(t, 2, mode=mode) ** 2).sum())(mx.array([1.0, 2.0, 3.0]))
    if mode == "constant":
        want = [2.0, 4.0, 6.0]
    else:
        padded = np.pad(np.arange(3), 2, mode=mode)
        want = [2.0 * (i + 1) * (padded == i).sum() for i in range(3)]
    assert grad.tolist() == want


def test_stack_without_an_axis_stacks_in_front():
    assert mx.stack([mx.zeros((2, 3)), mx.ones((2, 3))], axis=None).shape == (2, 2, 3)
