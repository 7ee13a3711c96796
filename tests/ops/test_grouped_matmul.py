"""Matrices picked by index, cut inner axes and masked blocks, beside NumPy's products one by one."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape)


def check_gradients(fn, *at: np.ndarray) -> None:
    """vjp against central differences, and jvp against vjp, in float64."""
    arrays = [mx.array(a, dtype=mx.float64) for a in at]
    weight = mx.array(draw(*fn(*arrays).shape, seed=9), dtype=mx.float64)
    total = lambda *a: (fn(*a) * weight).sum()  # noqa: E731
    got = mx.grad(total, argnums=tuple(range(len(at))))(*arrays)
    tangents = [mx.array(draw(*a.shape, seed=5), dtype=mx.float64) for a in at]
    pushed = mx.jvp(total, arrays, tangents)[1][0].item()
    assert np.isclose(pushed, sum((g * t).sum().item() for g, t in zip(got, tangents, strict=True)))
    for k, a in enumerate(at):
        wanted = np.zeros_like(a)
        for place in np.ndindex(a.shape):
            moved = []
            for step in (1e-6, -1e-6):
                other = [np.array(b) for b in at]
                other[k][place] += step
                moved.append(total(*(mx.array(b, dtype=mx.float64) for b in other)).item())
            wanted[place] = (moved[0] - moved[1]) / 2e-6
        np.testing.assert_allclose(np.array(got[k]), wanted, atol=1e-6)


# ---- gather_mm ----------------------------------------------------------------------------------


def test_indices_count_matrices_over_all_leading_axes() -> None:
    a, b = draw(2, 3, 4, 5), draw(2, 2, 5, 6)
    lhs, rhs = np.array([[5], [0]]), np.array([3, 1, 0])
    got = mx.gather_mm(mx.array(a), mx.array(b), mx.array(lhs), mx.array(rhs))
    left, right = np.broadcast_arrays(lhs, rhs)
    wanted = a.reshape(6, 4, 5)[left] @ b.reshape(4, 5, 6)[right]
    np.testing.assert_allclose(np.array(got), wanted, rtol=1e-4, atol=1e-5)


def test_vectors_are_rows_and_columns() -> None:
    a, b = draw(3, 4, 5), draw(5)
    got = mx.gather_mm(mx.array(a), mx.array(b), mx.array([2, 0]))
    np.testing.assert_allclose(np.array(got), a[[2, 0]] @ b, rtol=1e-4, atol=1e-5)
    got = mx.gather_mm(mx.array(b), mx.array(draw(3, 5, 2)), None, mx.array([1, 1]))
    np.testing.assert_allclose(np.array(got), b @ draw(3, 5, 2)[[1, 1]], rtol=1e-4, atol=1e-5)


def test_operands_may_be_windows() -> None:
    a, w = draw(6, 2, 10), draw(3, 7, 5)
    got = mx.gather_mm(mx.array(a)[::2, :, ::-2], mx.array(w).swapaxes(1, 2), None, mx.array([2, 2, 0]))
    wanted = a[::2, :, ::-2] @ np.swapaxes(w, 1, 2)[[2, 2, 0]]
    np.testing.assert_allclose(np.array(got), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rhs", [[0, 0, 1, 1, 2, 2], [2, 0, 1, 1, 0, 2], [0, 0, 0, -1, 0, 0]])
def test_gradients_of_picked_matrices(rhs: list[int]) -> None:
    check_gradients(lambda a, b: mx.gather_mm(a, b, None, mx.array(rhs)), draw(6, 1, 3), draw(3, 3, 2))
    lhs = mx.array([0, 1, 1, 0, -1, 0])
    check_gradients(lambda a, b: mx.gather_mm(a, b, lhs, mx.array(rhs)), draw(2, 2, 3), draw(3, 3, 2))


def test_second_derivatives_of_picked_matrices() -> None:
    rhs = mx.array([2, 0, 2])

    def slope(a: mx.array, b: mx.array) -> mx.array:
        return mx.grad(lambda x, y: (mx.gather_mm(x, y, None, rhs) ** 3).sum(), argnums=1)(a, b)

    check_gradients(slope, draw(3, 2, 3), draw(3, 3, 2))


@pytest.mark.parametrize("wrong", [3, -4, 2**40])
def test_indices_out_of_range_raise(wrong: int) -> None:
    a, b = mx.ones((3, 2, 5)), mx.ones((3, 5, 2))
    for lhs, rhs in (([wrong], [0]), ([0], [wrong])):
        with pytest.raises(IndexError, match="out of range"):
            mx.eval(mx.gather_mm(a, b, mx.array(lhs, dtype=mx.int64), mx.array(rhs, dtype=mx.int64)))


def test_integers_and_wrong_shapes_are_refused() -> None:
    with pytest.raises(TypeError, match="int32"):
        mx.gather_mm(mx.ones((2, 2), dtype=mx.int32), mx.ones((2, 2), dtype=mx.int32))
    with pytest.raises(TypeError, match="indices must be integers"):
        mx.gather_mm(mx.ones((1, 2, 2)), mx.ones((1, 2, 2)), mx.array([0.0]))
    with pytest.raises(ValueError, match="differ in size"):
        mx.gather_mm(mx.ones((1, 2, 3)), mx.ones((1, 2, 2)))


# ---- segmented_mm -------------------------------------------------------------------------------


def test_segments_may_overlap_be_empty_and_have_any_shape() -> None:
    a, b = draw(4, 9), draw(9, 3)
    segments = np.array([[[0, 4], [2, 9]], [[5, 5], [7, 3]]])
    got = np.array(mx.segmented_mm(mx.array(a), mx.array(b), mx.array(segments)))
    assert got.shape == (2, 2, 4, 3)
    np.testing.assert_allclose(got[0, 0], a[:, :4] @ b[:4], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got[0, 1], a[:, 2:] @ b[2:], rtol=1e-4, atol=1e-5)
    assert not got[1].any()


def test_gradients_of_segments() -> None:
    segments = mx.array([[0, 2], [1, 4], [3, 3]])
    check_gradients(lambda a, b: mx.segmented_mm(a, b, segments), draw(2, 5), draw(5, 3))


@pytest.mark.parametrize("wrong", [[0, 6], [-1, 2]])
def test_segments_beyond_the_inner_axis_raise(wrong: list[int]) -> None:
    with pytest.raises(IndexError, match="not within"):
        mx.eval(mx.segmented_mm(mx.ones((2, 5)), mx.ones((5, 2)), mx.array([wrong])))


def test_segments_of_other_shapes_are_refused() -> None:
    a, b = mx.ones((2, 5)), mx.ones((5, 2))
    with pytest.raises(ValueError, match="pairs"):
        mx.segmented_mm(a, b, mx.array([[0, 1, 2]]))
    with pytest.raises(ValueError, match="2 axes"):
        mx.segmented_mm(mx.ones((1, 2, 5)), b, mx.array([[0, 1]]))
    with pytest.raises(TypeError, match="integers"):
        mx.segmented_mm(a, b, mx.array([[0.0, 1.0]]))


# ---- block_masked_mm ----------------------------------------------------------------------------


def spread(mask: np.ndarray, block: int, rows: int, columns: int) -> np.ndarray:
    return np.repeat(np.repeat(mask, block, axis=-2), block, axis=-1)[..., :rows, :columns]


@pytest.mark.parametrize("kind", [bool, np.float32])
@pytest.mark.parametrize("block", [32, 64])
def test_blocks_are_masked_on_all_sides(block: int, kind: type) -> None:
    a, b = draw(2, 70, 100).astype(np.float32), draw(2, 100, 40).astype(np.float32)
    rng = np.random.default_rng(1)
    sizes = [-(-n // block) for n in (70, 100, 40)]
    masks = [rng.random(s) * 2 for s in ((2, sizes[0], sizes[2]), sizes[:2], sizes[1:])]
    masks = [(m > 1 if kind is bool else m).astype(kind) for m in masks]
    got = mx.block_masked_mm(mx.array(a), mx.array(b), block, *(mx.array(m) for m in masks))
    wanted = (a * spread(masks[1], block, 70, 100)) @ (b * spread(masks[2], block, 100, 40))
    np.testing.assert_allclose(np.array(got), wanted * spread(masks[0], block, 70, 40), rtol=1e-4, atol=1e-4)


def test_what_a_bool_mask_leaves_out_does_no_harm() -> None:
    a = draw(64, 64).astype(np.float32)
    a[0, 0] = np.nan
    mask = mx.array([[False, True], [True, True]])
    got = np.array(mx.block_masked_mm(mx.array(a), mx.eye(64), 32, mask_lhs=mask))
    assert not np.isnan(got).any()
    np.testing.assert_array_equal(got[32:], a[32:])


def test_gradients_of_masked_blocks_reach_arrays_and_masks() -> None:
    check_gradients(
        lambda a, b, m, n: mx.block_masked_mm(a, b, 32, mask_out=m, mask_lhs=n),
        draw(3, 33), draw(33, 2), draw(1, 1), draw(1, 2),
    )  # fmt: skip


def test_masks_and_block_sizes_that_do_not_fit_are_refused() -> None:
    a, b = mx.ones((70, 100)), mx.ones((100, 40))
    with pytest.raises(ValueError, match=r"\(\.\.\., 3, 4\)"):
        mx.block_masked_mm(a, b, 32, mask_lhs=mx.ones((2, 2)))
    with pytest.raises(ValueError, match="32 or 64"):
        mx.block_masked_mm(a, b, 16)
    with pytest.raises(TypeError, match="floating-point"):
        mx.block_masked_mm(a.astype(mx.int32), b.astype(mx.int32))
