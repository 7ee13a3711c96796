"""Generation: prompts in chunks, then token by token, with one step recorded ahead of the one that is computed.

generate and stream_generate are for users; the command line and the examples call them. While a step is computed on
the stream, Python records the next one on the tokens that are still to come, so that recording costs no time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlxc as mx

from .cache import KVCache
from .decode_step import DecodeStep
from .llama import Llama

__all__ = ["GenerationStep", "generate", "generate_tokens", "stream_generate"]

Sampler = Callable[[mx.array], mx.array]
Processor = Callable[[mx.array, mx.array], mx.array]
CHUNK = 512


@dataclass(frozen=True)
class GenerationStep:
    """What stream_generate gives with each token.

    Args:
        text: the text that became certain with this token; often a word, sometimes nothing.
        token: the token's id.
        prompt_tokens: how many tokens the prompt had.
        prompt_tps: prompt tokens per second.
        generation_tokens: how many tokens were made so far.
        generation_tps: tokens per second since the first one.
        peak_memory: the most bytes that arrays used so far, as mx.get_peak_memory says.
        finish_reason: None, and with the last token "stop" (a stop token) or "length" (max_tokens or the context's
            end).

    Example:
        >>> from mlxc.models import stream_generate
        >>> *_, last = stream_generate(model, tokenizer, "Hello", max_tokens=8)  # doctest: +SKIP
        >>> last.finish_reason  # doctest: +SKIP
        'length'
    """

    text: str
    token: int
    prompt_tokens: int
    prompt_tps: float
    generation_tokens: int
    generation_tps: float
    peak_memory: int
    finish_reason: str | None = None


def check_prompts(model: Llama, prompts: Sequence[Sequence[int]], held: int) -> None:
    """Prompts must be token ids of the model, and fit its context."""
    context, vocabulary = model.config.context_length, model.config.vocab_size
    if not prompts:
        raise ValueError("[generate] there is no prompt")
    for row, prompt in enumerate(prompts):
        which = f"prompt {row}" if len(prompts) > 1 else "the prompt"
        if len(prompt) == 0:
            raise ValueError(f"[generate] {which} has no tokens")
        if held + len(prompt) > context:
            before = f" after {held} in the cache" if held else ""
            raise ValueError(
                f"[generate] {which} has {len(prompt)} tokens{before}, the model's context is {context} tokens long"
            )
        odd = next((token for token in prompt if not hasattr(token, "__index__") or isinstance(token, bool)), None)
        if odd is not None:
            raise TypeError(f"[generate] {which} has {odd!r}, token ids are integers")
        wrong = next((token for token in prompt if not 0 <= token < vocabulary), None)
        if wrong is not None:
            raise ValueError(f"[generate] {which} has the token {wrong}, the model's vocabulary has {vocabulary}")


def process_prompt(
    model: Llama, tokens: mx.array, cache: Sequence[Any], padding: mx.array | None, chunk: int
) -> mx.array:
    """Logits behind the prompts, (batch, vocabulary). The chunks bound the memory that long prompts need."""
    length = tokens.shape[1]
    begin = 0
    while length - begin > chunk:
        mx.eval(model.model(tokens[:, begin : begin + chunk], cache, padding)[:, -1:])
        begin += chunk
    return model.project(model.model(tokens[:, begin:], cache, padding)[:, -1])


def generate_tokens(
    model: Llama,
    prompts: Sequence[Sequence[int]],
    *,
    max_tokens: int = 256,
    sampler: Sampler | None = None,
    logits_processors: Sequence[Processor] = (),
    cache: Sequence[Any] | None = None,
    prefill_step_size: int = CHUNK,
) -> Iterator[list[int]]:
    """The tokens that a model continues prompts with, for all of them at once, without an end of its own.

    Args:
        model: the model.
        prompts: token ids, one sequence a row; shorter ones are padded on the left, and nothing sees the padding.
        max_tokens: how many tokens to make; fewer where the context ends.
        sampler: takes logits of shape (batch, vocabulary) and gives ids of shape (batch,); by default the most likely.
        logits_processors: each takes all ids so far, shape (batch, n), and the logits, and gives logits.
        cache: keys and values of what came before, one object a layer; a new one by default. Afterwards it has those of
            the prompt and of every token that was given out. With several prompts of different lengths it must be
            empty and keep all positions.
        prefill_step_size: how many tokens of the prompts are processed at once.

    Yields:
        One id for each prompt.

    Raises:
        ValueError: if a prompt is empty, longer than the context or has ids that the model does not know; or cache is
            of another number of layers.
        TypeError: if an id is no integer.

    Example:
        >>> from mlxc.models import Llama, ModelConfig
        >>> from mlxc.models.generate import generate_tokens
        >>> config = ModelConfig("llama", vocab_size=256, hidden_size=64, intermediate_size=128, num_layers=2,
        ...                      num_heads=4, num_kv_heads=2, head_dim=16)
        >>> len(list(generate_tokens(Llama(config), [[1, 2, 3]], max_tokens=4)))
        4
    """
    if max_tokens < 0 or prefill_step_size < 1:
        raise ValueError(
            f"[generate] max_tokens must be 0 or more and prefill_step_size positive, got {max_tokens} and "
            f"{prefill_step_size}"
        )
    rows = [list(prompt) for prompt in prompts]
    if cache is not None and len(cache) != len(model.layers):
        raise ValueError(f"[generate] cache has {len(cache)} objects, the model has {len(model.layers)} layers")
    held = 0 if cache is None else cache[0].offset
    check_prompts(model, rows, held)
    longest = max(map(len, rows))
    uneven = any(len(prompt) != longest for prompt in rows)
    if cache is None:
        cache = [KVCache() for _ in model.layers] if uneven else model.make_cache()
    elif uneven and (held or any(getattr(part, "max_size", None) is not None for part in cache)):
        raise ValueError("[generate] prompts of different lengths need a cache that is empty and keeps all positions")
    padding = mx.array([longest - len(prompt) for prompt in rows]) if uneven else None
    tokens = mx.array([[0] * (longest - len(prompt)) + prompt for prompt in rows])
    return steps(
        model,
        tokens,
        padding,
        cache,
        count=min(max_tokens, model.config.context_length - held - longest),
        sampler=sampler,
        processors=logits_processors,
        chunk=prefill_step_size,
    )


def steps(
    model: Llama,
    tokens: mx.array,
    padding: mx.array | None,
    cache: Sequence[Any],
    *,
    count: int,
    sampler: Sampler | None,
    processors: Sequence[Processor],
    chunk: int,
) -> Iterator[list[int]]:
    """The loop of generate_tokens, whose arguments are sound."""

    def choose(logits: mx.array) -> mx.array:
        for process in processors:
            logits = process(seen, logits)
        return mx.argmax(logits, axis=-1) if sampler is None else sampler(logits)

    seen = tokens
    logits = process_prompt(model, tokens, cache, padding, chunk)
    if count < 1:
        mx.eval(logits)
        return
    now = choose(logits)
    mx.async_eval(now)
    compiled = DecodeStep(model, cache) if padding is None and DecodeStep.takes(cache) else None

    def advance(column: mx.array) -> mx.array:
        if compiled is not None:
            return compiled(column)
        return model.project(model.model(column, cache, padding)[:, -1])

    for step in range(count):
        column = now.astype(tokens.dtype)[:, None]
        if processors:
            seen = mx.concatenate([seen, column], axis=1)
        # Recorded for the last token too, so that the cache has it if someone goes on with it; computed only then.
        logits = advance(column)
        if step + 1 < count:
            following = choose(logits)
            mx.async_eval(following)
        yield now.tolist()
        now = following if step + 1 < count else now


def stop_ids(tokenizer: Any, stop_tokens: Iterable[int] | None) -> set[int]:
    return set(tokenizer.eos_token_ids if stop_tokens is None else stop_tokens)


def ids_of(tokenizer: Any, prompt: str | Sequence[int] | mx.array) -> list[int]:
    if isinstance(prompt, str):
        return tokenizer.encode(prompt)
    return prompt.tolist() if isinstance(prompt, mx.array) else list(prompt)


def stream_generate(
    model: Llama,
    tokenizer: Any,
    prompt: str | Sequence[int] | mx.array,
    *,
    max_tokens: int = 256,
    sampler: Sampler | None = None,
    logits_processors: Sequence[Processor] = (),
    stop_tokens: Iterable[int] | None = None,
    cache: Sequence[Any] | None = None,
    prefill_step_size: int = CHUNK,
) -> Iterator[GenerationStep]:
    """Continues a prompt, token by token.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        prompt: text, or token ids.
        max_tokens: how many tokens to make at most.
        sampler: takes logits of shape (batch, vocabulary) and gives ids of shape (batch,); by default the most likely.
        logits_processors: each takes all ids so far, shape (batch, n), and the logits, and gives logits.
        stop_tokens: ids that end the text; by default those of the tokenizer.
        cache: keys and values of what came before; afterwards it has those of the prompt and of all tokens given out.
        prefill_step_size: how many tokens of the prompt are processed at once.

    Yields:
        A GenerationStep a token, the stop token included. The last one has all statistics.

    Raises:
        ValueError: if the prompt is empty, longer than the context or has ids that the model does not know.

    Example:
        >>> from mlxc.models import load, stream_generate
        >>> model, tokenizer = load("SmolLM2-135M-Instruct.Q4_1.gguf")  # doctest: +SKIP
        >>> for step in stream_generate(model, tokenizer, "1, 2, 3, 4, 5, 6,", max_tokens=6):  # doctest: +SKIP
        ...     print(step.text, end="")
         7, 8,
    """
    ids = ids_of(tokenizer, prompt)
    held = 0 if cache is None else cache[0].offset
    tokens = generate_tokens(
        model,
        [ids],
        max_tokens=max_tokens,
        sampler=sampler,
        logits_processors=logits_processors,
        cache=cache,
        prefill_step_size=prefill_step_size,
    )
    limit = min(max_tokens, model.config.context_length - held - len(ids))
    return follow(tokens, tokenizer.detokenizer(), stop_ids(tokenizer, stop_tokens), len(ids), limit)


def follow(
    tokens: Iterator[list[int]], text: Any, stops: set[int], prompt: int, limit: int
) -> Iterator[GenerationStep]:
    """Text and statistics to the tokens of one prompt, up to a stop token or the limit."""
    begin = first = time.perf_counter()
    for made, (token,) in enumerate(tokens, start=1):
        now = time.perf_counter()
        first = now if made == 1 else first
        reason = "stop" if token in stops else "length" if made == limit else None
        part = "" if reason == "stop" else text.add(token)
        yield GenerationStep(
            text=part + text.finish() if reason else part,
            token=token,
            prompt_tokens=prompt,
            prompt_tps=prompt / (first - begin),
            generation_tokens=made,
            generation_tps=(made - 1) / (now - first) if made > 1 else 0.0,
            peak_memory=mx.get_peak_memory(),
            finish_reason=reason,
        )
        if reason:
            return


def generate(
    model: Llama,
    tokenizer: Any,
    prompt: str | Sequence[Any] | mx.array,
    *,
    max_tokens: int = 256,
    sampler: Sampler | None = None,
    logits_processors: Sequence[Processor] = (),
    stop_tokens: Iterable[int] | None = None,
    cache: Sequence[Any] | None = None,
    prefill_step_size: int = CHUNK,
    verbose: bool = False,
) -> Any:
    """Continues a prompt, or several at once.

    Args:
        model: the model.
        tokenizer: its tokenizer.
        prompt: text or token ids; or a list of texts or of lists of ids, which are continued together.
        max_tokens: how many tokens to make at most, for each prompt.
        sampler: takes logits of shape (batch, vocabulary) and gives ids of shape (batch,); by default the most likely.
        logits_processors: each takes all ids so far, shape (batch, n), and the logits, and gives logits.
        stop_tokens: ids that end a text; by default those of the tokenizer.
        cache: keys and values of what came before.
        prefill_step_size: how many tokens of the prompts are processed at once.
        verbose: whether to print the text as it comes, and the statistics.

    Returns:
        The text that was made, without the prompt and the stop token; a list of texts for several prompts.

    Raises:
        ValueError: if a prompt is empty, longer than the context or has ids that the model does not know; or for
            `verbose` with several prompts.

    Example:
        >>> from mlxc.models import generate, load
        >>> model, tokenizer = load("SmolLM2-135M-Instruct.Q4_1.gguf")  # doctest: +SKIP
        >>> generate(model, tokenizer, ["1, 2, 3, 4, 5, 6,", "2, 4, 6, 8,"], max_tokens=3)  # doctest: +SKIP
        [' 7,', ' 10']
    """
    options: dict[str, Any] = {
        "max_tokens": max_tokens,
        "sampler": sampler,
        "logits_processors": logits_processors,
        "cache": cache,
        "prefill_step_size": prefill_step_size,
    }
    several = isinstance(prompt, (list, tuple)) and bool(prompt) and not isinstance(prompt[0], int)
    if several:
        if verbose:
            raise ValueError("[generate] verbose prints one text, not those of several prompts")
        return generate_several(model, tokenizer, prompt, stop_ids(tokenizer, stop_tokens), options)
    parts = []
    step = None
    for step in stream_generate(model, tokenizer, prompt, stop_tokens=stop_tokens, **options):
        parts.append(step.text)
        if verbose:
            print(step.text, end="", flush=True)
    if verbose and step is not None:
        print(f"\nPrompt: {step.prompt_tokens} tokens, {step.prompt_tps:.1f} tokens/s")
        print(f"Generation: {step.generation_tokens} tokens, {step.generation_tps:.1f} tokens/s")
        print(f"Peak memory: {step.peak_memory / 1e6:.0f} MB")
    return "".join(parts)


def generate_several(
    model: Llama, tokenizer: Any, prompts: Sequence[Any], stops: set[int], options: dict[str, Any]
) -> list[str]:
    """The texts of several prompts; ends when each has met a stop token."""
    ids = [ids_of(tokenizer, prompt) for prompt in prompts]
    made: list[list[int]] = [[] for _ in ids]
    open_rows = set(range(len(ids)))
    for tokens in generate_tokens(model, ids, **options):
        for row in list(open_rows):
            if tokens[row] in stops:
                open_rows.discard(row)
            else:
                made[row].append(tokens[row])
        if not open_rows:
            break
    return [tokenizer.decode(tokens) for tokens in made]
