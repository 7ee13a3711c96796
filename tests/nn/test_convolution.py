"""Convolutions, pools and upsampling: arguments, dtypes, empty batches, ties. Values are compared in test_peers.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

import mlxc as mx
from mlxc import nn
from mlxc.nn.layers.upsample import upsample_cubic, upsample_linear, upsample_nearest


def test_convolutions_say_their_arguments():
    assert repr(nn.Conv1d(4, 6, 3, groups=2, bias=False)) == (
        "Conv1d(4, 6, kernel_size=3, stride=1, padding=0, dilation=1, groups=2, bias=False)"
    )
    assert repr(nn.Conv3d(2, 3, 3, dilation=(1, 2, 1))) == (
        "Conv3d(2, 3, kernel_size=(3, 3, 3), stride=(1, 1, 1), padding=(0, 0, 0), dilation=(1, 2, 1), bias=True)"
    )
    assert repr(nn.ConvTranspose2d(4, 6, (3, 5), stride=2, output_padding=1)) == (
        "ConvTranspose2d(4, 6, kernel_size=(3, 5), stride=(2, 2), padding=(0, 0), dilation=1, output_padding=(1, 1), "
        "bias=True)"
    )
    assert repr(nn.MaxPool2d(2, (1, 2))) == "MaxPool2d(kernel_size=(2, 2), stride=(1, 2), padding=(0, 0))"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.Conv2d(4, 6, (3, 3, 3)), r"\[Conv2d\] kernel_size should be an int or 2 of them, got \(3, 3, 3\)"),
        (lambda: nn.Conv2d(4, 6, 3, stride=(1, 2, 3)), r"\[Conv2d\] stride"),
        (lambda: nn.Conv2d(4, 6, 3, padding=(1,)), r"\[Conv2d\] padding"),
        (lambda: nn.Conv1d(4, 6, 3, padding=-1), r"\[Conv1d\] padding should be at least 0"),
        (lambda: nn.Conv1d(4, 6, 0), r"\[Conv1d\] kernel_size should be at least 1"),
        (lambda: nn.Conv1d(4, 6, 3, groups=3), r"\[Conv1d\] .* multiples of groups=3, got 4 and 6"),
        (lambda: nn.Conv1d(4, 6, 3)(mx.zeros((2, 8, 5))), r"\[Conv1d\] .* \(batch, length, 4\), got \(2, 8, 5\)"),
        (lambda: nn.Conv2d(4, 6, 3)(mx.zeros((8, 8, 4))), r"\[Conv2d\] .* \(batch, height, width, 4\)"),
        (lambda: nn.ConvTranspose3d(2, 3, 3, output_padding=(1, 1)), r"\[ConvTranspose3d\] output_padding"),
        (lambda: nn.MaxPool2d(2, padding=(1, 2, 3)), r"\[MaxPool2d\] padding"),
        (lambda: nn.AvgPool1d(0), r"\[AvgPool1d\] kernel_size should be at least 1"),
        (lambda: nn.MaxPool1d(6)(mx.zeros((1, 5, 2))), r"\[MaxPool1d\] a window of \(6,\) does not fit"),
        (lambda: nn.AvgPool2d(2)(mx.zeros((5, 5, 2))), r"\[AvgPool2d\] .* \(batch, height, width, channels\)"),
        (lambda: nn.Upsample(2, mode="sharp"), r"\[Upsample\] mode should be one of .* got 'sharp'"),
        (lambda: nn.Upsample(0), r"\[Upsample\] scale_factor should be positive"),
        (lambda: nn.Upsample(2, antialias=True), r"\[Upsample\] antialias"),
        (lambda: nn.Upsample(2, "linear", True, True), r"\[Upsample\] antialias"),
        (lambda: nn.Upsample(2)(mx.zeros((3, 4))), r"\[Upsample\] .* \(batch, ..., channels\), got \(3, 4\)"),
        (lambda: nn.Upsample((2, 2))(mx.zeros((1, 3, 4))), r"\[Upsample\] .* each axis"),
        (lambda: nn.Upsample(0.1)(mx.zeros((1, 3, 4))), r"\[Upsample\] .* leaves nothing"),
        (lambda: upsample_linear(mx.zeros((1, 3, 4)), (2,), True, True), r"\[upsample_linear\] antialias"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_sizes_are_ints():
    with pytest.raises(TypeError, match=r"\[MaxPool1d\] kernel_size should be an int"):
        nn.MaxPool1d(2.5)
    with pytest.raises(TypeError, match=r"\[Conv2d\] padding should be an int"):
        nn.Conv2d(1, 1, 3, padding="same")


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float64])
def test_floating_dtypes_are_kept(dtype):
    x = mx.random.uniform(shape=(1, 6, 6, 2), key=mx.random.key(0)).astype(dtype)
    layers = [nn.Conv2d(2, 3, 3), nn.ConvTranspose2d(2, 3, 3), nn.MaxPool2d(2), nn.AvgPool2d(3, 1), nn.Upsample(1.5),
              nn.Upsample(2, "linear"), nn.Upsample(0.5, "cubic", antialias=True)]  # fmt: skip
    for layer in layers:
        layer.set_dtype(dtype)
        assert layer(x).dtype == dtype, layer


def test_integers_have_a_largest_value_and_a_mean():
    x = mx.array([[[-5], [-7], [-9], [-4]]])
    assert nn.MaxPool1d(2)(x).tolist() == [[[-5], [-4]]]
    assert nn.MaxPool1d(3, 1, 1)(x).tolist() == [[[-5], [-5], [-4], [-4]]]
    assert nn.AvgPool1d(2)(x).tolist() == [[[-6.0], [-6.5]]]
    assert nn.MaxPool1d(2)(x > -6).tolist() == [[[True], [True]]]


def test_a_mean_of_large_half_precision_values_does_not_overflow():
    assert nn.AvgPool1d(2)(mx.full((1, 4, 1), 60000, dtype=mx.float16)).tolist() == [[[60000.0], [60000.0]]]


def test_equal_largest_values_share_the_gradient():
    grads = mx.grad(lambda x: mx.sum(nn.MaxPool2d(2)(x)))(mx.zeros((1, 2, 2, 1)))
    assert grads.tolist() == [[[[0.25], [0.25]], [[0.25], [0.25]]]]


def test_nan_is_the_largest_value():
    assert math.isnan(nn.MaxPool1d(3)(mx.array([[[1.0], [math.nan], [2.0]]])).item())


def test_empty_batches():
    x = mx.zeros((0, 6, 6, 2))
    for layer in (nn.Conv2d(2, 3, 3), nn.ConvTranspose2d(2, 3, 3), nn.MaxPool2d(2, padding=1), nn.AvgPool2d(3, 1),
                  nn.Upsample(1.5), nn.Upsample(2, "linear"), nn.Upsample(0.5, "cubic")):  # fmt: skip
        assert layer(x).shape[0] == 0


@pytest.mark.parametrize("resize", [upsample_nearest, upsample_linear, upsample_cubic])
def test_resizing_by_one_changes_nothing(resize):
    x = mx.random.normal((1, 5, 4, 2), key=mx.random.key(0))
    assert mx.array_equal(resize(x, (1, 1)), x).item()


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("scale", [0.3, 0.5, 1.4, 2, 3.7])
def test_resizing_keeps_what_is_constant(scale, antialias):
    x = mx.full((1, 12, 9, 1), 2.5)
    for resize in (upsample_linear, upsample_cubic):
        np.testing.assert_allclose(np.array(resize(x, (scale, scale), antialias=antialias)), 2.5, rtol=1e-6)


def test_one_element_can_be_enlarged():
    for mode in ("nearest", "linear", "cubic"):
        assert nn.Upsample(3, mode)(mx.full((1, 1, 1), 4.0)).tolist() == [[[4.0]] * 3]
    assert nn.Upsample(1.5, "linear", align_corners=True)(mx.full((1, 1, 1), 4.0)).tolist() == [[[4.0]]]
