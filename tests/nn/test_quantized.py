"""Quantised layers and nn.quantize: the same codes as mx.quantize gives, what is frozen, which layers are exchanged."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import mlxc as mx
from mlxc import nn
from mlxc.utils import tree_flatten

MODES = {"affine": (64, 4), "mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}


def random(*shape: int, seed: int = 0) -> mx.array:
    return mx.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def names(tree) -> list[str]:
    return [path for path, _ in tree_flatten(tree)]


@pytest.mark.parametrize("mode", MODES)
def test_quantized_linear_multiplies_by_the_dequantised_weight(mode):
    group, bits = MODES[mode]
    linear, x = nn.Linear(128, 6), random(3, 128)
    layer = linear.to_quantized(mode=mode)
    assert type(layer) is nn.QuantizedLinear and (layer.group_size, layer.bits, layer.mode) == (group, bits, mode)
    assert (
        repr(layer) == f"QuantizedLinear(input_dims=128, output_dims=6, bias=True, group_size={group}, bits={bits}, "
        f"mode={mode})"
    )
    packed = mx.quantize(linear.weight, group, bits, mode)
    assert all(mx.array_equal(layer[name], a).item() for name, a in zip(("weight", "scales", "biases"), packed))  # noqa: B905
    weight = mx.dequantize(*packed, group_size=group, bits=bits, mode=mode, dtype=mx.float32)
    np.testing.assert_allclose(np.array(layer(x)), np.array(x @ weight.T + linear.bias), rtol=1e-4, atol=1e-5)
    assert names(layer.trainable_parameters()) == []
    assert (layer.biases is None) == (mode != "affine")


def test_a_new_quantized_linear_has_the_weight_that_linear_begins_with():
    mx.random.seed(3)
    layer = nn.QuantizedLinear(64, 4, group_size=32, bits=8)
    mx.random.seed(3)
    want = mx.quantize(nn.Linear(64, 4).weight, 32, 8)
    assert mx.array_equal(layer.weight, want[0]).item() and layer.bias.tolist() == [0.0] * 4
    assert "bias" not in nn.QuantizedLinear(64, 4, bias=False)


@pytest.mark.parametrize("mode", MODES)
def test_quantized_embedding_looks_up_dequantised_rows(mode):
    group, bits = MODES[mode]
    embedding = nn.Embedding(9, 64)
    layer = embedding.to_quantized(mode=mode)
    assert repr(layer) == f"QuantizedEmbedding(9, 64, group_size={group}, bits={bits}, mode={mode})"
    table = mx.dequantize(*mx.quantize(embedding.weight, group, bits, mode), group_size=group, bits=bits, mode=mode)
    for ids in (mx.array([[1, 8]]), mx.array([3]), mx.array(2)):
        got = layer(ids)
        assert got.dtype == table.dtype and mx.array_equal(got, table[ids]).item()
    x = random(2, 64)
    want = np.array(x) @ np.array(table.astype(mx.float32)).T
    np.testing.assert_allclose(np.array(layer.as_linear(x)), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(IndexError):
        mx.eval(layer(mx.array([9])))


def test_unfreeze_leaves_what_is_packed_frozen():
    layer = nn.QuantizedLinear(64, 4)
    model = nn.Sequential(layer)
    for m in (layer, model):
        m.unfreeze()
        assert names(layer.trainable_parameters()) == ["scales", "biases", "bias"]
        m.unfreeze(keys="weight")
        assert "weight" not in layer.trainable_parameters()
        m.freeze()
        assert names(layer.trainable_parameters()) == []
    assert names(nn.QuantizedLinear(64, 4, mode="nvfp4").unfreeze().trainable_parameters()) == ["bias"]


def test_gradients_reach_scales_biases_bias_and_input():
    layer, x = nn.QuantizedLinear(64, 3).unfreeze(), random(2, 64)
    _, grads = nn.value_and_grad(layer, lambda x: (layer(x) * mx.arange(3.0)).sum())(x)
    codes = mx.dequantize(layer.weight, mx.ones_like(layer.scales), mx.zeros_like(layer.biases), 64, 4)
    column = np.arange(3)[:, None]
    np.testing.assert_allclose(
        np.array(grads["scales"]), column * (np.array(codes) @ np.array(x.sum(0)))[:, None], rtol=1e-4, atol=1e-3
    )
    np.testing.assert_allclose(np.array(grads["biases"]), column * np.array(x).sum(), rtol=1e-4, atol=1e-4)
    assert grads["bias"].tolist() == [0.0, 2.0, 4.0]


@pytest.mark.parametrize("mode", ["nvfp4", "mxfp8"])
def test_qq_linear_is_trained_unpacked_and_used_packed(mode):
    layer, x = nn.QQLinear(64, 6, mode=mode), random(3, 64)
    y, weight = layer(x), layer.weight
    assert weight.dtype == mx.float32 and names(layer.trainable_parameters()) == ["weight"]
    layer.eval()
    assert names(layer.parameters()) == ["weight", "scales"] and names(layer.trainable_parameters()) == []
    assert repr(layer).startswith("QQLinear(input_dims=64, output_dims=6, group_size=")
    np.testing.assert_allclose(np.array(layer(x)), np.array(y), rtol=1e-5, atol=1e-5)
    assert layer.unfreeze().trainable_parameters() == {}
    layer.train()
    assert layer.weight.dtype == mx.float32 and names(layer.trainable_parameters()) == ["weight"]
    rounded = mx.dequantize(*mx.quantize(weight, mode=mode), mode=mode, dtype=mx.float32)
    assert mx.array_equal(layer.weight, rounded).item()
    np.testing.assert_allclose(np.array(layer(x)), np.array(y), rtol=1e-5, atol=1e-5)
    layer.freeze().eval().train()
    assert names(layer.trainable_parameters()) == []


def test_qq_linear_of_a_linear_with_and_without_bias():
    x = random(2, 32)
    for bias in (True, False):
        linear = nn.Linear(32, 4, bias=bias).eval()
        layer = linear.to_quantized(mode="mxfp8", quantize_input=True)
        assert type(layer) is nn.QQLinear and not layer.training and layer.weight.dtype == mx.uint32
        plain = mx.qqmm(x, linear.weight, mode="mxfp8")
        want = plain + linear.bias if bias else plain
        np.testing.assert_allclose(np.array(layer(x)), np.array(want), rtol=1e-5, atol=1e-5)
    assert nn.Linear(32, 4).to_quantized(mode="mxfp8", quantize_input=True).weight.dtype == mx.float32


def test_gradients_reach_the_weight_of_qq_linear():
    layer, x = nn.QQLinear(32, 2), random(3, 32)
    _, grads = nn.value_and_grad(layer, lambda x: layer(x).sum())(x)
    assert grads["weight"].shape == (2, 32) and float(mx.abs(grads["weight"]).max()) > 0


def make() -> nn.Sequential:
    return nn.Sequential(nn.Embedding(8, 64), nn.Linear(64, 64), nn.LayerNorm(64), nn.Linear(64, 8, bias=False))


def kinds(model) -> list[str]:
    return [type(layer).__name__ for layer in model.layers]


def test_quantize_exchanges_what_can_be_quantised():
    model = make()
    assert nn.quantize(model) is None
    assert kinds(model) == ["QuantizedEmbedding", "QuantizedLinear", "LayerNorm", "QuantizedLinear"]
    again = [id(layer) for layer in model.layers]
    nn.quantize(model)
    assert [id(layer) for layer in model.layers] == again
    deep = nn.Sequential(nn.Sequential(nn.Linear(32, 2)))
    nn.quantize(deep, 32, 8)
    assert deep.layers[0].layers[0].bits == 8


def test_quantize_asks_the_predicate_for_each_leaf():
    model, seen = make(), []

    def choose(path, layer):
        seen.append((path, type(layer).__name__))
        return {"layers.1": {"group_size": 32, "bits": 2}, "layers.3": True}.get(path, False)

    nn.quantize(model, 64, 8, class_predicate=choose)
    assert seen == [(f"layers.{i}", name) for i, name in enumerate(kinds(make()))]
    assert kinds(model) == ["Embedding", "QuantizedLinear", "LayerNorm", "QuantizedLinear"]
    assert [(m.group_size, m.bits) for m in (model.layers[1], model.layers[3])] == [(32, 2), (64, 8)]


def test_quantize_with_inputs():
    model = nn.Sequential(nn.Linear(64, 32, bias=False), nn.LayerNorm(32))
    nn.quantize(model, mode="nvfp4", quantize_input=True)
    assert kinds(model) == ["QQLinear", "LayerNorm"]
    assert model(random(2, 64)).shape == (2, 32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"class_predicate": lambda path, layer: True}, "Unable to quantize layers.2 of type LayerNorm"),
        ({"class_predicate": lambda path, layer: 5}, "must return a bool or a dict.*layers.0 it returned int"),
        ({"mode": "nvfp4", "quantize_input": True}, "layers.0.*Quantized input is not supported"),
        ({"mode": "foo"}, "Invalid quantization mode 'foo'. Valid modes are: affine, mxfp4, nvfp4, mxfp8"),
        ({"group_size": 128}, "layers.0"),
        ({"bits": 7}, "layers.0"),
    ],
)
def test_a_model_that_cannot_be_quantised_so_stays_as_it_is(options, message):
    model = make()
    before = [id(layer) for layer in model.layers]
    with pytest.raises(ValueError, match=message):
        nn.quantize(model, **options)
    assert [id(layer) for layer in model.layers] == before


def test_other_errors():
    with pytest.raises(TypeError, match="model is a Module, got int"):
        nn.quantize(3)
    with pytest.raises(ValueError, match=r"only supported for 'nvfp4' and 'mxfp8' modes, got affine"):
        nn.QQLinear(64, 8, mode="affine")
    with pytest.raises(ValueError, match=r"\[QQLinear\] input_dims should be a multiple"):
        nn.QQLinear(60, 8)
    with pytest.raises(ValueError, match=r"\[QuantizedLinear\] .* size 64, got shape \(2, 32\)"):
        nn.QuantizedLinear(64, 8)(mx.ones((2, 32)))


@pytest.mark.parametrize("mode", MODES)
def test_quantised_models_are_saved_copied_and_cast(mode, tmp_path):
    def build() -> nn.Module:
        return nn.Sequential(nn.QuantizedEmbedding(8, 64, mode=mode), nn.QuantizedLinear(64, 8, mode=mode))

    model, x = build(), mx.arange(8)
    y = model(x)
    model.save_weights(tmp_path / "q.safetensors")
    loaded = build().load_weights(tmp_path / "q.safetensors")
    for same in (loaded, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert mx.array_equal(same(x), y).item() and repr(same) == repr(model)
    model.set_dtype(mx.float16)
    assert model.layers[1].weight.dtype == mx.uint32 and model.layers[1].bias.dtype == mx.float16


def test_qq_linear_is_copied_in_both_states():
    for layer in (nn.QQLinear(32, 4), nn.QQLinear(32, 4).eval()):
        for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert repr(other) == repr(layer)
            assert mx.array_equal(other(mx.ones((1, 32))), layer(mx.ones((1, 32)))).item()
            assert other.train().weight.dtype == mx.float32


def test_quantising_takes_one_key_a_layer_so_that_what_is_drawn_next_is_what_mlx_draws():
    model = nn.Sequential(nn.Embedding(8, 64), nn.Linear(64, 64), nn.LayerNorm(64))
    mx.random.seed(3)
    nn.quantize(model)
    after = mx.random.uniform(shape=(2,))
    mx.random.seed(3)
    for _ in range(2):
        mx.random.normal((1,))
    assert mx.array_equal(after, mx.random.uniform(shape=(2,))).item()
