"""Linear, Bilinear, Embedding, LayerNorm, RMSNorm, Sequential, Identity: values, initial values, errors."""

from __future__ import annotations

import numpy as np
import pytest

import mlxc as mx
from mlxc import nn


def random(*shape: int, seed: int = 0) -> mx.array:
    return mx.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def test_initial_values_use_one_key_an_array_in_order():
    mx.random.seed(5)
    layer = nn.Linear(4, 3)
    mx.random.seed(5)
    assert mx.array_equal(layer.weight, mx.random.uniform(-0.5, 0.5, (3, 4))).item()
    assert mx.array_equal(layer.bias, mx.random.uniform(-0.5, 0.5, (3,))).item()
    mx.random.seed(5)
    layer = nn.Bilinear(4, 2, 3)
    mx.random.seed(5)
    assert mx.array_equal(layer.weight, mx.random.uniform(-0.5, 0.5, (3, 2, 4))).item()
    assert mx.array_equal(layer.bias, mx.random.uniform(-0.5, 0.5, (3,))).item()
    mx.random.seed(5)
    layer = nn.Embedding(10, 4)
    mx.random.seed(5)
    assert mx.array_equal(layer.weight, mx.random.normal((10, 4), scale=0.5)).item()


def test_linear():
    layer, x = nn.Linear(5, 3), random(2, 7, 5)
    want = np.array(x) @ np.array(layer.weight).T
    np.testing.assert_allclose(np.array(layer(x)), want + np.array(layer.bias), rtol=1e-5, atol=1e-6)
    del layer.bias
    np.testing.assert_allclose(np.array(layer(x)), want, rtol=1e-5, atol=1e-6)
    assert layer(mx.zeros(5)).shape == (3,) and layer(mx.zeros((0, 5))).shape == (0, 3)
    assert repr(nn.Linear(5, 3, bias=False)) == "Linear(input_dims=5, output_dims=3, bias=False)"
    layer.set_dtype(mx.float16)
    assert layer(x.astype(mx.float16)).dtype == mx.float16


def test_bilinear():
    layer, a, b = nn.Bilinear(5, 4, 3), random(2, 7, 5), random(2, 7, 4, seed=1)
    want = np.einsum("...j,ijk,...k->...i", np.array(b), np.array(layer.weight), np.array(a)) + np.array(layer.bias)
    np.testing.assert_allclose(np.array(layer(a, b)), want, rtol=1e-5, atol=1e-5)
    assert layer(a, b[0]).shape == (2, 7, 3) and layer(a[0, 0], b[0, 0]).shape == (3,)
    assert repr(layer) == "Bilinear(input1_dims=5, input2_dims=4, output_dims=3, bias=True)"
    assert "bias" not in nn.Bilinear(1, 1, 1, bias=False)


def test_embedding():
    layer = nn.Embedding(6, 4)
    assert repr(layer) == "Embedding(6, 4)"
    assert mx.array_equal(layer(mx.array([[5, 0]])), layer.weight[mx.array([[5, 0]])]).item()
    assert layer(2).shape == (4,) and layer([1, 2]).shape == (2, 4)
    np.testing.assert_allclose(
        np.array(layer.as_linear(mx.ones((2, 4)))), np.array(layer.weight).sum(1)[None].repeat(2, 0), rtol=1e-5
    )
    with pytest.raises(IndexError):
        mx.eval(layer(mx.array([6])))


def test_layer_norm():
    x = random(3, 8) * 3 + 2
    n = np.array(x, np.float64)
    want = (n - n.mean(-1, keepdims=True)) / np.sqrt(n.var(-1, keepdims=True) + 1e-5)
    layer = nn.LayerNorm(8)
    np.testing.assert_allclose(np.array(layer(x)), want, rtol=1e-5, atol=1e-5)
    layer.weight, layer.bias = random(8, seed=2), random(8, seed=3)
    np.testing.assert_allclose(
        np.array(layer(x)), want * np.array(layer.weight) + np.array(layer.bias), rtol=1e-5, atol=1e-5
    )
    assert list(nn.LayerNorm(8, bias=False)) == ["weight"] and list(nn.LayerNorm(8, affine=False)) == []
    assert repr(nn.LayerNorm(8, affine=False)) == "LayerNorm(8, eps=1e-05, affine=False)"
    np.testing.assert_allclose(np.array(nn.LayerNorm(8, affine=False)(x)), want, rtol=1e-5, atol=1e-5)


def test_rms_norm():
    layer, x = nn.RMSNorm(8, eps=1e-3), random(3, 8)
    layer.weight = random(8, seed=2)
    n = np.array(x, np.float64)
    want = n / np.sqrt((n**2).mean(-1, keepdims=True) + 1e-3) * np.array(layer.weight)
    np.testing.assert_allclose(np.array(layer(x)), want, rtol=1e-5, atol=1e-6)
    assert repr(layer) == "RMSNorm(8, eps=0.001)"


def test_sequential_calls_modules_and_functions():
    a, b = nn.Linear(2, 3), nn.Linear(3, 1)
    model, x = nn.Sequential(a, mx.tanh, b, lambda y: y * 2), random(4, 2)
    assert mx.array_equal(model(x), b(mx.tanh(a(x))) * 2).item()
    assert model.layers[1] is mx.tanh
    assert nn.Sequential()(x) is x and nn.Identity(3, y=4)(x) is x


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.Linear(0, 3), ValueError, r"\[Linear\] input_dims should be at least 1, got 0"),
        (lambda: nn.Linear(2, -1), ValueError, r"\[Linear\] output_dims"),
        (lambda: nn.Linear(2.5, 1), TypeError, r"\[Linear\] input_dims should be an int, got float"),
        (lambda: nn.Bilinear(0, 1, 1), ValueError, r"\[Bilinear\] input1_dims"),
        (lambda: nn.Embedding(3, 0), ValueError, r"\[Embedding\] dims"),
        (lambda: nn.RMSNorm(0), ValueError, r"\[RMSNorm\] dims"),
        (lambda: nn.Linear(2, 3)(mx.ones((5, 4))), ValueError, r"\[Linear\] .* size 2, got shape \(5, 4\)"),
        (lambda: nn.Linear(2, 3)(mx.array(1.0)), ValueError, r"\[Linear\] .* got shape \(\)"),
        (lambda: nn.Bilinear(2, 3, 1)(mx.ones(2), mx.ones(2)), ValueError, r"\[Bilinear\] .* size 3"),
        (lambda: nn.Embedding(2, 3).as_linear(mx.ones(2)), ValueError, r"\[Embedding.as_linear\] .* size 3"),
        (lambda: nn.LayerNorm(3)(mx.ones(2)), ValueError, r"\[LayerNorm\] .* size 3"),
        (lambda: nn.RMSNorm(3)(mx.ones(2)), ValueError, r"\[RMSNorm\] .* size 3"),
        (lambda: nn.Embedding(3, 2)(mx.array([1.0])), (TypeError, IndexError), "float32"),
    ],
)
def test_bad_arguments_are_named(call, error, message):
    with pytest.raises(error, match=message):
        mx.eval(call())
