"""Gradients of the ops that move, cut, join, index, sort, multiply and convolve.

Each case is checked in float64 on the CPU: vjp against central differences, jvp against vjp, and the
gradient of a gradient against central differences of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import mlxc as mx

Function = Callable[..., mx.array]


@pytest.fixture(autouse=True)
def _on_cpu():
    before = mx.default_device()
    mx.set_default_device(mx.cpu)
    yield
    mx.set_default_device(before)


def to_mx(a: np.ndarray) -> mx.array:
    return mx.array(a, dtype=mx.float64)


def to_np(a: mx.array) -> np.ndarray:
    return np.array(a)


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def spaced(*shape: int, seed: int = 0) -> np.ndarray:
    """Positive values far enough apart that small steps change no order."""
    size = int(np.prod(shape))
    return (np.random.default_rng([seed, *shape]).permutation(size) + 1.0).reshape(shape) / 4


def central_differences(fn: Callable[..., float], arrays: list[np.ndarray], step: float = 1e-4) -> list[np.ndarray]:
    gradients = []
    for k, a in enumerate(arrays):
        gradient = np.zeros_like(a)
        for place in np.ndindex(a.shape):
            moved = []
            for sign in (1, -1):
                b = a.copy()
                b[place] += sign * step
                moved.append(fn(*arrays[:k], b, *arrays[k + 1 :]))
            gradient[place] = (moved[0] - moved[1]) / (2 * step)
        gradients.append(gradient)
    return gradients


def grad_of_all(fn: Function, count: int) -> Callable[..., tuple[mx.array, ...]]:
    """The gradients with respect to every argument, as a tuple even for one."""
    grad_fn = mx.grad(fn, argnums=tuple(range(count)))
    return lambda *xs: (grad_fn(*xs),) if count == 1 else grad_fn(*xs)


def check_gradients(fn: Function, *arrays: np.ndarray, second: bool = True) -> None:
    """vjp, jvp and second derivatives of fn at the arrays."""
    arrays = [np.asarray(a, dtype=np.float64) for a in arrays]
    primals = [to_mx(a) for a in arrays]
    out = fn(*primals)
    weights = to_mx(draw(*out.shape, seed=1))

    def loss(*xs: mx.array) -> mx.array:
        return (fn(*xs) * weights).sum()

    grad_loss = grad_of_all(loss, len(arrays))
    gradients = grad_loss(*primals)
    expected = central_differences(lambda *xs: loss(*map(to_mx, xs)).item(), arrays)
    for got, want, a in zip(gradients, expected, arrays, strict=True):
        assert got.shape == a.shape
        assert got.dtype == mx.float64
        np.testing.assert_allclose(to_np(got), want, rtol=1e-6, atol=1e-6)

    tangents = [draw(*a.shape, seed=2) for a in arrays]
    _, (tangent,) = mx.jvp(fn, primals, [to_mx(t) for t in tangents])
    assert tangent.shape == out.shape
    forward = (tangent * weights).sum().item()
    backward = sum(float(np.sum(to_np(g) * t)) for g, t in zip(gradients, tangents, strict=True))
    assert forward == pytest.approx(backward, rel=1e-9, abs=1e-9)

    for k in range(len(arrays)):  # one tangent alone
        alone = [to_mx(t if i == k else np.zeros_like(t)) for i, t in enumerate(tangents)]
        _, (tangent,) = mx.jvp(fn, primals, alone)
        assert (tangent * weights).sum().item() == pytest.approx(
            float(np.sum(to_np(gradients[k]) * tangents[k])), rel=1e-9, abs=1e-9
        )

    if second:
        directions = [to_mx(t) for t in tangents]

        def curve(*xs: mx.array) -> mx.array:
            bent = grad_loss(*[x * x for x in xs])
            return sum((g * d).sum() for g, d in zip(bent, directions, strict=True))

        roots = [np.asarray(np.sqrt(np.abs(a) + 0.5)) for a in arrays]
        got = grad_of_all(curve, len(arrays))(*map(to_mx, roots))
        want = central_differences(lambda *xs: curve(*map(to_mx, xs)).item(), roots)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(to_np(g), w, rtol=1e-5, atol=1e-5)


# ---- shape -----------------------------------------------------------------------------------------

SHAPE_CASES = {
    "reshape": (lambda a: mx.reshape(a, (4, 6)), (2, 3, 4)),
    "reshape of a transposed array": (lambda a: mx.reshape(a.transpose(2, 0, 1), (-1, 3)), (2, 3, 4)),
    "transpose": (lambda a: mx.transpose(a, (2, 0, 1)), (2, 3, 4)),
    "broadcast_to": (lambda a: mx.broadcast_to(a, (5, 2, 3, 4)), (2, 1, 4)),
    "broadcast_to from no axes": (lambda a: mx.broadcast_to(a, (2, 3)), ()),
    "expand_dims": (lambda a: mx.expand_dims(a, (0, 2)), (2, 3)),
    "squeeze": (lambda a: mx.squeeze(a, (0, 2)), (1, 2, 1, 3)),
    "slice": (lambda a: a[1:4, ::2], (5, 6)),
    "slice backwards": (lambda a: a[::-1, 4:0:-2], (3, 6)),
    "slice of one row": (lambda a: a[-1], (3, 4)),
    "pad": (lambda a: mx.pad(a, ((1, 2), (0, 3))), (2, 3)),
    "stack": (lambda a: mx.stack([a, a * a], axis=1), (2, 3)),
    "split": (lambda a: mx.split(a, 3, axis=1)[1], (2, 6)),
}


@pytest.mark.parametrize("name", SHAPE_CASES)
def test_gradient_of_moving_elements_follows_them_back(name):
    fn, shape = SHAPE_CASES[name]
    check_gradients(fn, draw(*shape))


def test_gradient_of_concatenate_is_cut_at_the_seams():
    arrays = draw(2, 3), draw(2, 1, seed=1), draw(2, 2, seed=2)
    check_gradients(lambda *parts: mx.concatenate(parts, axis=1), *arrays)


def test_gradient_of_pad_reaches_the_value():
    check_gradients(lambda a, v: mx.pad(a, ((1, 2), (0, 3)), constant_values=v), draw(2, 3), draw())


def test_gradient_of_assigning_a_window_is_zero_for_what_it_replaces():
    def fn(a, update):
        b = a * 2
        b[1:3, ::-2] = update
        return b * b

    check_gradients(fn, draw(4, 5), draw(3, seed=1))


def test_gradient_of_an_empty_slice_is_zero():
    gradient = mx.grad(lambda a: a[2:2].sum() + 0 * a.sum())(to_mx(draw(3, 2)))
    assert to_np(gradient).tolist() == [[0, 0]] * 3


# ---- matmul ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 2)),
        ((5, 2, 3), (3, 2)),
        ((2, 3), (4, 3, 2)),
        ((2, 1, 2, 3), (3, 3, 2)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((3,), (3,)),
        ((2, 0), (0, 3)),
    ],
)
def test_gradient_of_matmul(left, right):
    check_gradients(mx.matmul, draw(*left), draw(*right, seed=1))


def test_gradient_of_matmul_of_transposed_views():
    check_gradients(lambda a, b: a.T @ b.T, draw(3, 2), draw(4, 3, seed=1))


# ---- indexing --------------------------------------------------------------------------------------

TWICE = np.array([[2, 0], [2, -1]])  # names places 2 and 0 once, and 2 twice more: -1 is 2 of 3


def test_gradient_of_take_adds_up_where_an_index_repeats():
    check_gradients(lambda a: mx.take(a, mx.array(TWICE), axis=1), draw(2, 3))


def test_gradient_of_indexing_two_axes_at_once():
    rows, columns = mx.array([0, 2, 0]), mx.array([[1], [3]])
    check_gradients(lambda a: a[rows, :, columns], draw(3, 2, 4))


def test_gradient_of_take_along_axis_with_broadcasting():
    indices = mx.array([[1, 1, -1]])
    check_gradients(lambda a: mx.take_along_axis(a, indices, axis=1), draw(2, 4))


def test_gradient_of_put_along_axis_goes_to_the_update_that_stays():
    indices = mx.array([[1, 0, 1], [2, 2, -1]])
    check_gradients(lambda a, u: mx.put_along_axis(a, indices, u, axis=1), draw(2, 4), draw(2, 3, seed=1))


def test_gradient_of_assigning_by_index_goes_to_the_update_that_stays():
    def fn(a, update):
        b = a * 2
        b[mx.array([2, 0, -1])] = update
        return b * b

    check_gradients(fn, draw(3, 2), draw(3, 2, seed=1))


def at_mode(mode: str) -> Function:
    indices = mx.array([2, 0, -1, 2])
    return lambda a, u: getattr(a.at[indices], mode)(u)


@pytest.mark.parametrize("mode", ["add", "subtract", "multiply", "divide", "maximum", "minimum"])
def test_gradient_of_updates_at_repeated_places(mode):
    check_gradients(at_mode(mode), spaced(4, 2) + 0.1, spaced(4, 2, seed=1) + 0.05)


def test_gradient_of_multiplying_in_is_right_at_zeros():
    a, update = draw(4, 2), draw(4, 2, seed=1)
    update[0, 0] = update[1, 1] = update[2, 1] = update[3, 1] = 0
    a[2, 0] = a[0, 1] = 0
    check_gradients(at_mode("multiply"), a, update)


def test_second_derivative_of_multiplying_in_is_right_at_zeros():
    update = draw(4, 1)
    update[2, 0] = 0
    a, v = draw(3, 1, seed=1), draw(4, 1, seed=2)
    fn = at_mode("multiply")

    def slope(u):
        return (mx.grad(lambda w: fn(to_mx(a), w).sum())(u) * to_mx(v)).sum()

    got = to_np(mx.grad(slope)(to_mx(update)))
    (want,) = central_differences(lambda u: slope(to_mx(u)).item(), [update])
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("mode", ["maximum", "minimum"])
def test_ties_share_the_gradient_and_keep_its_mass(mode):
    fn = at_mode(mode)
    a, update = to_mx(np.full((3, 1), 7.0)), to_mx(np.full((4, 1), 7.0))
    _, (to_a, to_update) = mx.vjp(fn, [a, update], [to_mx(np.array([[1.0], [5.0], [8.0]]))])
    assert to_np(to_a).ravel().tolist() == [0.5, 5, 2]
    assert to_np(to_update).ravel().tolist() == [2, 0.5, 2, 2]


def test_gradient_of_indexing_float16_stays_float16():
    a = mx.array([1.0, 2.0, 3.0], dtype=mx.float16)
    gradient = mx.grad(lambda x: x[mx.array([0, 0, 2])].sum())(a)
    assert gradient.dtype == mx.float16
    assert gradient.tolist() == [2, 0, 1]


# ---- sorting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gradient_of_sort_goes_back_to_where_elements_came_from(axis):
    check_gradients(lambda a: mx.sort(a, axis=axis), spaced(3, 4, 2))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_gradient_of_topk_reaches_only_the_chosen(k):
    check_gradients(lambda a: mx.sort(mx.topk(a, k, axis=1), axis=1), spaced(3, 4))


# ---- conv ------------------------------------------------------------------------------------------

CONV_CASES = [
    # input, weight, options
    ((2, 7, 2), (3, 3, 2), {}),
    ((1, 8, 2), (2, 3, 2), {"stride": 2}),
    ((1, 9, 1), (1, 2, 1), {"stride": 3, "padding": 1}),
    ((1, 6, 2), (2, 3, 2), {"padding": 3, "flip": True}),
    ((1, 3, 1), (1, 1, 1), {"padding": 2}),
    ((2, 9, 4), (6, 3, 2), {"groups": 2, "kernel_dilation": 2, "stride": 2}),
    ((1, 5, 3), (3, 2, 1), {"groups": 3, "input_dilation": 2, "flip": True}),
    ((1, 5, 2), (2, 3, 2), {"input_dilation": 3, "kernel_dilation": 2, "stride": 2, "padding": ([2], [1])}),
    ((1, 8, 1), (1, 3, 1), {"padding": ([-1], [-2])}),
    ((1, 2, 2), (2, 2, 2), {"padding": ([4], [0]), "stride": 2}),
    ((2, 5, 4, 2), (3, 3, 2, 2), {"stride": (2, 1), "padding": (1, 0)}),
    ((1, 4, 5, 4), (4, 2, 3, 2), {"groups": 2, "padding": ([0, 2], [1, 1]), "kernel_dilation": (1, 2), "flip": True}),
    ((1, 3, 4, 3, 2), (2, 2, 2, 2, 1), {"groups": 2, "stride": (1, 2, 1), "padding": 1}),
    ((0, 4, 2), (3, 3, 2), {}),
]


@pytest.mark.parametrize(("shape", "weight", "options"), CONV_CASES)
def test_gradient_of_convolution(shape, weight, options):
    second = np.prod(shape) * np.prod(weight) < 400
    check_gradients(lambda a, w: mx.conv_general(a, w, **options), draw(*shape), draw(*weight, seed=1), second=second)


# ---- complex ---------------------------------------------------------------------------------------


def test_jvp_and_vjp_of_complex_matmul_are_adjoint():
    def complex_draw(*shape, seed):
        return mx.array(draw(*shape, seed=seed) + 1j * draw(*shape, seed=seed + 10), dtype=mx.complex64)

    a, b = complex_draw(2, 3, seed=0), complex_draw(3, 2, seed=1)
    ta, tb, g = complex_draw(2, 3, seed=2), complex_draw(3, 2, seed=3), complex_draw(2, 2, seed=4)
    _, (tangent,) = mx.jvp(mx.matmul, [a, b], [ta, tb])
    _, (ga, gb) = mx.vjp(mx.matmul, [a, b], [g])
    forward = np.vdot(to_np(g), to_np(tangent)).real
    backward = (np.vdot(to_np(ga), to_np(ta)) + np.vdot(to_np(gb), to_np(tb))).real
    assert forward == pytest.approx(backward, rel=1e-5)
