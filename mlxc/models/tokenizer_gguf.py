"""Makes a tokenizer of the vocabulary that a GGUF file carries.

Called by Tokenizer.from_gguf. Two kinds: "gpt2", byte-level BPE, whose way to cut text into words has a name that must
be known, for any other cut gives other ids; and "llama" or "t5", SentencePiece's BPE or unigrams, with bytes for what
has no piece. What isn't known is refused by name.
"""

from __future__ import annotations

from typing import Any

import mlxc as mx

CONTROL, USER_DEFINED, UNUSED = 3, 4, 5
UNKNOWN = 2
SPACE_MARK = "▁"

# How a text is cut before pairs are joined. The patterns' authors: GPT-2, Llama 3 and Qwen 2.
SHORT_FORMS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = SHORT_FORMS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + REST
QWEN2 = SHORT_FORMS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + REST
PRE_TOKENIZERS = ("gpt-2", "llama-bpe", "qwen2", "smollm")


def scalar(metadata: dict[str, Any], key: str, what: str) -> Any:
    """A number or truth value of the metadata; None where there is none."""
    value = metadata.get(key)
    if isinstance(value, mx.array) and value.ndim == 0:
        return value.item()
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise ValueError(f"{what}: {key} is {type(value).__name__}, a number is needed")


def numbers(metadata: dict[str, Any], key: str, count: int, what: str) -> list[Any] | None:
    """A list of numbers of the metadata, one a token; None where there is none."""
    value = metadata.get(key)
    if value is None:
        return None
    values = value.tolist() if isinstance(value, mx.array) else list(value)
    if len(values) != count:
        raise ValueError(f"{what}: {key} has {len(values)} entries for {count} tokens")
    return values


def strings(metadata: dict[str, Any], key: str, what: str) -> list[str]:
    """A list of strings of the metadata."""
    value = metadata.get(key)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{what}: {key}, a list of strings, is needed to make a tokenizer")
    return value


def vocabulary(tokens: list[str], what: str) -> dict[str, int]:
    ids = {token: id for id, token in enumerate(tokens)}
    if len(ids) != len(tokens):
        twice = next(token for id, token in enumerate(tokens) if ids[token] != id)
        raise ValueError(f"{what}: the token {twice!r} is in the vocabulary twice, as {ids[twice]} and before")
    for token in tokens:
        if not token.isascii() and any("\ud800" <= character <= "\udfff" for character in token):
            raise ValueError(f"{what}: the token {ids[token]} is not text in UTF-8")
    return ids


def byte_level_model(metadata: dict[str, Any], tokens: list[str], what: str) -> Any:
    """A byte-level BPE, cut as `tokenizer.ggml.pre` says."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    pre = metadata.get("tokenizer.ggml.pre")
    if pre not in PRE_TOKENIZERS:
        raise ValueError(
            f"{what}: tokenizer.ggml.pre is {pre!r}, the pre-tokenizers known are {', '.join(PRE_TOKENIZERS)}"
        )
    merges = []
    for merge in strings(metadata, "tokenizer.ggml.merges", what):
        left, space, right = merge.partition(" ")
        if not (left and space and right):
            raise ValueError(f"{what}: tokenizer.ggml.merges has {merge!r}, which is no pair with a space between")
        merges.append((left, right))
    ids = vocabulary(tokens, what)
    for left, right in merges:
        for part in (left, right, left + right):
            if part not in ids:
                raise ValueError(f"{what}: the merge {left!r} {right!r} needs {part!r}, which is not in the vocabulary")
    tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=pre == "llama-bpe"))
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre in ("gpt-2", "smollm"))
    if pre == "smollm":
        words = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), words])
    elif pre != "gpt-2":
        pattern = Regex(LLAMA3 if pre == "llama-bpe" else QWEN2)
        words = pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, "isolated"), words])
    if pre == "qwen2":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = words
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def pairs_by_score(ids: dict[str, int], scores: list[float], left_out: set[int]) -> list[tuple[str, str]]:
    """SentencePiece joins the pair whose piece has the highest score; this is the same as a list of merges."""
    found = []
    for piece, id in ids.items():
        if id in left_out:
            continue
        parts = ((piece[:i], piece[i:]) for i in range(1, len(piece)))
        found += [
            (-scores[id], ids[left], ids[right], left, right)
            for left, right in parts
            if left in ids and right in ids and ids[left] not in left_out and ids[right] not in left_out
        ]
    found.sort()
    return [(left, right) for *_, left, right in found]


def sentence_piece_model(
    metadata: dict[str, Any], tokens: list[str], types: list[int] | None, add_prefix: bool, what: str
) -> Any:
    """SentencePiece's BPE ("llama") or unigrams ("t5"): spaces are marked, and bytes stand for what has no piece."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    scores = numbers(metadata, "tokenizer.ggml.scores", len(tokens), what)
    if scores is None:
        raise ValueError(f"{what}: tokenizer.ggml.scores is needed to make a SentencePiece tokenizer")
    ids = vocabulary(tokens, what)
    types = types or [1] * len(tokens)
    unknown = scalar(metadata, "tokenizer.ggml.unknown_token_id", what)
    unknown = types.index(UNKNOWN) if unknown is None and UNKNOWN in types else unknown
    bytes_known = all(f"<0x{byte:02X}>" in ids for byte in range(256))
    if metadata["tokenizer.ggml.model"] == "t5":
        scored = list(zip(tokens, scores, strict=True))
        model = models.Unigram(scored, unk_id=unknown, byte_fallback=bytes_known)
    else:
        whole = {id for id, kind in enumerate(types) if kind != 1}
        model = models.BPE(
            vocab=ids,
            merges=pairs_by_score(ids, scores, whole),
            unk_token=None if unknown is None else tokens[unknown],
            fuse_unk=True,
            byte_fallback=bytes_known,
        )
    tokenizer = Tokenizer(model)
    steps: list[Any] = [normalizers.Replace(" ", SPACE_MARK)]
    ending: list[Any] = [decoders.Replace(SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if add_prefix:
        steps.insert(0, normalizers.Prepend(SPACE_MARK))
        ending.append(decoders.Strip(" ", 1, 0))
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.decoder = decoders.Sequence(ending)
    return tokenizer


def add_ends(tokenizer: Any, begin: int | None, end: int | None) -> None:
    """Puts the tokens of a text's begin and end round what is encoded."""
    from tokenizers.processors import TemplateProcessing

    ends = [(f"{tokenizer.id_to_token(id)}", id) for id in (begin, end) if id is not None]
    if not ends:
        return
    first = "" if begin is None else f"{tokenizer.id_to_token(begin)} "
    last = "" if end is None else f" {tokenizer.id_to_token(end)}"
    tokenizer.post_processor = TemplateProcessing(
        single=f"{first}$A{last}", pair=f"{first}$A{last} {first}$B{last}", special_tokens=ends
    )


def tokenizer_from_metadata(metadata: dict[str, Any], what: str) -> Any:
    """The `tokenizers.Tokenizer` of a GGUF file's metadata."""
    from tokenizers import AddedToken

    kind = metadata.get("tokenizer.ggml.model")
    if kind not in ("gpt2", "llama", "t5"):
        raise ValueError(f"{what}: tokenizer.ggml.model is {kind!r}, the kinds known are gpt2, llama and t5")
    tokens = strings(metadata, "tokenizer.ggml.tokens", what)
    types = numbers(metadata, "tokenizer.ggml.token_type", len(tokens), what)
    if kind == "gpt2":
        tokenizer = byte_level_model(metadata, tokens, what)
        begins = metadata["tokenizer.ggml.pre"] == "llama-bpe"
    else:
        prefix = scalar(metadata, "tokenizer.ggml.add_space_prefix", what)
        tokenizer = sentence_piece_model(metadata, tokens, types, prefix is not False, what)
        begins = kind == "llama"
    for id, token_type in enumerate(types or []):
        if token_type in (CONTROL, USER_DEFINED):
            added = AddedToken(tokens[id], special=token_type == CONTROL, normalized=False)
            (tokenizer.add_special_tokens if token_type == CONTROL else tokenizer.add_tokens)([added])
    asked = scalar(metadata, "tokenizer.ggml.add_bos_token", what)
    begin = special_id(metadata, "bos", len(tokens), what) if (begins if asked is None else asked) else None
    asked = scalar(metadata, "tokenizer.ggml.add_eos_token", what)
    end = special_id(metadata, "eos", len(tokens), what) if (kind == "t5" if asked is None else asked) else None
    add_ends(tokenizer, begin, end)
    return tokenizer


def special_id(metadata: dict[str, Any], name: str, count: int, what: str) -> int | None:
    """The id of a special token ("bos", "eos", "padding" and so on), which must be in the vocabulary."""
    key = f"tokenizer.ggml.{name}_token_id"
    id = scalar(metadata, key, what)
    if id is not None and not 0 <= id < count:
        raise ValueError(f"{what}: {key} is {id}, the vocabulary has {count} tokens")
    return None if id is None else int(id)
