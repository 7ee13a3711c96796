"""Lists of caches, one a layer: making them for a model, trimming them together, keeping a prompt's in a file.

A long prompt that comes again and again is read by the model once; its caches are saved and loaded. The file is a
safetensors file, so other programs can look into it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import mlxc as mx

from .cache import KVCache, QuantizedKVCache, RotatingKVCache

__all__ = ["load_prompt_cache", "make_cache", "save_prompt_cache", "trim_prompt_cache"]

KINDS = {kind.__name__: kind for kind in (KVCache, QuantizedKVCache, RotatingKVCache)}
FORMAT = "mlxc.prompt_cache"


def make_cache(
    model: Any, max_size: int | None = None, keep: int = 4, bits: int | None = None, group_size: int = 64
) -> list[Any]:
    """Empty caches for a model, one a layer.

    Args:
        model: has `layers`; or `make_cache()`, whose list is taken where nothing else is asked for.
        max_size: keeps only so many tokens; None for all.
        keep: with max_size, how many of the first tokens are never dropped.
        bits: keeps all tokens in so many bits a number.
        group_size: with bits, how many numbers share a scale.

    Returns:
        The list.

    Raises:
        ValueError: if max_size and bits are both given, or a value isn't possible.

    Example:
        >>> from types import SimpleNamespace
        >>> from mlxc.models.prompt_cache import make_cache
        >>> make_cache(SimpleNamespace(layers=[None, None]))
        [KVCache(0 tokens, 0 bytes), KVCache(0 tokens, 0 bytes)]
    """
    if max_size is not None and bits is not None:
        raise ValueError("[make_cache] max_size and bits are both given, a rotating cache can't be quantised")
    if max_size is None and bits is None and hasattr(model, "make_cache"):
        return model.make_cache()
    if max_size is not None:
        return [RotatingKVCache(max_size, min(keep, max_size - 1)) for _ in model.layers]
    if bits is not None:
        return [QuantizedKVCache(group_size, bits) for _ in model.layers]
    return [KVCache() for _ in model.layers]


def trim_prompt_cache(cache: Sequence[Any], n: int) -> int:
    """Takes the last tokens back from all layers, or from none.

    Args:
        cache: the caches.
        n: how many tokens.

    Returns:
        How many it were.

    Raises:
        ValueError: if n is negative.

    Example:
        >>> from mlxc.models.cache import KVCache
        >>> from mlxc.models.prompt_cache import trim_prompt_cache
        >>> trim_prompt_cache([KVCache(), KVCache()], 2)
        0
    """
    if not cache or not all(layer.is_trimmable() for layer in cache):
        return 0
    trimmed = [layer.trim(n) for layer in cache]
    return trimmed[0]


def save_prompt_cache(
    file: str | os.PathLike[str], cache: Sequence[Any], metadata: Mapping[str, str] | None = None
) -> None:
    """Saves caches to a file. A save that fails leaves the old file.

    Args:
        file: the path; ".safetensors" is added where it is missing.
        cache: the caches, one a layer.
        metadata: strings to keep beside them, such as the model's name.

    Raises:
        TypeError: if one is no cache of this library.
        OSError: if the file can't be written.

    Example:
        >>> save_prompt_cache("prompt.safetensors", cache)  # doctest: +SKIP
    """
    arrays: dict[str, mx.array] = {}
    layers = []
    for i, layer in enumerate(cache):
        if type(layer).__name__ not in KINDS:
            raise TypeError(f"[save_prompt_cache] layer {i} is {type(layer).__name__}, one of {', '.join(KINDS)} is")
        layers.append({"kind": type(layer).__name__, **layer.meta_state})
        arrays |= {f"{i}.{j}": array for j, array in enumerate(layer.state)}
    about = {"format": FORMAT, "layers": json.dumps(layers), "user": json.dumps(dict(metadata or {}))}
    mx.save_safetensors(os.fspath(file), arrays, about)


def load_prompt_cache(file: str | os.PathLike[str], return_metadata: bool = False) -> Any:
    """Loads what save_prompt_cache saved.

    Args:
        file: the path.
        return_metadata: gives the strings too.

    Returns:
        The list of caches; with return_metadata, it and the dict of strings.

    Raises:
        OSError: if there is no such file.
        ValueError: if it is broken or another kind of file.

    Example:
        >>> cache = load_prompt_cache("prompt.safetensors")  # doctest: +SKIP
    """
    arrays, about = mx.load(os.fspath(file), return_metadata=True)
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError(f"{file} holds no prompt cache")
    try:
        layers, user = json.loads(about["layers"]), json.loads(about["user"])
        caches = [load_layer(i, layer, arrays) for i, layer in enumerate(layers)]
    except (KeyError, TypeError, AttributeError, IndexError, ZeroDivisionError, ValueError, RecursionError) as error:
        raise ValueError(f"{file} holds a broken prompt cache: {error}") from None
    held = [layer.offset for layer in caches]
    if len(set(held)) > 1:
        raise ValueError(f"{file} holds a broken prompt cache: its layers have read {held} tokens")
    return (caches, user) if return_metadata else caches


def load_layer(i: int, about: dict[str, Any], arrays: dict[str, mx.array]) -> Any:
    kind = KINDS[about["kind"]]
    layer = RotatingKVCache(1) if kind is RotatingKVCache else kind()
    wanted = 6 if kind is QuantizedKVCache else 2
    state = [arrays[f"{i}.{j}"] for j in range(wanted)] if f"{i}.0" in arrays else []
    if any(array.ndim != 4 or array.shape[:3] != state[0].shape[:3] for array in state):
        raise ValueError(f"the arrays of layer {i} have shapes {[array.shape for array in state]}")
    layer.state = state
    layer.meta_state = {name: value for name, value in about.items() if name != "kind"}
    return layer
