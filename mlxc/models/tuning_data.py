"""Data for tuning: rows of text, prompt and completion, or chat, out of JSON lines or plain text, as batches of ids.

Called by tune.py and the command line. Each row says itself what it is; a row that is broken is named by its file and
line before any training begins.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlxc as mx

__all__ = ["Example", "batches", "read_examples"]

# Batches are padded to multiples of this, so that there are few shapes.
MULTIPLE = 32


@dataclass(frozen=True)
class Example:
    """A row as ids.

    Args:
        ids: the ids.
        prompt: how many of the first ids are not to be learned.

    Example:
        >>> from mlxc.models.tuning_data import Example
        >>> Example([1, 2, 3], prompt=1)
        Example(ids=[1, 2, 3], prompt=1)
    """

    ids: list[int]
    prompt: int = 0


def with_end(ids: list[int], tokenizer: Any) -> list[int]:
    """A text ends with the token that says so, which the model has to learn too."""
    end = tokenizer.special.get("eos")
    return ids if end is None or (ids and ids[-1] in tokenizer.eos_token_ids) else [*ids, end]


def need_text(row: dict[str, Any], key: str) -> str:
    if not isinstance(row.get(key), str):
        raise ValueError(f"{key!r} is {type(row.get(key)).__name__}, text is needed")
    return row[key]


def example_of(row: Any, tokenizer: Any, mask_prompt: bool) -> Example:
    """The ids of a row."""
    if not isinstance(row, dict):
        raise ValueError(f"the row is {type(row).__name__}, a JSON object is needed")
    if "messages" in row:
        return chat_example(row["messages"], row.get("tools"), tokenizer, mask_prompt)
    if "prompt" in row and "completion" in row:
        chat = [
            {"role": "user", "content": need_text(row, "prompt")},
            {"role": "assistant", "content": need_text(row, "completion")},
        ]
        if tokenizer.has_chat_template:
            return chat_example(chat, None, tokenizer, mask_prompt)
        prompt = tokenizer.encode(row["prompt"])
        ids = prompt + tokenizer.encode(row["completion"], add_special_tokens=False)
        return Example(with_end(ids, tokenizer), len(prompt) if mask_prompt else 0)
    if "text" in row:
        text = need_text(row, "text")
        if not text:
            raise ValueError("'text' is empty")
        return Example(with_end(tokenizer.encode(text), tokenizer))
    raise ValueError(f"a row has messages, prompt and completion, or text; this one has {', '.join(map(repr, row))}")


def chat_example(messages: Any, tools: Any, tokenizer: Any, mask_prompt: bool) -> Example:
    if not isinstance(messages, list) or not messages:
        raise ValueError("'messages' is no list of messages")
    ids = tokenizer.apply_chat_template(messages, tools=tools)
    if not mask_prompt:
        return Example(ids)
    prompt = tokenizer.apply_chat_template(messages[:-1], tools=tools, add_generation_prompt=True)
    return Example(ids, common_prefix(prompt, ids))


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def read_examples(
    file: str | os.PathLike[str], tokenizer: Any, max_length: int = 2048, mask_prompt: bool = False
) -> list[Example]:
    """Reads the rows of a file.

    Args:
        file: JSON lines (.jsonl), each an object with "messages" (a chat), "prompt" and "completion", or "text"; or
            plain text (.txt), which is cut into pieces.
        tokenizer: the model's tokenizer.
        max_length: the most ids of a row; longer ones are cut.
        mask_prompt: only the last message of a chat, or the completion, is learned.

    Returns:
        The rows, none of them empty.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is of another kind or has no rows, or a row is broken; the error names the line.

    Example:
        >>> rows = read_examples("train.jsonl", tokenizer)  # doctest: +SKIP
    """
    file = Path(file)
    if max_length < 2:
        raise ValueError(f"[read_examples] max_length is {max_length}, at least 2 is needed")
    if file.suffix not in (".jsonl", ".txt"):
        raise ValueError(f"{file}: data is JSON lines (.jsonl) or plain text (.txt)")
    try:
        text = file.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not text in UTF-8: {error}") from None
    if file.suffix == ".txt":
        ids = with_end(tokenizer.encode(text), tokenizer) if text else []
        pieces = [ids[i : i + max_length] for i in range(0, len(ids), max_length)]
        examples = [Example(piece) for piece in pieces if len(piece) > 1]
    else:
        examples = read_lines(file, text, tokenizer, max_length, mask_prompt)
    if not examples:
        raise ValueError(f"{file} has no rows")
    return examples


def read_lines(file: Path, text: str, tokenizer: Any, max_length: int, mask_prompt: bool) -> list[Example]:
    examples = []
    # Not splitlines: it takes characters for ends of lines that JSON allows in text.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            example = example_of(json.loads(line), tokenizer, mask_prompt)
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"{file}, line {number}: {error}") from None
        ids = example.ids[:max_length]
        if len(ids) < 2 or len(ids) <= example.prompt:
            raise ValueError(
                f"{file}, line {number}: nothing to learn, {len(example.ids)} tokens of which {example.prompt} are the "
                f"prompt, at most {max_length} are used"
            )
        examples.append(Example(ids, example.prompt))
    return examples


def batches(
    examples: Sequence[Example], size: int, seed: int | None = None, pad: int = 0
) -> Iterator[tuple[mx.array, mx.array]]:
    """Rows as arrays: without end and shuffled, or with no seed once and in order.

    Rows of like lengths come together. The last rows of a turn make a smaller batch.

    Args:
        examples: the rows.
        size: how many rows a batch has.
        seed: of the order; None for one turn.
        pad: the id behind the end of a row, which is never learned.

    Yields:
        (ids, mask), of shapes (rows, length) and (rows, length - 1): int32, and float32 that is 1 where the next id is
        to be learned.

    Raises:
        ValueError: if there are no rows, or size is not positive.

    Example:
        >>> from mlxc.models.tuning_data import Example, batches
        >>> ids, mask = next(batches([Example([5, 6, 7], prompt=1)], 1))
        >>> ids[0, :4].tolist(), mask[0, :3].tolist()
        ([5, 6, 7, 0], [1.0, 1.0, 0.0])
    """
    if not examples or size < 1:
        raise ValueError(f"[batches] {len(examples)} rows in batches of {size}: both must be positive")
    order = sorted(range(len(examples)), key=lambda i: len(examples[i].ids))
    groups = [order[i : i + size] for i in range(0, len(order), size)]
    draw = None if seed is None else random.Random(seed)
    while True:
        if draw is not None:
            draw.shuffle(groups)
        for group in groups:
            yield padded([examples[i] for i in group], pad)
        if draw is None:
            return


def padded(rows: Sequence[Example], pad: int) -> tuple[mx.array, mx.array]:
    longest = max(len(row.ids) for row in rows)
    longest = -(-longest // MULTIPLE) * MULTIPLE
    ids = [row.ids + [pad] * (longest - len(row.ids)) for row in rows]
    mask = [[float(max(row.prompt, 1) <= place < len(row.ids)) for place in range(1, longest)] for row in rows]
    return mx.array(ids, dtype=mx.int32), mx.array(mask)
