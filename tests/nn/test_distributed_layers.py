"""Layers and gradients over a group: with one process, and with two that are acted by threads."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import mlxc as mx
from mlxc import nn
from mlxc.nn.layers.distributed import shard_inplace, shard_linear, sum_gradients
from mlxc.utils import tree_flatten

from .group_of_two import Actor, run_as_two

KINDS = ("all-to-sharded", "sharded-to-all")


def random(*shape: int, seed: int = 0) -> mx.array:
    return mx.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def numbered(outputs: int, inputs: int) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    layer.weight = mx.arange(outputs * inputs, dtype=mx.float32).reshape(outputs, inputs)
    layer.bias = mx.arange(outputs, dtype=mx.float32)
    return layer


def close(a, b, rtol=1e-5) -> None:
    np.testing.assert_allclose(np.array(a), np.array(b), rtol=rtol, atol=1e-5)


# ---- one process ----


@pytest.mark.parametrize("kind", KINDS)
def test_in_a_group_of_one_a_sharded_layer_is_the_layer(kind):
    linear, x = nn.Linear(64, 8), random(3, 64)
    layer = shard_linear(linear, kind)
    assert repr(layer) == f"{type(layer).__name__}(input_dims=64, output_dims=8, bias=True)"
    close(layer(x), linear(x))
    quantized = linear.to_quantized()
    packed = shard_linear(quantized, kind)
    assert repr(packed) == repr(quantized).replace("QuantizedLinear", type(packed).__name__)
    close(packed(x), quantized(x))
    assert packed.trainable_parameters() == {} and packed.unfreeze().trainable_parameters() == {}
    for one in (layer, packed):
        for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
            close(other(x), one(x))


@pytest.mark.parametrize("make", [nn.AllToShardedLinear, nn.ShardedToAllLinear])
def test_a_new_sharded_layer_begins_as_linear_does(make):
    for bias in (True, False):
        mx.random.seed(1)
        layer = make(6, 4, bias)
        mx.random.seed(1)
        want = nn.Linear(6, 4, bias).parameters()
        assert {k: v.tolist() for k, v in layer.parameters().items()} == {k: v.tolist() for k, v in want.items()}


def test_in_a_group_of_one_nothing_is_exchanged():
    x, group = mx.ones(2), mx.distributed.init()
    assert sum_gradients(group)(x) is x and sum_gradients(group) is sum_gradients(group)
    model = nn.Linear(2, 2)
    assert nn.fully_shard(model) is model
    grads = {"w": [mx.ones(2)]}
    assert nn.average_gradients(grads) is grads
    wrapped = nn.FullyShardedModule(model)
    close(wrapped(x), model(x))
    assert [path for path, _ in tree_flatten(wrapped.trainable_parameters())] == ["module.weight", "module.bias"]


def test_the_compute_dtype_is_that_of_the_call_only():
    wrapped = nn.FullyShardedModule(nn.Embedding(4, 2), compute_dtype=mx.float16)
    assert wrapped(mx.array([1])).dtype == mx.float16
    assert wrapped.module.weight.dtype == mx.float32
    assert wrapped.as_linear(mx.ones((1, 2), dtype=mx.float16)).dtype == mx.float16


# ---- the part of one of two ----


@pytest.mark.parametrize(
    ("segments", "rows"),
    [
        (1, [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]),
        (3, [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]]),
        ([4, 8], [[0, 1, 4, 5, 8, 9], [2, 3, 6, 7, 10, 11]]),
        ([0.5], [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11]]),
    ],
)
def test_the_outputs_are_cut_segment_by_segment(segments, rows):
    linear = numbered(12, 8)
    for rank in (0, 1):
        layer = shard_linear(linear, "all-to-sharded", segments=segments, group=Actor(rank))
        assert layer.bias.tolist() == rows[rank] and layer.weight[:, 0].tolist() == [8 * row for row in rows[rank]]
        assert repr(layer) == "AllToShardedLinear(input_dims=8, output_dims=12, bias=True)"


@pytest.mark.parametrize(
    ("segments", "columns"), [(1, [[0, 1, 2, 3], [4, 5, 6, 7]]), (2, [[0, 1, 4, 5], [2, 3, 6, 7]]),
                              ([4], [[0, 1, 4, 5], [2, 3, 6, 7]])]
)  # fmt: skip
def test_the_inputs_are_cut_and_the_bias_stays(segments, columns):
    linear = numbered(12, 8)
    for rank in (0, 1):
        layer = shard_linear(linear, "sharded-to-all", segments=segments, group=Actor(rank))
        assert layer.weight[0].tolist() == columns[rank] and layer.bias.tolist() == linear.bias.tolist()
        assert repr(layer) == "ShardedToAllLinear(input_dims=8, output_dims=12, bias=True)"


@pytest.mark.parametrize("mode", ["affine", "mxfp8"])
def test_quantised_weights_are_cut_in_whole_groups(mode):
    linear = nn.Linear(256, 8)
    whole = linear.to_quantized(mode=mode)
    for rank in (0, 1):
        group = Actor(rank)
        outputs = shard_linear(whole, "all-to-sharded", group=group)
        assert mx.array_equal(outputs.weight, whole.weight[4 * rank : 4 * rank + 4]).item()
        assert mx.array_equal(outputs.scales, whole.scales[4 * rank : 4 * rank + 4]).item()
        assert repr(outputs).startswith("QuantizedAllToShardedLinear(input_dims=256, output_dims=8, bias=True")
        inputs = shard_linear(whole, "sharded-to-all", group=group)
        part = nn.Linear(128, 8)
        part.weight, part.bias = linear.weight[:, 128 * rank : 128 * rank + 128], linear.bias
        same = part.to_quantized(mode=mode)
        assert mx.array_equal(inputs.weight, same.weight).item() and mx.array_equal(inputs.scales, same.scales).item()
        half = shard_linear(whole, "sharded-to-all", segments=[128], group=group)
        assert half.weight.shape == inputs.weight.shape
        mx.random.seed(2)
        new = nn.QuantizedAllToShardedLinear(256, 8, group=group)
        mx.random.seed(2)
        close(new.scales, nn.QuantizedLinear(256, 8).scales[4 * rank : 4 * rank + 4])
        assert nn.QuantizedShardedToAllLinear(256, 8, group=group).weight.shape == (8, 16)


def test_shard_inplace_cuts_parameters_by_name_or_by_rule():
    def make() -> nn.Module:
        m = nn.Module()
        m.w, m.bias, m.v = mx.zeros((4, 6, 8)), mx.zeros((4, 6)), mx.zeros((6,))
        return m

    def shapes(m) -> list:
        return [m.w.shape, m.bias.shape, m.v.shape]

    m = make()
    assert shard_inplace(m, "all-to-sharded", group=Actor(0)) is None
    assert shapes(m) == [(4, 3, 8), (4, 3), (3,)]
    m = make()
    shard_inplace(m, "sharded-to-all", group=Actor(0))
    assert shapes(m) == [(4, 6, 4), (4, 6), (3,)]
    m = make()
    shard_inplace(m, lambda path, w: {"w": (1, 3), "bias": 0}.get(path), group=Actor(1))
    assert shapes(m) == [(4, 3, 8), (2, 6), (6,)]
    m = make()
    with pytest.raises(ValueError, match=r"Cannot shard v of shape \(6,\)"):
        shard_inplace(m, lambda path, w: (0, 2), group=Actor(1))
    assert shapes(m) == shapes(make())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: nn.AllToShardedLinear(4, 5, group=g), "Cannot shard the output of size 5 across 2 devices"),
        (lambda g: nn.ShardedToAllLinear(5, 4, group=g), "input of size 5 cannot be sharded across 2 devices"),
        (lambda g: shard_linear(nn.Linear(8, 12), "foo", group=g), "sharding='foo' not supported"),
        (lambda g: shard_linear(nn.Linear(8, 12), "all-to-sharded", segments=5, group=g), "into 5 segments"),
        (lambda g: shard_linear(nn.Linear(8, 12), "all-to-sharded", segments=[3], group=g), "segment 0 to 3 of axis 0"),
        (lambda g: shard_linear(nn.Linear(8, 12), "all-to-sharded", segments=[13], group=g), "not within"),
        (lambda g: shard_linear(nn.QuantizedLinear(64, 8), "sharded-to-all", group=g), "64 inputs in groups of 64"),
        (lambda g: nn.fully_shard(nn.Linear(2, 3), group=g), r"'weight' with shape \(3, 2\) across 2 devices"),
        (lambda g: shard_inplace(nn.Linear(2, 2), lambda path, w: 1, group=g), "bias of shape .* has no axis 1"),
    ],
)
def test_what_cannot_be_cut_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(Actor(0))


def test_other_layers_are_refused():
    with pytest.raises(TypeError, match="Linear or a QuantizedLinear, got LayerNorm"):
        shard_linear(nn.LayerNorm(3), "all-to-sharded")
    with pytest.raises(TypeError, match="module is a Module, got int"):
        nn.FullyShardedModule(3)


# ---- two processes ----


def test_two_processes_compute_what_one_computes(monkeypatch):
    first, second, x = nn.Linear(6, 8), nn.Linear(8, 4), random(3, 6)

    def loss(model, x):
        return (mx.sin(model(x)) * mx.arange(12.0).reshape(3, 4)).sum()

    whole = nn.Sequential(first, mx.tanh, second)
    want_value, want = nn.value_and_grad(whole, lambda x: loss(whole, x))(x)
    want_x = mx.grad(lambda x: loss(whole, x))(x)

    def program(group):
        a, b = (shard_linear(m, kind, group=group) for m, kind in zip((first, second), KINDS, strict=True))
        model = nn.Sequential(a, mx.tanh, b)
        value, grads = nn.value_and_grad(model, lambda x: loss(model, x))(x)
        return value, grads["layers"], mx.grad(lambda x: loss(model, x))(x)

    results, _ = run_as_two(monkeypatch, program)
    for rank, (value, (a, _, b), grad_x) in enumerate(results):
        close(value, want_value)
        close(grad_x, want_x)
        close(a["weight"], mx.split(want["layers"][0]["weight"], 2)[rank])
        close(a["bias"], mx.split(want["layers"][0]["bias"], 2)[rank])
        close(b["weight"], mx.split(want["layers"][2]["weight"], 2, axis=1)[rank])
        close(b["bias"], want["layers"][2]["bias"])


def test_two_processes_with_quantised_layers(monkeypatch):
    first, second, x = nn.Linear(64, 128).to_quantized(), nn.Linear(128, 4).to_quantized(), random(3, 64)

    def program(group):
        a, b = (shard_linear(m, kind, group=group) for m, kind in zip((first, second), KINDS, strict=True))
        return b(mx.tanh(a(x))), mx.grad(lambda x: b(mx.tanh(a(x))).sum())(x)

    results, _ = run_as_two(monkeypatch, program)
    for y, g in results:
        close(y, second(mx.tanh(first(x))))
        close(g, mx.grad(lambda x: second(mx.tanh(first(x))).sum())(x), rtol=1e-4)


def test_a_fully_sharded_module_averages_gradients_and_gives_each_its_part(monkeypatch):
    def make() -> nn.Module:
        model = nn.Sequential(nn.Linear(6, 8), mx.tanh, nn.Linear(8, 2))
        model.layers[2].freeze(keys="weight")
        return model

    whole, batches = make(), [random(3, 6, seed=rank) for rank in range(2)]
    grads = [nn.value_and_grad(whole, lambda x: (whole(x) ** 2).sum())(x)[1] for x in batches]
    mean = {path: (a + dict(tree_flatten(grads[1]))[path]) / 2 for path, a in tree_flatten(grads[0])}

    def program(group):
        model = make()
        model.update(whole.parameters())
        inner = model.layers[0]
        model.layers[0] = nn.fully_shard(inner, group=group)
        sharded = nn.fully_shard(model, group=group)
        shards = {path: value for path, value in tree_flatten(sharded.parameters())}
        y = sharded(batches[group.rank()])
        _, grads = nn.value_and_grad(sharded, lambda x: (sharded(x) ** 2).sum())(batches[group.rank()])
        same = all(value is shards[path] for path, value in tree_flatten(sharded.parameters()))
        return y, {k.replace("module.", ""): v for k, v in tree_flatten(grads)}, shards, same, repr(sharded)

    results, _ = run_as_two(monkeypatch, program)
    for rank, (y, got, shards, same, text) in enumerate(results):
        close(y, whole(batches[rank]))
        assert same and set(got) == set(mean)
        for path, value in got.items():
            close(value, mx.split(mean[path], 2)[rank])
        assert shards["module.layers.0.module.weight"].shape == (4, 6)
        assert text.count("num_sharded_params=2") == 2


@pytest.mark.parametrize("size", [32 * 1024**2, 20, 0])
def test_average_gradients_sends_small_arrays_together(monkeypatch, size):
    def program(group):
        r = group.rank()
        tree = {"a": mx.ones((2, 2)) * r, "b": [mx.array([1, 2]), mx.ones(3) * r], "c": mx.array([r], dtype=mx.float16)}
        return nn.average_gradients(tree, group, size)

    results, exchange = run_as_two(monkeypatch, program)
    for tree in results:
        assert tree["a"].tolist() == [[0.5, 0.5], [0.5, 0.5]] and tree["b"][1].tolist() == [0.5] * 3
        assert tree["b"][0].tolist() == [1, 2] and tree["b"][0].dtype == mx.int32
        assert tree["c"].tolist() == [0.5] and tree["c"].dtype == mx.float16
    sent = [shape for _, shape in exchange.calls]
    assert sent == {0: [(2, 2), (2,), (3,), (1,)], 20: [(7,), (2,), (1,)]}.get(size, [(7,), (2,), (1,)])


def test_clip_grad_norm_sharded_uses_the_norm_of_all_parts(monkeypatch):
    def program(group):
        return nn.utils.clip_grad_norm_sharded({"a": mx.array([3.0 + group.rank()])}, 1.0, group)

    results, _ = run_as_two(monkeypatch, program)
    for rank, (tree, norm) in enumerate(results):
        assert norm.item() == 5.0 and tree["a"].item() == pytest.approx((3 + rank) / 5, rel=1e-6)


def test_clip_grad_norm_sharded_alone():
    tree = {"a": mx.array([3.0, 4.0]), "b": mx.array([0.0], dtype=mx.float16)}
    same, norm = nn.utils.clip_grad_norm_sharded(tree, 10.0)
    assert norm.item() == 5.0 and same["a"].tolist() == [3.0, 4.0] and same["b"].dtype == mx.float16
    half, norm = nn.utils.clip_grad_norm_sharded({"a": mx.array([3e4, 4e4], dtype=mx.float16)}, 1.0)
    assert norm.item() == pytest.approx(5e4, rel=1e-3) and half["a"].tolist() == pytest.approx([0.6, 0.8], rel=2e-3)
    assert nn.utils.clip_grad_norm_sharded({}, 1.0)[1].item() == 0.0
