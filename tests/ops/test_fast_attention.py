"""scaled_dot_product_attention: masks, long sequences, decoding, sinks, layouts and gradients."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx
from mlxc.testing.cases_fused import attend

RNG = np.random.default_rng(0)
TOLERANCE = {"float32": 2e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2}


def attention(*args: mx.array, **options) -> mx.array:
    return mx.fast.scaled_dot_product_attention(*args, scale=0.5, **options)


def draw(*shape: int, dtype: str = "float32") -> mx.array:
    return mx.array(RNG.standard_normal(shape), dtype=mx.float64).astype(getattr(mx, dtype))


def to_np(a: mx.array) -> np.ndarray:
    return np.array(a.astype(mx.float64))


@pytest.mark.parametrize("dtype", list(TOLERANCE))
@pytest.mark.parametrize(
    "q, k, v",
    [
        ((2, 4, 100, 40), (2, 2, 300, 40), (2, 2, 300, 48)),
        ((1, 8, 1, 64), (1, 8, 2100, 64), (1, 8, 2100, 64)),
        ((2, 8, 3, 33), (2, 1, 2100, 33), (2, 1, 2100, 17)),
        ((1, 2, 300, 16), (1, 1, 300, 16), (1, 1, 300, 16)),
        ((2, 9, 1, 64), (2, 3, 301, 64), (2, 3, 301, 72)),
        ((1, 20, 1, 5), (1, 1, 40, 5), (1, 1, 40, 9)),
    ],
)
def test_sequences_longer_than_a_block(q: tuple, k: tuple, v: tuple, dtype: str) -> None:
    arrays = draw(*q, dtype=dtype), draw(*k, dtype=dtype), draw(*v, dtype=dtype)
    wide = [to_np(a) for a in arrays]
    mask = RNG.random((q[2], k[2])) < 0.7
    sinks = RNG.standard_normal(q[1]) * 5
    for options, rest, causal in (
        ({}, (), False),
        ({"mask": "causal"}, (), True),
        ({"mask": mx.array(mask)}, (mask,), False),
        ({"sinks": mx.array(sinks, dtype=mx.float32)}, (None, sinks.astype(np.float32)), False),
    ):
        got = to_np(attention(*arrays, **options))
        want = attend(*wide, *rest, causal=causal)
        assert np.max(np.abs(got - want)) <= TOLERANCE[dtype] * max(1.0, np.max(np.abs(want)))


@pytest.mark.parametrize("dtype", list(TOLERANCE))
def test_one_query_over_a_window_of_a_cache(dtype: str) -> None:
    q, cache = draw(1, 6, 1, 24, dtype=dtype), draw(2, 1, 2, 80, 24, dtype=dtype)
    turned = cache.swapaxes(-1, -2).reshape(2, 1, 2, 80, 24)
    for keys, values in (
        (cache[0, ..., :37, :], cache[1, ..., :37, :]),
        (cache[0, ..., 5:80:3, :], cache[1, ..., 5:80:3, :]),
        (cache[0, ..., ::-1, ::-1], cache[1, ..., ::-1, ::-1]),
        (turned[0].reshape(1, 2, 24, 80).swapaxes(-1, -2), turned[1].reshape(1, 2, 24, 80).swapaxes(-1, -2)),
    ):
        want = attend(to_np(q), to_np(keys), to_np(values))
        assert np.max(np.abs(to_np(attention(q, keys, values)) - want)) <= TOLERANCE[dtype]


@pytest.mark.parametrize("keys", [40, 2100])
@pytest.mark.parametrize("seen", [0, 1, 33, 40])
def test_keys_behind_the_last_that_a_mask_shows_change_nothing(seen: int, keys: int) -> None:
    q, k, v = draw(2, 4, 2, 16), draw(2, 2, keys, 16), draw(2, 2, keys, 16)
    masks = [mx.arange(keys) < seen, (mx.arange(keys) < seen) & (mx.arange(keys) % 3 != 1)]
    bad = [mx.where(mx.arange(keys)[:, None] < seen, a, mx.nan) for a in (k, v)]
    for mask in (*masks, mx.stack(masks), mx.stack([masks[1], masks[0]])):
        got = to_np(attention(q, *bad, mask=mask))
        short = mx.broadcast_to(mask, (2, keys))[:, :seen]
        want = attend(to_np(q), to_np(k)[:, :, :seen], to_np(v)[:, :, :seen], np.array(short)) if seen else 0 * to_np(q)
        assert np.max(np.abs(got - want)) <= 2e-6


def test_memory_does_not_grow_with_the_product_of_the_lengths() -> None:
    q = draw(1, 1, 4096, 8)
    mx.eval(q)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    mx.eval(attention(q, q, q, mask="causal"))
    assert mx.get_peak_memory() - before < 4 * q.nbytes
    mx.reset_peak_memory()
    mx.eval(mx.grad(lambda q: attention(q, q, q, mask="causal").sum())(q))
    assert mx.get_peak_memory() - before < 40 * q.nbytes  # scores alone would be 512


def test_a_query_that_sees_no_key_gives_zeros_and_passes_no_gradient() -> None:
    q, k = draw(1, 2, 4, 8), draw(1, 2, 3, 8)
    mask = mx.array([[True] * 3, [False] * 3, [True, False, True], [False] * 3])
    added = mx.where(mask, 0.0, -mx.inf)
    for given in (mask, added):
        out = np.array(attention(q, k, k, mask=given))
        assert np.array_equal(out[:, :, [1, 3]], np.zeros((1, 2, 2, 8)))
        assert np.allclose(out[:, :, 0], attend(to_np(q), to_np(k), to_np(k))[:, :, 0], atol=1e-6)
        gradients = mx.grad(lambda q, k, given=given: attention(q, k, k, mask=given).sum(), (0, 1))(q, k)
        assert all(np.isfinite(np.array(g)).all() for g in gradients)
        assert np.array_equal(np.array(gradients[0])[:, :, [1, 3]], np.zeros((1, 2, 2, 8)))


def test_more_queries_than_keys_leave_the_first_causal_ones_without_keys() -> None:
    q, k = draw(1, 1, 5, 4), draw(1, 1, 2, 4)
    out = np.array(attention(q, k, k, mask="causal"))
    assert np.array_equal(out[0, 0, :3], np.zeros((3, 4)))
    assert np.allclose(out[0, 0, 3], np.array(k)[0, 0, 0], atol=1e-7)


def test_heads_that_lie_beside_each_other_are_read_in_place() -> None:
    """(B, T, N, D) arrays with the axes exchanged, as models have them."""
    q, k = draw(2, 7, 4, 8), draw(2, 9, 2, 8)
    got = attention(q.transpose(0, 2, 1, 3), k.transpose(0, 2, 1, 3), k.transpose(0, 2, 1, 3)[:, ::-1])
    a, b = to_np(q).transpose(0, 2, 1, 3), to_np(k).transpose(0, 2, 1, 3)
    assert np.allclose(np.array(got), attend(a, b, b[:, ::-1]), atol=1e-6)


def test_large_scores_neither_overflow_nor_lose_the_winner() -> None:
    q = mx.full((1, 1, 1, 2), 1e4)
    k = mx.array([[[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]]])
    assert np.allclose(np.array(attention(q, k, k)), [[[[1.0, 1.0]]]])
    assert np.array_equal(np.array(attention(q, k, k, sinks=mx.array([1e5]))), np.zeros((1, 1, 1, 2)))


def test_nan_reaches_its_own_row_alone() -> None:
    q = np.ones((1, 1, 3, 4), np.float32)
    q[0, 0, 1, 2] = np.nan
    k = draw(1, 1, 20, 4)
    out = np.array(attention(mx.array(q), k, k))
    assert np.isnan(out[0, 0, 1]).all()
    assert np.isfinite(out[0, 0, [0, 2]]).all()


def test_gradients_of_long_grouped_heads_equal_those_of_the_formula() -> None:
    q, k, v = (draw(*s, dtype="float64") for s in ((2, 4, 150, 8), (2, 2, 300, 8), (2, 2, 300, 6)))
    g = draw(2, 4, 150, 6, dtype="float64")

    def formula(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
        k, v = mx.repeat(k, 2, 1), mx.repeat(v, 2, 1)
        scores = 0.5 * q @ k.swapaxes(-1, -2)
        seen = mx.arange(150)[:, None] + 150 >= mx.arange(300)
        return mx.softmax(mx.where(seen, scores, -mx.inf), -1) @ v

    got = mx.vjp(lambda *a: [attention(*a, mask="causal")], [q, k, v], [g])[1]
    want = mx.vjp(lambda *a: [formula(*a)], [q, k, v], [g])[1]
    for a, b in zip(got, want, strict=True):
        assert np.allclose(np.array(a), np.array(b), atol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_keep_the_dtype(dtype: str) -> None:
    q = draw(1, 2, 5, 8, dtype=dtype)
    gradients = mx.grad(lambda q, k, v: attention(q, k, v).sum(), (0, 1, 2))(q, q, q)
    assert all(g.dtype == getattr(mx, dtype) for g in gradients)


@pytest.mark.parametrize(
    "options, error",
    [
        ({"mask": "full"}, ValueError),
        ({"mask": mx.ones((5, 3, 3))}, ValueError),
        ({"mask": mx.ones((1, 1, 1, 3, 3))}, ValueError),
        ({"mask": mx.ones((3, 3), dtype=mx.complex64)}, TypeError),
        ({"sinks": mx.ones(3)}, ValueError),
        ({"sinks": mx.ones((1, 2))}, ValueError),
    ],
)
def test_what_does_not_fit_is_refused(options: dict, error: type) -> None:
    q = mx.ones((1, 2, 3, 4))
    with pytest.raises(error):
        attention(q, q, q, **options)


def test_a_mask_wider_than_the_result_is_refused() -> None:
    q = mx.ones((1, 2, 3, 4), dtype=mx.float16)
    with pytest.raises(TypeError, match="float16"):
        attention(q, q, q, mask=mx.ones((3, 3)))
