"""The command lora: trains low-rank additions.

Called by cli.py; tune.py does the work.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import mlxc as mx
from mlxc import optimizers

from .load import load
from .lora import KEYS, linear_to_lora_layers
from .tune import TrainingReport, evaluate, train
from .tuning_data import Example, read_examples

__all__ = ["add_commands"]

OPTIMIZERS = {"adam": optimizers.Adam, "adamw": optimizers.AdamW, "sgd": optimizers.SGD}


def add_commands(commands: Any) -> None:
    """Adds lora."""
    parser = commands.add_parser(
        "lora", help="train low-rank additions to a model",
        description="Trains low-rank additions to a model's frozen weights. --data is a .jsonl or .txt file, or a "
        "folder with train.jsonl and perhaps valid.jsonl and test.jsonl. A line has \"messages\", \"prompt\" and "
        "\"completion\", or \"text\".",
    )  # fmt: skip
    parser.add_argument("--model", required=True, metavar="PATH", help="a Hugging Face folder or a GGUF file")
    parser.add_argument(
        "--dtype",
        choices=("float32", "float16", "bfloat16"),
        help="expands all weights to this dtype; by default as they are stored",
    )
    parser.add_argument("--data", required=True, metavar="PATH", help="what to learn")
    parser.add_argument(
        "--adapter-path", default="adapters", metavar="FOLDER", help="where the additions are kept (%(default)s)"
    )
    parser.add_argument("--resume", action="store_true", help="goes on where an interrupted run was saved")
    group = parser.add_argument_group("training")
    group.add_argument("--iters", type=int, default=100, metavar="N", help="steps in all (%(default)s)")
    group.add_argument("--batch-size", type=int, default=4, metavar="N", help="rows a step (%(default)s)")
    group.add_argument("--learning-rate", type=float, default=1e-4, metavar="X", help="(%(default)s)")
    group.add_argument("--optimizer", choices=sorted(OPTIMIZERS), default="adam", help="(%(default)s)")
    group.add_argument(
        "--max-seq-length", type=int, default=2048, metavar="N", help="longer rows are cut (%(default)s)"
    )
    group.add_argument("--mask-prompt", action="store_true", help="learns answers only, not what is asked")
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the additions and the order of rows (%(default)s)"
    )
    group = parser.add_argument_group("additions")
    group.add_argument("--dora", action="store_true", help="learns the lengths of the weights' rows too")
    group.add_argument(
        "--num-layers",
        type=int,
        default=16,
        metavar="N",
        help="how many of the last blocks get some; -1 for all (%(default)s)",
    )
    group.add_argument("--rank", type=int, default=8, metavar="R", help="(%(default)s)")
    group.add_argument("--scale", type=float, default=20.0, metavar="X", help="(%(default)s)")
    group.add_argument("--dropout", type=float, default=0.0, metavar="P", help="(%(default)s)")
    group.add_argument(
        "--keys", nargs="+", default=list(KEYS), metavar="PATH", help="layers of a block that get one (%(default)s)"
    )
    group = parser.add_argument_group("reports")
    group.add_argument("--steps-per-report", type=int, default=10, metavar="N", help="(%(default)s)")
    group.add_argument("--steps-per-eval", type=int, default=200, metavar="N", help="(%(default)s)")
    group.add_argument("--save-every", type=int, default=100, metavar="N", help="(%(default)s)")
    group.add_argument("--val-batches", type=int, default=25, metavar="N", help="-1 for all (%(default)s)")
    parser.set_defaults(run=run_lora)


def read_data(options: argparse.Namespace, tokenizer: Any) -> dict[str, list[Example]]:
    """The rows of "train", and of "valid" and "test" where the folder has them."""
    place = Path(options.data)
    if not place.exists():
        raise FileNotFoundError(f"{place}: there is no such file or folder")
    if place.is_dir():
        files = {name: place / f"{name}.jsonl" for name in ("train", "valid", "test")}
        if not files["train"].exists():
            raise FileNotFoundError(f"{place} has no train.jsonl")
    else:
        files = {"train": place}
    return {
        name: read_examples(file, tokenizer, options.max_seq_length, options.mask_prompt)
        for name, file in files.items()
        if file.exists()
    }


def run_lora(options: argparse.Namespace) -> None:
    try:
        from tqdm import tqdm
    except ImportError as error:
        raise ImportError("progress bars need the package tqdm: pip install 'mlxc[models]'") from error
    if not 0 < options.learning_rate < float("inf"):
        raise ValueError(f"--learning-rate is {options.learning_rate}, a positive number is needed")
    mx.random.seed(options.seed)
    model, tokenizer = load(options.model, None if options.dtype is None else getattr(mx, options.dtype))
    rows = read_data(options, tokenizer)
    model.freeze()
    about = {"rank": options.rank, "scale": options.scale, "dropout": options.dropout, "keys": options.keys}
    layers = len(model.layers) if options.num_layers == -1 else min(options.num_layers, len(model.layers))
    linear_to_lora_layers(model, layers, about, options.dora)
    most = None if options.val_batches == -1 else options.val_batches
    with tqdm(total=options.iters, unit="step", file=sys.stderr) as bar:

        def show(report: TrainingReport) -> None:
            bar.update(report.iteration - bar.n)
            measured = "" if report.validation_loss is None else f", validation loss {report.validation_loss:.4f}"
            tqdm.write(
                f"step {report.iteration}: loss {report.loss:.4f}{measured}, {report.tokens_per_second:.0f} tokens/s, "
                f"peak memory {report.peak_memory / 1e6:.0f} MB",
                file=sys.stdout,
            )

        train(
            model,
            OPTIMIZERS[options.optimizer](learning_rate=options.learning_rate),
            rows["train"],
            rows.get("valid"),
            iterations=options.iters,
            batch_size=options.batch_size,
            seed=options.seed,
            folder=options.adapter_path,
            adapter_config={"num_layers": layers, "model": str(options.model)},
            resume=options.resume,
            steps_per_report=options.steps_per_report,
            steps_per_evaluation=options.steps_per_eval,
            steps_per_save=options.save_every,
            validation_batches=most,
            report=show,
        )
    if "test" in rows:
        print(f"test loss {evaluate(model, rows['test'], options.batch_size):.4f}")
    print(f"{options.adapter_path}: additions after {options.iters} steps")
