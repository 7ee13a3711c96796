"""Generation with a tiny model: what comes out, when it ends, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tiny

import mlxc as mx
from mlxc.models import generate, generate_tokens, load_model, stream_generate

PROMPT = tiny.TOKENS[:7]


class Letters:
    """A tokenizer whose tokens are the characters from "!" on."""

    eos_token_ids = frozenset()

    def encode(self, text):
        return [ord(c) - 33 for c in text]

    def decode(self, ids):
        return "".join(chr(33 + i) for i in ids)

    def detokenizer(self):
        class Stream:
            add = staticmethod(lambda token: chr(33 + token))
            finish = staticmethod(lambda: "")

        return Stream()


@pytest.fixture(scope="module", params=["llama", "mistral"])
def model(request, tmp_path_factory):
    return load_model(tiny.write_folder(tmp_path_factory.mktemp("model"), tiny.config_of(request.param)))


def greedy(model, prompt: list[int], count: int) -> list[int]:
    """Without a cache: all of the text again for every token."""
    ids = list(prompt)
    for _ in range(count):
        ids.append(mx.argmax(model(mx.array([ids]))[0, -1]).item())
    return ids[len(prompt) :]


def made(model, prompt: list[int], **options) -> list[int]:
    return [token for (token,) in generate_tokens(model, [prompt], **options)]


def test_tokens_are_those_without_a_cache(model):
    assert made(model, PROMPT, max_tokens=12) == greedy(model, PROMPT, 12)


@pytest.mark.parametrize("size", [1, 3, 6, 7])
def test_chunks_of_the_prompt_change_nothing(model, size):
    assert made(model, PROMPT, max_tokens=5, prefill_step_size=size) == greedy(model, PROMPT, 5)


def test_prompts_of_a_batch_are_continued_as_each_alone(model):
    prompts = [tiny.TOKENS[:9], tiny.TOKENS[3:5], tiny.TOKENS[2:10]]
    rows = list(zip(*generate_tokens(model, prompts, max_tokens=8, prefill_step_size=4), strict=True))
    assert [list(row) for row in rows] == [greedy(model, prompt, 8) for prompt in prompts]


def test_prompts_of_one_length_are_continued_as_each_alone(model):
    prompts = [tiny.TOKENS[:8], tiny.TOKENS[8:16]]
    rows = list(zip(*generate_tokens(model, prompts, max_tokens=8), strict=True))
    assert [list(row) for row in rows] == [greedy(model, prompt, 8) for prompt in prompts]


def test_a_cache_goes_on_where_it_was(model):
    cache = model.make_cache()
    first = made(model, PROMPT, max_tokens=4, cache=cache)
    assert cache[0].offset == len(PROMPT) + 4
    more = [5, 6]
    assert made(model, more, max_tokens=4, cache=cache) == greedy(model, PROMPT + first + more, 4)


def test_a_stopped_stream_leaves_the_cache_with_what_was_given_out(model):
    cache = model.make_cache()
    stream = generate_tokens(model, [PROMPT], max_tokens=20, cache=cache)
    first = [next(stream)[0] for _ in range(3)]
    stream.close()
    assert cache[0].offset == len(PROMPT) + 3
    assert made(model, [9], max_tokens=4, cache=cache) == greedy(model, PROMPT + first + [9], 4)


def test_the_sampler_chooses(model):
    seen = []

    def last(logits):
        seen.append(logits.shape)
        return mx.array([95] * logits.shape[0])

    assert made(model, PROMPT, max_tokens=3, sampler=last) == [95, 95, 95]
    assert seen == [(1, 96)] * 3


def test_processors_see_all_ids_and_change_the_logits(model):
    lengths = []

    def forbid(tokens, logits):
        lengths.append(tokens.shape)
        return mx.where(mx.arange(96) < 90, mx.array(-mx.inf), logits)

    tokens = made(model, PROMPT, max_tokens=3, logits_processors=[forbid])
    assert min(tokens) >= 90 and lengths == [(1, 7), (1, 8), (1, 9)]


def test_the_stream_ends_with_a_stop_token_whose_text_is_left_out(model):
    wanted = greedy(model, PROMPT, 12)
    stop = wanted[5]
    count = wanted.index(stop) + 1
    steps = list(stream_generate(model, Letters(), PROMPT, max_tokens=12, stop_tokens=[stop]))
    assert [step.token for step in steps] == wanted[:count]
    assert "".join(step.text for step in steps) == Letters().decode(wanted[: count - 1])
    assert [step.finish_reason for step in steps] == [None] * (count - 1) + ["stop"]


def test_statistics_are_counts_and_rates(model):
    steps = list(stream_generate(model, Letters(), PROMPT, max_tokens=4))
    last = steps[-1]
    assert last.finish_reason == "length"
    assert (last.prompt_tokens, last.generation_tokens) == (7, 4)
    assert last.prompt_tps > 0 and last.generation_tps > 0 and last.peak_memory > 0


def test_generate_gives_the_text_of_one_prompt_or_of_several(model, capsys):
    tokenizer = Letters()
    texts = [tokenizer.decode(tiny.TOKENS[:5]), tokenizer.decode(tiny.TOKENS[5:9])]
    wanted = [tokenizer.decode(greedy(model, tokenizer.encode(text), 6)) for text in texts]
    assert generate(model, tokenizer, texts[0], max_tokens=6) == wanted[0]
    assert generate(model, tokenizer, tiny.TOKENS[:5], max_tokens=6) == wanted[0]
    assert generate(model, tokenizer, mx.array(tiny.TOKENS[:5]), max_tokens=6) == wanted[0]
    assert generate(model, tokenizer, texts, max_tokens=6) == wanted
    assert capsys.readouterr().out == ""
    generate(model, tokenizer, texts[0], max_tokens=6, verbose=True)
    out = capsys.readouterr().out
    assert out.startswith(wanted[0]) and "Prompt: 5 tokens" in out and "Generation: 6 tokens" in out


def test_each_text_of_a_batch_ends_at_its_own_stop_token(model):
    prompts = [tiny.TOKENS[:5], tiny.TOKENS[5:9]]
    alone = [greedy(model, prompt, 10) for prompt in prompts]
    stop = alone[0][2]
    wanted = [Letters().decode(ids[: ids.index(stop)] if stop in ids else ids) for ids in alone]
    assert generate(model, Letters(), prompts, max_tokens=10, stop_tokens=[stop]) == wanted


def test_no_tokens_are_made_where_none_are_wanted(model):
    assert made(model, PROMPT, max_tokens=0) == []
    assert generate(model, Letters(), PROMPT, max_tokens=0) == ""


def test_generation_ends_with_the_context(model):
    prompt = [i % 96 for i in range(125)]
    steps = list(stream_generate(model, Letters(), prompt, max_tokens=50))
    assert len(steps) == 3 and steps[-1].finish_reason == "length"


@pytest.mark.parametrize(
    ("prompts", "words"),
    [
        ([], "there is no prompt"),
        ([[]], "the prompt has no tokens"),
        ([[1], []], "prompt 1 has no tokens"),
        ([[0] * 129], "the prompt has 129 tokens, the model's context is 128 tokens long"),
        ([[1, 96]], "the prompt has the token 96, the model's vocabulary has 96"),
        ([[1, -1]], "the prompt has the token -1"),
    ],
)
def test_prompts_that_the_model_cannot_take_are_refused(model, prompts, words):
    with pytest.raises(ValueError, match=words):
        generate_tokens(model, prompts)


@pytest.mark.parametrize("token", [1.5, True, "a"])
def test_tokens_that_are_no_integers_are_refused_by_name(model, token):
    with pytest.raises(TypeError, match=f"the prompt has {token!r}, token ids are integers"):
        generate_tokens(model, [[1, token]])


def test_a_cache_of_another_number_of_layers_is_refused_before_anything_is_computed(model):
    with pytest.raises(ValueError, match="cache has 2 objects, the model has 3 layers"):
        generate_tokens(model, [[1]], cache=model.make_cache()[:2])


def test_a_stream_refuses_a_prompt_before_it_begins(model):
    with pytest.raises(ValueError, match="the prompt has 129 tokens"):
        stream_generate(model, Letters(), [0] * 129)


def test_a_cache_that_is_full_refuses_a_prompt(model):
    cache = model.make_cache()
    made(model, [1] * 100, max_tokens=1, cache=cache)
    with pytest.raises(ValueError, match="has 30 tokens after 101 in the cache, the model's context is 128"):
        generate_tokens(model, [[1] * 30], cache=cache)


def test_prompts_of_different_lengths_need_an_empty_cache(model):
    cache = model.make_cache()
    made(model, PROMPT, max_tokens=1, cache=cache)
    with pytest.raises(ValueError, match="need a cache that is empty"):
        generate_tokens(model, [[1], [1, 2]], cache=cache)


def test_numbers_out_of_range_are_refused(model):
    with pytest.raises(ValueError, match="max_tokens must be 0 or more"):
        generate_tokens(model, [[1]], max_tokens=-1)
    with pytest.raises(ValueError, match="prefill_step_size positive"):
        generate_tokens(model, [[1]], prefill_step_size=0)


def test_a_model_refuses_tokens_and_caches_of_other_shapes(model):
    with pytest.raises(ValueError, match=r"tokens must have shape \(batch, length\), got \(3,\)"):
        model(mx.array([1, 2, 3]))
    with pytest.raises(ValueError, match="a cache for 2 layers was given, the model has 3"):
        model(mx.array([[1]]), model.make_cache()[:2])


def test_a_seeded_sampler_draws_the_same_text_again(model):
    def draw(seed):
        keys = iter(mx.random.split(mx.random.key(seed), 20))
        return made(model, PROMPT, max_tokens=20, sampler=lambda x: mx.random.categorical(x, key=next(keys)))

    assert draw(1) == draw(1) != draw(2)
    assert np.unique(draw(1)).size > 1
