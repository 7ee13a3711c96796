"""Dropout: what is zero, what the rest is multiplied by, when, and with which random numbers."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx
from mlxc import nn


def test_dropout_zeroes_a_share_and_scales_the_rest():
    mx.random.seed(1)
    y = np.array(nn.Dropout(0.25)(mx.ones(40000)))
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y == 0).mean() - 0.25) < 0.01


def test_the_mask_is_a_bernoulli_draw_of_the_input_shape():
    x = mx.arange(12.0).reshape(3, 4)
    mx.random.seed(7)
    y = nn.Dropout(0.5)(x)
    mx.random.seed(7)
    assert mx.array_equal(y, x * mx.random.bernoulli(0.5, (3, 4)) * 2).item()


@pytest.mark.parametrize(
    ("layer", "shape", "axes"),
    [
        (nn.Dropout2d(0.5), (4, 3, 3, 50), (1, 2)),
        (nn.Dropout2d(0.5), (3, 3, 50), (0, 1)),
        (nn.Dropout3d(0.5), (4, 2, 3, 3, 50), (1, 2, 3)),
        (nn.Dropout3d(0.5), (2, 3, 3, 50), (0, 1, 2)),
    ],
)
def test_whole_channels_are_dropped(layer, shape, axes):
    mx.random.seed(2)
    y = np.array(layer(mx.ones(shape)))
    assert (y.min(axes) == y.max(axes)).all() and set(np.unique(y)) == {0.0, 2.0}


@pytest.mark.parametrize("layer", [nn.Dropout, nn.Dropout2d, nn.Dropout3d])
def test_nothing_happens_outside_training_or_with_p_0(layer):
    x = mx.ones((2, 2, 2, 2))
    assert layer(0.5).eval()(x) is x and layer(0)(x) is x
    assert repr(layer(0.1)) == f"{layer.__name__}(p=0.1)"
    assert layer(0.5)(x.astype(mx.float16)).dtype == mx.float16
    for p in (-0.1, 1, 1.5):
        with pytest.raises(ValueError, match=rf"\[{layer.__name__}\] the dropout probability {p} is not in \[0, 1\)"):
            layer(p)


def test_channel_dropout_takes_images_and_volumes_only():
    for layer, shape in ((nn.Dropout2d(), (2, 2)), (nn.Dropout2d().eval(), (1,) * 5), (nn.Dropout3d(), (2, 2, 2))):
        with pytest.raises(ValueError, match=rf"Received input with {len(shape)} dimensions. Expected"):
            layer(mx.ones(shape))


def test_the_gradient_has_the_same_mask():
    layer = nn.Dropout(0.5)
    mx.random.seed(3)
    g = mx.grad(lambda x: layer(x).sum())(mx.ones(100))
    mx.random.seed(3)
    assert mx.array_equal(g, layer(mx.ones(100))).item()


def test_a_compiled_function_draws_anew_each_time():
    layer = nn.Dropout(0.5)
    f = mx.compile(layer, inputs=mx.random.state, outputs=mx.random.state)
    mx.random.seed(3)
    a, b = f(mx.ones(100)), f(mx.ones(100))
    assert not mx.array_equal(a, b).item()
    mx.random.seed(3)
    assert mx.array_equal(layer(mx.ones(100)), a).item()
