"""The commands generate and chat.

Called by cli.py. The text goes to standard output as it comes, all else to standard error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import mlxc as mx

from .adapters import load_adapters
from .generate import stream_generate
from .load import load
from .prompt_cache import load_prompt_cache, make_cache, save_prompt_cache, trim_prompt_cache
from .sample import make_logits_processors, make_sampler

__all__ = ["Chat", "add_commands"]

DTYPES = ("float32", "float16", "bfloat16")


def add_model(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which model."""
    parser.add_argument("--model", required=True, metavar="PATH", help="a Hugging Face folder or a GGUF file")
    parser.add_argument(
        "--dtype", choices=DTYPES, help="expands all weights to this dtype; by default as they are stored"
    )
    parser.add_argument("--adapter-path", metavar="FOLDER", help="low-rank additions to put into the model")


def add_sampling(parser: argparse.ArgumentParser) -> None:
    """The arguments that say how tokens are chosen."""
    group = parser.add_argument_group("choosing tokens")
    group.add_argument(
        "--max-tokens", type=int, default=256, metavar="N", help="the most tokens to write (%(default)s)"
    )
    group.add_argument(
        "--temp", type=float, default=0.0, metavar="T", help="temperature; 0 takes the likeliest (%(default)s)"
    )
    group.add_argument("--top-p", type=float, default=0.0, metavar="P", help="keeps the likeliest that hold P together")
    group.add_argument(
        "--min-p", type=float, default=0.0, metavar="P", help="keeps those P times as likely as the likeliest"
    )
    group.add_argument("--top-k", type=int, default=0, metavar="K", help="keeps the K likeliest")
    group.add_argument("--repetition-penalty", type=float, metavar="X", help="more than 1 makes repetitions rarer")
    group.add_argument(
        "--repetition-context-size",
        type=int,
        default=20,
        metavar="N",
        help="last tokens that count for it (%(default)s)",
    )
    group.add_argument("--seed", type=int, metavar="N", help="the same text for the same seed")
    cache = parser.add_argument_group("memory of the text")
    cache.add_argument("--max-kv-size", type=int, metavar="N", help="keeps only the first few and the last of N tokens")
    cache.add_argument("--kv-bits", type=int, metavar="B", help="keeps keys and values in B bits: 2, 3, 4, 5, 6 or 8")
    cache.add_argument(
        "--kv-group-size", type=int, default=64, metavar="G", help="numbers that share a scale (%(default)s)"
    )


def add_commands(commands: Any) -> None:
    """Adds generate and chat."""
    parser = commands.add_parser(
        "generate", help="continue or answer a prompt", description="Continues or answers a prompt."
    )
    add_model(parser)
    parser.add_argument("--prompt", required=True, metavar="TEXT", help="the prompt; - reads it from standard input")
    parser.add_argument("--system-prompt", metavar="TEXT", help="what the model is told before the prompt")
    parser.add_argument("--raw", action="store_true", help="takes the prompt as it is, without the chat template")
    parser.add_argument("--prompt-cache", metavar="FILE", help="goes on from a saved prompt; see --save-prompt-cache")
    parser.add_argument("--save-prompt-cache", metavar="FILE", help="keeps what the model knows at the end in a file")
    parser.add_argument("--quiet", action="store_true", help="no statistics")
    add_sampling(parser)
    parser.set_defaults(run=run_generate)
    parser = commands.add_parser(
        "chat", help="talk with a model", description="Talks with a model. An empty line or Ctrl-D ends."
    )
    add_model(parser)
    parser.add_argument("--system-prompt", metavar="TEXT", help="what the model is told at the beginning")
    add_sampling(parser)
    parser.set_defaults(run=run_chat)


def load_for(options: argparse.Namespace) -> tuple[Any, Any]:
    """The model, with its additions, and the tokenizer."""
    dtype = None if options.dtype is None else getattr(mx, options.dtype)
    model, tokenizer = load(options.model, dtype)
    if options.adapter_path is not None:
        load_adapters(model, options.adapter_path)
        model.eval()
    return model, tokenizer


def sampling_of(options: argparse.Namespace) -> dict[str, Any]:
    """What generate takes of add_sampling's arguments."""
    return {
        "max_tokens": options.max_tokens,
        "sampler": make_sampler(options.temp, options.top_p, options.min_p, top_k=options.top_k, seed=options.seed),
        "logits_processors": make_logits_processors(None, options.repetition_penalty, options.repetition_context_size),
    }


def cache_for(model: Any, options: argparse.Namespace) -> list[Any]:
    return make_cache(model, options.max_kv_size, bits=options.kv_bits, group_size=options.kv_group_size)


def write(steps: Iterable[Any]) -> Any:
    """Writes the text as it comes; the last step, or None."""
    last = None
    for step in steps:
        sys.stdout.write(step.text)
        sys.stdout.flush()
        last = step
    sys.stdout.write("\n")
    sys.stdout.flush()
    return last


def tell(step: Any) -> None:
    """The statistics of a text."""
    print(
        f"prompt: {step.prompt_tokens} tokens, {step.prompt_tps:.1f} tokens/s; "
        f"text: {step.generation_tokens} tokens, {step.generation_tps:.1f} tokens/s; "
        f"peak memory, mapped files aside: {step.peak_memory / 1e6:.0f} MB",
        file=sys.stderr,
    )


def check_cache_files(options: argparse.Namespace) -> None:
    """What can be known of the caches' files before the model is loaded and a text made, which take their time."""
    if options.prompt_cache is not None:
        for name in ("max_kv_size", "kv_bits"):
            if getattr(options, name) is not None:
                flag = "--" + name.replace("_", "-")
                raise ValueError(
                    f"{flag} is for new caches, those of --prompt-cache keep the kind they were saved with"
                )
    if options.save_prompt_cache is not None:
        file = Path(options.save_prompt_cache)
        if not file.name or file.is_dir():
            raise ValueError(f"--save-prompt-cache is {options.save_prompt_cache!r}, the name of a file is needed")
        if not file.parent.is_dir():
            raise FileNotFoundError(f"--save-prompt-cache is {file}: there is no folder {file.parent}")


def run_generate(options: argparse.Namespace) -> None:
    sampling = sampling_of(options)
    check_cache_files(options)
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    model, tokenizer = load_for(options)
    if options.raw or not tokenizer.has_chat_template:
        if options.system_prompt is not None:
            raise ValueError("--system-prompt needs a chat template, without --raw")
        ids = tokenizer.encode(prompt)
    else:
        chat = [{"role": "user", "content": prompt}]
        if options.system_prompt is not None:
            chat.insert(0, {"role": "system", "content": options.system_prompt})
        ids = tokenizer.apply_chat_template(chat, add_generation_prompt=True)
    cache = load_prompt_cache(options.prompt_cache) if options.prompt_cache is not None else cache_for(model, options)
    if len(cache) != len(model.layers):
        raise ValueError(f"{options.prompt_cache} is of {len(cache)} layers, the model has {len(model.layers)}")
    last = write(stream_generate(model, tokenizer, ids, cache=cache, **sampling))
    if options.save_prompt_cache is not None:
        save_prompt_cache(options.save_prompt_cache, cache, {"model": str(options.model)})
    if last is not None and not options.quiet:
        tell(last)


class Chat:
    """A chat that goes on: of each turn the model reads only what it hasn't read yet.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        cache: caches, one a layer, that are empty.
        system_prompt: what the model is told at the beginning.

    Example:
        >>> chat = Chat(model, tokenizer, make_cache(model))  # doctest: +SKIP
        >>> answer = "".join(step.text for step in chat.answer("Hi"))  # doctest: +SKIP
    """

    def __init__(self, model: Any, tokenizer: Any, cache: list[Any], system_prompt: str | None = None) -> None:
        self.model, self.tokenizer, self.cache = model, tokenizer, cache
        self.messages: list[dict[str, str]] = []
        if system_prompt is not None:
            self.messages.append({"role": "system", "content": system_prompt})
        # The ids that the cache has.
        self.read: list[int] = []

    def unread(self, ids: Sequence[int]) -> list[int]:
        """What of the chat so far is not in the cache, after taking back what isn't the chat's."""
        known = 0
        # The last id is always read anew: the model needs something to go on from.
        for ours, theirs in zip(self.read, ids[:-1], strict=False):
            if ours != theirs:
                break
            known += 1
        surplus = len(self.read) - known
        if surplus and trim_prompt_cache(self.cache, surplus) != surplus:
            raise ValueError("the chat template changes what was said before, which a rotating cache can't take back")
        self.read = self.read[:known]
        return list(ids[known:])

    def answer(self, text: str, **sampling: Any) -> Iterable[Any]:
        """The steps of an answer, as stream_generate gives them.

        Args:
            text: what the user says.
            **sampling: as for stream_generate.

        Yields:
            The steps.

        Example:
            >>> chat.answer("Hi", max_tokens=20)  # doctest: +SKIP
        """
        self.messages.append({"role": "user", "content": text})
        ids = self.unread(self.tokenizer.apply_chat_template(self.messages, add_generation_prompt=True))
        parts, tokens = [], []
        try:
            for step in stream_generate(self.model, self.tokenizer, ids, cache=self.cache, **sampling):
                parts.append(step.text)
                tokens.append(step.token)
                yield step
        finally:
            held = self.cache[0].offset
            self.read = (self.read + ids + tokens)[:held]
            self.messages.append({"role": "assistant", "content": "".join(parts)})


def run_chat(options: argparse.Namespace) -> None:
    sampling = sampling_of(options)
    model, tokenizer = load_for(options)
    chat = Chat(model, tokenizer, cache_for(model, options), options.system_prompt)
    print("An empty line or Ctrl-D ends.", file=sys.stderr)
    while True:
        sys.stderr.write("> ")
        sys.stderr.flush()
        text = sys.stdin.readline()
        if not text.strip():
            return
        last = write(chat.answer(text.rstrip("\n"), **sampling))
        if last is not None:
            tell(last)
