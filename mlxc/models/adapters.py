"""What LoRA trained, in files: adapters.safetensors and adapter_config.json, laid out as MLX's adapters are.

Called by tune.py and the command line. A model is changed only after all of a file was found to fit it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlxc as mx
from mlxc import nn
from mlxc._files.access import open_to_write
from mlxc.utils import tree_flatten

from .lora import ADDED, DoRALinear, check_parameters, dense_shape, layers_in_order, replace, with_addition

__all__ = ["load_adapters", "save_adapters"]

WEIGHTS = "adapters.safetensors"
CONFIG = "adapter_config.json"
# What an addition consists of, by "fine_tune_type".
PARTS = {"lora": ("lora_a", "lora_b"), "dora": ("lora_a", "lora_b", "m")}


def kind_of(layer: nn.Module) -> str:
    return "dora" if isinstance(layer, DoRALinear) else "lora"


def adapter_arrays(model: nn.Module) -> dict[str, mx.array]:
    """The additions of a model, by their names in the file."""
    arrays = {
        f"{path}.{part}": layer[part]
        for path, layer in layers_in_order(model)
        if isinstance(layer, ADDED)
        for part in PARTS[kind_of(layer)]
    }
    if not arrays:
        raise ValueError("[save_adapters] the model has no low-rank additions")
    return arrays


def save_adapters(model: nn.Module, folder: str | os.PathLike[str], config: Mapping[str, Any] | None = None) -> None:
    """Writes the additions of a model. Each file is replaced in one step.

    Args:
        model: has additions.
        folder: where to; it is made if it doesn't exist.
        config: more to write to adapter_config.json, such as num_layers.

    Raises:
        ValueError: if the model has no additions, or they differ in kind, rank, scale or dropout.
        OSError: if a file can't be written.

    Example:
        >>> save_adapters(model, "adapters")  # doctest: +SKIP
    """
    arrays = adapter_arrays(model)
    layers = {path: layer for path, layer in layers_in_order(model) if isinstance(layer, ADDED)}
    shared = {(kind_of(layer), layer.lora_a.shape[1], layer.scale, layer.dropout.p) for layer in layers.values()}
    if len(shared) > 1:
        raise ValueError(f"[save_adapters] the additions differ in (kind, rank, scale, dropout): {sorted(shared)}")
    kind, rank, scale, dropout = shared.pop()
    numbers, keys = places_of(layers)
    about = {
        "fine_tune_type": kind,
        "num_layers": len(getattr(model, "layers", [])) - min(numbers) if numbers else -1,
        "lora_parameters": {"rank": rank, "scale": scale, "dropout": dropout, "keys": keys},
        **(config or {}),
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / WEIGHTS), arrays, {"format": "mlx"})
    with open_to_write(folder / CONFIG, ".json", "save_adapters") as file:
        file.write(json.dumps(about, indent=4).encode())


def places_of(paths: Mapping[str, Any]) -> tuple[list[int], list[str]]:
    """The numbers of the blocks in paths such as model.layers.3.self_attn.q_proj, and the paths within a block."""
    numbers: set[int] = set()
    keys: dict[str, None] = {}
    for path in paths:
        number, _, key = path.partition("layers.")[2].partition(".")
        if number.isdecimal() and key:
            numbers.add(int(number))
        keys[key if number.isdecimal() and key else path] = None
    return sorted(numbers), list(keys)


def read_config(path: Path) -> dict[str, Any]:
    """adapter_config.json, of the kind that is understood."""
    try:
        config = json.loads(path.read_bytes())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from None
    kind = config.get("fine_tune_type", "lora") if isinstance(config, dict) else None
    if kind not in PARTS:
        raise ValueError(f"{path}: fine_tune_type is {kind!r}, only {' and '.join(map(repr, PARTS))} are known")
    parameters = config.get("lora_parameters")
    if not isinstance(parameters, dict):
        raise ValueError(f"{path} has no lora_parameters")
    try:
        check_parameters(
            "lora_parameters", parameters.get("rank"), parameters.get("dropout", 0.0), parameters.get("scale")
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return config


def group_by_layer(arrays: Mapping[str, mx.array], kind: str, file: Path) -> dict[str, dict[str, mx.array]]:
    """The parts of each addition, by the path of its layer."""
    layers: dict[str, dict[str, mx.array]] = {}
    for name, array in arrays.items():
        path, _, part = name.rpartition(".")
        if part not in PARTS[kind] or not path:
            raise ValueError(f"{file}: the tensor {name!r} is no part of an addition ({', '.join(PARTS[kind])})")
        layers.setdefault(path, {})[part] = array
    for path, parts in layers.items():
        for part in PARTS[kind]:
            if part not in parts:
                raise ValueError(f"{file}: {path!r} lacks {part}")
    if not layers:
        raise ValueError(f"{file} has no tensors")
    return layers


def check_fit(path: str, layer: nn.Module, parts: Mapping[str, mx.array], rank: int, file: Path) -> None:
    """The shapes that an addition must have beside the layer."""
    base = getattr(layer, "linear", getattr(layer, "embedding", layer)) if isinstance(layer, ADDED) else layer
    if not isinstance(base, (nn.Linear, nn.QuantizedLinear, nn.Embedding, nn.QuantizedEmbedding)):
        raise ValueError(f"{file}: {path!r} is {type(base).__name__} in the model, which can't have an addition")
    rows, columns = dense_shape(base)
    first, last = (columns, rows) if isinstance(base, (nn.Linear, nn.QuantizedLinear)) else (rows, columns)
    shapes = {"lora_a": (first, rank), "lora_b": (rank, last), "m": (rows,)}
    for part, wanted in ((part, shapes[part]) for part in parts):
        if parts[part].shape != wanted:
            raise ValueError(
                f"{file}: the tensor '{path}.{part}' has shape {parts[part].shape}, expected {wanted} for rank {rank}"
            )
        if not mx.issubdtype(parts[part].dtype, mx.floating):
            raise ValueError(f"{file}: the tensor '{path}.{part}' is {parts[part].dtype}, a float dtype is expected")


def load_adapters(model: nn.Module, folder: str | os.PathLike[str]) -> list[str]:
    """Puts saved additions into a model, frozen or not as the model's other weights are left.

    Args:
        model: the model that they were trained for, without additions or with the same ones.
        folder: holds adapters.safetensors and adapter_config.json.

    Returns:
        The paths of the layers that have additions.

    Raises:
        FileNotFoundError: if a file is missing.
        ValueError: if a file is broken, of another kind, or does not fit the model, which then stays as it was; the
            error names file and tensor.

    Example:
        >>> load_adapters(model, "adapters")  # doctest: +SKIP
    """
    folder = Path(folder)
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{folder} has no {name}")
    config = read_config(folder / CONFIG)
    kind = config.get("fine_tune_type", "lora")
    file = folder / WEIGHTS
    try:
        arrays = mx.load(str(file))
    except ValueError as error:
        raise ValueError(str(error).removeprefix("[load] ")) from None
    return put_adapters(model, arrays, kind, config["lora_parameters"], file)


def put_adapters(
    model: nn.Module, arrays: Mapping[str, mx.array], kind: str, parameters: Mapping[str, Any], file: Path
) -> list[str]:
    """Checks all, then changes the model."""
    layers = group_by_layer(arrays, kind, file)
    named = dict(layers_in_order(model))
    for path, parts in layers.items():
        if path not in named:
            raise ValueError(f"{file}: the model has no layer {path!r}")
        check_fit(path, named[path], parts, parameters["rank"], file)
    others = [path for path, layer in named.items() if isinstance(layer, ADDED) and path not in layers]
    if others:
        raise ValueError(f"{file} has nothing for {others[0]!r}, which has an addition")
    new = []
    for path in layers:
        if isinstance(named[path], ADDED):
            if kind_of(named[path]) != kind:
                raise ValueError(f"{file}: {path!r} has an addition of the other kind, {kind!r} is in the file")
            continue
        how = {"rank": parameters["rank"], "dropout": parameters.get("dropout", 0.0), "scale": parameters["scale"]}
        new.append((path, with_addition(named[path], path, **how, use_dora=kind == "dora")))
    replace(model, new)
    model.load_weights(list(arrays.items()), strict=False)
    return list(layers)


def trained_size(model: nn.Module) -> tuple[int, int]:
    """How many numbers are trained, and how many the model has."""
    trained = sum(array.size for _, array in tree_flatten(model.trainable_parameters()))
    return trained, sum(array.size for _, array in tree_flatten(model.parameters()))
