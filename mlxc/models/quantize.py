"""Quantising a model's layers and expanding them again, and what config.json says of it in MLX's layout.

Called by convert.py, lora and the command line. nn.quantize does the work; here is which layers are taken, and how a
model that is packed in several ways is described.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import mlxc as mx
from mlxc import nn

from .lora import dense_weight, float_dtype, layers_in_order, replace, with_weight

__all__ = ["dequantize_model", "quantization_of", "quantize_model"]

# Group size and bits of a mode, where they are not given.
DEFAULTS = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}
GROUP_SIZES = {"affine": (32, 64, 128), "mxfp4": (32,), "nvfp4": (16,), "mxfp8": (32,)}
PACKED = (nn.QuantizedLinear, nn.QuantizedEmbedding)


def quantize_model(
    model: nn.Module,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    predicate: Callable[[str, nn.Module], bool | dict[str, Any]] | None = None,
) -> tuple[list[str], list[str]]:
    """Quantises the Linear and Embedding layers of a model whose size allows it.

    Args:
        model: the model, of which no layer is quantised yet.
        group_size: how many neighbours share a scale; None is the mode's own: 64 for affine, 32 for mxfp4 and mxfp8,
            16 for nvfp4.
        bits: bits a weight; None is the mode's own: 4, and 8 for mxfp8.
        mode: "affine", "mxfp4", "mxfp8" or "nvfp4".
        predicate: called with the path of a layer and the layer; says whether to quantise it, or how, as a dict of
            group_size, bits and mode. By default all.

    Returns:
        The paths of the layers that were quantised, and of those that were left since their width is no multiple of
        the group size.

    Raises:
        ValueError: if a value isn't possible, or layers are quantised already; the model stays as it was.

    Example:
        >>> import mlxc.nn as nn
        >>> from mlxc.models.quantize import quantize_model
        >>> model = nn.Sequential(nn.Linear(64, 8), nn.Linear(8, 3))
        >>> quantize_model(model, bits=8)
        (['layers.0'], ['layers.1'])
    """
    if mode not in DEFAULTS:
        raise ValueError(f"[quantize_model] mode is {mode!r}, one of {', '.join(DEFAULTS)} is needed")
    done, left = [], []
    for path, layer in layers_in_order(model):
        if isinstance(layer, PACKED):
            raise ValueError(f"[quantize_model] {path} is quantised already, expand the model first")

    def choose(path: str, layer: nn.Module) -> bool | dict[str, Any]:
        if not isinstance(layer, (nn.Linear, nn.Embedding)):
            return False
        chosen = True if predicate is None else predicate(path, layer)
        if chosen is False:
            return False
        how = {"group_size": group_size, "bits": bits, "mode": mode, **(chosen if isinstance(chosen, dict) else {})}
        size = how["group_size"]
        # A size that no layer could have is a mistake; with one that is possible, this layer's width doesn't fit.
        if how["mode"] in DEFAULTS and (size is None or size in GROUP_SIZES[how["mode"]]):
            if layer.weight.shape[-1] % (DEFAULTS[how["mode"]][0] if size is None else size):
                left.append(path)
                return False
        done.append(path)
        return how

    nn.quantize(model, class_predicate=choose)
    order = [path for path, _ in layers_in_order(model)]
    return sorted(done, key=order.index), sorted(left, key=order.index)


def dequantize_model(model: nn.Module, dtype: mx.Dtype | None = None) -> list[str]:
    """Expands the quantised layers of a model.

    Args:
        model: the model.
        dtype: float dtype of the expanded weights; by default that of their scales, or bfloat16 where these are codes.

    Returns:
        The paths of the layers that were expanded.

    Raises:
        TypeError: if dtype is no float dtype.

    Example:
        >>> import mlxc.nn as nn
        >>> from mlxc.models.quantize import dequantize_model
        >>> model = nn.Sequential(nn.Linear(64, 8).to_quantized())
        >>> dequantize_model(model), model.layers[0]
        (['layers.0'], Linear(input_dims=64, output_dims=8, bias=True))
    """
    if dtype is not None and not mx.issubdtype(dtype, mx.floating):
        raise TypeError(f"[dequantize_model] dtype is {dtype}, a float dtype is needed")
    new = []
    for path, layer in layers_in_order(model):
        if not isinstance(layer, PACKED):
            continue
        weight = dense_weight(layer, float_dtype(layer) if dtype is None else dtype)
        dense = nn.Linear(1, 1, bias=False) if isinstance(layer, nn.QuantizedLinear) else nn.Embedding(1, 1)
        new.append((path, with_weight(layer, weight, dense, dequantize=True)))
    replace(model, new)
    return [path for path, _ in new]


def quantization_of(model: nn.Module) -> dict[str, Any] | None:
    """What config.json says of a model's quantised layers: what most have, and by path what others have.

    Args:
        model: the model.

    Returns:
        The value of "quantization"; None if nothing is quantised.

    Example:
        >>> import mlxc.nn as nn
        >>> from mlxc.models.quantize import quantization_of
        >>> quantization_of(nn.Sequential(nn.Linear(64, 8).to_quantized()))
        {'group_size': 64, 'bits': 4, 'mode': 'affine'}
    """
    found = {
        path: (layer.group_size, layer.bits, layer.mode)
        for path, layer in layers_in_order(model)
        if isinstance(layer, PACKED)
    }
    if not found:
        return None
    usual = Counter(found.values()).most_common(1)[0][0]
    names = ("group_size", "bits", "mode")
    others = {path: dict(zip(names, how, strict=True)) for path, how in found.items() if how != usual}
    return {**dict(zip(names, usual, strict=True)), **others}
