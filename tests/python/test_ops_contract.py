"""Products of matrices and tensors, einsum, convolutions and norms against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from compare import assert_same

import mlxc as mx

RNG = np.random.default_rng(1)


def rand(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


MATMUL = [
    ((3, 4), (4, 5)),
    ((4,), (4,)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
    ((2, 0, 4), (4, 3)),
]


@pytest.mark.parametrize(("left", "right"), MATMUL)
def test_matmul_is_numpys(left, right):
    a, b = rand(*left), rand(*right)
    assert_same(mx.matmul(mx.array(a), mx.array(b)), a @ b)
    assert_same(mx.array(a) @ mx.array(b), a @ b)


def test_matmul_of_views_and_integers():
    a, b = rand(4, 3), rand(5, 4)
    assert_same(mx.matmul(mx.array(a).T, mx.array(b).T), a.T @ b.T)
    i = np.arange(6).reshape(2, 3)
    assert mx.matmul(mx.array(i), mx.array(i.T)).tolist() == (i @ i.T).tolist()


@pytest.mark.parametrize(("left", "right"), [((3, 4), (5, 4)), ((), (3,)), ((2, 3, 4), (3, 4, 5)), ((3,), (4,))])
def test_matmul_refuses_what_does_not_fit(left, right):
    with pytest.raises(ValueError, match="matmul"):
        mx.matmul(mx.zeros(left), mx.zeros(right))


def test_addmm():
    a, b, c = rand(3, 4), rand(4, 5), rand(5)
    assert_same(mx.addmm(mx.array(c), mx.array(a), mx.array(b), alpha=2.0, beta=0.5), 2 * (a @ b) + 0.5 * c)
    assert_same(mx.addmm(mx.full((5,), mx.nan), mx.array(a), mx.array(b), beta=0.0), a @ b)
    assert_same(mx.addmm(mx.array(1.0), mx.array(a), mx.array(b[:, 0])), a @ b[:, 0] + 1)


def test_products_of_vectors_and_tensors():
    a, b = rand(2, 3, 4), rand(5, 4)
    assert_same(mx.inner(mx.array(a), mx.array(b)), np.inner(a, b))
    assert_same(mx.inner(mx.array(2.0), mx.array(b)), 2 * b)
    assert_same(mx.outer(mx.array(a), mx.array(b)), np.outer(a, b))
    assert_same(mx.kron(mx.array(a[0]), mx.array(b)), np.kron(a[0], b))
    assert_same(mx.kron(mx.array(a), mx.array(b[0])), np.kron(a, b[0]))
    assert_same(mx.vecdot(mx.array(a), mx.array(b[0])), a @ b[0])
    assert_same(mx.vecdot(mx.array(a), mx.array(a), axis=0), (a * a).sum(0))
    z = np.array([1j, 2 + 1j], np.complex64)
    assert mx.vecdot(mx.array(z), mx.array(z)).item() == np.vdot(z, z)


@pytest.mark.parametrize("axes", [0, 1, 2, ([1], [0]), ([0, 2], [2, 1]), ((-1,), (-2,))])
def test_tensordot_is_numpys(axes):
    a = rand(3, 4, 3)
    b = rand(4, 3, 3) if axes in (2, ([1], [0]), ([0, 2], [2, 1]), ((-1,), (-2,))) else rand(3, 4, 3)
    assert_same(mx.tensordot(mx.array(a), mx.array(b), axes), np.tensordot(a, b, axes))


def test_contractions_refuse_what_does_not_fit():
    a, b = mx.zeros((2, 3)), mx.zeros((2, 4))
    for call in (
        lambda: mx.inner(a, b),
        lambda: mx.tensordot(a, b, 1),
        lambda: mx.tensordot(a, b, 3),
        lambda: mx.tensordot(a, b, ([0], [0, 1])),
        lambda: mx.tensordot(a, b, ([0, 0], [0, 0])),
        lambda: mx.vecdot(a, b),
    ):
        with pytest.raises(ValueError, match=r".{15}"):
            call()


EINSUM = [
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ij->i", (2, 3)),
    ("i,j->ij", (3,), (4,)),
    ("i,i", (3,), (3,)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij, jk -> ki", (2, 3), (3, 4)),
    ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)),
    ("...ij,...jk->...ik", (1, 3, 4), (2, 4, 5)),
    ("...ij,...jk->...ik", (6, 1, 3, 4), (2, 4, 5)),
    ("...ij,jk", (2, 3, 4), (4, 5)),
    ("...,...->...", (2, 3), (3,)),
    ("abcb->ac", (2, 3, 2, 3)),
    ("bqhd,bkhd->bhqk", (2, 3, 4, 5), (2, 6, 4, 5)),
    ("ij,jk,kl->il", (3, 4), (4, 5), (5, 2)),
    ("ijk,lmk,ijf->lf", (3, 4, 5), (3, 4, 5), (3, 4, 5)),
    (",->", (), ()),
    (",i->i", (), (3,)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ab,ab,c->", (3, 2), (3, 2), (4,)),
    ("ij,kl->ijkl", (2, 1), (1, 2)),
    ("i...->...i", (2, 3, 4)),
    ("ij,j->i", (2, 1), (3,)),
    ("ij,kj->ik", (2, 3), (4, 1)),
    ("iij,jk->ik", (2, 2, 3), (3, 4)),
    ("zyx,z->xy", (2, 3, 4), (2,)),
    ("Ab,bA->A", (2, 3), (3, 2)),
    ("i,ij,j->", (3,), (3, 0), (0,)),
]


@pytest.mark.parametrize("case", EINSUM, ids=lambda case: case[0])
def test_einsum_is_numpys(case):
    subscripts, *shapes = case
    operands = [rand(*shape) for shape in shapes]
    assert_same(mx.einsum(subscripts, *map(mx.array, operands)), np.einsum(subscripts, *operands), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("subscripts", "shapes", "words"),
    [
        ("ij,jk->ik", [(2, 3), (4, 2)], "'j'"),
        ("ij->ik", [(2, 3)], "'k'"),
        ("ij->ii", [(2, 3)], "twice"),
        ("ii", [(2, 3)], "'i'"),
        ("ij", [(2, 3, 4)], "3"),
        ("ij,j", [(2, 3)], "2 operands"),
        ("...i,ij->...j", [(), (6, 10)], "axes"),
        ("i1", [(2, 3)], "letters"),
        ("...i->i", [(2, 3)], "result"),
        ("...i,...i", [(2, 3), (4, 3)], "axis under"),
    ],
)
def test_einsum_says_what_is_wrong(subscripts, shapes, words):
    with pytest.raises(ValueError, match=words):
        mx.einsum(subscripts, *[mx.zeros(shape) for shape in shapes])


def test_einsum_path_finds_the_cheap_order():
    path, text = mx.einsum_path("ij,jk,kl->il", mx.ones((100, 2)), mx.ones((2, 100)), mx.ones((100, 2)))
    assert path == [(1, 2), (0, 1)]
    assert "Optimized FLOP count" in text


def test_einsum_has_gradients():
    a, b = rand(2, 3), rand(3, 4)
    ga, gb = mx.grad(lambda x, y: mx.einsum("ij,jk->", x, y), argnums=(0, 1))(mx.array(a), mx.array(b))
    assert_same(ga, np.broadcast_to(b.sum(1), (2, 3)))
    assert_same(gb, np.broadcast_to(a.sum(0)[:, None], (3, 4)))


def convolve_directly(x, w, *, stride, low, high, dilation, input_dilation, groups, flip):
    """1-D, channels last, by the definition."""
    n, length, c = x.shape
    o, k, _ = w.shape
    spread = np.zeros((n, (length - 1) * input_dilation + 1, c))
    spread[:, ::input_dilation] = x
    spread = np.pad(spread, ((0, 0), (max(low, 0), max(high, 0)), (0, 0)))
    spread = spread[:, max(-low, 0) : spread.shape[1] - max(-high, 0)]
    if flip:
        w = w[:, ::-1]
    span = (k - 1) * dilation + 1
    out = np.zeros((n, (spread.shape[1] - span) // stride + 1, o))
    for t, channel in itertools.product(range(out.shape[1]), range(o)):
        g = channel // (o // groups)
        window = spread[:, t * stride : t * stride + span : dilation, g * (c // groups) : (g + 1) * (c // groups)]
        out[:, t, channel] = (window * w[channel]).sum((1, 2))
    return out


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize(
    ("stride", "dilation", "input_dilation"), [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 3), (3, 2, 2)]
)
@pytest.mark.parametrize(("low", "high"), [(0, 0), (2, 1), (-1, 2)])
@pytest.mark.parametrize("groups", [1, 2])
def test_conv_general_is_the_definition(*, stride, dilation, input_dilation, low, high, groups, flip):
    x, w = rand(2, 9, 4), rand(6, 3, 4 // groups)
    got = mx.conv_general(
        mx.array(x), mx.array(w), stride=stride, padding=([low], [high]), kernel_dilation=dilation,
        input_dilation=input_dilation, groups=groups, flip=flip,
    )  # fmt: skip
    want = convolve_directly(
        x,
        w,
        stride=stride,
        low=low,
        high=high,
        dilation=dilation,
        input_dilation=input_dilation,
        groups=groups,
        flip=flip,
    )
    assert_same(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "extra"), [(1, 0, 1, 0), (2, 1, 1, 1), (3, 0, 2, 0), (2, 3, 1, 0)]
)
def test_conv_transpose_is_the_adjoint(stride, padding, dilation, extra, groups):
    x, w = rand(2, 5, 4), rand(6, 3, 4 // groups)
    got = mx.conv_transpose1d(mx.array(x), mx.array(w), stride, padding, dilation, extra, groups)
    side = dilation * 2 - padding
    want = convolve_directly(
        x, w, stride=1, low=side, high=side + extra, dilation=dilation, input_dilation=stride, groups=groups, flip=True
    )
    assert_same(got, want, rtol=1e-4, atol=1e-4)


def test_convolutions_over_more_axes():
    x, w = rand(1, 6, 7, 2), rand(3, 2, 3, 2)
    got = mx.conv2d(mx.array(x), mx.array(w), stride=(2, 1), padding=(1, 0), dilation=(1, 2))
    assert got.shape == (1, 4, 3, 3)
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    want = np.einsum("yxc,oyxc->o", padded[0, 2:4, 1:6:2], w)
    np.testing.assert_allclose(np.array(got)[0, 1, 1], want, rtol=1e-4)
    assert mx.conv3d(mx.ones((1, 4, 4, 4, 1)), mx.ones((2, 3, 3, 3, 1)), padding=1).shape == (1, 4, 4, 4, 2)
    assert mx.conv_transpose2d(mx.ones((1, 3, 3, 2)), mx.ones((4, 3, 3, 2)), stride=2, padding=1).shape == (1, 5, 5, 4)
    assert mx.conv_transpose3d(mx.ones((1, 2, 2, 2, 1)), mx.ones((1, 2, 2, 2, 1))).sum().item() == 64.0


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(("n", "m"), [(5, 3), (3, 5), (4, 4), (6, 2), (1, 1)])
def test_convolve_is_numpys(mode, n, m):
    a, v = rand(n), rand(m)
    assert_same(mx.convolve(mx.array(a), mx.array(v), mode=mode), np.convolve(a, v, mode))


@pytest.mark.parametrize(
    "call",
    [
        lambda: mx.conv1d(mx.ones((1, 5, 1)), mx.ones((1, 3, 1)), stride=0),
        lambda: mx.conv1d(mx.ones((1, 2, 1)), mx.ones((1, 5, 1))),
        lambda: mx.conv1d(mx.ones((1, 5, 3)), mx.ones((4, 3, 2))),
        lambda: mx.conv1d(mx.zeros((1, 5, 4)), mx.zeros((4, 3, 4)), groups=0),
        lambda: mx.conv1d(mx.zeros((1, 5, 4)), mx.zeros((4, 3, 1)), groups=3),
        lambda: mx.conv1d(mx.zeros((5, 4)), mx.zeros((4, 3, 4))),
        lambda: mx.conv2d(mx.zeros((1, 5, 5, 4)), mx.zeros((4, 3, 3, 4)), padding=(1, 1, 1)),
        lambda: mx.conv_general(mx.zeros((2, 3)), mx.zeros((2, 3))),
        lambda: mx.convolve(mx.zeros((0,)), mx.ones((2,))),
        lambda: mx.convolve(mx.ones((3,)), mx.ones((2,)), mode="all"),
    ],
)
def test_convolutions_refuse_what_does_not_fit(call):
    with pytest.raises(ValueError, match=r".{15}"):
        call()


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("order", "axis"),
    [(None, None), (None, 1), (2, 0), (1, -1), (3, 1), (0.5, 0), (np.inf, 1), (-np.inf, 1), (0, 0), ("fro", (0, 1)),
     (1, (0, 1)), (-1, (0, 1)), (np.inf, (0, 1)), (-np.inf, (1, 0)), ("fro", None), (1, None)],
)  # fmt: skip
def test_norms_are_numpys(order, axis, keepdims):
    a = rand(4, 5)
    want = np.linalg.norm(a, ord=order, axis=axis, keepdims=keepdims)
    assert_same(mx.linalg.norm(mx.array(a), ord=order, axis=axis, keepdims=keepdims), want)


def test_norm_corners():
    assert mx.linalg.norm(mx.array([3, 4])).item() == 5.0
    assert mx.linalg.norm(mx.array([3j, 4])).item() == pytest.approx(5.0)
    half = mx.linalg.norm(mx.array([300.0, 400.0], mx.float16))
    assert (half.item(), half.dtype) == (500.0, mx.float16)
    assert mx.linalg.norm(mx.ones((2, 3, 4))).item() == pytest.approx(np.sqrt(24))
    assert mx.grad(lambda x: mx.linalg.norm(x, ord=3))(mx.zeros((2,))).tolist() == [0.0, 0.0]
    for order, axis in ((1, (0, 1, 2)), ("bad", None)):
        with pytest.raises(ValueError, match="norm"):
            mx.linalg.norm(mx.ones((2, 3, 4)) if axis == (0, 1, 2) else mx.ones((2, 3)), ord=order, axis=axis)


def test_cross_is_numpys():
    a, b = rand(4, 3), rand(3)
    assert_same(mx.linalg.cross(mx.array(a), mx.array(b)), np.cross(a, b))
    assert_same(mx.linalg.cross(mx.array(a.T), mx.array(a.T * 2 + 1), axis=0), np.cross(a.T, a.T * 2 + 1, axis=0))
    with pytest.raises(ValueError):
        mx.linalg.cross(mx.zeros((4,)), mx.zeros((4,)))


def count_operations(path, terms, out, sizes):
    """What a path costs: the sizes of the labels that meet, once for each product and once for the sum."""
    left, cost = [set(term) for term in terms], 0
    for step in path:
        met = set().union(*(left[i] for i in step))
        left = [term for i, term in enumerate(left) if i not in step]
        kept = met & set(out).union(*left)
        cost += np.prod([sizes[label] for label in met], dtype=float) * (len(step) - 1 + (kept != met))
        left.append(kept)
    return cost


def all_paths(count):
    if count == 1:
        yield []
        return
    for i in range(count):
        for j in range(i + 1, count):
            for rest in all_paths(count - 1):
                yield [(i, j), *rest]


@pytest.mark.parametrize("seed", range(12))
def test_einsum_path_has_the_fewest_operations_of_all_orders(seed):
    rng = np.random.default_rng(seed)
    sizes = {label: int(rng.integers(2, 12)) for label in "abcdefg"}
    terms = ["".join(rng.choice(list(sizes), int(rng.integers(1, 4)), replace=False)) for _ in range(5)]
    used = sorted(set("".join(terms)))
    out = "".join(rng.choice(used, 2, replace=False))
    shapes = [[sizes[label] for label in term] for term in terms]
    path, text = mx.einsum_path(",".join(terms) + "->" + out, *map(mx.zeros, shapes))
    cost = count_operations(path, terms, out, sizes)
    assert cost == min(count_operations(p, terms, out, sizes) for p in all_paths(5))
    assert f"Optimized FLOP count:  {int(cost)}\n" in text


def test_einsum_of_many_operands_agrees_with_numpy():
    rng = np.random.default_rng(0)
    terms = ["ab", "bc", "cd", "de", "ef", "fg", "gh", "hi", "ab"]
    arrays = [rng.standard_normal([3] * len(term)) for term in terms]
    text = ",".join(terms) + "->ai"
    got = mx.einsum(text, *(mx.array(a) for a in arrays))
    np.testing.assert_allclose(np.array(got), np.einsum(text, *arrays), rtol=1e-4, atol=1e-4)
