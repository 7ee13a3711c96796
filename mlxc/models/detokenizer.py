"""Text out of token ids, one token at a time, while a model writes.

Called by Tokenizer.detokenizer; generate feeds it. A token may end within a character, so the bytes of tokens are
kept until they are whole characters: no half character is given out, and a token costs what it adds, however long
the text is.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

__all__ = ["StreamingDetokenizer"]

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
SPACE_MARK = "▁"


@cache
def bytes_of_characters() -> dict[str, int]:
    """Which byte a character of a byte-level vocabulary stands for: printable Latin-1 characters stand for
    themselves, the other bytes are counted from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(byte): byte for byte in plain} | {chr(0x100 + i): byte for i, byte in enumerate(others)}


def decoder_steps(decoder: Any) -> list[dict[str, Any]]:
    """The steps of a decoder of the tokenizers package, each as its description in tokenizer.json."""
    if decoder is None:
        return []
    described = json.loads(decoder.__getstate__())
    return described["decoders"] if described["type"] == "Sequence" else [described]


def byte_level(token: str) -> bytes:
    """The bytes of a token of a byte-level vocabulary."""
    known = bytes_of_characters()
    try:
        return bytes(known[character] for character in token)
    except KeyError:  # an added token, written as it is
        return token.encode()


def byte_fallback(token: str) -> bytes:
    """The bytes of a token of a SentencePiece vocabulary."""
    single = BYTE_TOKEN.fullmatch(token)
    return bytes([int(single[1], 16)]) if single else token.replace(SPACE_MARK, " ").encode()


class StreamingDetokenizer:
    """Turns ids into text as they come.

    What all calls give, joined, is what Tokenizer.decode makes of all ids; where bytes that are no character are
    replaced by U+FFFD, a SentencePiece vocabulary may get fewer of them here.

    Args:
        tokenizer: a `tokenizers.Tokenizer`.
        skip_special_tokens: leaves out control tokens, such as the end of the text.

    Example:
        >>> from mlxc.models.tokenizer import Tokenizer
        >>> tokens = ["a", "ðŁĺ", "Ģ"]
        >>> tokenizer = Tokenizer.from_gguf({
        ...     "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        ...     "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": [],
        ... })
        >>> stream = tokenizer.detokenizer()
        >>> [stream.add(id) for id in (0, 1, 2)]
        ['a', '', '😀']
    """

    def __init__(self, tokenizer: Any, skip_special_tokens: bool = True) -> None:
        self._tokenizer = tokenizer
        self._added = tokenizer.get_added_tokens_decoder()
        self._skip = skip_special_tokens
        steps = decoder_steps(tokenizer.decoder)
        kinds = {step["type"] for step in steps}
        self._bytes_of = byte_level if "ByteLevel" in kinds else byte_fallback if "ByteFallback" in kinds else None
        self._strip = next((step["start"] for step in steps if step["type"] == "Strip"), 0)
        self.reset()

    def reset(self) -> None:
        """Begins a new text.

        Example:
            >>> stream = tokenizer.detokenizer()  # doctest: +SKIP
            >>> stream.reset()  # doctest: +SKIP
        """
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._to_strip = self._strip
        self._words: Any = None
        if self._bytes_of is None:
            from tokenizers.decoders import DecodeStream

            self._words = DecodeStream(skip_special_tokens=self._skip)

    def add(self, token: int) -> str:
        """Takes the next id.

        Args:
            token: the id.

        Returns:
            The characters that are whole with it; often none.

        Raises:
            ValueError: if the vocabulary has no such id.

        Example:
            >>> stream.add(17)  # doctest: +SKIP
            ' the'
        """
        text = self._tokenizer.id_to_token(token)
        if text is None:
            raise ValueError(
                f"the id {token} is not in the vocabulary, which has {self._tokenizer.get_vocab_size()} tokens"
            )
        if self._words is not None:
            return self._words.step(self._tokenizer, token) or ""
        added = self._added.get(token)
        if added is not None and added.special and self._skip:
            return ""
        assert self._bytes_of is not None
        return self._stripped(self._decoder.decode(self._bytes_of(text)))

    def extend(self, tokens: Iterable[int]) -> str:
        """Takes several ids.

        Args:
            tokens: the ids.

        Returns:
            The characters that are whole with them.

        Raises:
            ValueError: if the vocabulary lacks one of them.

        Example:
            >>> stream.extend([17, 4])  # doctest: +SKIP
            ' the end'
        """
        return "".join([self.add(token) for token in tokens])

    def finish(self) -> str:
        """Ends the text.

        Returns:
            What was kept back: bytes that never became a character, as U+FFFD; usually nothing.

        Example:
            >>> stream.finish()  # doctest: +SKIP
            ''
        """
        return "" if self._words is not None else self._stripped(self._decoder.decode(b"", final=True))

    def _stripped(self, text: str) -> str:
        """SentencePiece writes a space before the first word; it isn't the text's."""
        while text and self._to_strip:
            self._to_strip = self._to_strip - 1 if text[0] == " " else 0
            if text[0] != " ":
                break
            text = text[1:]
        return text
