"""load: a Hugging Face folder or a GGUF file to a model with its tokenizer.

Called by users, the command line and the examples. All names and shapes are checked before a model is handed out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mlxc as mx

from .config import ModelConfig, read_config
from .gguf import config_of_metadata, weights_of_gguf
from .llama import Llama
from .tokenizer import Tokenizer, check_vocabulary
from .weights import (
    dequantize_weights,
    packed_layers,
    put_weights,
    quantize_layers,
    read_weights,
    without_derived,
)

__all__ = ["load", "load_model"]


def read_gguf(path: Path) -> tuple[ModelConfig, dict[str, mx.array], dict[str, Any], dict[str, Path], dict[str, Any]]:
    """Configuration, weights, how they are packed, where each is from, and the metadata."""
    try:
        arrays, metadata = mx.load(str(path), format="gguf", return_metadata=True)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("[load] ")) from None
    config = config_of_metadata(metadata, arrays, str(path))
    weights, packed = weights_of_gguf(arrays, config, str(path))
    return config, weights, packed, dict.fromkeys(weights, path), metadata


def read_folder(folder: Path) -> tuple[ModelConfig, dict[str, mx.array], dict[str, Any], dict[str, Path]]:
    """Configuration, weights, how they are packed, and where each is from."""
    config = read_config(folder)
    weights, sources = read_weights(folder)
    weights = without_derived(weights, config.tie_word_embeddings)
    packed = packed_layers(weights, config.quantization, str(folder / "config.json"))
    return config, weights, packed, sources


def load_with_metadata(
    path: str | os.PathLike[str], dtype: mx.Dtype | None, lazy: bool
) -> tuple[Llama, dict[str, Any] | None]:
    """A model, and the metadata if it is from a GGUF file."""
    if dtype is not None and (not isinstance(dtype, mx.Dtype) or not mx.issubdtype(dtype, mx.floating)):
        raise TypeError(f"[load] dtype must be a floating-point dtype or None, got {dtype!r}")
    place = Path(path)
    metadata = None
    if place.is_dir():
        config, weights, packed, sources = read_folder(place)
    elif not place.exists():
        raise FileNotFoundError(f"{place}: there is no such file or folder")
    elif place.suffix == ".gguf":
        config, weights, packed, sources, metadata = read_gguf(place)
    else:
        raise ValueError(f"{place}: a model is a folder with config.json and safetensors, or a .gguf file")
    if dtype is not None:
        weights, packed = dequantize_weights(weights, packed, dtype, str(place)), {}
    model = Llama(config)
    if packed:
        quantize_layers(model, packed, str(place))
    put_weights(model, weights, sources, str(place))
    model.eval()
    if not lazy:
        mx.eval(model.parameters())
    return model, metadata


def load_model(path: str | os.PathLike[str], dtype: mx.Dtype | None = None, *, lazy: bool = False) -> Llama:
    """Loads a model without its tokenizer.

    Files are mapped, not read: weights that are used as they are stored stay in the file's pages.

    Args:
        path: a Hugging Face folder (config.json, safetensors in one file or several, MLX's quantised layout too), or a
            GGUF file.
        dtype: floating-point dtype of all weights, to which packed ones are expanded; None keeps what is stored.
        lazy: whether to leave conversions of weights (of a GGUF file or to `dtype`) until they are first used.

    Returns:
        The model, in evaluation mode.

    Raises:
        FileNotFoundError: if there is no such file or folder, or it lacks a part.
        ValueError: if the architecture is not known, or a tensor is missing, unexpected, truncated or of another
            shape; the error names file, tensor, what was expected and what found.
        TypeError: if `dtype` is no floating-point dtype.

    Example:
        >>> from mlxc.models import load_model
        >>> model = load_model("SmolLM2-135M-Instruct.Q4_1.gguf")  # doctest: +SKIP
        >>> model(mx.array([[1, 2, 3]])).shape  # doctest: +SKIP
        (1, 3, 49152)
    """
    return load_with_metadata(path, dtype, lazy)[0]


def load(path: str | os.PathLike[str], dtype: mx.Dtype | None = None, *, lazy: bool = False) -> tuple[Llama, Tokenizer]:
    """Loads a model and its tokenizer.

    Files are mapped, not read: weights that are used as they are stored stay in the file's pages.

    Args:
        path: a Hugging Face folder (config.json, safetensors in one file or several, tokenizer.json; MLX's quantised
            layout too), or a GGUF file.
        dtype: floating-point dtype of all weights, to which packed ones are expanded; None keeps what is stored.
        lazy: whether to leave conversions of weights (of a GGUF file or to `dtype`) until they are first used.

    Returns:
        The model, in evaluation mode, and the tokenizer.

    Raises:
        FileNotFoundError: if there is no such file or folder, or it lacks a part.
        ValueError: if the architecture is not known, a tensor is missing, unexpected, truncated or of another shape,
            or the tokenizer has another vocabulary than the model; the error names file, tensor, what was expected
            and what found.
        TypeError: if `dtype` is no floating-point dtype.
        ImportError: without the package tokenizers.

    Example:
        >>> from mlxc.models import generate, load
        >>> model, tokenizer = load("SmolLM2-135M-Instruct.Q4_1.gguf")  # doctest: +SKIP
        >>> generate(model, tokenizer, "1, 2, 3, 4, 5, 6,", max_tokens=6)  # doctest: +SKIP
        ' 7, 8,'
    """
    model, metadata = load_with_metadata(path, dtype, lazy)
    tokenizer = Tokenizer.from_folder(path) if metadata is None else Tokenizer.from_gguf(metadata, str(path))
    check_vocabulary(tokenizer, model.config.vocab_size)
    return model, tokenizer
