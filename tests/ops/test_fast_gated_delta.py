"""gated_delta_update: cutting a sequence, masks, dtypes and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx

RNG = np.random.default_rng(0)


def draw(b: int = 2) -> list[mx.array]:
    t, h, n, d, e = 12, 2, 4, 8, 6
    shapes = (b, t, h, d), (b, t, h, d), (b, t, n, e), (b, t, n), (b, t, n), (b, n, e, d)
    return [mx.array(RNG.random(s).astype(np.float32) * 0.5) for s in shapes]


def test_a_sequence_in_parts_equals_the_whole() -> None:
    *arrays, state = draw()
    whole, last = mx.fast.gated_delta_update(*arrays, state)
    outs = []
    for part in (slice(0, 5), slice(5, 6), slice(6, 12)):
        out, state = mx.fast.gated_delta_update(*(a[:, part] for a in arrays), state)
        outs.append(out)
    assert np.allclose(np.array(mx.concatenate(outs, 1)), np.array(whole), atol=1e-6)
    assert np.allclose(np.array(state), np.array(last), atol=1e-6)


def test_without_a_state_it_starts_from_zeros() -> None:
    *arrays, state = draw()
    got = mx.fast.gated_delta_update(*arrays)
    want = mx.fast.gated_delta_update(*arrays, mx.zeros_like(state))
    assert all(np.array_equal(np.array(a), np.array(b)) for a, b in zip(got, want, strict=True))


def test_masked_steps_give_zeros_and_leave_the_state_alone() -> None:
    *arrays, state = draw(b=1)
    keep = np.array([1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 0], bool)
    out, last = mx.fast.gated_delta_update(*arrays, state, mx.array(keep[None]))
    short, short_last = mx.fast.gated_delta_update(*(a[:, mx.array(np.flatnonzero(keep))] for a in arrays), state)
    assert np.array_equal(np.array(out)[:, ~keep], np.zeros((1, (~keep).sum(), 4, 6)))
    assert np.array_equal(np.array(out)[:, keep], np.array(short))
    assert np.array_equal(np.array(last), np.array(short_last))


def test_halves_keep_a_float32_state() -> None:
    *arrays, _ = draw()
    for dtype in (mx.float16, mx.bfloat16):
        out, state = mx.fast.gated_delta_update(*(a.astype(dtype) for a in arrays))
        assert (out.dtype, state.dtype) == (dtype, mx.float32)


def test_a_full_rate_without_decay_stores_what_a_unit_key_asks_for() -> None:
    key = mx.array([[[[1.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]]]])
    value = mx.array([[[[3.0]], [[5.0]], [[7.0]]]])
    ones = mx.ones((1, 3, 1))
    out, state = mx.fast.gated_delta_update(key, key, value, ones, ones)
    assert out.tolist() == value.tolist()
    assert state.tolist() == [[[[7.0, 5.0]]]]


@pytest.mark.parametrize(
    "place, shape",
    [(1, (2, 12, 2, 7)), (2, (2, 12, 3, 6)), (3, (2, 12, 2)), (4, (2, 11, 4)), (5, (2, 4, 8, 6)), (0, (2, 12, 16))],
)
def test_shapes_that_do_not_fit_are_refused(place: int, shape: tuple[int, ...]) -> None:
    arrays = draw()
    arrays[place] = mx.ones(shape)
    with pytest.raises(ValueError):
        mx.fast.gated_delta_update(*arrays)


def test_masks_are_bool_and_of_two_axes() -> None:
    arrays = draw()
    with pytest.raises(TypeError):
        mx.fast.gated_delta_update(*arrays, mx.ones((2, 12)))
    with pytest.raises(ValueError):
        mx.fast.gated_delta_update(*arrays, mx.ones((2, 12, 1), dtype=mx.bool_))
