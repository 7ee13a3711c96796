"""The layers whose values are recorded: what record_layers.py computes with MLX and PyTorch, and tests compare with.

A case is an expression that makes the layer, with `nn` and `mx`; the shapes of the inputs, or lists of whole numbers;
and how to call it. Parameters begin as the layer draws them with seed 0 and are shifted by random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    make: str
    inputs: tuple[Any, ...]
    call: str = "m(*x)"
    training: bool = True
    torch: str = ""  # the same with PyTorch: an expression of x, p (parameters) and F


CASES = {
    "linear": Case("nn.Linear(6, 3)", ((2, 4, 6),), torch="F.linear(x[0], p['weight'], p['bias'])"),
    "linear_plain": Case("nn.Linear(6, 3, bias=False)", ((4, 6),), torch="F.linear(x[0], p['weight'])"),
    "bilinear": Case(
        "nn.Bilinear(5, 4, 3)", ((2, 5), (2, 4)), torch="F.bilinear(x[1], x[0], p['weight'], p['bias'])"
    ),
    "embedding": Case("nn.Embedding(7, 4)", ([[0, 6], [3, 3]],), torch="F.embedding(x[0], p['weight'])"),
    "embedding_out": Case("nn.Embedding(7, 4)", ((3, 4),), "m.as_linear(x[0])", torch="F.linear(x[0], p['weight'])"),
    "layer_norm": Case("nn.LayerNorm(6)", ((3, 6),), torch="F.layer_norm(x[0], (6,), p['weight'], p['bias'])"),
    "layer_norm_eps": Case("nn.LayerNorm(6, eps=0.1, bias=False)", ((2, 3, 6),),
                           torch="F.layer_norm(x[0], (6,), p['weight'], None, 0.1)"),
    "layer_norm_bare": Case("nn.LayerNorm(6, affine=False)", ((3, 6),), torch="F.layer_norm(x[0], (6,))"),
    "rms_norm": Case("nn.RMSNorm(6)", ((3, 6),), torch="F.rms_norm(x[0], (6,), p['weight'], 1e-5)"),
    "batch_norm": Case("nn.BatchNorm(4)", ((5, 4),), torch="batch_norm(x[0], p)"),
    "batch_norm_images": Case("nn.BatchNorm(3, momentum=0.3)", ((2, 3, 2, 3),), torch="batch_norm(x[0], p, 0.3)"),
    "batch_norm_eval": Case("nn.BatchNorm(4)", ((5, 3, 4),), training=False,
                            torch="batch_norm(x[0], p, training=False)"),
    "batch_norm_bare": Case("nn.BatchNorm(4, affine=False, track_running_stats=False)", ((5, 4),),
                            torch="F.batch_norm(x[0], None, None, training=True)"),
    "instance_norm": Case("nn.InstanceNorm(3, affine=True)", ((2, 5, 3),),
                          torch="last(F.instance_norm, x[0], None, None, p['weight'], p['bias'])"),
    "group_norm": Case("nn.GroupNorm(2, 6)", ((2, 4, 6),)),
    "group_norm_torch": Case("nn.GroupNorm(2, 6, pytorch_compatible=True)", ((2, 4, 3, 6),),
                             torch="last(F.group_norm, x[0], 2, p['weight'], p['bias'])"),
    "group_norm_flat": Case("nn.GroupNorm(2, 6, affine=False, pytorch_compatible=True)", ((3, 6),),
                            torch="F.group_norm(x[0], 2)"),
    "dropout": Case("nn.Dropout(0.4)", ((4, 5),)),
    "dropout2d": Case("nn.Dropout2d(0.4)", ((2, 2, 2, 5),)),
    "dropout3d": Case("nn.Dropout3d(0.4)", ((2, 1, 2, 6),)),
    "rope": Case("nn.RoPE(6)", ((2, 2, 4, 8),), "m(x[0], offset=3)"),
    "rope_pairs": Case("nn.RoPE(6, traditional=True, base=100, scale=0.5)", ((2, 4, 8),)),
    "sinusoidal": Case("nn.SinusoidalPositionalEncoding(8)", ((3,),)),
    "sinusoidal_turns": Case("nn.SinusoidalPositionalEncoding(6, 0.1, 2, 1.5, True, True)", ((2, 2),)),
    "alibi": Case("nn.ALiBi()", ((1, 6, 3, 5),), "m(x[0], offset=2)"),
    "alibi_mask": Case("nn.ALiBi()", ((2, 4, 3, 3), (3, 3)), "m(x[0], 0, x[1])"),
    "quantized_linear": Case("nn.QuantizedLinear(64, 3).unfreeze(keys=['scales', 'biases', 'bias'])", ((2, 64),)),
    "quantized_fp4": Case("nn.QuantizedLinear(64, 3, mode='mxfp4')", ((2, 64),)),
    "quantized_fp8": Case("nn.QuantizedLinear(64, 3, False, mode='mxfp8')", ((2, 64),)),
    "quantized_nv": Case("nn.Linear(64, 3).to_quantized(mode='nvfp4').freeze()", ((2, 64),)),
    "quantized_embedding": Case("nn.QuantizedEmbedding(5, 64, 32, 8)", ([0, 4],)),
    "quantized_out": Case("nn.QuantizedEmbedding(5, 64, 32, 2)", ((2, 64),), "m.as_linear(x[0])"),
    "sequential": Case("nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), mx.tanh, nn.Linear(8, 2))", ((3, 4),)),
}  # fmt: skip

# Layers whose initial values are recorded, as drawn one after the other with one seed.
INITIAL = ["nn.Linear(5, 4)", "nn.Linear(3, 2, bias=False)", "nn.Bilinear(3, 4, 2)", "nn.Embedding(6, 4)"]


def make_inputs(case: Case, number: int) -> list[np.ndarray]:
    rng = np.random.default_rng(100 + number)
    return [
        rng.standard_normal(x).astype(np.float32) if isinstance(x, tuple) else np.array(x, np.int32)
        for x in case.inputs
    ]


def shift(path: str, value: np.ndarray, number: int) -> np.ndarray:
    """Parameters away from their initial ones and zeros; quantised ones and variances stay."""
    if value.dtype != np.float32 or path.rpartition(".")[2] in ("scales", "biases", "running_var"):
        return value
    seed = sum(map(ord, path)) + 1000 * number
    return value + 0.3 * np.random.default_rng(seed).standard_normal(value.shape).astype(np.float32)
