"""The commands convert, quantize and fuse.

Called by cli.py; convert.py and lora.py do the work.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mlxc as mx

from .adapters import load_adapters
from .convert import Conversion, convert, save_model
from .load import load_model
from .lora import fuse_lora_layers

__all__ = ["add_commands", "bytes_bar"]

DTYPES = ("float32", "float16", "bfloat16")
MODES = ("affine", "mxfp4", "mxfp8", "nvfp4")


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", required=True, metavar="FOLDER", help="the new folder")
    parser.add_argument(
        "--max-file-gb",
        type=float,
        default=5.0,
        metavar="GB",
        help="size above which weights get several files (%(default)s)",
    )


def add_packing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--bits", type=int, metavar="B", help="bits a weight (4; 8 for mxfp8)")
    parser.add_argument(
        "--group-size",
        type=int,
        metavar="G",
        help="weights that share a scale (64; 32 for mxfp4 and mxfp8, 16 for nvfp4)",
    )
    parser.add_argument("--mode", choices=MODES, default="affine", help="how weights are packed (%(default)s)")


def add_commands(commands: Any) -> None:
    """Adds convert, quantize and fuse."""
    parser = commands.add_parser(
        "convert", help="make a folder in MLX's layout, in another dtype or quantised",
        description="Makes a folder in MLX's layout of a Hugging Face folder or a GGUF file.",
    )  # fmt: skip
    parser.add_argument("--model", required=True, metavar="PATH", help="a Hugging Face folder or a GGUF file")
    add_output(parser)
    parser.add_argument("--dtype", choices=DTYPES, help="dtype of the weights; by default as they are")
    parser.add_argument("--dequantize", action="store_true", help="expands weights that are quantised")
    parser.add_argument("--quantize", action="store_true", help="quantises the weights")
    add_packing(parser)
    parser.set_defaults(run=run_convert)
    parser = commands.add_parser(
        "quantize", help="quantise a model", description="Makes a folder with the model's weights quantised.",
    )  # fmt: skip
    parser.add_argument("--model", required=True, metavar="PATH", help="a Hugging Face folder or a GGUF file")
    add_output(parser)
    parser.add_argument("--dtype", choices=DTYPES, help="dtype of what is not packed, scales included")
    parser.add_argument("--dequantize", action="store_true", help="expands weights that are quantised already first")
    add_packing(parser)
    parser.set_defaults(run=run_convert, quantize=True)
    parser = commands.add_parser(
        "fuse", help="put low-rank additions into a model's weights",
        description="Makes a folder with a model whose low-rank additions are added to its weights.",
    )  # fmt: skip
    parser.add_argument("--model", required=True, metavar="PATH", help="the model that the additions were trained for")
    parser.add_argument("--adapter-path", default="adapters", metavar="FOLDER", help="the additions (%(default)s)")
    add_output(parser)
    parser.add_argument("--dequantize", action="store_true", help="leaves quantised layers that were added to expanded")
    parser.set_defaults(run=run_fuse)


@contextmanager
def bytes_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar for what is written; it shows when something is, so that a mistake is one line."""
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("progress bars need the package tqdm: pip install 'mlxc[models]'") from error
    bar = None

    def show(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            bar = tqdm(desc=title, total=total, unit="B", unit_scale=True, file=sys.stderr)
        bar.update(done - bar.n)

    try:
        yield show
    finally:
        if bar is not None:
            bar.close()


def most_bytes(options: argparse.Namespace) -> int:
    if not options.max_file_gb > 0 or options.max_file_gb == float("inf"):
        raise ValueError(f"--max-file-gb is {options.max_file_gb}, a positive number is needed")
    return max(1, int(options.max_file_gb * 1e9))


def run_convert(options: argparse.Namespace) -> None:
    dtype = None if options.dtype is None else getattr(mx, options.dtype)
    with bytes_bar("writing") as show:
        made = convert(
            options.model,
            options.output,
            dtype=dtype,
            quantize=options.quantize,
            dequantize=options.dequantize,
            group_size=options.group_size,
            bits=options.bits,
            mode=options.mode,
            max_file_bytes=most_bytes(options),
            progress=show,
        )
    print(summary(made, options.output))


def summary(made: Conversion, folder: str) -> str:
    parts = [f"{folder}: {made.parameters / 1e6:.1f} million weights", f"{made.bytes / 1e6:.1f} MB"]
    parts.append(f"{made.bits_per_weight:.2f} bits a weight")
    if made.quantized:
        parts.append(f"{len(made.quantized)} layers quantised")
    if made.left:
        parts.append(f"{len(made.left)} left as they are ({made.left[0]}: its width is no multiple of the group size)")
    return ", ".join(parts)


def run_fuse(options: argparse.Namespace) -> None:
    model = load_model(options.model, lazy=True)
    load_adapters(model, options.adapter_path)
    fused = fuse_lora_layers(model, options.dequantize)
    with bytes_bar("writing") as show:
        size = save_model(model, options.model, options.output, max_file_bytes=most_bytes(options), progress=show)
    print(f"{options.output}: additions put into {len(fused)} layers, {size / 1e6:.1f} MB")
