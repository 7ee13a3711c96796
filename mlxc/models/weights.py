"""Weights of a Hugging Face folder: one or several safetensors files, and putting them into a model.

Called by load.py. Files are mapped: arrays are read from disk when they are used. All
names and shapes are checked before the first weight is put in, so that a model is never half loaded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlxc as mx
from mlxc import nn
from mlxc.utils import tree_flatten

INDEX = "model.safetensors.index.json"
# What old checkpoints store beside the weights: it follows from the configuration.
DERIVED = ("rotary_emb.inv_freq", "self_attn.bias", "self_attn.masked_bias")
MOST_NAMED = 5
# What a packed layer is described by.
HOW = ("group_size", "bits", "mode")


def some_of(names: list[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(map(repr, names[:MOST_NAMED])) + more


def read_file(path: Path) -> dict[str, mx.array]:
    try:
        return mx.load(str(path))
    except ValueError as error:
        raise ValueError(str(error).removeprefix("[load] ")) from None


def read_index(path: Path) -> dict[str, str]:
    """Which file each tensor is in."""
    try:
        index = json.loads(path.read_bytes())
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: not sound JSON: {error}") from None
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(isinstance(value, str) for value in places.values()):
        raise ValueError(f"{path}: 'weight_map' must give the name of a file for each tensor")
    for name in places.values():
        if Path(name).name != name:
            raise ValueError(f"{path}: {name!r} is not the name of a file beside it")
    return places


def read_weights(folder: Path) -> tuple[dict[str, mx.array], dict[str, Path]]:
    """The arrays by name, mapped, and the file that each came from.

    Takes the files that model.safetensors.index.json names, else model.safetensors, else all *.safetensors.
    """
    arrays: dict[str, mx.array] = {}
    sources: dict[str, Path] = {}
    places: dict[str, str] | None = None
    if (folder / INDEX).exists():
        places = read_index(folder / INDEX)
        files = [folder / name for name in sorted(set(places.values()))]
    elif (folder / "model.safetensors").exists():
        files = [folder / "model.safetensors"]
    else:
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise FileNotFoundError(f"{folder}: no weights: neither {INDEX} nor a .safetensors file is in it")
    for file in files:
        if not file.exists():
            lost = sorted(name for name, place in (places or {}).items() if place == file.name)
            raise FileNotFoundError(f"{file} is missing; {INDEX} says it has {some_of(lost)}")
        for name, array in read_file(file).items():
            if name in arrays:
                raise ValueError(f"{file}: the tensor {name!r} is in {sources[name].name} too")
            arrays[name], sources[name] = array, file
    for name, place in (places or {}).items():
        if name not in arrays or sources[name].name != place:
            raise ValueError(f"{folder / place}: the tensor {name!r} is not in it, but {INDEX} says so")
    return arrays, sources


def packed_layers(weights: dict[str, mx.array], quantization: dict[str, Any] | None, source: str) -> dict[str, Any]:
    """group_size, bits and mode of each layer whose weight is packed (there are scales), by its path.

    `quantization` is what MLX's config.json has under this name: the three for all layers, and for single layers by
    their path a dict of their own.
    """
    paths = [name.removesuffix(".scales") for name in weights if name.endswith(".scales")]
    if paths and not quantization:
        raise ValueError(f"{source}: {paths[0]!r} has scales, but the configuration lacks 'quantization'")
    whole = {key: quantization[key] for key in HOW if key in quantization} if quantization else {}
    packed = {}
    for path in paths:
        own = (quantization or {}).get(path, {})
        if own is not True and not isinstance(own, dict):
            raise ValueError(f"{source}: the quantization of {path!r} is {own!r}, but its weight is packed")
        packed[path] = {**whole, **({} if own is True else {key: own[key] for key in HOW if key in own})}
    return packed


def quantize_layers(model: nn.Module, packed: dict[str, Any], source: str) -> None:
    """Swaps the layers whose weights are packed for quantised ones."""
    try:
        nn.quantize(model, class_predicate=lambda path, layer: packed.get(path, False))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{source}: {error}") from None


def dequantize_weights(
    weights: dict[str, mx.array], packed: dict[str, Any], dtype: mx.Dtype, source: str
) -> dict[str, mx.array]:
    """All weights in a floating-point dtype, packed ones expanded; nothing is computed yet."""
    dense = {}
    for name, array in weights.items():
        path, _, part = name.rpartition(".")
        if path not in packed or part == "bias":
            dense[name] = array.astype(dtype)
        elif part == "weight":
            scales, biases = weights[f"{path}.scales"], weights.get(f"{path}.biases")
            try:
                dense[name] = mx.dequantize(array, scales, biases, **packed[path], dtype=dtype)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{source}: the tensor {name!r} cannot be expanded: {error}") from None
    return dense


def put_weights(model: nn.Module, weights: dict[str, mx.array], sources: dict[str, Path], what: str) -> None:
    """Gives a model its weights: all of them, of the right shapes, and nothing else.

    Args:
        model: any module.
        weights: arrays by the model's names.
        sources: the file that each came from, for errors.
        what: the file or folder as a whole, for errors.

    Raises:
        ValueError: if a tensor is missing, unexpected, or of another shape; the model stays as it was.
    """
    wanted = dict(tree_flatten(model.parameters()))
    missing = [name for name in wanted if name not in weights]
    if missing:
        raise ValueError(f"{what}: tensors are missing that the model needs: {some_of(missing)}")
    extra = [name for name in weights if name not in wanted]
    if extra:
        raise ValueError(f"{what}: tensors that the model does not have: {some_of(extra)}")
    for name, array in wanted.items():
        given = weights[name]
        if given.shape != array.shape:
            raise ValueError(
                f"{sources.get(name, what)}: the tensor {name!r} has shape {given.shape}, expected {array.shape}"
            )
        # Codes, of packed weights and of some scales, have one dtype; numbers have any.
        floating = mx.issubdtype(array.dtype, mx.floating)
        if not (mx.issubdtype(given.dtype, mx.floating) if floating else given.dtype == array.dtype):
            raise ValueError(
                f"{sources.get(name, what)}: the tensor {name!r} is {given.dtype.name}, expected "
                f"{'a floating-point dtype' if floating else array.dtype.name}"
            )
    model.load_weights(list(weights.items()))


def without_derived(weights: dict[str, mx.array], tied: bool) -> dict[str, mx.array]:
    """Leaves out what a checkpoint may have and the model makes itself, and the output projection if it is tied."""
    return {
        name: array
        for name, array in weights.items()
        if not name.endswith(DERIVED) and not (tied and name.startswith("lm_head."))
    }
