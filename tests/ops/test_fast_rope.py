"""rope: positions far out, offsets and frequencies, and its gradient."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx

RNG = np.random.default_rng(0)
BASE = {"traditional": False, "base": 10000.0, "scale": 1.0}


def rotate_pairs(x: np.ndarray, positions: np.ndarray, base: float = 10000.0) -> np.ndarray:
    half = x.shape[-1] // 2
    angle = positions[:, None] * base ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], -1)


def test_positions_far_out_lose_no_digits() -> None:
    x = RNG.standard_normal((1, 4, 8)).astype(np.float32)
    got = mx.fast.rope(mx.array(x), 8, offset=10_000_000, **BASE)
    want = rotate_pairs(x.astype(float), 10_000_000 + np.arange(4.0))
    assert np.allclose(np.array(got), want, atol=1e-6)


@pytest.mark.parametrize("depth", [6, 64, 200])
def test_a_long_run_of_positions_is_as_exact_as_one(depth: int) -> None:
    x = RNG.standard_normal((1, 150, depth)).astype(np.float32)
    got = mx.fast.rope(mx.array(x), depth, offset=70_001, **BASE)
    assert np.allclose(np.array(got), rotate_pairs(x.astype(float), 70_001 + np.arange(150.0)), atol=5e-7)


def test_one_step_at_a_time_equals_all_at_once() -> None:
    x = mx.array(RNG.standard_normal((2, 3, 6, 8)).astype(np.float32))
    whole = np.array(mx.fast.rope(x, 8, offset=0, **BASE))
    for t in range(6):
        for offset in (t, mx.array(t), mx.array([t, t])):
            step = mx.fast.rope(x[:, :, t : t + 1], 8, offset=offset, **BASE)
            assert np.array_equal(np.array(step), whole[:, :, t : t + 1])


def test_models_that_take_turns_do_not_share_their_angles() -> None:
    x = mx.array(RNG.standard_normal((1, 2, 1, 8)).astype(np.float32))
    freqs = mx.array([1.0, 3.0, 9.0, 27.0])
    kinds = (
        lambda: mx.fast.rope(x, 8, traditional=False, base=10000.0, scale=1.0, offset=5),
        lambda: mx.fast.rope(x, 8, traditional=False, base=500.0, scale=1.0, offset=5),
        lambda: mx.fast.rope(x, 6, traditional=False, base=500.0, scale=1.0, offset=5),
        lambda: mx.fast.rope(x, 8, traditional=False, base=500.0, scale=0.5, offset=5),
        lambda: mx.fast.rope(x, 8, traditional=False, base=500.0, scale=0.5, offset=6),
        lambda: mx.fast.rope(x, 8, traditional=False, base=None, scale=1.0, offset=6, freqs=freqs),
        lambda: mx.fast.rope(x, 8, traditional=False, base=None, scale=1.0, offset=6, freqs=2 * freqs),
        lambda: mx.grad(lambda x: (mx.fast.rope(x, 8, offset=6, **BASE) ** 2).sum() / 2)(x),
    )
    alone = [np.array(kind()) for kind in kinds]
    for first in range(len(kinds)):
        for second in range(len(kinds)):
            mx.eval(kinds[first]())
            assert np.array_equal(np.array(kinds[second]()), alone[second])
    assert np.allclose(alone[-1], np.array(x), atol=1e-6)  # turned back
    assert len({a.tobytes() for a in alone}) == len(alone)


def test_scale_stretches_positions() -> None:
    x = mx.array(RNG.standard_normal((1, 5, 4)).astype(np.float32))
    got = mx.fast.rope(x, 4, traditional=False, base=10000.0, scale=0.5, offset=2)
    want = rotate_pairs(np.array(x).astype(float), 0.5 * (2 + np.arange(5)))
    assert np.allclose(np.array(got), want, atol=1e-6)


def test_traditional_pairs_are_neighbours() -> None:
    x = mx.array(RNG.standard_normal((1, 5, 8)).astype(np.float32))
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    apart = mx.fast.rope(x[..., mx.array(order)], 8, offset=3, **BASE)
    beside = mx.fast.rope(x, 8, traditional=True, base=10000.0, scale=1.0, offset=3)
    assert np.allclose(np.array(beside)[..., order], np.array(apart), atol=1e-7)


def test_frequencies_stand_in_for_the_base() -> None:
    x = mx.array(RNG.standard_normal((2, 5, 8)).astype(np.float32))
    freqs = mx.array((10000.0 ** (np.arange(4) / 4)).astype(np.float32))
    got = mx.fast.rope(x, 8, traditional=False, base=None, scale=1.0, offset=0, freqs=freqs)
    assert np.allclose(np.array(got), np.array(mx.fast.rope(x, 8, offset=0, **BASE)), atol=1e-6)


def test_the_gradient_turns_back() -> None:
    x, g = (mx.array(RNG.standard_normal((2, 3, 5, 10)), dtype=mx.float64) for _ in range(2))
    f = lambda x: mx.fast.rope(x, 8, offset=mx.array([3, 7]), **BASE)  # noqa: E731
    (gradient,) = mx.vjp(lambda x: [f(x)], [x], [g])[1]
    assert np.allclose(np.array(f(gradient)), np.array(g), atol=1e-13)


@pytest.mark.parametrize(
    "change, error",
    [
        ({"base": None}, ValueError),
        ({"freqs": mx.ones(4)}, ValueError),
        ({"base": None, "freqs": mx.ones(3)}, ValueError),
        ({"offset": mx.array([1, 2, 3])}, ValueError),
        ({"offset": mx.array(1.5)}, TypeError),
        ({"offset": 1.5}, TypeError),
        ({"dims": 7}, ValueError),
        ({"dims": 10}, ValueError),
        ({"dims": -2}, ValueError),
    ],
)
def test_what_does_not_fit_is_refused(change: dict, error: type) -> None:
    options = {"dims": 8, "offset": 0, **BASE, **change}
    with pytest.raises(error):
        mx.fast.rope(mx.ones((2, 3, 8)), **options)
