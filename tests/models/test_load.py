"""load: a model together with its tokenizer, from a folder."""

from __future__ import annotations

import pytest
import tiny

from mlxc.models import generate, load

tokenizers = pytest.importorskip("tokenizers")


def write_tokenizer(folder, size: int) -> None:
    """A vocabulary of words w0, w1 and so on."""
    words = {f"w{i}": i for i in range(size)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w0"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))


def test_a_folder_gives_a_model_and_its_tokenizer(tmp_path):
    folder = tiny.write_folder(tmp_path, tiny.config_of("llama"))
    write_tokenizer(folder, 96)
    model, tokenizer = load(folder)
    assert tokenizer.encode("w5 w17") == [5, 17]
    assert len(generate(model, tokenizer, "w5 w17", max_tokens=4).split()) == 4


@pytest.mark.parametrize("size", [97, 4000])
def test_a_tokenizer_of_another_model_is_refused(tmp_path, size):
    folder = tiny.write_folder(tmp_path, tiny.config_of("llama"))
    write_tokenizer(folder, size)
    with pytest.raises(ValueError, match=rf"has {size} tokens, the model's vocabulary 96") as caught:
        load(folder)
    assert str(folder) in str(caught.value)


def test_a_folder_without_a_tokenizer_is_named(tmp_path):
    folder = tiny.write_folder(tmp_path, tiny.config_of("llama"))
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        load(folder)
