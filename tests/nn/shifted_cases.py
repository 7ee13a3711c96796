"""Layers with weights that are no ones and zeros, and in their other modes, as cases: see peer_cases.py."""

from __future__ import annotations

import numpy as np
from peer_cases import Case, floats

# These decide what packed weights mean, or must be positive.
_STAY = ("scales", "biases", "running_var")


def _shift(mx, module):
    """Each parameter of a leaf moved by numbers of its own."""
    for number, (name, value) in enumerate(sorted(module.parameters().items())):
        if value.dtype == mx.float32 and name not in _STAY:
            wave = 0.4 * np.sin(1.0 + number + np.arange(value.size, dtype=np.float32)).reshape(value.shape)
            module[name] = value + mx.array(wave)
    return module


def _case(text, inputs, torch=None, label=""):
    """A case of the expression `text`."""
    return Case(f"shifted {text}{label}", lambda mx, nn: _shift(mx, eval(text, {"nn": nn})), inputs, torch)


def _last(fn, x, *args):
    """A function of PyTorch that has channels second, with channels last."""
    return fn(x.movedim(-1, 1), *args).movedim(1, -1)


def _batch_norm(training):
    def compute(torch, F, p, x):
        statistics = p["running_mean"].detach(), p["running_var"].detach()
        return _last(F.batch_norm, x, *statistics, p["weight"], p["bias"], training)

    return compute


def norms():
    x, images = floats((3, 6)), floats((2, 4, 3, 6))
    yield _case("nn.LayerNorm(6, eps=0.1, bias=False)", x,
                lambda torch, F, p, x: F.layer_norm(x, (6,), p["weight"], None, 0.1))  # fmt: skip
    yield _case("nn.LayerNorm(6)", x, lambda torch, F, p, x: F.layer_norm(x, (6,), p["weight"], p["bias"]))
    yield _case("nn.RMSNorm(6, eps=0.1)", x, lambda torch, F, p, x: F.rms_norm(x, (6,), p["weight"], 0.1))
    yield _case("nn.GroupNorm(2, 6)", images)
    yield _case("nn.GroupNorm(2, 6, pytorch_compatible=True)", images,
                lambda torch, F, p, x: _last(F.group_norm, x, 2, p["weight"], p["bias"]))  # fmt: skip
    yield _case("nn.InstanceNorm(6, affine=True)", images,
                lambda torch, F, p, x: _last(F.instance_norm, x, None, None, p["weight"], p["bias"]))  # fmt: skip
    yield _case("nn.BatchNorm(6, momentum=0.3)", images, _batch_norm(True))
    yield _case("nn.BatchNorm(6).eval()", images, _batch_norm(False))
    yield _case("nn.BatchNorm(6).eval()", floats((5, 6)), _batch_norm(False), " of rows")


def calls():
    yield Case("Embedding as_linear", lambda mx, nn: nn.Embedding(7, 6).as_linear, floats((3, 6)))
    yield _case("nn.RoPE(6, traditional=True, base=100, scale=0.5)", floats((2, 2, 4, 8)))
    yield _case("nn.SinusoidalPositionalEncoding(6, 0.1, 2, 1.5, True, True)", floats((2, 3), low=0))
    for offset in (0, 2):
        yield Case(
            f"RoPE offset {offset}", lambda mx, nn, o=offset: lambda x: nn.RoPE(6)(x, offset=o), floats((2, 2, 4, 8))
        )
        yield Case(
            f"ALiBi offset {offset}", lambda mx, nn, o=offset: lambda x, mask: nn.ALiBi()(x, o, mask),
            floats((2, 6, 3, 5), (3, 5)),
        )  # fmt: skip
    yield Case(
        "QuantizedEmbedding as_linear", lambda mx, nn: nn.QuantizedEmbedding(5, 64, 32, 2).as_linear, floats((2, 64)),
        mlx_tolerance=2e-5,
    )  # fmt: skip
