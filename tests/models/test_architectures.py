"""Members of the Llama family against transformers: tiny models with the weights of tiny.py, written as folders."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny

import mlxc as mx
from mlxc.models import load_model
from mlxc.models.cache import KVCache

DATA = Path(__file__).parent / "data"
LOGITS = np.load(DATA / "transformers.npz")
TOKENS = mx.array([tiny.TOKENS])


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    made = {}

    def get(case):
        if case not in made:
            made[case] = load_model(tiny.write_folder(tmp_path_factory.mktemp("model"), tiny.config_of(case)))
        return made[case]

    return get


@pytest.mark.parametrize("case", tiny.CONFIGS)
def test_logits_are_those_of_transformers(case, model_of):
    np.testing.assert_allclose(np.array(model_of(case)(TOKENS)[0]), LOGITS[case], rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", tiny.CONFIGS)
@pytest.mark.parametrize("parts", [[1] * 24, [24], [7, 9, 1, 1, 6]], ids=["single", "whole", "chunks"])
def test_with_a_cache_logits_are_the_same(case, parts, model_of):
    model, cache, begin, rows = model_of(case), model_of(case).make_cache(), 0, []
    for size in parts:
        rows.append(model(TOKENS[:, begin : begin + size], cache))
        begin += size
    got = np.array(mx.concatenate(rows, axis=1)[0])
    np.testing.assert_allclose(got, LOGITS[case], rtol=0, atol=1e-5)
    assert [part.offset for part in cache] == [24] * len(model.layers)


@pytest.mark.parametrize("case", ["llama", "mistral", "gemma2"])
def test_rows_of_a_batch_do_not_see_their_padding(case, model_of):
    model = model_of(case)
    padding = mx.array([0, 10, 3])
    rows = mx.concatenate([TOKENS, mx.pad(TOKENS[:, :14], [(0, 0), (10, 0)]), mx.pad(TOKENS[:, :21], [(0, 0), (3, 0)])])
    cache = [KVCache() for _ in model.layers]
    got = mx.concatenate([model(part, cache, padding) for part in mx.split(rows, [13, 14], axis=1)], axis=1)
    for row, skipped in enumerate(padding.tolist()):
        np.testing.assert_allclose(np.array(got[row, skipped:]), LOGITS[case][: 24 - skipped], rtol=0, atol=1e-5)
