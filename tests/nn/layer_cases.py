"""Layers, as cases for comparison: see peer_cases.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from peer_cases import Case, floats


def _layer(name, args, inputs, torch=None, label="", **options):
    """A case of a layer of nn; `options` are its keyword arguments."""
    shown = ", ".join([*map(str, args), *(f"{key}={value}" for key, value in options.items())])
    return Case(f"{name}({shown}){label}", lambda mx, nn: getattr(nn, name)(*args, **options), inputs, torch)


# ---- convolution and pooling -----------------------------------------------------------------------


def _convolve(torch, F, weights, x, axes, **options):
    """PyTorch's convolution with channels last and weights in MLX's layout."""
    y = getattr(F, f"conv{axes}d")(x.movedim(-1, 1), weights["weight"].movedim(-1, 1), weights.get("bias"), **options)
    return y.movedim(1, -1)


def _convolve_transposed(torch, F, weights, x, axes, **options):
    weight = weights["weight"].movedim(-1, 0)
    y = getattr(F, f"conv_transpose{axes}d")(x.movedim(-1, 1), weight, weights.get("bias"), **options)
    return y.movedim(1, -1)


_IMAGES = {1: (2, 9, 4), 2: (2, 7, 8, 4), 3: (1, 3, 5, 4, 4)}


def _convolution(axes, *args, **options):
    kinds = {key: value for key, value in options.items() if key != "bias"}
    return _layer(
        f"Conv{axes}d", (4, 6, *args), floats(_IMAGES[axes]),
        lambda torch, F, p, x: _convolve(torch, F, p, x, axes, **kinds), **options,
    )  # fmt: skip


def _transposed(axes, *args, **options):
    return _layer(
        f"ConvTranspose{axes}d", (4, 6, *args), floats(_IMAGES[axes]),
        lambda torch, F, p, x: _convolve_transposed(torch, F, p, x, axes, **options), **options,
    )  # fmt: skip


def convolutions():
    # Gradients of weights are sums of hundreds of terms of several times the result's size.
    for case in _convolutions():
        # MLX gives a gradient of another shape than the input's.
        shaped = case.name != "ConvTranspose3d(4, 6, 2, stride=2, output_padding=1)"
        yield replace(case, mlx_tolerance=2e-5, torch_tolerance=2e-5, mlx_gradient=shaped)


def _convolutions():
    yield _convolution(1, 3)
    yield _convolution(1, 3, stride=2, padding=1, dilation=2, groups=2, bias=False)
    yield _convolution(2, (3, 5))
    yield _convolution(2, 3, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2)
    yield _convolution(3, 3, padding=1)
    yield _convolution(3, (1, 3, 2), stride=(1, 2, 1), dilation=(1, 2, 1), bias=False)
    yield _transposed(1, 3)
    yield _transposed(1, 3, stride=2, padding=1, dilation=2, output_padding=1)
    yield _transposed(2, (3, 2), stride=(2, 1), padding=(1, 0))
    yield _transposed(2, 3, stride=2, padding=1, output_padding=(1, 0))
    yield _transposed(3, 2, stride=2, output_padding=1)


def _pool(kind, axes, *args):
    def by_torch(torch, F, p, x):
        return getattr(F, f"{kind}_pool{axes}d")(x.movedim(-1, 1), *args).movedim(1, -1)

    name = {"max": "MaxPool", "avg": "AvgPool"}[kind]
    return _layer(f"{name}{axes}d", args, floats(_IMAGES[axes]), by_torch)


def pools():
    for kind in ("max", "avg"):
        yield _pool(kind, 1, 2)
        yield _pool(kind, 1, 3, 2, 1)
        yield _pool(kind, 2, 2)
        yield _pool(kind, 2, (3, 2), (2, 1), (1, 0))
        yield _pool(kind, 2, 3, 1, 1)
        yield _pool(kind, 3, 2)
        yield _pool(kind, 3, (1, 2, 3), 1, (0, 1, 1))


def _resize(mode, align_corners=False, antialias=False):
    def by_torch(torch, F, p, x):
        names = {
            (1, "linear"): "linear",
            (2, "linear"): "bilinear",
            (2, "cubic"): "bicubic",
            (3, "linear"): "trilinear",
        }
        axes = x.ndim - 2
        corners = {} if mode == "nearest" else {"align_corners": align_corners, "antialias": antialias}
        y = F.interpolate(x.movedim(-1, 1), scale_factor=2.0, mode=names.get((axes, mode), mode), **corners)
        return y.movedim(1, -1)

    return by_torch


def upsamplings():
    # PyTorch computes the weights in float32.
    yield from (replace(case, torch_tolerance=1e-5) for case in _upsamplings())


def _upsamplings():
    for mode in ("nearest", "linear", "cubic"):
        yield _layer("Upsample", (2,), floats((1, 4, 5, 2)), _resize(mode), mode=mode)
        yield _layer("Upsample", (1.7,), floats((1, 9, 2)), mode=mode)
        yield _layer("Upsample", ((0.6, 2.3),), floats((1, 5, 4, 2)), mode=mode)
        yield _layer("Upsample", (2.0,), floats((1, 2, 3, 2, 2)), mode=mode)
    for mode in ("linear", "cubic"):
        yield _layer("Upsample", (2,), floats((1, 4, 5, 2)), _resize(mode, True), mode=mode, align_corners=True)
        yield _layer("Upsample", (2,), floats((1, 4, 5, 2)), _resize(mode, False, True), mode=mode, antialias=True)
        yield _layer("Upsample", ((0.4, 0.7),), floats((1, 11, 9, 2)), mode=mode, antialias=True)
        yield _layer("Upsample", (0.6,), floats(_IMAGES[1]), mode=mode, align_corners=True)


# ---- recurrent ------------------------------------------------------------------------------------------


def _recur(kind, names, order):
    """PyTorch's recurrent layer with the weights of ours: `names` of input and state weights, `order` of the gates."""

    def by_torch(torch, F, p, x):
        size = p[names[1]].shape[1]
        layer = getattr(torch.nn, kind)(x.shape[-1], size, batch_first=True, bias="bias" in p or "b" in p)

        def parts(value):
            return torch.cat([value[i * size : (i + 1) * size] for i in order])

        weights = {"weight_ih_l0": parts(p[names[0]]), "weight_hh_l0": parts(p[names[1]])}
        bias = p.get("bias", p.get("b"))
        if bias is not None:
            zeros = torch.zeros_like(bias)
            state = zeros if "bhn" not in p else torch.cat([zeros[: 2 * size], p["bhn"]])
            weights |= {"bias_ih_l0": parts(bias), "bias_hh_l0": state}
        return torch.func.functional_call(layer, weights, (x,))[0]

    return by_torch


def recurrent():
    by_torch = {
        "RNN": _recur("RNN", ("Wxh", "Whh"), (0,)),
        "GRU": _recur("GRU", ("Wx", "Wh"), (0, 1, 2)),
        "LSTM": _recur("LSTM", ("Wx", "Wh"), (0, 1, 2, 3)),
    }
    for name in ("RNN", "GRU", "LSTM"):
        # PyTorch's LSTM gives its cells for the last step only.
        peer = by_torch[name] if name != "LSTM" else None
        yield _layer(name, (3, 5), floats((2, 7, 3)), peer)
        yield _layer(name, (3, 5), floats((2, 7, 3)), peer, bias=False)
        yield _layer(name, (3, 5), floats((7, 3)), None, " of one sequence")
        yield _layer(name, (3, 5), floats((2, 7, 3), (2, 5)), None, " from a state")
    yield _layer("LSTM", (3, 5), floats((2, 7, 3), (2, 5), (2, 5)), None, " from a state and a cell")
    yield Case("LSTM hidden states", _hidden_states, floats((2, 7, 3)), by_torch["LSTM"])


def _hidden_states(mx, nn):
    layer = nn.LSTM(3, 5)
    return _with_call(layer, lambda call, x: call(x)[0])


def _with_call(layer, call):
    """The layer with another call, which is given the old one."""

    class Changed(type(layer)):
        def __call__(self, *inputs):
            return call(super().__call__, *inputs)

    changed = Changed.__new__(Changed)
    dict.update(changed, layer)
    changed.__dict__.update(layer.__dict__)
    return changed


# ---- attention -----------------------------------------------------------------------------------------


def _attend(torch, F, p, q, k, v):  # noqa: PLR0917
    def project(name, x):
        return F.linear(x, p[f"{name}_proj.weight"], p.get(f"{name}_proj.bias"))

    def split(x):
        return x.unflatten(-1, (2, -1)).transpose(1, 2)

    y = F.scaled_dot_product_attention(split(project("query", q)), split(project("key", k)), split(project("value", v)))
    return project("out", y.transpose(1, 2).flatten(2))


def _masked(name, args, masks, inputs, **options):
    """A case of a layer that is called with masks after the inputs; a number n is the causal mask of n places."""

    def build(mx, nn):
        causal = nn.MultiHeadAttention.create_additive_causal_mask
        arrays = [causal(mask) if isinstance(mask, int) else mask for mask in masks]
        return _with_call(getattr(nn, name)(*args, **options), lambda call, *inputs: call(*inputs, *arrays))

    shown = ", ".join([*map(str, args), *(f"{key}={value}" for key, value in options.items())])
    return Case(f"{name}({shown}) masks {masks}", build, inputs, mlx_tolerance=2e-5)


def attention():
    yield _layer(
        "MultiHeadAttention", (8, 2), floats((2, 5, 8), (2, 7, 8), (2, 7, 8), low=-1, high=1),
        _attend,
    )  # fmt: skip
    yield _layer(
        "MultiHeadAttention", (8, 2, 3, 4, 5, 6, 7), floats((2, 5, 3), (2, 7, 4), (2, 7, 5), low=-1, high=1),
        _attend, bias=True,
    )  # fmt: skip
    yield _masked("MultiHeadAttention", (8, 2), (5,), floats((2, 5, 8), (2, 5, 8), (2, 5, 8), low=-1, high=1))
    one, two = floats((2, 5, 6), low=-1, high=1), floats((2, 5, 6), (2, 7, 6), low=-1, high=1)
    for first in (True, False):
        yield _masked("TransformerEncoderLayer", (6, 2), (5,), one, norm_first=first)
        yield _masked("TransformerDecoderLayer", (6, 2, 8), (5, None), two, norm_first=first)
    yield _masked("TransformerEncoderLayer", (6, 2), (None,), one, dropout=0.5)
    yield _masked("TransformerDecoderLayer", (6, 2, 8), (5, None), two, dropout=0.5)
    yield _masked("TransformerEncoder", (2, 6, 2), (None,), one)
    yield _masked("TransformerDecoder", (2, 6, 2, 8), (5, None), two, checkpoint=True)
    yield _masked("Transformer", (6, 2, 1, 2, 8), (None, 7, None), two, checkpoint=True, norm_first=False)


# ---- the others --------------------------------------------------------------------------------------------


def _indices(rng):
    return [rng.integers(0, 9, (2, 5)).astype(np.int32)]


def others():
    x = floats((3, 5, 6))
    yield _layer("Identity", (), x)
    yield Case("Sequential", lambda mx, nn: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2)), x)
    yield _layer("Linear", (6, 4), x, lambda torch, F, p, x: F.linear(x, p["weight"], p["bias"]))
    yield _layer("Linear", (6, 4), x, lambda torch, F, p, x: F.linear(x, p["weight"]), bias=False)
    yield _layer("Bilinear", (3, 4, 5), floats((6, 3), (6, 4)))
    yield _layer("Embedding", (9, 4), _indices, lambda torch, F, p, i: F.embedding(i, p["weight"]))
    yield _layer("LayerNorm", (6,), x, lambda torch, F, p, x: F.layer_norm(x, (6,), p["weight"], p["bias"]))
    yield _layer("LayerNorm", (6,), x, lambda torch, F, p, x: F.layer_norm(x, (6,)), affine=False)
    yield _layer("RMSNorm", (6,), x, lambda torch, F, p, x: F.rms_norm(x, (6,), p["weight"], 1e-5))
    yield _layer("GroupNorm", (3, 6), x)
    yield _layer(
        "GroupNorm", (3, 6), x,
        lambda torch, F, p, x: F.group_norm(x.movedim(-1, 1), 3, p["weight"], p["bias"]).movedim(1, -1),
        pytorch_compatible=True,
    )  # fmt: skip
    yield _layer("InstanceNorm", (6,), x, lambda torch, F, p, x: F.instance_norm(x.movedim(-1, 1)).movedim(1, -1))
    yield _layer("InstanceNorm", (6,), x, affine=True)
    yield _layer(
        "BatchNorm", (6,), floats((8, 6)),
        lambda torch, F, p, x: F.batch_norm(x, None, None, p["weight"], p["bias"], training=True),
    )  # fmt: skip
    yield _layer("BatchNorm", (6,), floats((3, 4, 5, 6)), affine=False)
    for name, images in (("Dropout", (3, 5, 6)), ("Dropout2d", (2, 3, 4, 5)), ("Dropout3d", (2, 3, 4, 5, 6))):
        yield _layer(name, (0.4,), floats(images))
    yield _layer("RoPE", (6,), floats((2, 3, 5, 6)))
    yield _layer("RoPE", (4,), floats((2, 3, 5, 6)), traditional=True, scale=0.5)
    yield _layer("SinusoidalPositionalEncoding", (6,), lambda rng: [np.arange(5, dtype=np.float32)])
    yield _layer("ALiBi", (), floats((2, 4, 5, 5)))


def quantised():
    """Layers with packed weights, and those that are spread over processes, here over one."""
    x = floats((3, 64), low=-1, high=1)
    for mode in ("affine", "mxfp4", "nvfp4", "mxfp8"):
        yield replace(_layer("QuantizedLinear", (64, 8), x, mode=mode), mlx_tolerance=2e-5)
        yield _layer("QuantizedEmbedding", (9, 64), _indices, mode=mode)
    yield replace(_layer("QuantizedLinear", (64, 8, False, 32, 8), x), mlx_tolerance=2e-5)
    for name in ("AllToShardedLinear", "ShardedToAllLinear"):
        yield _layer(name, (6, 4), floats((3, 6)))
        yield _layer(name, (6, 4), floats((3, 6)), bias=False)
    for name in ("QuantizedAllToShardedLinear", "QuantizedShardedToAllLinear"):
        yield replace(_layer(name, (64, 8), x), mlx_tolerance=2e-5)
