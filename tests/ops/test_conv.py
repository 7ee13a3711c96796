"""Convolutions and their gradients, of sizes that fit no block and in layouts of every kind."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mlxc as mx


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape)


def convolve(x: np.ndarray, w: np.ndarray, case: tuple) -> np.ndarray:
    """conv_general of two spatial axes by its definition, in float64."""
    stride, padding, kernel_dilation, input_dilation, groups, flip = case
    n, h, width, channels = x.shape
    spread = np.zeros((n, (h - 1) * input_dilation + 1, (width - 1) * input_dilation + 1, channels))
    spread[:, ::input_dilation, ::input_dilation] = x
    spread = np.pad(spread, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    filters, kh, kw, depth = w.shape
    w = w[:, ::-1, ::-1] if flip else w
    out_h = (spread.shape[1] - (kh - 1) * kernel_dilation - 1) // stride + 1
    out_w = (spread.shape[2] - (kw - 1) * kernel_dilation - 1) // stride + 1
    out = np.zeros((n, out_h, out_w, filters))
    per = filters // groups
    for i, j, group in itertools.product(range(kh), range(kw), range(groups)):
        y0, x0 = i * kernel_dilation, j * kernel_dilation
        part = spread[:, y0 : y0 + out_h * stride : stride, x0 : x0 + out_w * stride : stride]
        part = part[:, :out_h, :out_w, group * depth : (group + 1) * depth]
        out[..., group * per : (group + 1) * per] += part @ w[group * per : (group + 1) * per, i, j].T
    return out


CASES = [
    # stride, padding, kernel dilation, input dilation, groups, flip
    (1, 1, 1, 1, 1, False),
    (2, 1, 1, 1, 1, False),
    (3, 2, 2, 1, 1, False),
    (2, 0, 1, 1, 2, True),
    (1, 2, 1, 2, 1, False),
    (1, 3, 2, 3, 1, True),
    (1, 1, 1, 2, 5, False),
    (2, 1, 1, 2, 1, False),
]


@pytest.mark.parametrize("kernel", [(3, 3), (2, 5), (1, 4)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_convolution_equals_its_definition(case: tuple, kernel: tuple[int, int]) -> None:
    stride, padding, kernel_dilation, input_dilation, groups, flip = case
    x, w = draw(3, 13, 11, 10), draw(20, *kernel, 10 // groups)
    inputs = mx.array(x, mx.float64), mx.array(w, mx.float64)
    got = mx.conv_general(*inputs, stride, padding, kernel_dilation, input_dilation, groups, flip)
    np.testing.assert_allclose(np.array(got), convolve(x, w, case), rtol=0, atol=2e-12)


@pytest.mark.parametrize("dtype, atol", [(mx.float64, 1e-10), (mx.float32, 5e-4), (mx.float16, 0.5)])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_equal_those_by_the_definition(case: tuple, dtype: mx.Dtype, atol: float) -> None:
    stride, padding, kernel_dilation, input_dilation, groups, flip = case
    x, w = draw(5, 13, 11, 10), draw(20, 3, 2, 10 // groups)
    out = convolve(x, w, case)
    g = draw(*out.shape)

    def total(x: mx.array, w: mx.array) -> mx.array:
        made = mx.conv_general(x, w, stride, padding, kernel_dilation, input_dilation, groups, flip)
        return mx.sum(made * mx.array(g, dtype))

    dx, dw = mx.grad(total, argnums=(0, 1))(mx.array(x, dtype), mx.array(w, dtype))
    # The output is linear in each: its change along a direction is the gradient's product with it.
    for grad, make, like in ((dx, lambda d: convolve(d, w, case), x), (dw, lambda d: convolve(x, d, case), w)):
        assert grad.dtype == dtype
        direction = np.random.default_rng(1).standard_normal(like.shape)
        want = (make(direction) * g).sum()
        got = (np.array(grad.astype(mx.float64)) * direction).sum()
        assert abs(got - want) <= atol * max(1.0, np.abs(direction).sum() ** 0.5)


@pytest.mark.parametrize("channels, filters, size", [(3, 33, 40), (17, 5, 31), (64, 1, 9)])
def test_the_gradient_of_a_weight_sums_over_many_positions(channels: int, filters: int, size: int) -> None:
    x, w = draw(7, size, size, channels), draw(filters, 3, 3, channels)
    g = draw(7, size, size, filters)
    grad = mx.grad(lambda w: mx.sum(mx.conv2d(mx.array(x, mx.float32), w, padding=1) * mx.array(g, mx.float32)))
    got = np.array(grad(mx.array(w, mx.float32)))
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    for i, j in itertools.product(range(3), range(3)):
        want = np.einsum("nyxc,nyxo->oc", padded[:, i : i + size, j : j + size], g)
        np.testing.assert_allclose(got[:, i, j], want, rtol=1e-5, atol=1e-3)


def test_gradients_of_one_and_three_spatial_axes() -> None:
    for spatial, stride in (((29,), 2), ((5, 6, 7), 2), ((5, 6, 7), 1)):
        x, w = draw(2, *spatial, 4), draw(6, *(3,) * len(spatial), 4)
        conv = mx.conv1d if len(spatial) == 1 else mx.conv3d
        total = lambda x, w, conv=conv, stride=stride: mx.sum(mx.square(conv(x, w, stride=stride, padding=1)))  # noqa: E731
        dx, dw = mx.grad(total, argnums=(0, 1))(mx.array(x, mx.float64), mx.array(w, mx.float64))
        for place, grad in ((0, dx), (1, dw)):
            step = draw(*grad.shape) * 1e-4
            sides = [[x, w], [x, w]]
            sides[0][place], sides[1][place] = sides[0][place] + step, sides[1][place] - step
            high, low = (total(mx.array(a, mx.float64), mx.array(b, mx.float64)).item() for a, b in sides)
            assert (np.array(grad) * step).sum() == pytest.approx((high - low) / 2, rel=1e-6)
