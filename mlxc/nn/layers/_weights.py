"""Weights in files: reading them from one file, several or a folder, and comparing them with a model's parameters.

Called by Module.load_weights and Module.save_weights. All that does not fit is found before anything is replaced, and
is told in one message that names file, tensor, what was expected and what was found.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from typing import Any

import mlxc as mx
from mlxc._files.access import open_to_write
from mlxc.nn.layers._tree import Plan

INDEX = ".index.json"
# How much goes into one file where weights are written to several.
SHARD_BYTES = 5 * 1000**3


def read_weights(source: Any) -> tuple[str, list[tuple[str, mx.array]]]:
    """What to call a source of weights, and its names and arrays."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source), read_path(os.fspath(source))
    if isinstance(source, dict):
        return "the given weights", list(source.items())
    if not isinstance(source, Iterable):
        raise TypeError(
            f"[load_weights] weights are a file, a folder, a list of files or a list of (name, array), got "
            f"{type(source).__name__}"
        )
    items = list(source)
    if items and all(isinstance(item, (str, os.PathLike)) for item in items):
        return ", ".join(os.fspath(item) for item in items), read_shards([os.fspath(item) for item in items])
    for item in items:
        if not isinstance(item, (tuple, list)) or len(item) != 2 or not isinstance(item[0], str):
            raise ValueError(f"[load_weights] a list of weights has pairs (name, array), got {type(item).__name__}")
    return "the given weights", [(name, value) for name, value in items]


def read_path(path: str) -> list[tuple[str, mx.array]]:
    if os.path.isdir(path):
        names = sorted(os.listdir(path))
        indices = [name for name in names if name.endswith(".safetensors" + INDEX)]
        shards = [name for name in names if name.endswith(".safetensors")]
        if len(indices) > 1:
            raise ValueError(f"[load_weights] {path} has several indices, name one of them: {', '.join(indices)}")
        if indices:
            return read_index(os.path.join(path, indices[0]))
        if not shards:
            raise FileNotFoundError(f"[load_weights] there are no .safetensors files in the folder {path}")
        return read_shards([os.path.join(path, name) for name in shards])
    if path.endswith(INDEX):
        return read_index(path)
    return list(read_file(path).items())


def read_file(path: str) -> dict[str, mx.array]:
    arrays = mx.load(path)
    if not isinstance(arrays, dict):
        raise ValueError(f"[load_weights] {path} holds one array without a name, weights are named arrays")
    return arrays


def read_shards(paths: list[str]) -> list[tuple[str, mx.array]]:
    found: dict[str, mx.array] = {}
    origin: dict[str, str] = {}
    for path in paths:
        for name, value in read_file(path).items():
            if name in found:
                raise ValueError(f"[load_weights] tensor {name} is in {origin[name]} and in {path}")
            found[name], origin[name] = value, path
    return list(found.items())


def read_index(path: str) -> list[tuple[str, mx.array]]:
    """The tensors that an index names, from the files beside it."""
    with open(path, encoding="utf-8") as file:
        try:
            index = json.load(file)
        except ValueError as error:
            raise ValueError(f"[load_weights] {path} is no JSON file: {error}") from None
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise ValueError(f"[load_weights] {path} has no 'weight_map' of tensors and files")
    folder = os.path.dirname(path)
    shards: dict[str, dict[str, mx.array]] = {}
    for name in sorted(set(places.values())):
        if name != os.path.basename(name):
            raise ValueError(f"[load_weights] {path} names the file {name!r}, which is not in its own folder")
        shards[name] = read_file(os.path.join(folder, name))
    for tensor, name in places.items():
        if tensor not in shards[name]:
            raise ValueError(
                f"[load_weights] {os.path.join(folder, name)} lacks the tensor {tensor}, which {path} says is there"
            )
    return [(tensor, shards[name][tensor]) for tensor, name in places.items()]


def parameter_places(module: Any) -> dict[str, tuple[Any, Any]]:
    """Where each parameter is kept: its path, and the container and key there."""
    from mlxc.nn.layers.base import Module

    found: dict[str, tuple[Any, Any]] = {}

    def visit(container: Any, prefix: str) -> None:
        for key, value in list(container.items() if isinstance(container, dict) else enumerate(container)):
            if isinstance(container, Module) and not Module.valid_parameter_filter(container, key, value):
                continue
            if isinstance(value, mx.array):
                found[f"{prefix}{key}"] = (container, key)
            elif isinstance(value, (dict, list)):
                visit(value, f"{prefix}{key}.")

    visit(module, "")
    return found


def plan_weights(module: Any, source: str, weights: list[tuple[str, Any]], strict: bool) -> Plan:
    """The replacements that put weights into a module; ValueError with all that does not fit."""
    places = parameter_places(module)
    names = Counter(name for name, _ in weights)
    wrong: list[str] = []
    if twice := [name for name, count in names.items() if count > 1]:
        wrong.append(f"Given twice: {', '.join(twice)}")
    if strict:
        if extra := [name for name in names if name not in places]:
            wrong.append(f"Received {len(extra)} parameters not in model: {', '.join(extra)}")
        if missing := sorted(set(places) - set(names)):
            wrong.append(f"Missing {len(missing)} parameters: {', '.join(missing)}")
    plan: Plan = []
    for name, value in weights:
        if name not in places:
            continue
        container, key = places[name]
        if not isinstance(value, mx.array):
            wrong.append(f"Expected an array but received {type(value).__name__} for parameter {name}")
        elif strict and value.shape != container[key].shape:
            wrong.append(f"Expected shape {container[key].shape} but received shape {value.shape} for parameter {name}")
        plan.append((container, key, value))
    if wrong:
        cut = [text if len(text) < 2000 else f"{text[:2000]} ..." for text in wrong[:50]]
        raise ValueError(f"[load_weights] {source} do not fit {type(module).__name__}. {'; '.join(cut)}")
    return plan


def write_weights(file: Any, weights: dict[str, mx.array]) -> None:
    if not isinstance(file, (str, os.PathLike)):
        raise TypeError(f"[save_weights] file is a path, got {type(file).__name__}")
    path = os.fspath(file)
    if path.endswith(".npz"):
        mx.savez(path, **weights)
    elif path.endswith(".safetensors"):
        mx.save_safetensors(path, weights)
    elif path.endswith(".safetensors" + INDEX):
        write_shards(path, weights)
    else:
        raise ValueError(
            f"[save_weights] Unsupported file extension for {path}. Use '.npz' or '.safetensors', or "
            f"'.safetensors{INDEX}' for several files."
        )


def divide(weights: dict[str, mx.array], size: int) -> list[dict[str, mx.array]]:
    """The weights in order, in parts of at most so many bytes, or of one array."""
    parts: list[dict[str, mx.array]] = [{}]
    used = 0
    for name, value in weights.items():
        if parts[-1] and used + value.nbytes > size:
            parts.append({})
            used = 0
        parts[-1][name] = value
        used += value.nbytes
    return parts


def write_shards(path: str, weights: dict[str, mx.array]) -> None:
    """Writes shards and their index. Until the index is replaced, in one step, the old one and its shards stay."""
    folder, stem = os.path.dirname(path), os.path.basename(path).removesuffix(".safetensors" + INDEX)
    parts = divide(weights, SHARD_BYTES)
    old = named_files(path)
    for generation in count(1):
        prefix = stem if generation == 1 else f"{stem}.{generation}"
        names = [f"{prefix}-{i + 1:05d}-of-{len(parts):05d}.safetensors" for i in range(len(parts))]
        if not any(os.path.exists(os.path.join(folder, name)) for name in names):
            break
    index = {
        "metadata": {"total_size": sum(value.nbytes for value in weights.values())},
        "weight_map": {tensor: name for name, part in zip(names, parts, strict=True) for tensor in part},
    }
    try:
        for name, part in zip(names, parts, strict=True):
            mx.save_safetensors(os.path.join(folder, name), part, {"format": "mlx"})
        with open_to_write(path, ".json", "save_weights") as out:
            out.write(json.dumps(index, indent=2).encode())
    except BaseException:
        remove(folder, names)
        raise
    remove(folder, [name for name in old if name.startswith(stem)])


def named_files(path: str) -> set[str]:
    """The files beside an index that it names; none if there is no index or it is unsound."""
    try:
        with open(path, encoding="utf-8") as file:
            places = json.load(file)["weight_map"]
        return {name for name in places.values() if name == os.path.basename(name)}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return set()


def remove(folder: str, names: Iterable[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, name))
