"""Text to token ids and back: the `tokenizers` package, made of a model's folder or of a GGUF file's metadata.

load makes one beside each model; generate, chat and training take it. What a model's files say in several places
(where a text ends, which template a chat has) is put together here once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlxc._files.access import open_to_write

from .chat_template import CHATML, render_chat
from .detokenizer import StreamingDetokenizer
from .tokenizer_gguf import special_id, tokenizer_from_metadata

__all__ = ["Tokenizer", "check_vocabulary"]

SPECIAL_NAMES = ("bos", "eos", "unk", "pad")
# Some vocabularies are padded to a round number of rows, for speed.
PADDING = 1024


def need_tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError("a tokenizer needs the package tokenizers: pip install 'mlxc[models]'") from error
    return tokenizers


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object; an empty one where there is no file."""
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON in UTF-8: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds {type(value).__name__}, a JSON object is needed")
    return value


def write_text(path: Path, text: str) -> None:
    """Replaces a file in one step."""
    with open_to_write(path, path.suffix, "Tokenizer.save") as file:
        file.write(text.encode())


def token_text(value: Any) -> str | None:
    """A special token in a configuration: its text, or an object with it."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def ids_of(value: Any, path: Path) -> list[int]:
    """eos_token_id in a configuration: a number, several, or none."""
    ids = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(id, int) and not isinstance(id, bool) for id in ids):
        raise ValueError(f"{path}: eos_token_id is {value!r}, a number or a list of them is needed")
    return ids


def chat_template_of(folder: Path, config: dict[str, Any]) -> str | None:
    """The chat template of a folder: its own file, or a part of tokenizer_config.json."""
    own = folder / "chat_template.jinja"
    if own.exists():
        return own.read_text("utf-8")
    template = config.get("chat_template") or read_json(folder / "chat_template.json").get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default") or next(iter(named.values()), None)
    if template is not None and not isinstance(template, str):
        raise ValueError(f"{folder / 'tokenizer_config.json'}: chat_template is {type(template).__name__}, not text")
    return template


class Tokenizer:
    """Text to ids and back, with what a model's files say of its special tokens.

    Make one with `from_folder` or `from_gguf`.

    Args:
        tokenizer: a `tokenizers.Tokenizer`.
        special: the ids of the special tokens by name ("bos", "eos", "unk", "pad").
        eos_token_ids: the ids that end a text; `special["eos"]` by default.
        chat_template: how a chat is written, in Jinja; ChatML by default.
        name: whose tokenizer it is, for messages of errors.

    Example:
        >>> from mlxc.models.tokenizer import Tokenizer
        >>> tokenizer = Tokenizer.from_gguf({
        ...     "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        ...     "tokenizer.ggml.tokens": ["H", "i", "Hi"], "tokenizer.ggml.merges": ["H i"],
        ... })
        >>> tokenizer.encode("HiH"), tokenizer.decode([2, 0])
        ([2, 0], 'HiH')
    """

    def __init__(
        self,
        tokenizer: Any,
        special: Mapping[str, int] | None = None,
        eos_token_ids: Sequence[int] | None = None,
        chat_template: str | None = None,
        name: str = "the model",
    ) -> None:
        self.backend = tokenizer
        self.special = {key: id for key, id in (special or {}).items() if id is not None}
        ends = [self.special["eos"]] if eos_token_ids is None and "eos" in self.special else eos_token_ids or []
        self.eos_token_ids: set[int] = set(ends)
        self.has_chat_template = chat_template is not None
        self.chat_template = CHATML if chat_template is None else chat_template
        self.name = name
        # The package can be told by tokenizer.json to cut or pad; prompts and rows of data must stay whole.
        self.backend.no_truncation()
        self.backend.no_padding()

    @classmethod
    def from_folder(cls, folder: str | os.PathLike[str]) -> Tokenizer:
        """The tokenizer of a model's folder as Hugging Face lays it out.

        Args:
            folder: holds tokenizer.json, and may hold tokenizer_config.json, generation_config.json, config.json and
                chat_template.jinja.

        Returns:
            The tokenizer.

        Raises:
            FileNotFoundError: if there is no tokenizer.json.
            ValueError: if a file is broken.
            ImportError: without the package tokenizers.

        Example:
            >>> tokenizer = Tokenizer.from_folder("SmolLM2-135M-Instruct")  # doctest: +SKIP
        """
        package = need_tokenizers()
        folder = Path(folder)
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise FileNotFoundError(f"{folder} has no tokenizer.json")
        try:
            backend = package.Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises nothing narrower
            raise ValueError(f"{path} is not a tokenizer: {error}") from None
        config = read_json(folder / "tokenizer_config.json")
        special: dict[str, int] = {}
        for name in SPECIAL_NAMES:
            text = token_text(config.get(f"{name}_token"))
            id = None if text is None else backend.token_to_id(text)
            if id is not None:
                special[name] = id
        ends = [special["eos"]] if "eos" in special else []
        for file in ("generation_config.json", "config.json"):
            ends += ids_of(read_json(folder / file).get("eos_token_id"), folder / file)
        if "eos" not in special and ends:
            special["eos"] = ends[0]
        return cls(backend, special, ends, chat_template_of(folder, config), str(folder))

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any], name: str = "the GGUF file") -> Tokenizer:
        """The tokenizer that a GGUF file carries.

        Args:
            metadata: what `mx.load(file, return_metadata=True)` gives beside the arrays.
            name: the file's name, for messages of errors.

        Returns:
            The tokenizer.

        Raises:
            ValueError: if the file has no vocabulary, a broken one, or one of a kind that isn't known.
            ImportError: without the package tokenizers.

        Example:
            >>> weights, metadata = mx.load("model.gguf", return_metadata=True)  # doctest: +SKIP
            >>> tokenizer = Tokenizer.from_gguf(metadata)  # doctest: +SKIP
        """
        need_tokenizers()
        metadata = dict(metadata)
        backend = tokenizer_from_metadata(metadata, name)
        count = backend.get_vocab_size()
        special = {
            ours: id
            for ours, theirs in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
            if (id := special_id(metadata, theirs, count, name)) is not None
        }
        ends = [id for kind in ("eos", "eot", "eom") if (id := special_id(metadata, kind, count, name)) is not None]
        template = metadata.get("tokenizer.chat_template")
        return cls(backend, special, ends, template if isinstance(template, str) else None, name)

    @property
    def vocab_size(self) -> int:
        """How many ids there are: one more than the largest."""
        return max(self.backend.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The ids of a text. Special tokens that are written in it are taken as such.

        Args:
            text: the text.
            add_special_tokens: puts what the model expects round a text, such as the token of its beginning.

        Returns:
            The ids.

        Raises:
            TypeError: if text is no str.
            ValueError: if it has half a surrogate pair, as text read with errors="surrogateescape" may.

        Example:
            >>> tokenizer.encode("Hello")  # doctest: +SKIP
            [19556]
        """
        if not isinstance(text, str):
            raise TypeError(f"encode takes a str, got {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"the text has half a surrogate pair at {error.start}, which is no character") from None
        return self.backend.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of ids.

        Args:
            ids: the ids, as a list or a 1-D array.
            skip_special_tokens: leaves out control tokens, such as the end of the text.

        Returns:
            The text; bytes that are no characters are U+FFFD.

        Raises:
            ValueError: if an id is not in the vocabulary.

        Example:
            >>> tokenizer.decode([19556, 28])  # doctest: +SKIP
            'Hello,'
        """
        values: list[int] = ids.tolist() if hasattr(ids, "tolist") else list(ids)
        for id in values:
            if id < 0 or self.backend.id_to_token(id) is None:
                raise ValueError(f"{self.name}: the id {id} is not in the vocabulary of {self.vocab_size}")
        return self.backend.decode(values, skip_special_tokens=skip_special_tokens)

    def detokenizer(self, skip_special_tokens: bool = True) -> StreamingDetokenizer:
        """What turns ids into text one at a time, without half characters.

        Args:
            skip_special_tokens: leaves out control tokens.

        Returns:
            A new StreamingDetokenizer.

        Example:
            >>> stream = tokenizer.detokenizer()  # doctest: +SKIP
            >>> print(stream.add(19556), end="")  # doctest: +SKIP
            Hello
        """
        return StreamingDetokenizer(self.backend, skip_special_tokens)

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = False,
        tokenize: bool = True,
        tools: Sequence[Any] | None = None,
        documents: Sequence[Any] | None = None,
        **variables: Any,
    ) -> Any:
        """A chat as the model expects it.

        Args:
            messages: the messages, each a dict with "role" ("system", "user", "assistant") and "content".
            add_generation_prompt: ends with what begins an answer.
            tokenize: gives ids; else the text.
            tools: descriptions of functions that the model may call, for templates that take them.
            documents: texts that the model may quote, for templates that take them.
            **variables: what the template may name besides.

        Returns:
            The ids, or the text.

        Raises:
            TypeError: if messages are not a list of dicts.
            ValueError: if a message lacks its role, or the template fails or refuses.

        Example:
            >>> prompt = tokenizer.apply_chat_template(
            ...     [{"role": "user", "content": "Hi"}], add_generation_prompt=True)  # doctest: +SKIP
        """
        known = {f"{name}_token": self.backend.id_to_token(id) for name, id in self.special.items()}
        text = render_chat(
            messages,
            self.chat_template,
            add_generation_prompt=add_generation_prompt,
            tools=tools,
            documents=documents,
            name=self.name,
            **(known | variables),
        )
        # The template writes the token of the beginning itself.
        return self.encode(text, add_special_tokens=False) if tokenize else text

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes tokenizer.json, tokenizer_config.json and generation_config.json, as `from_folder` reads them.

        Args:
            folder: the folder, which must exist.

        Raises:
            OSError: if a file can't be written.

        Example:
            >>> tokenizer.save("my-model")  # doctest: +SKIP
        """
        config: dict[str, Any] = {f"{name}_token": self.backend.id_to_token(id) for name, id in self.special.items()}
        if self.has_chat_template:
            config["chat_template"] = self.chat_template
        folder = Path(folder)
        write_text(folder / "tokenizer.json", self.backend.to_str(pretty=True))
        write_text(folder / "tokenizer_config.json", json.dumps(config, indent=2, ensure_ascii=False))
        if self.eos_token_ids:
            ends = {"eos_token_id": sorted(self.eos_token_ids)}
            write_text(folder / "generation_config.json", json.dumps(ends, indent=2))

    def __repr__(self) -> str:
        return f"Tokenizer({self.name!r}, {self.vocab_size} tokens)"


def check_vocabulary(tokenizer: Tokenizer, model_size: int) -> None:
    """Refuses a tokenizer that isn't the model's.

    A model may have rows for up to 1,024 ids (or a twentieth) more than the tokenizer has tokens, as padding.

    Args:
        tokenizer: the tokenizer.
        model_size: the size of the model's vocabulary.

    Raises:
        ValueError: if the tokenizer gives ids that the model has no row for, or far fewer than it has rows.

    Example:
        >>> check_vocabulary(tokenizer, model.args.vocab_size)  # doctest: +SKIP
    """
    size = tokenizer.vocab_size
    if size > model_size or model_size - size > max(PADDING, model_size // 20):
        raise ValueError(
            f"the tokenizer of {tokenizer.name} has {size} tokens, the model's vocabulary {model_size}: "
            "they don't belong together"
        )
