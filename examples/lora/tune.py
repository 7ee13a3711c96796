"""Teaches SmolLM2 a few facts by LoRA, then asks it about them.

    python examples/lora/tune.py

fetches the weights, tunes, puts what was learned into the weights, and generates from the new model. The parts are
those of `python -m mlxc.models lora`, `fuse` and `generate`; here they are called one by one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import mlxc as mx
from mlxc import optimizers
from mlxc.models import (
    TrainingReport,
    fuse_lora_layers,
    generate,
    linear_to_lora_layers,
    load,
    read_examples,
    save_model,
    train,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import packages

FACTS = Path(__file__).resolve().parent / "facts.jsonl"
QUESTION = "What is the colour of the mlxc logo?"
DTYPES = {"stored": None, "float32": mx.float32}


def parse_args(args: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Tune SmolLM2 on a few facts, fuse, and generate.")
    parser.add_argument("--model", type=Path, help="a folder or a GGUF file; SmolLM2-135M-Instruct by default")
    parser.add_argument("--data", type=Path, default=FACTS, help="rows to learn")
    parser.add_argument("--question", default=QUESTION, help="what to ask before and after")
    parser.add_argument("--output", type=Path, default=Path("tuned"), help="new folder for adapters and fused model")
    parser.add_argument("--dtype", choices=DTYPES, default="stored", help="stored: the base stays in 4 bits")
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--batch-size", type=int, default=6)
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--layers", type=int, default=8, help="how many of the last blocks are tuned")
    parser.add_argument("--resume", action="store_true", help="go on with an interrupted run")
    return parser.parse_args(args)


def ask(model: Any, tokenizer: Any, question: str) -> str:
    chat = [{"role": "user", "content": question}]
    prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True)
    return generate(model, tokenizer, prompt, max_tokens=24)


def show(report: TrainingReport) -> None:
    print(f"step {report.iteration}: loss {report.loss:.4f}, {report.tokens_per_second:.0f} tokens/s", flush=True)


def main(args: list[str] | None = None) -> tuple[str, str]:
    """Prints and returns the answers before and after."""
    options = parse_args(args)
    fused = options.output / "fused"
    if fused.exists():
        raise SystemExit(f"{fused} exists already: name another folder with --output")
    path = options.model or packages.fetch("smollm2")
    model, tokenizer = load(path, DTYPES[options.dtype])
    rows = read_examples(options.data, tokenizer, mask_prompt=True)
    before = ask(model, tokenizer, options.question)
    print(f"Before: {before}", flush=True)

    # All weights stay as they are; only the additions to queries and values are trained.
    mx.random.seed(0)
    model.freeze()
    linear_to_lora_layers(model, options.layers, {"rank": 8, "scale": 10.0})
    train(
        model,
        optimizers.Adam(options.learning_rate),
        rows,
        iterations=options.steps,
        batch_size=options.batch_size,
        folder=options.output / "adapters",
        resume=options.resume,
        steps_per_report=4,
        steps_per_save=8,
        report=show,
    )

    fuse_lora_layers(model)
    save_model(model, path, fused)
    model, tokenizer = load(fused)
    after = ask(model, tokenizer, options.question)
    print(f"After:  {after}")
    return before, after


if __name__ == "__main__":
    main()
