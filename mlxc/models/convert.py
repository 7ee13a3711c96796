"""Conversion: a Hugging Face folder or a GGUF file to a folder in MLX's layout, in another dtype or quantised.

Called by users and the command line; fuse saves through it too. A folder appears when all of it is written: until then
it has another, hidden name beside its place, and an error or Ctrl-C leaves nothing.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlxc as mx
from mlxc import nn
from mlxc._files.access import keep_rename
from mlxc.utils import tree_flatten

from .config_json import config_to_dict
from .load import load_with_metadata
from .lora import dense_shape
from .quantize import dequantize_model, quantization_of, quantize_model
from .tokenizer import Tokenizer, check_vocabulary

__all__ = ["Conversion", "convert", "save_model"]

MOST_BYTES = 5 << 30
# What a folder may have beside its weights that belongs to the model.
OTHER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "merges.txt", "generation_config.json", "chat_template.jinja", "chat_template.json", "LICENSE",
    "LICENSE.txt", "NOTICE", "USE_POLICY.md",
)  # fmt: skip


@dataclass(frozen=True)
class Conversion:
    """What convert did.

    Args:
        parameters: how many numbers the model has.
        bytes: what its weights take in the new files.
        quantized: the paths of the layers that were quantised.
        left: the paths of those that weren't, since their width is no multiple of the group size.

    Example:
        >>> convert("model.gguf", "model").bytes  # doctest: +SKIP
    """

    parameters: int
    bytes: int
    quantized: list[str]
    left: list[str]

    @property
    def bits_per_weight(self) -> float:
        """Bits of the files for each number of the model, scales and biases included."""
        return 8 * self.bytes / self.parameters


@contextmanager
def new_folder(target: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to fill, which gets its name when it is full. The name must be free, or that of an empty folder."""
    place = Path(target).absolute()
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise FileExistsError(f"{target} exists already: name a new folder")
    place.parent.mkdir(parents=True, exist_ok=True)
    beside = place.parent / f".{place.name}-{os.getpid()}-{os.urandom(4).hex()}.tmp"
    beside.mkdir()
    try:
        yield beside
        beside.replace(place)
    except BaseException:
        shutil.rmtree(beside)
        raise
    keep_rename(str(place.parent))


def shards(arrays: dict[str, mx.array], most_bytes: int) -> list[list[str]]:
    """The names of the arrays of each file, in order; a file has at least one."""
    files: list[list[str]] = []
    size = 0
    for name, array in arrays.items():
        if not files or size + array.nbytes > most_bytes:
            files.append([])
            size = 0
        files[-1].append(name)
        size += array.nbytes
    return files


def write_weights(
    folder: Path, arrays: dict[str, mx.array], most_bytes: int, progress: Callable[[int, int], None] | None
) -> int:
    """Writes the arrays, with an index if they are in several files. Takes them out of the dict, to free memory."""
    files = shards(arrays, most_bytes)
    total = sum(array.nbytes for array in arrays.values())
    places: dict[str, str] = {}
    written = 0
    for number, names in enumerate(files, start=1):
        file = "model.safetensors" if len(files) == 1 else f"model-{number:05d}-of-{len(files):05d}.safetensors"
        part = {name: arrays.pop(name) for name in names}
        mx.save_safetensors(str(folder / file), part, {"format": "mlx"})
        written += sum(array.nbytes for array in part.values())
        places |= dict.fromkeys(names, file)
        if progress is not None:
            progress(written, total)
    if len(files) > 1:
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
        write_json(folder / "model.safetensors.index.json", index)
    return total


def write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=4, ensure_ascii=False) + "\n", "utf-8")


def check_bytes(most_bytes: int) -> None:
    if isinstance(most_bytes, bool) or not isinstance(most_bytes, int) or most_bytes < 1:
        raise ValueError(f"[convert] max_file_bytes is {most_bytes!r}, a positive whole number is needed")


def save_model(
    model: nn.Module,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    max_file_bytes: int = MOST_BYTES,
    metadata: dict[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Saves a model as a folder, with the tokenizer and the configuration of the one that it comes from.

    Args:
        model: the model.
        source: the folder or GGUF file that it was loaded from.
        target: the new folder; it must not exist, or be empty.
        max_file_bytes: weights above this size are put into several files, with an index.
        metadata: those of the GGUF file, if they were read already.
        progress: called with the bytes that are written and those of all weights.

    Returns:
        The bytes of the weights.

    Raises:
        FileExistsError: if the target exists and is not empty.
        ValueError: if no config.json can describe the model.
        OSError: if a file can't be read or written.

    Example:
        >>> save_model(model, "SmolLM2-135M-Instruct", "tuned")  # doctest: +SKIP
    """
    check_bytes(max_file_bytes)
    source = Path(source)
    with new_folder(target) as folder:
        if source.is_dir():
            config = json.loads((source / "config.json").read_text("utf-8"))
            for name in OTHER_FILES:
                if (source / name).is_file():
                    shutil.copyfile(source / name, folder / name)
        else:
            if metadata is None:
                metadata = mx.load(str(source), return_metadata=True)[1]
            config = describe_gguf(model, metadata, source, folder)
        for name in ("quantization", "quantization_config"):
            config.pop(name, None)
        quantization = quantization_of(model)
        if quantization is not None:
            config["quantization"] = quantization
        arrays = dict(tree_flatten(model.parameters()))
        floats = {array.dtype.name for array in arrays.values() if mx.issubdtype(array.dtype, mx.floating)}
        if len(floats) == 1:
            config.pop("dtype", None)
            config["torch_dtype"] = floats.pop()
        write_json(folder / "config.json", config)
        return write_weights(folder, arrays, max_file_bytes, progress)


def describe_gguf(model: Any, metadata: dict[str, Any], source: Path, folder: Path) -> dict[str, Any]:
    """Writes the tokenizer of a GGUF file, and gives the config.json of its model."""
    tokenizer = Tokenizer.from_gguf(metadata, str(source))
    check_vocabulary(tokenizer, model.config.vocab_size)
    tokenizer.save(folder)
    config = config_to_dict(model.config, str(source))
    for name in ("bos", "eos", "pad"):
        if name in tokenizer.special:
            config[f"{name}_token_id"] = tokenizer.special[name]
    return config


def count_parameters(model: nn.Module) -> int:
    """How many numbers a model has, packed or not."""
    arrays = dict(tree_flatten(model.parameters()))
    packed = {name.removesuffix(".scales") for name in arrays if name.endswith(".scales")}
    plain = sum(array.size for name, array in arrays.items() if name.rpartition(".")[0] not in packed)
    layers = dict(model.named_modules())
    for path in packed:
        rows, columns = dense_shape(layers[path])
        plain += rows * columns + (layers[path].bias.size if "bias" in layers[path] else 0)
    return plain


def shift_norms(model: Any) -> None:
    """GGUF files have 1 added to the norms of Gemma, Hugging Face folders have not."""
    if model.config.architecture.startswith("gemma") and model.config.norm_offset == 0:
        shifted = [
            (name, array - 1) for name, array in tree_flatten(model.parameters()) if name.endswith("norm.weight")
        ]
        model.load_weights(shifted, strict=False)
        model.config = dataclasses.replace(model.config, norm_offset=1.0)


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    dtype: mx.Dtype | None = None,
    quantize: bool = False,
    dequantize: bool = False,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    predicate: Callable[[str, nn.Module], bool | dict[str, Any]] | None = None,
    max_file_bytes: int = MOST_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> Conversion:
    """Converts a model to a folder in MLX's layout.

    Args:
        source: a Hugging Face folder or a GGUF file.
        target: the new folder; it must not exist, or be empty.
        dtype: float dtype of the weights, and of the scales of those that are quantised now; by default as they are.
        quantize: quantises the layers.
        dequantize: expands layers that are quantised in the source; with quantize too, they are quantised anew.
        group_size: with quantize, how many neighbours share a scale; None is the mode's own.
        bits: with quantize, bits a weight; None is the mode's own.
        mode: with quantize, "affine", "mxfp4", "mxfp8" or "nvfp4".
        predicate: with quantize, says of a path and a layer whether to quantise it, or how, as a dict.
        max_file_bytes: weights above this size are put into several files, with an index.
        progress: called with the bytes that are written and those of all weights.

    Returns:
        A Conversion, which says what was done.

    Raises:
        FileNotFoundError: if the source is missing, or a part of it.
        FileExistsError: if the target exists and is not empty.
        ValueError: if the source is broken or not known, is quantised and should be in another dtype or quantised
            without `dequantize`, or a value isn't possible.
        TypeError: if dtype is no float dtype.
        OSError: if a file can't be written.

    Example:
        >>> convert("model.gguf", "model-4bit", dequantize=True, quantize=True, bits=4)  # doctest: +SKIP
    """
    check_bytes(max_file_bytes)
    if dtype is not None and (not isinstance(dtype, mx.Dtype) or not mx.issubdtype(dtype, mx.floating)):
        raise TypeError(f"[convert] dtype is {dtype!r}, a float dtype is needed")
    if not quantize and (group_size is not None or bits is not None or mode != "affine" or predicate is not None):
        raise ValueError("[convert] group_size, bits, mode and predicate are for quantize")
    place = Path(target)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise FileExistsError(f"{target} exists already: name a new folder")
    model, metadata = load_with_metadata(source, None, True)
    if quantization_of(model) is not None:
        if not dequantize and (quantize or dtype is not None):
            raise ValueError(
                f"{source} is quantised already: expand it with dequantize, to quantise it anew or change it"
            )
        if dequantize:
            dequantize_model(model, dtype)
    elif dequantize:
        raise ValueError(f"{source} is not quantised, there is nothing to expand")
    if dtype is not None:
        model.set_dtype(dtype)
    if metadata is not None:
        shift_norms(model)
    done: list[str] = []
    left: list[str] = []
    if quantize:
        done, left = quantize_model(model, group_size, bits, mode, predicate)
    parameters = count_parameters(model)
    size = save_model(model, source, target, max_file_bytes=max_file_bytes, metadata=metadata, progress=progress)
    return Conversion(parameters, size, done, left)
