"""RoPE, SinusoidalPositionalEncoding, ALiBi against their formulas."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx
from mlxc import nn


@pytest.mark.parametrize("traditional", [False, True])
def test_rope_turns_pairs_by_the_position(traditional):
    x = np.random.default_rng(0).standard_normal((2, 3, 5, 8)).astype(np.float32)
    y = np.array(nn.RoPE(6, traditional, base=100, scale=0.5)(mx.array(x), offset=4))
    angles = np.outer((np.arange(5) + 4) * 0.5, 100 ** (-np.arange(0, 6, 2) / 6))
    pairs = [(2 * i, 2 * i + 1) if traditional else (i, i + 3) for i in range(3)]
    want = x.copy()
    for i, (a, b) in enumerate(pairs):
        want[..., a] = x[..., a] * np.cos(angles[:, i]) - x[..., b] * np.sin(angles[:, i])
        want[..., b] = x[..., a] * np.sin(angles[:, i]) + x[..., b] * np.cos(angles[:, i])
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)
    assert repr(nn.RoPE(6, traditional)) == f"RoPE(6, traditional={traditional})"


def test_rope_keeps_no_parameters_and_checks_its_width():
    assert nn.RoPE(8).parameters() == {}
    for dims in (0, 7):
        with pytest.raises(ValueError, match=r"\[RoPE\] dims should be"):
            nn.RoPE(dims)


@pytest.mark.parametrize("options", [{}, {"cos_first": True}, {"full_turns": True}, {"scale": 1.0}, {"scale": 3.0}])
def test_sinusoidal_encoding(options):
    layer = nn.SinusoidalPositionalEncoding(8, min_freq=0.01, max_freq=10, **options)
    x = np.array([[0.0, 1.0, 2.5]], np.float32)
    sigmas = np.geomspace(10, 0.01, 4) * (2 * np.pi if options.get("full_turns") else 1)
    angles = x[..., None] * sigmas
    parts = [np.cos(angles), np.sin(angles)] if options.get("cos_first") else [np.sin(angles), np.cos(angles)]
    want = np.concatenate(parts, -1) * options.get("scale", 0.5)
    np.testing.assert_allclose(np.array(layer(mx.array(x))), want, rtol=1e-4, atol=1e-4)
    assert layer.parameters() == {}


def test_sinusoidal_encoding_with_one_frequency_or_an_odd_width():
    assert nn.SinusoidalPositionalEncoding(2, scale=1)(mx.array([0.5])).tolist()[0] == pytest.approx(
        [np.sin(0.5), np.cos(0.5)], rel=1e-6
    )
    for dims in (0, 7):
        with pytest.raises(ValueError, match="SinusoidalPositionalEncoding"):
            nn.SinusoidalPositionalEncoding(dims)


def test_alibi_slopes_are_those_of_the_paper():
    assert nn.ALiBi.create_alibi_slope(8).reshape(-1).tolist() == [2.0**-i for i in range(1, 9)]
    assert nn.ALiBi.create_alibi_slope(6).reshape(-1).tolist() == [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]
    assert nn.ALiBi.create_alibi_slope(1, mx.float16).dtype == mx.float16
    with pytest.raises(ValueError, match="num_heads"):
        nn.ALiBi.create_alibi_slope(0)


def test_alibi_subtracts_the_distance():
    matrix = nn.ALiBi.create_alibi_matrix(5, 4, 2, offset=2)
    slopes = np.array([2.0**-4, 2.0**-8])[:, None, None]
    want = -np.abs(np.arange(2, 5)[:, None] - np.arange(4)) * slopes
    np.testing.assert_array_equal(np.array(matrix), want[None].astype(np.float32))
    scores = mx.ones((3, 2, 3, 4), dtype=mx.float16)
    layer = nn.ALiBi()
    out = layer(scores, offset=2)
    assert out.dtype == mx.float16
    np.testing.assert_allclose(np.array(out), np.broadcast_to(1 + want, (3, 2, 3, 4)), rtol=1e-3)
    mask = mx.array([[0.0, 0, 0, 5]] * 3)
    np.testing.assert_allclose(np.array(layer(scores[0], 2, mask)), 1 + want + np.array(mask), rtol=1e-3)
