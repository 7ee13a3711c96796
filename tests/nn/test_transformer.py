"""Attention and Transformers: masks, causality, checkpoints, wrong arguments. Values are compared in test_peers.py."""

from __future__ import annotations

import pytest

import mlxc as mx
from mlxc import nn
from mlxc.utils import tree_flatten

X = mx.random.normal((2, 5, 8), key=mx.random.key(0))


def test_the_causal_masks_are_one():
    attention = nn.MultiHeadAttention(8, 2)
    additive = nn.MultiHeadAttention.create_additive_causal_mask(5)
    words = [attention(X, X, X, mask) for mask in ("causal", additive, mx.tril(mx.ones((5, 5), dtype=mx.bool_)))]
    assert all(mx.allclose(words[0], other, atol=1e-6).item() for other in words[1:])
    changed = mx.concatenate([X[:, :3], -X[:, 3:]], axis=1)
    assert mx.allclose(attention(changed, changed, changed, "causal")[:, :3], words[0][:, :3], atol=1e-6).item()


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.float32, mx.float64])
def test_the_additive_mask_is_the_least_number(dtype):
    mask = nn.MultiHeadAttention.create_additive_causal_mask(3, dtype)
    assert mask.dtype == dtype
    least = mx.finfo(dtype).min
    assert mask.astype(mx.float64).tolist() == [[0, least, least], [0, 0, least], [0, 0, 0]]


def test_a_wide_mask_serves_half_precision():
    attention = nn.MultiHeadAttention(8, 2)
    attention.set_dtype(mx.float16)
    x = X.astype(mx.float16)
    out = attention(x, x, x, nn.MultiHeadAttention.create_additive_causal_mask(5))
    assert out.dtype == mx.float16 and mx.all(mx.isfinite(out)).item()
    assert mx.allclose(out, attention(x, x, x, "causal"), atol=1e-3).item()


def test_dims_of_inputs_and_values():
    attention = nn.MultiHeadAttention(8, 2, 3, 4, value_dims=6, value_output_dims=7, bias=True)
    out = attention(mx.ones((2, 5, 3)), mx.ones((2, 9, 4)), mx.ones((2, 9, 4)))
    assert out.shape == (2, 5, 7)
    assert sorted(name for name, _ in tree_flatten(attention.parameters()) if "value" in name) == [
        "value_proj.bias", "value_proj.weight",
    ]  # fmt: skip


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_checkpoint_changes_memory_and_nothing_else(norm_first):
    results = []
    for checkpoint in (False, True):
        mx.random.seed(0)
        model = nn.Transformer(8, 2, 2, 2, 16, norm_first=norm_first, checkpoint=checkpoint)
        loss, grads = nn.value_and_grad(model, lambda a, b, m=model: mx.sum(m(a, b, None, "causal", None) ** 2))(X, X)
        results.append([loss, *(value for _, value in tree_flatten(grads))])
    assert all(mx.allclose(a, b, rtol=1e-5, atol=1e-5).item() for a, b in zip(*results, strict=True))


def test_a_checkpoint_drops_the_same_elements_again():
    results = []
    for checkpoint in (False, True):
        mx.random.seed(0)
        model = nn.TransformerEncoder(2, 8, 2, dropout=0.5, checkpoint=checkpoint)
        _, grads = nn.value_and_grad(model, lambda x, m=model: mx.sum(m(x, None) ** 2))(X)
        results.append([value for _, value in tree_flatten(grads)])
    assert all(mx.allclose(a, b, rtol=1e-5, atol=1e-5).item() for a, b in zip(*results, strict=True))


def test_parts_can_be_replaced():
    model = nn.Transformer(8, 2, custom_encoder=nn.Identity(), custom_decoder=nn.Identity())
    assert isinstance(model.encoder, nn.Identity) and isinstance(model.decoder, nn.Identity)
    assert nn.TransformerEncoderLayer(8, 2, activation=nn.GELU())(X, None).shape == X.shape


def test_empty_batches():
    model = nn.Transformer(8, 2, 1, 1)
    assert model(mx.zeros((0, 5, 8)), mx.zeros((0, 3, 8)), None, "causal", None).shape == (0, 3, 8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: nn.MultiHeadAttention(8, 3), r"\[MultiHeadAttention\] .* num_heads=3, got 8 and 8"),
        (lambda: nn.MultiHeadAttention(8, 2, value_dims=7), r"\[MultiHeadAttention\] .* got 8 and 7"),
        (lambda: nn.MultiHeadAttention(8, 2)(X[0], X[0], X[0]), r"queries should have shape \(batch, length, dims\)"),
        (lambda: nn.MultiHeadAttention(8, 2)(X, X, X[:, :3]), r"keys and values should have the same length"),
        (lambda: nn.MultiHeadAttention(8, 2)(X, X[:, :, :4], X), r"\[Linear\] .* size 8"),
        (lambda: mx.eval(nn.MultiHeadAttention(8, 2)(X, X, X, mx.zeros((4, 4)))), "mask"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
